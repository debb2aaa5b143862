"""The settings of a private tree, and the choice of a method from public facts."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from msgspec import UNSET

from spinney.errors import SettingError
from spinney.protocols.accounts.budget import budget_of
from spinney.protocols.accounts.settings import job_privacy
from spinney.protocols.noisy_boosting.settings import Settings as BoostingSettings
from spinney.protocols.noisy_boosting.settings import TreeShape
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

Method = Literal["auto", "distilled", "histograms", "save_budget", "propose", "noisy_max"]
METHODS: Final[tuple[Method, ...]] = (
    "auto",
    "distilled",
    "histograms",
    "save_budget",
    "propose",
    "noisy_max",
)
GAUSSIAN_METHODS: Final = ("distilled", "histograms", "save_budget")  # only sums with noise
_MOST_DEPTH: Final = 24
_SMALL: Final = 0.02  # noise relative to a node's rows
_FEW_ROWS: Final = 12  # times epsilon for each column, below which nothing can be distilled
DISTILLED_LEAVES: Final = Fraction(1, 5)  # the most of the budget that counts a distilled tree


@dataclass(frozen=True, kw_only=True)
class TreeSettings:
    """What a private tree fixes before it starts; every party sees it.

    Parameters
    ----------
    privacy
        The budget, and the share of it for leaves; with "distilled", at most a fifth.
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

    Everything follows from what is declared. "auto" takes histograms if their noise is small
    relative to the rows of a deep node, and otherwise a distilled tree; cuts that parties propose
    if the budget is too weak for that. None of them needs a trusted coordinator: "noisy_max", which
    does, is taken only by name. Except with "histograms", S3's own method, a tree is no deeper than
    the declared number of rows supports.
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
    rows = settings.n_rows / 2 ** (depth - 1)
    noise = _cut_noise(settings, depth, n_columns)
    about = (
        f"{settings.n_rows} rows, {n_columns} columns, {n_parties} parties, "
        f"epsilon={float(settings.privacy.amount):g}: a deep node would hold about {rows:.0f} "
        f"rows; with histograms noise would move a side of its cuts by {noise:.0f} rows"
    )
    if noise <= _SMALL * rows:
        why = f"{about}. method='histograms' is good enough, and trusts nobody."
        return Choice(replace(settings, method="histograms", max_depth=depth), why)
    is_pure = settings.privacy.delta is UNSET
    if is_pure and settings.n_rows * settings.privacy.amount < _FEW_ROWS * n_columns:
        why = (
            f"{about}; {n_columns} columns are too many for method='distilled'. method='propose' "
            "trusts nobody."
        )
        return Choice(replace(settings, method="propose", max_depth=depth), why)
    why = (
        f"{about}. method='distilled' finds better cuts, and trusts nobody: one tree imitates "
        "boosted trees that were grown from noisy sums. method='noisy_max' would trust the "
        "coordinator with exact sums, and must be asked for by name."
    )
    return Choice(replace(settings, method="distilled", max_depth=depth), why)


def _cut_noise(settings: TreeSettings, depth: int, n_columns: int) -> float:
    """Return by how many rows the noise of histograms would move a side of a cut."""
    kept = float(fraction_of(settings.privacy.leaf_share, "leaf_share"))
    level = float(budget_of(settings.privacy).amount) * (1.0 - kept) / depth
    if settings.privacy.delta is UNSET:
        return math.sqrt(2.0 * settings.n_bins) * n_columns / level
    return math.sqrt(settings.n_bins * n_columns / (2.0 * level))


def boosting_of(settings: TreeSettings) -> BoostingSettings:
    """Return the boosting from which a tree is distilled; a fixed seed draws its small trees."""
    given = fraction_of(settings.privacy.leaf_share, "leaf_share")
    shape = TreeShape(
        max_depth=settings.max_depth,
        min_samples_leaf=settings.min_samples_leaf,
        leaf_share=str(min(given, DISTILLED_LEAVES)),
        shrinkage=settings.shrinkage,
    )
    return BoostingSettings(
        privacy=settings.privacy,
        task=settings.task,
        assumed_rows=settings.n_rows,
        message_limit=settings.message_limit,
        tree=shape,
    )


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
    delta: int | float | None = None


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
