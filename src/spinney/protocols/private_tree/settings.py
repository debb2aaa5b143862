"""The settings of a private tree, and the choice of a method from public facts."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, cast

from spinney.errors import SettingError
from spinney.protocols.accounts.settings import job_privacy
from spinney.protocols.settings import (
    PrivacySettings,
    Task,
    as_text,
    fraction_of,
    require_choice,
    require_int,
    require_real,
)
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.trees.dtypes import MAX_BINS

Method = Literal["auto", "histograms", "save_budget", "propose", "noisy_max"]
METHODS: Final[tuple[Method, ...]] = ("auto", "histograms", "save_budget", "propose", "noisy_max")
_MOST_DEPTH: Final = 24
_SMALL: Final = 0.02  # noise relative to a node's rows
_USUAL_GAIN: Final = 0.02  # share of a node's rows; noise above it would waste levels
_LEAST_DEPTH: Final = 2
_LEAF_NOISE: Final = 0.1  # noise relative to a leaf's rows
_LEAST_LEAF_SHARE: Final = Fraction(1, 5)


@dataclass(frozen=True, kw_only=True)
class TreeSettings:
    """What a private tree fixes before it starts; every party sees it.

    Parameters
    ----------
    privacy
        The budget, and the share of it for leaves; with "auto", the largest share.
    method
        How splits are found; see `private_tree`. "auto": see `choose_method`.
    max_depth
        How many levels share the budget for splits.
    min_samples_leaf
        A node with a noisy count below it becomes a leaf.
    n_bins
        Into how many equal parts a node cuts what its path has left of a number's range.
    bounds_share
        The part of a node's budget for bounds, with "save_budget".
    shrinkage
        How strongly leaves are shrunk towards their parents, in standard deviations of their noise.
    n_rows
        Public, rough number of rows that all parties hold together; None if not given.
    message_limit
        Bytes of counters in one reply.
    """

    privacy: PrivacySettings
    method: Method = "auto"
    max_depth: int = 5
    min_samples_leaf: int = 10
    n_bins: int = 10
    bounds_share: str = "1/4"
    shrinkage: float = 0.3
    n_rows: int | None = None
    message_limit: int = 256 << 20
    task: Task = "classification"

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_int("max_depth", self.max_depth, 1, most=_MOST_DEPTH)
        require_int("min_samples_leaf", self.min_samples_leaf, 1)
        require_int("n_bins", self.n_bins, 2, most=MAX_BINS)
        require_real("shrinkage", self.shrinkage)
        if self.n_rows is not None:
            require_int("n_rows", self.n_rows, 1, "or None")
        require_int("message_limit", self.message_limit, 1 << 16)
        if not 0 < fraction_of(self.bounds_share, "bounds_share") < 1:
            raise SettingError(
                f"bounds_share must be above 0 and below 1; got {self.bounds_share}."
            )

    @property
    def fine_bins(self) -> int:
        """How many bins a number's whole range has: as many as a byte can hold."""
        return MAX_BINS // self.n_bins * self.n_bins


def useful_depth(n_rows: int, min_samples_leaf: int) -> int:
    """Return how deep a tree may be before its nodes, halved each time, hold too few rows."""
    return max(1, math.floor(math.log2(max(n_rows, 2) / min_samples_leaf)) + 1)


@dataclass(frozen=True)
class Choice:
    """The settings of a job with its method, and the reason for that method."""

    settings: TreeSettings
    why: str


