"""Who was removed from a federation: by certificate, so that an old kit never works again.

`members/removed.json` names whoever was removed, and the serials of the certificates that were
signed for that name since. A certificate of a name that is not there is good until it expires.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from spinney.errors import SettingError, StorageError
from spinney.files import replace_file
from spinney.transport.remote.certificates import Peer

_SERIAL: Final = re.compile(r"[0-9a-f]{1,40}")


class Members:
    """The list on the coordinator's disk, read each time, so that a change applies at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "members"
        self._path = self.folder / "removed.json"
        self._names = folder / "removed.txt"  # of version 0.1: names only
        self._serials = self.folder / "revoked.txt"

    def refuses(self, peer: Peer) -> str:
        """Say why a certificate is refused; empty if it is not."""
        admitted = self._read().get(peer.name)
        if peer.serial in self._revoked() or (admitted is not None and peer.serial not in admitted):
            return "you were removed from the federation"
        return "" if peer.is_valid_now else "your certificate has expired"

    def remove(self, name: str) -> None:
        """Refuse every certificate that was signed for a name so far."""
        self._write(self._read() | {name: ()})

    def revoke(self, serial: str) -> None:
        """Refuse one certificate."""
        found = serial.casefold().replace(":", "").lstrip("0")
        if not _SERIAL.fullmatch(found):
            raise SettingError(f"A serial number must be hexadecimal digits; got {serial!r}.")
        lines = "".join(f"{one}\n" for one in sorted({*self._revoked(), found}))
        self.folder.mkdir(exist_ok=True, mode=0o700)
        replace_file(self._serials, lines.encode())

    def admit(self, holder: Peer) -> None:
        """Accept a certificate that was just signed, also for a name that was removed."""
        known = self._read()
        if holder.name in known:
            self._write(known | {holder.name: (*known[holder.name], holder.serial)})

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
        self.folder.mkdir(exist_ok=True, mode=0o700)
        replace_file(self._path, msgspec.json.encode(known))
