"""The settings of evolved trees; the defaults are Table II of S4."""

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Final, Literal

import msgspec
import numpy as np

from spinney.errors import SettingError
from spinney.privacy.budget import probability
from spinney.protocols.settings import (
    ForestSettings,
    PrivacySettings,
    Task,
    as_text,
    fraction_of,
    require_choice,
)
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import job_seed
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.evolution import Breeding
from spinney.trees.genome import MAX_DEPTH

Validation = Literal["rotating", "fixed"]


METRICS: Final[dict[Task, tuple[str, ...]]] = {
    "classification": ("f1",),
    "regression": ("mse", "r2", "rae"),
}


VALIDATIONS: Final = ("rotating", "fixed")
BINNINGS: Final = ("own", "pooled")
POPULATION: Final[dict[Task, int]] = {"classification": 20, "regression": 40}
_MOST_STRUCTURES: Final = 10_000
_MOST_PRIVATE_DEPTH: Final = 8


@dataclass(frozen=True, kw_only=True)
class GeneticSettings:
    """What a job of evolved trees fixes before it starts; every party sees it.

    Parameters
    ----------
    population_size
        P: structures that survive a generation. None: 20 for classification, 40 for regression.
    n_generations
        G: the number of generations.
    participation
        c: the share of parties that are asked in a generation, drawn again each time.
    train_ratio
        r: the share of a party's rows that structures are fitted to; the rest score them.
    validation
        "rotating": every generation is scored on different rows; survivors are scored again and
        keep the mean of their scores. "fixed", as in the paper: on the same rows, once.
    metric
        The score to improve: "f1" (of the second class; with more than two, their mean), "mse",
        "r2" or "rae", the relative absolute error.
    leaf_ratio, tournament_size, flip_ratio, swap_ratio
        r_l, s, m_1 and m_2; the last two are shares of a structure's genes.
    n_folds, min_depth, max_depth
        K and [d_min, d_max], the range from which each party's own cross-validation chooses.
    noise_threshold, complexity_threshold, unique_threshold
        phi*, theta* and mu* of the votes (Eq. 1 and 2), for regression.
    keep_home
        Whether a party keeps its own tree if that scores better on its own validation rows.
    binning, max_bins
        "own": a party's numbers are cut at its own quantiles, and nothing is asked. "pooled": at
        quantiles over all parties, found from summed counts.
    size_epsilon
        The epsilon of the noise on a party's number of rows, which weights its scores; None: the
        exact number is used, but only inside sums.
    """

    task: Task
    population_size: int | None = None
    n_generations: int = 100
    participation: float = 1.0
    train_ratio: float = 0.8
    validation: Validation = "rotating"
    metric: str | None = None
    leaf_ratio: float = 0.01
    tournament_size: int = 3
    flip_ratio: float = 0.05
    swap_ratio: float = 0.05
    n_folds: int = 5
    min_depth: int = 2
    max_depth: int = 15
    noise_threshold: float = 0.25
    complexity_threshold: float = 0.02
    unique_threshold: float = 80.0
    keep_home: bool = True
    binning: str = "own"
    max_bins: int = MAX_BINS
    size_epsilon: str | None = None
    seed: int = 0
    privacy: PrivacySettings | None = None  # None: only sizes may get noise
    delta: str = "1/1000000"  # at which a private job's rho (zCDP) converts to its epsilon
    job: str = "evolved trees"  # its name in a party's ledger

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.generic):  # messages and reports carry Python's own types
                object.__setattr__(self, name, value.item())
        if self.population_size is None:
            object.__setattr__(self, "population_size", POPULATION[self.task])
        if self.metric is None:
            object.__setattr__(self, "metric", METRICS[self.task][0])
        self._require_numbers()
        self._require_shares()
        require_choice("metric", self.metric, METRICS[self.task])
        require_choice("validation", self.validation, VALIDATIONS)
        require_choice("binning", self.binning, BINNINGS)
        if self.privacy is not None:
            self._require_private()
        if not isinstance(self.keep_home, bool):
            raise SettingError(f"keep_home must be True or False; got {self.keep_home!r}.")

    def _require_numbers(self) -> None:
        _whole("population_size", self.population_size, 2, _MOST_STRUCTURES)
        _whole("n_generations", self.n_generations, 1, None)
        _whole("tournament_size", self.tournament_size, 1, _MOST_STRUCTURES)
        _whole("n_folds", self.n_folds, 2, 100)
        _whole("min_depth", self.min_depth, 1, MAX_DEPTH)
        _whole("max_depth", self.max_depth, 1, MAX_DEPTH)
        _whole("max_bins", self.max_bins, 2, MAX_BINS)
        _whole("seed", self.seed, 0, 2**64 - 1)
        if self.min_depth > self.max_depth:
            raise SettingError(
                f"min_depth={self.min_depth} must not be above max_depth={self.max_depth}."
            )

    def _require_private(self) -> None:
        """Raise if the settings cannot be met with noisy counts."""
        if self.task != "classification":
            raise SettingError("epsilon is for classification: evolved regression has no noise.")
        if self.max_depth > _MOST_PRIVATE_DEPTH:
            raise SettingError(
                f"max_depth={self.max_depth} cannot be used with epsilon: every leaf is a noisy "
                f"count. Set it to at most {_MOST_PRIVATE_DEPTH}, for example to 4."
            )
        if self.participation < 1 or self.size_epsilon is not None:
            raise SettingError(
                "With epsilon all parties take part in every generation, and their sizes are not "
                "revealed: leave participation and size_epsilon at their defaults."
            )
        if self.binning != "own":
            raise SettingError(
                "binning='pooled' needs exact counts, which epsilon does not allow: use "
                "binning='own', and each party lays its own bins."
            )
        probability(fraction_of(self.delta, "delta"), "delta")

    def _require_shares(self) -> None:
        _share("participation", self.participation, open_below=True)
        _share("train_ratio", self.train_ratio, open_below=True)
        if self.train_ratio > 0.95:
            raise SettingError(
                f"train_ratio must leave rows for scoring: at most 0.95; got {self.train_ratio!r}."
            )
        for name in ("leaf_ratio", "flip_ratio", "swap_ratio"):
            _share(name, getattr(self, name), open_below=False)
        for name in ("noise_threshold", "complexity_threshold", "unique_threshold"):
            value = getattr(self, name)
            if not _is_real(value) or not math.isfinite(value) or value < 0:
                raise SettingError(f"{name} must be a number of at least 0; got {value!r}.")

    @property
    def n_survivors(self) -> int:
        """P, the number of structures that survive a generation."""
        assert self.population_size is not None
        return self.population_size

    @property
    def n_parts(self) -> int:
        """The number of parts of the rows, one of which is for scoring: 1 / (1 - r), rounded."""
        return max(2, round(1 / (1 - self.train_ratio)))

    @property
    def n_divisions(self) -> int:
        """How many divisions of its rows a party scores on: more if fewer parties are asked."""
        if self.validation == "fixed":
            return 1
        return min(self.n_parts, round(1 / self.participation))

    def n_active(self, n_parties: int) -> int:
        """Return how many parties are asked in a generation."""
        return max(1, round(self.participation * n_parties))

    def breeding(self, n_columns: int, depth: int) -> Breeding:
        """Return how offspring are bred."""
        return Breeding(
            n_columns,
            depth,
            self.n_survivors,
            self.tournament_size,
            self.flip_ratio,
            self.swap_ratio,
        )

    def for_bins(self) -> ForestSettings:
        """Return settings that lay the pooled bins."""
        criterion = "gini" if self.task == "classification" else "squared_error"
        return ForestSettings(task=self.task, criterion=criterion, max_bins=self.max_bins)


