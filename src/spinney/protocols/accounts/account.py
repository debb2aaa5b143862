"""A party's account in private jobs: it joins, pays before it draws noise, and states its claims.

This is the same for every protocol with noise. The party computes each price itself from the job's
settings. The ledger records the charge, or refuses it, before any noise is drawn. A repeated
question gets its stored reply.

**Who learns what.** The coordinator learns that a party joins, and its claims: prices that follow
from the job's settings, no data. **Who never learns what.** What other jobs have spent, which rows
a tree reads, and how many values lay outside their declared ranges stay at the party.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from spinney.errors import PolicyError, TableError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.claims import Claim, claims
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Charge
from spinney.privacy.scopes import PARTY_TOTALS, Disclosure, Protection, Question, Spend
from spinney.protocols.settings import ForestSettings, PrivacySettings
from spinney.protocols.training import PartyClaim
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import Table
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel
from spinney.transport.messages import message

_LOG: Final = logging.getLogger("spinney.party")  # stays at the party
OUTSIDE: Final = (
    "Column %r: %d values lie outside the declared range %s and count as its ends. Correct them, "
    "or declare a wider range from public knowledge."
)
_EXACT: Final = "exact: the job adds no noise"
READ_FROM_DATA: Final = "read from the data in a simulation; declare it in a schema"


_SECRET_ROWS: Final = Disclosure(
    "which rows each tree reads",
    Protection.HIDDEN,
    "drawn by the party's own secret coins, which never leave it",
    (Unit.RECORD_ADD_REMOVE,),
)


@message
class JoinReply:
    """The party takes part."""

    party: str


@message
class JoinAsk(Ask[JoinReply]):
    """Will you take part in this private job, at this price?"""

    settings: ForestSettings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@message
class ClaimsReply:
    """What a party's ledger says about the job."""

    claims: tuple[PartyClaim, ...]


@message
class ClaimsAsk(Ask[ClaimsReply]):
    """What has the job cost your records, and what does your ledger promise them?"""

    job: str
    reveals: ClassVar[str] = "prices that follow from the job's settings; no data"
    reply_type: ClassVar[type[Any]] = ClaimsReply


@dataclass(frozen=True)
class ExactJob:
    """A job without noise in which a party with a ledger takes part.

    Parameters
    ----------
    name
        A unique job name.
    n_parties
        How many parties take part.
    honest
        How many parties must be honest for the masks of its sums to hold; None: replies are not
        masked.
    """

    name: str
    n_parties: int
    honest: int | None = None


class Plan(Protocol):
    """How a private job's budget is divided.

    `called` identifies this kind of plan in ledgers. It is part of the agreement of every running
    job, so it is a literal that never changes, even if the class moves.
    """

    called: ClassVar[str]

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        ...

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        ...

    def planned(self) -> list[Spend]:
        """Return everything the job may spend."""
        ...


