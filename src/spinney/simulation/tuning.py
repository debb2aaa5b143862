"""`spinney tune`: which settings? Cross-validation over the rows of all parties.

Folds go by the rows' keys, so that a row is in one fold, whoever holds it. scikit-learn's
successive halving carries the search: all candidates start with few trees, and the best third of
them goes on with three times as many.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  it makes the next line work
from sklearn.model_selection import HalvingGridSearchCV, ParameterGrid, PredefinedSplit

from spinney.errors import SettingError
from spinney.jobs.file import JobFile, load_job
from spinney.jobs.rows import deal_out
from spinney.jobs.tables import tables_of
from spinney.protocols.private_evaluation.settings import fold_of
from spinney.report.words import as_json, some
from spinney.simulation.comparison import Running, connect
from spinney.simulation.scores import predict_table, scores_of
from spinney.tables.table import MemoryTable
from spinney.trees.threads import thread_count
from spinney.typing import silent

Candidate = dict[str, Any]
_TREES: Final = {"horizontal_forest": "n_estimators", "extra_trees": "n_estimators",
                 "horizontal_boosting": "max_iter"}  # fmt: skip
GRIDS: Final[Mapping[str, Mapping[str, Sequence[Any]]]] = {
    "horizontal_forest": {
        "max_depth": (4, 8, 16),
        "min_samples_leaf": (1, 5, 20),
        "max_features": ("sqrt", 0.5),
    },
    "extra_trees": {"max_depth": (4, 8, 16), "min_samples_leaf": (1, 5, 20)},
    "horizontal_boosting": {"learning_rate": (0.03, 0.1, 0.3), "max_depth": (3, 6)},
}


class Tried(msgspec.Struct, frozen=True):
    """One candidate in one turn of the search."""

    settings: Candidate
    n_trees: int
    score: float  # mean over the folds
    spread: float  # standard deviation over the folds


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

    def to_json(self) -> str:
        """Return it as one JSON document."""
        return as_json(self)

    def __str__(self) -> str:
        last = max(one.n_trees for one in self.tried)
        shown = sorted((t for t in self.tried if t.n_trees == last), key=lambda one: -one.score)
        lines = [f"{self.name}: {self.score} over {self.n_folds} folds, by rows of all parties."]
        lines += [
            f"  {one.score:.4f} +- {one.spread:.4f}  {_in_words(one.settings)}, {one.n_trees} trees"
            for one in shown
        ]
        n = len({_in_words(one.settings) for one in self.tried})
        lines.append(
            f"Tried {some(n, 'candidate', 'candidates')} in "
            f"{some(self.n_trainings, 'training', 'trainings')}; {self.seconds:.0f} s, "
            f"{self.bytes_up / 1e6:.1f} MB from the busiest party. The job's own settings: "
            f"{self.before:.4f}."
        )
        if self.best_score <= self.before:
            lines.append("None is better than the job's own settings: keep them.")
            return "\n".join(lines)
        if self.best_score - self.before < shown[0].spread:
            lines.append(
                "The best is ahead by less than the spread over the folds: it may be luck."
            )
        lines += ["Best; write this into the job file:", "", "[settings]"]
        lines += [
            f"{name} = {msgspec.json.encode(value).decode()}" for name, value in self.best.items()
        ]
        return "\n".join(lines)


def _in_words(settings: Candidate) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


@dataclass
class _Cost:
    """What all trainings together took."""

    n_trainings: int = 0
    bytes_up: dict[str, int] = field(default_factory=dict)


class _OfJob(BaseEstimator):  # type: ignore[misc]
    """A job as scikit-learn's search sees it: X is the numbers of rows, over all parties."""

    def __init__(
        self, work: Any = None, settings: Candidate | None = None, n_trees: int = 0
    ) -> None:
        self.work = work
        self.settings = settings
        self.n_trees = n_trees

    def fit(self, X: Any, y: Any = None) -> "_OfJob":
        """Train on some rows."""
        del y
        self.model_ = self.work.trained(self.settings, self.n_trees, X[:, 0])
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Score on other rows."""
        del y
        found: float = self.work.scored(self.model_, X[:, 0])
        return found

    def __sklearn_clone__(self) -> "_OfJob":  # tables are shared, not copied
        return _OfJob(self.work, self.settings, self.n_trees)


class _Work:
    """The parties' tables of a job, and how to train and score on some of their rows."""

    def __init__(self, job: JobFile, tables: Mapping[str, MemoryTable]) -> None:
        self._job = job
        self._tables = tables
        ends = np.cumsum([0, *(table.n_rows for table in tables.values())])
        self._part = dict(zip(tables, pairwise(ends.tolist()), strict=True))
        self.n_rows = int(ends[-1])
        self.schema = next(iter(tables.values())).schema
        self.cost = _Cost()
        self.metric = "auc" if self.schema.label.kind == "class" else "r2"

    def folds(self, n_folds: int, seed: int) -> Any:
        """Return each row's fold, by its key."""
        return np.concatenate(
            [fold_of(batch, n_folds, seed) for t in self._tables.values() for batch in t.batches()]
        )

    def trained(self, settings: Candidate, n_trees: int, rows: Any) -> Any:
        """Train the job with other settings on some rows."""
        given = msgspec.structs.replace(
            self._job.settings, **settings, **{_TREES[self._job.spec.name]: n_trees}
        )
        job = msgspec.structs.replace(self._job, settings=given)
        asked = job.protocol_settings(self.schema.label.classes)
        chosen = {name: part for name, part in self._chosen(rows).items() if part.n_rows}
        running = Running(job.spec, given.n_jobs)
        channel, _ = connect(chosen, asked, running, {})
        found = job.spec.train(channel, asked, n_jobs=given.n_jobs, progress=silent)
        self.cost.n_trainings += 1
        for r in found.rounds:
            for party, n_bytes in r.bytes_up.items():
                self.cost.bytes_up[party] = self.cost.bytes_up.get(party, 0) + n_bytes
        return found.model

    def scored(self, model: Any, rows: Any) -> float:
        """Score a model on some rows of all parties together."""
        pairs = [
            predict_table(model, part, n_threads=thread_count(self._job.settings.n_jobs))
            for part in self._chosen(rows).values()
            if part.n_rows
        ]
        truth = np.concatenate([one for one, _ in pairs])
        said = np.concatenate([one for _, one in pairs])
        is_class = self.schema.label.kind == "class"
        return scores_of(truth, said, is_class=is_class).get(self.metric, 0.0)

    def _chosen(self, rows: Any) -> dict[str, MemoryTable]:
        return {
            name: self._tables[name].select(rows[(rows >= first) & (rows < end)] - first)
            for name, (first, end) in self._part.items()
        }


