"""A party's process of a job: it checks the job again, opens its table, and answers."""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import numpy as np

from spinney.errors import ProtocolError, SettingError, SpinneyError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Budget
from spinney.protocols.randomised_labels import opened_memory
from spinney.protocols.rosters import ROSTER_ASKS, KeyAsk, RosterAsk, RosterParty, RosterReply
from spinney.protocols.secure_sums import (
    EpochAsk,
    LettersAsk,
    MaskedAsk,
    RevealAsk,
    SecureParty,
)
from spinney.seeds import derived
from spinney.service import registry
from spinney.service.config import SimulationConfig
from spinney.service.deployed.accepted import Accepted, alone
from spinney.service.deployed.agreed import PROPOSE, Agreed
from spinney.service.deployed.guard import Guarded, RunRecord
from spinney.service.deployed.identity import KitIdentity
from spinney.service.deployed.logs import JsonLines
from spinney.service.deployed.party_file import PartyFile, load_party
from spinney.service.deployed.policy import check_policy
from spinney.service.deployed.running import PARTY_VARIABLE
from spinney.service.rows import held_back, kept_by_id
from spinney.service.schemas import declared
from spinney.service.sources import source_of
from spinney.tables.readers import read_table
from spinney.tables.schema import Schema, listed
from spinney.tables.spool import spooled
from spinney.tables.table import Table
from spinney.transport.channel import Answering, Ask
from spinney.transport.flare.engine import Link, PartySide
from spinney.transport.flare.jobs import job_of_args
from spinney.transport.flare.resident import Resident

_LOG: Final = logging.getLogger("spinney.party")
_WAIT: Final = 60.0  # seconds for a job that is just ending

MASK_ASKS: Final = (EpochAsk, LettersAsk, MaskedAsk, RevealAsk)


@dataclass(frozen=True)
class ProposalReply:
    """Yes, or the rule by which the party refuses."""

    accepts: bool
    reason: str


@dataclass(frozen=True)
class ProposalAsk(Ask[ProposalReply]):
    """Would you take part in this job?"""

    digest: str
    reveals: ClassVar[str] = "whether the party takes part, or the rule by which it refuses"
    reply_type: ClassVar[type[Any]] = ProposalReply


@dataclass(frozen=True)
class ModelReply:
    """The model was kept."""

    digest: str


@dataclass(frozen=True)
class ModelAsk(Ask[ModelReply]):
    """Will you keep the finished model?"""

    model: bytes
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = ModelReply


class Site(PartySide):
    """What the engine starts at a party."""

    def __init__(self, job: str) -> None:
        super().__init__()
        self._job = job
        self._answering: RunParty | None = None

    def begin(self, link: Link) -> Resident:
        """Return what answers this job's questions."""
        party = load_party(Path(os.environ[PARTY_VARIABLE]))
        agreed = Agreed.of_bytes(job_of_args(self._job))
        run, attempt = run_of(link)
        JsonLines.job = run
        asker = str(link.meta.get("submitter_name", ""))
        answering = RunParty(party, agreed, run, attempt, asker=asker)
        self._answering = answering
        return Resident(answering, run=run, attempt=attempt, known=answering.known)

    def end(self) -> None:
        """Let other jobs begin."""
        if self._answering is not None:
            self._answering.close()


def run_of(link: Link) -> tuple[str, int]:
    """Return the run that an engine job belongs to, and which of its attempts it is."""
    run = link.meta.get("spinney_run") or link.job_id
    return str(run), int(link.meta.get("spinney_attempt") or 1)


