"""Growing trees level by level, as every horizontal protocol does it.

The module holds the job that each question repeats, the open nodes that a question is about, and
the party's cache of which node each row is in.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final, Protocol

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.rows.drawing import drawing_of
from spinney.protocols.rows.facts import bin_table, class_weights, leaf_values
from spinney.protocols.rows.setup import lay_bins, require_schema
from spinney.protocols.settings import ForestSettings, Terms, terms_of
from spinney.tables.schema import Schema
from spinney.tables.table import Remembered, Table
from spinney.transport.channel import Channel
from spinney.transport.messages import kept_beside, message
from spinney.trees.binning import BinnedTable, Binning, Edges
from spinney.trees.buffers import SHARED
from spinney.trees.counts import Counters
from spinney.trees.cuts import CutFrontier
from spinney.trees.dtypes import MAX_BINS, MAX_PARTS, MAX_ROWS, MAX_WEIGHT, target_bits
from spinney.trees.frontier import Draws, Frontier, Slots, tree_keys
from spinney.trees.growth import Growth, StoppingRules
from spinney.trees.layout import LeafValues
from spinney.trees.level import Level, splits_only
from spinney.trees.own_rows import OwnRows
from spinney.trees.rows import Standing, standing_at_roots
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, best_splits
from spinney.typing import Bools

_MOST_ADAPTIVE_LEVELS = 64  # merged bins may cut where no row is, so growth needs a limit


@message
class GrowingJob:
    """What every question about trees repeats, so that it can be answered on its own."""

    settings: ForestSettings
    schema_digest: str
    binning: Binning
    n_classes: int  # 0 for regression
    n_rows: int  # over all parties; an upper limit if nobody may know
    n_parties: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.n_rows < MAX_ROWS:
            raise ProtocolError(f"A job must have fewer than {MAX_ROWS} rows.")

    @property
    def terms(self) -> Terms | None:
        """The terms of a private job."""
        return terms_of(self.settings.privacy, self.n_parties)

    @kept_beside
    def digest(self) -> bytes:
        """A digest of the whole job."""
        words = f"{self.schema_digest} {self.settings!r} {self.n_rows}"
        return words.encode() + self.binning.digest()

    @property
    def target_bits(self) -> int:
        """The number of bits of a fixed-point regression target."""
        return target_bits(self.n_rows)

    @property
    def cell_bytes(self) -> int:
        """How many bytes of counters a cell has."""
        return 4 * self.cell_counters if self.n_classes else 16

    @property
    def cell_counters(self) -> int:
        """How many counters a cell has: one per class; rows and target sum; or rows and bits."""
        privacy = self.settings.privacy
        bits = 0 if privacy is None else privacy.reported_bits(self.n_classes)
        return bits + 1 if bits else self.n_classes or 2

    def roots(self) -> Frontier:
        """Return the roots of all trees."""
        settings, columns = self.settings, self.binning.columns
        n_slots = settings.n_slots(columns.n_columns)
        # Adaptive histograms have their own bins, so cells are not zoomed.
        max_cells = MAX_BINS if self.binning.adaptive_bins else settings.max_cells
        draws = Draws(
            n_slots,
            max_cells,
            least_cells=max_cells if self.binning.adaptive_bins else 4,
            shared_phase=n_slots == columns.n_columns,
            goes_on=settings.goes_on,
        )
        # At least one, whatever a question says: packed fields need a width.
        most_rows = max(self.n_rows, 1) * (MAX_WEIGHT if settings.bootstrap else 1)
        roots = Frontier.of_roots(
            columns,
            draws,
            seed=settings.seed,
            n_trees=settings.n_estimators,
            bits=most_rows.bit_length(),
        )
        if settings.thresholds is None:
            return roots
        return CutFrontier.of(roots, drawing_of(settings, columns.n_columns), self.binning)

    def rules(self) -> StoppingRules:
        """Return the rules by which nodes become leaves."""
        settings, n_rows = self.settings, self.n_rows
        max_depth = settings.max_depth
        if self.binning.adaptive_bins and max_depth is None:
            max_depth = _MOST_ADAPTIVE_LEVELS
        return StoppingRules(
            max_depth,
            settings.least_rows(settings.min_samples_split, n_rows),
            settings.least_rows(settings.min_samples_leaf, n_rows),
            settings.min_impurity_decrease,
            is_regression=self.n_classes == 0,
        )

    def batches(self, slots: Slots) -> Iterator[tuple[int, int]]:
        """Yield ranges of a level's nodes whose counters fit the message limit."""
        return ranges_within(slots, self.cell_bytes, self.settings.message_limit)

    def batches_of_trees(
        self, frontier: Frontier, slots: Slots | None = None
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges of a level's nodes within the message limit, without splitting a tree.

        In a private job a tree pays for every question about it.
        """
        ends = np.flatnonzero(np.diff(frontier.tree, append=-1)) + 1  # where each tree's nodes end
        slots = frontier.slots if slots is None else slots
        cells = np.cumsum(slots.cells_of_node)
        most = self.settings.message_limit // (8 * (self.n_classes or 2))
        first, done = 0, 0
        while first < frontier.n_open:
            within = ends[(ends > first) & (cells[ends - 1] - done <= most)]
            last = int(within[-1]) if within.size else int(ends[ends > first][0])
            yield first, last
            first, done = last, int(cells[last - 1])


def ranges_within(slots: Slots, cell_bytes: int, limit: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of a level's nodes whose counters have at most `limit` bytes, or of one node."""
    ends = np.cumsum(slots.cells_of_node * cell_bytes)
    first, done = 0, 0
    while first < ends.size:
        last = int(np.searchsorted(ends, done + limit, side="right"))
        last = max(last, first + 1)
        yield first, last
        first, done = last, int(ends[last - 1])


def lay_job(
    channel: Channel, schema: Schema, settings: ForestSettings
) -> tuple[GrowingJob, LeafValues]:
    """Count the tables and lay the bins; return the job, and how its leaf values follow."""
    facts, binning = lay_bins(channel, schema, settings)
    if settings.thresholds == "public" and settings.privacy is None:
        binning = replace(binning, divided=MAX_PARTS)  # cuts are drawn anywhere, not between bins
    sizes = (facts.classes.size, int(facts.n_rows[0]), len(channel.parties))
    job = GrowingJob(settings, schema.digest(), binning, *sizes)
    return job, leaf_values(schema, class_weights(settings, facts), job.target_bits)


@message
class OpenNodes:
    """A range of open nodes of a growing forest."""

    job: GrowingJob
    levels: tuple[Level, ...]
    first: int  # open nodes first to last, in the order of the frontier
    last: int

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return len(self.levels)

    @property
    def story(self) -> tuple[Level, ...]:
        """The levels so far, without the choice of nodes that are asked about, which may change."""
        return splits_only(self.levels)

    @kept_beside
    def frontier(self) -> Frontier:
        """All open nodes, derived from the levels."""
        return open_nodes(self.job, self.levels)

    @kept_beside
    def slots(self) -> Slots:
        """The cells that are asked about in these nodes."""
        return self.frontier.asked.part(self.first, self.last)


class Rooted(Protocol):
    """What the open nodes of some trees are derived from, besides their levels."""

    @property
    def digest(self) -> bytes:
        """A digest of everything that decides the open nodes."""
        ...

    @property
    def binning(self) -> Binning:
        """The bins of every column."""
        ...

    def roots(self) -> Frontier:
        """Return the roots of all trees."""
        ...


class _Derivations:
    """A cache of the open nodes that the last questions in this process were about.

    Every party derives them from the levels in the question. A party that is asked level after
    level derives each level once; parties in one process share the cache.
    """

    _MOST: Final = 4

    def __init__(self) -> None:
        self._known: list[tuple[bytes, tuple[Level, ...], Frontier]] = []
        self._lock = Lock()

    def of(self, job: Rooted, levels: tuple[Level, ...]) -> Frontier:
        """Return the open nodes after some levels; raise if the levels do not fit."""
        depth, frontier = self._nearest(job.digest, levels)
        if frontier is not None and depth == len(levels):
            return frontier
        frontier = job.roots() if frontier is None else frontier
        is_adaptive = bool(job.binning.adaptive_bins)
        for level in levels[depth:]:
            if level.threshold.size != (level.feature.size if is_adaptive else 0):
                raise ProtocolError("A level's thresholds do not fit the job's binning.")
            frontier = frontier.after(level)
        with self._lock:
            self._known = [(job.digest, levels, frontier), *self._known[: self._MOST - 1]]
        return frontier

    def _nearest(self, job: bytes, levels: tuple[Level, ...]) -> tuple[int, Frontier | None]:
        """Return the depth and the open nodes of the longest cached prefix of some levels."""
        best: tuple[int, Frontier | None] = (0, None)
        for known, told, frontier in self._known:
            deeper = best[1] is None or len(told) > best[0]
            if deeper and known == job and told == levels[: len(told)]:
                best = (len(told), frontier)
        return best

    def clear(self) -> None:
        """Empty the cache; called when a job has ended."""
        with self._lock:
            self._known = []


_DERIVED: Final = _Derivations()


def open_nodes(job: Rooted, levels: tuple[Level, ...]) -> Frontier:
    """Return the open nodes of a job's trees after some levels."""
    return _DERIVED.of(job, levels)


def forget_nodes() -> None:
    """Free the memory of open nodes; called when a job has ended."""
    _DERIVED.clear()


def frontier_after(job: GrowingJob, levels: tuple[Level, ...]) -> list[Frontier]:
    """Return the open nodes of every depth; raise if a level does not fit the nodes before it."""
    frontiers = [job.roots()]
    for level in levels:
        frontiers.append(frontiers[-1].after(level))
    return frontiers


def require_bins(binning: Binning, schema: Schema) -> None:
    """Raise unless bins fit the columns of a schema; they may come from someone else."""
    n_columns = len(schema.columns)
    fits = len(binning.edges) == len(binning.bin_of_category) == n_columns
    fits = fits and binning.has_missing.shape == (n_columns,)
    fits = fits and 0 <= binning.adaptive_bins <= MAX_BINS and 1 <= binning.parts <= MAX_PARTS
    parts = zip(binning.edges, binning.bin_of_category, schema.columns, strict=False)
    for edges, bins, column in parts:
        n = len(column.categories or ()) if column.kind == "category" else 0
        fits = fits and edges.ndim == 1 and edges.size < MAX_BINS and bins.shape == (n,)
        fits = fits and (n == 0 or int(bins.max()) < MAX_BINS)
    fits = fits and _rise(binning.edges)
    if not fits:
        raise ProtocolError("The question's bins do not fit the columns of the schema.")


def _rise(edges: tuple[Edges, ...]) -> bool:
    """Return whether the edges of every column rise; NaN does not."""
    ends = np.cumsum([len(one) for one in edges])
    every = np.concatenate(edges)
    rises = every[1:] > every[:-1]
    starts = ends[(ends > 0) & (ends < every.size)]  # the first edge of a column may be any
    rises[starts - 1] = True
    return bool(np.all(rises)) and not np.isnan(every).any()


@dataclass(frozen=True)
class SplitSearch:
    """The coordinator's search for the best cuts."""

    criterion: Criterion
    least: LeastLeaf
    n_threads: int
    is_noisy: bool = False

    def best(self, counters: Counters, growth: Growth, first: int, last: int) -> BestSplits:
        """Return the best cuts of a range of open nodes."""
        frontier = growth.frontier
        return best_splits(
            counters,
            frontier.slots.part(first, last),
            frontier.columns,
            self.criterion,
            least=self.least,
            root_weight=growth.root_weight[first:last],
            n_threads=self.n_threads,
            is_noisy=self.is_noisy,
            only_first=frontier.line[first:last] > 0,
        )


@dataclass(frozen=True)
class _Kept:
    """The node of each row when the forest had these levels."""

    job: bytes
    levels: tuple[Level, ...]
    standing: Standing
    own: OwnRows | None  # unless the party is counted everywhere

    def is_before(self, nodes: OpenNodes) -> bool:
        """Return whether a question is about this forest, at this depth or deeper."""
        return self.job == nodes.job.digest and self.levels == nodes.levels[: len(self.levels)]


class BinnedRows:
    """A party's binned table and the node of each row; both are a cache and can be rebuilt.

    In nodes in which the party has some rows of a class, but fewer than `min_own_rows`, its rows
    are not counted (see `trees.own_rows`); 0: they are counted everywhere.
    """

    def __init__(self, table: Table, n_threads: int, *, min_own_rows: int = 0) -> None:
        self.table = Remembered(table)  # a job reads it half a dozen times before it is binned
        self._n_threads = n_threads
        self._min_own_rows = min_own_rows
        self._binned: tuple[bytes, BinnedTable] | None = None
        self._kept: _Kept | None = None

    def binned(self, job: GrowingJob) -> BinnedTable:
        """Return the table in the job's bins."""
        if job.n_classes != len(self.table.schema.label.classes or ()):
            raise ProtocolError("The question's number of classes does not match the schema.")
        if self._binned is None or self._binned[0] != job.digest:
            require_schema(self.table, job.schema_digest)
            require_bins(job.binning, self.table.schema)
            self._binned = (job.digest, self._read(job))
            self.table.forget()
            self._kept = None
        return self._binned[1]

    def _read(self, job: GrowingJob) -> BinnedTable:
        return bin_table(
            self.table,
            job.binning,
            n_threads=self._n_threads,
            target_bits=job.target_bits,
        )

    def standing(self, nodes: OpenNodes) -> Standing:
        """Return the node of each row: from the cache, some levels further, or from the roots."""
        table = self.binned(nodes.job)
        if not 0 <= nodes.first < nodes.last <= nodes.frontier.n_open:  # also checks the levels
            raise ProtocolError("The question is about nodes that are not open.")
        kept = self._kept
        if kept is not None and kept.is_before(nodes):
            standing, own, done = kept.standing, kept.own, len(kept.levels)
        else:
            standing, own, done = self._at_roots(nodes.job, table), None, 0
            if self._min_own_rows > 0:
                own = OwnRows.at_roots(standing, nodes.job.n_classes, self._min_own_rows)
        for level in nodes.levels[done:]:
            standing = standing.after(level, table, self._n_threads)
            own = None if own is None else own.after(level, standing)
        self._kept = _Kept(nodes.job.digest, nodes.levels, standing, own)
        return standing

    def is_in(self, nodes: OpenNodes) -> Bools | None:
        """Return in which nodes of a question the party's rows are counted; None: in all."""
        if self._min_own_rows <= 0:
            return None
        self.standing(nodes)
        own = None if self._kept is None else self._kept.own
        assert own is not None
        return own.is_in[nodes.first : nodes.last]

    def _at_roots(self, job: GrowingJob, table: BinnedTable) -> Standing:
        """Return every tree's rows at its root."""
        keys = tree_keys(job.settings.seed, job.settings.n_estimators)
        try:
            return standing_at_roots(
                table, keys, bootstrap=job.settings.bootstrap, n_threads=self._n_threads
            )
        except MemoryError:
            raise ProtocolError(
                f"This party does not have enough memory for {keys.size} trees at once. Ask for "
                "fewer trees, or for several forests one after another."
            ) from None

    def forget_standing(self) -> None:
        """Free the memory used for growing."""
        self._kept = None
        SHARED.clear()
        forget_nodes()
