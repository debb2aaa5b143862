"""What a party keeps of a run's steps, on its disk: the sums it was told and the shared secret.

A run that goes on after a crash repeats none of its finished steps. So a party that starts again
reads here what they came to, and derives its next question.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spinney.errors import ProtocolError, StorageError
from spinney.files import replace_file
from spinney.protocols.verified.messages import Opened
from spinney.transport import codec

_SHARED: Final = "secret"
_ENDED: Final = "ended"
_DERIVED: Final = "derived"


class StoredSteps:
    """The steps of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def held(self) -> bytes | None:
        """Return the secret that the parties share in this run, if this party has it."""
        path = self._folder / _SHARED
        return path.read_bytes() if path.exists() else None

    def secret(self, offered: bytes) -> bytes:
        """Return the secret that the parties share in this run: the first that was offered.

        Whoever offers one again offers the same; see `RosterParty.letters`.
        """
        self._require_going_on()
        held = self.held()
        if held is None:
            self._write(_SHARED, offered)
        return held or offered

    def finish(self, digest: str) -> None:
        """Remember the finished model's digest, and forget the steps that led to it."""
        self._write(_DERIVED, digest.encode())
        for path in self._folder.glob("*.step"):
            path.unlink()

    def finished(self) -> str | None:
        """Return the digest of the finished model; None if it is not finished."""
        path = self._folder / _DERIVED
        return path.read_text() if path.exists() else None

    def keep(self, opened: Opened) -> None:
        """Keep what a step came to, after it was checked."""
        self._write(f"{opened.number:06d}.step", codec.encode(opened))

    def kept(self) -> Sequence[Opened]:
        """Return what the steps came to, from the first one on."""
        if not self._folder.is_dir():
            return ()
        paths = sorted(path for path in self._folder.iterdir() if path.suffix == ".step")
        return [codec.decode(path.read_bytes(), Opened) for path in paths]

    def end(self, why: str) -> None:
        """Remember that this party answers no further question of the run."""
        self._write(_ENDED, why.encode())

    def _require_going_on(self) -> None:
        if (self._folder / _ENDED).exists():
            raise ProtocolError((self._folder / _ENDED).read_text())

    def _write(self, name: str, data: bytes) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / name, data, mode=0o600)
        except OSError as error:
            raise StorageError(
                "This party cannot record what it was told, so it answers nothing. Make room on "
                "its disk, then resume the job.",
                local=str(error),
            ) from None
