"""`spinney tune` over the parties of a federation: every training and every score is a job."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from spinney.deployment.client import run_job
from spinney.deployment.coordinator.runs import Status
from spinney.deployment.job import Agreed, evaluation_after, fold_of_job
from spinney.deployment.party.policy import Policy
from spinney.jobs.file import EvaluationConfig, JobFile, load_job
from spinney.jobs.tuning import (
    DEPLOYED_GRIDS,
    Candidate,
    Cost,
    Grid,
    Tuned,
    candidates_of,
    count_trainings,
    search,
    search_within,
    share_of,
)
from spinney.report.report import Report, load_report


class DeployedWork:
    """A federation's parties, and how they train and score on folds of their rows."""

    note = ""

    def __init__(self, job: JobFile, kit: Path, n_folds: int) -> None:
        self._job = job
        self._kit = kit
        self._n_folds = n_folds
        self.cost = Cost()

    @property
    def score(self) -> str:
        """The name of the score."""
        if self._job.job.task == "regression":
            return "R2"
        return "accuracy" if self._job.evaluation is None else "AUC"

    def trained(self, settings: Candidate, fold: int) -> tuple[Agreed, str]:
        """Train the job with other settings on the rows of all folds but one."""
        given = msgspec.structs.replace(self._job.settings, **settings)
        agreed = fold_of_job(
            msgspec.structs.replace(self._job, settings=given), fold, self._n_folds
        )
        status, report = self._ran(agreed)
        self.cost.add(report.bytes_up)
        return agreed, status.model

    def scored(self, trained: tuple[Agreed, str], fold: int) -> float:
        """Let the parties score the model on the rows of its fold."""
        del fold  # the training has left it out
        agreed, model = trained
        _, report = self._ran(evaluation_after(agreed, model, self._job.evaluation))
        if self._job.evaluation is None:
            assert report.explanation is not None
            return report.explanation.baseline
        assert report.evaluation is not None
        return report.evaluation.measured(self.score.lower()).value

    def _ran(self, agreed: Agreed) -> tuple[Status, Report]:
        with TemporaryDirectory() as folder:
            status = run_job(agreed, self._kit, Path(folder) / "run")
            return status, load_report(Path(folder) / "run")


def tune_deployed(
    path: Path,
    kit: Path,
    grid: Grid | None,
    n_folds: int,
    epsilon: float | None,
    *,
    remark: Callable[[str], None],
) -> Tuned:
    """Search the settings of a job with its real parties, each of whom must allow every job.

    `remark` is told before anything begins how many jobs that are.
    """
    job = load_job(path, deployed=True)
    candidates = candidates_of(job, grid, n_folds, epsilon, DEPLOYED_GRIDS)
    remark(_announced(count_trainings(job, candidates, n_folds, epsilon)))
    evaluation: Any = None
    if epsilon is not None:
        share = share_of(epsilon, candidates)
        evaluation = EvaluationConfig(epsilon=share)
        settings = msgspec.structs.replace(job.settings, epsilon=share)
        job = msgspec.structs.replace(job, settings=settings)
    work = DeployedWork(msgspec.structs.replace(job, evaluation=evaluation), kit, n_folds)
    if epsilon is None:
        return search(job, work, candidates, n_folds)
    return search_within(job, work, candidates, n_folds, epsilon)


def _announced(n_trainings: int) -> str:
    """Say how many jobs a search begins, and what the parties' policies make of that."""
    n_jobs, usual = 2 * n_trainings, Policy().jobs_per_hour
    said = (
        f"This search begins {n_jobs} jobs at every party: {n_trainings} trainings and their "
        f"scores. A policy lets so many begin within an hour as jobs_per_hour says ({usual} by "
        "default); the job after that is refused, and ends the search."
    )
    if n_jobs < usual:
        return said
    return f"{said} Ask the parties to allow more, or try fewer values or folds (--try, --folds)."
