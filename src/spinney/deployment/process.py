"""`coordinator run` and `party run`: one process each, which also a service manager sees as one.

Only one process at a time uses a start kit. What it writes, nobody else may read.
"""

import logging
import os
import resource
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Event, Thread
from time import time
from typing import Final
from urllib.parse import urlsplit

from spinney.deployment import expiry
from spinney.deployment.coordinator.config import CoordinatorFile, load_coordinator
from spinney.deployment.coordinator.desk import CoordinatorDesk
from spinney.deployment.coordinator.keeper import Keeper
from spinney.deployment.coordinator.measures import coordinator_measures
from spinney.deployment.coordinator.members import Members
from spinney.deployment.logs import JsonLines
from spinney.deployment.metrics import observed, port_of
from spinney.deployment.party.attending import AttendingParty, Noted
from spinney.deployment.party.config import PartyFile, load_party
from spinney.deployment.party.measures import party_measures
from spinney.deployment.party.tables import open_ledger
from spinney.deployment.place import Places, place_of
from spinney.deployment.sandbox import Cage, start_again
from spinney.deployment.standing import CONNECTED, LISTENING, NOT_CONNECTED, StandingFile, cage_of
from spinney.deployment.text import printable
from spinney.errors import ProtocolError, SettingError, SpinneyError
from spinney.files import hold_lock, is_locked
from spinney.jobs.secrets import keep_secret, secret_called
from spinney.jobs.tables import cluster_of
from spinney.privacy.ledger_copies import lock_of
from spinney.privacy.signatures import key_file_of
from spinney.transport.remote import kits
from spinney.transport.remote.attendance import Attendance
from spinney.transport.remote.calling import NotAdmittedError, attend
from spinney.transport.remote.certificates import holder_of
from spinney.transport.remote.serving import Door, Server

_LOG: Final = logging.getLogger("spinney.party")
_FIRST, _LONGEST = 0.5, 5.0  # seconds between two tries to connect
_LOOK: Final = 0.5  # seconds until a signal that another thread took is handled
_POSTGRES: Final = 5432
_LOG_BYTES: Final = 20 << 20
_LOG_FILES: Final = 5
_LOCK: Final = "running.lock"
Say = Callable[[str], None]


def run_coordinator(path: Path, say: Say, cage: Cage | None = None) -> int:
    """Run the coordinator until it is stopped; without a cage, first start again in one."""
    kits.require_engine()
    file = load_coordinator(path)
    own, address = file.coordinator, file.address
    _require_kit(file.kit, "server", "spinney coordinator init")
    ports = (address.port, address.admin_port)
    if cage is None:
        with _secretly(), alone_with(file.kit):
            kits.tighten(file.kit)
            for port in ports:
                require_free(port)
        start_again(_coordinator_cage(path, file))
    with _secretly(), alone_with(file.kit), logging_to(file.kit, say):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # idle connections take some
        members, standing = Members(file.folder), StandingFile(file.kit)
        standing.note(cage=cage_of(confined=cage is not None))
        places = Places(file.kit / "places.json")
        attendance = Attendance(places.known, places.settle)
        keeper = Keeper(file, members, attendance)
        desk = CoordinatorDesk(file, members, keeper)
        door = Door(kits.Credentials.of(file.kit, "server"), ports, file.limits.message_bytes)
        server = Server(door, desk, attendance)
        standing.look = lambda: {"heard": _heard(attendance), "run": keeper.run}
        standing.remind(expiry.coordinator_warning(file.kit, path.name))
        standing.remind(expiry.authority_warning(file.kit))
        measure = coordinator_measures(file, standing)
        with standing.kept(), observed(file.metrics, standing, measure):
            say(f"Coordinator of {own.name!r} on {own.host}, ports {ports[0]} and {ports[1]}.")
            server.start()
            standing.note(state=LISTENING)
            keeper.start()
            wait_for(until_stopped())
            keeper.stop()
            server.stop()
    return 0


def _coordinator_cage(path: Path, file: CoordinatorFile) -> Cage:
    """Return what a coordinator's process may reach; the authority's key is not part of it."""
    members = Members(file.folder).folder
    for folder in (file.runs, members):  # a cage has no room for what comes later
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    address = file.address
    read = (str(path.resolve()), str(file.folder / "removed.txt"))
    bind = (address.port, address.admin_port, *port_of(file.metrics))
    write = tuple(map(str, (file.kit, file.runs, members)))
    return Cage(read, write, (), bind, kernels=_kernels(file.kit))


