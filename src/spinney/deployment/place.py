"""Where a party runs: a start kit may be used in one place at a time, even if there are copies.

A party sends its place when it connects, as a digest that reveals nothing. The coordinator refuses
another place while the first is connected; the same place may connect again at once.
"""

import platform
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from spinney.files import write_whole

_MACHINE: Final = Path("/etc/machine-id")


def place_of(kit: Path) -> str:
    """Return a digest of the machine and of the start kit's folder."""
    machine = ""
    with suppress(OSError):
        machine = _MACHINE.read_text()
    return sha256("\0".join((machine, platform.node(), str(kit.resolve()))).encode()).hexdigest()


class Places:
    """The places from which parties last connected, on the coordinator's disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, str] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self.known = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def settle(self, name: str, place: str) -> None:
        """Record the place of a party."""
        if self.known.get(name) != place:
            self.known[name] = place
            write_whole(self._path, msgspec.json.encode(self.known))
