"""How a forest's budget is divided: in exact fractions that every party computes.

A record stands in one node per level. If it is added or removed, it changes one counter in each of
the m slots of that node, in every tree that reads it. With T trees, d levels and e the job's
epsilon:

| tree_rows | a tree may spend, e_tree |
|---|---|
| disjoint | e: a row is in one tree, so the trees together cost their maximum |
| all | e / T: every row is in every tree |
| sampled | the x with ln(1 + q (exp(x) - 1)) = e / T, rounded down: a secret coin picks each row |

A level spends e_tree (1 - leaf_share) / d on a vector that one record changes by m in total:
discrete Laplace noise of decay e_level / m on every counter. The leaves are counted again at the
end, with everything the tree has left: e_tree minus the cost of its levels. There one record
changes one counter by 1, so leaves are known far better than the cells they were cut from.

Sums of targets are a second vector: counts and sums get half of a release's epsilon each. A target
is measured from the middle of its range, so one record changes a sum by at most half the range.

`epsilon_per_count` = e0 follows S1: decay e0 on every counter, nothing divided, no second count of
leaves. The job then costs T d m e0, and with a bootstrap up to twelve times that.

Trees grow side by side, and each may use everything released before. Charges are checked one by one
as they come (an adaptive filter, see `privacy.accounting`). For trees on samples, Vadhan and Wang
2021 (concurrent composition of pure privacy) show that the charges add up although they interleave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from spinney.errors import InternalError, SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Cost, Measure, Unit, exp_bounds, log_bounds, subsampled_cost
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import ALL_ROWS, Disclosure, Scope, Spend
from spinney.protocols.accounts.budget import job_terms, totals_disclosure
from spinney.protocols.settings import ForestSettings, PrivacySettings, fraction_of
from spinney.trees.dtypes import MAX_WEIGHT, TARGET_BITS
from spinney.typing import Integers

_BITS = 192
_COARSE = 1 << 80  # an epsilon computed with logarithms is a multiple of 2**-80
_LEAST_DECAY = Fraction(1, 2**36)  # for noise on sums: targets are coarsened until it is reached
_LEAST_TARGET_BITS = 4


@dataclass(frozen=True)
class ForestPlan:
    """What each release of a forest with noisy histograms costs.

    Parameters
    ----------
    settings
        The job's settings; `settings.privacy` gives the budget and the mechanism.
    n_columns, n_classes, n_parties
        Public facts; 0 classes for regression.
    """

    called: ClassVar[str] = "<class 'spinney.protocols.budgeting.ForestPlan'>"

    settings: ForestSettings
    n_columns: int
    n_classes: int
    n_parties: int

    def __post_init__(self) -> None:
        _require_noisy_settings(self.settings)
        self.mechanisms(self.level_epsilon, self.n_slots)  # raises if the noise would not fit
        if self.counts_leaves:
            self.mechanisms(self.leaf_epsilon(self.n_levels), 1)

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        if self.settings.privacy is None:
            raise InternalError("A plan needs the settings of a private job.")
        return self.settings.privacy

    @property
    def n_levels(self) -> int:
        """d, the number of levels that may be asked about."""
        if self.settings.max_depth is None:
            raise InternalError("A private job needs a maximum depth.")
        return self.settings.max_depth

    @property
    def n_slots(self) -> int:
        """m, the number of counters of a level that one record is in."""
        return self.settings.n_slots(self.n_columns)

    @property
    def counts_leaves(self) -> bool:
        """Whether leaves are counted again at the end."""
        return self.privacy.epsilon is not None

    @cached_property
    def tree_epsilon(self) -> Fraction:
        """What one tree may spend on the rows it reads; only if the job has a budget."""
        epsilon, n_trees = self.privacy.amount, self.settings.n_estimators
        if self.privacy.tree_rows == "disjoint":
            return epsilon
        if self.privacy.tree_rows == "sampled":
            rate = fraction_of(self.privacy.sample_rate, "sample_rate")
            return before_sampling(epsilon / n_trees, rate)
        return epsilon / n_trees

    @property
    def level_epsilon(self) -> Fraction:
        """What a level costs the rows of a tree, for all vectors of a release together."""
        if not self.counts_leaves:
            return self.privacy.amount * self.n_slots * self._n_vectors
        kept = fraction_of(self.privacy.leaf_share, "leaf_share")
        return self.tree_epsilon * (1 - kept) / self.n_levels

    def leaf_epsilon(self, n_levels: int) -> Fraction:
        """Return what is left for the leaves of a tree after `n_levels` levels."""
        return self.tree_epsilon - n_levels * self.level_epsilon

    @property
    def _n_vectors(self) -> int:
        return 1 if self.n_classes else 2

    @cached_property
    def target_bits(self) -> int:
        """The bits of a fixed-point target: fewer if noise drowns the low bits anyway."""
        bits = TARGET_BITS
        each = self.level_epsilon / 2 / self.n_slots
        while bits > _LEAST_TARGET_BITS and each / 2 ** (bits - 1) < _LEAST_DECAY:
            bits -= 1
        return bits

    def mechanisms(self, epsilon: Fraction, n_counters: int) -> tuple[DiscreteLaplace, ...]:
        """Return the noise of a release's vectors; a record is in `n_counters` counters of each.

        Class counts are one vector; weights and sums of targets are two.
        """
        shares = self.privacy.shares(self.n_parties)
        each = epsilon / self._n_vectors
        counts = DiscreteLaplace(each, Fraction(n_counters), shares=shares)
        if self.n_classes:
            return (counts,)
        half_range = 2 ** (self.target_bits - 1)
        return counts, DiscreteLaplace(each, Fraction(n_counters * half_range), shares=shares)

    def scope(self, tree: int) -> Scope:
        """Return the rows that a tree reads."""
        match self.privacy.tree_rows:
            case "disjoint":
                n_trees = (
                    self.settings.n_estimators
                )  # a different number of trees deals rows differently
                return ALL_ROWS.part(f"rows dealt to {n_trees} trees", f"tree {tree}")
            case "sampled":
                rate = fraction_of(self.privacy.sample_rate, "sample_rate")
                return ALL_ROWS.sampled(f"tree {tree}", rate)
            case "bootstrap":
                return ALL_ROWS.repeated(f"tree {tree}", MAX_WEIGHT)
        return ALL_ROWS.again(f"tree {tree}")

    def level_spends(self, depth: int, trees: Sequence[int], n_values: int = 1) -> list[Spend]:
        """Return the price of a level's histograms for some trees, one spend per vector."""
        noise = self.mechanisms(self.level_epsilon, self.n_slots)
        return self._spends(noise, f"histograms of level {depth}", trees, n_values)

    def leaf_spends(self, n_levels: int, trees: Sequence[int], n_values: int = 1) -> list[Spend]:
        """Return the price of the leaves of trees that have paid for `n_levels` levels."""
        noise = self.mechanisms(self.leaf_epsilon(n_levels), 1)
        return self._spends(noise, f"leaves after {n_levels} levels", trees, n_values)

    def _spends(
        self, noise: Sequence[DiscreteLaplace], what: str, trees: Sequence[int], n_values: int
    ) -> list[Spend]:
        names = ("class counts",) if self.n_classes else ("row counts", "sums of targets")
        scopes = tuple(self.scope(int(tree)) for tree in trees)
        return [
            Spend(f"{name} in the {what}", mechanism, scopes, n_values=n_values)
            for name, mechanism in zip(names, noise, strict=True)
        ]

    def disclosure(self) -> Disclosure:
        """Return the disclosure of what noise does not hide: roughly how many rows a party has."""
        return totals_disclosure(self.privacy, self.n_parties)

    def planned(self) -> list[Spend]:
        """Return everything the job may spend, which is checked before it starts."""
        trees = range(self.settings.n_estimators)
        spends = [s for depth in range(self.n_levels) for s in self.level_spends(depth, trees)]
        return spends + (self.leaf_spends(self.n_levels, trees) if self.counts_leaves else [])

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


