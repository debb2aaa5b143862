"""A party's memory of randomised labels: drawn once per record, kept encrypted, erased with it.

If a label were randomised again for every job, the noise would average out. So the first answer is
kept for the lifetime of the record and reused (memoisation of randomised response). For each
scheme the memory keeps the record's id (a hash), its label, to detect a change, and the answer. On
disk all of it is one AES-256-GCM message; the party holds the key in a separate file. Files are
written atomically; what was forgotten is in no later file.

`erasures` counts how often records were forgotten. A record that returns after that is drawn
again, and must be paid for again: charges for draws are named by this number.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import Final, Self

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from spinney.errors import StorageError
from spinney.files import replace_file
from spinney.privacy.entropy import secret_bytes
from spinney.typing import Bools, Integers, Keys

_LOG: Final = logging.getLogger("spinney.party")  # stays at the party
_CHANGED: Final = (
    "The labels of %d records have changed since they were randomised; their first answers are "
    "given again. To have them randomised and paid for again, erase the records "
    "(LabelMemory.forget). Rows without an id are identified by their cells: name a row_id if "
    "cells repeat."
)
_MAGIC: Final = b"SPINNEY labels 1\n"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32


@dataclass(frozen=True)
class Answers:
    """The answers of records under one scheme, by ascending id."""

    ids: Keys
    labels: NDArray[np.int32]
    words: Integers  # (n_records, n_words)

    def places(self, ids: Keys) -> tuple[Integers, Bools]:
        """Return the position of each id, and whether it is present."""
        place = np.searchsorted(self.ids, ids)
        found = np.zeros(ids.size, np.bool_)
        inside = place < self.ids.size
        found[inside] = self.ids[place[inside]] == ids[inside]
        return place, found

    def part(self, kept: Bools) -> "Answers":
        """Return the answers of some records."""
        return Answers(self.ids[kept], self.labels[kept], self.words[kept])


class _Stored(msgspec.Struct, frozen=True):
    """One scheme's answers as bytes."""

    n_words: int
    ids: bytes
    labels: bytes
    words: bytes


class _File(msgspec.Struct, frozen=True):
    """The whole content of a memory."""

    erasures: int
    schemes: dict[str, _Stored]


