"""How a running process stands: a small file in its start kit, for `status` and for metrics.

The process writes `standing.json` whenever its connection or its run changes, and every few
seconds. Whether the process lives is not read from this file: the lock beside it says that.
"""

import logging
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any, Final

import msgspec

from spinney import __version__
from spinney.deployment import sandbox
from spinney.errors import SettingError
from spinney.files import replace_file

_LOG: Final = logging.getLogger("spinney.standing")
_FILE: Final = "standing.json"
_EVERY: Final = 5.0  # seconds
_GLANCE: Final = 0.5  # seconds until a change is seen
STALE: Final = 30.0  # seconds without a word, after which nobody knows how a process stands
_DAY: Final = 86_400.0
STARTING, CONNECTED, NOT_CONNECTED = "starting", "connected", "not connected"
LISTENING, STOPPED = "listening", "stopped"


class MetricsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The port on 127.0.0.1 that serves metrics and health; without the section there is none."""

    port: int

    def __post_init__(self) -> None:
        if not 0 < self.port < 1 << 16:
            raise SettingError(
                f"port in [metrics] must be a number from 1 to 65535; got {self.port}."
            )


class ProcessStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has written about itself."""

    pid: int
    started: float
    updated: float
    spinney: str
    python: str
    cage: str = "none"
    state: str = STARTING
    since: float = 0.0  # when this state began
    reason: str = ""  # why it is not connected
    last_contact: float = 0.0  # of a party: when a frame last came; 0: never
    heard: dict[str, float] = {}  # of a coordinator: who is connected, and when last heard
    run: str = ""  # the run that it is in
    answered: int = 0  # questions since the process began
    bytes_out: int = 0


class StandingFile:
    """A process's own standing: the newest, and its file.

    Parameters
    ----------
    kit
        The start kit that holds the file.
    look
        Returns facts that change all the time; it is asked before every writing.
    """

    def __init__(self, kit: Path, look: Callable[[], dict[str, Any]] = dict) -> None:
        self._path = kit / _FILE
        self._lock, self._changed, self._ended = Lock(), Event(), Event()
        self._thread: Thread | None = None
        self._reminders: list[Callable[[], str]] = []
        self._reminded = -_DAY
        self.look = look
        now = time()
        self._now = ProcessStanding(
            pid=os.getpid(),
            started=now,
            updated=now,
            spinney=__version__,
            python=platform.python_version(),
            since=now,
        )
        self._write()  # what an earlier process wrote is no longer so

    @property
    def now(self) -> ProcessStanding:
        """How the process stands at this moment."""
        with self._lock:
            self._now = msgspec.structs.replace(self._now, **self.look(), updated=time())
            return self._now

    def note(self, **changes: Any) -> None:
        """Change the standing; it is written soon, by a thread of its own."""
        with self._lock:
            if self._now.state == STOPPED:  # a thread that has not heard of it
                return
            if changes.get("state", self._now.state) != self._now.state:
                changes["since"] = time()
            self._now = msgspec.structs.replace(self._now, **changes)
        self._changed.set()

    def count(self, *, answered: int, bytes_out: int) -> None:
        """Count what left; it is written at the next occasion."""
        with self._lock:
            answered, bytes_out = self._now.answered + answered, self._now.bytes_out + bytes_out
            self._now = msgspec.structs.replace(self._now, answered=answered, bytes_out=bytes_out)

    def heard(self) -> None:
        """Note that a frame came; it is written at the next occasion."""
        with self._lock:
            self._now = msgspec.structs.replace(self._now, last_contact=time())

    def remind(self, reminder: Callable[[], str]) -> None:
        """Log a warning now and every day, as long as there is one."""
        self._reminders.append(reminder)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the file up to date while the block runs.

        Only threads that begin after the process was confined are confined too.
        """
        self._thread = Thread(target=self._keep, name="spinney-standing", daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._changed.set()
            self._thread.join(_EVERY)
            self.note(state=STOPPED, run="", heard={})
            self.look = dict
            self._write()

    def _keep(self) -> None:
        written, seen = -_EVERY, None
        while not self._ended.is_set():
            self._remind()
            now = self.now
            found = (now.state, now.reason, now.run, sorted(now.heard))
            if found != seen or monotonic() - written >= _EVERY:
                self._write()
                written, seen = monotonic(), found
            self._changed.wait(_GLANCE)
            self._changed.clear()

    def _remind(self) -> None:
        if monotonic() - self._reminded < _DAY:
            return
        self._reminded = monotonic()
        for words in filter(None, (reminder() for reminder in self._reminders)):
            _LOG.warning("%s", words)

    def _write(self) -> None:
        with suppress(OSError):  # for information only; a full disk says so elsewhere
            replace_file(self._path, msgspec.json.encode(self.now), mode=0o600)


def cage_of(*, confined: bool) -> str:
    """Return what confines a process, in words."""
    return f"Landlock {sandbox.version()}" if confined else "none"


def standing_in(kit: Path) -> ProcessStanding | None:
    """Return what a process last wrote about itself; None if there is nothing."""
    try:
        return msgspec.json.decode((kit / _FILE).read_bytes(), type=ProcessStanding)
    except (OSError, msgspec.MsgspecError):
        return None
