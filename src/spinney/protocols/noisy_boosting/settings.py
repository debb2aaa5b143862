"""The settings of boosting from noisy sums, and the choices that follow from public facts."""

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from typing import Any, Final, Literal, cast

from msgspec import UNSET

from spinney.errors import SettingError
from spinney.protocols.accounts.budget import budget_of
from spinney.protocols.settings import (
    PrivacySettings,
    Task,
    fraction_of,
    require_choice,
    require_int,
    require_real,
)
from spinney.tables.schema import Schema

Method = Literal["auto", "cyclic", "pairs"]
METHODS: Final[tuple[Method, ...]] = ("auto", "cyclic", "pairs")
EDGES: Final = ("private", "public")
ASSUMED_ROWS: Final = 4000
"""How many rows are assumed if nobody says it."""
MOST_DEPTH: Final = 8
MOST_PASSES: Final = 20  # that are chosen
MOST_DEGREE: Final = 3  # of curves
CURVES_ALONE: Final = 4  # rounds before the first trees
_EVEN_PASSES: Final = 2  # over all columns, before trees take those that have mattered
_MOST_SCORED: Final = 20  # trees of a round; wider tables need all columns in each
_RESIDUAL_ROUNDS: Final = 4  # from one count of residuals to the next
_ROWS_FOR_TERM: Final = 100  # rows x mu that a term of a curve takes
_MOST_TREES: Final = 10_000
MOST_ROUNDS: Final = 36  # of trees; four more agree, count the first facts and state claims
_MOST_AT_ONCE: Final = 3.0  # how far trees of a round go together: their columns may say the same
_COUNTED_DEPTH: Final = 5  # of trees whose leaves hold class counts


