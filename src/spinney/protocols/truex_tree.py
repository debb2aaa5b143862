"""A private tree after Truex et al. (2019), as S4 uses it for a baseline: binary CART, not ID3.

*A Hybrid Approach to Privacy-Preserving Federated Learning*, section 5.1, with S4's change: the
best binary cut by Gini impurity in place of a branch for each value. IBM's public release of it
holds no noise and no encryption. Columns are categories in their declared order; numbers are
discretised first (`own_bins`, or scikit-learn's `KBinsDiscretizer`).

| paper | here |
|---|---|
| epsilon, d | `epsilon`, `max_depth` (S4 tunes it to 6) |
| epsilon_1 = epsilon / (2 (d + 1)) | `TruexPlan.node_epsilon`: a node's rows; a leaf's classes |
| epsilon_2 = epsilon_1 / (2 F) | of each of F columns: its cells' rows; its cells by class |
| n, honest parties | `honest`: noise is drawn in shares, and under masks only |
| N / (f C) < sqrt(2) / epsilon_1 | the node stays a leaf; f is the largest number of cells |

**Who learns what.** The coordinator learns that a party joins, and noisy counts of the rows of
open nodes by cell and class, and of leaves by class: under masks only their sums over parties.
Parties learn the tree.
**Who never learns what.** No exact count leaves a party.

**Rounds and bytes.** Schemas 1, joining 1, a level 1 each, leaves 1, claims 1. A reply has 8 bytes
for each of nodes x (1 + columns x cells x classes) counters.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Charge, Exact, Noised
from spinney.protocols.facts import binned, leaf_values, public_binning
from spinney.protocols.model import ForestModel
from spinney.protocols.noisy_histograms import NoisyReply, ShareReply
from spinney.protocols.paying import ClaimsAsk, JoinReply, Purse, claims_of
from spinney.protocols.setup import SchemaAsk, SchemaReply, agreed_schema, require_schema
from spinney.protocols.shares import OnlyMasked
from spinney.protocols.training import Phases, Training
from spinney.protocols.truex_plan import MOST_DEPTH, TruexPlan, TruexSettings
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.trees.binning import Binning
from spinney.trees.dtypes import MAX_BINS, TARGET_BITS
from spinney.trees.structures import FitTable, FittedTree, forest_of
from spinney.typing import Floats, Integers, Progress, silent

NAME = "truex_tree"
Settings = TruexSettings
_OPEN, _LEAF = -2, -1


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nodes:
    """The tree so far: children come in pairs after their parent; -2 is open, -1 a leaf."""

    feature: NDArray[np.int32]
    cut: NDArray[np.int32]  # cells up to it go left
    left: NDArray[np.int32]

    def standing(self, cells: NDArray[np.uint8]) -> Integers:
        """Return the node each row has come to."""
        at = np.zeros(cells.shape[1], np.int64)
        rows = np.arange(cells.shape[1])
        for _ in range(MOST_DEPTH + 1):
            splits = self.feature[at] >= 0
            if not splits.any():
                break
            code = cells[np.maximum(self.feature[at], 0), rows]
            at = np.where(splits, self.left[at] + (code > self.cut[at]), at)
        return at

    def is_sound(self, n_columns: int) -> bool:
        """Tell whether every walk ends."""
        n = self.feature.size
        node = np.arange(n)
        split = self.feature >= 0
        fits = self.cut.shape == self.left.shape == (n,) and n > 0
        fits = fits and bool(np.all(self.feature >= _OPEN) and np.all(self.feature < n_columns))
        return fits and bool(np.all((self.left > node)[split] & (self.left + 1 < n)[split]))


@dataclass(frozen=True)
class TruexJoinAsk(Ask[JoinReply]):
    """Will you take part in this private job, at this price?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@dataclass(frozen=True)