class RunParty:
    """A party in one run: its table is opened when the first question needs it."""

    def __init__(
        self, party: PartyFile, agreed: Agreed, run: str, attempt: int, *, asker: str
    ) -> None:
        self._party = party
        self._asker = asker
        self._accepted = Accepted(party.records)
        self._busy = ExitStack()
        self._begun = False
        self._agreed = agreed
        self._run = run
        self._name = party.party.name
        self._settings = agreed.protocol_settings()
        self._record = RunRecord(party.records / "runs" / run)
        self._masked = bool(agreed.settings.secure_sum)
        self._roster = RosterParty(self._name, f"{run}/{attempt}", KitIdentity(party.kit))
        self._questions: dict[int, str] = {}  # of masked rounds
        self._answering: Answering | None = None
        self._secure: SecureParty | None = None

    @property
    def known(self) -> dict[str, type[Ask[Any]]]:
        """The kinds of questions that this run asks."""
        if self._agreed.kind == PROPOSE:
            kinds: tuple[type[Ask[Any]], ...] = (ProposalAsk,)
        else:
            masks = (*ROSTER_ASKS, *MASK_ASKS) if self._masked else ()
            kinds = (*self._agreed.entry.asks, *masks, ModelAsk)
        return {kind.__name__: kind for kind in kinds}

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question of the run."""
        if isinstance(ask, ProposalAsk):
            return self._proposal(ask)
        self._begin()
        match ask:
            case KeyAsk():
                return self._roster.key(ask)
            case RosterAsk():
                return self._take_roster(ask)
            case ModelAsk():
                return self._keep_model(ask)
            case MaskedAsk():
                asked = sha256(ask.kind.encode() + b"\0" + ask.question).hexdigest()
                self._questions[ask.mask.round_number] = asked
            case RevealAsk():
                self._require_one_opening(ask)
        return self._inside().answer(ask)

    def close(self) -> None:
        """Let other jobs begin."""
        self._busy.close()

    def _proposal(self, ask: ProposalAsk) -> ProposalReply:
        """Say yes and remember to what, or no and by which rule."""
        try:
            if ask.digest != self._agreed.digest:
                raise _changed_on_the_way()
            check_policy(self._name, self._party.policy, self._agreed, self._asker)
            with alone(self._party.records, _WAIT):
                table = table_for(self._party, self._agreed)
                self._accepted.accept(self._agreed, fingerprint(table))
        except SpinneyError as error:
            _LOG.info("Job %r was refused: %s", self._agreed.name, error)
            return ProposalReply(accepts=False, reason=error.public)
        _LOG.info("Job %r was accepted.", self._agreed.name)
        return ProposalReply(accepts=True, reason="")

    def _begin(self) -> None:
        """Check the job once more, and be the only one at work."""
        if self._begun:
            return
        check_policy(self._name, self._party.policy, self._agreed, self._asker)
        self._accepted.require_same_job(self._agreed)
        self._busy.enter_context(alone(self._party.records, _WAIT))
        _LOG.info("Job %r begins.", self._agreed.name)
        self._begun = True

    def _inside(self) -> Answering:
        if self._masked:
            if self._secure is None:
                raise ProtocolError("This party knows no keys of the others yet.")
            return self._secure
        return self._opened()

    def _opened(self) -> Answering:
        if self._answering is None:
            whole = whole_table(self._party, self._agreed)
            table = training_rows(whole, self._party, self._agreed)
            self._accepted.require_same_table(self._agreed, fingerprint(table))
            self._answering = Guarded(
                self._agreed.entry.party(table, self._settings, self._site(whole)),
                self._settings,
                table.schema.digest(),
                self._record,
                masked=self._masked,
            )
        return self._answering

    def _site(self, whole: Table) -> registry.Site:
        data, ledger, memory = self._party.ledger.data, None, None
        if getattr(self._settings, "privacy", None) is not None:
            ledger = opened_ledger(self._party)
        if randomises_labels(self._settings):  # a row that is held out has not left the table
            memory = opened_memory(self._party.labels, quote(data, safe=""), whole)
        n_jobs = self._party.party.n_jobs
        return registry.Site(self._name, n_jobs, ledger, data, memory=memory)

    def _take_roster(self, ask: RosterAsk) -> RosterReply:
        masks = self._roster.masks(ask, self._agreed.parties, max(2, self._agreed.quorum))
        summed = self._agreed.entry.summed
        self._secure = SecureParty(_Later(self._opened), masks, self._name, summed)
        return RosterReply(len(ask.names))

    def _require_one_opening(self, ask: RevealAsk) -> None:
        """Refuse to open a sum again for others: the difference would be one party's reply."""
        asked = self._questions.get(ask.unmask.round_number)
        survivors = ",".join(sorted(ask.unmask.survivors))
        if asked is None or not self._record.settle(f"opened {asked}", survivors):
            raise ProtocolError(
                "This sum was opened before for other parties. Nothing was released."
            )

    def _keep_model(self, ask: ModelAsk) -> ModelReply:
        digest = sha256(ask.model).hexdigest()
        part = self._record.folder / "model.part"
        part.write_bytes(ask.model)
        part.replace(self._record.folder / "model.spinney")
        return ModelReply(digest)


