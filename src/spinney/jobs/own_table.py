"""A file of one's own as a job: `spinney simulate FILE --label ...`, all else by default."""

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
    """Raise where a table was given in place of a job file."""
    if path.suffix in {".csv", ".parquet"}:
        raise SettingError(
            f"{path.name!r} is a table, not a job file. Say which of its columns to predict: "
            "--label NAME."
        )


def job_of_table(path: Path, label: str, task: str) -> JobFile:
    """Return the job that deals one file out to five parties, all else by default."""
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
    """Return the job of a table without columns that only tell its rows apart, and say so.

    A tree that asks for a patient's number learns its rows by heart. A job file says itself which
    columns to use, and is left as it is.
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
    warnings.warn(
        f"In {join_words(map(repr, ids))} every row has a value of its own, as in an id: the forest "
        "does not ask for that. To have it asked, list it among a job file's columns.",
        SpinneyWarning,
        stacklevel=2,
    )
    changed = msgspec.structs.replace(table, row_id=ids[0], columns=rest)
    return msgspec.structs.replace(job, table=changed)


def _tells_rows_apart(source: Source, name: str, found: Findings, n_rows: int) -> bool:
    """Whether every row has a text of its own, or a number that counts the rows."""
    if found.seen:
        return len(found.seen) == n_rows > 1
    if found.range is None or found.range[1] - found.range[0] != n_rows - 1:
        return False
    frames = source.stream().frames([name], BATCH_ROWS)
    numbers = np.concatenate([frame.cells[0].numbers() for frame in frames])
    return np.unique(numbers).size == n_rows > 1 and bool(np.all(numbers == np.rint(numbers)))
