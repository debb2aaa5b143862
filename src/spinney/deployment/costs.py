"""The cost of a job before it starts: bounds on rounds and bytes, and an estimate of the time.

The protocol states the bounds (`Spec.bound`); masks and sending the model add to them.
"""

from typing import Final

import msgspec

from spinney.deployment.job import JOB_LIMIT, Agreed
from spinney.jobs.sections import ColumnConfig
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.spec import JobSize
from spinney.report.words import some

_NO_NOISE: Final = "no noise"
_UNKNOWN_COLUMNS: Final = 10  # assumed if the parties' files list the columns
_UNKNOWN_CATEGORIES: Final = 255  # assumed if the parties' files list a column's categories
_NAME: Final = 256  # bytes of a category's name
_ROUNDS_A_KEY: Final = 32  # the number of sums per set of mask keys
_SECONDS_A_ROUND: Final = 0.1
_SECONDS_TO_START: Final = 5.0
_BYTES_A_SECOND: Final = 10e6


class JobCost(msgspec.Struct, frozen=True):
    """The most a job may cost each party if no party leaves; None: its settings set no limit."""

    epsilon: str  # "no noise" if the job is not private; "0.1 per count" for epsilon_per_count
    rounds: int | None
    bytes: int | None
    seconds: float | None
    bytes_a_row: int = 0  # in addition, per row over all parties
    usual_bytes: int | None = None  # if no node must draw on; None: there is no such difference
    assumes: str = ""  # what the bounds assume, because the job does not say it

    def __str__(self) -> str:
        noise = self.epsilon if self.epsilon == _NO_NOISE else f"epsilon {self.epsilon}"
        if self.rounds is None or self.bytes is None:
            return f"{noise}; rounds and bytes have no limit, because max_depth is not set"
        rows = f" and {self.bytes_a_row / 1e3:.1f} kB for each row" if self.bytes_a_row else ""
        time = (
            "" if self.seconds is None else f"; about {self.seconds:.0f} s, counting not included"
        )
        usual = (
            ""
            if self.usual_bytes is None
            else f" (at most {self.usual_bytes / 1e6:.1f} MB unless nodes must draw more columns)"
        )
        assumes = f", assuming {self.assumes}" if self.assumes else ""
        return (
            f"{noise}; at most {some(self.rounds, 'round', 'rounds')} and {self.bytes / 1e6:.1f} "
            f"MB{rows}{usual} if no party leaves{assumes}{time}"
        )


def cost_of(job: Agreed) -> JobCost:
    """Return a job's cost, computed from public facts only."""
    settings = job.protocol_settings()
    epsilon = _NO_NOISE if settings.privacy is None else _epsilon(settings.privacy)
    job_size = size_of(job)
    bound = job.spec.bound(settings, job_size)
    if bound.rounds is None or bound.bytes is None:
        return JobCost(epsilon, None, None, None)
    rounds = bound.rounds + 1  # the finished model
    n_unknown = sum(1 for n in job_size.categories if n is None)
    schema = len(msgspec.json.encode(job.schema)) + n_unknown * _UNKNOWN_CATEGORIES * _NAME
    others = 4 * schema + JOB_LIMIT  # a party's own, the shared one, the model's
    if job.is_masked:  # keys, letters, answers, shares
        rounds = 2 * rounds + 2 * (1 + rounds // _ROUNDS_A_KEY) + 2
        others += rounds * 1024 * len(job.parties) ** 2
    most, usual = (  # the model is no larger than the replies
        None if size is None else 2 * size + others for size in (bound.bytes, bound.usual_bytes)
    )
    moved = (most or 0) if usual is None else usual
    seconds = _SECONDS_TO_START + rounds * _SECONDS_A_ROUND + moved / _BYTES_A_SECOND
    usual = None if usual == most else usual
    return JobCost(epsilon, rounds, most, seconds, bound.bytes_a_row, usual, _assumed(job))


def _epsilon(privacy: PrivacySettings) -> str:
    if privacy.price is None:
        return f"{float(privacy.amount):g} per count"
    return f"{float(privacy.price):g}"


def size_of(job: Agreed) -> JobSize:
    """Return the public facts from which a job's bounds follow."""
    declared = job.schema.columns
    columns: tuple[int | None, ...] = (None,) * (len(declared or ()) or _UNKNOWN_COLUMNS)
    if isinstance(declared, dict):
        columns = tuple(_categories(column) for column in declared.values())
    return JobSize(len(job.parties), len(job.schema.classes or ()), columns)


def _assumed(job: Agreed) -> str:
    """Return what the bounds assume about the parties' tables; empty if the job says it all."""
    declared = job.schema.columns
    if not declared:
        return f"{_UNKNOWN_COLUMNS} columns with at most {_UNKNOWN_CATEGORIES} categories each"
    if isinstance(declared, dict) and None not in map(_categories, declared.values()):
        return ""
    return f"at most {_UNKNOWN_CATEGORIES} categories in columns whose categories are not listed"


def _categories(column: ColumnConfig) -> int | None:
    if column.kind != "category":
        return 0
    return None if column.values is None else len(column.values)
