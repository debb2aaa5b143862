"""What a party keeps of a run's steps, on its disk: the sums it was told and the shared secret.

A run that goes on after a crash repeats none of its finished steps. So a party that starts again
reads here what they came to, and derives its next question. What it was told, and that it answers
nothing more, is settled in its ledger too: files of an earlier time that somebody puts back do not
let it be told, and so answer, anything else.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from spinney.errors import ProtocolError, StorageError
from spinney.files import replace_file
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES
from spinney.protocols.verified.messages import Opened, story_after
from spinney.transport import codec

_SHARED: Final = "secret"
_OWN: Final = "own"
_ENDED: Final = "ended"
_DERIVED: Final = "derived"


class Memory(Protocol):
    """What cannot be told twice: the ledger."""

    def settle(self, run: str, what: str, digest: str) -> str:
        """Record what the party was told in a run, once; return the first that was recorded."""
        ...

    def told(self, run: str, what: str) -> str | None:
        """Return what the party was told in a run; None if nothing."""
        ...


class StoredSteps:
    """The steps of one run.

    Parameters
    ----------
    folder
        Where they are kept.
    memory
        Returns what settles them.
    """

    def __init__(self, folder: Path, memory: Callable[[], Memory]) -> None:
        self._folder = folder
        self._run = folder.parent.name
        self._memory = memory

    def held(self) -> bytes | None:
        """Return the secret that the parties share in this run, if this party has it."""
        path = self._folder / _SHARED
        return path.read_bytes() if path.exists() else None

    def secret(self, offered: bytes) -> bytes:
        """Return the secret that the parties share in this run: the first that was offered.

        Whoever offers one again offers the same; see `RosterParty.letters`.
        """
        self.require_going_on()
        held = self.held()
        if held is None:
            self._write(_SHARED, offered)
        return held or offered

    def own(self) -> bytes:
        """Return a secret of this party alone, with which a step asked again has the same tag."""
        path = self._folder / _OWN
        if not path.exists():
            self._write(_OWN, secret_bytes(KEY_BYTES))
        return path.read_bytes()

    def finish(self, digest: str) -> None:
        """Remember the finished model's digest; forget the steps that led to it, and the secret.

        Whoever got the secret later could read what a blind coordinator has noted.
        """
        self._write(_DERIVED, digest.encode())
        self._forget()

    def withdraw(self, why: str) -> None:
        """Forget the steps of a run whose model does not leave; answer none of them again."""
        self.end(why)
        self._forget()

    def _forget(self) -> None:
        secrets = (self._folder / name for name in (_SHARED, _OWN))
        for path in (*self._folder.glob("*.step"), *secrets):
            path.unlink(missing_ok=True)

    def finished(self) -> str | None:
        """Return the digest of the finished model; None if it is not finished."""
        path = self._folder / _DERIVED
        return path.read_text() if path.exists() else None

    def keep(self, opened: Opened) -> None:
        """Keep what a step came to, after it was checked."""
        self._require_same(opened)
        self._write(f"{opened.number:06d}.step", codec.encode(opened))

    def kept(self) -> Sequence[Opened]:
        """Return what the steps came to, from the first one on."""
        if not self._folder.is_dir():
            return ()
        paths = sorted(path for path in self._folder.iterdir() if path.suffix == ".step")
        steps = [codec.decode(path.read_bytes(), Opened) for path in paths]
        for opened in steps:
            self._require_same(opened)
        return steps

    def end(self, why: str) -> None:
        """Remember that this party answers no further question of the run."""
        self._memory().settle(self._run, _ENDED, why)
        self._write(_ENDED, why.encode())

    @property
    def has_ended(self) -> bool:
        """Whether this party answers no further question of the run."""
        return self._memory().told(self._run, _ENDED) is not None

    def require_going_on(self) -> None:
        """Raise if this party answers no further question of the run."""
        why = self._memory().told(self._run, _ENDED)
        if why is not None:
            raise ProtocolError(why)

    def _require_same(self, opened: Opened) -> None:
        """Raise if this party was told something else of a step before."""
        digest = story_after(b"", opened, is_shared=False).hex()
        if self._memory().settle(self._run, f"step {opened.number}", digest) != digest:
            raise ProtocolError(
                f"This party was told something else of step {opened.number} before. Somebody "
                "tells it again, or has put back older files of its records. Nothing was released."
            )

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
