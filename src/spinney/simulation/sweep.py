"""What if the parties differ? The same job dealt out in several ways, and where joining helps.

Parties differ in their classes (the skew of `deal_rows`: at 0 they are alike, at 1 their classes
differ clearly, at 10 most hold few classes), in how many rows they have, or by a column: each has
other wards, or other years. Nothing is written: a sweep is a table to read.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from spinney.errors import SettingError, SpinneyWarning
from spinney.jobs.file import JobFile, SimulationConfig, load_job
from spinney.report.verdicts import HELPED, Joining, joinings, number, word_of
from spinney.report.words import as_json
from spinney.simulation.progress import Stages
from spinney.simulation.run import compare_job

Over = Literal["skew", "size", "by"]


class SweepLine(msgspec.Struct, frozen=True):
    """What joining brought in one deal."""

    deal: float | str  # a skew, how many times the largest party's rows are, or a column
    joining: tuple[Joining, ...]

    @property
    def name(self) -> str:
        """The deal in the table."""
        return self.deal if isinstance(self.deal, str) else f"{self.deal:g}"

    @property
    def helps(self) -> bool:
        """Whether joining clearly helps overall, by the main score."""
        return bool(self.joining) and self.joining[0].overall == HELPED


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
        """Say where joining helps, and where it stops, by the main score."""
        helped = [line.name for line in self.lines if line.helps]
        if not helped:
            return "In none of these deals does joining clearly help."
        if self.over == "by":
            others = [line.name for line in self.lines if not line.helps]
            but = f", but not by {' or '.join(others)}" if others else ""
            return f"Joining clearly helps parties that differ by {' or '.join(helped)}{but}."
        up_to, after = helped[-1], [line.name for line in self.lines]
        rest = after[after.index(up_to) + 1 :]
        what = f"a skew of {up_to}"
        if self.over == "size":
            what = f"parties of which the largest has {up_to} times the rows of the smallest"
        if not rest:
            return f"Joining helps up to {what}, the most that was tried."
        return f"Joining clearly helps up to {what}, and no longer at {rest[0]}."


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
        stages.remark(f"{over.capitalize()} {deal}.")
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