class PartyAccount:
    """A party's ledger, and the table whose records it protects.

    Parameters
    ----------
    ledger
        Records charges before any noise is drawn.
    table
        The party's rows.
    data
        The name of the data set whose account all jobs debit. None: the table's fingerprint is the
        name, so a table with one more row has a separate account.
    """

    def __init__(self, ledger: Ledger, table: Table, data: str | None = None) -> None:
        self.ledger = ledger
        self._table = table
        self._data = data
        self._agreed: tuple[Plan, bytes] | None = None

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all rows; values outside their declared range are logged locally."""
        state = sha256(self._table.schema.digest().encode())
        outside = np.zeros(len(self._table.schema.columns), np.int64)
        low, high = _ends(self._table)
        label = self._table.schema.label
        ends, outside_label = label.range or (-np.inf, np.inf), 0
        for batch in self._table.batches():
            state.update(np.ascontiguousarray(batch.values).tobytes())
            state.update(np.ascontiguousarray(batch.target).tobytes())
            outside += ((batch.values < low) | (batch.values > high)).sum(axis=1)
            outside_label += int(((batch.target < ends[0]) | (batch.target > ends[1])).sum())
        places: list[Column | Label] = [*self._table.schema.columns, label]
        for place, count in zip(places, [*outside.tolist(), outside_label], strict=True):
            if count:
                _LOG.warning(OUTSIDE, place.name, count, place.range, extra={"outside": place.name})
        return state.hexdigest()

    def join(self, plan: Plan) -> JoinReply:
        """Open the job if its whole cost can be paid; a job that has begun may continue."""
        own = self.fingerprint  # computed even if `data` is given: it logs values out of range
        terms = plan.terms(self._data or own)
        self.ledger.open_job(terms)
        if plan.privacy.read_facts:
            told = [self._read_off(fact) for fact in plan.privacy.read_facts]
            self.ledger.disclose(Question.of(terms.name, 0, b"public facts"), told)
        if not any(self.ledger.spent(terms.name, unit) for unit in Unit):
            self.ledger.check(terms.name, plan.planned())
        agreed = self._agreed_of(plan)
        if self.ledger.kept(_agreement(terms.name), lambda: agreed) != agreed:
            raise _other_terms(terms.name)
        return JoinReply(self.ledger.party)

    def _read_off(self, fact: str) -> Disclosure:
        is_of_label = fact.endswith(f" of {self._table.schema.label.name!r}")
        return read_fact_disclosure(fact, Unit.LABEL if is_of_label else Unit.RECORD_REPLACE)

    def pay(
        self,
        plan: Plan,
        round_: int,
        asked: object,
        spends: Sequence[Spend],
        draw: Callable[[tuple[Charge, ...]], bytes],
        *,
        disclosures: Sequence[Disclosure] = (),
    ) -> bytes:
        """Return the reply to send: a new one from `draw`, or the stored one.

        `asked` is the question, or an object that stands for all questions with the same answer.
        """
        question = Question.of(self._terms(plan).name, round_, codec.encode(asked))
        return self.ledger.answer(question, spends, draw, disclosures)

    def _terms(self, plan: Plan) -> JobTerms:
        """Return a job's terms; raise unless this party joined the job on these terms."""
        terms = plan.terms(self._data or self.fingerprint)
        agreed = self.ledger.stored_reply(_agreement(terms.name))
        if self.ledger.job(terms.name) != terms or agreed != self._agreed_of(plan):
            raise _other_terms(terms.name)
        return terms

    def _agreed_of(self, plan: Plan) -> bytes:
        """Return the digest of a plan; the last one is cached, since every question needs it."""
        if self._agreed is None or self._agreed[0] is not plan:
            self._agreed = (plan, _agreed(plan))
        return self._agreed[1]

    def hold_to(self, plan: Plan, what: str, content: bytes) -> None:
        """Fix a decision of the job; raise if a later question contradicts it.

        The ledger separates rows by what the job has decided about them. That is sound only if the
        job decides once.
        """
        question = Question.of(self._terms(plan).name, 0, f"held to {what}".encode())
        if self.ledger.kept(question, lambda: content) != content:
            raise PolicyError(
                f"This party was already asked about a different {what} in this job. "
                "Nothing was released."
            )

    def hold_to_table(self, plan: Plan) -> None:
        """Raise if the table has changed since the job began: rows would change their nodes."""
        own = self.fingerprint.encode()
        question = Question.of(self._terms(plan).name, 0, b"held to its table")
        if self.ledger.kept(question, lambda: own) != own:
            raise _changed()

    def note_exact(self, job: ExactJob, ask: Ask[Any]) -> None:
        """Record an answer to a job without noise before it leaves."""
        note_exact(self.ledger, self._data or self.fingerprint, job, ask)

    def disclose(self, plan: Plan, what: str, disclosures: Sequence[Disclosure]) -> None:
        """Record what leaves without a charge, once in a job that this party has joined."""
        self.ledger.disclose(Question.of(plan.privacy.job, 0, what.encode()), disclosures)

    def coins(self, job: str, *, claims_rest_on_them: bool) -> bytes:
        """Return the key of the job's secret coins, which is drawn once and kept with the ledger.

        A tree's sample costs less because nobody knows it. Which part of the rows a tree reads, or
        how often, may be known.
        """
        question = Question.of(job, 0, b"coins of rows")
        own = self.fingerprint.encode()
        if claims_rest_on_them:
            self.ledger.disclose(Question.of(job, 0, b"samples of rows"), [_SECRET_ROWS])
        kept = self.ledger.kept(question, lambda: secret_bytes(KEY_BYTES) + own)
        if kept[KEY_BYTES:] != own:
            raise _changed()
        return kept[:KEY_BYTES]

    def claims(self, ask: ClaimsAsk) -> ClaimsReply:
        """Return what the ledger says about the job."""
        return ClaimsReply(claims_in(self.ledger, ask.job))


