"""`coordinator run` and `party run`: run the engine's process and print its log messages.

The engine runs as a child process that cannot outlive this one, so that a service manager sees one
service. Only one process at a time uses a start kit.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.coordinator.runs import COORDINATOR_VARIABLE
from spinney.deployment.party.config import load_party
from spinney.errors import ProtocolError, SettingError
from spinney.files import hold_lock
from spinney.transport.flare import kits

PARTY_VARIABLE: Final = "SPINNEY_PARTY"
"""The environment variable in which `spinney party run` names the party's file."""


_SERVER: Final = "nvflare.private.fed.app.server.server_train"
_CLIENT: Final = "nvflare.private.fed.app.client.client_train"
_OUTPUT: Final = "engine.txt"
_REFUSED: Final = b"could not register to server"  # the engine's own words
_TRACE: Final = "Traceback (most recent call last):"
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_EVERY: Final = 0.5  # seconds
_HEART_BEAT: Final = 4  # seconds
Say = Callable[[str], None]


def run_coordinator(path: Path, say: Say) -> int:
    """Run the coordinator until it is stopped; return the engine's exit code."""
    file = load_coordinator(path)
    own = file.coordinator
    _require_kit(file.kit, "server.crt", "spinney coordinator init")
    admin_port = own.admin_port or own.port + 1
    file.runs.mkdir(parents=True, exist_ok=True)
    environment = {
        COORDINATOR_VARIABLE: str(path.resolve()),
        # Close an engine job soon after its party is gone, so that the next attempt can begin.
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "3",
    }
    arguments = ["-m", str(file.kit), "-s", "fed_server.json", "--set", "secure_train=true"]
    with alone_with(file.kit):
        kits.settle_server(file.kit)  # also for a kit from an earlier version
        for port in (own.port, admin_port):
            require_free(port)
        say(f"Coordinator of {own.name!r} on {own.host}, ports {own.port} and {admin_port}.")
        command = [_SERVER, *arguments, f"org={own.organisation}", "config_folder=config"]
        return _run(command, environment, file.kit, say)[0]


def run_party(path: Path, say: Say) -> int:
    """Run a party until it is stopped; return the engine's exit code."""
    file = load_party(path)
    name = _require_kit(file.kit, "client.crt", "spinney party join")
    if name != file.party.name:
        raise SettingError(
            f"The start kit belongs to {name!r}, but the party's file says {file.party.name!r}."
        )
    arguments = ["-m", str(file.kit), "-s", "fed_client.json", "--set", "secure_train=true"]
    # A restarted coordinator learns from a heartbeat that the party is there.
    arguments.append(f"heart_beat_interval={_HEART_BEAT}")
    say(f"Party {name!r}; connecting to the coordinator.")
    with alone_with(file.kit):
        kits.settle_party(file.kit)  # also for a kit from an earlier version
        command = [_CLIENT, *arguments, f"uid={name}", f"org={name}", "config_folder=config"]
        code, said = _run(command, {PARTY_VARIABLE: str(path.resolve())}, file.kit, say)
    if _REFUSED in said:
        raise ProtocolError(
            f"The coordinator did not admit {name!r}: it was removed from the federation, or its "
            "start kit is in use in another place. Ask the coordinator which. A kit that was moved "
            "is admitted half a minute after the other place has stopped."
        )
    return code


def _run(arguments: list[str], extra: Mapping[str, str], kit: Path, say: Say) -> tuple[int, bytes]:
    """Run the engine as a child process; print its log messages; forward signals.

    Return its exit code and its output.
    """
    with (kit / _OUTPUT).open("ab") as output:
        begin = output.tell()
        child = subprocess.Popen(  # noqa: S603  our own interpreter, our own arguments
            [sys.executable, "-u", "-m", *arguments],
            env={**os.environ, **extra, "MALLOC_ARENA_MAX": "4"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=kit,
            preexec_fn=_die_with_parent,  # noqa: PLW1509  one system call, no locks
        )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: child.terminate())
    logs = _Logs(kit)
    while True:
        try:
            code = child.wait(_EVERY)
        except subprocess.TimeoutExpired:
            logs.tell(say)
            continue
        logs.tell(say)
        with (kit / _OUTPUT).open("rb") as printed:
            printed.seek(begin)
            return 0 if code in (0, -signal.SIGTERM) else code, printed.read()


class _Logs:
    """The lines that the engine's processes wrote since the last read."""

    def __init__(self, kit: Path) -> None:
        self._kit = kit
        self._read = {path: path.stat().st_size for path in self._paths()}

    def _paths(self) -> Iterator[Path]:
        yield from self._kit.glob("spinney.jsonl")
        yield from self._kit.glob("*/spinney.jsonl")

    def tell(self, say: Say) -> None:
        """Print the new lines."""
        for path in self._paths():
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data.rfind(b"\n") + 1
            self._read[path] = self._read.get(path, 0) + whole
            for words in map(_worded, data[:whole].splitlines()):
                if not words.endswith(_TRACE):  # the file has the traceback
                    say(words)


def _worded(line: bytes) -> str:
    """Return the first line of a log message."""
    try:
        entry: dict[str, Any] = json.loads(line)
        first = entry["message"].splitlines()[0]
        return f"{entry['at'][11:19]} {entry['job'][:8]} {first}".replace("  ", " ")
    except (ValueError, LookupError, TypeError, AttributeError):
        return line.decode(errors="replace")


@contextmanager
def alone_with(kit: Path) -> Iterator[None]:
    """Be the only process that uses a start kit."""
    with ExitStack() as held:
        try:
            held.enter_context(hold_lock(kit / "running.lock"))
        except BlockingIOError:
            raise ProtocolError(
                f"Another process on this machine uses the start kit {str(kit)!r}. Stop that "
                "process first."
            ) from None
        yield


def is_running(kit: Path) -> bool:
    """Return whether a process uses a start kit."""
    try:
        with alone_with(kit):
            return False
    except (ProtocolError, FileNotFoundError) as error:
        return isinstance(error, ProtocolError)


def _require_kit(kit: Path, certificate: str, command: str) -> str:
    """Raise unless there is a start kit with a valid certificate; return the name in it."""
    try:
        shown = x509.load_pem_x509_certificate((kit / "startup" / certificate).read_bytes())
    except (OSError, ValueError):
        raise SettingError(
            f"There is no start kit in {str(kit)!r}. Make it with: {command}."
        ) from None
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
    (name,) = shown.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(name.value)


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


def _die_with_parent() -> None:
    """Ask the kernel to end the child when its parent ends, for whatever reason."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
