"""A table file as a job with default settings: `spinney simulate FILE --label ...`."""

import re
import warnings
from pathlib import Path

import msgspec
import numpy as np

from spinney.errors import SettingError, SpinneyWarning
from spinney.jobs.file import (
    JobConfig,
    JobFile,
    PartyConfig,
    SchemaConfig,
    SimulationConfig,
    TableConfig,
    settings_section,
)
from spinney.jobs.registry import spec_of
from spinney.jobs.sections import section, sections
from spinney.jobs.tables import source_of
from spinney.tables.describe import Findings
from spinney.tables.readers import Source, findings_of_source
from spinney.tables.schema import LabelKind, join_words
from spinney.tables.table import BATCH_ROWS


def require_no_table(path: Path) -> None:
    """Raise if a table was given instead of a job file."""
    if path.suffix in {".csv", ".parquet"}:
        raise SettingError(
            f"{path.name!r} is a table, not a job file. Say which of its columns to predict: "
            "--label NAME."
        )


def job_of_table(path: Path, label: str, task: str) -> JobFile:
    """Return the job that deals out one file to five parties, with default settings."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip(".-") or "table"
    source = "parquet" if path.suffix == ".parquet" else "csv"
    given = {
        "job": {"name": name, "task": task},
        "schema": {"label": label},
        "table": {"source": source, "path": path.name},
    }
    where = f"{path.name!r}"
    return JobFile(
        folder=path.parent,
        job=section(given, "job", JobConfig, where),
        settings=settings_section(given, spec_of("horizontal_forest"), where),
        schema=section(given, "schema", SchemaConfig, where),
        table=section(given, "table", TableConfig, where),
        parties=sections(given, "party", PartyConfig, where),
        simulation=section(given, "simulation", SimulationConfig, where),
    )


def without_ids(job: JobFile, table: TableConfig, label: str) -> JobFile:
    """Return the job of a table without its identifier columns, and warn if there are any.

    A tree that splits on a patient's number memorises its rows. A job file says itself which
    columns to use, and is not changed.
    """
    source = source_of(table, job.folder)
    kind: LabelKind = "class" if job.job.task == "classification" else "number"
    found = findings_of_source(source, label, kind)
    ids = [
        name
        for name, findings in found.columns.items()
        if _tells_rows_apart(source, name, findings, found.n_rows)
    ]
    rest = tuple(name for name in found.columns if name not in ids)
    if not ids or not rest:
        return job
    names = join_words(map(repr, ids))
    warnings.warn(
        f"Column {names} is unique in every row; it was left out as an identifier. To use it, "
        "list it among the columns of a job file."
        if len(ids) == 1
        else f"Columns {names} are unique in every row; they were left out as identifiers. To use "
        "them, list them among the columns of a job file.",
        SpinneyWarning,
        stacklevel=2,
    )
    changed = msgspec.structs.replace(table, row_id=ids[0], columns=rest)
    return msgspec.structs.replace(job, table=changed)


def _tells_rows_apart(source: Source, name: str, found: Findings, n_rows: int) -> bool:
    """Return whether every row has a different text, or a number that counts the rows."""
    if found.seen:
        return len(found.seen) == n_rows > 1
    if found.range is None or found.range[1] - found.range[0] != n_rows - 1:
        return False
    frames = source.stream().frames([name], BATCH_ROWS)
    numbers = np.concatenate([frame.cells[0].numbers() for frame in frames])
    return np.unique(numbers).size == n_rows > 1 and bool(np.all(numbers == np.rint(numbers)))
