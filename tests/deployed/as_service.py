"""Run a command under the system call filter and address families of a systemd unit.

`python as_service.py UNIT COMMAND...`: systemd itself need not run; libseccomp makes the
filter. What the unit denies fails as it does under systemd.
"""

import ctypes
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EQUAL, FAMILIES = 4, {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}


def members(group: str) -> set[str]:
    """Return the system calls of a group, as this system's systemd knows it."""
    asked = ["systemd-analyze", "syscall-filter", "--no-pager", group]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found: set[str] = set()
    for line in said.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            found |= members(name)
        elif name and not name.startswith("#"):
            found.add(name)
    return found


def allowed(unit: str) -> set[str]:
    """Return the system calls that a unit allows."""
    found: set[str] = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
        names: set[str] = set()
        for word in line.removeprefix("~").split():
            names |= members(word) if word.startswith("@") else {word}
        found = found - names if line.startswith("~") else found | names
    return found


class _Argument(ctypes.Structure):
    _fields_ = (
        ("number", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def confine(unit: str) -> None:
    """Allow this process only what the unit allows."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ERRNO | errno.EPERM)))
    for name in allowed(unit) - {"socket"}:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            library.seccomp_rule_add(rules, ctypes.c_uint32(ALLOW), number, 0)
    socket = library.seccomp_syscall_resolve_name(b"socket")
    (families,) = re.findall(r"^RestrictAddressFamilies=(.*)$", unit, re.MULTILINE)
    for family in families.split():
        only = (_Argument * 1)(_Argument(0, EQUAL, FAMILIES[family], 0))
        library.seccomp_rule_add_array(rules, ctypes.c_uint32(ALLOW), socket, 1, only)
    if library.seccomp_load(rules):
        raise OSError


if __name__ == "__main__":
    confine(Path(sys.argv[1]).read_text())
    os.execv(sys.argv[2], sys.argv[2:])
