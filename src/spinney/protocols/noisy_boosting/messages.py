"""The questions of boosting from noisy sums: first facts, batches of trees, a tree's leaves.

**Who learns what.** See `spinney.protocols.private_boosting` and `spinney.protocols.private_tree`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import ProtocolError
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.accounts.replies import NoisyReply, Signed
from spinney.protocols.noisy_boosting.budget import EDGE_CELLS, BoostingPlan, plan_of
from spinney.protocols.noisy_boosting.settings import CURVES_ALONE, Batch, Choice, Settings
from spinney.protocols.rows.facts import public_binning
from spinney.tables.schema import Schema
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.binning import Binning
from spinney.trees.bounded_gradients import BoundedLoss, ClippedSquares
from spinney.trees.column_scores import ColumnScores
from spinney.trees.curves import CurveTerms
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.level import Level
from spinney.trees.noisy_edges import noisy_edges
from spinney.typing import Floats, Integers

CLIP_BITS = 24
_FAR_OUT = 2.5  # standard deviations of targets


@dataclass(frozen=True)
class PublicBoosting:
    """Everything that follows from the settings and the schema."""

    schema: Schema
    plan: BoostingPlan

    @classmethod
    def of(cls, schema: Schema, settings: Settings, n_parties: int) -> "PublicBoosting":
        """Return what follows; raise if the settings cannot be met."""
        return cls(schema, plan_of(schema, settings, n_parties))

    @property
    def choice(self) -> Choice:
        """What was left open and is chosen."""
        return self.plan.choice

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The trees, round by round."""
        return self.plan.choice.batches

    def base(self, facts: Integers) -> Floats:
        """Return the first scores, given the opened first facts."""
        return self.plan.loss.base(facts[: self.plan.n_base], self._base_deviation)

    def loss_of(self, batch: Batch, so_far: "BoostedSoFar") -> BoundedLoss:
        """Return the loss whose sums a batch's leaves hold, given what is opened."""
        loss = self._scaled(self.plan.loss_of(batch), so_far.facts)
        if so_far.clip and isinstance(loss, ClippedSquares):
            return ClippedSquares(min(loss.clip, so_far.clip * 2.0**-CLIP_BITS))
        return loss

    def pulling(self, so_far: "BoostedSoFar") -> ClippedSquares:
        """Return the loss whose gradients pull on the terms of curves.

        Before the first trees residuals are the targets' own, of which many are far out.
        """
        loss = self._scaled(self.plan.loss, so_far.facts)
        assert isinstance(loss, ClippedSquares)  # curves are fitted to numbers only
        alone = len(so_far.values) < CURVES_ALONE
        clip = loss.clip * _FAR_OUT if alone else loss.clip
        return ClippedSquares(min(clip, so_far.clip * 2.0**-CLIP_BITS) if so_far.clip else clip)

    def _scaled(self, loss: BoundedLoss, facts: Integers) -> BoundedLoss:
        return loss.scaled(facts[: self.plan.n_base], self._base_deviation)

    def terms(self, binning: Binning) -> CurveTerms:
        """Return the terms of curves, which the seed alone decides, given the bins."""
        seed = seeds.derive_seed(self.plan.settings.seed, 2 + len(self.batches))
        return CurveTerms.draw(binning.columns, self.choice.degree, seeds.generator(seed))

    @property
    def _base_deviation(self) -> float:
        return float(summed_variance(self.plan.base_noise, self.plan.n_parties) ** 0.5)

    def binning(self, facts: Integers) -> Binning:
        """Return the bins of all columns, given the opened first facts."""
        public = public_binning(self.schema, MAX_BINS)
        if not self.plan.n_numbers:
            return public
        deviation = summed_variance(self.plan.edge_noise, self.plan.n_parties) ** 0.5
        cells = iter(facts[self.plan.n_base :].reshape(-1, EDGE_CELLS))
        edges = tuple(
            held
            if column.kind != "number" or column.range is None
            else noisy_edges(next(cells), deviation, column.range, MAX_BINS)
            for held, column in zip(public.edges, self.schema.columns, strict=True)
        )
        return Binning(edges, public.bin_of_category, public.has_missing)

    def columns(self, number: int, told: Sequence[Integers]) -> Integers:
        """Return the columns of a batch's trees, (n_trees, 1 or 2).

        The seed alone decides, or, of batches that take what has mattered, they are told.
        """
        first = self.choice.first_scored
        if number >= first:
            return told[number - first]
        n_columns, batch = self.plan.n_columns, self.batches[number]
        below = seeds.derive_seed(self.plan.settings.seed, 1)
        return np.array([self._columns_of(below, tree, n_columns) for tree in batch.trees])

    def scored_columns(self, number: int, scores: ColumnScores) -> Integers:
        """Return the columns of a batch's trees, drawn by scores."""
        below = 3 + len(self.batches) + number
        generator = seeds.generator(seeds.derive_seed(self.plan.settings.seed, below))
        return scores.draw(len(self.batches[number].trees), generator)

    def trees(self, binning: Binning, number: int, told: Sequence[Integers]) -> DrawnTrees:
        """Return the trees of a batch: the seed decides, given the bins and the columns told."""
        chosen, depth = self.columns(number, told), self.batches[number].depth
        generator = seeds.generator(seeds.derive_seed(self.plan.settings.seed, 2 + number))
        return DrawnTrees.draw(binning.columns, chosen, depth, generator)

    def _columns_of(self, seed: int, tree: int, n_columns: int) -> list[int]:
        """Return the columns of a tree: in each pass every column is the first of one tree."""
        order = seeds.generator(seeds.derive_seed(seed, tree // n_columns)).permutation(n_columns)
        at = tree % n_columns
        if self.choice.method == "cyclic" or n_columns == 1:
            return [int(order[at])]
        other = seeds.generator(seeds.derive_seed(seed, n_columns + tree)).integers(1, n_columns)
        return [int(order[at]), int(order[(at + int(other)) % n_columns])]


@message
class BoostedSoFar:
    """What every question about a batch repeats: the first facts, and the values of the trees."""

    settings: Settings
    schema_digest: str
    n_parties: int
    facts: NDArray[np.int64]  # opened: they carry noise
    values: tuple[NDArray[np.int64], ...]  # of each batch, (n_outputs, leaves of all its trees)
    curves: tuple[NDArray[np.int64], ...] = ()  # of each batch, coefficients; none: no curves
    columns: tuple[NDArray[np.int64], ...] = ()  # of batches that take what has mattered, one ahead
    clip: int = 0  # of residuals, in 2**-24 of half the target's range; 0: as facts have it

    def require(self, public: PublicBoosting) -> None:
        """Raise unless facts and values fit the job, and trees are left to ask about."""
        self._require(public, len(self.values) < len(public.batches))

    def require_finished(self, public: PublicBoosting) -> None:
        """Raise unless facts and values fit the job, and all its trees have values."""
        self._require(public, len(self.values) == len(public.batches))

    def _require(self, public: PublicBoosting, fits: bool) -> None:  # noqa: FBT001  a condition
        plan = public.plan
        fits &= self.facts.shape == (plan.n_base + plan.n_edge_cells,)
        for batch, value in zip(public.batches, self.values, strict=False):
            fits &= value.shape == (plan.loss.n_outputs, batch.n_leaves)
            fits &= bool(np.all(np.abs(value) < 1 << 40))
        fits &= len(self.curves) == (len(self.values) if public.choice.degree else 0)
        for curve in self.curves:
            fits &= curve.shape == (plan.n_terms,)
            fits &= bool(np.all(np.abs(curve) < 1 << 40))
        fits &= 0 <= self.clip < 1 << 40
        fits &= self._columns_fit(public)
        if not fits:
            raise ProtocolError(
                "The question's facts and values do not fit the job. Nothing was released."
            )

    def _columns_fit(self, public: PublicBoosting) -> bool:
        first, n_columns = public.choice.first_scored, public.plan.n_columns
        asked = public.batches[first : len(self.values) + 1]
        return len(self.columns) == len(asked) and all(
            columns.shape == (len(batch.trees), 2)
            and bool(np.all((columns >= 0) & (columns < n_columns)))
            and bool(np.all(columns[:, 0] != columns[:, 1]))
            for columns, batch in zip(self.columns, asked, strict=True)
        )

    def digest(self) -> bytes:
        """Return a digest of the facts, values, curves, columns and clip."""
        state = sha256(self.facts.astype("<i8").tobytes())
        state.update(self.clip.to_bytes(8, "little"))
        for value in (*self.values, *self.curves, *self.columns):
            state.update(value.astype("<i8").tobytes())
        return state.digest()


@message
class FirstFactsAsk(Signed, Ask[NoisyReply]):
    """How many rows of each class are there, and in the cells of each number, with noise?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "class counts or a histogram of targets, and of columns, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The first step of the job."""
        return 0


@message
class LeafSumsAsk(Signed, Ask[NoisyReply]):
    """What do classes or gradients in the leaves of the next trees add up to, with noise?"""

    so_far: BoostedSoFar
    reveals: ClassVar[str] = (
        "class counts or sums of gradients in the leaves of drawn trees; of numbers, with delta, "
        "also sums of smooth functions of columns times gradients and of their products, and a "
        "histogram of residuals; all of it with noise"
    )
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The step of the job, after the first facts."""
        return 1 + len(self.so_far.values)


@message
class DistilledLeavesAsk(Signed, Ask[NoisyReply]):
    """What do the leaves of the distilled tree hold, with noise?"""

    so_far: BoostedSoFar
    levels: tuple[Level, ...]
    reveals: ClassVar[str] = "class counts of the leaves of a distilled tree, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The last step of the job."""
        return 1 + len(self.so_far.values)
