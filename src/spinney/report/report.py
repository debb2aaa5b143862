"""What happened in a job, as a frozen value; printing it is the normal way to read it."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from spinney import __version__
from spinney.errors import StorageError
from spinney.protocols.training import Training
from spinney.report.privacy import PrivacyClaim, privacy_of
from spinney.transport.channel import Round

FORMAT = 1


class PartyQuality(msgspec.Struct, frozen=True):
    """How well the model does at one party."""

    party: str
    rows: str  # which rows: "out-of-bag", "training" or "held-out"
    n_rows: int
    scores: dict[str, float]


class RoundTraffic(msgspec.Struct, frozen=True):
    """One question and what it moved, in bytes."""

    number: int
    question: str
    bytes_down: dict[str, int]
    bytes_up: dict[str, int]
    seconds: float


class Disclosure(msgspec.Struct, frozen=True):
    """A kind of statistic that left the parties."""

    question: str
    statistic: str
    times: int
    bytes_up: dict[str, int]  # by party
    seen_by: str
    protection: str


class Report(msgspec.Struct, frozen=True):
    """Quality, traffic, time, disclosures and privacy of one job."""

    protocol: str
    parties: tuple[str, ...]
    n_trees: int
    depth: int
    n_nodes: int
    quality: tuple[PartyQuality, ...]
    traffic: tuple[RoundTraffic, ...]
    seconds: dict[str, float]  # by phase
    disclosures: tuple[Disclosure, ...]
    settings: dict[str, Any]
    version: str = __version__
    format: int = FORMAT
    privacy: tuple[PrivacyClaim, ...] = ()  # what is promised to whom

    @classmethod
    def of(cls, training: Training) -> "Report":
        """Return the report of a training."""
        forest = training.model.forest
        quality = (
            PartyQuality(party, found.rows, found.n_rows, _known(found.scores))
            for party, found in training.quality.items()
        )
        traffic = (
            RoundTraffic(
                r.number, r.question, dict(r.bytes_down), dict(r.bytes_up), round(r.seconds, 6)
            )
            for r in training.rounds
        )
        return cls(
            training.model.protocol,
            training.parties,
            forest.n_trees,
            int(forest.depths.max()),
            forest.n_nodes,
            tuple(quality),
            tuple(traffic),
            {phase: round(seconds, 6) for phase, seconds in training.seconds.items()},
            _disclosures(training.rounds),
            dict(training.settings),
            privacy=privacy_of(training),
        )

    @property
    def is_private(self) -> bool:
        """Whether noise was added, and paid for."""
        return self.settings.get("privacy") is not None

    @property
    def rounds(self) -> int:
        """How many questions were asked."""
        return len(self.traffic)

    @property
    def bytes_up(self) -> dict[str, int]:
        """What each party sent."""
        return {p: sum(r.bytes_up[p] for r in self.traffic) for p in self.parties}

    @property
    def bytes_down(self) -> dict[str, int]:
        """What each party received."""
        return {p: sum(r.bytes_down[p] for r in self.traffic) for p in self.parties}

    def __str__(self) -> str:
        from spinney.report.render import as_text  # noqa: PLC0415  rich is loaded when printing

        return as_text(self)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON, whole or not at all."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.part")
        try:
            beside.write_text(self.to_json(), encoding="utf-8")
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StorageError(
                f"Cannot write {str(target)!r}: {error.strerror or error}. "
                "Choose a folder that exists and that you may write to."
            ) from None


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a report that was saved, or that of a run's folder."""
    source = Path(path)
    source = source / "report.json" if source.is_dir() else source
    try:
        report = msgspec.json.decode(source.read_bytes(), type=Report)
    except OSError as error:
        raise StorageError(
            f"Cannot read {str(source)!r}: {error.strerror or error}. Check the path."
        ) from None
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"{str(source)!r} is not a report that this Spinney can read. "
            "Give the path of a report.json that Spinney wrote.",
            local=str(error),
        ) from None
    if report.format != FORMAT:
        raise StorageError(
            f"{str(source)!r} has format {report.format}; this Spinney reads format {FORMAT}. "
            "Install the Spinney that wrote it, or a newer one."
        )
    return report


def _known(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores that there are; a party with one row has no R2."""
    return {name: score for name, score in scores.items() if math.isfinite(score)}


def _disclosures(rounds: Sequence[Round]) -> tuple[Disclosure, ...]:
    """Return one entry for each kind of question, in the order of first asking."""
    found: dict[str, Disclosure] = {}
    for r in rounds:
        before = found.get(r.question)
        up = dict(r.bytes_up)
        if before is not None:
            up = {party: before.bytes_up[party] + n for party, n in up.items()}
        found[r.question] = Disclosure(
            r.question,
            r.reveals,
            (before.times if before else 0) + 1,
            up,
            "the coordinator, party by party" if r.verb == "ask" else "the coordinator, summed",
            r.protection,
        )
    return tuple(found.values())