def opened_ledger(party: PartyFile) -> Ledger:
    """Open a party's ledger, with the budget that its policy allows for the life of the data."""
    ledger = Ledger.open(party.folder / party.ledger.path, party.party.name)
    if party.policy.epsilon_total is not None:
        total = party.policy.epsilon_total
        # In every unit: what is paid in one that has no budget would never run out.
        ledger.allow_for_life(party.ledger.data, [Budget.pure(total, unit) for unit in Unit])
    return ledger


def _changed_on_the_way() -> ProtocolError:
    return ProtocolError("The question is about another job than the one that was sent.")


class _Later:
    """A party that is made when it is first asked."""

    def __init__(self, make: Callable[[], Answering]) -> None:
        self._make = make

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        return self._make().answer(ask)


def table_for(party: PartyFile, agreed: Agreed) -> Table:
    """Open the party's table for a job: the rows it trains on."""
    return training_rows(whole_table(party, agreed), party, agreed)


def whole_table(party: PartyFile, agreed: Agreed) -> Table:
    """Open the party's table: all rows."""
    schema = schema_for(party, agreed)
    return read_table(source_of(party.table, party.folder), schema)


def training_rows(table: Table, party: PartyFile, agreed: Agreed) -> Table:
    """Return the rows that a job trains on."""
    if not agreed.held_out:
        return table
    number = agreed.parties.index(party.party.name)
    if getattr(agreed.protocol_settings(), "privacy", None) is not None:
        return kept_by_id(spooled(table), agreed.held_out, derived(agreed.held_out_seed, number))
    simulation = SimulationConfig(held_out=agreed.held_out, random_state=agreed.held_out_seed)
    return held_back(spooled(table), simulation, number).training


def schema_for(party: PartyFile, agreed: Agreed) -> Schema:
    """Return the schema by which the table is read; facts that nobody declared are refused."""
    settings = agreed.protocol_settings()
    if randomises_labels(settings) and party.table.row_id is None:
        raise SettingError(
            "label_privacy = 'local' randomises every label once and remembers the answer by the "
            "record's id, and the party's [table] names none. Name a row_id there."
        )
    said = declared(agreed.job_file(party.folder), party.table)
    needs_ranges = getattr(settings, "binning", "") == "ranges" or (
        getattr(settings, "privacy", None) is not None
    )
    missing = said.open_names(needs_ranges=needs_ranges)
    if missing is None:
        raise SettingError(
            "Neither the job nor the party's file lists the columns to use. Declare them in "
            "[table.columns]."
        )
    if missing or said.label_is_open:
        lacking = [*missing, *([said.label.name] if said.label_is_open else [])]
        raise SettingError(
            f"Public facts are not declared for: {listed(map(repr, lacking))}. In a deployed job "
            "they are never read off the data; declare them in [table.columns] or in the job."
        )
    return said.filled(None)


def randomises_labels(settings: Any) -> bool:
    """Tell whether a job's labels are randomised, and so remembered."""
    return bool(getattr(getattr(settings, "privacy", None), "randomises_labels", False))


def fingerprint(table: Table) -> str:
    """Return a digest of a table's schema and rows; it stays at the party."""
    state = sha256(table.schema.digest().encode())
    for batch in table.batches():
        state.update(np.ascontiguousarray(batch.values).tobytes())
        state.update(np.ascontiguousarray(batch.target).tobytes())
    return state.hexdigest()
