"""The coordinator's process of a job: it trains as a simulation does, over another channel."""

import logging
from dataclasses import replace
from time import monotonic, time
from typing import Any, Final

import msgspec

from spinney.deployment.coordinator.config import CoordinatorFile
from spinney.deployment.coordinator.hand_out import HandOut
from spinney.deployment.coordinator.heads import KeptHeads
from spinney.deployment.coordinator.runs import (
    FAILED,
    FINISHED,
    OVER,
    PAUSED,
    RUNNING,
    WAITING,
    RunFolder,
    Status,
)
from spinney.deployment.coordinator.unfinished import add_run_facts
from spinney.deployment.costs import size_of
from spinney.deployment.evaluation import (
    digest_of,
    evaluate_model,
    evaluate_with_noise,
    find_run,
)
from spinney.deployment.job import CHECK, EVALUATE, PREDICT, PROPOSE, Agreed, Attempt
from spinney.deployment.logs import JsonLines
from spinney.deployment.questions import FindingsAsk, OutcomeAsk, ProposalAsk
from spinney.deployment.text import printable, standing_of
from spinney.errors import (
    LedgerError,
    PartyLostError,
    ProtocolError,
    SpinneyError,
    StorageError,
    TableError,
    UnauditedError,
)
from spinney.files import write_whole
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.setup import SchemaAsk
from spinney.protocols.secure_sums.channel import RevealAsk, SecureSums
from spinney.protocols.secure_sums.roster import exchange_keys
from spinney.protocols.spec import ColumnsSpec
from spinney.protocols.table_fit import IdsElsewhere, Standout, who_stands_out
from spinney.protocols.training import Quality, Roles, Trained, Training
from spinney.protocols.verified.blind import NOT_SEEN, relay_steps
from spinney.protocols.verified.channel import VerifiedSums
from spinney.report.facts import Subject
from spinney.report.file_names import MODEL
from spinney.report.holders import holders_of, split_columns
from spinney.report.report import Report, load_report
from spinney.report.run_folder import write_run
from spinney.report.table_fit import TableFit
from spinney.tables.agree import agree
from spinney.transport import codec
from spinney.transport.channel import Channel
from spinney.transport.journal import Journal, Journaled
from spinney.transport.remote.channel import Hearing, Limits, RemoteChannel, Send
from spinney.typing import ENDLESS

_LOG: Final = logging.getLogger("spinney.coordinator")
_LOGGED: Final = ("state", "phase", "level")
_TELL_EVERY: Final = 0.5  # seconds
_ROLES: Final = "roles.spinney"
_OPENED: Final = RevealAsk.called()