def join(channel: Channel, schema: Schema, settings: ForestSettings) -> None:
    """Ask every party to take part; a party that cannot pay ends the job before it starts."""
    channel.ask(JoinAsk(settings, schema.digest(), len(channel.parties)))


def claims_of(channel: Channel, privacy: PrivacySettings) -> tuple[PartyClaim, ...]:
    """Return what the parties' ledgers say about the job."""
    replies = channel.ask(ClaimsAsk(privacy.job))
    return tuple(claim for reply in replies.values() for claim in reply.claims)


def _agreement(job: str) -> Question:
    return Question.of(job, 0, b"all that may be spent")


def _agreed(plan: Plan) -> bytes:
    """Return a digest of what a job may spend, on which rows, with which noise.

    Budgets alone are not enough. Under the same name, trees on differently dealt or sampled rows
    would look as if the same coins had separated them, and another method might reveal more.
    """
    return sha256(f"{plan.called} {plan!r} {plan.planned()!r}".encode()).digest()


def _other_terms(job: str) -> PolicyError:
    return PolicyError(
        f"The question does not match the terms on which this party joined job {job!r}. "
        "Nothing was released."
    )


def note_exact(ledger: Ledger, data: str, job: ExactJob, ask: Ask[Any]) -> None:
    """Record in a ledger an answer to a job without noise, before it leaves."""
    ledger.open_job(JobTerms(job.name, data, job.n_parties, job.honest or 1))
    hidden = f"only sums are opened while {job.honest} of {job.n_parties} are honest"
    told = [
        Disclosure(ask.reveals, Protection.UNPROTECTED, _EXACT, tuple(Unit)),
        Disclosure(f"own {ask.reveals}", Protection.HIDDEN, hidden, (PARTY_TOTALS,))
        if job.honest
        else Disclosure(f"own {ask.reveals}", Protection.UNPROTECTED, _EXACT, (PARTY_TOTALS,)),
    ]
    ledger.disclose(Question.of(job.name, 0, codec.encode(ask)), told)


def _changed() -> TableError:
    return TableError(
        "The table changed while the job was running. Start a new job on the new table."
    )


def read_fact_disclosure(fact: str, unit: Unit) -> Disclosure:
    """Return the disclosure of a fact that should be public but was read from the rows."""
    return Disclosure(f"the {fact}", Protection.UNPROTECTED, READ_FROM_DATA, (unit,))


def claims_in(ledger: Ledger, job: str) -> tuple[PartyClaim, ...]:
    """Return what a party's ledger says about a job."""
    return tuple(_claim(ledger.party, claim) for claim in claims(ledger, job))


def _ends(table: Table) -> tuple[Any, Any]:
    """Return the ends of every column's declared range, one row per column."""
    ends = [column.range or (-np.inf, np.inf) for column in table.schema.columns]
    low, high = np.array(ends, np.float64).T
    return low[:, None], high[:, None]


def _claim(party: str, claim: Claim) -> PartyClaim:
    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    return PartyClaim(
        party,
        str(claim.unit),
        claim.view.value,
        claim.verdict.value,
        text(claim.epsilon),
        text(claim.delta),
        claim.text,
    )
