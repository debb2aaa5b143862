"""How the coordinator uses randomised labels: estimates of counts, stopping rules, leaf values.

All of it is computed from sums of answers and costs nothing.

- **Splits.** With k-ary randomised response, reported counts are used directly: the Gini gain of
  reported labels is that of the true labels times (p - q)^2, so the same cut wins, without bias.
  Sums of bits are first converted to class counts.
- **Stops.** Answers are never pure. A node becomes a leaf if noise cannot distinguish it from a
  pure node: its largest class is estimated at one, less one standard error. The paper's scheme
  stops if least squares leaves only one class.
- **Leaves.** An estimate from a few answers is mostly noise, so leaves borrow from the nodes above
  them (`trees.leaf_counts.shrink`). Then no share is negative and all add up to one. The paper's
  scheme keeps the least-squares estimate of each leaf.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np

from spinney.privacy.labels import BloomResponse, UnaryResponse, bloom_filters
from spinney.privacy.mechanisms import RandomisedResponse, project_to_simplex
from spinney.protocols.extra_trees.labels import LabelPlan, Response
from spinney.protocols.rows.levels import GrowingJob
from spinney.trees.counts import Counters
from spinney.trees.cuts import Candidates, CutSearch, Decided
from spinney.trees.forest import Forest
from spinney.trees.frontier import ColumnCells, weighted_sums
from spinney.trees.growth import Growth, StoppingRules
from spinney.trees.layout import LeafValues
from spinney.trees.leaf_counts import nonnegative_fit, shrink
from spinney.typing import Bools, Floats, Integers

_STEPS: Final = 256  # steps per row in estimated counts, which are whole numbers
_SWEEPS: Final = 500  # at most; most rows need a few
_STRENGTH: Final = 30.0  # rows that an estimate borrows, per unit of noise in one row's answer


@dataclass(frozen=True)
class Estimates:
    """Estimates class counts from counters of answers."""

    response: Response

    def rows(self, counters: Counters) -> Integers:
        """Return how many rows each cell holds."""
        if isinstance(self.response, RandomisedResponse):
            rows: Integers = counters.sum(axis=1)
            return rows
        return counters[:, 0].astype(np.int64)

    def shares(self, counters: Counters) -> Floats:
        """Return unbiased class shares; some may be negative if there are few answers."""
        rows = np.maximum(self.rows(counters), 1)[:, None]
        if isinstance(self.response, UnaryResponse):
            return self.response.estimated_shares(counters[:, 1:] / rows)
        if isinstance(self.response, BloomResponse):
            return self._least_squares(counters) / rows
        keep, other = self._chances
        return (counters / rows - other) / (keep - other)

    def counts(self, counters: Counters) -> Floats:
        """Return class counts, none of them negative, that add up to the number of rows."""
        if isinstance(self.response, BloomResponse):
            return self._least_squares(counters)
        rows = self.rows(counters)[:, None].astype(np.float64)
        return project_to_simplex(self.shares(counters) * rows, rows)

    @property
    def _chances(self) -> tuple[float, float]:
        """The probability of an answer, given the label's own class and given another class."""
        if isinstance(self.response, RandomisedResponse):
            keep = self.response.keep_probability
            return keep, (1 - keep) / (self.response.n_categories - 1)
        if isinstance(self.response, UnaryResponse):
            return 0.5, self.response.other_probability
        return self.response.one_probability, self.response.other_probability

    @property
    def noise(self) -> float:
        """The variance that randomisation adds to one row's estimated class share."""
        keep, other = self._chances
        return max(keep * (1 - keep), other * (1 - other)) / (keep - other) ** 2

    def _least_squares(self, counters: Counters) -> Floats:
        """Return the counts whose expected bits are closest to the reported ones.

        A bit's sum, minus its expectation if no label sets the bit, gives the number of labels that
        set it. The filters are the design matrix.
        """
        assert isinstance(self.response, BloomResponse)
        rows = counters[:, :1].astype(np.float64)
        keep, other = self._chances
        bits = (counters[:, 1:] - other * rows) / (keep - other)
        design = bloom_filters(self.response.n_classes)
        out = nonnegative_fit(design, bits, _SWEEPS)
        total = out.sum(axis=1, keepdims=True)
        out *= np.divide(rows, total, out=np.ones_like(total), where=total > 0)
        return out


