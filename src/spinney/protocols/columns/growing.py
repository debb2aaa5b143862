"""A party's side of growing trees over columns, from question to question.

**Who learns what.** See the protocols. Every party keeps all rows in the same order and moves them
by each level's partition, which the parties cut and sealed.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.columns.fields import Fields
from spinney.protocols.columns.job import ColumnsJob, OwnTable
from spinney.protocols.columns.level_seal import LevelSeal
from spinney.protocols.columns.notebook import ONCE, Notebook
from spinney.protocols.columns.seat import UNSIGNED, Unsigned
from spinney.transport.messages import message
from spinney.trees.binning import BinnedTable
from spinney.trees.boosted_columns import OwnKin
from spinney.trees.frontier import ColumnCells, Slots
from spinney.trees.own_columns import MovedRows, OwnBest, OwnNodes, OwnSplits, can_be_cut
from spinney.trees.partition import NO_TURNS, Bytes, Partition, Turns
from spinney.trees.split import BestSplits
from spinney.typing import Bools, Floats, Integers

_OTHER_LEVEL = (
    "A level of the trees differs from what this party received before. Nothing was released."
)


@message
class Offered:
    """The party's own columns that the coordinator drew, some for each open node."""

    n_slots: NDArray[np.uint16]  # (n_open,)
    column: NDArray[np.uint16]  # node after node, in the order of the draw
    phase: NDArray[np.uint8]

    @property
    def fact(self) -> bytes:
        """What was offered, as bytes: how many columns of each node, which, and how."""
        parts = (self.n_slots, self.column, self.phase)
        return b"".join([np.uint64(self.n_slots.size).tobytes(), *(p.tobytes() for p in parts)])

    def laid(self, nodes: OwnNodes) -> Slots:
        """Lay cells over the columns; raise if the party does not have a column or node."""
        fits = self.n_slots.shape == (nodes.tree.size,)  # a fact does not tell shapes apart
        fits = fits and self.column.shape == self.phase.shape == (self.column.size,)
        slots = nodes.slots(self.n_slots, self.column, self.phase) if fits else None
        if slots is None:
            raise ProtocolError("The question is about columns or nodes that do not exist.")
        return slots


@dataclass(frozen=True)
class _Found:
    """The best own cuts of the open nodes."""

    slots: Slots
    best: OwnBest
    gain: Floats  # in target units
    is_good: Bools  # whether a node is worth cutting


