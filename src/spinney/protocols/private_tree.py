"""One private tree over parties that hold different rows of the same columns (S3).

Gubler (2023), *Secure and Interpretable: Federated Differentially Private Decision Trees*, with its
accounting put right (`tree_budget`) and two learners more. The tree grows a level a round; leaves
are counted at the end.

| paper | here |
|---|---|
| Q, a node; theta = (j, t) | an open node; a cut of a column's cells |
| Algorithm 3, Gamma shares of Laplace noise | `DiscreteLaplace` in shares, under secure sums |
| Algorithm 4, G(Q, theta) | `noisy_impurity`, over equal parts of a node's public box |
| Algorithm 5 | `method="histograms"`: all columns' cells, e_level / p each |
| Algorithm 6 | `method="save_budget"`: bounds of sensitivity 1, e_bounds / p each |
| leaf_prop, bounds_prop | `leaf_share`, `bounds_share` |

Algorithm 6 asks column after column, p rounds a node; here a node's bounds are one question and the
columns that they leave another. "propose" lets every party propose a cut by its own rows and counts
the sides of those cuts only (after LocalRNM, Liu et al. 2020). "noisy_max" chooses among all cuts
at once, by one noisy maximum of monotone scores; it costs the same whatever the number of columns.
Its root's scores look ahead: a cut is worth what it leaves after both its sides are cut once more,
as well as can be. So it finds two columns that tell something only together, at no further cost.

**Who learns what.** Everyone learns the tree and the noisy class counts of its leaves. The
coordinator also learns, summed over parties: with "histograms" noisy histograms of every open node;
with "save_budget" noisy bounds for every column, and noisy histograms of some; with "propose" each
party's own choice of a cut, and noisy counts of both sides of those cuts. **With "noisy_max" it
learns exact histograms of every open node**, by two columns of the root, and the noise of the
choice: it is trusted with them, and the claims say that nothing protects a record from it. It sees
each party's schema, that it joins, and its claims. **Who never learns what.** Nobody else sees an
exact number; no party's own counts leave it but under a mask, or with its own whole noise.

**Rounds and bytes.** Schemas 1, joining 1, a level 1 ("histograms", "noisy_max") or 2, leaves 1,
claims 1. A reply has 8 bytes for each of nodes x columns x (bins + 1) x classes counters; with
"propose", for each of nodes x proposals x 2 x classes; with "noisy_max" for the cuts too, and at
the root for pairs of cells, if they fit in 16 MB.
"""

from dataclasses import asdict
from hashlib import sha256
from typing import Any