@dataclass(frozen=True)
class LabelRules(StoppingRules):
    """Stopping rules for nodes, based on randomised answers."""

    estimates: Estimates | None = None

    @classmethod
    def of(cls, rules: StoppingRules, estimates: Estimates) -> "LabelRules":
        """Return the rules; the smallest leaf grows with the noise of one answer."""
        is_paper = isinstance(estimates.response, BloomResponse)
        least = 1 if is_paper else ceil(estimates.noise)
        facts = vars(rules) | {"min_samples_leaf": max(rules.min_samples_leaf, least)}
        return cls(**facts, estimates=estimates)

    @property
    def _known(self) -> Estimates:
        assert self.estimates is not None
        return self.estimates

    def rows(self, moments: Integers) -> Integers:
        """Return how many rows each node holds."""
        return self._known.rows(moments)

    def weight(self, moments: Integers, class_weight: Floats) -> Floats:
        """Return the weight of each node's rows."""
        return weighted_sums(self._known.counts(moments), class_weight)

    def is_mixed(self, moments: Integers, class_weight: Floats) -> Bools:  # noqa: ARG002
        """Return which nodes detectably hold rows of more than one class."""
        if isinstance(self._known.response, BloomResponse):
            found = self._known.counts(moments)
            mixed: Bools = (found > found.sum(axis=1, keepdims=True) / _STEPS).sum(axis=1) > 1
            return mixed
        largest = self._known.shares(moments).max(axis=1, initial=0.0)
        error = np.sqrt(self._known.noise / np.maximum(self.rows(moments), 1))
        seen: Bools = largest < 1.0 - error
        return seen


@dataclass(frozen=True)
class BitSearch:
    """Searches estimated counts for the best of the drawn cuts, if cells count bits."""

    inner: CutSearch
    estimates: Estimates

    @classmethod
    def of(cls, search: CutSearch, estimates: Estimates) -> "BitSearch":
        """Return the search, in which a row counts as `_STEPS` steps."""
        least = replace(search.least, rows=search.least.rows * _STEPS)
        return cls(replace(search, least=least), estimates)

    def best(
        self,
        counters: Counters,
        candidates: Candidates,
        columns: ColumnCells,
        root_weight: Floats,
        *,
        only_first: Bools | None = None,
    ) -> Decided:
        """Return the best cuts of some nodes; what goes left is counted in bits."""
        scaled, steps = root_weight * _STEPS, self._in_steps
        found = self.inner.best(counters, candidates, columns, scaled, steps, only_first=only_first)
        return found.counted_by(counters, candidates.slots, 1 / _STEPS)

    def _in_steps(self, counters: Counters) -> Counters:
        return np.rint(self.estimates.counts(counters) * _STEPS).astype(np.int64)


def value_leaves(growth: Growth, job: GrowingJob, plan: LabelPlan, values: LeafValues) -> Forest:
    """Return the forest with estimates instead of answers."""
    forest = growth.forest(job.binning, LeafValues(np.ones(job.cell_counters)))
    estimates = Estimates(plan.response)
    counts = estimates.counts(forest.moments)
    if isinstance(plan.response, BloomResponse):
        shares = counts
    else:
        rows = estimates.rows(forest.moments).astype(np.float64)
        strength = _STRENGTH * estimates.noise
        shares = shrink(forest, estimates.shares(forest.moments), rows, strength)
        shares = project_to_simplex(shares, np.ones((len(shares), 1)))
    weighted = shares * values.class_weight
    total = weighted.sum(axis=1, keepdims=True)
    even = np.full_like(weighted, 1.0 / weighted.shape[1])
    value = np.divide(weighted, total, out=even, where=total > 0)
    return replace(forest, moments=np.rint(counts).astype(np.int64), value=value)
