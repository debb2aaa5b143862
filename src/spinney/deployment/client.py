"""`spinney job ...`: propose, start, follow, list, show, abort and resume."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from spinney.deployment.coordinator.runs import ABORTED, FAILED, FINISHED, OVER, PAUSED, Status
from spinney.deployment.costs import JobCost, cost_of
from spinney.deployment.job import (
    EVALUATE,
    PROPOSE,
    TRAIN,
    Agreed,
    agreement_of,
    evaluation_of,
    prediction_of,
)
from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.jobs.file import load_job
from spinney.transport.flare.jobs import ABORTS
from spinney.transport.flare.session import Session, person_of, session

_EVERY: Final = 0.5  # seconds
_QUEUED: Final = "queued"
_ABSENT: Final = re.compile(r"missing required site (.+)$")
Tell = Callable[[Status], None]


class Proposal(msgspec.Struct, frozen=True):
    """Every party's answer to a proposed job, and the cost of the job."""

    name: str
    digest: str
    answers: dict[str, str]  # "" for yes, or the reason
    cost: JobCost


def propose(path: Path, kit: Path, tell: Tell) -> Proposal:
    """Ask every party for yes or no, without starting the job."""
    job = agreement_of(load_job(path, deployed=True), PROPOSE)
    with session(kit) as opened:
        run = _submitted(opened, job)
        status = _followed(opened, run, tell)
    if status.state != FINISHED:
        raise ProtocolError(f"The job could not be proposed: {status.message}")
    return Proposal(job.name, job.digest, status.answers, cost_of(job))


def start(path: Path, kit: Path) -> str:
    """Start a job; return the run's id."""
    job = agreement_of(load_job(path, deployed=True))
    with session(kit) as opened:
        return _submitted(opened, job)


def evaluate(run: str, path: Path, kit: Path) -> str:
    """Start a job that evaluates a finished run's model; return the evaluation's id."""
    job = load_job(path, deployed=True)
    with session(kit) as opened:
        status = _trained(opened, run, agreement_of(job))
        return _submitted(opened, evaluation_of(job, status.model))


def predict(run: str, path: Path, kit: Path) -> str:
    """Start a job that predicts with a finished run's forest; return the prediction's id."""
    job = load_job(path, deployed=True)
    with session(kit) as opened:
        status = _trained(opened, run, agreement_of(job))
        return _submitted(opened, prediction_of(job, status.run))


def _trained(opened: Session, run: str, job: Agreed) -> Status:
    """Return the status of a finished training; raise unless it is a training of this job."""
    status = status_in(opened.meta(_run_of(opened, run)))
    if status.state != FINISHED or status.kind != TRAIN:
        raise SettingError(
            f"Only a finished training leaves a model; {run!r} is of kind {status.kind!r} and "
            f"{status.state}."
        )
    if status.digest != job.digest:
        raise _other_job_file(run, "Use that file, or train again.")
    return status


def follow(run: str, kit: Path, folder: Path | None, tell: Tell) -> tuple[Status, Path | None]:
    """Watch a run until it is over; download its model and report, and return their folder."""
    with session(kit) as opened:
        status = _followed(opened, _run_of(opened, run), tell)
        whereto = None
        if status.state == FINISHED and status.kind in (TRAIN, EVALUATE):
            whereto = folder or Path("runs") / status.name
            opened.fetch(status.run, whereto)
    if status.state == FAILED:
        raise PolicyError(f"The job ended: {status.message}")
    return status, whereto


def list_runs(kit: Path) -> list[Status]:
    """Return all runs, newest first, without their single attempts."""
    with session(kit) as opened:
        metas = [meta for meta in opened.jobs() if not meta.get("spinney_run")]
        return [status_in(opened.meta(str(meta["job_id"]))) for meta in metas]


def show_run(run: str, kit: Path) -> Status:
    """Return the status of a run."""
    with session(kit) as opened:
        return status_in(opened.meta(_run_of(opened, run)))


def abort(run: str, kit: Path) -> Status:
    """End a run; the parties' ledgers and records keep what they have released."""
    with session(kit) as opened:
        known = _run_of(opened, run)
        aborted = ""
        while True:  # a new attempt follows one that has just ended
            meta = opened.meta(known)
            status = status_in(meta)
            if status.state == ABORTED and aborted:
                return status
            if status.state in OVER:
                raise SettingError(f"The run {run!r} is already over: {status.state}.")
            if status.state == PAUSED:
                if meta["submitter_name"] != person_of(kit):
                    who = meta["submitter_name"]
                    raise PolicyError(f"Only {who}, who started it, may abort it.")
                return _abort_paused(opened, status)
            if (status.job or known) != aborted:
                aborted = status.job or known
                opened.abort(aborted)
            time.sleep(_EVERY)