class Run:
    """One attempt of a run."""

    def __init__(
        self,
        file: CoordinatorFile,
        agreed: Agreed,
        attempted: Attempt,
        send: Send,
        heads: KeptHeads | None = None,
    ) -> None:
        self._file = file
        self._heads = heads or KeptHeads(file.kit)
        self._agreed = agreed
        self._send = send
        run, attempt = attempted.run, attempted.number
        JsonLines.job = run
        self._run, self._attempt = run, attempt
        self._folder = RunFolder(file.runs, run)
        before = self._folder.status()
        if before is not None and (before.attempt > attempt or before.state in OVER):
            raise ProtocolError(f"Attempt {attempt} of this run was given up. No party was asked.")
        if before is not None and before.digest != agreed.digest:
            raise ProtocolError("This run belongs to another job. No party was asked.")
        self._told = 0.0
        self._journaled: Journaled | None = None
        self._status = Status(
            run=run,
            name=agreed.name,
            kind=agreed.kind,
            digest=agreed.digest,
            state=RUNNING,
            parties=agreed.parties,
            present=attempted.present,
            attempt=attempt,
            submitter=before.submitter if before else "",
            quorum=agreed.quorum,
            stalled=before.stalled if before else 0,
            begun=before.begun if before else time(),
            since=time(),
            rounds=before.rounds if before else 0,
            together=before.together if before else False,
            terms=before.terms if before else {},
            phase=before.phase if before else "",
            level=before.level if before else 0,
            levels=before.levels if before else 0,
            trees=agreed.spec.n_trees(agreed.protocol_settings()),
            step="step" if agreed.is_blind else agreed.spec.step,
        )
        write_whole(self._folder.job, agreed.to_bytes())
        self._tell(force=True)

    def conduct(self) -> None:
        """Run the job, and record how it ended."""
        try:
            match self._agreed.kind:
                case kind if kind == PROPOSE:
                    self._propose()
                case kind if kind == EVALUATE:
                    self._evaluate()
                case kind if kind == PREDICT:
                    self._predict()
                case kind if kind == CHECK:
                    self._compare()
                case _ if self._agreed.is_blind:
                    self._train_blindly()
                case _:
                    self._train()
        except PartyLostError as error:
            self._tell(state=WAITING, message=str(error), waiting_since=time(), force=True)
            raise
        except SpinneyError as error:
            # An operator can clear a disk, restore a ledger, audit, or bring back a run's table.
            mended = isinstance(error, (StorageError, LedgerError, UnauditedError))
            mended |= isinstance(error, TableError) and self._status.rounds > 0
            mended &= self._agreed.kind != PROPOSE  # it is proposed again
            state = PAUSED if mended else FAILED
            self._tell(state=state, message=str(error), force=True)
            raise

    def _propose(self) -> None:
        replies = self._channel(len(self._agreed.parties)).ask(ProposalAsk(self._agreed.digest))
        answers = {name: "" if reply.accepts else reply.reason for name, reply in replies.items()}
        auditing = tuple(name for name, reply in replies.items() if reply.audits)
        self._tell(state=FINISHED, answers=answers, auditing=auditing, force=True)

    def _evaluate(self) -> None:
        agreed = self._agreed
        run = find_run(self._file.runs, agreed.model)
        model = ForestModel.from_bytes((run.folder / MODEL).read_bytes(), name="the run's model")
        journal = Journal(self._folder.rounds)
        journaled = self._over(self._channel(len(self._status.present)), journal)
        rows = "held-out" if agreed.held_out or agreed.fold is not None else "training"
        report = load_report(run.folder)
        if agreed.evaluation is not None:
            settings = agreed.settings_asked()
            report, quality = evaluate_with_noise(journaled, model, report, rows, settings)
            said = quality.in_short()
        else:
            report, found = evaluate_model(journaled, model, report, rows)
            said = f"{found.score} {found.baseline:.4f} over {found.n_rows} {rows} rows"
        self._finish(model, report, journaled)
        self._tell(state=FINISHED, message=said, force=True)
        journal.clear()

    def _predict(self) -> None:
        """Predict from the beginning, because the matching of rows is not kept."""
        agreed, n_jobs = self._agreed, self._file.coordinator.n_jobs
        assert isinstance(agreed.spec, ColumnsSpec)  # there are no other such jobs
        trained = RunFolder(self._file.runs, agreed.model).folder
        roles = codec.decode((trained / _ROLES).read_bytes(), Roles)
        wire = self._channel(len(self._status.present))
        n_rows = agreed.spec.predict(wire, agreed.protocol_settings(), roles, n_jobs=n_jobs)
        self._tell(
            state=FINISHED,
            rounds=len(wire.rounds),
            message=f"{n_rows} rows; their predictions are in the label party's records",
            force=True,
        )

    def _compare(self) -> None:
        """Let the parties compare their tables; this side learns only what each of them finds."""
        journal = Journal(self._folder.rounds)
        wire = self._channel(len(self._status.present))
        journaled = self._over(wire, journal)
        schemas = wire.ask(SchemaAsk(), to=self._status.present)
        schema = agree({name: reply.schema for name, reply in schemas.items()})
        last = relay_steps(journaled, lambda _: self._count())
        replies = wire.ask(FindingsAsk(last), to=self._status.present)
        found = who_stands_out({name: _legible(reply.found) for name, reply in replies.items()})
        ids = {name: _legible_ids(reply.ids) for name, reply in replies.items()}
        fit = TableFit.of(self._agreed.name, schema.names, found, ids, is_masked=True)
        self._tell(state=FINISHED, fit=fit, rounds=len(journaled.rounds), force=True)
        journal.clear()

    def _journal(self) -> Journal:
        """Return the completed rounds of the run.

        Rounds of which the parties keep nothing are repeated; see `Spec.begins_anew_until`.
        """
        journal = Journal(self._folder.rounds)
        until = self._agreed.spec.begins_anew_until
        if until is not None:
            asked = [found.question for found in journal.rounds()]
            if asked and until.called() not in asked:
                journal.clear()
                return Journal(self._folder.rounds)
        return journal

    def _train(self) -> None:
        agreed, settings = self._agreed, self._agreed.protocol_settings()
        journal = self._journal()
        present = self._status.present
        wire = self._channel(len(present))  # the keeper waits for a lost party, or drops it
        leaving = self._hand_out(wire)
        journaled = self._over(wire, journal)

        def progress(phase: str, done: int, total: int) -> None:
            self._count()
            self._tell(phase=phase, level=done, levels=total)

        n_jobs = self._file.coordinator.n_jobs
        verified = VerifiedSums(journaled)
        channel = verified if agreed.is_verified else journaled
        training = agreed.spec.train(channel, settings, n_jobs=n_jobs, progress=progress)
        model, report, digest = training.model, self._report(training), ""
        if model is not None:  # without one, each party has only its part
            model, digest = leaving.hand_out(journaled, model, verified.opened)
            report = leaving.told_in(report, model)
        if training.roles is not None:
            write_whole(self._folder.folder / _ROLES, codec.encode(training.roles))
        self._finish(model, report, journaled)
        self._tell(state=FINISHED, model=digest, force=True)
        journal.clear()

    def _train_blindly(self) -> None:
        journal = self._journal()
        wire = self._channel(len(self._status.present))
        journaled = self._over(wire, journal)
        training, report = self._relayed(wire, journaled)
        self._finish(training.model, report, journaled)
        self._tell(state=FINISHED, model=digest_of(training.model.to_bytes()), force=True)
        journal.clear()

    def _relayed(self, wire: RemoteChannel, journaled: Journaled) -> tuple[Training, Report]:
        """Let the parties take their steps, of which this side learns nothing; return the outcome.

        Every party must have derived the same model. The first of them hands it over, released.
        """
        agreed, present, begin = self._agreed, self._status.present, monotonic()
        leaving = self._hand_out(wire)
        schemas = wire.ask(SchemaAsk(), to=present)  # parties that differ are named, not derived
        compared = replace(wire.rounds[-1], number=1)
        agree({name: reply.schema for name, reply in schemas.items()})
        most = agreed.spec.bound(agreed.protocol_settings(), size_of(agreed)).rounds or ENDLESS

        def told(number: int) -> None:
            self._count()
            self._tell(phase="growing", level=number - 1, levels=most)

        last = relay_steps(journaled, told)
        # Asked in every attempt: a party that was started again has yet to derive its model.
        kept = leaving.hand_out_derived(wire, "", last)
        outcomes = wire.ask(OutcomeAsk(with_model=False), to=present)
        first = present[0]
        shown = wire.ask(OutcomeAsk(with_model=True), to=(first,))[first]
        if digest_of(shown.model.data) != kept:
            raise ProtocolError(f"Party {first!r} sent another model than it derived.")
        rounds = tuple(
            replace(
                done,
                question=question,
                reveals=reveals,
                protection=f"{done.protection}; {NOT_SEEN}",
            )
            for done, (question, reveals) in zip(journaled.rounds, shown.steps, strict=False)
        )
        training = Training(
            ForestModel.from_bytes(shown.model.data, name="the parties' model"),
            present,
            rounds,
            {"growing": monotonic() - begin},
            {one.name: Quality(one.rows, one.n_rows, dict(one.scores)) for one in shown.quality},
            shown.score,
            agreed.spec.described(agreed.protocol_settings()),
            tuple(claim for outcome in outcomes.values() for claim in outcome.claims),
        )
        report = self._report(training).asked([compared])
        return training, leaving.told_in(report, training.model)

    def _report(self, training: Trained) -> Report:
        """Return the report; for a forest over columns, with the owner of each split."""
        if training.roles is None:
            return Report.of(training)
        if training.model is None:  # column names stay secret
            return Report.of(training, holders=holders_of(training.roles, {}, ()))
        columns = split_columns(training.roles, training.model)
        agree = training.parties  # they accepted the job on these terms
        return Report.of(training, holders=holders_of(training.roles, columns, agree))

    def _hand_out(self, wire: RemoteChannel) -> HandOut:
        """Return the hand-out of the model, on the terms that the parties now state."""
        found = HandOut(self._agreed, self._status.present, self._status.terms)
        self._tell(terms=found.learn_terms(wire), force=True)
        return found

    def _over(self, wire: RemoteChannel, journal: Journal) -> Journaled:
        """Return the channel for the protocol: with masked sums, and with a journal of rounds."""
        self._journaled = Journaled(self._secured(wire), journal)
        return self._journaled

    def _secured(self, wire: RemoteChannel) -> Channel:
        """Return the channel to parties that share keys, with masked sums if the job has them."""
        if not (self._agreed.is_masked or self._agreed.is_verified):
            return wire
        present = self._status.present
        honest = self._agreed.honest_among(len(present))
        settings = exchange_keys(
            wire,
            f"{self._run}/{self._attempt}",
            present,
            honest=honest,
            needs_all=self._agreed.needs_all,
        )
        return SecureSums(wire, settings) if self._agreed.is_masked else wire

    def _finish(self, model: ForestModel | None, report: Report, journaled: Journaled) -> None:
        report = add_run_facts(report, self._agreed, self._status)
        if model is not None:
            dates = self._agreed.schema.date_columns
            subject = Subject.of(self._agreed.name, model.schema, dates=dates)
            report = msgspec.structs.replace(report, subject=subject)
        write_run(self._folder.folder, model, report)
        self._tell(rounds=len(journaled.rounds))

    def _channel(self, least: int) -> RemoteChannel:
        limits = self._file.limits
        return RemoteChannel(
            self._send,
            run=self._run,
            attempt=self._attempt,
            parties=self._agreed.parties,
            present=self._status.present,
            least=least,
            limits=Limits(limits.silence_seconds, limits.answer_seconds, limits.message_bytes),
            watch=self._heard,
            heads=self._heads.shown,
            heard=self._heads.heard,
        )

    def _heard(self, hearing: Hearing) -> None:
        """Record who has answered, and whether the job can go on without the others.

        Once some parties have opened a masked sum, no later one is over fewer parties: the
        difference would be one party's counts. Nobody may leave in some phases before that; see
        `Spec.all_stay_in`.
        """
        known = self._status.together
        self._count()
        opening = hearing.question == _OPENED or self._status.phase in self._agreed.spec.all_stay_in
        together = self._status.together or (self._agreed.is_masked and opening)
        answered = tuple(hearing.answered)
        force = together != known
        self._tell(question=hearing.question, answered=answered, together=together, force=force)

    def _count(self) -> None:
        """Count the completed rounds; a new one counts as progress."""
        rounds = 0 if self._journaled is None else len(self._journaled.rounds)
        if rounds > self._status.rounds:
            moved: dict[str, Any] = {"rounds": rounds, "stalled": 0}
            self._status = msgspec.structs.replace(self._status, **moved)

    def _tell(self, *, force: bool = False, **changes: Any) -> None:
        """Write the status, but not at every step, and log it."""
        before = self._status
        self._status = msgspec.structs.replace(before, updated=time(), **changes)
        if any(getattr(before, name) != getattr(self._status, name) for name in _LOGGED):
            _LOG.info("%s: %s.", self._status.name, standing_of(self._status).rstrip("."))
        if force or monotonic() - self._told > _TELL_EVERY:
            self._folder.write(self._status)
            self._told = monotonic()


def _legible(found: tuple[Standout, ...]) -> tuple[Standout, ...]:
    """Return a party's words as they may be shown."""
    return tuple(
        Standout(printable(one.column), one.distance, printable(one.what)) for one in found
    )


def _legible_ids(ids: IdsElsewhere) -> IdsElsewhere:
    """Return what a party says of its ids as it may be shown."""
    return IdsElsewhere(ids.about, max(ids.error, 1), printable(ids.why))