import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import PARTY_TOTALS, Disclosure, Protection, View
from spinney.protocols.budgeting import totals_disclosure
from spinney.protocols.model import ForestModel
from spinney.protocols.node_counts import NodeCounts
from spinney.protocols.noisy_histograms import NoisyReply, ShareReply, noisy_reply
from spinney.protocols.paying import ClaimsAsk, Purse, claims_of
from spinney.protocols.private_rows import PrivateRows, summed_variance
from spinney.protocols.setup import SchemaAsk, SchemaReply, agreed_schema
from spinney.protocols.training import Phases, Training
from spinney.protocols.tree_budget import TreePlan
from spinney.protocols.tree_deciding import decided
from spinney.protocols.tree_questions import (
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
from spinney.protocols.tree_release import Release
from spinney.protocols.tree_settings import TreeSettings
from spinney.tables.table import Table
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel
from spinney.trees.forest import Forest
from spinney.trees.leaf_counts import NodeNoise, finished, pruned
from spinney.trees.public_cells import COST_BITS
from spinney.trees.public_trees import level_of
from spinney.typing import Integers, Progress, silent

NAME = "private_tree"
Settings = TreeSettings

SUMMED: tuple[type[Ask[Any]], ...] = (
    CellsAsk,
    BoundsAsk,
    SidesAsk,
    TrustedCellsAsk,
    TreeLeavesAsk,
)
"""The questions whose replies are added up; under `secure_sum` they are masked."""

ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, TreeJoinAsk, ClaimsAsk, ProposalsAsk, *SUMMED)
"""Every question that a party answers."""

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


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side. What it keeps between questions only saves time."""

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
        self._public: tuple[tuple[TreeSettings, int], PublicTree] | None = None

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._rows.schema)
            case TreeJoinAsk():
                plan = self._layout(ask.settings, ask.schema_digest, ask.n_parties).plan
                return self._rows.join(ask, plan, ask.schema_digest)
            case ClaimsAsk():
                return self._rows.purse(ask).claims(ask)
            case CellsAsk() | BoundsAsk() | SidesAsk() | TreeLeavesAsk():
                return self._paid(ask)
            case ProposalsAsk():
                return self._proposals(ask)
            case TrustedCellsAsk():
                return self._trusted_cells(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _layout(self, settings: TreeSettings, schema_digest: str, n_parties: int) -> PublicTree:
        self._rows.require_schema(schema_digest)
        key = (settings, n_parties)
        if self._public is None or self._public[0] != key:
            self._public = (key, PublicTree.of(self._rows.schema, *key))
        return self._public[1]

    def _grown(self, tree: TreeSoFar, *methods: str) -> Grown:
        """Return the tree that a question is about, if it is one that its method asks."""
        public = self._layout(tree.settings, tree.schema_digest, tree.n_parties)
        method = public.settings.method
        if method not in methods:
            raise ProtocolError(
                f"This is not a question of method={method!r}. Nothing was released."
            )
        grown = tree.grown(public)
        grown.require_open()
        return grown

    def _release(self, ask: CellsAsk | BoundsAsk | SidesAsk | TreeLeavesAsk) -> Release:
        match ask:
            case CellsAsk():
                return self._cells(ask)
            case BoundsAsk():
                return self._bounds(ask)
            case SidesAsk():
                return self._sides(ask)
        return self._leaves(ask)

    def _cells(self, ask: CellsAsk) -> Release:  # Alg. 3 and 5
        grown = self._grown(ask.tree, "histograms", "save_budget")
        cells, plan = grown.public.cells, grown.public.plan
        steps = ask.steps(plan, grown.n_open)
        asked = np.repeat(ask.columns, cells.parts + 1, axis=1)
        return Release(
            plan.histogram_groups(grown.purses, steps),
            np.repeat(np.flatnonzero(asked) // cells.n_cells, plan.n_classes),
            lambda: self._counts.cells(grown)[asked],
        )

    def _bounds(self, ask: BoundsAsk) -> Release:  # Alg. 6
        grown = self._grown(ask.tree, "save_budget")
        plan, cuts = grown.public.plan, grown.public.cells.cuts
        first = np.flatnonzero(np.diff(cuts.column, prepend=-1))
        return Release(
            plan.bounds_groups(grown.purses),
            np.repeat(np.arange(grown.n_open), plan.n_columns),
            lambda: np.minimum.reduceat(self._counts.costs(grown), first, axis=1) >> COST_BITS,
        )

    def _sides(self, ask: SidesAsk) -> Release:
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

        groups = plan.side_groups(grown.purses, n_cuts)
        return Release(groups, np.repeat(node, 2 * plan.n_classes), exact)

    def _leaves(self, ask: TreeLeavesAsk) -> Release:
        tree = ask.tree
        public = self._layout(tree.settings, tree.schema_digest, tree.n_parties)
        grown, n_classes = tree.grown(public), public.plan.n_classes
        if grown.n_open or tree.depth > public.plan.n_levels:
            raise ProtocolError("The question's tree is not finished. Nothing was released.")
        return Release(
            public.plan.leaf_groups(tree.levels, tree.asked),
            np.repeat(np.arange(grown.leaves.n_leaves), n_classes),
            lambda: grown.leaves.counts(self._rows.batches(public.binning), n_classes),
        )

    def _held(self, ask: Ask[Any], plan: TreePlan, tree: TreeSoFar) -> Purse:
        """Return the purse, if the question goes on with the tree of those before it.

        Of every kind there is one question to a level.
        """
        purse, depth = self._rows.purse(ask), tree.depth
        purse.hold_to_table(plan)
        for level in range(depth + 1):
            purse.hold_to(plan, f"tree of {level} levels", tree.digest(level))
        kind = type(ask).__name__
        purse.hold_to(plan, f"{kind} of level {depth}", sha256(codec.encode(ask)).digest())
        steps = dict(enumerate(tree.asked))
        if plan.saves and isinstance(ask, CellsAsk):
            grown = self._grown(tree, "save_budget")
            steps[depth] = ask.steps(plan, grown.n_open)
        for level, asked in steps.items():  # a later tree may not deny what was asked
            content = asked.astype("<i8").tobytes()
            purse.hold_to(plan, f"choice of columns at level {level}", content)
        return purse

    def _paid(self, ask: CellsAsk | BoundsAsk | SidesAsk | TreeLeavesAsk) -> Any:
        """Pay for the noise of all groups, then draw it."""
        tree, release = ask.tree, self._release(ask)
        plan = self._layout(tree.settings, tree.schema_digest, tree.n_parties).plan
        what = f"{ask.reveals.removesuffix(', with noise')}, level {tree.depth}"
        spends = release.spends(what)
        purse = self._held(ask, plan, tree)
        purse.disclose(plan, "totals", [totals_disclosure(plan.privacy, plan.n_parties)])
        data = purse.pay(plan, tree.depth, ask, spends, release.drawn)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _proposals(self, ask: ProposalsAsk) -> ProposalsReply:
        grown = self._grown(ask.tree, "propose")
        cells, plan = grown.public.cells, grown.public.plan
        (group,) = plan.proposal_groups(grown.purses, grown.n_open)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            able = cells.can_cut(grown.frontier)
            scores = np.where(able, -self._counts.costs(grown), _NOT_A_CUT)
            return group.noise.release(Exact(scores), charges[0]).values.tobytes()

        spends = [group.spend(f"own choice of cuts, level {ask.tree.depth}", 1)]
        purse = self._held(ask, plan, ask.tree)
        purse.disclose(plan, "own choice", [_OWN_CHOICE])
        data = purse.pay(plan, ask.tree.depth, ask, spends, draw)
        return ProposalsReply(np.frombuffer(data, np.int64).copy())

    def _trusted_cells(self, ask: TrustedCellsAsk) -> TrustedReply | ShareReply:
        grown = self._grown(ask.tree, "noisy_max")
        cells, plan, depth = grown.public.cells, grown.public.plan, ask.tree.depth
        (group,) = plan.choice_groups(grown.purses, grown.n_open)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            nothing = Exact(np.zeros(grown.n_open * cells.cuts.n, np.int64))
            luck = group.noise.release(nothing, charges[0]).values
            counts = self._counts.pairs(grown) if grown.looks_ahead else self._counts.cells(grown)
            return counts.tobytes() + luck.tobytes()

        spends = [group.spend(f"the choice of splits, level {depth}", 1)]
        purse = self._held(ask, plan, ask.tree)
        purse.disclose(plan, "totals", [totals_disclosure(plan.privacy, plan.n_parties)])
        purse.disclose(plan, "trust", [_TRUSTED])
        data = purse.pay(plan, depth, ask, spends, draw)
        reply = noisy_reply(data, plan.privacy.shares(plan.n_parties))
        return TrustedReply(reply.counters) if isinstance(reply, NoisyReply) else reply


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: TreeSettings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  as all protocols; little is to be done here
    progress: Progress = silent,
) -> Training:
    """Grow a tree with the parties on the channel."""
    phases, n_parties = Phases(), len(channel.parties)
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        public = PublicTree.of(schema, settings, n_parties)  # refuses before anyone is asked
        channel.ask(TreeJoinAsk(settings, schema.digest(), n_parties))
    with phases.phase("growing"):
        facts = (settings, schema.digest(), n_parties)
        n_levels, tree = public.plan.n_levels, TreeSoFar(*facts, levels=(), asked=())
        while tree.depth < n_levels and tree.grown(public).n_open:
            progress("growing", tree.depth, n_levels)
            grown = tree.grown(public)
            choice = decided(channel, grown)
            splits = public.cells.splits(grown.frontier, choice.cut, choice.accepted)
            opens = tree.depth + 1 < n_levels
            level = level_of(public.binning.columns, splits, opens=opens)
            asked = (*tree.asked, choice.steps) if public.plan.saves else ()
            tree = TreeSoFar(*facts, (*tree.levels, level), asked)
    with phases.phase("counting"):
        progress("counting leaves", 0, 0)
        reply = channel.sum(TreeLeavesAsk(tree))
        forest, noise = _finished(reply, tree.grown(public))
    return Training(
        ForestModel(NAME, schema, forest, public.binning.bin_of_category, noise=noise),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        asdict(public.settings) | {"why": public.why},
        claims_of(channel, settings.privacy),
    )


def _finished(reply: NoisyReply, grown: Grown) -> tuple[Forest, NodeNoise]:
    """Return the tree with its leaves' counts, and how far noise may have moved them."""
    tree, plan, leaves = grown.so_far, grown.public.plan, grown.leaves
    if reply.counters.size != leaves.n_leaves * plan.n_classes:
        raise ProtocolError("A party's noisy counts do not have the leaves asked for.")
    counts = reply.counters.reshape(-1, plan.n_classes)
    variance = np.zeros(leaves.n_leaves)
    for group in plan.leaf_groups(tree.levels, tree.asked):
        variance[group.members] = summed_variance(group.noise, plan.n_parties)
    forest, noise = finished(leaves, counts, variance, tree.settings.shrinkage)
    return pruned(forest, noise, tree.settings.min_samples_leaf)