class Growing(ABC):
    """One party's side of one job, at the current depth of its trees.

    Attributes
    ----------
    job, table, nodes
        The job, the party's columns in bins, and the open nodes.
    depth
        How many levels were grown, of all trees.
    width
        How many sums a node or cell has.
    """

    job: ColumnsJob
    table: BinnedTable
    nodes: OwnNodes
    width: int

    def __init__(
        self,
        own: OwnTable,
        notebook: Notebook,
        n_threads: int,
        *,
        keeps_moments: bool,
        seal: LevelSeal | None = None,
    ) -> None:
        self.depth = 0
        self._seal = seal
        self._own = own
        self._notebook = notebook
        self._n_threads = n_threads
        self._keeps_moments = keeps_moments
        self._found: _Found | None = None
        self._chosen: OwnSplits | None = None
        self._made: Bytes | None = None  # the sides of own cuts
        self._own_choice: Integers | None = None  # the nodes that it chose to cut itself

    # --- what trees differ in ------------------------------------------------------------------

    @property
    @abstractmethod
    def open_moments(self) -> Integers:
        """The sums of each open node, from labels that this party knows: (n_open, width)."""

    @abstractmethod
    def search_own(self, slots: Slots) -> OwnBest:
        """Return the best own cut of each open node; its gain is what cuts are compared by."""

    @abstractmethod
    def search_cells(
        self,
        counters: Integers,
        slots: Slots,
        columns: ColumnCells,
        node: Integers,
        turns: Turns,
    ) -> BestSplits:
        """Return the best cut of each column of others, given its cells' sums and its node.

        `turns` says in which direction columns may change the prediction; empty: in any.
        """

    @abstractmethod
    def accepted(self, best: BestSplits) -> tuple[Floats, Bools]:
        """Return gains in target units, and which nodes' best cuts are worth making."""

    @abstractmethod
    def open_children(self, left: Integers, total: Integers) -> Bools:
        """Return which children stay open, left and right in turn."""

    @abstractmethod
    def hold_gains(self, gain: Floats) -> None:
        """Remember the gains of a level's cuts, if only the label party knows them."""

    @abstractmethod
    def fields(self, field_bits: int, room: int) -> Fields:
        """Return how encrypted sums are packed."""

    @abstractmethod
    def counters(self, counts: Integers, sums: Integers) -> Integers:
        """Return the counters of cells from their rows, (n, 1), and their decrypted sums."""

    @abstractmethod
    def most(self, counters: Integers) -> Integers:
        """Return the most that counters can be, given the rows of their cells."""

    @abstractmethod
    def count_rows(self, slots: Slots) -> Integers:
        """Return how many rows, as often as drawn, each cell of own columns holds."""

    def kin(self, slots: Slots) -> OwnKin | None:
        """Return which open nodes follow from their parents and siblings; None: none does."""
        del slots
        return None

    @property
    @abstractmethod
    def n_ciphertexts(self) -> int:
        """How many ciphertexts of rows there are."""

    @property
    def label(self) -> str:
        """What is encrypted now, if it changes in the course of a job."""
        return ""

    @abstractmethod
    def multiples(self) -> list[list[int]]:
        """Return which ciphertexts to add up beforehand; empty: each stays as it is."""

    @abstractmethod
    def ciphertexts(self, node: int, row: Integers, weight: Integers) -> tuple[Integers, Integers]:
        """Return the ciphertexts that add up to a node's row entries, and the entry of each."""

    @abstractmethod
    def _move(self, partition: Partition) -> MovedRows:
        """Move all rows by a level's partition; return where they are."""

    @abstractmethod
    def _go_on(self, partition: Partition, moved: MovedRows, own: OwnSplits) -> None:
        """Go on to the next level, once a level's partition is found sound."""

    # --- what they have in common --------------------------------------------------------------

    def reaches(self, depth: int, partition: Partition | None) -> bool:
        """Move on to a depth; return whether the party could."""
        if partition is not None and depth == self.depth + 1:
            self.grow(partition, self._chosen or OwnSplits.none())
        return depth == self.depth

    def grow(self, partition: Partition, own: OwnSplits) -> None:
        """Move all rows by a level's partition."""
        self._require_seal(partition)
        self._require_own(partition, own)
        self.settle("level", partition.pack(), _OTHER_LEVEL)
        moved = self._move(partition)
        self._require_rules(partition, moved.weight)
        self._go_on(partition, moved, own)
        if self._seal is not None:
            self._seal.go_on(partition)
        self.depth += 1
        self._found = self._chosen = self._made = self._own_choice = None

    def _require_seal(self, partition: Partition) -> None:
        """Raise unless the parties cut this level."""
        partition.check(self.nodes.sizes)
        if self._seal and not self._seal.fits(self.depth, partition, self.nodes.sizes):
            raise ProtocolError(
                f"Level {self.depth + 1} of the trees is not what the parties cut. Nothing was "
                "released."
            )

    def _require_own(self, partition: Partition, own: OwnSplits) -> None:
        """Raise unless own nodes are split by own cuts, on which the range of their cells rests."""
        if not own.node.size:
            return
        made = self._made
        if made is None:  # the party was stopped meanwhile
            made = self.nodes.sides(self.table, own, self._n_threads)
        if not partition.has_sides(own.node, self.nodes.sizes, made):
            raise ProtocolError("A level's partition leaves out cuts that this party made.")

    def seal_of_sides(self, nodes: Integers, sides: Bytes) -> bytes | Unsigned:
        """Return the seal of own sides of some open nodes."""
        if self._seal is None:
            return UNSIGNED
        return self._seal.of_sides(self.depth, nodes, self.nodes.sizes[nodes], sides)

    def seal_of_children(
        self, nodes: Integers, child_open: Bools, turns: Turns
    ) -> bytes | Unsigned:
        """Return the seal of which children of some open nodes stay open."""
        if self._seal is None:
            return UNSIGNED
        n_open = self.nodes.tree.size
        return self._seal.of_children(self.depth, n_open, nodes, child_open, turns)

    def turns_of(self, feature: NDArray[np.int32]) -> Turns:
        """Return in which direction own columns may change the prediction; empty: in any."""
        del feature
        return NO_TURNS

    def _require_rules(self, partition: Partition, rows: Integers) -> None:
        """Raise if a level breaks the job's rules: nobody gets at fewer rows than they allow."""
        if not self.job.rules.allows(partition.child_open, rows, self._level + 1):
            raise ProtocolError(
                f"Level {self.depth + 1} of the trees breaks the job's rules: its nodes have fewer "
                "rows than the job allows, or it is too deep. Nothing was released."
            )

    @property
    def _level(self) -> int:
        """How many levels the trees that grow have."""
        return self.depth

    def settle(self, name: str, fact: bytes, refusal: str = ONCE) -> None:
        """Record something that happens only once for this level."""
        self._notebook.settle(self.job.digest, f"{self.depth}.{name}", fact, refusal)

    def stored_reply(self, name: str) -> bytes | None:
        """Return this level's reply if it was given before."""
        return self._notebook.note(self.job.digest, f"{self.depth}.{name}")

    def store_reply(self, name: str, reply: bytes) -> None:
        """Keep this level's reply, so that a repeated question gets the same bytes."""
        self._notebook.erase_note(self.job.digest, f"{self.depth - 1}.{name}")
        self._notebook.keep_note(self.job.digest, f"{self.depth}.{name}", reply)

    def replay(self, levels: tuple[Partition, ...], n_own: tuple[int, ...]) -> None:
        """Repeat the earlier levels, using the own cuts in the notebook."""
        for depth, (partition, expected) in enumerate(zip(levels, n_own, strict=True)):
            gains = self._notebook.note(self.job.digest, f"{depth}.gains")
            if gains is not None:
                self.hold_gains(np.frombuffer(gains))
            own = self._notebook.cuts(self.job.digest, depth)
            if own.node.size != expected:
                raise ProtocolError(
                    f"This party's cuts of level {depth} are missing from its notebook. Nobody "
                    "else has them; start the job again."
                )
            self.grow(partition, own)

    def gains(self, offered: Offered) -> tuple[Floats, Integers]:
        """Return the best gain of each open node by own columns, and which offered column it is."""
        self.settle("offered", offered.fact)  # other columns would show other gains
        slots = offered.laid(self.nodes)
        n_open = self.nodes.tree.size
        if slots.feature.shape[1] == 0:
            return np.full(n_open, -np.inf), np.full(n_open, -1, np.int64)
        best = self.search_own(slots)
        gain, is_good = self.accepted(best.splits)
        self._found = _Found(slots, best, gain, is_good)
        # Compared in the units of the search: in others two different gains might become equal.
        return np.where(is_good, best.splits.gain, -np.inf), best.slot

    def found_splits(self, nodes: Integers) -> BestSplits:
        """Return the party's own best cuts of some nodes, as they were found."""
        if self._found is None:
            width = self.width
            none = np.zeros(0, np.int64)
            return BestSplits(
                np.zeros((0, width), np.int64), none, none.astype(np.uint8),
                none.astype(np.bool_), np.zeros(0), np.zeros((0, width), np.int64),
                np.zeros((0, 4), np.uint64),
            )  # fmt: skip
        found = self._found.best.splits
        return BestSplits(*(value[nodes] for value in vars(found).values()))

    @property
    def hides_gains(self) -> bool:
        """Whether only the label party may know gains: labels are encrypted for the others."""
        return self.job.labels == "encrypted" and self.job.n_parties > 1

    def choose_own(self, nodes: Integers) -> None:
        """Remember which nodes the label party, which compares all columns, cuts by its own."""
        self._own_choice = nodes

    def found_cuts(self, nodes: Integers) -> tuple[OwnSplits, Bools] | None:
        """Return the own best cuts of some nodes and their open children; None if they are lost."""
        found, chosen = self._found, self._own_choice
        if found is None or (self.hides_gains and chosen is None):
            return None
        if chosen is not None and not np.array_equal(nodes, chosen):
            raise ProtocolError("The question asks for cuts that the label party did not choose.")
        if not can_be_cut(nodes, found.is_good):
            raise ProtocolError("The question asks for cuts that this party did not offer.")
        splits = found.best.splits
        children = self.open_children(splits.left[nodes], splits.total[nodes])
        return found.best.chosen(nodes, found.slots, found.gain), children

    def cut(self, own: OwnSplits) -> tuple[Bytes, Bools]:
        """Record own cuts, then return which rows go left and which columns are exhausted."""
        made = b"".join(
            np.ascontiguousarray(value).tobytes()
            for value in (own.node, own.feature, own.cut, own.missing_left, own.bin_set)
        )
        self.settle("made", made)
        self._notebook.keep(self.job.digest, self.depth, own)
        self._chosen = own
        self._made = self.nodes.sides(self.table, own, self._n_threads)
        return self._made, self.nodes.exhausted(own)

    def keep_gains(self, gain: Floats) -> None:
        """Record the gains of a level's cuts, also for a restart."""
        self.hold_gains(gain)
        self._notebook.keep_note(self.job.digest, f"{self.depth}.gains", gain.tobytes())
