"""Keep runs going at the coordinator, because the engine neither rejoins nor resumes jobs.

This runs in the engine's main process. If a run's engine job ends early, the run is tried again in
a new one, which the engine holds until the parties are there. A party that stays away too long is
dropped if the job's quorum allows; otherwise the run pauses. The status of a run is also written
into the engine's record of the job, where everyone who may see the job can read it.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, SystemComponents
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.apis.job_def import JobMetaKey

from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.coordinator.runs import (
    ABORTED,
    COORDINATOR_VARIABLE,
    PAUSED,
    RUNNING,
    WAITING,
    RunFolder,
    keep_reserve,
)
from spinney.deployment.coordinator.supervision import Keeping, is_connected, parties_of
from spinney.deployment.coordinator.unfinished import write_unfinished
from spinney.deployment.place import Places, place_in
from spinney.deployment.text import standing_of
from spinney.transport.flare.jobs import ABORTS
from spinney.transport.journal import Journal

_LOG: Final = logging.getLogger("spinney.keeper")
_EVERY: Final = 1.0  # seconds


class Keeper(FLComponent):  # type: ignore[misc]
    """Watch all runs of the coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self._file = load_coordinator(Path(os.environ[COORDINATOR_VARIABLE]))
        self._stop = Event()
        self._told: dict[str, float] = {}  # run -> when its status was last passed on
        self._over: set[str] = set()
        self._heard: frozenset[str] = frozenset()
        self._places = Places(self._file.kit / "places.json")

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Start and stop with the engine; refuse those who were removed."""
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
        """Refuse a party that was removed, or whose start kit is in use elsewhere."""
        peer = fl_ctx.get_peer_context()
        name = peer.get_identity_name()
        if name in self._file.removed():
            _refuse(fl_ctx, f"{name} was removed from this federation")
            return
        elsewhere = self._places.is_elsewhere(name, place_in(peer))
        if elsewhere and is_connected(fl_ctx.get_engine(), name):
            _refuse(fl_ctx, f"the start kit of {name} is in use in another place")

    def _note_place(self, fl_ctx: Any) -> None:
        """Record the place of an admitted party."""
        peer = fl_ctx.get_peer_context()
        name = peer.get_identity_name()
        if is_connected(fl_ctx.get_engine(), name):
            self._places.settle(name, place_in(peer))

    def _block(self, fl_ctx: Any) -> None:
        """Stop the engine from starting a removed person's job, or a job that only ends a run."""
        meta = fl_ctx.get_prop(FLContextKey.JOB_META) or {}
        involved = [meta.get(JobMetaKey.SUBMITTER_NAME.value), *parties_of(meta)]
        gone = [name for name in involved if name in self._file.removed()]
        reason = f"{gone[0]} was removed from this federation" if gone else ""
        if reason or meta.get(ABORTS):
            reason = reason or "This job only asks to end a paused run."
            fl_ctx.set_prop(FLContextKey.JOB_BLOCK_REASON, reason, private=True, sticky=False)

    def _keep(self, engine: Any) -> None:
        manager = engine.get_component(SystemComponents.JOB_MANAGER)
        started = False
        while not self._stop.wait(_EVERY):
            try:
                self._tell_who_is_heard(engine)
                with engine.new_context() as fl_ctx:
                    keeping = Keeping(self._file, engine, manager, fl_ctx)
                    if not started:
                        keeping.bury()
                        started = True
                    for folder in self._folders():
                        self._try_to_look(keeping, folder)
                keep_reserve(self._file.runs)
            except Exception:  # noqa: BLE001  the next pass may succeed
                _LOG.exception("The keeper could not look after the runs.")

    def _tell_who_is_heard(self, engine: Any) -> None:
        heard = frozenset(client.name for client in engine.get_clients())
        for name in sorted(heard - self._heard):
            _LOG.info("%s is connected.", name)
        for name in sorted(self._heard - heard):
            _LOG.warning("%s is no longer connected.", name)
        self._heard = heard

    def _folders(self) -> Iterator[RunFolder]:
        if self._file.runs.is_dir():
            for path in sorted(self._file.runs.iterdir()):
                if path.name not in self._over and path.is_dir():
                    yield RunFolder(self._file.runs, path.name)

    def _try_to_look(self, keeping: Keeping, folder: RunFolder) -> None:
        try:
            self._look(keeping, folder)
        except Exception:  # noqa: BLE001  the other runs must go on
            _LOG.exception("The keeper could not look after run %s.", folder.folder.name)

    def _look(self, keeping: Keeping, folder: RunFolder) -> None:
        status = folder.status()
        if status is None:
            return
        before = status.state
        if status.state == PAUSED:
            status = keeping.resumed_or_aborted(folder, status)
        if not status.is_over:
            status = keeping.kept(folder, status)
        if status.state != before:
            _LOG.info("%s %s: %s", status.name, status.run[:8], standing_of(status))
        if status.updated != self._told.get(status.run):
            write_unfinished(folder, status)
            keeping.tell(folder, status)
            self._told[status.run] = status.updated
            if status.state == ABORTED:  # its report lists the completed rounds
                Journal(folder.rounds).clear()
        if status.state not in (PAUSED, RUNNING, WAITING) and not keeping.is_alive(status.job):
            self._over.add(status.run)
            self._told.pop(status.run, None)


def _refuse(fl_ctx: Any, why: str) -> None:
    """Refuse the registration; an exception would be logged as a fault, with a traceback."""
    _LOG.warning("Refused: %s.", why)
    refused = {"spinney": NotAuthenticated(why)}
    fl_ctx.set_prop(FLContextKey.EXCEPTIONS, refused, private=True, sticky=False)