def tune(path: Path, grid: Mapping[str, Sequence[Any]] | None, n_folds: int) -> Tuned:
    """Search the settings of a job over rows; nothing is written."""
    job = load_job(path)
    work = _Work(job, _tables(job))
    if not 2 <= n_folds <= 20:
        raise SettingError(f"--folds must be between 2 and 20; got {n_folds}.")
    candidates = [dict(one) for one in ParameterGrid(dict(grid or GRIDS[job.spec.name]))]
    for one in candidates:  # report errors before anything is trained
        _refuse_unknown(job, one)
    began = time.perf_counter()
    n_trees = int(getattr(job.settings, _TREES[job.spec.name]) or 100)  # scikit-learn's default
    folds = PredefinedSplit(work.folds(n_folds, seed=0))
    search = HalvingGridSearchCV(
        _OfJob(work),
        {"settings": candidates},
        resource="n_trees",
        max_resources=n_trees,
        min_resources="exhaust",  # the last turn has all trees
        factor=3,
        cv=folds,
        refit=False,
        error_score="raise",
    )
    rows = np.arange(work.n_rows)[:, None]
    search.fit(rows)
    found = search.cv_results_
    tried = tuple(
        Tried(dict(s), int(n), round(float(mean), 6), round(float(spread), 6))
        for s, n, mean, spread in zip(
            found["param_settings"], found["n_resources"], found["mean_test_score"],
            found["std_test_score"], strict=True,
        )
    )  # fmt: skip
    last = max(one.n_trees for one in tried)
    before = [
        work.scored(work.trained({}, last, rows[train][:, 0]), rows[test][:, 0])
        for train, test in folds.split()
    ]
    best = max((one for one in tried if one.n_trees == last), key=lambda one: one.score)
    return Tuned(
        job.job.name,
        work.metric.upper() if work.metric == "auc" else "R2",
        n_folds,
        best.settings,
        best.score,
        round(float(np.mean(before)), 6),
        tried,
        work.cost.n_trainings,
        max(work.cost.bytes_up.values(), default=0),
        round(time.perf_counter() - began, 1),
    )


def _tables(job: JobFile) -> dict[str, MemoryTable]:
    """Return the parties' tables; raise if the job cannot be tuned."""
    if job.spec.name not in _TREES:
        raise SettingError(
            f"'spinney tune' searches settings of {', '.join(_TREES)}; this job's protocol is "
            f"{job.spec.name!r}."
        )
    if job.protocol_settings().privacy is not None:
        raise SettingError(
            "This job adds noise, and every training that tunes it would cost its epsilon again. "
            "Tune without epsilon on rows that are not secret, or measure one setting within a "
            "budget: cross_validate (docs/evaluation.md)."
        )
    tables, _ = tables_of(job, needs_ranges=job.spec.needs_ranges(job.protocol_settings()))
    if job.table is None:
        return tables
    first = next(iter(tables.values()))
    return deal_out(first, job.simulation, job.facts().parties, is_private=False).training


def _refuse_unknown(job: JobFile, candidate: Candidate) -> None:
    known = job.settings.__struct_fields__
    for name in candidate:
        if name not in known or name == _TREES[job.spec.name]:
            raise SettingError(
                f"--try names {name!r}, which is no setting to try. Known are: "
                f"{', '.join(sorted(set(known) - {_TREES[job.spec.name]}))}."
            )