class LabelMemory:
    """The answers of one party's records; `open` keeps them on disk."""

    def __init__(self) -> None:
        self.erasures = 0
        self._answers: dict[str, Answers] = {}
        self._path: Path | None = None
        self._key = b""
        self._lock = RLock()

    @classmethod
    def open(cls, path: str | os.PathLike[str], key_file: str | os.PathLike[str]) -> Self:
        """Return the memory at `path`, encrypted with the key in `key_file`; make absent files.

        Keep the key in a different place from the file, where only the party can read it.
        """
        memory = cls()
        memory._path = Path(path)
        memory._key = _key_of(Path(key_file), may_make=not memory._path.exists())
        if memory._path.exists():
            memory._read()
        return memory

    def n_known(self, scheme: str) -> int:
        """Return how many records have answered under a scheme."""
        with self._lock:
            held = self._answers.get(scheme)
            return 0 if held is None else int(held.ids.size)

    def recall(self, scheme: str, ids: Keys, labels: Integers) -> tuple[Integers | None, Bools]:
        """Return the answers of known records, in the order of `ids`, and which are known.

        A record whose label has changed keeps its first answer. A second one would reveal what the
        first one hides, and a refusal would reveal that the label has changed.
        """
        with self._lock:
            held = self._answers.get(scheme)
            if held is None:
                return None, np.zeros(ids.size, np.bool_)
            place, known = held.places(ids)
            changed = int((held.labels[place[known]] != labels[known]).sum())
            if changed:
                _LOG.warning(_CHANGED, changed)
            words = np.zeros((ids.size, held.words.shape[1]), np.int64)
            words[known] = held.words[place[known]]
            return words, known

    def remember(self, scheme: str, ids: Keys, labels: Integers, words: Integers) -> None:
        """Keep the answers of records that are not known yet."""
        with self._lock:
            new = Answers(ids, labels.astype(np.int32), words)
            held = self._answers.get(scheme)
            if held is not None:
                new = Answers(
                    np.concatenate([held.ids, new.ids]),
                    np.concatenate([held.labels, new.labels]),
                    np.concatenate([held.words, new.words]),
                )
            order = np.argsort(new.ids, kind="stable")
            self._answers[scheme] = replace(
                new, ids=new.ids[order], labels=new.labels[order], words=new.words[order]
            )
            self._write()

    def forget(self, ids: Keys) -> int:
        """Erase all answers of these records; return how many answers were erased."""
        with self._lock:
            return self._keep(
                {name: ~np.isin(held.ids, ids) for name, held in self._answers.items()}
            )

    def forget_all_but(self, ids: Keys) -> int:
        """Erase the answers of all other records, which have left the table."""
        with self._lock:
            return self._keep(
                {name: np.isin(held.ids, ids) for name, held in self._answers.items()}
            )

    def _keep(self, kept: Mapping[str, Bools]) -> int:
        n_erased = sum(int((~chosen).sum()) for chosen in kept.values())
        if n_erased:
            self._answers = {name: held.part(kept[name]) for name, held in self._answers.items()}
            self.erasures += 1
            self._write()
        return n_erased

    def _read(self) -> None:
        assert self._path is not None
        data = self._path.read_bytes()
        begin = len(_MAGIC) + _NONCE_BYTES
        if data[: len(_MAGIC)] != _MAGIC or len(data) < begin:
            raise StorageError(
                "The file of randomised labels is not one.", local=f"Path: {self._path}"
            )
        try:
            text = AESGCM(self._key).decrypt(data[len(_MAGIC) : begin], data[begin:], _MAGIC)
        except InvalidTag:
            raise StorageError(
                "The file of randomised labels cannot be opened with this key, or was changed. Use "
                "the key file that it was created with.",
                local=f"Path: {self._path}",
            ) from None
        file = msgspec.msgpack.decode(text, type=_File)
        self.erasures = file.erasures
        self._answers = {name: _answers(stored) for name, stored in file.schemes.items()}

    def _write(self) -> None:
        if self._path is None:
            return
        schemes = {
            name: _Stored(
                held.words.shape[1],
                held.ids.astype("<u8").tobytes(),
                held.labels.astype("<i4").tobytes(),
                held.words.astype("<i8").tobytes(),
            )
            for name, held in self._answers.items()
        }
        text = msgspec.msgpack.encode(_File(self.erasures, schemes))
        nonce = secret_bytes(_NONCE_BYTES)
        whole = _MAGIC + nonce + AESGCM(self._key).encrypt(nonce, text, _MAGIC)
        _write_privately(self._path, whole)


def _answers(stored: _Stored) -> Answers:
    words = np.frombuffer(stored.words, "<i8").reshape(-1, stored.n_words)
    ids = np.frombuffer(stored.ids, "<u8").astype(np.uint64)
    return Answers(ids, np.frombuffer(stored.labels, "<i4").astype(np.int32), words)


def _key_of(path: Path, *, may_make: bool) -> bytes:
    """Return the key in a file; make a new one only if nothing was encrypted with an older one."""
    with suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise StorageError(
                f"The key of the randomised labels must hold {_KEY_BYTES} bytes.",
                local=f"Path: {path}",
            )
        return key
    if not may_make:
        raise StorageError(
            "The key file of the randomised labels is missing, but labels encrypted with it "
            "exist. Restore it; without it they cannot be read.",
            local=f"Path: {path}",
        )
    key = secret_bytes(_KEY_BYTES)
    _write_privately(path, key)
    return key


def _write_privately(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, and sync it to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data, mode=0o600)