def noisy_search(
    job: str, epsilon: object, *, secure_sum: bool, honest: int | None
) -> PrivacySettings | None:
    """Return the privacy of a search that costs `epsilon`; None if `epsilon` is None.

    Parameters
    ----------
    job
        The job's name in the parties' ledgers.
    epsilon
        The budget of the whole search; None: no noise.
    secure_sum
        Whether sums are masked; the parties then share the noise.
    honest
        How many parties must be honest for masks and shared noise; None: half, rounded up.
    """
    if honest is not None and not secure_sum:
        raise SettingError(
            "honest is the number of parties that must be honest for a secure sum. It needs "
            "secure_sum=True."
        )
    if epsilon is None:
        return None
    return PrivacySettings(
        job=job, epsilon=as_text(epsilon, "epsilon"), in_shares=secure_sum, honest=honest
    )


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole(name: str, value: object, least: int, most: int | None) -> None:
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= least and (most is None or number <= most):
            return
    bounds = f"at least {least}" if most is None else f"between {least} and {most}"
    raise SettingError(f"{name} must be a whole number {bounds}; got {value!r}.")


def _share(name: str, value: object, *, open_below: bool) -> None:
    if _is_real(value):
        number = float(value)  # type: ignore[arg-type]
        if number <= 1 and (number > 0 if open_below else number >= 0):
            return
    least = "above 0" if open_below else "at least 0"
    raise SettingError(f"{name} must be a share {least} and at most 1; got {value!r}.")


NAME = "genetic_tree"
Settings = GeneticSettings


class GeneticJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that evolves trees."""

    max_depth: int | None = None
    max_bins: int | None = None
    binning: str | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    population_size: int | None = None
    n_generations: int | None = None
    participation: int | float | None = None
    train_ratio: float | None = None
    validation: str | None = None
    metric: str | None = None
    leaf_ratio: int | float | None = None
    tournament_size: int | None = None
    flip_ratio: int | float | None = None
    swap_ratio: int | float | None = None
    n_folds: int | None = None
    min_depth: int | None = None
    noise_threshold: int | float | None = None
    complexity_threshold: int | float | None = None
    unique_threshold: int | float | None = None
    keep_home: bool | None = None
    size_epsilon: int | float | None = None
    delta: int | float | None = None
    random_state: int = 0
    n_jobs: int | None = None


_RUNNING: Final = frozenset(
    {"random_state", "n_jobs", "secure_sum", "honest", "epsilon", "coordinator"}
)


def settings_of(given: GeneticJobSettings, facts: JobFacts) -> GeneticSettings:
    """Return the settings of a job file, checked."""
    privacy = noisy_search(
        facts.name, given.epsilon, secure_sum=bool(given.secure_sum), honest=given.honest
    )
    if privacy is None and given.delta is not None:
        raise SettingError("delta is used only with epsilon. Drop it, or give epsilon too.")
    said = msgspec.structs.asdict(given).items()
    own = {key: value for key, value in said if value is not None and key not in _RUNNING}
    own |= {key: as_text(own[key], key) for key in ("size_epsilon", "delta") if key in own}
    return GeneticSettings(
        task=facts.task,
        seed=job_seed(given.random_state),
        job=facts.name,
        privacy=privacy,
        **own,
    )
