"""The settings of private boosting, and the choices that follow from public facts."""

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from math import ceil, sqrt
from typing import Any, Final, Literal, cast

from msgspec import UNSET

from spinney.errors import SettingError
from spinney.protocols.accounts.budget import budget_of
from spinney.protocols.accounts.settings import job_privacy
from spinney.protocols.settings import (
    PrivacySettings,
    Task,
    fraction_of,
    require_choice,
    require_int,
    require_real,
)
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import job_seed
from spinney.tables.schema import Schema

NAME: Final = "private_boosting"
Method = Literal["auto", "cyclic", "pairs"]
METHODS: Final[tuple[Method, ...]] = ("auto", "cyclic", "pairs")
EDGES: Final = ("private", "public")
ASSUMED_ROWS: Final = 4000
"""How many rows are assumed if nobody says it."""
MOST_DEPTH: Final = 8
MOST_PASSES: Final = 12  # that are chosen
_MOST_TREES: Final = 10_000
MOST_ROUNDS: Final = 36  # of trees; four more agree, count the first facts and state claims


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What private boosting fixes before it starts; every party sees it.

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

    def described(self) -> dict[str, Any]:
        """Return the settings as reports show them."""
        return asdict(self)


@dataclass(frozen=True)
class Choice:
    """Settings in which nothing is left open, and the reasons."""

    settings: Settings
    n_trees: int
    why: str

    @property
    def method(self) -> str:
        """How trees take their columns."""
        return self.settings.method

    @property
    def depth(self) -> int:
        """The depth of every tree."""
        return cast("int", self.settings.max_depth)

    @property
    def rate(self) -> float:
        """How far each tree goes."""
        return cast("float", self.settings.learning_rate)

    @property
    def batch(self) -> int:
        """How many trees are counted in one round."""
        return cast("int", self.settings.batch_trees)

    @property
    def n_batches(self) -> int:
        """How many rounds count trees."""
        return -(-self.n_trees // self.batch)

    def in_batch(self, number: int) -> range:
        """Return the trees of a batch."""
        return range(number * self.batch, min(self.n_trees, (number + 1) * self.batch))


def choose(settings: Settings, schema: Schema) -> Choice:
    """Return the settings with everything that is left open chosen from public facts.

    The strength of a budget is how many rows stand against the noise: rows x epsilon / (columns x
    scores) for pure epsilon, rows x mu / sqrt(columns) / scores with delta. The constants were
    chosen on five tables (`benchmarks/bench_private_boosting.py`).
    """
    n_columns = len(schema.columns)
    n_classes = len(schema.label.classes or ())
    n_rows = settings.n_rows or settings.assumed_rows or ASSUMED_ROWS
    scores = max(1, n_classes - 1)
    amount = float(budget_of(settings.privacy).amount)
    if settings.privacy.delta is UNSET:
        strength = n_rows * amount / (n_columns * scores)
        passes, depth, rate = _pure_size(strength)
    else:
        strength = n_rows * sqrt(2 * amount) / (sqrt(n_columns) * scores)
        passes, depth, rate = _gaussian_size(strength)
        if not n_classes and passes == MOST_PASSES // 2:  # steps of a number are clipped
            passes = MOST_PASSES
    passes = passes if settings.n_passes is None else settings.n_passes
    depth = depth if settings.max_depth is None else settings.max_depth
    method = "cyclic" if settings.method == "auto" else settings.method
    n_trees = passes * n_columns
    batch = settings.batch_trees or max(1, ceil(n_trees / MOST_ROUNDS))
    is_given = settings.n_rows is not None or settings.assumed_rows is not None
    assumed = "" if is_given else " (assumed, because n_rows is not given)"
    asked = "was asked for" if settings.method != "auto" else "is readable, column by column"
    delta = "" if settings.privacy.delta is UNSET else f", delta {_number(settings.privacy.delta)}"
    why = (
        f"method={method!r} {asked}; {passes} trees of depth {depth} for each of {n_columns} "
        f"columns, {batch} in a round, for about {n_rows:,} rows{assumed}, epsilon "
        f"{float(settings.privacy.amount):g}{delta}: a strength of {strength:.3g}"
    )
    chosen = replace(
        settings,
        method=cast("Method", method),
        n_passes=passes,
        max_depth=depth,
        learning_rate=rate if settings.learning_rate is None else settings.learning_rate,
        batch_trees=batch,
    )
    return Choice(chosen, n_trees, why)


def _number(text: str) -> str:
    return f"{float(Fraction(text)):g}"


def _pure_size(strength: float) -> tuple[int, int, float]:
    """Return passes, depth and learning rate for pure epsilon."""
    if strength < 200:
        return 1, 3, 0.7
    return (2, 3 if strength < 400 else 4, 0.5) if strength < 600 else (3, 4, 0.4)


def _gaussian_size(strength: float) -> tuple[int, int, float]:
    """Return passes, depth and learning rate for an epsilon with delta."""
    if strength < 40:
        return 2, 3, 0.5
    return (4, 4, 0.3) if strength < 120 else (6, 4, 0.3)


class PrivateBoostingJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that boosts within a privacy budget."""

    method: str | None = None
    n_passes: int | None = None
    max_depth: int | None = None
    learning_rate: int | float | None = None
    batch_trees: int | None = None
    edges: str | None = None
    epsilon: int | float | None = None
    delta: int | float | None = None
    n_rows: int | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    message_limit: int | None = None
    random_state: int = 0
    n_jobs: int | None = None


_OWN: Final = (
    "method",
    "n_passes",
    "max_depth",
    "learning_rate",
    "batch_trees",
    "edges",
    "n_rows",
    "message_limit",
)


def settings_of(given: PrivateBoostingJobSettings, facts: JobFacts) -> Settings:
    """Return the settings of a job file, checked."""
    said = {name: getattr(given, name) for name in _OWN if getattr(given, name) is not None}
    privacy = job_privacy(NAME, given, facts, tasks=("classification", "regression"))
    return Settings(privacy=privacy, task=facts.task, seed=job_seed(given.random_state), **said)
