"""The questions of a private tree: each repeats the tree so far and what its nodes have spent.

**Who learns what.** See `spinney.protocols.private_tree`.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import ClaimsAsk, JoinReply, Plan
from spinney.protocols.accounts.private_rows import require_classes, require_ranges, require_small
from spinney.protocols.accounts.replies import NoisyReply, Signed
from spinney.protocols.noisy_boosting.messages import (
    DistilledLeavesAsk,
    FirstFactsAsk,
    LeafSumsAsk,
    PublicBoosting,
)
from spinney.protocols.private_tree.budget import Asked, NodeBudgets, TreePlan
from spinney.protocols.private_tree.settings import TreeSettings, boosting_of, choose_method
from spinney.protocols.rows.facts import public_binning
from spinney.protocols.rows.setup import SchemaAsk
from spinney.tables.schema import Schema
from spinney.transport.channel import Ask, Vector
from spinney.transport.messages import message
from spinney.trees.binning import Binning
from spinney.trees.frontier import Frontier
from spinney.trees.leaf_counts import NumberedLeaves
from spinney.trees.level import Level
from spinney.trees.public_cells import PublicCells
from spinney.trees.public_trees import frontiers
from spinney.typing import Integers

MOST_PAIRS: Final = 16 << 20  # bytes: about 90 numeric columns of ten bins, with two classes


@dataclass(frozen=True)
class PublicTree:
    """What follows from settings and schema, the same for everyone: bins, cells and prices."""

    settings: TreeSettings  # with the method that is used
    why: str  # the reason for that method
    binning: Binning
    cells: PublicCells
    plan: TreePlan

    @property
    def looks_ahead(self) -> bool:
        """Whether the root's cut is scored by the best further cuts of its sides.

        Two columns may be informative together although neither is alone. Only the root looks
        ahead: its rows are counted by pairs of cells.
        """
        is_asked = self.settings.method == "noisy_max" and self.plan.n_levels > 1
        n_counters = self.cells.n_cells**2 * self.plan.n_classes + self.cells.cuts.n
        return is_asked and 8 * n_counters <= min(MOST_PAIRS, self.settings.message_limit)

    @classmethod
    def of(cls, schema: Schema, given: TreeSettings, n_parties: int) -> "PublicTree":
        """Compute all of it; raise if the settings cannot be met."""
        require_ranges(schema)
        n_classes = require_classes(schema)
        found = choose_method(given, len(schema.columns), n_parties)
        settings = found.settings
        if settings.method == "distilled":
            raise ProtocolError(
                "method='distilled' does not ask about nodes. Nothing was released."
            )
        binning = public_binning(schema, settings.fine_bins)
        cells = PublicCells(binning.columns, settings.n_bins)
        plan = TreePlan(settings, binning.columns.n_columns, n_classes, n_parties)
        per_node = cells.n_cells * n_classes + cells.cuts.n
        require_small(
            f"The widest level of a tree of depth {settings.max_depth}, with {cells.cuts.n:,} cuts "
            "in a node,",
            2 ** (settings.max_depth - 1) * per_node,
            settings.message_limit,
            "Lower max_depth or n_bins, or use fewer columns.",
        )
        return cls(settings, found.why, binning, cells, plan)


def plan_of(schema: Schema, given: TreeSettings, n_parties: int) -> Plan:
    """Return what a job costs; raise if its settings cannot be met."""
    choice = choose_method(given, len(schema.columns), n_parties)
    if choice.settings.method == "distilled":
        return PublicBoosting.of(schema, boosting_of(choice.settings), n_parties).plan
    return PublicTree.of(schema, given, n_parties).plan


@message
class TreeSoFar:
    """The job, and the tree as grown so far."""

    settings: TreeSettings
    schema_digest: str
    n_parties: int
    levels: tuple[Level, ...]
    asked: tuple[
        Asked, ...
    ]  # with "save_budget": how many parts of its columns each node was asked

    @property
    def depth(self) -> int:
        """The depth of the open nodes."""
        return len(self.levels)

    def digest(self, depth: int) -> bytes:
        """Return a digest of the tree's first `depth` levels and what they were asked."""
        state = sha256()
        for level in self.levels[:depth]:
            packed = level.pack()
            state.update(len(packed).to_bytes(8, "big") + packed)
        for asked in self.asked[:depth]:
            state.update(len(asked).to_bytes(8, "big") + asked.astype("<i8").tobytes())
        return state.digest()

    def grown(self, public: PublicTree) -> "Grown":
        """Return the tree so far and what follows from it; raise if the levels do not fit."""
        made = Grown(self, public)
        made.frontier  # noqa: B018  raises
        return made


