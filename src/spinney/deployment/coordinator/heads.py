"""The heads of the parties' ledgers that a coordinator keeps, countersigned, on its disk."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import Attempt
from spinney.deployment.statements import Joining, Kept, Statement, turned_back
from spinney.errors import ProtocolError, SpinneyError, StorageError
from spinney.files import replace_file

_LOG: Final = logging.getLogger("spinney.audit")
_PLACES: Final = 16  # earlier places of a ledger that others may keep


class KeptHeads:
    """What a coordinator knows of its parties' ledgers."""

    def __init__(self, kit: Path) -> None:
        self._path = kit / "heads.json"
        self._identity = KitIdentity(kit, "server")
        self._last: dict[str, Statement] = {}  # of the attempt that is under way
        self.shown: tuple[bytes, ...] = ()  # what the parties of the attempt show each other

    def offered(self, names: Sequence[str]) -> tuple[bytes, ...]:
        """Return what is kept of some parties' ledgers."""
        kept = self._kept()
        return tuple(kept[name].to_bytes() for name in names if name in kept)

    def ends(self) -> dict[str, int]:
        """Return how many entries each party's ledger has, as far as it is kept here."""
        return {name: kept.statement.head.seq for name, kept in sorted(self._kept().items())}

    def joined(self, attempt: Attempt, said: Mapping[str, bytes]) -> str:
        """Take what parties say as they join; say what is wrong with it, or nothing."""
        self._last, self.shown = {}, tuple(said.values())
        kept, now = self._kept(), f"{attempt.run}/{attempt.number}"
        for name, data in said.items():
            try:
                statement = Joining.of_bytes(data).statement
                head = statement.checked(self._identity, is_old=False)
                if (head.party, head.run) != (name, now):
                    raise ProtocolError("It shows the head of another ledger or attempt.")
                if name in kept:
                    held = kept[name].statement.head
                    if problem := head.problem_after(held):
                        raise turned_back(name, problem)
                    for restart in head.new_restarts(held):
                        _LOG.warning("%s restarted its ledger: %s", name, restart.reason)
            except SpinneyError as error:
                return f"{name}: {error.public}"
            self._last[name] = statement
        return ""

    def heard(self, name: str, data: bytes) -> None:
        """Take where a party's ledger ends after an answer."""
        if not data or name not in self._last:
            return
        statement = Statement.of_bytes(data)
        head, before = statement.checked(self._identity), self._last[name].head
        is_later = head.seq >= before.seq and head.ledger == before.ledger
        if head.party != name or head.run != before.run or not is_later:
            raise turned_back(name, f"has {head.seq} entries, but it had {before.seq}")
        self._last[name] = statement

    def closed(self) -> tuple[bytes, ...]:
        """Countersign and keep the last heads of an attempt; return them for its parties."""
        kept = self._kept()
        for name, statement in self._last.items():
            before = kept.get(name)
            places = () if before is None else (*before.places, before.statement.head.seq)
            kept[name] = Kept.by(self._identity, statement, places[-_PLACES:])
        now = tuple(kept[name].to_bytes() for name in self._last)
        if now:
            try:
                replace_file(self._path, msgspec.json.encode(kept), mode=0o600)
            except OSError as error:
                raise StorageError(
                    f"The coordinator cannot keep the heads of ledgers: {error.strerror}."
                ) from None
        self._last, self.shown = {}, ()
        return now

    def _kept(self) -> dict[str, Kept]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Kept])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageError(
                f"The file {self._path.name!r} of the parties' ledgers cannot be read. Restore it "
                "from a backup, or remove it to begin anew.",
                local=str(error),
            ) from None
