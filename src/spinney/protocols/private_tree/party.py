"""A party's side of a private tree: it holds the job to one tree, pays, then answers with noise."""

from hashlib import sha256
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import PARTY_TOTALS, Disclosure, Protection, View
from spinney.protocols.accounts.account import ClaimsAsk, PartyAccount, Plan
from spinney.protocols.accounts.budget import totals_disclosure
from spinney.protocols.accounts.private_rows import PrivateRows
from spinney.protocols.accounts.replies import NoisyReply, ShareReply, noisy_reply
from spinney.protocols.noisy_boosting.messages import (
    DistilledLeavesAsk,
    FirstFactsAsk,
    LeafSumsAsk,
)
from spinney.protocols.noisy_boosting.party import BoostedRows
from spinney.protocols.private_tree.budget import TreePlan
from spinney.protocols.private_tree.groups import GroupedNoise
from spinney.protocols.private_tree.messages import (
    BoundsAsk,
    CellsAsk,
    Grown,
    ProposalsAsk,
    ProposalsReply,
    PublicTree,
    SidesAsk,
    TreeJoinAsk,
    TreeLeavesAsk,
    TreeSoFar,
    TrustedCellsAsk,
    TrustedReply,
)
from spinney.protocols.private_tree.settings import (
    NAME,
    TreeSettings,
    boosting_of,
    choose_method,
)
from spinney.protocols.rows.setup import SchemaAsk, SchemaReply
from spinney.tables.table import Table
from spinney.transport import codec
from spinney.transport.channel import Ask
from spinney.trees.public_cells import COST_BITS, fixed_costs
from spinney.typing import Integers


class NodeCounts:
    """A party's own rows, counted exactly."""

    def __init__(self, rows: PrivateRows) -> None:
        self._rows = rows

    def cells(self, grown: Grown) -> Integers:
        """Count own rows by open node, cell and class."""
        public = grown.public
        nodes = [
            grown.leaves.open_node[grown.leaves.of_rows(rows, 0)]
            for rows, _ in self._rows.batches(public.binning)
        ]
        node = np.concatenate([np.zeros(0, np.int64), *nodes])
        table = self._rows.table(public.binning)
        return public.cells.counts(table, node, grown.frontier, public.plan.n_classes)

    def pairs(self, grown: Grown) -> Integers:
        """Count own rows by two cells and class, in the root."""
        public = grown.public
        table = self._rows.table(public.binning)
        return public.cells.pairs(table, grown.frontier, public.plan.n_classes)

    def costs(self, grown: Grown) -> Integers:
        """Return the impurity that every cut of every open node would leave, from own rows."""
        cells = grown.public.cells
        return fixed_costs(*cells.cuts.sides(self.cells(grown), cells.start))


_NOT_A_CUT = -(1 << 50)  # a score that no cut can have


_TRUSTED = Disclosure(
    "exact histograms of tree nodes, by two columns of the root",
    Protection.UNPROTECTED,
    "the coordinator is trusted to choose the splits; method='propose' trusts nobody",
    tuple(Unit),
    (View.COORDINATOR, View.COALITION),
)


_OWN_CHOICE = Disclosure(
    "each party's own choice of cuts, with noise",
    Protection.UNPROTECTED,
    "noise hides a record, not what many rows of a party say together",
    (PARTY_TOTALS,),
    (View.COORDINATOR, View.COALITION),
)


