"""One pass over the coordinator's runs: keep each going, retry, pause, resume or end it."""

import logging
from collections.abc import Sequence
from time import time
from typing import Any, Final

import msgspec
from nvflare.apis.job_def import JobMetaKey, RunStatus

from spinney.deployment.coordinator.config import CoordinatorFile
from spinney.deployment.coordinator.runs import (
    ABORTED,
    FAILED,
    OVER,
    PAUSED,
    RUNNING,
    WAITING,
    RunFolder,
    Status,
)
from spinney.transport.flare.jobs import ABORTS, APP
from spinney.transport.flare.session import RESULT_KIND, RESULT_NAME

_LOG: Final = logging.getLogger("spinney.keeper")


_ALIVE: Final = tuple(
    status.value
    for status in (RunStatus.SUBMITTED, RunStatus.APPROVED, RunStatus.DISPATCHED, RunStatus.RUNNING)
)


_BEGUN: Final = (RunStatus.DISPATCHED.value, RunStatus.RUNNING.value)


_OF_ONE_JOB: Final = (
    JobMetaKey.JOB_ID.value,
    JobMetaKey.STATUS.value,
    JobMetaKey.SUBMIT_TIME.value,
    JobMetaKey.SUBMIT_TIME_ISO.value,
    JobMetaKey.START_TIME.value,
    JobMetaKey.DURATION.value,
    JobMetaKey.SCHEDULE_COUNT.value,
    JobMetaKey.LAST_SCHEDULE_TIME.value,
    JobMetaKey.SCHEDULE_HISTORY.value,
    JobMetaKey.JOB_DEPLOY_DETAIL.value,
    JobMetaKey.JOB_CLIENTS.value,
    "spinney",
)


_UNHEARD: Final = ("OK", "no reply")  # replies of a site that are not refusals


