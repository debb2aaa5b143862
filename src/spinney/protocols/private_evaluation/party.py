"""A party's side of an evaluation with noise: it joins, pays, counts its rows, and adds noise."""

from typing import Any

from spinney.errors import PolicyError, ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Charge, Exact
from spinney.protocols.accounts.account import ClaimsAsk, PartyAccount
from spinney.protocols.accounts.budget import totals_disclosure
from spinney.protocols.accounts.replies import NoisyReply, ShareReply, noisy_reply
from spinney.protocols.private_evaluation.budget import plan_of
from spinney.protocols.private_evaluation.cells import Cells
from spinney.protocols.private_evaluation.messages import EvaluationAsk
from spinney.protocols.private_evaluation.settings import NAME, digest_of
from spinney.tables.table import Table
from spinney.transport.channel import Ask
from spinney.trees.threads import thread_count


class Party:
    """One organisation's side: it answers once, and its ledger pays."""

    def __init__(
        self,
        table: Table,
        ledger: Ledger,
        *,
        n_parties: int,
        n_jobs: int | None = None,
        data: str | None = None,
    ) -> None:
        self._table = table
        self._n_parties = n_parties
        self._account = PartyAccount(ledger, table, data)
        self._n_threads = thread_count(n_jobs)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case ClaimsAsk():
                return self._account.claims(ask)
            case EvaluationAsk():
                return self._histograms(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _histograms(self, ask: EvaluationAsk) -> NoisyReply | ShareReply:
        settings = ask.settings
        if ask.n_parties != self._n_parties:  # of more parties, each would add less noise
            raise PolicyError(
                f"The question is outside the job that this party accepted: it divides the noise "
                f"among {ask.n_parties} parties, and the job has {self._n_parties}. Nothing was "
                "released."
            )
        if tuple(map(digest_of, ask.models)) != settings.models:
            raise PolicyError(
                "The question is outside the job that this party accepted: its model is not the "
                "agreed one. Nothing was released."
            )
        models = ask.forest_models
        if models[0].schema.digest() != self._table.schema.digest():
            raise ProtocolError("The model's schema differs from that of this party's table.")
        cells = Cells.of(models, settings)
        plan = plan_of(cells, ask.n_parties)
        self._account.join(plan)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            counts = cells.count(models, self._table, self._n_threads)
            released = (
                noise.release(Exact(exact.ravel()), charge).values.tobytes()
                for noise, exact, charge in zip(plan.noises, counts, charges, strict=True)
            )
            return b"".join(released)

        told = [totals_disclosure(plan.privacy, plan.n_parties)]
        data = self._account.pay(plan, 0, ask, plan.planned(), draw, disclosures=told)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))
