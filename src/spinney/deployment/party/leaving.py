"""How the model of a run leaves, at a party: on which terms, as which bytes, and on which record.

A party says on which terms a model of its rows may leave, and keeps what it is handed only if it
shows no more. A model that the party derived itself it hardens itself. Either way the party's
records and its ledger say that a model left, on which terms, and its digest; of one run, one model.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import Final

from spinney.deployment.job import Agreed
from spinney.deployment.party.config import PartyFile
from spinney.deployment.party.guard import RunRecord
from spinney.deployment.questions import RELEASED, DerivedAsk, ModelAsk, ModelReply, TermsReply
from spinney.errors import LedgerError, PolicyError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Disclosure, Protection, Question, View
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.protocols.settings import PrivacySettings
from spinney.report.audit_limits import refuse_unaudited
from spinney.report.door import release, require_released
from spinney.report.file_names import MODEL

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

    def terms(self) -> TermsReply:
        """Return the terms on which the model may leave, for all that this party knows."""
        return TermsReply.of(self._allowed)

    def keep_handed(self, ask: ModelAsk) -> ModelReply:
        """Keep the model that the coordinator hands out, unless it shows more than allowed."""
        model = ForestModel.from_bytes(ask.model, name="the handed-out model")
        try:
            require_released(model, self._allowed, is_private=self._privacy is not None)
        except PolicyError as error:
            self._refused(ask.called(), error)
            raise
        digest = self._left(ask.called(), ask.model, model.released or EXACT)
        return ModelReply(digest, digest)

    def keep_derived(self, model: ForestModel, ask: DerivedAsk) -> tuple[ModelReply, bytes]:
        """Harden the model that this party derived, and keep it; return its bytes as well."""
        terms = ask.terms.terms
        name = terms.shows_more_than(self._allowed)
        if name:
            error = PolicyError(
                f"The model is to be handed out with {terms.told(name)}; this party allows "
                f"{self._allowed.told(name)}. This party does not keep it."
            )
            self._refused(ask.called(), error)
            raise error
        released = release(model, terms)[0].to_bytes()
        kept = self._left(ask.called(), released, terms)
        # A blind coordinator could try out which exact counts have this digest.
        derived = kept if self._agreed.is_blind else sha256(model.to_bytes()).hexdigest()
        return ModelReply(derived, kept), released

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

        The party keeps the model already, so that it can be audited. Nobody has heard of it.
        """
        if self._policy.audit is None or self._agreed.spec.leaves == "own models":
            return
        path = self._record.folder / MODEL
        if path.exists() and path.read_bytes() != model:
            raise _another_model()
        self._record.keep_model(model)
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
