"""A party's state while a vertical forest grows: the node of each row, and its own cuts.

Nobody else has its own cuts, so the party writes them to its notebook before anybody acts on them.
Everything else can be rebuilt from the notebook and the coordinator's partitions: a party that was
stopped resumes where the others are and does not train anything twice.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.vertical_forest.job import Job, OwnTable, Target
from spinney.protocols.vertical_forest.level_seal import LevelSeal
from spinney.protocols.vertical_forest.notebook import ONCE, Notebook
from spinney.protocols.vertical_forest.seat import UNSIGNED, Unsigned
from spinney.transport import codec
from spinney.transport.messages import message
from spinney.trees.binning import BinnedTable
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.frontier import Slots
from spinney.trees.layout import LeafValues
from spinney.trees.own_columns import OwnBest, OwnNodes, OwnSearch, OwnSplits, moments_of, own_best
from spinney.trees.partial import PartialForest, partial_forest
from spinney.trees.partition import Bytes, Partition
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
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

    def laid(self, nodes: OwnNodes) -> Slots:
        """Lay cells over the columns; raise if the party does not have a column or node."""
        most = int(self.n_slots.max(initial=0))
        fits = self.n_slots.size == nodes.tree.size
        fits = fits and self.column.size == self.phase.size == int(self.n_slots.sum())
        if not fits or int(self.column.max(initial=0)) >= max(nodes.columns.n_columns, 1):
            raise ProtocolError("The question is about columns or nodes that do not exist.")
        used = np.arange(most) < self.n_slots[:, None]
        column = np.full(used.shape, -1, np.int32)
        phase = np.zeros(used.shape, np.uint8)
        column[used], phase[used] = self.column, self.phase
        return nodes.slots(column, phase)


@dataclass(frozen=True)
class _Found:
    """The best own cuts of the open nodes."""

    slots: Slots
    best: OwnBest
    gain: Floats  # in target units
    is_good: Bools  # whether a node is worth cutting


class Growing:
    """One party's side of one job, at the current depth of the forest."""

    def __init__(
        self,
        job: Job,
        own: OwnTable,
        target: Target | None,
        notebook: Notebook,
        n_threads: int,
        *,
        keeps_moments: bool,
        seal: LevelSeal | None = None,
    ) -> None:
        self.job = job
        self._seal = seal
        self.levels: list[tuple[Partition, OwnSplits]] = []
        self.foreign_gains: dict[int, Floats] = {}  # by depth, if only this party knows them
        self._own = own
        self._notebook = notebook
        self._n_threads = n_threads
        self._keeps_moments = keeps_moments
        self._found: _Found | None = None
        self._chosen: OwnSplits | None = None
        self._made: Bytes | None = None  # the sides of own cuts
        table = own.table
        self.weights = np.zeros(0)
        known: Target = np.zeros(
            job.n_rows, np.int32
        )  # row entries contain neither class nor target
        if target is not None:
            job.check_target(target)
            self.weights, known = job.class_weights(target), target
        self.table: BinnedTable = replace(table, target=known)
        self.nodes = OwnNodes.of_roots(
            self.table, own.columns, job.draws, job.sample_keys,
            bits=job.root_bits, bootstrap=job.settings.bootstrap, n_threads=n_threads,
        )  # fmt: skip
        self.moments: list[Integers] = []
        self._root_weight = np.zeros(0)
        if target is not None:
            self._count_roots()

    def _count_roots(self) -> None:
        counted = moments_of(self.table, self.nodes.standing, self.job.n_classes, self._n_threads)
        self.moments = [counted]
        weight = counted @ self.weights if self.job.n_classes else counted[:, 0]
        self._root_weight = np.maximum(weight.astype(np.float64), 1e-300)

    @property
    def depth(self) -> int:
        """The depth of the open nodes."""
        return len(self.levels)

    @property
    def root_weight(self) -> Floats:
        """The weight of each open node's tree; 0 for roots, whose own weight is used."""
        if self.depth == 0:
            return np.zeros(self.nodes.tree.size)
        weight: Floats = self._root_weight[self.nodes.tree]
        return weight

    @property
    def search(self) -> OwnSearch:
        """The search for cuts."""
        settings, rules = self.job.settings, self.job.rules
        return OwnSearch(
            Criterion.of(settings.criterion, self.weights, MAX_WEIGHT * self.job.n_rows),
            LeastLeaf(rules.min_samples_leaf, settings.min_weight_fraction_leaf),
            self.job.n_classes,
            self._n_threads,
        )

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
        moved = self.nodes.moved(
            self.table, partition, self._n_threads, all_nodes=self._keeps_moments
        )
        self._require_rules(partition, moved.weight)
        if self._keeps_moments:
            self._count_children(partition, moved.left_moments(
                self.table, self.job.n_classes, self._n_threads
            ))  # fmt: skip
        self.nodes = self.nodes.after(partition, moved, own)
        self.levels.append((partition, own))
        self._found = self._chosen = self._made = None

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

    def seal_of_children(self, nodes: Integers, child_open: Bools) -> bytes | Unsigned:
        """Return the seal of which children of some open nodes stay open."""
        if self._seal is None:
            return UNSIGNED
        n_open = self.nodes.tree.size
        return self._seal.of_children(self.depth, n_open, nodes, child_open)

    def _require_rules(self, partition: Partition, rows: Integers) -> None:
        """Raise if a level breaks the job's rules: nobody gets at fewer rows than they allow."""
        rules = self.job.rules
        ends = rules.max_depth is not None and self.depth + 1 >= rules.max_depth
        least = max(rules.min_samples_split, 2 * rules.min_samples_leaf, 2)
        opened = partition.child_open
        moved = np.repeat(opened.reshape(-1, 2).any(axis=1), 2)  # of others nothing is asked
        few = moved & (rows < rules.min_samples_leaf)
        if np.any(few | (opened & (ends | (rows < least)))):
            raise ProtocolError(
                f"Level {self.depth + 1} of the trees breaks the job's rules: its nodes have fewer "
                "rows than the job allows, or it is too deep. Nothing was released."
            )

    def _count_children(self, partition: Partition, left: Integers) -> None:
        above = self.open_moments
        moments = np.empty((2 * len(left), left.shape[1]), np.int64)
        moments[0::2], moments[1::2] = left, above[partition.split] - left
        self.moments.append(moments)

    @property
    def open_moments(self) -> Integers:
        """The label party's moments of each open node, from its own labels."""
        return self.moments[-1][self.levels[-1][0].child_open] if self.depth else self.moments[0]

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

    def keep_gains(self, gain: Floats) -> None:
        """Record the gains of a level's cuts, if only the label party knows them."""
        self.foreign_gains[self.depth] = gain
        self._notebook.keep_note(self.job.digest, f"{self.depth}.gains", gain.tobytes())

    def replay(self, levels: tuple[Partition, ...], n_own: tuple[int, ...]) -> None:
        """Repeat the earlier levels, using the own cuts in the notebook."""
        for depth, (partition, expected) in enumerate(zip(levels, n_own, strict=True)):
            gains = self._notebook.note(self.job.digest, f"{depth}.gains")
            if gains is not None:
                self.foreign_gains[depth] = np.frombuffer(gains)
            own = self._notebook.cuts(self.job.digest, depth)
            if own.node.size != expected:
                raise ProtocolError(
                    f"This party's cuts of level {depth} are missing from its notebook. Nobody "
                    "else has them; start the job again."
                )
            self.grow(partition, own)

    def gains(self, offered: Offered) -> tuple[Floats, Integers]:
        """Return the best gain of each open node by own columns, and which offered column it is."""
        self.settle("offered", codec.encode(offered))  # other columns would show other gains
        slots = offered.laid(self.nodes)
        n_open = self.nodes.tree.size
        if slots.feature.shape[1] == 0:
            return np.full(n_open, -np.inf), np.full(n_open, -1, np.int64)
        best = own_best(self.table, self.nodes, slots, self.search, self.root_weight)
        gain, is_good = self.accepted(best.splits)
        self._found = _Found(slots, best, gain, is_good)
        # Compared in the units of the search: in others two different gains might become equal.
        return np.where(is_good, best.splits.gain, -np.inf), best.slot

    def accepted(self, best: BestSplits) -> tuple[Floats, Bools]:
        """Return gains in target units, and which nodes' best cuts are worth making."""
        rules = self.job.rules
        unit = min(self.job.target_step**2, 1e200) if rules.is_regression else 1.0
        scaled = replace(best, gain=best.gain * unit)
        is_good = rules.accepts(scaled, self._root_weight[self.nodes.tree])
        if self.depth == 0:  # roots are asked about before anything is known about them
            is_good &= rules.opens(best.total, 0, self.weights)
        return scaled.gain, is_good

    def open_children(self, left: Integers, total: Integers) -> Bools:
        """Return which children stay open, left and right in turn."""
        moments = np.empty((2 * len(left), left.shape[1]), np.int64)
        moments[0::2], moments[1::2] = left, total - left
        return self.job.rules.opens(moments, self.depth + 1, self.weights)

    def found_splits(self, nodes: Integers) -> BestSplits:
        """Return the party's own best cuts of some nodes, as they were found."""
        if self._found is None:
            width = self.job.n_classes or 2
            none = np.zeros(0, np.int64)
            return BestSplits(
                np.zeros((0, width), np.int64), none, none.astype(np.uint8),
                none.astype(np.bool_), np.zeros(0), np.zeros((0, width), np.int64),
                np.zeros((0, 4), np.uint64),
            )  # fmt: skip
        found = self._found.best.splits
        return BestSplits(*(value[nodes] for value in vars(found).values()))

    def found_cuts(self, nodes: Integers) -> tuple[OwnSplits, Bools] | None:
        """Return the own best cuts of some nodes and their open children; None if they are lost."""
        found = self._found
        if found is None:
            return None
        if not _are_places(nodes, found.gain.size) or not np.all(found.is_good[nodes]):
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

    def part(self, values: LeafValues | None) -> PartialForest:
        """Return the party's part of the finished forest."""
        n_trees = self.job.settings.n_estimators
        moments = self.moments if self._keeps_moments else []
        gains = self.foreign_gains
        return partial_forest(n_trees, self.levels, self._own.binning, moments, values, gains=gains)


def _are_places(nodes: Integers, n_open: int) -> bool:
    """Return whether numbers are places among open nodes, each once and in order."""
    return bool(
        np.all(nodes[1:] > nodes[:-1])
        and (nodes.size == 0 or (nodes[0] >= 0 and nodes[-1] < n_open))
    )