@dataclass(frozen=True, kw_only=True)
class TreeShape:
    """The one tree that is distilled from boosted trees.

    Parameters
    ----------
    max_depth, min_samples_leaf
        The largest depth, and the fewest rows of a leaf, by noisy counts.
    leaf_share
        The part of the budget that counts its leaves.
    shrinkage
        How strongly leaves are shrunk towards their parents, in standard deviations of their noise.
    """

    max_depth: int
    min_samples_leaf: int
    leaf_share: str
    shrinkage: float


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What boosting from noisy sums fixes before it starts; every party sees it.

    Parameters
    ----------
    privacy
        The budget; with a delta, noise is Gaussian.
    task
        What is predicted.
    method
        "cyclic": trees of one column each, one column after another. "pairs": trees of two columns.
    n_passes
        How many trees there are for each column.
    max_depth
        The depth of every tree.
    learning_rate
        How far each tree goes.
    batch_trees
        How many trees are counted in one round, from the same scores.
    edges
        "private": bin edges from noisy histograms, for `edge_share` of the budget. "public": equal
        parts of the declared ranges.
    n_rows
        Public, rough number of rows that all parties hold together; None if not given.
    tree
        The tree that is distilled in the end; None: the boosted trees are the model.
    """

    privacy: PrivacySettings
    task: Task
    method: Method = "auto"
    n_passes: int | None = None
    max_depth: int | None = None
    learning_rate: float | None = None
    batch_trees: int | None = None
    edges: str = "private"
    edge_share: str = "1/10"
    n_rows: int | None = None
    assumed_rows: int | None = None  # if n_rows is not given; it refuses nothing
    seed: int = 0
    message_limit: int = 256 << 20
    tree: TreeShape | None = None

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_choice("edges", self.edges, EDGES)
        if self.n_passes is not None:
            require_int("n_passes", self.n_passes, 1, "or None", most=_MOST_TREES)
        if self.max_depth is not None:
            require_int("max_depth", self.max_depth, 1, "or None", most=MOST_DEPTH)
        if self.batch_trees is not None:
            require_int("batch_trees", self.batch_trees, 1, "or None", most=_MOST_TREES)
        if self.learning_rate is not None:
            require_real("learning_rate", self.learning_rate)
            if not 0 < self.learning_rate <= 1:
                raise SettingError(
                    f"learning_rate must be above 0 and at most 1; got {self.learning_rate!r}."
                )
        if self.n_rows is not None:
            require_int("n_rows", self.n_rows, 1, "or None")
        require_int("seed", self.seed, 0, most=2**64 - 1)
        require_int("message_limit", self.message_limit, 1 << 16)
        if not 0 < fraction_of(self.edge_share, "edge_share") < 1:
            raise SettingError(f"edge_share must be above 0 and below 1; got {self.edge_share}.")
        if self.privacy.epsilon is None:
            raise SettingError("Private boosting needs epsilon, the budget of the whole job.")

    @property
    def rows_about(self) -> int:
        """About how many rows there are, as declared or assumed."""
        return self.n_rows or self.assumed_rows or ASSUMED_ROWS

    def described(self) -> dict[str, Any]:
        """Return the settings as reports show them."""
        described = asdict(self)
        del described["tree"]  # only of private trees, which describe themselves
        return described


@dataclass(frozen=True)
class Batch:
    """Trees whose leaves are asked about in one round."""

    trees: range
    depth: int
    counts_classes: bool  # instead of adding up gradients
    bends: bool = False  # curves, beside its trees
    counts_residuals: bool = False
    counts_moments: bool = False  # of the terms of curves

    @property
    def n_leaves(self) -> int:
        """How many leaves all trees have."""
        return len(self.trees) << self.depth


@dataclass(frozen=True)
class Choice:
    """Settings in which nothing is left open, and the reasons."""

    settings: Settings
    n_trees: int
    n_counted: int  # the first trees, whose leaves hold class counts
    counted_depth: int
    degree: int  # of the curves that are fitted beside trees; 0: there are none
    n_columns: int
    scores_columns: bool  # later trees take the columns that have mattered
    why: str

    @property
    def method(self) -> str:
        """How trees take their columns."""
        return self.settings.method

    @property
    def rate(self) -> float:
        """How far each tree goes."""
        return cast("float", self.settings.learning_rate)

    @cached_property
    def first_scored(self) -> int:
        """The first round whose trees take columns that have mattered; after all: there is none."""
        if not self.scores_columns:
            return len(self.batches)
        n_even = _EVEN_PASSES * self.n_columns
        starts = [batch.trees.start if batch.trees else -1 for batch in self.batches]
        return next((n for n, start in enumerate(starts) if start >= n_even), len(starts))

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The trees, round by round."""
        size, depth = self.settings.batch_trees, self.settings.max_depth
        assert size is not None  # chosen
        assert depth is not None
        starts = range(self.n_counted, self.n_trees, size)
        boosted = [
            Batch(range(first, min(self.n_trees, first + size)), depth, counts_classes=False)
            for first in starts
        ]
        if self.degree:
            alone = [Batch(range(0), depth, counts_classes=False)] * CURVES_ALONE
            return tuple(
                replace(
                    batch,
                    bends=True,
                    counts_residuals=number % _RESIDUAL_ROUNDS == 0,
                    counts_moments=number == 0,
                )
                for number, batch in enumerate(alone + boosted)
            )
        if not self.n_counted:
            return tuple(boosted)
        counted = Batch(range(self.n_counted), self.counted_depth, counts_classes=True)
        return (counted, *boosted)


def choose(settings: Settings, schema: Schema) -> Choice:
    """Return the settings with everything that is left open chosen from public facts.

    The constants were chosen on five tables of classes, and on five of numbers
    (`benchmarks/bench_private_boosting.py`, `bench_private_numbers.py`).
    """
    n_columns, n_classes = len(schema.columns), len(schema.label.classes or ())
    method: Method = settings.method
    if method == "auto":
        method = "cyclic" if n_classes else "pairs"
    strength = _strength(settings, n_columns, n_classes)
    is_pure = settings.privacy.delta is UNSET
    counts = is_pure and n_classes > 0 and method == "cyclic"
    if counts:
        size = _counting_size(strength, n_classes, settings.n_passes)
    else:
        size = _pure_size(strength, n_classes) if is_pure else _gaussian_size(strength, n_classes)
    passes, depth, rate = size
    passes = passes if settings.n_passes is None else settings.n_passes
    n_trees, n_counted = passes * n_columns, n_columns if counts else 0
    degree = 0 if n_classes or is_pure else _degree(strength, n_columns)
    rounds = MOST_ROUNDS - counts - (CURVES_ALONE if degree else 0)
    batch = settings.batch_trees or max(1, ceil((n_trees - n_counted) / rounds))
    rate = min(rate, _MOST_AT_ONCE / batch)
    counted_depth = _COUNTED_DEPTH if settings.max_depth is None else settings.max_depth
    chosen = replace(
        settings,
        method=method,
        n_passes=passes,
        max_depth=depth if settings.max_depth is None else settings.max_depth,
        learning_rate=rate if settings.learning_rate is None else settings.learning_rate,
        batch_trees=batch,
    )
    why = _why(settings, chosen, n_columns, counted_depth if counts else 0, strength)
    if degree:
        why += f"; a curve of degree {degree} for each column, fitted together from noisy moments"
    scores = method == "pairs" and n_columns > 1 and not n_classes and not is_pure
    scores &= passes > _EVEN_PASSES and batch <= _MOST_SCORED
    if scores:
        why += "; later trees take the columns that have mattered"
    return Choice(chosen, n_trees, n_counted, counted_depth, degree, n_columns, scores, why)


