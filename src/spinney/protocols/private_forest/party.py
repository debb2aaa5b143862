"""A party's side of a private forest: it counts the leaves of random trees once, with noise."""

from typing import Any

from spinney.errors import ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Charge, Exact
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.accounts.budget import totals_disclosure
from spinney.protocols.accounts.private_rows import PrivateRows
from spinney.protocols.accounts.replies import NoisyReply, ShareReply, noisy_reply
from spinney.protocols.private_forest.budget import bins_of, plan_of
from spinney.protocols.private_forest.messages import ForestJoinAsk, RandomLeavesAsk
from spinney.protocols.private_forest.settings import NAME, Settings
from spinney.protocols.rows.setup import SchemaAsk, SchemaReply
from spinney.tables.table import Table
from spinney.transport.channel import Ask
from spinney.trees.binning import Binning
from spinney.trees.leaf_counts import NumberedLeaves
from spinney.trees.level import Level
from spinney.trees.public_trees import frontiers


class Party:
    """One organisation's side: it answers once, and its ledger pays."""

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
    ) -> None:
        self._rows = PrivateRows(table, n_jobs=n_jobs, ledger=ledger, data=data)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._rows.schema)
            case ForestJoinAsk():
                plan = plan_of(self._rows.schema, ask.settings, ask.n_parties)
                return self._rows.join(ask, plan, ask.schema_digest)
            case ClaimsAsk():
                return self._rows.account(ask).claims(ask)
            case RandomLeavesAsk():
                return self._leaves(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _leaves(self, ask: RandomLeavesAsk) -> NoisyReply | ShareReply:
        self._rows.require_schema(ask.schema_digest)
        plan = plan_of(self._rows.schema, ask.settings, ask.n_parties)
        binning = bins_of(self._rows.schema)
        leaves = _checked_leaves(binning, ask.settings, ask.levels)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            counts = leaves.counts(self._rows.batches(binning), plan.n_classes)
            return plan.noise.release(Exact(counts.ravel()), charges[0]).values.tobytes()

        told = [totals_disclosure(plan.privacy, plan.n_parties)]
        data = self._rows.account(ask).pay(plan, 0, ask, plan.planned(), draw, disclosures=told)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))


def _checked_leaves(
    binning: Binning, settings: Settings, levels: tuple[Level, ...]
) -> NumberedLeaves:
    """Return the leaves of trees that others drew; raise unless levels are valid and complete."""
    n_trees = settings.n_estimators
    open_nodes = frontiers(binning.columns, n_trees, levels)
    full = all(level.feature.min(initial=0) >= 0 for level in levels)
    if len(levels) != settings.max_depth or open_nodes[-1].n_open or not full:
        raise ProtocolError(
            f"The question's trees are not complete trees of depth {settings.max_depth}. "
            "Nothing was released."
        )
    return NumberedLeaves(n_trees, levels, binning)