@dataclass(frozen=True)
class Grown:
    """The tree so far, with everything that follows from it."""

    so_far: TreeSoFar
    public: PublicTree

    @cached_property
    def frontier(self) -> Frontier:
        """The open nodes."""
        return frontiers(self.public.binning.columns, 1, self.so_far.levels)[-1]

    @property
    def n_open(self) -> int:
        """How many nodes are open."""
        return self.frontier.n_open

    @property
    def looks_ahead(self) -> bool:
        """Whether the open node is a root that looks ahead."""
        return self.public.looks_ahead and not self.so_far.levels

    @cached_property
    def leaves(self) -> NumberedLeaves:
        """The leaves, including open nodes."""
        return NumberedLeaves(1, self.so_far.levels, self.public.binning)

    @cached_property
    def node_budgets(self) -> NodeBudgets:
        """The budgets of the open nodes, one for all if they are equal."""
        last = self.public.plan.node_budgets(self.so_far.levels, self.so_far.asked)[-1]
        if not self.public.plan.saves or not self.so_far.levels:
            return last
        return last.part(np.flatnonzero(self.so_far.levels[-1].child_open))

    def require_open(self) -> None:
        """Raise unless there are open nodes and the job's budget covers their level."""
        n_levels = self.public.plan.n_levels
        if not self.n_open or self.so_far.depth >= n_levels:
            raise ProtocolError(
                f"The question is about level {self.so_far.depth}, which has {self.n_open} open "
                f"nodes; the tree has {n_levels} levels. Nothing was released."
            )


class AboutTree:
    """The shared part of questions about a private tree: the tree so far."""

    __slots__ = ()
    tree: TreeSoFar

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return self.tree.depth

    @property
    def story(self) -> tuple[Level, ...]:
        """The levels so far."""
        return self.tree.levels


@message
class TreeJoinAsk(Ask[JoinReply]):
    """Will you take part in this private tree, at this price?"""

    settings: TreeSettings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@message
class CellsAsk(AboutTree, Signed, Ask[NoisyReply]):
    """How are the rows of the open nodes distributed over these columns' cells, with noise?"""

    tree: TreeSoFar
    columns: NDArray[np.bool_]  # (n_open, n_columns) which are asked about
    reveals: ClassVar[str] = "histograms of tree nodes by class, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    def steps(self, plan: TreePlan, n_open: int) -> Integers:
        """Return how many parts of its columns each node is asked about; raise if not allowed."""
        if self.columns.shape != (n_open, plan.n_columns):
            raise ProtocolError(
                "The question's columns do not fit its nodes. Nothing was released."
            )
        n_asked = self.columns.sum(axis=1)
        allowed = [plan.n_asked(step) for step in range(1, plan.n_steps + 1)]
        if not np.isin(n_asked, allowed if plan.saves else allowed[-1:]).all():
            raise ProtocolError("A node is asked about columns that the job does not pay for.")
        steps: Integers = np.searchsorted(np.array(allowed), n_asked) + 1
        return steps


@message
class BoundsAsk(AboutTree, Signed, Ask[NoisyReply]):
    """What is the lowest impurity that any cut of each column could leave, with noise?"""

    tree: TreeSoFar
    reveals: ClassVar[str] = "bounds of impurity by tree node and column, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


@message
class ProposalsReply:
    """The cut that a party proposes for each open node, chosen with noise."""

    cuts: Integers  # (n_open,)


@message
class ProposalsAsk(AboutTree, Ask[ProposalsReply]):
    """Which cut of each open node do you propose?"""

    tree: TreeSoFar
    reveals: ClassVar[str] = "a party's own choice of a cut for each tree node, with noise"
    reply_type: ClassVar[type[Any]] = ProposalsReply
    is_relayed: ClassVar[bool] = True


@message
class SidesAsk(AboutTree, Signed, Ask[NoisyReply]):
    """How many rows of each class go left and right by the proposed cuts, with noise?"""

    tree: TreeSoFar
    cuts: Integers  # (n_open, most proposals), -1 where there are fewer
    reveals: ClassVar[str] = "class counts on both sides of the proposed cuts, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


@message
class TrustedReply:
    """Exact counts and the noise of a choice, for a trusted coordinator."""

    counters: Integers

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counters,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "TrustedReply":
        """Return the reply with these integers."""
        (counters,) = vectors
        return cls(counters)


@message
class TrustedCellsAsk(AboutTree, Signed, Ask[TrustedReply]):
    """What are the exact counts of all cells, plus the noise drawn for each cut?

    A root that looks ahead is asked about pairs of cells.
    """

    tree: TreeSoFar
    reveals: ClassVar[str] = (
        "exact histograms of tree nodes by class, by two columns of the root, to a trusted "
        "coordinator"
    )
    reply_type: ClassVar[type[Any]] = TrustedReply


@message
class TreeLeavesAsk(AboutTree, Signed, Ask[NoisyReply]):
    """What do the leaves of the finished tree hold, with noise?"""

    tree: TreeSoFar
    reveals: ClassVar[str] = "class counts of a tree's leaves, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


SUMMED: tuple[type[Ask[Any]], ...] = (
    FirstFactsAsk,
    LeafSumsAsk,
    DistilledLeavesAsk,
    CellsAsk,
    BoundsAsk,
    SidesAsk,
    TrustedCellsAsk,
    TreeLeavesAsk,
)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, TreeJoinAsk, ClaimsAsk, ProposalsAsk, *SUMMED)
"""Every question that a party answers."""