def _kernels(kit: Path) -> str:
    """Return where a process in a cage keeps its compiled kernels."""
    return str(kit / "kernels")


def _heard(attendance: Attendance) -> dict[str, float]:
    """Return who is connected, and when each was last heard."""
    now = time()
    return {name: now - seconds for name, seconds in attendance.last_heard().items()}


def run_party(path: Path, say: Say, cage: Cage | None = None) -> int:
    """Run a party until it is stopped, or until the coordinator does not admit it.

    Without a cage, it first starts again in one.
    """
    kits.require_engine()
    file = load_party(path)
    name = _require_kit(file.kit, "client", "spinney party join")
    if name != file.party.name:
        raise SettingError(
            f"The start kit belongs to {name!r}, but the party's file says {file.party.name!r}."
        )
    if cage is None:
        with _secretly(), alone_with(file.kit), _ledger_in_use(file):
            kits.tighten(file.kit)
            own = kits.Credentials.of(file.kit)
            open_ledger(file).close()  # so that its files are there
        start_again(_party_cage(path, file, own.address.port))
    for secret, value in ({} if cage is None else cage.secrets).items():
        keep_secret(secret, value)
    tempfile.tempdir = str(file.records / "tmp")  # rows that do not fit into memory stay here
    say(f"Party {name!r}; connecting to the coordinator.")
    refused: list[SpinneyError] = []
    with _secretly(), alone_with(file.kit), logging_to(file.kit, say), _ledger_in_use(file):
        own, standing = kits.Credentials.of(file.kit), StandingFile(file.kit)
        standing.note(cage=cage_of(confined=cage is not None))
        standing.remind(expiry.party_warning(file.kit))
        party, stopped = Noted(AttendingParty(path), standing), until_stopped()
        measure = party_measures(path, standing)
        with standing.kept(), observed(file.metrics, standing, measure):
            staying = (own, place_of(file.kit), party, stopped, refused)
            Thread(target=_attend, args=staying, daemon=True).start()
            wait_for(stopped)
            party.end(*party.attempt)
    if refused:
        raise ProtocolError(f"The coordinator did not admit {name!r}: {refused[0].public}.")
    return 0


@contextmanager
def _ledger_in_use(file: PartyFile) -> Iterator[None]:
    """Let nobody replace the ledger meanwhile; parties of several federations may share one."""
    with ExitStack() as held:
        try:
            held.enter_context(hold_lock(lock_of(file.ledger_file), shared=True))
        except BlockingIOError:
            raise ProtocolError(
                f"The ledger {str(file.ledger_file)!r} is just being restored. Try again."
            ) from None
        yield


def _party_cage(path: Path, file: PartyFile, port: int) -> Cage:
    """Return what a party's process may reach: its own files, its table and its coordinator."""
    table, connect, secrets = file.table, [port], {}
    if table.url_env is not None:
        secrets[table.url_env] = secret_called(table.url_env) or ""
        with suppress(ValueError):
            address = urlsplit(secrets[table.url_env])
            connect += [address.port or _POSTGRES] if address.hostname else []
    cluster = cluster_of(table, file.folder)
    if cluster is not None:
        connect.append(cluster.port)
    for folder in (file.records, file.records / "tmp", file.labels):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ledger = file.ledger_file
    journal = ledger.with_name(f"{ledger.name}-journal")
    journal.touch(mode=0o600)  # the ledger keeps it; a cage has no room for new files beside it
    read = [path.resolve(), *_table_files(file), *(cluster.files if cluster is not None else ())]
    key = key_file_of(ledger)
    write = [file.kit, file.records, file.labels, ledger, journal, lock_of(ledger), key]
    return Cage(
        tuple(map(str, read)),
        tuple(map(str, write)),
        tuple(connect),
        tuple(port_of(file.metrics)),
        secrets,
        _kernels(file.kit),
    )


def _table_files(file: PartyFile) -> list[Path]:
    """Return the table, and its folder unless that holds the party itself or a start kit."""
    if file.table.path is None:
        return []
    table = file.folder / file.table.path
    folder = table.resolve().parent
    is_own = not file.folder.is_relative_to(folder) and not (folder / "startup").exists()
    return [table, folder] if is_own else [table]  # in a folder of its own it may be replaced


