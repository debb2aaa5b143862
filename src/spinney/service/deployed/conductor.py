"""The coordinator's process of a job: it trains as in one process, over another channel."""

import os
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

import msgspec

from spinney.errors import PartyLostError, ProtocolError, SpinneyError
from spinney.protocols.rosters import secured_over
from spinney.report.report import Report
from spinney.service.deployed.agreed import PROPOSE, Agreed
from spinney.service.deployed.coordinator_file import CoordinatorFile, load_coordinator
from spinney.service.deployed.logs import JsonLines
from spinney.service.deployed.runs import (
    COORDINATOR_VARIABLE,
    FAILED,
    FINISHED,
    OVER,
    PAUSED,
    RESULT,
    RUNNING,
    WAITING,
    RunFolder,
    Status,
)
from spinney.service.deployed.site import ModelAsk, ProposalAsk, run_of
from spinney.service.folder import write_run
from spinney.transport.channel import Channel
from spinney.transport.flare.channel import FlareChannel, Hearing, Limits, Send
from spinney.transport.flare.engine import CoordinatorSide, Link
from spinney.transport.flare.jobs import job_of_args
from spinney.transport.journal import Journal, Journaled

_TELL_EVERY: Final = 0.5  # seconds


class Conductor(CoordinatorSide):
    """What the engine starts at the coordinator."""

    def __init__(self, job: str) -> None:
        self._file = load_coordinator(Path(os.environ[COORDINATOR_VARIABLE]))
        super().__init__(self._file.limits.reply_seconds)
        self._job = job

    def conduct(self, link: Link, send: Send) -> None:
        """Do the job."""
        Run(self._file, Agreed.of_bytes(job_of_args(self._job)), link, send).conduct()


class Run:
    """One attempt at a run."""

    def __init__(self, file: CoordinatorFile, agreed: Agreed, link: Link, send: Send) -> None:
        self._file = file
        self._agreed = agreed
        self._link = link
        self._send = send
        run, attempt = run_of(link)
        JsonLines.job = run
        self._run, self._attempt = run, attempt
        self._folder = RunFolder(file.runs, run)
        before = self._folder.status()
        if before is not None and (before.attempt > attempt or before.state in OVER):
            # The engine may still run a job that the keeper took back.
            raise ProtocolError(f"Attempt {attempt} of this run was given up; nothing was asked.")
        present = tuple(link.meta.get("spinney_present") or agreed.parties)
        self._told = 0.0
        self._status = Status(
            run=run,
            name=agreed.name,
            kind=agreed.kind,
            digest=agreed.digest,
            state=RUNNING,
            parties=agreed.parties,
            present=present,
            attempt=attempt,
            job=link.job_id,
            quorum=agreed.quorum,
            stalled=before.stalled if before else 0,
            begun=before.begun if before else time(),
            rounds=before.rounds if before else 0,
        )
        self._tell(force=True)

    def conduct(self) -> None:
        """Do the job, and write down how it ended."""
        try:
            if self._agreed.kind == PROPOSE:
                self._propose()
            else:
                self._train()
        except PartyLostError as error:
            self._tell(state=WAITING, message=str(error), waiting_since=time(), force=True)
            raise
        except SpinneyError as error:
            state = PAUSED if error.exit_code == 22 else FAILED  # a disk can be cleared
            self._tell(state=state, message=str(error), force=True)
            raise

    def _propose(self) -> None:
        replies = self._channel(len(self._agreed.parties)).ask(ProposalAsk(self._agreed.digest))
        answers = {name: "" if reply.accepts else reply.reason for name, reply in replies.items()}
        self._tell(state=FINISHED, answers=answers, force=True)

    def _train(self) -> None:
        agreed, settings = self._agreed, self._agreed.protocol_settings()
        journal = Journal(self._folder.rounds)
        present = self._status.present
        wire = self._channel(len(present))  # who leaves is waited for, or dropped by the keeper
        channel: Channel = wire
        if agreed.settings.secure_sum:
            privacy = getattr(settings, "privacy", None)
            channel = secured_over(
                wire,
                f"{self._run}/{self._attempt}",
                present,
                honest=getattr(privacy, "honest", None),
                min_survivors=len(present),
            )
        journaled = Journaled(channel, journal)

        def progress(phase: str, done: int, total: int) -> None:
            rounds = len(journaled.rounds)
            stalled = 0 if rounds > self._status.rounds else self._status.stalled
            most = max(rounds, self._status.rounds)
            self._tell(phase=phase, level=done, levels=total, rounds=most, stalled=stalled)

        n_jobs = self._file.coordinator.n_jobs
        training = agreed.entry.train(journaled, settings, n_jobs=n_jobs, progress=progress)
        model = training.model.to_bytes()
        report = Report.of(training)
        wire.ask(ModelAsk(model), to=present)
        for folder in (self._folder.folder, self._link.folder / RESULT):
            write_run(folder, training.model, report)
        self._tell(state=FINISHED, rounds=len(journaled.rounds), force=True)
        journal.clear()

    def _channel(self, least: int) -> FlareChannel:
        limits = self._file.limits
        return FlareChannel(
            self._send,
            run=self._run,
            attempt=self._attempt,
            parties=self._agreed.parties,
            present=self._status.present,
            least=least,
            limits=Limits(limits.silence_seconds, limits.message_bytes),
            watch=self._heard,
        )

    def _heard(self, hearing: Hearing) -> None:
        self._tell(question=hearing.question, answered=tuple(hearing.answered))

    def _tell(self, *, force: bool = False, **changes: Any) -> None:
        """Write the status down, but not at every step."""
        self._status = msgspec.structs.replace(self._status, **changes)
        if force or monotonic() - self._told > _TELL_EVERY:
            self._folder.write(self._status)
            self._told = monotonic()