def _abort_paused(opened: Session, paused: Status) -> Status:
    """End a run without an engine job, by submitting an engine job that never starts."""
    told = {"spinney_run": paused.run, ABORTS: True}
    opened.submit(paused.name, paused.present, b"", **told)
    while True:
        status = status_in(opened.meta(paused.run))
        if status.state == ABORTED:
            return status
        if status.state != PAUSED:
            raise SettingError(f"The run {paused.run!r} has just been resumed. Abort it again.")
        time.sleep(_EVERY)


def resume(run: str, path: Path, kit: Path) -> str:
    """Resume a paused run after its last completed round; return its id once it has resumed."""
    job = agreement_of(load_job(path, deployed=True))
    with session(kit) as opened:
        known = _run_of(opened, run)
        status = status_in(opened.meta(known))
        if status.state != PAUSED:
            instead = "Start the job again." if status.is_over else "'spinney job follow' shows it."
            raise SettingError(
                f"Only a paused run can be resumed; {run!r} is {status.state}. {instead}"
            )
        if status.digest != job.digest:
            raise _other_job_file(run, "Resume with that file, or start the job again.")
        engine_job = _submitted(
            opened,
            job,
            status.present,  # a dropped party stays out: sums with and without it reveal it
            spinney_run=known,
            spinney_attempt=status.attempt + 1,
            spinney_present=list(status.present),
        )
        while status_in(opened.meta(known)).attempt <= status.attempt:
            begun = status_in(opened.meta(engine_job))
            if begun.is_over:
                raise PolicyError(f"The run could not be resumed: {begun.message}")
            time.sleep(_EVERY)
        return known


def _other_job_file(run: str, instead: str) -> SettingError:
    return SettingError(f"Run {run!r} was started with another job file. {instead}")


def _submitted(
    opened: Session, job: Agreed, present: tuple[str, ...] | None = None, **extra: Any
) -> str:
    extra |= {"spinney_kind": job.kind, "spinney_digest": job.digest}
    return opened.submit(job.name, present or job.parties, job.to_bytes(), **extra)


def _followed(opened: Session, run: str, tell: Tell) -> Status:
    last = None
    while True:
        status = status_in(opened.meta(run))
        if status != last:
            tell(status)
            last = status
        if status.is_over:
            return status
        time.sleep(_EVERY)


def _run_of(opened: Session, run: str) -> str:
    """Return the id of a run, given its id, the beginning of its id, or its job's name."""
    metas = [meta for meta in opened.jobs() if not meta.get("spinney_run")]
    ids = [str(meta["job_id"]) for meta in metas if str(meta["job_id"]).startswith(run)]
    if not ids:  # the newest with that name; a proposal leaves nothing to use
        named = [meta for meta in metas if meta.get("name") == run]
        ids = [str(meta["job_id"]) for meta in named if meta.get("spinney_kind") != PROPOSE][:1]
    if len(ids) != 1:
        raise SettingError(
            f"{'No run is' if not ids else 'More than one run is'} called {run!r}. "
            "'spinney job list' shows all runs."
        )
    return ids[0]


def status_in(meta: dict[str, Any]) -> Status:
    """Return the status of a run, from the engine's record of its first job."""
    said = meta.get("spinney")
    if said is not None:
        return msgspec.convert(said, Status)
    state = str(meta.get("status", ""))
    sites = (meta.get("deploy_map") or {}).get("spinney") or []
    parties = tuple(str(site) for site in sites if site != "server")
    detail = [str(line) for line in meta.get("job_deploy_detail") or []]
    refused = [line for line in detail if not line.endswith(": OK")]
    over = state.startswith(("FINISHED", "FAILED"))
    history = meta.get("schedule_history") or [""]
    return Status(
        run=str(meta["job_id"]),
        name=str(meta.get("name", "")),
        kind=str(meta.get("spinney_kind", "")),
        digest=str(meta.get("spinney_digest", "")),
        state=_early_state(state) if over else _QUEUED,
        parties=parties,
        present=parties,
        job=str(meta["job_id"]),
        message=" ".join(refused) if over else _queued_for(str(history[-1])),
    )


def _queued_for(said: str) -> str:
    """Return what a queued job waits for, from the engine's last message about it."""
    missing = _ABSENT.search(said)
    return f"Waiting for: {missing[1]}." if missing else ""


def _early_state(state: str) -> str:
    """Return the state of a run whose engine job ended before it began."""
    return "aborted" if state == "FINISHED:ABORTED" else FAILED
