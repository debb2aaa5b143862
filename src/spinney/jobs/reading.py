"""Read rows without labels as a job's [table] reads its rows: by the same query."""

from pathlib import Path

from spinney.errors import SettingError
from spinney.jobs.file import load_job
from spinney.tables.files import name_in_sql, text_in_sql
from spinney.tables.readers import Source
from spinney.tables.schema import Schema
from spinney.tables.withheld import is_withheld


def reading_query(path: Path, source: Source, schema: Schema) -> str | None:
    """Return the query of a job's [table], for a file that may lack labels and ids.

    The label of every row is set to some value: it is not read, and a query that leaves out rows
    without a label keeps them all.
    """
    job = load_job(path)
    if job.table is None:
        raise SettingError(
            f"{path.name!r} has a table for each party and no [table], so it does not say how to "
            "read this file. Name a job file with one [table]."
        )
    if job.table.query is None or source.format == "sql":
        return source.query
    label = job.table.label or job.schema.label or schema.label.name
    found = Source(source.format, source.path).stream().names()
    added = {label: _some_label(schema)}
    if job.table.row_id is not None and job.table.row_id not in found:
        added[job.table.row_id] = "NULL"
    told = [f"{value} AS {name_in_sql(name)}" for name, value in added.items()]
    kept = [name_in_sql(name) for name in found if name not in added]
    return (
        f"WITH source AS (SELECT {', '.join([*kept, *told])} FROM temp.main.source) "  # noqa: S608
        f"SELECT * FROM ({job.table.query})"
    )


def _some_label(schema: Schema) -> str:
    """Return a label that the query of a training keeps, in SQL."""
    known = [one for one in schema.label.classes or () if not is_withheld(one)]
    if not known:
        return "0"
    return text_in_sql(known[0]) if isinstance(known[0], str) else f"{known[0]}".lower()
