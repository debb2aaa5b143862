"""The facts of a report, as a frozen value; `report` builds them and shows them."""

from datetime import UTC, datetime
from typing import Any, Self

import msgspec

from spinney.protocols.columns.leakage import LabelLeakage
from spinney.protocols.private_evaluation.measures import PrivateQuality
from spinney.protocols.release_terms import Hardening
from spinney.report.budgets import PartyBudget
from spinney.report.explained import Explanation, Importance
from spinney.report.privacy import PrivacyClaim
from spinney.tables.schema import Schema
from spinney.version import __version__

FORMAT = 1


class PartyQuality(msgspec.Struct, frozen=True):
    """How well the model does at one party."""

    party: str
    rows: str  # which rows: "out-of-bag", "training" or "held-out"
    n_rows: int
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]] = {}  # 95 %, by score; "gain_..." is joint over local


class Subject(msgspec.Struct, frozen=True):
    """What a run was about."""

    job: str
    label: str
    n_rows: int  # of all parties; 0 if nobody knows it
    n_columns: int
    day: str  # when it was written, as 2026-11-18
    scored: str = ""  # of two classes, the one whose F1 is told
    dates: tuple[str, ...] = ()  # columns that count days since 1970-01-01

    @classmethod
    def of(cls, job: str, schema: Schema, n_rows: int = 0, *, dates: tuple[str, ...] = ()) -> Self:
        """Return what a run of today was about."""
        day = datetime.now(tz=UTC).date().isoformat()
        classes = schema.label.classes or ()
        scored = str(classes[1]) if len(classes) == 2 else ""
        return cls(job, schema.label.name, n_rows, len(schema.columns), day, scored, dates)


class RoundTraffic(msgspec.Struct, frozen=True):
    """One round: its question and its traffic in bytes."""

    number: int
    question: str
    bytes_down: dict[str, int]
    bytes_up: dict[str, int]
    seconds: float


class DisclosureRow(msgspec.Struct, frozen=True):
    """A kind of statistic that left the parties."""

    question: str
    statistic: str
    times: int
    bytes_up: dict[str, int]  # by party
    seen_by: str
    protection: str


class Holder(msgspec.Struct, frozen=True):
    """What one party of a vertical job holds of its forest."""

    party: str
    columns: tuple[str, ...]
    n_splits: int
    holds_label: bool
    consents: bool  # to joining its part with the others'


class ReportFacts(msgspec.Struct, frozen=True, dict=True):
    """Quality, traffic, time, disclosures and privacy of one job."""

    protocol: str
    parties: tuple[str, ...]
    n_trees: int
    depth: int
    n_nodes: int
    quality: tuple[PartyQuality, ...]
    traffic: tuple[RoundTraffic, ...]
    seconds: dict[str, float]  # by phase
    disclosures: tuple[DisclosureRow, ...]
    settings: dict[str, Any]
    version: str = __version__
    format: int = FORMAT
    privacy: tuple[PrivacyClaim, ...] = ()  # the guarantees, and against whom they hold
    history: tuple[float, ...] = ()  # evolved trees: the best score of each generation
    label_leakage: LabelLeakage | None = None  # of vertical jobs
    importances: tuple[Importance, ...] = ()
    explanation: Explanation | None = None
    budgets: tuple[PartyBudget, ...] = ()  # of private jobs with local ledgers
    ended: str = ""  # why training stopped early; empty: it did not
    hardened: tuple[str, ...] = ()  # what was done to the model before it left
    attempts: int = 1  # how often the job started; after a failure it resumes
    dropped: tuple[str, ...] = ()  # parties that left, and for which the job no longer waited
    holders: tuple[Holder, ...] = ()  # of vertical jobs
    release: Hardening | None = None  # the agreed hardening of exported models; None: none
    weaker: tuple[str, ...] = ()  # by what the job was weaker than a job file's defaults
    evaluation: PrivateQuality | None = None  # quality that was measured with noise
    evaluation_privacy: tuple[PrivacyClaim, ...] = ()  # what that evaluation cost, on top
    simulated: bool = False  # whether one process held all parties' rows
    adds_up: bool = True  # whether nodes held all rows that their parents sent there
    curves: dict[str, tuple[float, ...]] = {}  # boosted trees: mean loss before each batch
    own_curves: dict[str, tuple[float, ...]] = {}  # the same of each party's training rows
    subject: Subject | None = None
    told_by: str = ""  # the party whose own records this report is from; empty: the coordinator's
    rules: dict[str, str] = {}  # of that party's policy, as they held when the run ended

    @property
    def is_private(self) -> bool:
        """Whether noise was added and charged to the ledgers."""
        return self.settings.get("privacy") is not None

    @property
    def of_simulation(self) -> str:
        """What a reader must know of a simulation; empty: the job was deployed."""
        if not self.simulated:
            return ""
        words = "This was a simulation: one process held the rows of all parties."
        if not self.is_private or not self.quality:
            return words
        return (
            f"{words} The scores by party are exact counts of rows that were held back. No epsilon "
            "covers them: a deployed job shows only what [evaluation] measures with noise."
        )

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.traffic)

    @property
    def bytes_up(self) -> dict[str, int]:
        """Bytes sent by each party."""
        return {p: sum(r.bytes_up.get(p, 0) for r in self.traffic) for p in self.parties}

    @property
    def bytes_down(self) -> dict[str, int]:
        """Bytes received by each party."""
        return {p: sum(r.bytes_down.get(p, 0) for r in self.traffic) for p in self.parties}
