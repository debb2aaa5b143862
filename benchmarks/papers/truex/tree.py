"""A private tree after Truex et al. (2019), which S4 uses as a baseline: binary CART, not ID3.

*A Hybrid Approach to Privacy-Preserving Federated Learning*, section 5.1, with S4's change: the
best binary cut by Gini impurity instead of a branch for each value. IBM's public release of it
contains no noise and no encryption. Columns are categories in their declared order; numbers are
discretised first (`genetic_tree.bins`, or scikit-learn's `KBinsDiscretizer`).

| paper | here |
|---|---|
| epsilon, d | `epsilon`, `max_depth` (S4 tunes it to 6) |
| epsilon_1 = epsilon / (2 (d + 1)) | `TruexPlan.node_epsilon`: a node's rows; a leaf's classes |
| epsilon_2 = epsilon_1 / (2 F) | for each of F columns: its cells' rows; its cells by class |
| n, honest parties | `honest`: noise is drawn in shares, and only under masks |
| N / (f C) < sqrt(2) / epsilon_1 | the node stays a leaf; f is the largest number of cells |

Honest parties' shares of the noise add up to one draw of the noise that epsilon needs. S4 says that
noise falls by a factor of t - 1. If each of t parties divided its scale so, the sum would carry
sqrt(t) / (t - 1) of the noise, and epsilon would be as many times larger: 4.25 for 20 parties.

**Who learns what.** The coordinator learns each party's schema, that it joins, its claims, and
noisy counts of the rows of open nodes by cell and class, and of leaves by class; under masks, only
their sums over parties. Parties learn the tree.
**Who never learns what.** No exact count leaves a party.

**Rounds and bytes.** Schemas 1, joining 1, each level 1, leaves 1, claims 1. A reply has 8 bytes
for each of nodes x (1 + columns x cells x classes) counters.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from papers.truex.growing import (
    OPEN,
    Growing,
    Nodes,
)
from papers.truex.plan import TruexPlan, TruexSettings
from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import (
    Charge,
    Exact,
    Noised,
    OnlyMasked,
)
from spinney.protocols.accounts.account import (
    ClaimsAsk,
    JoinReply,
    PartyAccount,
    claims_of,
)
from spinney.protocols.accounts.budget import totals_disclosure
from spinney.protocols.accounts.replies import NoisyReply, ShareReply
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.facts import (
    bin_table,
    leaf_values,
    public_binning,
)
from spinney.protocols.rows.setup import (
    SchemaAsk,
    SchemaReply,
    agree_on_schema,
    require_schema,
)
from spinney.protocols.training import Phases, Training
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.trees.binning import Binning
from spinney.trees.dtypes import MAX_BINS, TARGET_BITS
from spinney.trees.structures import FitTable, forest_of
from spinney.typing import Integers, Progress, silent

NAME = "truex_tree"


Settings = TruexSettings


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
    """How many rows are in the open nodes, by cell and class; or, finally, in leaves by class?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    nodes: Nodes
    depth: int  # max_depth + 1: leaves
    reveals: ClassVar[str] = "counts of tree nodes and leaves by class, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    def to_ring(self, reply: NoisyReply | ShareReply) -> tuple[Vector, ...]:
        """Return the integers to mask: modulo 2**64, since they may be negative."""
        return (reply.counters.values,) if isinstance(reply, ShareReply) else reply.vectors()


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, TruexJoinAsk, TruexAsk, ClaimsAsk)


SUMMED: tuple[type[Ask[Any]], ...] = (TruexAsk,)


