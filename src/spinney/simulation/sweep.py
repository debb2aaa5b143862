"""What if the parties differ? The same job at several skews, and where joining stops helping.

The skew is that of `deal_rows`: at 0 the parties are alike, at 1 their classes differ clearly, at
10 most hold few classes. Nothing is written: a sweep is a table to read.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import msgspec

from spinney.errors import SettingError, SpinneyWarning
from spinney.jobs.file import JobFile, load_job
from spinney.report.verdicts import HELPED, Joining, joinings, number, word_of
from spinney.report.words import as_json
from spinney.simulation.progress import Stages
from spinney.simulation.run import compare_job


class SkewLine(msgspec.Struct, frozen=True):
    """What joining brought at one skew."""

    skew: float
    joining: tuple[Joining, ...]


class Sweep(msgspec.Struct, frozen=True):
    """What joining brought at every skew."""

    name: str
    lines: tuple[SkewLine, ...]

    def to_json(self) -> str:
        """Return the sweep as one JSON document."""
        return as_json(self)

    def __str__(self) -> str:
        heading = f"{self.name}: what if the parties differ?"
        rows = [("skew", "by", "alone", "together", "overall")]
        for line in self.lines:
            if not line.joining:
                rows.append((f"{line.skew:g}", "-", "-", "-", "no party could compare"))
            rows += [
                (f"{line.skew:g}", word_of(one.score), number(one.alone), number(one.together),
                 one.overall)
                for one in line.joining
            ]  # fmt: skip
        widths = [max(len(row[place]) for row in rows) for place in range(5)]
        told = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([heading, "", *(line.rstrip() for line in told), "", self.in_words()])

    def in_words(self) -> str:
        """Say at which skew joining stops helping, by the main score."""
        helped = [
            line.skew for line in self.lines if line.joining and line.joining[0].overall == HELPED
        ]
        if not helped:
            return "At none of these skews does joining clearly help."
        rest = [line.skew for line in self.lines if line.skew > max(helped)]
        if not rest:
            return f"Joining helps up to the largest skew that was tried, {max(helped):g}."
        return (
            f"Joining clearly helps up to a skew of {max(helped):g}, and no longer at "
            f"{min(rest):g}."
        )


def sweep_skews(path: Path, skews: Sequence[float], stages: Stages) -> Sweep:
    """Run a job over one table at several skews."""
    job = load_job(path)
    if job.table is None or job.spec.divides == "columns":
        raise SettingError(
            "A sweep deals out one table in several ways, so the job needs [table] and a protocol "
            "over rows. This job has a table per party."
        )
    lines = []
    for place, skew in enumerate(sorted(set(skews))):
        stages.remark(f"Skew {skew:g}.")
        with warnings.catch_warnings():
            if place:  # the first deal has told them
                warnings.simplefilter("ignore", SpinneyWarning)
            found = compare_job(_skewed(job, skew), stages)
        lines.append(SkewLine(skew, joinings(found.report().quality)))
    return Sweep(job.job.name, tuple(lines))


def _skewed(job: JobFile, skew: float) -> JobFile:
    simulation = msgspec.structs.replace(
        job.simulation, skew=skew or None, stratified=None, sizes=None, by=None
    )
    return msgspec.structs.replace(job, simulation=simulation)
