"""A party's notebook: what it must not lose while trees grow, on its own disk."""

import os
from contextlib import suppress
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Final

from spinney.errors import ProtocolError
from spinney.files import replace_file
from spinney.trees import storage
from spinney.trees.own_columns import OwnSplits

RUN: Final = "vertical_forest"  # what belongs to a whole run is kept under this name
_KIND = "own cuts of a level"
ONCE = (
    "This party already gave a different answer to this question. Nothing was released; start the "
    "job again under another name."
)


class Notebook:
    """A party's own cuts, level by level; if it has a folder, it outlives the process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: dict[tuple[str, int], OwnSplits] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def keep(self, job: str, depth: int, own: OwnSplits) -> None:
        """Store the cuts of a level."""
        self._kept[job, depth] = own
        if self._folder is not None:
            arrays = {field.name: getattr(own, field.name) for field in fields(OwnSplits)}
            storage.write_file(self._path(job, depth), _KIND, {"job": job}, arrays)

    def cuts(self, job: str, depth: int) -> OwnSplits:
        """Return the cuts of a level; empty if the party made none there."""
        kept = self._kept.get((job, depth))
        if kept is None and self._folder is not None and self._path(job, depth).exists():
            _, arrays = storage.read_file(self._path(job, depth), _KIND)
            kept = OwnSplits(**arrays)
        return kept or OwnSplits.none()

    def keep_note(self, job: str, name: str, note: bytes) -> None:
        """Store something else, for example a key; only its owner may read the file."""
        self._notes[job, name] = note
        if self._folder is not None:
            replace_file(self._note_path(job, name), note, mode=0o600)

    def note(self, job: str, name: str) -> bytes | None:
        """Return what was stored under a name."""
        kept = self._notes.get((job, name))
        if kept is None and self._folder is not None:
            path = self._note_path(job, name)
            kept = path.read_bytes() if path.exists() else None
        return kept

    def erase_note(self, job: str, name: str) -> None:
        """Forget a note; its file is overwritten before it is removed."""
        self._notes.pop((job, name), None)
        if self._folder is None:
            return
        path = self._note_path(job, name)
        with suppress(FileNotFoundError):
            with path.open("r+b") as file:
                file.write(bytes(path.stat().st_size))
                os.fsync(file.fileno())
            path.unlink()

    def settle(self, job: str, name: str, fact: bytes, refusal: str = ONCE) -> None:
        """Store the digest of something that happens once; raise if it happens differently.

        Asking about the same level repeatedly, in different ways, would reveal something through
        the differences between answers.
        """
        digest = sha256(fact).digest()
        known = self.note(job, name)
        if known is None:
            self.keep_note(job, name, digest)
        elif known != digest:
            raise ProtocolError(refusal)

    def _note_path(self, job: str, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{job[:32]}.{name}"

    def _path(self, job: str, depth: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{job[:32]}.{depth}.cuts"
