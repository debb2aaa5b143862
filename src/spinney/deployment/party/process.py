"""A party's process of a job: it checks the job again, opens its table, and answers."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

from spinney.deployment.evaluation import EvaluatingParty
from spinney.deployment.job import CHECK, EVALUATE, PREDICT, PROPOSE, Agreed
from spinney.deployment.party.admission import Accepted, alone
from spinney.deployment.party.budget import check_budget
from spinney.deployment.party.config import PartyFile
from spinney.deployment.party.guard import Guarded, RunRecord
from spinney.deployment.party.heads import LedgerHeads
from spinney.deployment.party.keyed import KEY_ASKS, MASK_ASKS, KeyedSide
from spinney.deployment.party.leaving import LeavingModel
from spinney.deployment.party.own_report import own_report
from spinney.deployment.party.pins import MetPeers, PinnedIdentity, Pins
from spinney.deployment.party.policy import check_policy, rules_in_words
from spinney.deployment.party.progress import Advance
from spinney.deployment.party.sources import bind_data, check_data
from spinney.deployment.party.steps import StoredSteps
from spinney.deployment.party.tables import (
    choose_rows,
    fingerprint,
    left_behind,
    open_label_memory,
    open_ledger,
    open_table,
    read_whole_table,
    require_enough_rows,
)
from spinney.deployment.party.trained import require_trained_here
from spinney.deployment.questions import (
    AuditAsk,
    AuditReply,
    DerivedAsk,
    FindingsAsk,
    FindingsReply,
    Judged,
    ModelAsk,
    ModelReply,
    OutcomeAsk,
    OutcomeReply,
    ProposalAsk,
    ProposalReply,
    TermsAsk,
    WithdrawAsk,
    WithdrawnReply,
)
from spinney.errors import PolicyError, ProtocolError, SpinneyError, StorageError, TableError
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.privacy.signatures import ledger_secret
from spinney.protocols import private_evaluation, spec, table_fit
from spinney.protocols.accounts.account import ClaimsAsk, ExactJob, note_exact
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.setup import SchemaAsk
from spinney.protocols.secure_sums.roster import RosterParty
from spinney.protocols.training import Training
from spinney.protocols.verified.derivation import OwnDerivation
from spinney.protocols.verified.messages import Opened, StepAsk
from spinney.protocols.verified.party import VerifyingParty
from spinney.protocols.verified.tags import SumKeys
from spinney.report.file_names import REPORT
from spinney.tables.holding import Holding
from spinney.tables.table import Table
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, Channel
from spinney.transport.deflated import Deflated
from spinney.typing import silent

_LOG: Final = logging.getLogger("spinney.party")
_WAIT: Final = 60.0  # seconds for a job that is just ending


class RunParty:
    """A party in one run; it opens its table when a question first needs it."""

    def __init__(
        self,
        party: PartyFile,
        agreed: Agreed,
        run: str,
        attempt: int,
        *,
        asker: str,
        present: tuple[str, ...] = (),
    ) -> None:
        self._party = party
        self._asker = asker
        self._accepted = Accepted(party.records)
        self._busy = ExitStack()
        self._begun = False
        self._agreed = agreed
        self._run = run
        self._name = party.party.name
        self._settings = agreed.settings_asked()
        self._present = present or agreed.parties
        self._record = RunRecord(party.records / "runs" / run)
        self._answering: Answering | None = None
        self._steps = StoredSteps(self._record.folder / "steps", lambda: self._ledger)
        self._verifying: VerifyingParty | None = None
        self._released: ForestModel | None = None  # the model that this party derived, as it left
        self._told = False  # whether a blind coordinator has heard what came of the job
        self._leaving = LeavingModel(party, agreed, run, self._record, lambda: self._ledger)
        self._fit: table_fit.Party | None = None
        self._compared = False  # whether the coordinator has heard what does not fit
        self._derivation: OwnDerivation | None = None
        self._inside: Answering = _Later(self._opened)
        pins = Pins(self._name, party.policy.peers)
        self._identity = PinnedIdentity(party.kit, pins, MetPeers(party.records), run)
        self.heads = LedgerHeads(
            self._name,
            self._identity,
            party.records,
            attempt=f"{run}/{attempt}",
            ledger=lambda: self._ledger,
            present=self._present,
        )
        if agreed.is_masked or agreed.is_verified:
            self._inside = KeyedSide(
                self._name,
                self._among_others,
                (StepAsk,) if agreed.is_verified else agreed.summed,
                RosterParty(self._name, f"{run}/{attempt}", self._identity),
                agreed,
                memory=lambda: self._ledger,
                held=self._steps.held,
            )

    @property
    def known(self) -> dict[str, type[Ask[Any]]]:
        """The kinds of questions that this run asks."""
        masks: tuple[type[Ask[Any]], ...] = ()
        if self._agreed.is_masked:
            masks = (*KEY_ASKS, *MASK_ASKS)
        kinds: tuple[type[Ask[Any]], ...] = (ProposalAsk,)
        if self._agreed.kind == EVALUATE:
            noisy = (ClaimsAsk,) if self._agreed.evaluation is not None else ()
            kinds = (*self._agreed.summed, *noisy, *masks)
        elif self._agreed.kind == CHECK:
            kinds = (SchemaAsk, *KEY_ASKS, StepAsk, *masks, FindingsAsk)
        elif self._agreed.kind != PROPOSE and self._agreed.is_verified:
            kinds = (*KEY_ASKS, StepAsk, *masks, TermsAsk, AuditAsk, WithdrawAsk, DerivedAsk)
            kinds += (SchemaAsk, OutcomeAsk) if self._agreed.is_blind else ()
        elif self._agreed.kind == PREDICT:
            assert isinstance(self._agreed.spec, spec.ColumnsSpec)
            kinds = self._agreed.spec.prediction_asks
        elif self._agreed.kind != PROPOSE:
            kinds = (*self._agreed.spec.asks, *masks, TermsAsk, AuditAsk, WithdrawAsk, ModelAsk)
        return {kind.__name__: kind for kind in kinds}

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question of the run."""
        if isinstance(ask, ProposalAsk):
            return self._proposal(ask)
        self._begin()
        at_the_end: dict[type[Ask[Any]], Callable[[Any], Any]] = {
            TermsAsk: self._leaving.terms,
            AuditAsk: self._audited,
            WithdrawAsk: self._withdraw,
            ModelAsk: self._leaving.keep_handed,
            DerivedAsk: self._finish,
            OutcomeAsk: self._outcome,
            FindingsAsk: self._findings,
        }
        if self._agreed.is_blind:  # its coordinator sees no step, and compares schemas beforehand
            at_the_end[SchemaAsk] = lambda ask: self._opened().answer(ask)
        if not isinstance(ask, WithdrawAsk):
            self._steps.require_going_on()  # of a run that was withdrawn, nothing leaves
        answer = at_the_end.get(type(ask))
        return self._inside.answer(ask) if answer is None else answer(ask)

    def close(self) -> None:
        """Let other jobs begin."""
        if self._begun:
            _LOG.info("Job %r has ended here.", self._agreed.name)
        if self._derivation is not None:
            self._derivation.close()
        if self._told and self._released is not None:
            self._steps.finish(sha256(self._released.to_bytes()).hexdigest())
        if self._compared:
            self._steps.finish(self._agreed.digest)
        self._busy.close()

    def _proposal(self, ask: ProposalAsk) -> ProposalReply:
        """Answer yes and record the job, or answer no and name the rule."""
        try:
            if ask.digest != self._agreed.digest:
                raise _changed_on_the_way()
            check_policy(self._name, self._party.policy, self._agreed, self._asker)
            with (
                alone(self._party.records, _WAIT),
                left_behind(open_table(self._party, self._agreed)) as table,
            ):
                check_budget(self._party, self._agreed, table)
                if not self._agreed.is_exact:
                    check_data(self._party, self._ledger, table)
                self._accepted.accept(self._agreed, fingerprint(table))
        except SpinneyError as error:
            _LOG.info("Job %r was refused: %s", self._agreed.name, error)
            return ProposalReply(accepts=False, reason=error.public)
        _LOG.info("Job %r was accepted.", self._agreed.name)
        audits = self._party.policy.audit is not None
        return ProposalReply(accepts=True, reason="", audits=audits)

    def _begin(self) -> None:
        """Check the job once more, and make sure that no other job is running."""
        if self._begun:
            return
        check_policy(self._name, self._party.policy, self._agreed, self._asker)
        self._accepted.require_same_job(self._agreed)
        if self._agreed.kind in (EVALUATE, PREDICT):
            require_trained_here(self._party.records, self._agreed)
        if not self._record.settle("job", self._agreed.digest):
            raise PolicyError("This run belongs to another job. Start the job as a new run.")
        self._busy.enter_context(alone(self._party.records, _WAIT))
        _LOG.info("Job %r begins.", self._agreed.name)
        if self.heads.n_shown:
            self._record.disclose(
                question="Head",
                reveals="how many entries its ledger has, at the start and with every answer",
                protection="marks of entries under a secret of the ledger",
                bytes=self.heads.n_shown,
            )
        self._begun = True

    def _opened(self) -> Answering:
        if self._answering is None:
            whole = read_whole_table(self._party, self._agreed)
            self._busy.enter_context(left_behind(whole))
            n_rows = whole.n_rows
            table = choose_rows(whole, self._party, self._agreed)
            if self._agreed.is_exact:
                require_enough_rows(self._party, table.n_rows, n_rows)
            if self._agreed.kind == CHECK:  # a table that was mended is compared again
                self._accepted.accept(self._agreed, fingerprint(table))
            else:
                self._accepted.require_same_table(self._agreed, fingerprint(table))
            self._require_same_rows(table)
            ledger = self._ledger
            if not self._agreed.is_exact:
                bind_data(self._party, ledger, whole)
            memory = open_label_memory(self._party, self._settings, whole)
            self._answering = Guarded(
                self._side(table, ledger, memory),
                self._settings,
                None if isinstance(table, Holding) else table.schema.digest(),
                self._record,
                masked=self._agreed.is_masked,
                advance=self._advance(),
                note_exact=self._noting(ledger),
            )
        return self._answering

    def _require_same_rows(self, table: Table | Holding) -> None:
        """Raise if the run began on other rows, or with another rule of which rows are counted.

        A step that was answered before would be answered again, and the difference of the two sums
        is what the change is about.
        """
        if not self._record.settle("table", fingerprint(table, with_keys=True)):
            raise TableError(
                "The table changed since this run began. Restore it, or start the job as a new run."
            )
        if not self._record.settle("min_own_rows", str(self._party.policy.min_own_rows)):
            raise PolicyError(
                "The rule 'min_own_rows' of this party changed since this run began. Set it back, "
                "or start the job as a new run."
            )

    @cached_property
    def _ledger(self) -> Ledger:
        ledger = open_ledger(self._party)
        self._busy.callback(ledger.close)
        return ledger

    def _advance(self) -> Advance:
        """Return the progress of this party."""
        agreed, spec = self._agreed, self._agreed.spec
        is_training = agreed.kind not in (EVALUATE, PREDICT, CHECK)
        steps = spec.steps_at_most(self._settings) if is_training else None
        return Advance(self._record.folder, agreed.name, steps, spec.step)

    def _side(
        self, table: Table | Holding, ledger: Ledger, memory: LabelMemory | None
    ) -> Answering:
        """Return the object that answers from the table."""
        n_jobs, agreed = self._party.party.n_jobs, self._agreed
        if agreed.kind == EVALUATE:
            assert not isinstance(table, Holding)  # there are no such jobs
            if agreed.evaluation is None:
                return EvaluatingParty(table, agreed.model, n_jobs=n_jobs)
            n_parties, data = len(agreed.parties), self._party.ledger.data
            return private_evaluation.Party(
                table, ledger, n_parties=n_parties, n_jobs=n_jobs, data=data
            )
        if agreed.kind == CHECK:
            assert not isinstance(table, Holding)
            return self._comparing(table)
        data, folder = self._party.ledger.data, self._record.folder
        site = spec.PartySite(
            self._name,
            n_jobs,
            ledger,
            data,
            folder,
            memory,
            is_masked=agreed.is_masked,
            run=f"{agreed.name} {self._run}",
            parties=agreed.parties,
            identity=self._identity,
            max_match_ids=self._party.policy.max_match_ids,
            min_own_rows=self._party.policy.min_own_rows,
        )
        if agreed.kind == PREDICT:
            assert isinstance(table, Holding)
            assert isinstance(agreed.spec, spec.ColumnsSpec)
            trained = folder.with_name(agreed.model)
            return agreed.spec.predicting_party(table, self._settings, trained, site)
        side = agreed.spec.party(table, self._settings, site)
        if not isinstance(agreed.spec, spec.OwnModelsSpec):
            return side
        return _Keeping(side, agreed.spec.own_model, self._record)

    def _noting(self, ledger: Ledger) -> Callable[[Ask[Any]], None] | None:
        """Return a function that records in the ledger that a question is answered exactly."""
        agreed, n_parties = self._agreed, len(self._agreed.parties)
        if not agreed.is_exact:
            return None
        honest = agreed.honest_among(n_parties) if agreed.is_masked else None
        job = ExactJob(f"{agreed.name} {self._run}", n_parties, honest)
        data = self._party.ledger.data
        return lambda ask: note_exact(ledger, data, job, ask)

    def _among_others(self, secret: bytes) -> Answering:
        """Return what answers the job's questions, once all parties share a secret."""
        if not self._agreed.is_verified:
            return _Later(self._opened)
        if self._steps.finished() is not None:
            return _Over()
        self._derivation = OwnDerivation(
            self._train, self._agreed.parties, is_masked=self._agreed.is_masked
        )
        self._verifying = VerifyingParty(
            _Later(self._opened),
            self._name,
            SumKeys(self._steps.secret(secret), self._run.encode()),
            self._derivation,
            is_masked=self._agreed.is_masked,
            least=self._agreed.quorum,
            is_blind=self._agreed.is_blind,
            steps=self._steps,
        )
        return self._verifying

    def _train(self, channel: Channel) -> Any:
        """Run the job's training, or its comparison of tables, on what this party is told."""
        if self._agreed.kind == CHECK:
            return table_fit.ask_sums(channel)
        n_jobs = self._party.party.n_jobs
        return self._agreed.spec.train(channel, self._settings, n_jobs=n_jobs, progress=silent)

    def _finish(self, ask: DerivedAsk) -> ModelReply:
        """Keep the model that this party derived, if it is the coordinator's too."""
        known = self._steps.finished()
        if known is not None and known == ask.digest:  # the coordinator died before it knew
            return self._leaving.kept_before(known)
        model = self._derived(ask.digest, ask.before)
        reply, self._released = self._leaving.keep_derived(model, ask)
        self._report()
        if not self._agreed.is_blind:  # its coordinator has more to ask
            self._steps.finish(reply.digest)
        return reply

    def _report(self) -> None:
        """Write this party's own report of the run, so far, beside the model that it keeps."""
        assert self._derivation is not None
        assert self._released is not None
        training = self._derivation.finished()
        assert isinstance(training, Training)
        folder, present = self._record.folder, self._present
        try:
            told = own_report(
                self._name,
                self._agreed,
                training,
                present=present,
                released=self._released,
                disclosed=self._record.disclosed,
                rules=rules_in_words(self._party.policy),
            )
            told.save(folder / REPORT)
        except StorageError as error:  # the model has left, and the records say so
            _LOG.warning("The report of job %r was not written: %s", self._agreed.name, error)

    def _comparing(self, table: Table) -> table_fit.Party:
        """Return the side that compares this table with the others'; it is kept to compare."""
        secret, data = ledger_secret(self._party.ledger_file), self._party.ledger.data
        self._fit = table_fit.Party(table, secret, memory=self._ledger, data=data)
        return self._fit

    def _findings(self, ask: FindingsAsk) -> FindingsReply:
        """Tell in which columns this party's table is unlike the others', and end the run here."""
        if self._verifying is None or self._derivation is None:
            raise ProtocolError("This party has not compared its table. Nothing was released.")
        self._verifying.take(ask.before)
        told: Any = self._derivation.finished()
        self._opened()
        assert self._fit is not None
        n_parties = len(self._agreed.parties)
        found = self._fit.compare(told, n_parties)
        reply = FindingsReply(found, self._fit.count_ids_elsewhere(told, n_parties))
        self._record.disclose(
            question=ask.called(),
            reveals=ask.reveals,
            protection="none",
            bytes=codec.encoded_size(reply),
        )
        self._compared = True
        return reply

    def _derived(self, digest: str, before: tuple[Opened, ...]) -> ForestModel:
        """Return the model that this party derived; raise if it is not the coordinator's too."""
        if self._verifying is None or self._derivation is None:
            raise ProtocolError("This party has not derived a model.")
        self._verifying.take(before)
        model: ForestModel | None = self._derivation.finished().model
        assert model is not None  # parties derive the models of jobs over rows, which have one
        told = "" if self._agreed.is_blind else sha256(model.to_bytes()).hexdigest()
        if told != digest:
            raise ProtocolError(
                "The coordinator's model is not the one that this party derived from the job's "
                "sums. This party keeps neither."
            )
        return model

    def _audited(self, ask: AuditAsk) -> AuditReply:
        """Say whether the model passes this party's audit."""
        known = self._steps.finished()
        if known is not None and known == ask.digest:  # it passed, and was kept
            return AuditReply(waits=False, refused=False, reason="")
        is_derived = self._agreed.is_verified
        model = self._derived(ask.digest, ask.before) if is_derived else None
        return self._leaving.audited(model, ask)

    def _withdraw(self, ask: WithdrawAsk) -> WithdrawnReply:
        """Erase what this party keeps of a model that does not leave, and answer nothing more."""
        if not self._steps.has_ended:
            self._leaving.withdraw(ask.called())
            self._steps.withdraw(
                "The coordinator said that a party's audit of this run's model did not pass, so "
                "that nobody keeps it. Nothing was released. Start the job as a new run."
            )
        return WithdrawnReply()

    def _outcome(self, ask: OutcomeAsk) -> OutcomeReply:
        """Tell a blind coordinator what came of the job, once the model is kept."""
        if self._derivation is None or self._released is None:
            raise ProtocolError("This party has not yet kept a model. Nothing was released.")
        training = self._derivation.finished()
        model = Deflated(self._released.to_bytes() if ask.with_model else b"")
        self._record.disclose(
            question=ask.called(), reveals=ask.reveals, protection="none", bytes=len(model.data)
        )
        steps = tuple((r.question, r.reveals) for r in training.rounds if r.verb == "sum")
        claims = tuple(claim for claim in training.claims if claim.party == self._name)
        quality = tuple(
            Judged(name, found.rows, found.n_rows, tuple(found.scores.items()))
            for name, found in training.quality.items()
        )
        self._told = True
        self._report()
        return OutcomeReply(model, steps, quality, training.score, tuple(dict.fromkeys(claims)))


def _changed_on_the_way() -> ProtocolError:
    return ProtocolError("The question is about a different job from the one that was sent.")


class _Over:
    """A party whose run has ended: it kept a model, and answers no step again."""

    def answer(self, ask: Ask[Any]) -> Any:
        """Refuse."""
        del ask
        raise ProtocolError(
            "This run has ended at this party, which keeps its model. Nothing was released. Start "
            "the job as a new run."
        )


class _Later:
    """A party that is created at its first question."""

    def __init__(self, make: Callable[[], Answering]) -> None:
        self._make = make

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        return self._make().answer(ask)


class _Keeping:
    """A party that stores its own model on its disk before the answer leaves."""

    def __init__(
        self, party: Answering, own: Callable[[Any], ForestModel | None], record: RunRecord
    ) -> None:
        self._party = party
        self._own = own
        self._record = record

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        reply = self._party.answer(ask)
        model = self._own(self._party)
        if model is not None:
            self._record.keep_model(model.to_bytes())
        return reply