class Party:
    """One organisation's side. What it keeps between questions is only a cache."""

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
    ) -> None:
        self._rows = PrivateRows(table, n_jobs=n_jobs, ledger=ledger, data=data)
        self._counts = NodeCounts(self._rows)
        self._boosted = BoostedRows(self._rows)
        self._public: tuple[tuple[TreeSettings, int], PublicTree] | None = None

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._rows.schema)
            case TreeJoinAsk():
                return self._rows.join(ask, self._plan(ask), ask.schema_digest)
            case ClaimsAsk():
                return self._rows.account(ask).claims(ask)
            case ProposalsAsk():
                return self._proposals(ask)
            case FirstFactsAsk() | LeafSumsAsk() | DistilledLeavesAsk():
                return self._boosted.answer(ask)
        return self._about_nodes(ask)

    def _about_nodes(self, ask: Ask[Any]) -> Any:
        """Answer a question about the nodes of a tree that grows level by level."""
        match ask:
            case CellsAsk() | BoundsAsk() | SidesAsk() | TreeLeavesAsk():
                return self._paid(ask)
            case TrustedCellsAsk():
                return self._trusted_cells(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _plan(self, ask: TreeJoinAsk) -> Plan:
        """Return what the job that a question proposes costs."""
        choice = choose_method(ask.settings, len(self._rows.schema.columns), ask.n_parties)
        if choice.settings.method == "distilled":
            boosting = boosting_of(choice.settings)
            return self._boosted.known(boosting, ask.schema_digest, ask.n_parties).plan
        return self._layout(ask.settings, ask.schema_digest, ask.n_parties).plan

    def _layout(self, settings: TreeSettings, schema_digest: str, n_parties: int) -> PublicTree:
        self._rows.require_schema(schema_digest)
        key = (settings, n_parties)
        if self._public is None or self._public[0] != key:
            self._public = (key, PublicTree.of(self._rows.schema, *key))
        return self._public[1]

    def _grown(self, tree: TreeSoFar, *methods: str) -> Grown:
        """Return the tree that a question is about; raise unless its method asks it."""
        public = self._layout(tree.settings, tree.schema_digest, tree.n_parties)
        method = public.settings.method
        if method not in methods:
            raise ProtocolError(
                f"method={method!r} does not ask this question. Nothing was released."
            )
        grown = tree.grown(public)
        grown.require_open()
        return grown

    def _release(self, ask: CellsAsk | BoundsAsk | SidesAsk | TreeLeavesAsk) -> GroupedNoise:
        match ask:
            case CellsAsk():
                return self._cells(ask)
            case BoundsAsk():
                return self._bounds(ask)
            case SidesAsk():
                return self._sides(ask)
        return self._leaves(ask)

    def _cells(self, ask: CellsAsk) -> GroupedNoise:  # Alg. 3 and 5
        grown = self._grown(ask.tree, "histograms", "save_budget")
        cells, plan = grown.public.cells, grown.public.plan
        steps = ask.steps(plan, grown.n_open)
        asked = np.repeat(ask.columns, cells.parts + 1, axis=1)
        return GroupedNoise(
            plan.histogram_groups(grown.node_budgets, steps),
            np.repeat(np.flatnonzero(asked) // cells.n_cells, plan.n_classes),
            lambda: self._counts.cells(grown)[asked],
        )

    def _bounds(self, ask: BoundsAsk) -> GroupedNoise:  # Alg. 6
        grown = self._grown(ask.tree, "save_budget")
        plan, cuts = grown.public.plan, grown.public.cells.cuts
        first = np.flatnonzero(np.diff(cuts.column, prepend=-1))
        return GroupedNoise(
            plan.bounds_groups(grown.node_budgets),
            np.repeat(np.arange(grown.n_open), plan.n_columns),
            lambda: np.minimum.reduceat(self._counts.costs(grown), first, axis=1) >> COST_BITS,
        )

    def _sides(self, ask: SidesAsk) -> GroupedNoise:
        grown = self._grown(ask.tree, "propose")
        cells, plan = grown.public.cells, grown.public.plan
        is_cut = ask.cuts >= 0
        n_cuts = is_cut.sum(axis=-1)
        if (
            n_cuts.shape != (grown.n_open,)
            or int(ask.cuts.max(initial=-1)) >= cells.cuts.n
            or not np.all((n_cuts > 0) & (n_cuts <= plan.n_parties))
        ):
            raise ProtocolError("The question's cuts do not fit its nodes. Nothing was released.")
        node, chosen = np.nonzero(is_cut)[0], ask.cuts[is_cut]

        def exact() -> Integers:
            left, right = cells.cuts.sides(self._counts.cells(grown), cells.start)
            return np.stack([left[node, chosen], right[node, chosen]], axis=1)

        groups = plan.side_groups(grown.node_budgets, n_cuts)
        return GroupedNoise(groups, np.repeat(node, 2 * plan.n_classes), exact)

    def _leaves(self, ask: TreeLeavesAsk) -> GroupedNoise:
        tree = ask.tree
        public = self._layout(tree.settings, tree.schema_digest, tree.n_parties)
        grown, n_classes = tree.grown(public), public.plan.n_classes
        if grown.n_open or tree.depth > public.plan.n_levels:
            raise ProtocolError("The question's tree is not finished. Nothing was released.")
        return GroupedNoise(
            public.plan.leaf_groups(tree.levels, tree.asked),
            np.repeat(np.arange(grown.leaves.n_leaves), n_classes),
            lambda: grown.leaves.counts(self._rows.batches(public.binning), n_classes),
        )

    def _held(self, ask: Ask[Any], plan: TreePlan, tree: TreeSoFar) -> PartyAccount:
        """Return the account; raise unless the question continues the tree of those before it.

        There is one question of each kind per level.
        """
        account, depth = self._rows.account(ask), tree.depth
        account.hold_to_table(plan)
        for level in range(depth + 1):
            account.hold_to(plan, f"tree of {level} levels", tree.digest(level))
        kind = type(ask).__name__
        account.hold_to(plan, f"{kind} of level {depth}", sha256(codec.encode(ask)).digest())
        steps = dict(enumerate(tree.asked))
        if plan.saves and isinstance(ask, CellsAsk):
            grown = self._grown(tree, "save_budget")
            steps[depth] = ask.steps(plan, grown.n_open)
        for level, asked in steps.items():  # a later tree must not contradict what was asked
            content = asked.astype("<i8").tobytes()
            account.hold_to(plan, f"choice of columns at level {level}", content)
        return account

    def _paid(self, ask: CellsAsk | BoundsAsk | SidesAsk | TreeLeavesAsk) -> Any:
        """Pay for the noise of all groups, then draw it."""
        tree, release = ask.tree, self._release(ask)
        plan = self._layout(tree.settings, tree.schema_digest, tree.n_parties).plan
        what = f"{ask.reveals.removesuffix(', with noise')}, level {tree.depth}"
        spends = release.spends(what)
        account = self._held(ask, plan, tree)
        account.disclose(plan, "totals", [totals_disclosure(plan.privacy, plan.n_parties)])
        data = account.pay(plan, tree.depth, ask, spends, release.drawn)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _proposals(self, ask: ProposalsAsk) -> ProposalsReply:
        grown = self._grown(ask.tree, "propose")
        cells, plan = grown.public.cells, grown.public.plan
        (group,) = plan.proposal_groups(grown.node_budgets, grown.n_open)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            able = cells.can_cut(grown.frontier)
            scores = np.where(able, -self._counts.costs(grown), _NOT_A_CUT)
            return group.noise.release(Exact(scores), charges[0]).values.tobytes()

        spends = [group.spend(f"own choice of cuts, level {ask.tree.depth}", 1)]
        account = self._held(ask, plan, ask.tree)
        account.disclose(plan, "own choice", [_OWN_CHOICE])
        data = account.pay(plan, ask.tree.depth, ask, spends, draw)
        return ProposalsReply(np.frombuffer(data, np.int64).copy())

    def _trusted_cells(self, ask: TrustedCellsAsk) -> TrustedReply | ShareReply:
        grown = self._grown(ask.tree, "noisy_max")
        cells, plan, depth = grown.public.cells, grown.public.plan, ask.tree.depth
        (group,) = plan.choice_groups(grown.node_budgets, grown.n_open)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            nothing = Exact(np.zeros(grown.n_open * cells.cuts.n, np.int64))
            luck = group.noise.release(nothing, charges[0]).values
            counts = self._counts.pairs(grown) if grown.looks_ahead else self._counts.cells(grown)
            return counts.tobytes() + luck.tobytes()

        spends = [group.spend(f"the choice of splits, level {depth}", 1)]
        account = self._held(ask, plan, ask.tree)
        account.disclose(plan, "totals", [totals_disclosure(plan.privacy, plan.n_parties)])
        account.disclose(plan, "trust", [_TRUSTED])
        data = account.pay(plan, depth, ask, spends, draw)
        reply = noisy_reply(data, plan.privacy.shares(plan.n_parties))
        return TrustedReply(reply.counters) if isinstance(reply, NoisyReply) else reply
