"""Where a party runs: a start kit is used in one place at a time, wherever its copies lie.

A party says its place when it registers: a digest, of which nothing can be read. The coordinator
refuses another place while the first is connected; the same place may come back at once.
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
    """What says the place; the engine asks it before a party registers."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Say where this process runs; called by the engine."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            here = place_of(Path.cwd())  # the start kit: the engine is run there
            fl_ctx.set_prop(_PLACE, here, private=False, sticky=False)
        elif event_type == EventType.AFTER_CLIENT_REGISTER and _is_let_in(fl_ctx):
            _LOG.info("Connected to the coordinator.")


def _is_let_in(fl_ctx: Any) -> bool:
    return bool(fl_ctx.get_prop(FLContextKey.CLIENT_TOKEN))


def place_of(kit: Path) -> str:
    """Return a digest of the machine and of the folder in which a start kit is."""
    machine = ""
    with suppress(OSError):
        machine = _MACHINE.read_text()
    return sha256("\0".join((machine, platform.node(), str(kit.resolve()))).encode()).hexdigest()


def place_in(peer: Any) -> str:
    """Return the place that a party said."""
    return str(peer.get_prop(_PLACE, ""))


class Places:
    """The places from which parties registered last, at the coordinator: on its disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def is_elsewhere(self, name: str, place: str) -> bool:
        """Tell whether a party was in another place when it registered last."""
        return self._known.get(name, place) != place

    def settle(self, name: str, place: str) -> None:
        """Write down where a party is."""
        if self._known.get(name) != place:
            self._known[name] = place
            write_whole(self._path, msgspec.json.encode(self._known))
