"""How the model of a run leaves, at a party: on which terms, as which bytes, and on which record.

A party says on which terms a model of its rows may leave, and keeps what it is handed only if it
shows no more. A model that the party derived itself it hardens itself. Either way the party's
records and its ledger say that a model left, on which terms, and its digest; of one run, one model.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import Final

from spinney.deployment.job import Agreed
from spinney.deployment.party.config import PartyFile
from spinney.deployment.party.guard import RunRecord
from spinney.deployment.questions import (
    RELEASED,
    AuditAsk,
    AuditReply,
    DerivedAsk,
    ModelAsk,
    ModelReply,
    TermsAsk,
    TermsReply,
)
from spinney.errors import LedgerError, PolicyError, ProtocolError, UnauditedError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Disclosure, Protection, Question, View
from spinney.protocols.columns.model import PART
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.protocols.settings import PrivacySettings
from spinney.report.audit_limits import refuse_unaudited
from spinney.report.door import release, require_released
from spinney.report.file_names import MODEL

_LOG: Final = logging.getLogger("spinney.party")
_ONE_MODEL: Final = b"the model that left"


class LeavingModel:
    """The model of one run at one party.

    Parameters
    ----------
    party, agreed, run
        The party's file, the job that it accepted, and the run.
    record
        What the party remembers about the run.
    ledger
        Returns the party's ledger.
    """

    def __init__(
        self,
        party: PartyFile,
        agreed: Agreed,
        run: str,
        record: RunRecord,
        ledger: Callable[[], Ledger],
    ) -> None:
        self._agreed = agreed
        self._allowed = agreed.release.with_all([party.policy.terms])
        self._policy = party.policy
        self._data = party.ledger.data
        self._run = run
        self._record = record
        self._ledger = ledger

    @cached_property
    def _privacy(self) -> PrivacySettings | None:
        privacy: PrivacySettings | None = self._agreed.protocol_settings().privacy
        return privacy

    def terms(self, ask: TermsAsk) -> TermsReply:
        """Return the terms on which the model may leave, for all that this party knows."""
        del ask
        return TermsReply.of(self._allowed, audits=self._policy.audit is not None)

    def keep_handed(self, ask: ModelAsk) -> ModelReply:
        """Keep the model that the coordinator hands out, unless it shows more than allowed."""
        model = self._handed(ask.called(), ask.model)
        digest = self._left(ask.called(), ask.model, model.released or EXACT)
        return ModelReply(digest, digest)

    def keep_derived(self, model: ForestModel, ask: DerivedAsk) -> tuple[ModelReply, ForestModel]:
        """Harden the model that this party derived, and keep it; return it as it left as well."""
        terms = ask.terms.terms
        released = self._hardened(ask.called(), model, terms)
        kept = self._left(ask.called(), released.to_bytes(), terms)
        # A blind coordinator could try out which exact counts have this digest.
        derived = kept if self._agreed.is_blind else sha256(model.to_bytes()).hexdigest()
        return ModelReply(derived, kept), released

    def audited(self, derived: ForestModel | None, ask: AuditAsk) -> AuditReply:
        """Say what came of the audit of a model that may leave; the model stays here until then."""
        question, model = ask.called(), ask.model
        if derived is None:
            self._handed(question, model)
        else:
            model = self._hardened(question, derived, ask.terms.terms).to_bytes()
        try:
            self._require_audited(question, model)
        except PolicyError as error:
            _LOG.warning("%s", error)  # with what stays here: where it is kept, what was found
            waits = isinstance(error, UnauditedError)
            reply = AuditReply(waits=waits, refused=not waits, reason=error.public)
        else:
            reply = AuditReply(waits=False, refused=False, reason="")
        said = len(reply.reason.encode())
        self._record.disclose(question=question, reveals=ask.reveals, protection="none", bytes=said)
        return reply

    def withdraw(self, question: str) -> None:
        """Erase a model that has not left, because a party's audit of it did not pass."""
        if (self._record.folder / MODEL).exists():
            raise ProtocolError("The model of this run has left before; this party keeps it.")
        self._record.drop_candidate()
        (self._record.folder / PART).unlink(missing_ok=True)  # of a model over columns
        self._refused(
            question,
            PolicyError("The coordinator said that a party's audit of the model did not pass."),
        )

    def _handed(self, question: str, data: bytes) -> ForestModel:
        """Return the model that the coordinator hands out, unless it shows more than allowed."""
        model = ForestModel.from_bytes(data, name="the handed-out model")
        try:
            noises = self._privacy is not None and self._privacy.noises_counts
            require_released(model, self._allowed, noises_counts=noises)
        except PolicyError as error:
            self._refused(question, error)
            raise
        return model

    def _hardened(self, question: str, model: ForestModel, terms: Hardening) -> ForestModel:
        """Return the derived model as it may leave; raise if it would show more than allowed."""
        name = terms.shows_more_than(self._allowed)
        if name:
            error = PolicyError(
                f"The model is to be handed out with {terms.told(name)}; this party allows "
                f"{self._allowed.told(name)}. This party does not keep it."
            )
            self._refused(question, error)
            raise error
        return release(model, terms)[0]

    def kept_before(self, derived: str) -> ModelReply:
        """Return the reply of an attempt that ended before the coordinator heard it."""
        path = self._record.folder / MODEL
        kept = sha256(path.read_bytes()).hexdigest() if path.exists() else derived
        return ModelReply(derived, kept)

    def _left(self, question: str, model: bytes, terms: Hardening) -> str:
        """Record that a model leaves, then keep it; return its digest."""
        self._require_audited(question, model)
        digest = sha256(model).hexdigest()
        self._note(digest, terms)
        self._record.disclose(
            question=question,
            reveals=RELEASED,
            protection=f"released with {terms.in_words()}; sha256 {digest}",
            bytes=len(model),
        )
        if self._agreed.spec.leaves != "own models":
            self._record.keep_model(model)
        return digest

    def _require_audited(self, question: str, model: bytes) -> None:
        """Raise unless the model passed the audit that the party's policy asks for, if any.

        The party keeps the model meanwhile, so that it can be audited, but not as one that left.
        """
        if self._policy.audit is None or self._agreed.spec.leaves == "own models":
            return
        path = self._record.folder / MODEL
        if path.exists() and path.read_bytes() != model:
            raise _another_model()
        self._record.keep_candidate(model)
        try:
            refuse_unaudited(
                self._policy.audit,
                self._record.folder,
                model,
                exact_counts=self._policy.exact_counts,
            )
        except PolicyError as error:
            self._refused(question, error)
            raise

    def _refused(self, question: str, error: PolicyError) -> None:
        self._record.disclose(
            question=question, reveals=RELEASED, protection=f"refused: {error.public}", bytes=0
        )

    def _note(self, digest: str, terms: Hardening) -> None:
        """Write into the ledger which model left; raise if another has left this run before."""
        ledger = self._ledger()
        job = self._job_in(ledger)
        if self._agreed.is_exact:
            why = f"trees over exact counts, released with {terms.in_words()}"
            told = Disclosure(RELEASED, Protection.UNPROTECTED, why, tuple(Unit), (View.READER,))
            ledger.disclose(Question.of(job, 0, RELEASED.encode()), [told])
        left = f"{digest} {terms.in_words()}".encode()
        if ledger.kept(Question.of(job, 0, _ONE_MODEL + self._run.encode()), lambda: left) != left:
            raise _another_model()

    def _job_in(self, ledger: Ledger) -> str:
        """Return the name under which the ledger has the job; an exact job is opened."""
        if self._privacy is not None:
            with suppress(LedgerError):  # a party without labels pays for none
                return str(ledger.job(self._privacy.job).name)
        agreed, n_parties = self._agreed, len(self._agreed.parties)
        honest = agreed.honest_among(n_parties) if agreed.is_masked else 1
        job = JobTerms(f"{agreed.name} {self._run}", self._data, n_parties, honest)
        ledger.open_job(job)
        return job.name


def _another_model() -> PolicyError:
    return PolicyError(
        "Another model of this run has left this party before, and two of them would show more "
        "than one. Start the job again as a new run."
    )