def _attend(
    own: kits.Credentials,
    place: str,
    party: Noted,
    stopped: Event,
    refused: list[SpinneyError],
) -> None:
    """Stay connected; try again whenever the connection ends."""
    pause, said, standing = _FIRST, "", party.standing

    def connected() -> None:
        nonlocal pause, said
        pause, said = _FIRST, ""
        standing.note(state=CONNECTED, reason="", last_contact=time())
        _LOG.info("Connected to the coordinator.")

    while not stopped.is_set():
        reason = "The coordinator ended the connection."
        try:
            attend(own, place, party, connected)
        except NotAdmittedError as error:
            reason = f"The coordinator did not admit this party: {error.public}."
            refused.append(error)
        except SpinneyError as error:
            reason = str(error)
            if reason != said:  # once, not at every try
                _LOG.warning("Not connected: %s", error)
                said = reason
        except Exception:  # noqa: BLE001  the next try may succeed
            reason = "The connection failed; see the log."
            _LOG.exception("The connection failed.")
        standing.note(state=NOT_CONNECTED, reason=reason)
        if refused:
            stopped.set()
        stopped.wait(pause)
        pause = min(2 * pause, _LONGEST)


def until_stopped() -> Event:
    """Return what happens when this process is told to stop."""
    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def wait_for(stopped: Event) -> None:
    """Wait, but wake now and then: gRPC's threads may take a signal, which Python handles here."""
    while not stopped.wait(_LOOK):
        pass


@contextmanager
def _secretly() -> Iterator[None]:
    """Let nobody else read the files that are made meanwhile."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def logging_to(kit: Path, say: Say) -> Iterator[None]:
    """Write our logs as JSON lines, refusals of peers also to a file of their own, and say them."""
    named = {"spinney": "spinney.jsonl", "spinney.audit": "audit.jsonl"}
    files: dict[str, logging.Handler] = {}
    for name, file in named.items():
        files[name] = RotatingFileHandler(
            kit / file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, delay=True
        )
        files[name].setFormatter(JsonLines())
    root, audit = logging.getLogger("spinney"), logging.getLogger("spinney.audit")
    before = root.level, root.propagate
    root.setLevel(logging.INFO)
    root.propagate = False
    saying = _Saying(say)
    added = ((root, files["spinney"]), (root, saying), (audit, files["spinney.audit"]))
    for logger, handler in added:
        logger.addHandler(handler)
    try:
        yield
    finally:
        root.level, root.propagate = before
        for logger, handler in added:
            logger.removeHandler(handler)
            handler.close()


class _Saying(logging.Handler):
    """Prints the first line of every log message, with the time and the run."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; what cannot be printed, on a full disk for example, stops nothing."""
        at = datetime.fromtimestamp(record.created, UTC)
        first = (record.getMessage().splitlines() or [""])[0]
        with suppress(OSError, ValueError):
            self._say(f"{at:%H:%M:%S} {JsonLines.job[:8]} {printable(first)}".replace("  ", " "))


@contextmanager
def alone_with(kit: Path) -> Iterator[None]:
    """Be the only process that uses a start kit."""
    with ExitStack() as held:
        try:
            held.enter_context(hold_lock(kit / _LOCK))
        except BlockingIOError:
            raise ProtocolError(
                f"Another process on this machine uses the start kit {str(kit)!r}. Stop that "
                "process first."
            ) from None
        yield


def is_running(kit: Path) -> bool:
    """Return whether a process uses a start kit."""
    return is_locked(kit / _LOCK)


def _require_kit(kit: Path, own: str, command: str) -> str:
    """Raise unless there is a start kit with a valid certificate; return the name in it."""
    shown = kits.certificate_in(kit, own, command)
    now = datetime.now(UTC)
    first, last = shown.not_valid_before_utc, shown.not_valid_after_utc
    if now > last:
        raise SettingError(
            f"The certificate in {str(kit)!r} expired on {last:%Y-%m-%d}. Make a new request and "
            "have it approved."
        )
    if now < first:
        raise SettingError(
            f"The certificate in {str(kit)!r} is valid from {first:%Y-%m-%d %H:%M} UTC, but this "
            f"machine's clock says {now:%Y-%m-%d %H:%M} UTC. Set the clock."
        )
    return holder_of(shown).name


def require_free(port: int) -> None:
    """Raise if a port is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise SettingError(
                f"Port {port} cannot be used: {error.strerror}. Stop what uses it, or choose "
                "another port and initialise a new federation."
            ) from None