class Keeping:
    """One pass over the runs."""

    def __init__(self, file: CoordinatorFile, engine: Any, manager: Any, fl_ctx: Any) -> None:
        self._file = file
        self._engine = engine
        self._manager = manager
        self._fl_ctx = fl_ctx

    def bury(self) -> None:
        """Close the engine jobs that an earlier engine left open; their processes are gone."""
        for status in (RunStatus.RUNNING, RunStatus.DISPATCHED):
            for job in self._manager.get_jobs_by_status(status, self._fl_ctx):
                self._manager.set_status(job.job_id, RunStatus.FINISHED_ABNORMAL, self._fl_ctx)
                self._adopt(job)

    def _adopt(self, job: Any) -> None:
        """Create a run for an engine job that ended before it wrote a status."""
        run = str(job.meta.get("spinney_run") or job.job_id)
        folder = RunFolder(self._file.runs, run)
        if folder.status() is None:
            parties = tuple(parties_of(job.meta))
            folder.write(
                Status(
                    run=run,
                    name=str(job.meta.get(JobMetaKey.JOB_NAME.value, "")),
                    kind=str(job.meta.get("spinney_kind", "")),
                    digest=str(job.meta.get("spinney_digest", "")),
                    state=RUNNING,
                    parties=parties,
                    present=parties,
                    quorum=len(parties),
                    job=job.job_id,
                    begun=time(),
                )
            )

    def is_alive(self, job_id: str) -> bool:
        """Return whether an engine job has not ended."""
        job = self._manager.get_job(job_id, self._fl_ctx)
        return job is not None and job.meta.get(JobMetaKey.STATUS.value) in _ALIVE

    def tell(self, folder: RunFolder, status: Status) -> None:
        """Write a run's result, then its status, into the engine's record of its first job."""
        if self._manager.get_job(status.run, self._fl_ctx) is not None:
            archive = folder.archived() if status.state in OVER else None
            if archive is not None:  # the store moves it
                kind = (RESULT_NAME, RESULT_KIND)
                self._manager.set_client_data(status.run, str(archive), *kind, self._fl_ctx)
            said = {"spinney": msgspec.to_builtins(status)}
            self._manager.update_meta(status.run, said, self._fl_ctx)

    def resumed_or_aborted(self, folder: RunFolder, status: Status) -> Status:
        """Return the status of a paused run, after any request to resume or abort it."""
        for job in self._manager.get_jobs_by_status(RunStatus.SUBMITTED, self._fl_ctx):
            if job.meta.get("spinney_run") != status.run:
                continue
            if job.meta.get(ABORTS):
                self._manager.set_status(job.job_id, RunStatus.FINISHED_ABORTED, self._fl_ctx)
                if self._is_of_the_same(job, status.run):
                    return _changed(folder, status, state=ABORTED, message="")
                continue
            attempt = int(job.meta.get("spinney_attempt") or 1)
            if job.meta.get("spinney_digest") == status.digest and attempt > status.attempt:
                changes = {"job": job.job_id, "attempt": attempt, "waiting_since": time()}
                return _changed(folder, status, state=WAITING, message="", **changes)
        return status

    def _is_of_the_same(self, job: Any, run: str) -> bool:
        """Return whether the person who submitted an engine job also started the run."""
        first, who = self._manager.get_job(run, self._fl_ctx), JobMetaKey.SUBMITTER_NAME.value
        return first is not None and job.meta.get(who) == first.meta.get(who)

    def kept(self, folder: RunFolder, status: Status) -> Status:
        """Do what an unfinished run needs, and return its status."""
        job = self._manager.get_job(status.job, self._fl_ctx)
        state = None if job is None else job.meta.get(JobMetaKey.STATUS.value)
        if state in _ALIVE:
            return self._waited(folder, status, str(state))
        latest = folder.status() or status  # the job may just have written its last status
        if latest.is_over:
            return latest
        return self._ended(folder, latest, job, state)

    def _ended(self, folder: RunFolder, status: Status, job: Any, state: Any) -> Status:
        """Return the status of a run whose engine job ended before the run did."""
        if state == RunStatus.FINISHED_ABORTED.value:
            return _changed(folder, status, state=ABORTED, message="")
        refusals = [] if job is None else _refusals(job.meta)
        if refusals:
            # A run that had begun is not lost: someone may change a rule, wait, or clear a disk.
            state = FAILED if status.attempt == 1 else PAUSED
            return _changed(folder, status, state=state, message=" ".join(refusals))
        if status.stalled >= self._file.limits.attempts:
            message = f"Tried {status.stalled} times without progress. {status.message}".strip()
            return _changed(folder, status, state=PAUSED, message=message)
        if time() - status.updated < 2 ** min(status.stalled, 5) - 1:  # back off after failures
            return status
        return self._again(folder, status, status.present)

    def _waited(self, folder: RunFolder, status: Status, state: str) -> Status:
        """Return the status of a run whose engine job has not ended; it may wait for parties."""
        if state in _BEGUN:
            return status
        missing = [name for name in status.present if not is_connected(self._engine, name)]
        if not missing or status.state != WAITING:
            return status
        if time() - status.waiting_since < self._file.limits.patience_seconds:
            message = f"Waiting for: {', '.join(missing)}."
            if message == status.message:
                return status
            return _changed(folder, status, message=message)
        self._manager.set_status(status.job, RunStatus.FINISHED_ABORTED, self._fl_ctx)
        present = tuple(name for name in status.present if name not in missing)
        enough = len(present) >= max(2, status.quorum)
        if enough and not status.together:
            _LOG.warning("Run %s continues without: %s", status.run, ", ".join(missing))
            return self._again(folder, status, present)
        message = (
            f"These parties are away: {', '.join(missing)}. Resume the job when they are back."
        )
        if enough:
            message += " The quorum is met, but masked sums without them would show their counts."
        return _changed(folder, status, state=PAUSED, message=message)

    def _again(self, folder: RunFolder, status: Status, present: tuple[str, ...]) -> Status:
        """Try a run again in a new engine job."""
        first = self._manager.get_job(status.run, self._fl_ctx)
        if first is None:
            return _changed(folder, status, state=ABORTED, message="The job was deleted.")
        # The newest engine job: the lead may have resumed the run with a later Spinney.
        source = self._manager.get_job(status.job, self._fl_ctx) or first
        folder.write(status)  # fails on a full disk, before a new job starts
        meta = {key: value for key, value in source.meta.items() if key not in _OF_ONE_JOB}
        meta |= {
            "spinney_run": status.run,
            "spinney_attempt": status.attempt + 1,
            "spinney_present": list(present),
            "min_clients": len(present),
            "mandatory_clients": list(present),
            "deploy_map": {APP: ["server", *present]},
        }
        made = self._manager.clone(source.job_id, meta, self._fl_ctx)
        job = str(made[JobMetaKey.JOB_ID.value])
        _LOG.info("Run %s is tried again: attempt %d.", status.run, status.attempt + 1)
        return _changed(
            folder,
            status,
            state=WAITING,
            job=job,
            attempt=status.attempt + 1,
            present=present,
            stalled=status.stalled + 1,
            waiting_since=status.waiting_since or time(),
        )


def is_connected(engine: Any, name: str) -> bool:
    """Return whether a party is connected; the engine forgets it when its heartbeats stop."""
    return name in {client.name for client in engine.get_clients()}


def _changed(folder: RunFolder, status: Status, **changes: Any) -> Status:
    return folder.write(msgspec.structs.replace(status, **changes))


def parties_of(meta: Any) -> Sequence[str]:
    """Return the parties that an engine job names."""
    sites = (meta.get(JobMetaKey.DEPLOY_MAP.value) or {}).get(APP) or []
    return [str(site) for site in sites if site != "server"]


def _refusals(meta: Any) -> list[str]:
    """Return the reasons of parties that refused an engine job at their gate."""
    detail = meta.get(JobMetaKey.JOB_DEPLOY_DETAIL.value) or []
    said = [line.split(": ", maxsplit=1) for line in detail if ": " in line]
    return [
        f"{name}: {text}"
        for name, text in said
        if name != "server" and not text.startswith(_UNHEARD)
    ]
