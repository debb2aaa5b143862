"""A channel that writes every finished round to disk and replays the rounds after a crash.

When training is restarted it asks the same questions again, since each follows from the earlier
replies. So `train` does not need to know about the journal: it runs from the beginning, and
finished rounds cost no messages. Each round is a file that is written atomically.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from spinney.errors import ProtocolError, StorageError
from spinney.files import replace_file
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel, Reply, Round, Summand, Vector


@dataclass(frozen=True)
class Finished:
    """One finished round: the digest of its question, and its result."""

    digest: bytes
    names: tuple[str, ...]  # the parties whose replies follow; empty for a sum
    replies: tuple[bytes, ...]
    round: Round


@dataclass(frozen=True)
class Sums:
    """The integers of a sum, each vector in as few bytes as it needs."""

    types: tuple[str, ...]
    vectors: tuple[Vector, ...]

    @classmethod
    def of(cls, vectors: tuple[Vector, ...]) -> "Sums":
        """Return vectors in their stored form."""
        return cls(tuple(v.dtype.str for v in vectors), tuple(map(_narrow, vectors)))

    def wide(self) -> tuple[Vector, ...]:
        """Return the original vectors."""
        pairs = zip(self.vectors, self.types, strict=True)
        return tuple(vector.astype(np.dtype(kind)) for vector, kind in pairs)


class Journal:
    """The finished rounds of a run: a folder with one file per round."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return sum(1 for path in self._folder.iterdir() if path.suffix == ".round")

    def read(self, number: int) -> Finished | None:
        """Return a finished round; None if it is not finished."""
        try:
            data = self._path(number).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(
                f"The coordinator cannot read round {number}: {error.strerror or error}. "
                f"Mend {str(self._path(number))!r} and resume the job."
            ) from None
        return codec.decode(data, Finished)

    def rounds(self) -> tuple[Round, ...]:
        """Return all finished rounds, without their results."""
        numbers = range(1, len(self) + 1)
        return tuple(found.round for number in numbers if (found := self.read(number)) is not None)

    def write(self, number: int, finished: Finished) -> None:
        """Write a finished round; it is on disk when this returns."""
        try:
            replace_file(self._path(number), codec.encode(finished))
        except OSError as error:
            raise StorageError(
                f"The coordinator cannot store round {number}: {error.strerror or error}. "
                "Make room and resume the job."
            ) from None

    def clear(self) -> None:
        """Remove all rounds; the run is over."""
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.round"


class Journaled(Channel):
    """A channel that stores its finished rounds."""

    def __init__(self, inner: Channel, journal: Journal) -> None:
        self._inner = inner
        self._journal = journal
        self.parties = inner.parties
        self.rounds: list[Round] = []
        self.is_masked = inner.is_masked
        self._number = 0  # number of files; several may be one round, see `ask_each`

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply."""
        found, digest = self._found(ask, "ask")
        if found is not None:
            return {
                name: codec.decode(data, ask.reply_type)
                for name, data in zip(found.names, found.replies, strict=True)
            }
        replies = self._inner.ask(ask, to=to, quorum=quorum)
        self._keep(digest, tuple(replies), tuple(map(codec.encode, replies.values())))
        return replies

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
        found, digest = self._found(ask, "sum")
        if found is not None:
            total: Summand = ask.reply_type.of_vectors(codec.decode(found.replies[0], Sums).wide())
            return total
        total = self._inner.sum(ask, quorum=quorum)
        self._keep(digest, (), (codec.encode(Sums.of(total.vectors())),))
        return total

    def _found(self, ask: Ask[Any], verb: str) -> tuple[Finished | None, bytes]:
        digest = sha256(verb.encode() + codec.encode(ask)).digest()
        self._number += 1
        found = self._journal.read(self._number)
        if found is not None:
            if found.digest != digest:
                raise ProtocolError(
                    f"Round {self._number} of this run asked a different question before. "
                    "Spinney or the job may have changed. Start the job again as a new run."
                )
            self.rounds.append(found.round)
        return found, digest

    def _keep(self, digest: bytes, names: tuple[str, ...], replies: tuple[bytes, ...]) -> None:
        finished = Finished(digest, names, replies, self._inner.rounds[-1])
        self._journal.write(self._number, finished)
        self.rounds.append(finished.round)


def _narrow(vector: Vector) -> Vector:
    low, high = vector.min(initial=0), vector.max(initial=0)
    return vector.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)))
