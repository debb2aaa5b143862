"""Who was let into a federation, and who was removed: by certificate, so that old kits stay out.

`members/signed.jsonl` lists the certificates that were signed. `members/removed.json` names whoever
was removed, and the serials of the certificates that were signed for that name since. A certificate
of a name that is not there is good until it expires.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from spinney.errors import SettingError, StorageError
from spinney.files import replace_file, wait_for_lock
from spinney.transport.remote.certificates import Peer

_SERIAL: Final = re.compile(r"[0-9a-f]{1,40}")


class Signed(msgspec.Struct, frozen=True):
    """A certificate that was signed."""

    name: str
    role: str
    serial: str
    last: str  # the day on which it expires


class Members:
    """The list on the coordinator's disk, read each time, so that a change applies at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "members"
        self._path = self.folder / "removed.json"
        self._names = folder / "removed.txt"  # of version 0.1: names only
        self._serials = self.folder / "revoked.txt"
        self._signed = self.folder / "signed.jsonl"

    def refuses(self, peer: Peer) -> str:
        """Say why a certificate is refused; empty if it is not."""
        admitted = self._read().get(peer.name)
        if peer.serial in self._revoked() or (admitted is not None and peer.serial not in admitted):
            return "you were removed from the federation"
        return "" if peer.is_valid_now else "your certificate has expired"

    def remove(self, name: str) -> None:
        """Refuse every certificate that was signed for a name so far."""
        self.require_same_case(name)
        with self._changing():
            self._write(self._read() | {name: ()})

    def revoke(self, serial: str) -> None:
        """Refuse one certificate."""
        found = serial.casefold().replace(":", "").lstrip("0")
        if not _SERIAL.fullmatch(found):
            raise SettingError(f"A serial number must be hexadecimal digits; got {serial!r}.")
        with self._changing():
            lines = "".join(f"{one}\n" for one in sorted({*self._revoked(), found}))
            replace_file(self._serials, lines.encode())

    def admit(self, holder: Peer) -> None:
        """Accept a certificate that was just signed, also for a name that was removed."""
        with self._changing():
            known = self._read()
            if holder.name in known:
                self._write(known | {holder.name: (*known[holder.name], holder.serial)})
            last = holder.last.date().isoformat()
            one = Signed(holder.name, holder.role, holder.serial, last)
            kept = self._signed.read_bytes() if self._signed.exists() else b""
            replace_file(self._signed, kept + msgspec.json.encode(one) + b"\n")

    def require_same_case(self, name: str) -> None:
        """Raise if a certificate was signed for the same name in other letters."""
        for one in self.signed():
            if one.name != name and one.name.casefold() == name.casefold():
                raise SettingError(
                    f"The federation has {one.name!r}. Names must differ by more than small and "
                    f"capital letters; got {name!r}."
                )

    def signed(self) -> list[Signed]:
        """Return the certificates that were signed, oldest first; version 0.1 kept no list."""
        try:
            lines = self._signed.read_bytes().splitlines()
            return [msgspec.json.decode(line, type=Signed) for line in lines]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError):
            raise StorageError(
                f"{str(self._signed)!r} cannot be read. Restore it from a backup, or delete it: "
                "it only lists the certificates that were signed."
            ) from None

    def removed(self) -> frozenset[str]:
        """Return the names of whom no certificate is accepted."""
        return frozenset(name for name, serials in self._read().items() if not serials)

    def _read(self) -> dict[str, tuple[str, ...]]:
        old: dict[str, tuple[str, ...]] = {}
        if self._names.exists():
            old = dict.fromkeys(self._names.read_text().split(), ())
        if not self._path.exists():
            return old
        try:
            data = self._path.read_bytes()
            return old | msgspec.json.decode(data, type=dict[str, tuple[str, ...]])
        except (OSError, msgspec.MsgspecError):
            raise StorageError(
                f"{str(self._path)!r} cannot be read, so nobody is let in. Restore it from a "
                "backup."
            ) from None

    def _revoked(self) -> frozenset[str]:
        try:
            return frozenset(self._serials.read_text().split())
        except FileNotFoundError:
            return frozenset()

    def _write(self, known: dict[str, tuple[str, ...]]) -> None:
        replace_file(self._path, msgspec.json.encode(known))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Let one process at a time change the lists: none forgets what another has added."""
        self.folder.mkdir(exist_ok=True, mode=0o700)
        with wait_for_lock(self.folder / "changing.lock"):
            yield