def _strength(settings: Settings, n_columns: int, n_classes: int) -> float:
    """Return how strong a budget is: how many rows stand against the noise.

    That is rows x epsilon / (columns x scores) for pure epsilon, rows x mu / sqrt(columns) / scores
    with delta.
    """
    n_rows, scores = settings.rows_about, max(1, n_classes - 1)
    amount = float(budget_of(settings.privacy).amount)
    if settings.tree is not None:
        amount *= 1.0 - float(Fraction(settings.tree.leaf_share))
    if settings.privacy.delta is UNSET:
        return n_rows * amount / (n_columns * scores)
    return n_rows * sqrt(2 * amount) / (sqrt(n_columns) * scores)


def _degree(strength: float, n_columns: int) -> int:
    """Return the degree of curves, of which each term takes some rows x mu; 0 for none."""
    terms = strength * sqrt(n_columns) / _ROWS_FOR_TERM
    return max(0, min(MOST_DEGREE, int((terms - 1) / n_columns)))


def _why(
    given: Settings, chosen: Settings, n_columns: int, counted_depth: int, strength: float
) -> str:
    """Return what was chosen, and from which public facts."""
    is_given = given.n_rows is not None or given.assumed_rows is not None
    assumed = "" if is_given else " (assumed, because n_rows is not given)"
    asked = "was asked for"
    if given.method == "auto":
        is_readable = given.task == "classification"
        asked = "is readable, column by column" if is_readable else "lets two columns act together"
    privacy = given.privacy
    delta = "" if privacy.delta is UNSET else f", delta {float(Fraction(privacy.delta)):g}"
    depth, passes = chosen.max_depth, cast("int", chosen.n_passes)
    counting = f"1 tree of depth {counted_depth} that counts classes"
    columns = f"for each of {n_columns} columns"
    trees = f"{passes} trees of depth {depth}"
    if counted_depth:
        trees = counting + (f" and {passes - 1} of depth {depth}" if passes > 1 else "")
    at_once = f", {chosen.batch_trees} in a round" if passes > 1 or not counted_depth else ""
    return (
        f"method={chosen.method!r} {asked}; {trees} {columns}{at_once}, for about "
        f"{given.rows_about:,} rows{assumed}, epsilon {float(privacy.amount):g}{delta}: a "
        f"strength of {strength:.3g}"
    )


def _counting_size(strength: float, n_classes: int, n_passes: int | None) -> tuple[int, int, float]:
    """Return passes, depth and learning rate for pure epsilon, if the first pass counts classes.

    Counts carry less noise than gradients: a record moves one of them by 1, but moves gradients of
    several classes by up to 5/2. So weak budgets, and several classes, do with counts alone.
    """
    passes = 4 if strength >= 2000 else 3
    if strength < (300 if n_classes == 2 else 1500):
        passes = 1
    passes = passes if n_passes is None else n_passes
    return passes, 4, 0.5 if passes < 4 else 0.4


def _pure_size(strength: float, n_classes: int) -> tuple[int, int, float]:
    """Return passes, depth and learning rate for pure epsilon."""
    if strength < 200:
        return 1, 3, 0.7
    if strength < 600:
        return 2, 3 if strength < 400 else 4, 0.5
    if n_classes or strength < 1000:
        return 3, 4, 0.4
    return (6, 4, 0.4) if strength < 3000 else (10, 4, 0.3)


def _gaussian_size(strength: float, n_classes: int) -> tuple[int, int, float]:
    """Return passes, depth and learning rate for an epsilon with delta."""
    if strength < 40:
        return 2, 3, 0.5
    if strength < (120 if n_classes else 150):
        return 4, 4, 0.3
    return 6 if n_classes else MOST_PASSES, 4, 0.3
