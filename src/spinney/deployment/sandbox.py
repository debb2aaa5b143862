"""A cage for a process, set by itself: which files it may read and write, and where it connects.

Landlock (Linux 5.13 and later) takes rights away for good, from this process and all it starts, and
needs no privilege. Where the system does not offer it, nothing happens, and `party status` says so.

The kernel confines the thread that asks and those it starts later. So a side that knows its cage
starts its program again (`start_again`), and the new program confines itself (`enter_if_given`)
before it imports anything that has threads. Secrets travel with the cage, not in the environment.
"""

import ctypes
import json
import logging
import os
import struct
import sys
import sysconfig
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

_LOG: Final = logging.getLogger("spinney.sandbox")
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, the same on all machines
_VERSION_FLAG: Final = 1
_BENEATH, _PORT = 1, 2  # kinds of rules
_NO_NEW_PRIVILEGES: Final = 38  # prctl

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | (1 << 14)  # and truncating
_READ: Final = _READ_FILE | _READ_FOLDER  # nothing is ever executed
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many rights each version knows
_BIND, _CONNECT = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_FIRST_WITH_PORTS, _FIRST_WITH_SCOPES = 4, 6
_VARIABLE: Final = "SPINNEY_CAGE"
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_SYSTEM: Final = (
    *("/usr", "/lib", "/lib64", "/bin", "/etc/ssl", "/etc/hosts", "/etc/resolv.conf"),
    *(
        "/etc/nsswitch.conf",
        "/etc/gai.conf",
        "/etc/host.conf",
        "/etc/localtime",
        "/etc/ld.so.cache",
    ),
    *("/etc/passwd", "/etc/group", "/etc/machine-id", "/etc/os-release", "/etc/mime.types"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/self/status"),
    *("/proc/self/stat", "/proc/self/statm", "/proc/self/cgroup", "/proc/self/mountinfo"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/run/systemd/resolve"),  # not /proc/self/environ
)


def version() -> int:
    """Return the version of Landlock that the system offers; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)))


@dataclass(frozen=True)
class Cage:
    """What a process may reach.

    Attributes
    ----------
    read
        Files, and folders with all they hold, that may be read besides Python's and the system's.
    write
        Those that may be read and changed.
    connect, bind
        The ports to connect to and to listen on; systems before Linux 6.7 do not limit them.
    secrets
        What the process knows and its environment does not hold.
    kernels
        The folder of its compiled kernels, which is among those it may change.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    connect: tuple[int, ...] = ()
    bind: tuple[int, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    kernels: str = ""


def start_again(cage: Cage) -> None:
    """Replace this program by itself, to be confined; return only if the system has no cages."""
    if not version():
        _LOG.warning("This system has no Landlock. The process is not confined to its own files.")
        return
    handle = os.memfd_create("spinney-cage", 0)  # inherited; nobody else can open it
    os.write(handle, json.dumps(asdict(cage)).encode())
    os.lseek(handle, 0, os.SEEK_SET)
    kept = {name: value for name, value in os.environ.items() if name not in cage.secrets}
    environment = kept | {_VARIABLE: str(handle)}
    if cage.kernels:  # who loads compiled code runs it: nobody outside loads what a cage wrote
        from spinney.trees.compiled import copy_compiled  # noqa: PLC0415  has threads

        os.umask(0o077)
        copy_compiled(Path(cage.kernels))
        environment["NUMBA_CACHE_DIR"] = cage.kernels
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(  # noqa: S606  our own program
        sys.executable, [sys.executable, "-m", "spinney.cli", *sys.argv[1:]], environment
    )


def enter_if_given() -> Cage | None:
    """Confine this process if `start_again` started it; return its cage, or None."""
    handle = os.environ.pop(_VARIABLE, None)
    if handle is None:
        return None
    with os.fdopen(int(handle), "rb") as file:
        cage = Cage(**json.load(file))
    if sum(1 for _ in Path("/proc/self/task").iterdir()) > 1:
        raise OSError("This process has threads already, which a cage would not hold.")
    confine(cage)
    return cage


def confine(cage: Cage) -> None:
    """Confine this thread, and all that it starts, for good."""
    known = version()
    rights = (1 << _FILE_RIGHTS.get(known, 16)) - 1
    parts = [rights]
    if known >= _FIRST_WITH_PORTS:
        parts.append(_BIND | _CONNECT)
    if known >= _FIRST_WITH_SCOPES:
        parts.append(_ABSTRACT_SOCKETS | _SIGNALS)
    handled = struct.pack(f"{len(parts)}Q", *parts)
    attributes = ctypes.create_string_buffer(handled, len(handled))
    ruleset = _call(_CREATE, attributes, ctypes.c_size_t(len(handled)), ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock refuses the rules")
    try:
        for path in (*map(Path, _SYSTEM), *_python(), *map(Path, cage.read)):
            _allow(ruleset, path, _READ & rights)
        for path in (*map(Path, _DEVICES), *map(Path, cage.write)):
            _allow(ruleset, path, rights & ~_EXECUTE)
        if known >= _FIRST_WITH_PORTS:
            for right, ports in ((_CONNECT, cage.connect), (_BIND, cage.bind)):
                for port in ports:
                    _call(_ADD, ruleset, _PORT, struct.pack("QQ", right, port), ctypes.c_uint32(0))
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if _call(_RESTRICT, ruleset, ctypes.c_uint32(0)) < 0:
            raise OSError(ctypes.get_errno(), "Landlock cannot confine this process")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Allow rights on a file, or on a folder with all it holds; what does not exist needs none."""
    with suppress(FileNotFoundError, PermissionError):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not path.is_dir():
                rights &= _OF_FILES
            rule = struct.pack("=Qi", rights, handle)
            _call(_ADD, ruleset, _BENEATH, rule, ctypes.c_uint32(0))
        finally:
            os.close(handle)


def _python() -> set[Path]:
    """Return where Python, its packages and Spinney itself are installed."""
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    folders |= {path for path in sys.path if path}
    return {Path(folder) for folder in folders} | {Path(__file__).parents[2]}


def _call(number: int, *arguments: Any) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return int(library.syscall(ctypes.c_long(number), *arguments))
