"""Heads of ledgers: what others keep of a ledger, so that it cannot be turned back unnoticed.

A head says how many entries a ledger has, and shows a mark of the last one: a keyed hash, so that
nobody who keeps it can guess what the entries say. Whoever keeps a head can tell whether a later
one goes on from it. It cannot be hidden that a ledger was restarted, and why.

**What this notices:** a ledger that was replaced by an older copy, deleted, rewritten, or continued
in two copies. **What it does not:** entries that nobody was shown, and a party that nobody meets
again.
"""

from collections.abc import Iterable
from hashlib import sha256
from hmac import digest
from typing import Final

import msgspec

from spinney.errors import LedgerError

_MARK_BYTES: Final = 16
_PAST: Final = 16  # earlier places that a head shows
MAY_SAY: Final = 300  # characters of a reason


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A restart of a ledger: its entry, when, and why."""

    entry: int
    at: str
    reason: str


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a ledger, as others keep it.

    `past` shows the marks of earlier entries that others may know; it is shown when a party joins.
    """

    party: str
    ledger: str  # which ledger: a fresh one has another
    seq: int
    mark: str
    run: str = ""  # for which attempt it is shown: "<run>/<attempt>"
    restarts: tuple[Restart, ...] = ()
    past: tuple[tuple[int, str], ...] = ()

    def __post_init__(self) -> None:
        words = [self.party, *(text for one in self.restarts for text in (one.at, one.reason))]
        if not all(one.isprintable() and len(one) <= MAY_SAY for one in words):
            raise ValueError  # people read them
        if len(self.past) > _PAST:
            raise ValueError

    def to_bytes(self) -> bytes:
        """Return the head as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def of_bytes(cls, data: bytes) -> "Head":
        """Return the head that `to_bytes` wrote, checked."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise LedgerError("The head of a ledger cannot be read.", local=str(error)) from None

    @property
    def signed(self) -> bytes:
        """The words under the party's own signature."""
        return b"spinney ledger head\0" + self.to_bytes()

    @property
    def countersigned(self) -> bytes:
        """The words under the signature of who keeps the head."""
        return b"spinney ledger head, kept\0" + self.to_bytes()

    def new_restarts(self, held: "Head") -> tuple[Restart, ...]:
        """Return the restarts that whoever holds an earlier head does not know."""
        return tuple(one for one in self.restarts if one not in held.restarts)

    def problem_after(self, held: "Head") -> str:
        """Say why this head does not go on from one that is held; empty if it does.

        A restart that the held head does not know says that entries were given up.
        """
        if self.new_restarts(held):
            return ""
        if self.ledger != held.ledger:
            return f"is another one than the one that had {_entries(held.seq)}"
        if self.seq < held.seq:
            return f"has {_entries(self.seq)}, but it had {held.seq}"
        marks = dict(self.past) | {self.seq: self.mark}
        shown = marks.get(held.seq)
        if shown == held.mark or (shown is None and held.seq < min(marks)):
            return ""
        if shown is None:
            return f"does not show its entry {held.seq}, which others keep"
        return f"has another entry {held.seq} than it had"


def mark_of(salt: str, link: bytes) -> str:
    """Return the mark of an entry: its hash, hidden by the ledger's salt."""
    return digest(bytes.fromhex(salt), b"spinney ledger head\0" + link, "sha256")[
        :_MARK_BYTES
    ].hex()


def name_of(salt: str) -> str:
    """Return what tells a ledger apart from others."""
    return sha256(b"spinney ledger\0" + bytes.fromhex(salt)).hexdigest()[: 2 * _MARK_BYTES]


def newest(places: Iterable[int]) -> list[int]:
    """Return the places that a head shows."""
    return sorted(set(places))[-_PAST:]


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
