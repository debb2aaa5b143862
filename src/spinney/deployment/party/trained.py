"""Whether a model that is to be evaluated, or to predict, is of a training of this party.

The lead's command starts such a job only with the job file of the training. A lead can write the
job by hand, and choose which rows are judged by a share and a seed: a share of one row reads that
row, whatever masks and leaves the training had. So the party compares the jobs itself.
"""

from pathlib import Path
from typing import Final

from spinney.deployment.evaluation import digest_of
from spinney.deployment.job import EVALUATE, PREDICT, Agreed
from spinney.deployment.party.guard import RunRecord
from spinney.errors import PolicyError
from spinney.report.file_names import MODEL

_DONE: Final = {EVALUATE: "evaluated", PREDICT: "predicted with"}


def require_trained_here(records: Path, job: Agreed) -> None:
    """Raise unless a run of this party left the model, and was of the job that is asked about."""
    runs = records / "runs"
    if job.kind == PREDICT:
        found = [runs / job.model]
    else:
        kept = runs.glob(f"*/{MODEL}")
        found = [path.parent for path in kept if digest_of(path.read_bytes()) == job.model]
    found = [folder for folder in found if folder.is_dir()]
    if not found:  # trees that somebody invents count the rows in any box that he likes
        raise PolicyError(
            f"This party has not trained the model that is to be {_DONE[job.kind]}: no run in its "
            "records has kept it. Nothing was released."
        )
    if job.trainings.isdisjoint(RunRecord(folder).get("job") for folder in found):
        raise PolicyError(
            f"This party trained the model that is to be {_DONE[job.kind]} in a job with other "
            "settings, columns or parties, or that held back other rows. Nothing was released. Use "
            "the job file of the training."
        )
