"""`spinney simulate`: run a job file over local tables, with the code that deployed jobs run.

One table is dealt out to simulated parties, or each party has its own. The steps are then the same:
hold back rows, train, score, write.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from spinney.errors import SettingError
from spinney.jobs.careful import weaker_than_default
from spinney.jobs.checking.notes import Choices
from spinney.jobs.file import JobFile, load_job
from spinney.jobs.own_table import job_of_table, require_no_table
from spinney.jobs.rows import Parties, deal_out, own_tables, warn_of_shared_rows
from spinney.jobs.tables import tables_of
from spinney.protocols.release_terms import Hardening
from spinney.protocols.settings import outside_of, with_read_facts
from spinney.protocols.spec import is_blind, is_masked
from spinney.report.facts import Subject
from spinney.report.file_names import PAGE, RUNS
from spinney.report.hardening import withhold
from spinney.report.run_folder import free_folder, require_no_run, require_writable, write_run
from spinney.simulation.columns import compare_columns
from spinney.simulation.comparison import Comparison, Running, compare
from spinney.simulation.evolved import compare_personal
from spinney.simulation.outcome import Outcome, outcome_of
from spinney.simulation.progress import Stages
from spinney.simulation.unfinished import EndedEarlyError
from spinney.tables.undeclared import require_common_classes, undeclared_rows


def simulate(
    path: Path,
    folder: Path | None,
    stages: Stages,
    label: str | None = None,
    task: str = "classification",
    *,
    choices: Choices | None = None,
) -> Outcome:
    """Run a job file and write its model and report.

    Parameters
    ----------
    path
        The job file; with `label`, a table.
    folder
        The folder to write to; it must hold no run. Default: runs/ and the job's name, in the
        current folder, with a number behind the name if that folder holds a run.
    stages
        Receives the progress.
    label, task
        For a table: the column to predict, and the kind of prediction.
    choices
        For a table: what the user says about its cells.
    """
    if label is None:
        require_no_table(path)
        job = load_job(path)
    else:
        stages.begin("checking the table")
        job = job_of_table(path, label, task, choices or Choices())
    into = Path(RUNS) / job.job.name if folder is None else folder
    require_writable(into)
    if folder is not None:
        require_no_run(folder)
    job.protocol_settings()  # report errors before a table is opened
    stages.begin("reading tables")
    try:
        comparison = compare_job(job, stages)
    except EndedEarlyError as ended:
        into = free_folder(into)
        write_run(into, None, ended.report)
        stages.remark(f"Training stopped early. Report of the completed rounds: {into / PAGE}")
        raise ended.reason from None
    return write_outcome(job.job.name, comparison, into, job)


def compare_job(job: JobFile, stages: Stages) -> Comparison:
    """Read a job's tables, train its forests and score them."""
    spec, asked = job.spec, job.protocol_settings()
    if job.evaluation is not None and spec.leaves != "one model":
        raise SettingError(
            f"[evaluation] is for one model that all parties have; protocol = {spec.name!r} leaves "
            f"{spec.leaves}. Drop it."
        )
    is_blind(spec, job.settings, asked, n_parties=2)  # refuses an impossible job at once
    if spec.divides == "columns":
        return replace(compare_columns(job, stages), release=job.release or Hardening())
    parties, settings, running = prepare(job)
    compare_all = compare_personal if job.spec.leaves == "own models" else compare
    found = compare_all(parties, settings, running, stages)
    schema = found.training.model.schema
    counted = undeclared_rows(parties.training.values(), schema, parties.read_facts)
    return replace(found, undeclared=counted, release=running.release)


def prepare(job: JobFile) -> tuple[Parties, Any, Running]:
    """Read the tables of a job over rows; return its parties, its settings and how it runs."""
    spec, asked = job.spec, job.protocol_settings()
    outside = outside_of(asked.privacy)
    tables, read_facts = tables_of(job, needs_ranges=spec.needs_ranges(asked), outside=outside)
    first = next(iter(tables.values()))
    settings = job.protocol_settings(first.schema.label.classes)
    settings = with_read_facts(settings, read_facts)
    is_private = settings.privacy is not None
    release = job.release or Hardening()
    if is_private:
        targets = [table.target for table in tables.values()]
        require_common_classes(first.schema.label, targets, read_facts, release.smallest_leaf)
    if job.table is not None:
        parties = deal_out(first, job.simulation, job.facts().parties, is_private=is_private)
    else:
        parties = own_tables(tables, job.simulation, is_private=is_private)
        if spec.repeats_rows(settings):  # otherwise every tree reads every row
            warn_of_shared_rows(tables)
    parties = replace(parties, read_facts=read_facts)
    given = job.settings
    blind = is_blind(spec, given, settings, len(parties.rows))
    running = Running(
        spec,
        given.n_jobs,
        is_masked(given, settings),
        given.honest,
        blind,
        job.evaluation,
        release,
    )
    return parties, settings, running


def write_outcome(
    name: str, comparison: Comparison, folder: Path, job: JobFile | None = None
) -> Outcome:
    """Write the joint forest and its report, never over another run's; return the outcome."""
    folder = free_folder(folder)
    release, weaker = Hardening(), tuple[str, ...]()
    if job is not None:
        release = job.release or release
        settings, n_parties = job.protocol_settings(job.schema.classes), len(job.facts().parties)
        weaker = weaker_than_default(job.spec, job.settings, settings, n_parties, release)
    report = msgspec.structs.replace(
        comparison.report(),
        release=release,
        weaker=weaker,
        simulated=True,
        subject=_subject(name, comparison, release, () if job is None else job.schema.date_columns),
    )
    write_run(folder, comparison.model, report)
    return outcome_of(name, comparison, report, folder)


def _subject(
    name: str, comparison: Comparison, release: Hardening, dates: tuple[str, ...]
) -> Subject:
    """Return what a simulated run was about; parties of a vertical job hold the same rows."""
    shown, _ = withhold(comparison.model, release.smallest_leaf)
    sizes = [party.n_training + party.n_held_out for party in comparison.parties]
    n_rows = max(sizes) if comparison.shares_rows else sum(sizes)
    return Subject.of(name, shown.schema, n_rows, dates=dates)