class TruexAsk(Ask[NoisyReply]):
    """How many rows are in the open nodes, by cell and class; or, at last, in leaves by class?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    nodes: Nodes
    depth: int  # max_depth + 1: leaves
    reveals: ClassVar[str] = "counts of tree nodes and leaves by class, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    def to_ring(self, reply: NoisyReply | ShareReply) -> tuple[Vector, ...]:
        """Return the integers as they are masked: modulo 2**64, for they may be negative."""
        return (reply.counters.values,) if isinstance(reply, ShareReply) else reply.vectors()


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, TruexJoinAsk, TruexAsk, ClaimsAsk)
SUMMED: tuple[type[Ask[Any]], ...] = (TruexAsk,)


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side; it answers with noise that its ledger has been charged for."""

    def __init__(self, table: Table, ledger: Ledger, *, data: str | None = None) -> None:
        self._table = table
        self._purse = Purse(ledger, table, data)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._table.schema)
            case TruexJoinAsk():
                return self._purse.join(self._plan(ask))
            case TruexAsk():
                return self._count(ask)
            case ClaimsAsk():
                return self._purse.claims(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    @cached_property
    def _rows(self) -> FitTable:
        binning = cells_of(self._table.schema)
        table = binned(self._table, binning, n_threads=1, target_bits=TARGET_BITS)
        return FitTable.of(table, binning, len(self._table.schema.label.classes or ()))

    @cached_property
    def _cells(self) -> NDArray[np.uint8]:
        """The cell of every value: missing ones have the last."""
        return np.minimum(self._rows.codes, self._rows.n_bins[:, None]).astype(np.uint8)

    def _plan(self, ask: TruexJoinAsk | TruexAsk) -> TruexPlan:
        require_schema(self._table, ask.schema_digest)
        return TruexPlan(ask.settings, len(self._table.schema.columns), ask.n_parties)

    def _count(self, ask: TruexAsk) -> NoisyReply | ShareReply:
        plan = self._plan(ask)
        levels = (*range(ask.settings.max_depth), ask.settings.max_depth + 1)
        if ask.depth not in levels or not ask.nodes.is_sound(plan.n_columns):
            raise PolicyError("The question is not about a tree of this job. Nothing was released.")
        vectors = self._counted(ask)
        noises = plan.noises(ask.depth)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            parts = [
                noise.release(Exact(vector), charge).values.tobytes()
                for vector, noise, charge in zip(vectors, noises, charges, strict=True)
            ]
            return b"".join(parts)

        data = self._purse.pay(plan, ask.depth, ask, plan.spends(ask.depth), draw)
        counters = np.frombuffer(data, np.int64).copy()
        shares = plan.privacy.shares(plan.n_parties)
        if shares:
            return ShareReply(OnlyMasked(Noised(counters, shares)))
        return NoisyReply(counters)

    def _counted(self, ask: TruexAsk) -> list[Integers]:
        """Return open nodes' rows, their cells' rows, and those by class; or leaves by class."""
        cells, target = self._cells, self._rows.target.astype(np.int64)
        n_classes, at = self._rows.n_classes, ask.nodes.standing(self._cells)
        if ask.depth == ask.settings.max_depth + 1:
            flat = np.bincount(
                at * n_classes + target, minlength=ask.nodes.feature.size * n_classes
            )
            return [flat.astype(np.int64)]
        place = np.cumsum(ask.nodes.feature == _OPEN) - 1
        is_open = ask.nodes.feature[at] == _OPEN
        node, target = place[at[is_open]], target[is_open]
        n_open = int((ask.nodes.feature == _OPEN).sum())
        counts = [np.bincount(node, minlength=n_open).astype(np.int64)]
        by_column = []
        for column, n_bins in zip(cells[:, is_open], self._rows.n_bins, strict=True):
            width = int(n_bins) + 1
            flat = (node * width + column) * n_classes + target
            by_column.append(np.bincount(flat, minlength=n_open * width * n_classes))
        by_class: Integers = np.concatenate(by_column).astype(np.int64)
        return [*counts, by_class.reshape(-1, n_classes).sum(axis=1), by_class]


# --- the coordinator -----------------------------------------------------------------------------


def train(channel: Channel, settings: Settings, *, progress: Progress = silent) -> Training:
    """Grow one tree for all parties."""
    phases = Phases()
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        binning = cells_of(schema)
        channel.ask(TruexJoinAsk(settings, schema.digest(), len(channel.parties)))
    with phases.phase("growing"):
        plan = TruexPlan(settings, len(schema.columns), len(channel.parties))
        growing = _Growing(plan, schema, binning.columns.n_bins + 1)
        for depth in range(settings.max_depth):
            progress("growing", depth, settings.max_depth)
            if not growing.n_open:
                break
            growing.grow(channel.sum(growing.ask(depth)).counters)
        growing.close()
        leaves = channel.sum(growing.ask(settings.max_depth + 1)).counters
    tree = growing.tree(leaves)
    values = leaf_values(schema, np.ones(len(schema.label.classes or ())), TARGET_BITS)
    model = ForestModel(NAME, schema, forest_of([tree], [binning], values), binning.bin_of_category)
    claims = claims_of(channel, settings.privacy)
    return Training(
        model,
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        asdict(settings),
        claims,
    )


class _Growing:
    """The coordinator's notebook: the tree so far."""

    def __init__(self, plan: TruexPlan, schema: Schema, n_cells: Integers) -> None:
        self._plan = plan
        self._schema = schema
        self._n_cells = n_cells
        self._n_classes = len(schema.label.classes or ())
        self._feature, self._cut, self._left = [_OPEN], [0], [0]

    @property
    def n_open(self) -> int:
        """How many nodes may still be split."""
        return self._feature.count(_OPEN)

    @property
    def nodes(self) -> Nodes:
        """The tree so far."""
        parts = (np.array(part, np.int32) for part in (self._feature, self._cut, self._left))
        return Nodes(*parts)

    def ask(self, depth: int) -> TruexAsk:
        """Return the question about the open nodes, or about the leaves."""
        plan = self._plan
        digest = self._schema.digest()
        return TruexAsk(plan.settings, digest, plan.n_parties, self.nodes, depth)

    def grow(self, counters: Integers) -> None:
        """Cut the open nodes where that is best; leave those that noise would drown."""
        n_open, n_classes = self.n_open, self._n_classes
        ends = np.cumsum(self._n_cells * n_open)
        if counters.size != n_open + int(ends[-1]) * (1 + n_classes):
            raise ProtocolError("A party's noisy counts do not have the cells asked for.")
        cells = np.maximum(counters[n_open:], 0).astype(np.float64)
        totals = np.split(cells[: ends[-1]], ends[:-1])
        classes = np.split(cells[ends[-1] :].reshape(-1, n_classes), ends[:-1])
        tables = [
            (total.reshape(n_open, -1), by_class.reshape(n_open, -1, n_classes))
            for total, by_class in zip(totals, classes, strict=True)
        ]
        least = sqrt(2) / float(self._plan.node_epsilon) * int(self._n_cells.max()) * n_classes
        for number, node in enumerate([i for i, f in enumerate(self._feature) if f == _OPEN]):
            best = None
            if counters[number] >= least:
                best = _best_cut([(total[number], one[number]) for total, one in tables])
            if best is None:
                self._feature[node] = _LEAF
                continue
            self._feature[node], self._cut[node] = best
            self._left[node] = len(self._feature)
            self._feature += [_OPEN, _OPEN]
            self._cut += [0, 0]
            self._left += [0, 0]

    def close(self) -> None:
        """Make leaves of all open nodes."""
        self._feature = [_LEAF if f == _OPEN else f for f in self._feature]

    def tree(self, leaves: Integers) -> FittedTree:
        """Return the tree with what its leaves hold; inner nodes hold their children's."""
        n = len(self._feature)
        moments = np.maximum(leaves.reshape(n, self._n_classes), 0)
        for node in range(n - 1, -1, -1):
            if self._feature[node] >= 0:
                moments[node] = moments[self._left[node]] + moments[self._left[node] + 1]
        bin_sets = np.zeros((n, 4), np.uint64)
        for node in range(n):
            for cell in range(self._cut[node] + 1 if self._feature[node] >= 0 else 0):
                bin_sets[node, cell >> 6] |= np.uint64(1) << np.uint64(cell & 63)
        links = enumerate(zip(self._feature, self._left, strict=True))
        left = [to if feature >= 0 else node for node, (feature, to) in links]
        return FittedTree(
            np.array(self._feature, np.int32),
            np.zeros(n, np.uint8),
            np.zeros(n, np.bool_),
            bin_sets,
            np.array(left, np.int64),
            moments,
            np.zeros(n),
        )


# --- helpers -------------------------------------------------------------------------------------


def cells_of(schema: Schema) -> Binning:
    """Return a bin for every category; refuse numbers, which are to be discretised first."""
    numbers = [column.name for column in schema.columns if column.kind == "number"]
    if numbers or schema.label.classes is None:
        what = f"column {numbers[0]!r}" if numbers else f"the label {schema.label.name!r}"
        raise SettingError(
            f"Truex's trees know categories only, and {what} is a number. Discretise numbers "
            "first; for a label that is a number use another learner."
        )
    return public_binning(schema, MAX_BINS)


def _best_cut(tables: list[tuple[Floats, Floats]]) -> tuple[int, int] | None:
    """Return the column and the cell of the cut with the least Gini impurity; None if none is."""
    best, found = np.inf, None
    for column, (rows, by_class) in enumerate(tables):
        n_left = np.cumsum(rows)[:-1]
        n_right = rows.sum() - n_left
        left = np.cumsum(by_class, axis=0)[:-1]
        right = by_class.sum(axis=0) - left
        impurity = n_left * _impurity(left, n_left) + n_right * _impurity(right, n_right)
        impurity = np.where((n_left > 0) & (n_right > 0), impurity / max(rows.sum(), 1.0), np.inf)
        at = int(np.argmin(impurity)) if impurity.size else 0
        if impurity.size and impurity[at] < best:
            best, found = float(impurity[at]), (column, at)
    return found


def _impurity(by_class: Floats, rows: Floats) -> Floats:
    """Return Gini impurities; noise may make shares larger than one, which is cut off."""
    shares = np.minimum(by_class / np.maximum(rows, 1.0)[:, None], 1.0)
    found: Floats = 1.0 - (shares**2).sum(axis=1)
    return found
