"""What if the parties differ? The same job dealt out in several ways, and where joining helps.

Parties differ in their classes (the skew of `deal_rows`: at 0 they are alike, at 1 their classes
differ clearly, at 10 most hold few classes), in how many rows they have, or by a column: each has
other wards, or other years. Nothing is written: a sweep is a table to read.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from spinney.errors import SettingError, SpinneyWarning
from spinney.jobs.file import JobFile, SimulationConfig, load_job
from spinney.report.verdicts import HELPED, HURT, Joining, joinings, number, word_of
from spinney.report.words import as_json
from spinney.simulation.progress import Stages
from spinney.simulation.run import compare_job

Over = Literal["skew", "size", "by"]
_UP_TO: Final = {
    "skew": "a skew of {}",
    "size": "a largest party with {} times the smallest's rows",
}
_WHERE: Final = {
    "skew": "at a skew of {}",
    "size": "where the largest party has {} times the smallest's rows",
    "by": "parties that differ by {}",
}


class SweepLine(msgspec.Struct, frozen=True):
    """What joining brought in one deal."""

    deal: float | str  # a skew, how many times the largest party's rows are, or a column
    joining: tuple[Joining, ...]

    @property
    def name(self) -> str:
        """The deal in the table."""
        return self.deal if isinstance(self.deal, str) else f"{self.deal:g}"

    def overall(self, score: str) -> str:
        """What joining did overall by a score; empty if no party could compare."""
        return next((one.overall for one in self.joining if one.score == score), "")


class Sweep(msgspec.Struct, frozen=True):
    """What joining brought in every deal."""

    name: str
    over: Over
    lines: tuple[SweepLine, ...]

    def to_json(self) -> str:
        """Return the sweep as one JSON document."""
        return as_json(self)

    def __str__(self) -> str:
        heading = f"{self.name}: what if the parties differ?"
        rows: list[tuple[str, ...]] = [(self.over, "by", "alone", "together", "overall")]
        for line in self.lines:
            if not line.joining:
                rows.append((line.name, "-", "-", "-", "no party could compare"))
            rows += [
                (line.name, word_of(one.score), number(one.alone), number(one.together),
                 one.overall)
                for one in line.joining
            ]  # fmt: skip
        widths = [max(len(row[place]) for row in rows) for place in range(5)]
        told = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([heading, "", *(line.rstrip() for line in told), "", self.in_words()])

    def in_words(self) -> str:
        """Say where joining helps and where it stops, a sentence for each score."""
        scores = dict.fromkeys(one.score for line in self.lines for one in line.joining)
        if not scores:
            return "No party could compare in any of these deals."
        return "\n".join(self._by_score(score) for score in scores)

    def _by_score(self, score: str) -> str:
        found = {line.name: line.overall(score) for line in self.lines}
        helped = [name for name, what in found.items() if what == HELPED]
        hurt = [name for name, what in found.items() if what == HURT]
        but = f"; it clearly hurts {self._where(hurt)}" if hurt else ""
        return f"By {word_of(score)}, joining clearly helps {self._helps(helped)}{but}."

    def _helps(self, helped: list[str]) -> str:
        names = [line.name for line in self.lines]
        others = [name for name in names if name not in helped]
        if not helped or not others:
            return "in all of these deals" if helped else "in none of these deals"
        if self.over != "by" and helped == names[: len(helped)]:
            return f"up to {_UP_TO[self.over].format(helped[-1])}, and no longer at {others[0]}"
        return f"{self._where(helped)}, but not {self._where(others)}"

    def _where(self, names: list[str]) -> str:
        return _WHERE[self.over].format(" or ".join(names))


def sweep_deals(path: Path, over: Over, deals: Sequence[float | str], stages: Stages) -> Sweep:
    """Run a job over one table that is dealt out in several ways."""
    job = load_job(path)
    if job.table is None or job.spec.divides == "columns":
        raise SettingError(
            "A sweep deals out one table in several ways, so the job needs [table] and a protocol "
            "over rows. This job has a table per party."
        )
    lines = []
    for place, deal in enumerate(deals):
        stages.remark(f"{over.capitalize()} {SweepLine(deal, ()).name}.")
        with warnings.catch_warnings():
            if place:  # the first deal has told them
                warnings.simplefilter("ignore", SpinneyWarning)
            found = compare_job(_dealt(job, over, deal), stages)
        lines.append(SweepLine(deal, joinings(found.report().quality)))
    return Sweep(job.job.name, over, tuple(lines))


def _dealt(job: JobFile, over: Over, deal: float | str) -> JobFile:
    """Return the job with another deal; how many parties there are, and the draws, stay."""
    plain = msgspec.structs.replace(
        job.simulation, skew=None, stratified=None, sizes=None, by=None, n_parties=job.n_parties
    )
    return msgspec.structs.replace(job, simulation=_changed(plain, job.n_parties, over, deal))


def _changed(
    simulation: SimulationConfig, n_parties: int, over: Over, deal: float | str
) -> SimulationConfig:
    if isinstance(deal, str):
        return msgspec.structs.replace(simulation, by=deal)
    if over == "skew":
        return msgspec.structs.replace(simulation, skew=deal or None)
    steps = max(n_parties - 1, 1)
    sizes = tuple(deal ** (place / steps) for place in range(n_parties))
    return msgspec.structs.replace(simulation, sizes=sizes)
