"""Where a party runs: a start kit may be used in one place at a time, even if there are copies.

A party sends its place when it registers, as a digest that reveals nothing. The coordinator refuses
another place while the first is connected; the same place may reconnect at once.
"""

import logging
import platform
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey

from spinney.files import write_whole

_LOG: Final = logging.getLogger("spinney.party")
_PLACE: Final = "spinney_place"
_MACHINE: Final = Path("/etc/machine-id")


class Place(FLComponent):  # type: ignore[misc]
    """Sends the place; the engine calls it before a party registers."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Send the place of this process; the engine calls this."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            here = place_of(Path.cwd())  # the start kit, where the engine runs
            fl_ctx.set_prop(_PLACE, here, private=False, sticky=False)
        elif event_type == EventType.AFTER_CLIENT_REGISTER and _is_let_in(fl_ctx):
            _LOG.info("Connected to the coordinator.")


def _is_let_in(fl_ctx: Any) -> bool:
    return bool(fl_ctx.get_prop(FLContextKey.CLIENT_TOKEN))


def place_of(kit: Path) -> str:
    """Return a digest of the machine and of the start kit's folder."""
    machine = ""
    with suppress(OSError):
        machine = _MACHINE.read_text()
    return sha256("\0".join((machine, platform.node(), str(kit.resolve()))).encode()).hexdigest()


def place_in(peer: Any) -> str:
    """Return the place that a party sent."""
    return str(peer.get_prop(_PLACE, ""))


class Places:
    """The places from which parties last registered, on the coordinator's disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def is_elsewhere(self, name: str, place: str) -> bool:
        """Return whether a party last registered from another place."""
        return self._known.get(name, place) != place

    def settle(self, name: str, place: str) -> None:
        """Record the place of a party."""
        if self._known.get(name) != place:
            self._known[name] = place
            write_whole(self._path, msgspec.json.encode(self._known))
