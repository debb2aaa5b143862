"""The result of a command, for people and for machines."""

from pathlib import Path

import msgspec

from spinney.report.file_names import MODEL, PAGE, REPORT
from spinney.report.privacy import in_words
from spinney.report.report import Report
from spinney.report.verdicts import Joining, below_majority, beside_joint
from spinney.report.words import as_json
from spinney.simulation.comparison import MODELS, Comparison, PartyComparison, Scores
from spinney.version import __version__


class Outcome(msgspec.Struct, frozen=True):
    """One run: its forests compared, its cost, and where its files are."""

    name: str
    task: str
    n_trees: int
    depth: int
    parties: tuple[PartyComparison, ...]
    mean: dict[str, Scores]  # of `MODELS`, over parties with all of them
    helped: dict[str, tuple[int, int]]  # by score: at how many parties, of how many compared
    identical_to_pooled: bool | None  # None: not compared
    expects_identical: bool
    rounds: int
    bytes_up: dict[str, int]
    bytes_down: dict[str, int]
    seconds: float
    model: str
    report: str
    page: str
    version: str = __version__
    privacy: tuple[str, ...] = ()  # the guarantees of private jobs
    is_personal: bool = False  # whether every party has its own tree
    shares_rows: bool = False  # whether all parties have the same rows
    protocol: str = ""
    measured: str = ""  # the quality that was measured with noise, in short
    joining: tuple[Joining, ...] = ()  # what it brought, by each score
    scored: str = ""  # of two classes, the one whose F1 is told
    below: tuple[str, ...] = ()  # parties at which the model is below their majority share
    beside: str = ""  # how personal trees compare with joint models

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of the scores, the main one first."""
        return tuple(self.helped)

    def to_json(self) -> str:
        """Return the outcome as one JSON document."""
        return as_json(self)


def outcome_of(name: str, comparison: Comparison, report: Report, folder: Path) -> Outcome:
    """Return the outcome of a comparison."""
    names = comparison.score_names
    means = {
        model: {
            score: mean for score in names if (mean := comparison.mean(model, score)) is not None
        }
        for model in MODELS
    }
    is_personal = bool(comparison.training.model.owners)
    return Outcome(
        name,
        str(report.settings["task"]),
        report.n_trees,
        report.depth,
        comparison.parties,
        {model: scores for model, scores in means.items() if scores},
        {score: comparison.helped(score) for score in names},
        comparison.is_pooled,
        comparison.expects_pooled,
        report.rounds,
        report.bytes_up,
        report.bytes_down,
        round(sum(report.seconds.values()), 6),
        str(folder / MODEL),
        str(folder / REPORT),
        str(folder / PAGE),
        privacy=tuple(in_words(report.parties, report.privacy)) if report.is_private else (),
        is_personal=is_personal,
        shares_rows=comparison.shares_rows,
        protocol=report.protocol,
        measured="" if report.evaluation is None else report.evaluation.in_short(),
        joining=report.joining,
        scored="" if report.subject is None else report.subject.scored,
        below=tuple(below_majority(report.quality)),
        beside=beside_joint(report.quality),
    )
