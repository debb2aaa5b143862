"""The questions of private boosting: join, first facts, and the sums of a batch of trees.

**Who learns what.** See `spinney.protocols.private_boosting`.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import ClaimsAsk, JoinReply
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.accounts.replies import NoisyReply, Signed
from spinney.protocols.private_boosting.budget import EDGE_CELLS, BoostingPlan, plan_of
from spinney.protocols.private_boosting.settings import Choice, Settings
from spinney.protocols.rows.facts import public_binning
from spinney.protocols.rows.setup import SchemaAsk
from spinney.tables.schema import Schema
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.binning import Binning
from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.noisy_edges import noisy_edges
from spinney.typing import Floats, Integers


@dataclass(frozen=True)
class PublicBoosting:
    """Everything that follows from the settings and the schema."""

    schema: Schema
    plan: BoostingPlan
    choice: Choice

    @classmethod
    def of(cls, schema: Schema, settings: Settings, n_parties: int) -> "PublicBoosting":
        """Return what follows; raise if the settings cannot be met."""
        return cls(schema, *plan_of(schema, settings, n_parties))

    def base(self, facts: Integers) -> Floats:
        """Return the first scores, given the opened first facts."""
        deviation = summed_variance(self.plan.base_noise, self.plan.n_parties) ** 0.5
        return self.plan.loss.base(facts[: self.plan.n_base], deviation)

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

    def trees(self, binning: Binning, number: int) -> DrawnTrees:
        """Return the trees of a batch, which the seed alone decides, given the bins."""
        seed = self.plan.settings.seed
        n_columns, part = self.plan.n_columns, self.choice.in_batch(number)
        chosen = [self._columns_of(seeds.derive_seed(seed, 1), tree, n_columns) for tree in part]
        generator = seeds.generator(seeds.derive_seed(seed, 2 + number))
        return DrawnTrees.draw(binning.columns, np.array(chosen), self.choice.depth, generator)

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

    def require(self, public: PublicBoosting) -> None:
        """Raise unless facts and values fit the job."""
        plan, choice = public.plan, public.choice
        fits = self.facts.shape == (plan.n_base + plan.n_edge_cells,)
        fits &= len(self.values) < choice.n_batches
        for number, value in enumerate(self.values if fits else ()):
            n_leaves = len(choice.in_batch(number)) << choice.depth
            fits &= value.shape == (plan.loss.n_outputs, n_leaves)
            fits &= bool(np.all(np.abs(value) < 1 << 40))
        if not fits:
            raise ProtocolError(
                "The question's facts and values do not fit the job. Nothing was released."
            )

    def digest(self) -> bytes:
        """Return a digest of the facts and values."""
        state = sha256(self.facts.astype("<i8").tobytes())
        for value in self.values:
            state.update(value.astype("<i8").tobytes())
        return state.digest()


@message
class BoostingJoinAsk(Ask[JoinReply]):
    """Will you take part in this private boosting, at this price?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@message
class FirstFactsAsk(Signed, Ask[NoisyReply]):
    """How many rows of each class are there, and in the cells of each number, with noise?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "class counts or the sum of targets, and histograms, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The first step of the job."""
        return 0


@message
class LeafSumsAsk(Signed, Ask[NoisyReply]):
    """What do the gradients in the leaves of the next trees add up to, with noise?"""

    so_far: BoostedSoFar
    reveals: ClassVar[str] = "sums of gradients in the leaves of drawn trees, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The step of the job, after the first facts."""
        return 1 + len(self.so_far.values)


SUMMED: tuple[type[Ask[Any]], ...] = (FirstFactsAsk, LeafSumsAsk)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, BoostingJoinAsk, ClaimsAsk, *SUMMED)
"""Every question that a party answers."""
