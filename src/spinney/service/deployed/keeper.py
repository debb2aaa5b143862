"""Keeps runs going at the coordinator: the engine neither rejoins nor resumes, so this does.

It lives in the engine's main process. A run whose engine job ended early is tried again in a new
one, which the engine holds until the parties are there. Who stays away too long is dropped, if the
job's quorum allows; else the run pauses. What it knows of a run it also writes into the engine's
record of the job, where those who may see the job can read it.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from time import time
from typing import Any, Final

import msgspec
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, SystemComponents
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.apis.job_def import JobMetaKey, RunStatus

from spinney.service.deployed.coordinator_file import CoordinatorFile, load_coordinator
from spinney.service.deployed.ending import write_unfinished
from spinney.service.deployed.place import Places, place_in
from spinney.service.deployed.runs import (
    ABORTED,
    COORDINATOR_VARIABLE,
    FAILED,
    OVER,
    PAUSED,
    RUNNING,
    WAITING,
    RunFolder,
    Status,
    keep_reserve,
)
from spinney.transport.flare.jobs import ABORTS, APP
from spinney.transport.flare.session import RESULT_KIND, RESULT_NAME

_LOG: Final = logging.getLogger("spinney.keeper")
_EVERY: Final = 1.0  # seconds
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
_UNHEARD: Final = ("OK", "no reply")  # what a site says, or does not, that is no refusal


class Keeper(FLComponent):  # type: ignore[misc]
    """Watches all runs of the coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self._file = load_coordinator(Path(os.environ[COORDINATOR_VARIABLE]))
        self._stop = Event()
        self._told: dict[str, float] = {}  # run -> when its status was last passed on
        self._over: set[str] = set()
        self._places = Places(self._file.kit / "places.json")

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Begin with the engine and end with it; refuse those who were removed."""
        if event_type == EventType.SYSTEM_START:
            engine = fl_ctx.get_engine()
            Thread(target=self._keep, args=[engine], name="spinney-keeper", daemon=True).start()
        elif event_type == EventType.SYSTEM_END:
            self._stop.set()
        elif event_type == EventType.CLIENT_REGISTER_RECEIVED:
            self._require_welcome(fl_ctx)
        elif event_type == EventType.CLIENT_REGISTER_PROCESSED:
            self._note_place(fl_ctx)
        elif event_type == EventType.BEFORE_CHECK_CLIENT_RESOURCES:
            self._block(fl_ctx)

    def _require_welcome(self, fl_ctx: Any) -> None:
        """Refuse a party that was removed, and one whose start kit is in use elsewhere."""
        peer = fl_ctx.get_peer_context()
        name = peer.get_identity_name()
        if name in self._file.removed():
            raise NotAuthenticated(f"{name} was removed from this federation")
        elsewhere = self._places.is_elsewhere(name, place_in(peer))
        if elsewhere and _is_connected(fl_ctx.get_engine(), name):
            _LOG.warning("%s was refused: its start kit is in use in another place.", name)
            raise NotAuthenticated(f"the start kit of {name} is in use in another place")

    def _note_place(self, fl_ctx: Any) -> None:
        """Write down where a party is that was let in."""
        peer = fl_ctx.get_peer_context()
        name = peer.get_identity_name()
        if _is_connected(fl_ctx.get_engine(), name):
            self._places.settle(name, place_in(peer))
            _LOG.info("%s is connected.", name)

    def _block(self, fl_ctx: Any) -> None:
        """Keep the engine from starting a job of somebody removed, or one that is only a word."""
        meta = fl_ctx.get_prop(FLContextKey.JOB_META) or {}
        involved = [meta.get(JobMetaKey.SUBMITTER_NAME.value), *_parties(meta)]
        gone = [name for name in involved if name in self._file.removed()]
        reason = f"{gone[0]} was removed from this federation" if gone else ""
        if reason or meta.get(ABORTS):
            reason = reason or "It only says that a paused run is to end."
            fl_ctx.set_prop(FLContextKey.JOB_BLOCK_REASON, reason, private=True, sticky=False)

    def _keep(self, engine: Any) -> None:
        manager = engine.get_component(SystemComponents.JOB_MANAGER)
        started = False
        while not self._stop.wait(_EVERY):
            try:
                with engine.new_context() as fl_ctx:
                    keeping = Keeping(self._file, engine, manager, fl_ctx)
                    if not started:
                        keeping.bury()
                        started = True
                    for folder in self._folders():
                        self._try_to_look(keeping, folder)
                keep_reserve(self._file.runs)
            except Exception:  # noqa: BLE001  the next look may succeed; nobody else would go on
                _LOG.exception("The keeper could not look after the runs.")

    def _folders(self) -> Iterator[RunFolder]:
        if self._file.runs.is_dir():
            for path in sorted(self._file.runs.iterdir()):
                if path.name not in self._over and path.is_dir():
                    yield RunFolder(self._file.runs, path.name)

    def _try_to_look(self, keeping: "Keeping", folder: RunFolder) -> None:
        try:
            self._look(keeping, folder)
        except Exception:  # noqa: BLE001  the other runs need looking after, too
            _LOG.exception("The keeper could not look after run %s.", folder.folder.name)

    def _look(self, keeping: "Keeping", folder: RunFolder) -> None:
        status = folder.status()
        if status is None:
            return
        if status.state == PAUSED:
            status = keeping.resumed_or_aborted(folder, status)
        if not status.is_over:
            status = keeping.kept(folder, status)
        if status.updated != self._told.get(status.run):
            write_unfinished(folder, status)
            keeping.tell(folder, status)
            self._told[status.run] = status.updated
        if status.state not in (PAUSED, RUNNING, WAITING) and not keeping.is_alive(status.job):
            self._over.add(status.run)
            self._told.pop(status.run, None)


class Keeping:
    """One look at the runs."""

    def __init__(self, file: CoordinatorFile, engine: Any, manager: Any, fl_ctx: Any) -> None:
        self._file = file
        self._engine = engine
        self._manager = manager
        self._fl_ctx = fl_ctx

    def bury(self) -> None:
        """Close the engine jobs that an earlier engine left open: their processes are gone."""
        for status in (RunStatus.RUNNING, RunStatus.DISPATCHED):
            for job in self._manager.get_jobs_by_status(status, self._fl_ctx):
                self._manager.set_status(job.job_id, RunStatus.FINISHED_ABNORMAL, self._fl_ctx)
                self._adopt(job)

    def _adopt(self, job: Any) -> None:
        """Make a run of an engine job that ended before it wrote a word."""
        run = str(job.meta.get("spinney_run") or job.job_id)
        folder = RunFolder(self._file.runs, run)
        if folder.status() is None:
            parties = tuple(_parties(job.meta))
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
        """Tell whether an engine job has not ended."""
        job = self._manager.get_job(job_id, self._fl_ctx)
        return job is not None and job.meta.get(JobMetaKey.STATUS.value) in _ALIVE

    def tell(self, folder: RunFolder, status: Status) -> None:
        """Write a run's status into the engine's record of its first job, its result before."""
        if self._manager.get_job(status.run, self._fl_ctx) is not None:
            archive = folder.archived() if status.state in OVER else None
            if archive is not None:  # the store moves it
                kind = (RESULT_NAME, RESULT_KIND)
                self._manager.set_client_data(status.run, str(archive), *kind, self._fl_ctx)
            said = {"spinney": msgspec.to_builtins(status)}
            self._manager.update_meta(status.run, said, self._fl_ctx)

    def resumed_or_aborted(self, folder: RunFolder, status: Status) -> Status:
        """Return how a paused run stands, for which somebody may have submitted a word."""
        for job in self._manager.get_jobs_by_status(RunStatus.SUBMITTED, self._fl_ctx):
            if job.meta.get("spinney_run") != status.run:
                continue
            if job.meta.get(ABORTS):
                self._manager.set_status(job.job_id, RunStatus.FINISHED_ABORTED, self._fl_ctx)
                if self._is_of_the_same(job, status.run):
                    return _changed(folder, status, state=ABORTED, message="Aborted.")
                continue
            attempt = int(job.meta.get("spinney_attempt") or 1)
            if job.meta.get("spinney_digest") == status.digest and attempt > status.attempt:
                changes = {"job": job.job_id, "attempt": attempt, "waiting_since": time()}
                return _changed(folder, status, state=WAITING, message="", **changes)
        return status

    def _is_of_the_same(self, job: Any, run: str) -> bool:
        """Tell whether who submitted an engine job is who started the run."""
        first, who = self._manager.get_job(run, self._fl_ctx), JobMetaKey.SUBMITTER_NAME.value
        return first is not None and job.meta.get(who) == first.meta.get(who)

    def kept(self, folder: RunFolder, status: Status) -> Status:
        """Return how an unfinished run stands, having done what it needs."""
        job = self._manager.get_job(status.job, self._fl_ctx)
        state = None if job is None else job.meta.get(JobMetaKey.STATUS.value)
        if state in _ALIVE:
            return self._waited(folder, status, str(state))
        latest = folder.status() or status  # the job may just have written its last word
        if latest.is_over:
            return latest
        return self._ended(folder, latest, job, state)

    def _ended(self, folder: RunFolder, status: Status, job: Any, state: Any) -> Status:
        """Return how a run stands whose engine job has ended before the run did."""
        if state == RunStatus.FINISHED_ABORTED.value:
            return _changed(folder, status, state=ABORTED, message="Aborted.")
        refusals = [] if job is None else _refusals(job.meta)
        if refusals:
            # A run that had begun is not lost: rules can be changed, hours pass, disks be cleared.
            state = FAILED if status.attempt == 1 else PAUSED
            return _changed(folder, status, state=state, message=" ".join(refusals))
        if status.stalled >= self._file.limits.attempts:
            message = f"Tried {status.stalled} times without progress. {status.message}".strip()
            return _changed(folder, status, state=PAUSED, message=message)
        if time() - status.updated < 2 ** min(status.stalled, 5) - 1:  # not at once, if in vain
            return status
        return self._again(folder, status, status.present)

    def _waited(self, folder: RunFolder, status: Status, state: str) -> Status:
        """Return how a run stands whose engine job has not ended: it may wait for parties."""
        if state in _BEGUN:
            return status
        missing = [name for name in status.present if not _is_connected(self._engine, name)]
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
            _LOG.warning("Run %s goes on without: %s", status.run, ", ".join(missing))
            return self._again(folder, status, present)
        message = (
            f"These parties stay away: {', '.join(missing)}. Resume the job when they are back."
        )
        if enough:
            message += " The quorum would do, but masked sums without them would show their counts."
        return _changed(folder, status, state=PAUSED, message=message)

    def _again(self, folder: RunFolder, status: Status, present: tuple[str, ...]) -> Status:
        """Try a run again in a new engine job."""
        source = self._manager.get_job(status.run, self._fl_ctx)
        if source is None:
            return _changed(folder, status, state=ABORTED, message="The job was deleted.")
        folder.write(status)  # where there is no room for that, there is none for a new job
        meta = {key: value for key, value in source.meta.items() if key not in _OF_ONE_JOB}
        meta |= {
            "spinney_run": status.run,
            "spinney_attempt": status.attempt + 1,
            "spinney_present": list(present),
            "min_clients": len(present),
            "mandatory_clients": list(present),
            "deploy_map": {APP: ["server", *present]},
        }
        made = self._manager.clone(status.run, meta, self._fl_ctx)
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


def _is_connected(engine: Any, name: str) -> bool:
    """Tell whether a party is heard; the engine forgets it when its heart-beats cease."""
    return name in {client.name for client in engine.get_clients()}


def _changed(folder: RunFolder, status: Status, **changes: Any) -> Status:
    return folder.write(msgspec.structs.replace(status, **changes))


def _parties(meta: Any) -> Sequence[str]:
    sites = (meta.get(JobMetaKey.DEPLOY_MAP.value) or {}).get(APP) or []
    return [str(site) for site in sites if site != "server"]


def _refusals(meta: Any) -> list[str]:
    """Return what parties said when they refused an engine job at their gate."""
    detail = meta.get(JobMetaKey.JOB_DEPLOY_DETAIL.value) or []
    said = [line.split(": ", maxsplit=1) for line in detail if ": " in line]
    return [
        f"{name}: {text}"
        for name, text in said
        if name != "server" and not text.startswith(_UNHEARD)
    ]
