"""A party's progress in a run: in its log, and in a file for `party status`."""

import logging
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, Final

import msgspec

from spinney.errors import StorageError
from spinney.files import write_whole
from spinney.transport.channel import Ask

_LOG: Final = logging.getLogger("spinney.party")
_FILE: Final = "progress.json"
_STALE: Final = 60.0  # seconds without an answer, after which there is no estimate


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What a party has answered so far."""

    job: str
    begun: float  # the present process
    updated: float = 0.0
    questions: int = 0
    question: str = ""
    level: int = 0  # the present step, counted from 1; 0: none
    levels: int = 0  # total; 0: unknown
    step: str = "level"  # what the steps are

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the levels that are done; None if there is none."""
        if not 2 <= self.level <= self.levels:
            return None
        return (self.updated - self.begun) / self.level * (self.levels - self.level)

    def __str__(self) -> str:
        parts = [f"question {self.questions} ({self.question})"]
        if self.level:
            of = f" of {self.levels}" if self.levels else ""
            parts.append(f"{self.step} {self.level}{of}")
        if self.seconds_left is not None and time() - self.updated < _STALE:
            parts.append(f"about {self.seconds_left:.0f} s left")
        return ", ".join(parts)


class Advance:
    """Report every answer."""

    def __init__(self, folder: Path, job: str, levels: int | None, step: str = "level") -> None:
        self._path = folder / _FILE
        self._now = Progress(job=job, begun=time(), levels=levels or 0, step=step)

    def answered(self, ask: Ask[Any]) -> None:
        """Report that a question was answered."""
        level = 0 if ask.step is None else ask.step + 1
        if self._now.levels and level > self._now.levels:  # about the grown trees
            level = 0
        self._now = msgspec.structs.replace(
            self._now,
            updated=time(),
            questions=self._now.questions + 1,
            question=ask.called(),
            level=level,
        )
        with suppress(StorageError):  # for information only
            write_whole(self._path, msgspec.json.encode(self._now))
        _LOG.info("%s: answered %s.", self._now.job, self._now)


def progress_in(run: Path) -> Progress | None:
    """Return a party's progress in a run; None if nothing was answered."""
    try:
        return msgspec.json.decode((run / _FILE).read_bytes(), type=Progress)
    except (OSError, msgspec.MsgspecError):
        return None
