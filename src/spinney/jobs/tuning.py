"""Which settings? The search of `spinney tune`, whether its parties are simulated or real.

Folds go by the rows' keys, so that a row is in one fold, whoever holds it. Without noise
scikit-learn's successive halving carries the search: all candidates start with few trees, and the
best third of them goes on with three times as many. With noise every training and every score
costs budget, so that each candidate is trained once, without the first fold, and scored on it; the
epsilon of the whole search is divided evenly.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  it makes the next line work
from sklearn.model_selection import HalvingGridSearchCV, ParameterGrid, PredefinedSplit

from spinney.errors import SettingError
from spinney.jobs.file import JobFile
from spinney.report.words import as_json, some

Candidate = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]
TREES: Final = {"horizontal_forest": "n_estimators", "extra_trees": "n_estimators",
                "horizontal_boosting": "max_iter"}  # fmt: skip
_DEPTHS: Final = {"max_depth": (2, 4, 6)}
GRIDS: Final[Mapping[str, Grid]] = {
    "horizontal_forest": {
        "max_depth": (4, 8, 16),
        "min_samples_leaf": (1, 5, 20),
        "max_features": ("sqrt", 0.5),
    },
    "extra_trees": {"max_depth": (4, 8, 16), "min_samples_leaf": (1, 5, 20)},
    "horizontal_boosting": {"learning_rate": (0.03, 0.1, 0.3), "max_depth": (3, 6)},
    "private_tree": _DEPTHS,
    "private_forest": _DEPTHS,
    "private_boosting": _DEPTHS,
}
_FEWER: Final = {"max_depth": (4, 8, 16), "min_samples_leaf": (1, 20)}
DEPLOYED_GRIDS: Final[Mapping[str, Grid]] = {
    **GRIDS, "horizontal_forest": _FEWER, "extra_trees": _FEWER,
}  # fmt: skip
"""Every training and score is a job there: by default a search begins fewer than 60."""
_FACTOR: Final = 3


class Tried(msgspec.Struct, frozen=True):
    """One candidate in one turn of the search."""

    settings: Candidate
    n_trees: int | None  # None: as many as the settings say
    score: float  # mean over the folds
    spread: float | None  # standard deviation over the folds; None: there was one


class Tuned(msgspec.Struct, frozen=True):
    """What was tried, what was best, and what it cost."""

    name: str
    score: str
    n_folds: int
    best: Candidate
    best_score: float
    before: float  # of the job's own settings, on the same folds
    tried: tuple[Tried, ...]
    n_trainings: int
    bytes_up: int  # from the busiest party, over all trainings
    seconds: float
    epsilon: float | None = None  # what all trainings and scores cost together
    note: str = ""

    def to_json(self) -> str:
        """Return it as one JSON document."""
        return as_json(self)

    def _dropped(self, shown: set[str]) -> list[Tried]:
        """Return the last try of each candidate that did not reach the end, the best first."""
        lasts = {_in_words(one.settings): one for one in self.tried}
        dropped = [one for words, one in lasts.items() if words not in shown]
        return sorted(dropped, key=lambda one: (-(one.n_trees or 0), -one.score))

    def __str__(self) -> str:
        last = max((one.n_trees or 0) for one in self.tried)
        shown = [one for one in self.tried if (one.n_trees or 0) == last]
        shown.sort(key=lambda one: -one.score)
        folds = f"over {self.n_folds} folds" if self.epsilon is None else "on one fold"
        lines = [f"{self.name}: {self.score} {folds}, by rows of all parties."]
        lines += [_line(one) for one in shown]
        if dropped := self._dropped({_in_words(one.settings) for one in shown}):
            lines += ["Dropped with fewer trees, for they were behind:", *map(_line, dropped)]
        n = len({_in_words(one.settings) for one in self.tried})
        lines.append(
            f"Tried {some(n, 'candidate', 'candidates')} in "
            f"{some(self.n_trainings, 'training', 'trainings')}; {self.seconds:.0f} s, "
            f"{self.bytes_up / 1e6:.1f} MB from the busiest party. The job's own settings: "
            f"{self.before:.4f}."
        )
        if self.epsilon is not None:
            lines.append(f"All of it cost epsilon {self.epsilon:g}, besides what the job costs.")
        lines += [self.note] if self.note else []
        if self.best_score <= self.before:
            lines.append("None is better than the job's own settings: keep them.")
            return "\n".join(lines)
        if shown[0].spread is None:
            lines.append("One noisy score decides: a small lead may be luck.")
        elif self.best_score - self.before < shown[0].spread:
            lines.append(
                "The best is ahead by less than the spread over the folds: it may be luck."
            )
        lines += ["Best; write this into the job file:", "", "[settings]"]
        lines += [
            f"{name} = {msgspec.json.encode(value).decode()}" for name, value in self.best.items()
        ]
        return "\n".join(lines)


def _line(one: Tried) -> str:
    spread = "" if one.spread is None else f" +- {one.spread:.4f}"
    trees = "" if one.n_trees is None else f", {one.n_trees} trees"
    return f"  {one.score:.4f}{spread}  {_in_words(one.settings)}{trees}"


def _in_words(settings: Candidate) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


@dataclass
class Cost:
    """What all trainings together took."""

    n_trainings: int = 0
    bytes_up: dict[str, int] = field(default_factory=dict)

    def add(self, bytes_up: Mapping[str, int]) -> None:
        """Count a training, and what left each party in it."""
        self.n_trainings += 1
        for party, n_bytes in bytes_up.items():
            self.bytes_up[party] = self.bytes_up.get(party, 0) + n_bytes


class Work(Protocol):
    """The parties of a job, simulated or real."""

    cost: Cost

    @property
    def score(self) -> str:
        """The name of the score; more of it is better."""
        ...

    @property
    def note(self) -> str:
        """What is to be said of the scores; may be empty."""
        ...

    def trained(self, settings: Candidate, fold: int) -> Any:
        """Train with other settings on the rows of all folds but one."""
        ...

    def scored(self, trained: Any, fold: int) -> float:
        """Score on the rows of that fold."""
        ...


class _OfJob(BaseEstimator):  # type: ignore[misc]
    """A job as scikit-learn's search sees it: X is the numbers of folds."""

    def __init__(
        self, work: Any = None, settings: Candidate | None = None, n_trees: int = 0
    ) -> None:
        self.work = work
        self.settings = settings
        self.n_trees = n_trees

    def fit(self, X: Any, y: Any = None) -> "_OfJob":
        """Train on all folds but one."""
        del y
        work, trees, n_folds = self.work
        (self.fold_,) = set(range(n_folds)) - set(X[:, 0].tolist())
        self.model_ = work.trained({**(self.settings or {}), trees: self.n_trees}, self.fold_)
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Score on the fold that was left out."""
        del y, X
        found: float = self.work[0].scored(self.model_, self.fold_)
        return found

    def __sklearn_clone__(self) -> "_OfJob":  # tables are shared, not copied
        return _OfJob(self.work, self.settings, self.n_trees)


def candidates_of(
    job: JobFile,
    grid: Grid | None,
    n_folds: int,
    epsilon: float | None,
    grids: Mapping[str, Grid] = GRIDS,
) -> list[Candidate]:
    """Return the settings to try; raise if the job cannot be tuned so."""
    is_private = job.protocol_settings().privacy is not None
    if job.spec.name not in GRIDS:
        raise SettingError(
            f"'spinney tune' searches settings of {', '.join(GRIDS)}; this job's protocol is "
            f"{job.spec.name!r}."
        )
    if is_private and epsilon is None:
        raise SettingError(
            "This job adds noise, and every training that tunes it costs budget. Say what the "
            "whole search may cost, besides the job itself: --epsilon 1."
        )
    if epsilon is not None and not (is_private and 0 < epsilon < float("inf")):
        raise SettingError(
            f"--epsilon must be a number above 0, and is for jobs that add noise; got {epsilon:g}."
        )
    if not 2 <= n_folds <= 20:
        raise SettingError(f"--folds must be between 2 and 20; got {n_folds}.")
    chosen = _DEPTHS if is_private else grids[job.spec.name]
    candidates = [dict(one) for one in ParameterGrid(dict(grid or chosen))]
    for one in candidates:  # report errors before anything is trained
        _refuse_unknown(job, one)
    return candidates


def _refuse_unknown(job: JobFile, candidate: Candidate) -> None:
    reserved = {"epsilon", TREES.get(job.spec.name, "epsilon")}
    known = sorted(set(job.settings.__struct_fields__) - reserved)
    for name in candidate:
        if name == TREES.get(job.spec.name):
            raise SettingError(
                f"--try names {name!r}. The number of trees is not tried: set it in the job file's "
                "[settings]."
            )
        if name not in known:
            raise SettingError(
                f"--try names {name!r}, which is no setting to try. Known are: {', '.join(known)}."
            )


def count_trainings(
    job: JobFile, candidates: list[Candidate], n_folds: int, epsilon: float | None
) -> int:
    """Return how many trainings a search takes; each is scored once.

    The job's own settings are tried too, so that one can say whether the best is better.
    """
    n = len(candidates)
    if epsilon is not None:
        return n + 1
    n_turns = 1 + floor(log(n, _FACTOR))  # as scikit-learn counts them
    n_trees = _most_trees(job)
    first = max(1, n_trees // _FACTOR ** (n_turns - 1))
    n_turns = min(n_turns, 1 + floor(log(n_trees // first, _FACTOR)))
    tried = 1
    for _ in range(n_turns):
        tried += n
        n = ceil(n / _FACTOR)
    return tried * n_folds


def _most_trees(job: JobFile) -> int:
    return int(getattr(job.settings, TREES[job.spec.name]) or 100)  # scikit-learn's default


def search(job: JobFile, work: Work, candidates: list[Candidate], n_folds: int) -> Tuned:
    """Search the settings of a job without noise, by successive halving."""
    began = time.perf_counter()
    trees = TREES[job.spec.name]
    folds = PredefinedSplit(np.arange(n_folds))
    halving = HalvingGridSearchCV(
        _OfJob((work, trees, n_folds)),
        {"settings": candidates},
        resource="n_trees",
        max_resources=_most_trees(job),
        min_resources="exhaust",  # the last turn has all trees
        factor=_FACTOR,
        cv=folds,
        refit=False,
        error_score="raise",
    )
    halving.fit(np.arange(n_folds)[:, None])
    found = halving.cv_results_
    tried = tuple(
        Tried(dict(s), int(n), round(float(mean), 6), round(float(spread), 6))
        for s, n, mean, spread in zip(
            found["param_settings"], found["n_resources"], found["mean_test_score"],
            found["std_test_score"], strict=True,
        )
    )  # fmt: skip
    last = max(one.n_trees or 0 for one in tried)
    before = [work.scored(work.trained({trees: last}, fold), fold) for fold in range(n_folds)]
    mean = round(float(np.mean(before)), 6)
    seconds = round(time.perf_counter() - began, 1)
    return _told(job, work, tried, n_folds=n_folds, before=mean, seconds=seconds)


def search_within(
    job: JobFile, work: Work, candidates: list[Candidate], n_folds: int, epsilon: float
) -> Tuned:
    """Search the settings of a job with noise, each of them trained and scored once."""
    began = time.perf_counter()
    scores = [work.scored(work.trained(one, 0), 0) for one in ({}, *candidates)]
    tried = tuple(
        Tried(one, None, round(score, 6), None)
        for one, score in zip(candidates, scores[1:], strict=True)
    )
    before, seconds = round(scores[0], 6), round(time.perf_counter() - began, 1)
    return _told(job, work, tried, n_folds=n_folds, before=before, seconds=seconds, epsilon=epsilon)


def share_of(epsilon: float, candidates: list[Candidate]) -> float:
    """Return what one training, or one score, may cost: the job's own settings are tried too."""
    return epsilon / (2 * (len(candidates) + 1))


def _told(job: JobFile, work: Work, tried: tuple[Tried, ...], **found: Any) -> Tuned:
    """Return what was tried, and what it cost."""
    last = max(one.n_trees or 0 for one in tried)
    best = max((one for one in tried if (one.n_trees or 0) == last), key=lambda one: one.score)
    return Tuned(
        name=job.job.name,
        score=work.score,
        best=best.settings,
        best_score=best.score,
        tried=tried,
        n_trainings=work.cost.n_trainings,
        bytes_up=max(work.cost.bytes_up.values(), default=0),
        note=work.note,
        **found,
    )
