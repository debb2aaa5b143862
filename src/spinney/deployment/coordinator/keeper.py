"""Keep runs going at the coordinator: start them, try them again, drop who stays away, pause.

One attempt runs at a time, in a thread of its own. If an attempt ends early, the run is tried again
once its parties are connected. A party that stays away too long is dropped if the job's quorum
allows; otherwise the run pauses. All that is known of a run is in its folder, so a coordinator that
was stopped goes on where it was.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any, Final

import msgspec

from spinney.deployment.coordinator.config import CoordinatorFile
from spinney.deployment.coordinator.heads import KeptHeads
from spinney.deployment.coordinator.members import Members
from spinney.deployment.coordinator.process import Run
from spinney.deployment.coordinator.runs import (
    ABORTED,
    FAILED,
    OVER,
    PAUSED,
    QUEUED,
    RUNNING,
    WAITING,
    RunFolder,
    Signature,
    Status,
    keep_reserve,
    run_folders,
)
from spinney.deployment.coordinator.unfinished import write_unfinished
from spinney.deployment.job import Agreed, Attempt
from spinney.deployment.logs import JsonLines
from spinney.deployment.text import printable, standing_of
from spinney.errors import SpinneyError
from spinney.transport.journal import Journal
from spinney.transport.remote.attendance import AbortedError, Attendance
from spinney.transport.remote.certificates import certificate_holder
from spinney.transport.remote.frames import Decision, Offer

_LOG: Final = logging.getLogger("spinney.keeper")
_EVERY: Final = 0.2  # seconds
_END: Final = 30.0  # seconds for an attempt to end once nobody wants it


@dataclass
class _Active:
    """The attempt that is under way."""

    attempt: Attempt
    aborted: Event = field(default_factory=Event)
    stopped: Event = field(default_factory=Event)  # the coordinator stops; the run goes on later
    thread: Thread | None = None

    def is_unwanted(self) -> bool:
        return self.aborted.is_set() or self.stopped.is_set()


class Keeper:
    """Watch all runs of a coordinator."""

    def __init__(self, file: CoordinatorFile, members: Members, attendance: Attendance) -> None:
        self._file = file
        self._members = members
        self._attendance = attendance
        self._heads = KeptHeads(file.kit)
        self._stop = Event()
        self._due = Event()
        self._lock = Lock()
        self._active: _Active | None = None
        self._ended: dict[str, float] = {}  # run -> when its last attempt ended
        self._told: dict[str, float] = {}  # run -> when its status was last passed on
        self._over: set[str] = set()
        self._heard: frozenset[str] = frozenset()
        self._thread = Thread(target=self._keep, name="spinney-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; a run that is under way goes on when the coordinator is started again."""
        self._stop.set()
        self._due.set()
        self._thread.join(_END)
        active = self._active
        if active is not None and active.thread is not None:
            active.stopped.set()
            self._attendance.wake()
            active.thread.join(_END)

    @property
    def run(self) -> str:
        """The run whose attempt is under way; empty: none."""
        active = self._active
        return "" if active is None else active.attempt.run

    # --- for the desk ----------------------------------------------------------------------------

    def connected(self) -> tuple[str, ...]:
        """Return the parties that are connected."""
        return self._attendance.names()

    def hurry(self) -> None:
        """Look after the runs at once: there is a new one."""
        self._due.set()

    def abort(self, folder: RunFolder) -> None:
        """End a run for good; an attempt that is under way ends first."""
        with self._lock:
            active, status = self._active, folder.status()
            if active is not None and active.attempt.run == folder.folder.name:
                active.aborted.set()
            elif status is not None and status.state not in OVER:
                folder.write(msgspec.structs.replace(status, state=ABORTED, message=""))
        self._attendance.wake()

    def changed(self, folder: RunFolder, status: Status, **changes: Any) -> Status:
        """Change a run's status, unless its attempt is under way."""
        with self._lock:
            if self._active is not None and self._active.attempt.run == status.run:
                return status
            now = folder.status()
            if now is not None and now != status:  # somebody was faster: look again
                return now
            return folder.write(msgspec.structs.replace(status, **changes))

    # --- one pass --------------------------------------------------------------------------------

    def _keep(self) -> None:
        while True:
            self._due.wait(_EVERY)
            if self._stop.is_set():
                return
            self._due.clear()
            try:
                self.look()
            except Exception:  # noqa: BLE001  the next pass may succeed
                _LOG.exception("The keeper could not look after the runs.")

    def look(self) -> None:
        """Look after every run once."""
        self._dismiss_removed()
        self._tell_who_is_heard()
        known = []
        for folder in run_folders(self._file.runs):
            if folder.folder.name not in self._over:
                status = folder.status()
                if status is not None:
                    known.append((status.begun, folder, status))
        for _, folder, status in sorted(known, key=lambda one: one[0]):
            try:
                self._look_at(folder, status)
            except Exception:  # noqa: BLE001  the other runs must go on
                _LOG.exception("The keeper could not look after run %s.", folder.folder.name)
        keep_reserve(self._file.runs)

    def _dismiss_removed(self) -> None:
        for peer in self._attendance.peers():
            why = self._members.refuses(peer)
            if why:
                _LOG.warning("The connection of %s is ended: %s.", peer.name, why)
                self._attendance.dismiss(peer.name)

    def _tell_who_is_heard(self) -> None:
        heard = frozenset(self._attendance.names())
        for name in sorted(heard - self._heard):
            _LOG.info("%s is connected.", name)
        for name in sorted(self._heard - heard):
            _LOG.warning("%s is no longer connected.", name)
        self._heard = heard

    def _look_at(self, folder: RunFolder, status: Status) -> None:
        active = self._active
        if active is not None and active.attempt.run == status.run:
            return
        before = status.state
        if status.state in (QUEUED, WAITING, RUNNING):
            status = self._kept(folder, status)
        if status.state != before:
            _LOG.info("%s %s: %s", status.name, status.run[:8], standing_of(status))
        if status.updated != self._told.get(status.run):
            write_unfinished(folder, status)
            self._told[status.run] = status.updated
            if status.state in (ABORTED, FAILED):  # its report lists the completed rounds
                Journal(folder.rounds).clear()
        if status.state in OVER:
            self._over.add(status.run)
            self._told.pop(status.run, None)

    def _kept(self, folder: RunFolder, status: Status) -> Status:
        """Do what an unfinished run needs, and return its status."""
        change = partial(self.changed, folder, status)
        if status.state == RUNNING:  # its attempt ended without a word, or so did the coordinator
            return change(state=WAITING, waiting_since=status.waiting_since or time())
        signature = folder.signature()
        why = self._hindered(status, signature)
        if signature is None or why:
            return change(state=PAUSED, message=why)
        missing = [name for name in status.present if name not in self._attendance.names()]
        if missing:
            return self._waited(folder, status, missing)
        rested = monotonic() - self._ended.get(status.run, 0.0)
        if self._active is not None or rested < 2 ** min(status.stalled, 5) - 1:
            return status
        return self._begun(folder, status, signature)

    def _hindered(self, status: Status, signature: Signature | None) -> str:
        """Say why a run cannot be tried again by itself; empty if it can."""
        if signature is None:
            return "This run was started by an earlier version of Spinney. Resume it."
        if self._members.refuses(certificate_holder(signature.certificate)):
            return "Whoever signed this run was removed, or the certificate expired. Resume it."
        if status.stalled >= self._file.limits.attempts:
            return f"Tried {status.stalled} times without progress. {status.message}".strip()
        return ""

    def _waited(self, folder: RunFolder, status: Status, missing: Sequence[str]) -> Status:
        """Return the status of a run that waits for parties, or goes on without them, or pauses."""
        change = partial(self.changed, folder, status)
        message = f"Waiting for: {', '.join(missing)}."
        patience = self._file.limits.patience_seconds
        if status.state == QUEUED or time() - status.waiting_since < patience:
            return status if message == status.message else change(message=message)
        present = tuple(name for name in status.present if name not in missing)
        enough = len(present) >= max(2, status.quorum)
        if enough and not status.together:
            _LOG.warning("Run %s continues without: %s", status.run, ", ".join(missing))
            return change(present=present)
        message = (
            f"These parties are away: {', '.join(missing)}. Resume the job when they are back."
        )
        if enough:
            message += " The quorum is met, but masked sums without them would show their counts."
        return change(state=PAUSED, message=message)

    # --- one attempt -----------------------------------------------------------------------------

    def _begun(self, folder: RunFolder, status: Status, signature: Signature) -> Status:
        """Begin an attempt, and return the run's status."""
        number = status.attempt + 1
        active = _Active(Attempt(status.run, number, status.present))
        stalled = status.stalled + (number > 1)
        changes = {"state": RUNNING, "attempt": number, "stalled": stalled, "message": ""}
        with self._lock:
            if folder.status() != status:  # somebody aborted it at this moment
                return status
            # A full disk fails here, before anybody is asked.
            begun = folder.write(msgspec.structs.replace(status, **changes))
            self._active = active
        if number > 1:
            _LOG.info("Run %s is tried again: attempt %d.", status.run, number)
        active.thread = Thread(
            target=self._attempted,
            args=(folder, active, signature),
            name="spinney-attempt",
            daemon=True,
        )
        active.thread.start()
        return begun

    def _attempted(self, folder: RunFolder, active: _Active, signature: Signature) -> None:
        """Run an attempt to its end, whatever that is."""
        attempt, changes, why = active.attempt, {}, ""
        JsonLines.job = attempt.run
        try:
            changes = self._conducted(active, signature)
            why = str(changes.get("message", ""))
        except AbortedError:
            _LOG.info("The attempt was ended.")
        except SpinneyError as error:  # `Run` has written down what becomes of the run
            _LOG.warning("The attempt ended: %s", error)
            why = str(error)
        except Exception:  # noqa: BLE001  the run is tried again
            _LOG.exception("The attempt failed.")
        finally:
            heads = self._closed_heads()
            self._attendance.end(attempt.run, attempt.number, attempt.present, heads, why)
            JsonLines.job = ""
            self._ended[attempt.run] = monotonic()
            self._close(folder, active, changes)

    def _closed_heads(self) -> tuple[bytes, ...]:
        """Return where the parties' ledgers end, once that is kept here."""
        try:
            return self._heads.closed()
        except SpinneyError as error:  # the parties keep what they were shown
            _LOG.warning("%s", error)
            return ()

    def _close(self, folder: RunFolder, active: _Active, changes: dict[str, Any]) -> None:
        """Write down how an attempt changed its run, and let others begin, whatever fails."""
        with self._lock:
            try:
                status = folder.status()
                if active.aborted.is_set():
                    changes = {"state": ABORTED, "message": ""}
                if status is not None and changes and status.state not in OVER:
                    folder.write(msgspec.structs.replace(status, **changes))
            except Exception:  # noqa: BLE001  the run is then found running, and tried again
                _LOG.exception("The end of an attempt could not be written down.")
            finally:
                self._active = None

    def _conducted(self, active: _Active, signature: Signature) -> dict[str, Any]:
        """Offer an attempt to its parties and run it; return how that changes the run's status."""
        attempt = active.attempt
        agreed = Agreed.of_bytes(signature.job)
        offer = Offer(
            0,
            attempt.run,
            attempt.number,
            attempt.present,
            signature.job,
            signature.certificate,
            signature.signature,
            self._heads.offered(attempt.present),
        )
        verdicts = self._attendance.offer(offer, self._file.limits.silence_seconds)
        refused = [
            f"{name}: {printable(said.reason)}" for name, said in verdicts.items() if said.kind
        ]
        if not refused:
            said = {name: verdict.head for name, verdict in verdicts.items() if verdict.head}
            wrong = self._heads.joined(attempt, said)
            refused = [printable(wrong)] if wrong else []
        if refused:
            # A run that had begun is not lost: someone may change a rule, wait, or clear a disk.
            state = FAILED if attempt.number == 1 else PAUSED
            return {"state": state, "message": " ".join(refused)}
        silent = _silent(attempt, verdicts)
        if silent:
            return {"state": WAITING, "message": silent, "waiting_since": time()}

        def send(names: Sequence[str], data: bytes) -> Mapping[str, object]:
            here, seconds = (attempt.run, attempt.number), self._file.limits.reply_seconds
            return self._attendance.ask(names, data, here, seconds, active.is_unwanted)

        Run(self._file, agreed, attempt, send, self._heads).conduct()
        return {}


def _silent(attempt: Attempt, verdicts: Mapping[str, Decision]) -> str:
    missing = [name for name in attempt.present if name not in verdicts]
    return f"These parties did not answer an offer: {', '.join(missing)}." if missing else ""
