"""A table file as a job with default settings: `spinney simulate FILE --label ...`."""

import warnings
from pathlib import Path
from typing import Final

from spinney.errors import SettingError, SpinneyWarning
from spinney.jobs.checking.draft import dates_of, job_name, query_of
from spinney.jobs.checking.notes import Choices, Note
from spinney.jobs.checking.table import Checked, check_table, is_table
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
from spinney.tables.schema import join_words

_ID = "is unique in every row; it was left out as an identifier."


BY_LABEL: Final = "Say which of its columns to predict: --label NAME."
BY_DRAFT: Final = "Draft one from it: spinney check FILE --label NAME --write job.toml."


def require_no_table(path: Path, advice: str = BY_LABEL) -> None:
    """Raise if a table was given instead of a job file."""
    if is_table(path):
        raise SettingError(f"{path.name!r} is a table, not a job file. {advice}")


def job_of_table(path: Path, label: str, task: str, choices: Choices) -> JobFile:
    """Return the job that deals out one file to five parties, with default settings.

    The table is checked first. What is left out or read otherwise is told in warnings.
    """
    checked = check_table(path, label, task, choices)
    for sentence in told(checked):
        warnings.warn(sentence, SpinneyWarning, stacklevel=2)
    given = {
        "job": {"name": job_name(checked), "task": task},
        "schema": {"label": label, **({"dates": dates} if (dates := dates_of(checked)) else {})},
        "table": _table(checked),
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


def _table(checked: Checked) -> dict[str, object]:
    """Return the [table] section; a table that reads as it is needs no query and no list."""
    found: dict[str, object] = {"source": checked.source, "path": checked.path.name}
    query = query_of(checked)
    if query is not None:
        found["query"] = query
    if query is not None or len(checked.used) < len(checked.columns):
        found["columns"] = tuple(use.name for use in checked.used)
    names = (use.name for use in checked.used)
    if checked.row_id is not None and checked.row_id not in names:
        found["row_id"] = checked.row_id
    return found


def told(checked: Checked) -> list[str]:
    """Return a sentence or two for each finding; several identifiers share theirs."""
    notes: list[Note] = [note for note in checked.notes if not note.seen.endswith(_ID)]
    ids = [note.column for note in checked.notes if note.seen.endswith(_ID)]
    sentences = [str(note) for note in notes]
    if len(ids) == 1:
        sentences.append(
            f"Column {ids[0]!r} {_ID} To use it, list it among the columns of a job file."
        )
    elif ids:
        names = join_words(map(repr, ids))
        sentences.append(
            f"Columns {names} are unique in every row; they were left out as identifiers. To use "
            "them, list them among the columns of a job file."
        )
    return sentences