def before_sampling(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Return what may be spent on a sample so that it costs all rows at most `epsilon`.

    ln(1 + (exp(epsilon) - 1) / q), rounded down.
    """
    low, high = exp_bounds(epsilon, _BITS)
    one = 1 << _BITS
    inner = Fraction(low, one) + Fraction(one - high, one) / rate  # times exp(-epsilon)
    log_low, _ = log_bounds(inner, _BITS)
    found = epsilon + Fraction(log_low, one)
    spent = Fraction(found.numerator * _COARSE // found.denominator, _COARSE)
    while spent > 0:
        cost = Cost(Measure.PURE, spent, Unit.RECORD_ADD_REMOVE)
        if subsampled_cost(cost, rate).amount <= epsilon:
            return spent
        spent -= Fraction(1, _COARSE)  # the ledger rounds up
    raise SettingError("epsilon is too small to be divided over the trees. Grow fewer trees.")


def trees_by_levels(levels_of_tree: Integers) -> dict[int, Integers]:
    """Return the trees by the number of levels they have paid for."""
    return {int(n): np.flatnonzero(levels_of_tree == n) for n in np.unique(levels_of_tree)}


def _require_noisy_settings(settings: ForestSettings) -> None:
    """Raise if the settings ask for something that only exact counts could give."""
    wrong = {
        "max_depth": settings.max_depth is None,
        "binning": settings.binning != "ranges",
        "class_weight": settings.class_weight == "balanced",
        "oob_score": settings.oob_score,
        "bootstrap": settings.bootstrap,
        "min_samples_split": isinstance(settings.min_samples_split, float),
        "min_samples_leaf": isinstance(settings.min_samples_leaf, float),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            given = getattr(settings, name)
            raise SettingError(f"{name}={given!r} cannot be used with noise. {_REASONS[name]}")


_REASONS = {
    "max_depth": "Every level costs a part of epsilon, so their number must be known: set it, for "
    "example to 4.",
    "binning": "Quantiles and bin means need exact values; only binning='ranges', over "
    "declared ranges, costs nothing.",
    "class_weight": "Balanced weights need exact class counts. Give the weights by class.",
    "oob_score": "It would be an exact count; score the forest on held-out rows instead.",
    "bootstrap": "A row drawn k times costs k times as much; use tree_rows to say which rows a "
    "tree reads.",
    "min_samples_split": "A fraction needs the exact number of rows. Give a number of rows.",
    "min_samples_leaf": "A fraction needs the exact number of rows. Give a number of rows.",
}
