"""What boosting from noisy sums costs: first facts, every batch of trees, and a tree's leaves.

A tree that is distilled takes its `leaf_share` of the budget for the counts of its leaves. Of the
rest, with T trees and a share f for edges, the first scores and every tree take (1 - f) / (T + 1);
without edges, f is 0. Of numbers, the histogram behind the first scores takes 3 % of 1 - f. Where
curves are fitted beside trees, moments take a tenth of what is left, pulls a quarter, histograms of
residuals a 25th, each divided evenly over its rounds, and trees the rest. All of it is charged to
all rows: a record is in one leaf of every tree. The parts add up to the budget exactly, whatever
the rows hold, and nothing is left over for a second question.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from msgspec import UNSET

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.scopes import Spend
from spinney.protocols.accounts.budget import Noise, job_terms, noise_of, summed_variance
from spinney.protocols.accounts.private_rows import require_classes, require_ranges, require_small
from spinney.protocols.noisy_boosting.settings import Batch, Choice, Settings, choose
from spinney.protocols.rows.facts import public_binning, target_range
from spinney.protocols.settings import LARGEST_NOISE, PrivacySettings, fraction_of
from spinney.tables.schema import Schema
from spinney.trees.bounded_gradients import BoundedLoss, ClassCounts, Moved, loss_of
from spinney.trees.curves import moments_moved, n_moments, n_terms, pulls_moved
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.residuals import RESIDUAL_CELLS
from spinney.typing import Integers

EDGE_CELLS = 1024
_TARGET_PART = Fraction(3, 100)
_MOMENT_PART, _PULL_PART, _RESIDUAL_PART = Fraction(1, 10), Fraction(1, 4), Fraction(1, 25)
_FEWEST = 5  # times the noise of a leaf: with fewer rows there is nothing to learn
_ONE = Moved(Fraction(1), Fraction(1))


@dataclass(frozen=True)
class BoostingPlan:
    """What each release costs."""

    called: ClassVar[str] = "spinney.protocols.private_boosting.BoostingPlan"

    settings: Settings  # as chosen
    choice: Choice
    n_numbers: int  # columns whose edges are counted
    n_columns: int
    n_classes: int  # 0 for a number
    n_parties: int

    def __post_init__(self) -> None:
        batches = self.choice.batches
        most = max(self.n_base + self.n_edge_cells, *map(self.n_values, batches))
        require_small(
            f"{max(len(batch.trees) for batch in batches)} trees at once",
            most,
            self.settings.message_limit,
            "Use a smaller batch_trees or max_depth.",
        )
        if self.leaf_deviation > LARGEST_NOISE:  # raises too if the shares are impossible
            raise SettingError(
                f"epsilon={float(self.privacy.amount):g} leaves too little budget for each tree: "
                f"its leaves would carry noise of about {self.leaf_deviation:.3g} rows. Raise "
                "epsilon, or use fewer columns."
            )
        if self.settings.n_rows is not None:
            self._require_rows(self.settings.n_rows)

    def _require_rows(self, n_rows: int) -> None:
        """Raise if the noise of one tree's leaves drowns all declared rows."""
        deviation = self.leaf_deviation
        needed = _FEWEST * deviation
        if n_rows >= needed:
            return
        more = needed / n_rows
        epsilon = float(self.privacy.amount)
        chance = f"chance (expect an AUC of about {self.expected_auc(n_rows):.2f})"
        raise SettingError(
            f"n_rows={n_rows} is too small a table for epsilon={epsilon:g}: the sums of a "
            f"leaf would carry noise of about {deviation:.3g} rows, and the model would be little "
            f"better than {chance if self.n_classes else 'the same number for every row'}. About "
            f"{needed:,.0f} rows, or epsilon={epsilon * more:.2g}, would begin to work; so may "
            "fewer columns."
        )

    def expected_auc(self, n_rows: int) -> float:
        """Return a rough guess at the AUC, if without noise it were 0.9."""
        signal = n_rows / (_FEWEST * self.leaf_deviation)
        return 0.5 + 0.4 * signal / (signal + 1.0)

    @cached_property
    def leaf_deviation(self) -> float:
        """The standard deviation of the noise of a leaf of the first trees, in rows."""
        batch = next(batch for batch in self.choice.batches if batch.trees)
        variance = summed_variance(self.batch_noise(batch), self.n_parties)
        return float(variance**0.5 / self.loss_of(batch).scale)

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return self.settings.privacy

    @cached_property
    def loss(self) -> BoundedLoss:
        """What is minimised."""
        return loss_of(self.n_classes, is_pure=self.privacy.delta is UNSET)

    def loss_of(self, batch: Batch) -> BoundedLoss:
        """Return the loss whose sums a batch's leaves hold."""
        return ClassCounts(self.n_classes) if batch.counts_classes else self.loss

    @property
    def n_base(self) -> int:
        """How many numbers the first scores follow from."""
        return self.loss.n_base

    @property
    def n_edge_cells(self) -> int:
        """How many cells are counted for edges."""
        return self.n_numbers * EDGE_CELLS

    def n_values(self, batch: Batch) -> int:
        """Return how many numbers a batch has."""
        return sum(n for _, _, n in self._releases(batch))

    @property
    def n_terms(self) -> int:
        """How many terms the curves have."""
        return n_terms(self.n_columns, self.choice.degree)

    @cached_property
    def _leaf_part(self) -> Fraction:
        tree = self.settings.tree
        return Fraction(0) if tree is None else fraction_of(tree.leaf_share, "leaf_share")

    @cached_property
    def _edge_part(self) -> Fraction:
        share = fraction_of(self.settings.edge_share, "edge_share") if self.n_numbers else 0
        return share * (1 - self._leaf_part)

    @cached_property
    def _base_part(self) -> Fraction:
        """The part for the first scores: of numbers, their histogram's."""
        rest = 1 - self._leaf_part - self._edge_part
        return rest / (self.choice.n_trees + 1) if self.n_classes else _TARGET_PART * rest

    @property
    def _tree_part(self) -> Fraction:
        rest = self._boosting_part
        if self.choice.degree:
            rest *= 1 - _MOMENT_PART - _PULL_PART - _RESIDUAL_PART
        return rest / self.choice.n_trees

    @property
    def _boosting_part(self) -> Fraction:
        """The part for all batches."""
        return 1 - self._leaf_part - self._edge_part - self._base_part

    def _noise(self, part: Fraction, moved: Moved, times: int = 1) -> Noise:
        absolute, squared = moved.absolute * times, moved.squared * times
        return noise_of(self.privacy, self.n_parties, part, absolute, squared)

    @cached_property
    def edge_noise(self) -> Noise:
        """The noise of cells; a record is in one cell of every number."""
        return self._noise(self._edge_part, _ONE, self.n_numbers)

    @cached_property
    def base_noise(self) -> Noise:
        """The noise of the sums behind the first scores."""
        return self._noise(self._base_part, self.loss.base_moved)

    def batch_noise(self, batch: Batch) -> Noise:
        """Return the noise of the sums of a batch's leaves: one record is in one leaf of each."""
        n_trees = len(batch.trees)
        return self._noise(self._tree_part * n_trees, self.loss_of(batch).moved, n_trees)

    @cached_property
    def leaf_noise(self) -> Noise:
        """The noise of the class counts of the leaves of a distilled tree."""
        return self._noise(self._leaf_part, _ONE)

    def fact_spends(self) -> list[Spend]:
        """Return the price of the first facts."""
        base = Spend("sums behind the first scores", self.base_noise, n_values=self.n_base)
        if not self.n_numbers:
            return [base]
        edges = Spend(
            f"histograms of {self.n_numbers} columns", self.edge_noise, n_values=self.n_edge_cells
        )
        return [base, edges]

    @cached_property
    def pull_noise(self) -> Noise:
        """The noise of the pulls on the terms of curves, in every batch."""
        part = _PULL_PART * self._boosting_part / len(self.choice.batches)
        return self._noise(part, pulls_moved(self.n_terms))

    @cached_property
    def residual_noise(self) -> Noise:
        """The noise of a histogram of residuals; a record is in one of its cells."""
        n_counts = sum(batch.counts_residuals for batch in self.choice.batches)
        return self._noise(_RESIDUAL_PART * self._boosting_part / n_counts, _ONE)

    @cached_property
    def moment_noise(self) -> Noise:
        """The noise of the moments of the terms of curves, which are counted once."""
        return self._noise(_MOMENT_PART * self._boosting_part, moments_moved(self.n_terms))

    def _releases(self, batch: Batch) -> Iterator[tuple[str, Callable[[], Noise], int]]:
        """Yield what a batch releases, one after another: its name, noise and size."""
        if batch.trees:
            held = "class counts" if batch.counts_classes else "sums"
            what = f"{held} of the leaves of {len(batch.trees)} drawn trees"
            size = batch.n_leaves * self.loss_of(batch).n_sums
            yield what, partial(self.batch_noise, batch), size
        if batch.bends:
            yield "pulls on the terms of curves", lambda: self.pull_noise, self.n_terms
        if batch.counts_residuals:
            yield "a histogram of residuals", lambda: self.residual_noise, RESIDUAL_CELLS
        if batch.counts_moments:
            yield "moments of curves", lambda: self.moment_noise, n_moments(self.n_terms)

    def batch_spends(self, number: int) -> list[Spend]:
        """Return the prices of what a batch releases, one after another."""
        return [
            Spend(f"{what}, batch {number}", noise(), n_values=size)
            for what, noise, size in self._releases(self.choice.batches[number])
        ]

    def parts(self, number: int, values: Integers) -> list[Integers]:
        """Return what a batch released, one after another, from all of its numbers."""
        sizes = [size for *_, size in self._releases(self.choice.batches[number])]
        return np.split(values, np.cumsum(sizes)[:-1])

    def leaf_spends(self, n_leaves: int) -> list[Spend]:
        """Return the price of the leaves of a distilled tree; a record is in one of them."""
        what = "class counts of the leaves of the distilled tree"
        return [Spend(what, self.leaf_noise, n_values=n_leaves * self.n_classes)]

    def planned(self) -> list[Spend]:
        """Return everything the job spends."""
        batches = range(len(self.choice.batches))
        tree = self.settings.tree
        return [
            *self.fact_spends(),
            *(spend for number in batches for spend in self.batch_spends(number)),
            *(self.leaf_spends(1 << tree.max_depth) if tree is not None else ()),
        ]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


def plan_of(schema: Schema, settings: Settings, n_parties: int) -> BoostingPlan:
    """Return what the job costs; raise if the settings cannot be met."""
    require_ranges(schema)
    public_binning(schema, MAX_BINS)  # raises for categories that are not declared
    n_classes = 0
    if settings.task == "classification":
        n_classes = require_classes(schema)
        if n_classes < 2:
            raise SettingError(
                f"The label {schema.label.name!r} declares one class. Declare all classes that a "
                "row may have."
            )
    else:
        target_range(schema.label)  # raises if there is none
    choice = choose(settings, schema)
    is_counted = settings.edges == "private"
    n_numbers = sum(column.kind == "number" for column in schema.columns) if is_counted else 0
    return BoostingPlan(
        choice.settings, choice, n_numbers, len(schema.columns), n_classes, n_parties
    )
