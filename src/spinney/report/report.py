"""What happened in a job, as a frozen value; printing it is the normal way to read it."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from spinney import __version__
from spinney.errors import StorageError
from spinney.protocols.leakage import LabelLeakage
from spinney.protocols.training import Trained
from spinney.report.privacy import PrivacyClaim, is_masked, privacy_of
from spinney.report.run_folder import REPORT, file_in
from spinney.tables.schema import listed
from spinney.transport.channel import Round
from spinney.trees.storage import write_whole

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
    history: tuple[float, ...] = ()  # of evolved models: the best score of each generation
    label_leakage: LabelLeakage | None = None  # of vertical jobs

    @classmethod
    def of(cls, training: Trained, *, label_leakage: LabelLeakage | None = None) -> "Report":
        """Return the report of a training; of a vertical one, with what its labels' party found."""
        shape = training.shape
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
            shape.protocol,
            training.parties,
            shape.n_trees,
            shape.depth,
            shape.n_nodes,
            tuple(quality),
            tuple(traffic),
            {phase: round(seconds, 6) for phase, seconds in training.seconds.items()},
            _disclosures(training.rounds),
            dict(training.settings),
            privacy=privacy_of(training),
            history=training.history,
            label_leakage=label_leakage,
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
        return {p: sum(r.bytes_up.get(p, 0) for r in self.traffic) for p in self.parties}

    @property
    def bytes_down(self) -> dict[str, int]:
        """What each party received."""
        return {p: sum(r.bytes_down.get(p, 0) for r in self.traffic) for p in self.parties}

    def __str__(self) -> str:
        from spinney.report.render import as_text  # noqa: PLC0415  rich is loaded when printing

        return as_text(self)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON, whole or not at all."""
        write_whole(path, self.to_json().encode())


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a report that was saved, or that of a run's folder."""
    source = file_in(path, REPORT)
    try:
        data = source.read_bytes()
        _require_format(msgspec.json.decode(data, type=_Head), str(source))
        report = msgspec.json.decode(data, type=Report)
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
    _require_known_parties(report, str(source))
    return report


class _Head(msgspec.Struct, frozen=True):
    """What a report of any format begins with."""

    format: int
    version: str = "that wrote it"


def _require_format(head: _Head, name: str) -> None:
    """Raise if a report is of another format, whatever else is in it."""
    if head.format != FORMAT:
        raise StorageError(
            f"{name!r} has report format {head.format}; this Spinney ({__version__}) reads format "
            f"{FORMAT}. Install Spinney {head.version} or a newer one."
        )


def _require_known_parties(report: Report, name: str) -> None:
    """Raise if a report tells of parties that it does not name."""
    met = {party for r in report.traffic for party in (*r.bytes_up, *r.bytes_down)}
    met.update(party for entry in report.disclosures for party in entry.bytes_up)
    unknown = sorted(met - set(report.parties))
    if unknown:
        raise StorageError(
            f"{name!r} is not a sound report: it tells of {listed(map(repr, unknown))}, who is "
            "not among its parties. Use the file as Spinney wrote it."
        )


def _known(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores that there are; a party with one row has no R2."""
    return {name: score for name, score in scores.items() if math.isfinite(score)}


def _seen_by(r: Round) -> str:
    """Say who sees the replies, and whether only their sum."""
    if r.verb == "ask":
        return "the coordinator, party by party"
    return "the coordinator, as a sum" if is_masked(r) else "the coordinator, summed, not masked"


def _disclosures(rounds: Sequence[Round]) -> tuple[Disclosure, ...]:
    """Return one entry for each kind of question, in the order of first asking."""
    found: dict[str, Disclosure] = {}
    for r in rounds:
        before = found.get(r.question)
        up = dict(r.bytes_up)
        if before is not None:
            parties = dict.fromkeys((*before.bytes_up, *up))  # not every round asks them all
            up = {p: before.bytes_up.get(p, 0) + up.get(p, 0) for p in parties}
        found[r.question] = Disclosure(
            r.question,
            r.reveals,
            (before.times if before else 0) + 1,
            up,
            _seen_by(r),
            r.protection,
        )
    return tuple(found.values())
