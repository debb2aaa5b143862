"""`spinney simulate`: a job file over tables on this machine, with the code that deployed jobs run.

One table is dealt out to simulated parties, or each party has its own; from there on it is one
path: hold rows back, grow, judge, write.
"""

from pathlib import Path
from typing import cast

from spinney.protocols.settings import ForestSettings, Task
from spinney.service.comparison import Comparison, Running, compare
from spinney.service.config import JobFile, load_job
from spinney.service.folder import require_writable, write_run
from spinney.service.outcome import Outcome, outcome_of
from spinney.service.progress import Stages
from spinney.service.rows import dealt_out, own_tables
from spinney.service.settings import forest_settings
from spinney.service.sources import tables_of
from spinney.tables.schema import Category


def simulate(path: Path, folder: Path | None, stages: Stages) -> Outcome:
    """Run a job file and write its model and report.

    Parameters
    ----------
    path
        The job file.
    folder
        Where to write. Default: runs/ and the job's name, here.
    stages
        What is told of the progress.
    """
    job = load_job(path)
    into = Path("runs") / job.job.name if folder is None else folder
    require_writable(into)
    settings_of(job)  # what is wrong with them is said before a table is opened
    stages.begin("reading tables")
    tables = tables_of(job)
    first = next(iter(tables.values()))
    settings = settings_of(job, first.schema.label.classes)
    if job.table is not None:
        parties = dealt_out(first, job.simulation)
    else:
        parties = own_tables(tables, job.simulation)
    running = Running(job.settings.n_jobs, bool(job.settings.secure_sum))
    return written(job.job.name, compare(parties, settings, running, stages), into)


def written(name: str, comparison: Comparison, folder: Path) -> Outcome:
    """Write the joint forest and its report, and return what the comparison amounts to."""
    report = comparison.report()
    write_run(folder, comparison.training.model, report)
    return outcome_of(name, comparison, report, folder)


def settings_of(job: JobFile, classes: tuple[Category, ...] | None = None) -> ForestSettings:
    """Return the settings of a job; without classes only what can be said without them."""
    task = cast("Task", job.job.task)
    given = job.settings
    if classes is None and isinstance(given.class_weight, dict):
        return forest_settings(given, task, tuple(given.class_weight))
    return forest_settings(given, task, classes or ())