def choose_method(settings: TreeSettings, n_columns: int, n_parties: int) -> Choice:
    """Return the settings of a job with its method and maximum depth.

    Everything follows from what is declared. "auto" takes the first of these methods whose noise is
    small relative to the rows of a deep node: histograms, then cuts that the parties propose;
    neither needs a trusted coordinator. Otherwise it takes one noisy maximum, with as many levels
    as leave enough budget to compare cuts, and no more budget for leaves than their rows need.
    Except with "histograms", S3's own method, a tree is no deeper than the declared number of rows
    supports.
    """
    depth = settings.max_depth
    if settings.n_rows is not None:
        depth = min(depth, useful_depth(settings.n_rows, settings.min_samples_leaf))
    if settings.method == "histograms":
        return Choice(settings, "method='histograms' was asked for.")
    if settings.method != "auto":
        why = f"method={settings.method!r} was asked for."
        return Choice(replace(settings, max_depth=depth), why)
    if settings.n_rows is None:
        raise SettingError(
            "method='auto' chooses by the number of rows, but n_rows is not given. Declare "
            "n_rows, roughly, or name a method."
        )
    epsilon = float(settings.privacy.amount)
    level = epsilon * (1.0 - float(fraction_of(settings.privacy.leaf_share, "leaf_share"))) / depth
    rows = settings.n_rows / 2 ** (depth - 1)
    of_histograms = math.sqrt(2.0 * settings.n_bins) * n_columns / level
    of_proposals = 2.0 * n_parties * math.log(settings.n_bins * n_columns) / level
    about = (
        f"{settings.n_rows} rows, {n_columns} columns, {n_parties} parties, epsilon={epsilon:g}: a "
        f"deep node would hold about {rows:.0f} rows; with histograms noise would move a side of "
        f"its cuts by {of_histograms:.0f} rows, and parties' proposals would be off by "
        f"{of_proposals:.0f}"
    )
    for name, noise in (("histograms", of_histograms), ("propose", of_proposals)):
        if noise <= _SMALL * rows:
            why = f"{about}. method={name!r} is good enough, and trusts nobody."
            return Choice(replace(settings, method=cast("Method", name), max_depth=depth), why)
    found = _shallow(settings, n_columns, depth)
    why = (
        f"{about}. One noisy maximum over all cuts does better, {found.max_depth} levels deep at "
        f"most, with {found.privacy.leaf_share} of epsilon for the leaves; the coordinator is "
        "trusted with exact sums for it. Name method='propose' if it must not be."
    )
    return Choice(found, why)


def _shallow(settings: TreeSettings, n_columns: int, most: int) -> TreeSettings:
    """Return the settings of a noisy maximum: its levels, and the budget left for its leaves."""
    rows, epsilon = settings.n_rows or 1, float(settings.privacy.amount)
    spare = epsilon * (1.0 - float(_LEAST_LEAF_SHARE))
    told_apart = _USUAL_GAIN * rows * spare / math.log(settings.n_bins * n_columns)
    depth = min(most, max(_LEAST_DEPTH, int(told_apart)))
    noise = 2.0 / epsilon  # noise of a leaf's counts in rows, roughly, with the whole budget
    needed = noise / (_LEAF_NOISE * rows / 2**depth)
    given = fraction_of(settings.privacy.leaf_share, "leaf_share")
    share = min(given, max(_LEAST_LEAF_SHARE, Fraction(math.ceil(20 * min(needed, 1)), 20)))
    privacy = replace(settings.privacy, leaf_share=str(share))
    return replace(settings, method="noisy_max", max_depth=depth, privacy=privacy)


NAME = "private_tree"
Settings = TreeSettings


class TreeJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that grows a private tree."""

    max_depth: int | None = None
    min_samples_leaf: int | float | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    leaf_share: int | float | None = None
    bounds_share: int | float | None = None
    method: str | None = None
    n_bins: int | None = None
    n_rows: int | None = None
    shrinkage: int | float | None = None
    message_limit: int | None = None
    random_state: int = 0
    n_jobs: int | None = None


_OWN: Final = (
    "max_depth",
    "min_samples_leaf",
    "method",
    "n_bins",
    "n_rows",
    "shrinkage",
    "message_limit",
)


def settings_of(given: TreeJobSettings, facts: JobFacts) -> TreeSettings:
    """Return the settings of a job file, checked."""
    privacy = job_privacy(NAME, given, facts, leaf_share=given.leaf_share)
    said = {name: getattr(given, name) for name in _OWN if getattr(given, name) is not None}
    if given.bounds_share is not None:
        said["bounds_share"] = as_text(given.bounds_share, "bounds_share")
    return TreeSettings(privacy=privacy, **said)
