"""What private boosting costs: one release of first facts, and one for every batch of trees.

With T trees and a share f of the budget for edges, the first scores and every tree take
(1 - f) / (T + 1) of the budget; without edges, f is 0. All of it is charged to all rows: a record
is in one leaf of every tree. The parts add up to the budget exactly, whatever the rows hold, and
nothing is left over for a second question.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from msgspec import UNSET

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.scopes import Spend
from spinney.protocols.accounts.budget import Noise, job_terms, noise_of, summed_variance
from spinney.protocols.accounts.private_rows import require_classes, require_ranges, require_small
from spinney.protocols.private_boosting.settings import Choice, Settings, choose
from spinney.protocols.rows.facts import public_binning, target_range
from spinney.protocols.settings import PrivacySettings, fraction_of
from spinney.tables.schema import Schema
from spinney.trees.bounded_gradients import SCALE, BoundedLoss, Moved, loss_of
from spinney.trees.dtypes import MAX_BINS

EDGE_CELLS = 1024


@dataclass(frozen=True)
class BoostingPlan:
    """What each release costs."""

    called: ClassVar[str] = "spinney.protocols.private_boosting.BoostingPlan"

    settings: Settings
    n_numbers: int  # columns whose edges are counted
    n_columns: int
    n_classes: int  # 0 for a number
    n_trees: int
    batch: int
    depth: int
    n_parties: int

    def __post_init__(self) -> None:
        most = max(self.n_base + self.n_edge_cells, self.n_values(self.batch))
        require_small(
            f"{self.batch} trees of depth {self.depth} at once",
            most,
            self.settings.message_limit,
            "Use a smaller batch_trees or max_depth.",
        )
        self.tree_noise(1)  # raises if the shares are impossible
        if self.settings.n_rows is not None:
            self._require_rows(self.settings.n_rows)

    def _require_rows(self, n_rows: int) -> None:
        """Raise if the noise of one tree's sums drowns all declared rows."""
        deviation = self.step_deviation
        needed = 4 * deviation
        if n_rows >= needed:
            return
        more = needed / n_rows
        epsilon = float(self.privacy.amount)
        raise SettingError(
            f"n_rows={n_rows} is too small a table for epsilon={epsilon:g}: the sums of a whole "
            f"tree would carry noise of about {deviation:.3g} rows, and the model would be little "
            f"better than chance (expect an AUC of about {self.expected_auc(n_rows):.2f}). About "
            f"{needed:,.0f} rows, or epsilon={epsilon * more:.2g}, would begin to work; so may "
            "fewer columns."
        )

    def expected_auc(self, n_rows: int) -> float:
        """Return a rough guess at the AUC, if without noise it were 0.9."""
        signal = n_rows / (4 * self.step_deviation)
        return 0.5 + 0.4 * signal / (signal + 1.0)

    @property
    def step_deviation(self) -> float:
        """The standard deviation of the noise of a whole tree's gradients, in rows."""
        noise = self.tree_noise(1)
        variance = summed_variance(noise, self.n_parties) * (1 << self.depth)
        return float(variance**0.5 / SCALE)

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return self.settings.privacy

    @cached_property
    def loss(self) -> BoundedLoss:
        """What is minimised."""
        return loss_of(self.n_classes, is_pure=self.privacy.delta is UNSET)

    @property
    def n_base(self) -> int:
        """How many numbers the first scores follow from."""
        return self.loss.n_base

    @property
    def n_edge_cells(self) -> int:
        """How many cells are counted for edges."""
        return self.n_numbers * EDGE_CELLS

    def n_values(self, n_trees: int) -> int:
        """Return how many numbers some trees have."""
        return n_trees * (1 << self.depth) * self.loss.n_sums

    @property
    def _edge_part(self) -> Fraction:
        return (
            fraction_of(self.settings.edge_share, "edge_share") if self.n_numbers else Fraction(0)
        )

    @property
    def _tree_part(self) -> Fraction:
        return (1 - self._edge_part) / (self.n_trees + 1)

    def _noise(self, part: Fraction, moved: Moved, times: int = 1) -> Noise:
        absolute, squared = moved.absolute * times, moved.squared * times
        return noise_of(self.privacy, self.n_parties, part, absolute, squared)

    @cached_property
    def edge_noise(self) -> Noise:
        """The noise of cells; a record is in one cell of every number."""
        return self._noise(self._edge_part, Moved(Fraction(1), Fraction(1)), self.n_numbers)

    @cached_property
    def base_noise(self) -> Noise:
        """The noise of the sums behind the first scores."""
        return self._noise(self._tree_part, self.loss.base_moved)

    def tree_noise(self, n_trees: int) -> Noise:
        """Return the noise of the sums of a batch's leaves: one record is in one leaf of each."""
        return self._noise(self._tree_part * n_trees, self.loss.moved, n_trees)

    def fact_spends(self) -> list[Spend]:
        """Return the price of the first facts."""
        base = Spend("sums behind the first scores", self.base_noise, n_values=self.n_base)
        if not self.n_numbers:
            return [base]
        edges = Spend(
            f"histograms of {self.n_numbers} columns", self.edge_noise, n_values=self.n_edge_cells
        )
        return [base, edges]

    def batch_spends(self, number: int) -> list[Spend]:
        """Return the price of a batch of trees."""
        n_trees = min(self.batch, self.n_trees - number * self.batch)
        what = f"sums of the leaves of {n_trees} drawn trees, batch {number}"
        return [Spend(what, self.tree_noise(n_trees), n_values=self.n_values(n_trees))]

    def planned(self) -> list[Spend]:
        """Return everything the job spends."""
        batches = range(-(-self.n_trees // self.batch))
        return [*self.fact_spends(), *(spend for b in batches for spend in self.batch_spends(b))]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


def plan_of(schema: Schema, settings: Settings, n_parties: int) -> tuple[BoostingPlan, Choice]:
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
    plan = BoostingPlan(
        choice.settings,
        n_numbers,
        len(schema.columns),
        n_classes,
        choice.n_trees,
        choice.batch,
        choice.depth,
        n_parties,
    )
    return plan, choice
