"""A party's side of private boosting: it joins, pays, and adds up what its rows come to."""

from typing import Any

from spinney.errors import ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.accounts.private_rows import PrivateRows
from spinney.protocols.noisy_boosting.messages import FirstFactsAsk, LeafSumsAsk
from spinney.protocols.noisy_boosting.party import BoostedRows
from spinney.protocols.private_boosting.messages import BoostingJoinAsk
from spinney.protocols.private_boosting.settings import NAME
from spinney.protocols.rows.setup import SchemaAsk, SchemaReply
from spinney.tables.table import Table
from spinney.transport.channel import Ask


class Party:
    """One organisation's side: it answers every question once, and its ledger pays."""

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
    ) -> None:
        self._rows = PrivateRows(table, n_jobs=n_jobs, ledger=ledger, data=data)
        self._boosted = BoostedRows(self._rows)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._rows.schema)
            case BoostingJoinAsk():
                public = self._boosted.known(ask.settings, ask.schema_digest, ask.n_parties)
                return self._rows.join(ask, public.plan, ask.schema_digest)
            case ClaimsAsk():
                return self._rows.account(ask).claims(ask)
            case FirstFactsAsk() | LeafSumsAsk():
                return self._boosted.answer(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")