class Party:
    """One organisation's side; it answers with noise that its ledger has paid for."""

    def __init__(self, table: Table, ledger: Ledger, *, data: str | None = None) -> None:
        self._table = table
        self._account = PartyAccount(ledger, table, data)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._table.schema)
            case TruexJoinAsk():
                return self._account.join(self._plan(ask))
            case TruexAsk():
                return self._count(ask)
            case ClaimsAsk():
                return self._account.claims(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    @cached_property
    def _rows(self) -> FitTable:
        binning = cells_of(self._table.schema)
        table = bin_table(self._table, binning, n_threads=1, target_bits=TARGET_BITS)
        return FitTable.of(table, binning, len(self._table.schema.label.classes or ()))

    @cached_property
    def _cells(self) -> NDArray[np.uint8]:
        """The cell of every value; missing values share the last category's cell."""
        last = np.maximum(self._rows.n_bins, 1)[:, None] - 1
        cells: NDArray[np.uint8] = np.minimum(self._rows.codes, last).astype(np.uint8)
        return cells

    def _plan(self, ask: TruexJoinAsk | TruexAsk) -> TruexPlan:
        require_schema(self._table, ask.schema_digest)
        return TruexPlan(ask.settings, len(self._table.schema.columns), ask.n_parties)

    def _count(self, ask: TruexAsk) -> NoisyReply | ShareReply:
        plan = self._plan(ask)
        levels = (*range(ask.settings.max_depth), ask.settings.max_depth + 1)
        if ask.depth not in levels or not ask.nodes.is_sound(plan.n_columns):
            raise PolicyError("The question is not about this job's tree. Nothing was released.")
        vectors = self._counted(ask)
        noises = plan.noises(ask.depth)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            parts = [
                noise.release(Exact(vector), charge).values.tobytes()
                for vector, noise, charge in zip(vectors, noises, charges, strict=True)
            ]
            return b"".join(parts)

        told = [totals_disclosure(plan.privacy, plan.n_parties)]
        self._account.disclose(plan, "totals", told)
        data = self._account.pay(plan, ask.depth, ask, plan.spends(ask.depth), draw)
        counters = np.frombuffer(data, np.int64).copy()
        shares = plan.privacy.shares(plan.n_parties)
        if shares:
            return ShareReply(OnlyMasked(Noised(counters, shares)))
        return NoisyReply(counters)

    def _counted(self, ask: TruexAsk) -> list[Integers]:
        """Return open nodes' rows, their cells' rows, and cells by class; or leaves by class."""
        cells, target = self._cells, self._rows.target.astype(np.int64)
        n_classes, at = self._rows.n_classes, ask.nodes.standing(self._cells)
        if ask.depth == ask.settings.max_depth + 1:
            flat = np.bincount(
                at * n_classes + target, minlength=ask.nodes.feature.size * n_classes
            )
            return [flat.astype(np.int64)]
        place = np.cumsum(ask.nodes.feature == OPEN) - 1
        is_open = ask.nodes.feature[at] == OPEN
        node, target = place[at[is_open]], target[is_open]
        n_open = int((ask.nodes.feature == OPEN).sum())
        counts = [np.bincount(node, minlength=n_open).astype(np.int64)]
        by_column = []
        for column, n_bins in zip(cells[:, is_open], self._rows.n_bins, strict=True):
            width = max(int(n_bins), 1)
            flat = (node * width + column) * n_classes + target
            by_column.append(np.bincount(flat, minlength=n_open * width * n_classes))
        by_class: Integers = np.concatenate(by_column).astype(np.int64)
        return [*counts, by_class.reshape(-1, n_classes).sum(axis=1), by_class]


def train(channel: Channel, settings: Settings, *, progress: Progress = silent) -> Training:
    """Grow one tree for all parties."""
    phases = Phases()
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        binning = cells_of(schema)
        channel.ask(TruexJoinAsk(settings, schema.digest(), len(channel.parties)))
    with phases.phase("growing"):
        plan = TruexPlan(settings, len(schema.columns), len(channel.parties))
        n_cells = np.maximum(binning.columns.n_bins, 1)
        growing = Growing(plan.node_epsilon, n_cells, len(schema.label.classes or ()))

        def ask(depth: int) -> TruexAsk:
            return TruexAsk(settings, schema.digest(), plan.n_parties, growing.nodes, depth)

        for depth in range(settings.max_depth):
            progress("growing", depth, settings.max_depth)
            if not growing.n_open:
                break
            growing.grow(channel.sum(ask(depth)).counters)
        growing.close()
        leaves = channel.sum(ask(settings.max_depth + 1)).counters
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


def cells_of(schema: Schema) -> Binning:
    """Return a bin for every category; raise for numbers, which must be discretised first."""
    numbers = [column.name for column in schema.columns if column.kind == "number"]
    if numbers or schema.label.classes is None:
        what = f"column {numbers[0]!r}" if numbers else f"the label {schema.label.name!r}"
        raise SettingError(
            f"Truex's trees support only categories, but {what} is a number. Discretise numbers "
            "first; for a numeric label use another learner."
        )
    return public_binning(schema, MAX_BINS)
