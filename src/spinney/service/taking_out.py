"""`spinney model export` and `spinney model predict`: a model put to use outside."""

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import duckdb
import msgspec

from spinney.errors import PolicyError, SettingError, StorageError
from spinney.estimators.models import load_model
from spinney.estimators.to_onnx import onnx_forest
from spinney.estimators.to_treelite import treelite_forest
from spinney.protocols.model import ForestModel
from spinney.report.hardening import hardened
from spinney.report.release import Hardening
from spinney.report.report import Report, load_report
from spinney.report.run_folder import MODEL, PAGE, REPORT, file_in
from spinney.service.folder import for_page
from spinney.tables.schema import listed
from spinney.trees.storage import write_whole

FORMATS = ("onnx", "treelite", "spinney")

Wanted = Callable[[Hardening], Hardening]
"""What the command line changes in the terms that hold by default."""


def exported(
    source: Path, target: Path, form: str, wanted: Wanted, party: str | None = None
) -> tuple[str, ...]:
    """Write a model in another form, hardened; return what was done to it.

    What a run's parties agreed on is kept to. Of a model that holds a tree for each party, that of
    `party` is written.
    """
    if form not in FORMATS:
        raise SettingError(f"--to must be one of {', '.join(FORMATS)}; got {form!r}.")
    whole = ForestModel.load(file_in(source, MODEL))
    if whole.owners and party is None:
        raise SettingError(
            f"This model holds a tree for each party. Say whose, with --party: "
            f"{', '.join(whole.owners)}."
        )
    report = load_report(source) if (source / REPORT).is_file() else None
    against = [] if report is None else [one.party for one in report.holders if not one.consents]
    if against:
        raise PolicyError(
            f"{listed(map(repr, against))} did not consent to join its part with the others'. A "
            "vertical forest leaves its parties only if all of them agree: a job with "
            "join_parts = true asks them."
        )
    how = wanted(Hardening() if report is None or report.release is None else report.release)
    if report is not None and report.release is not None:
        how.require_within(report.release)
    model, done = hardened(whole if party is None else whole.of_owner(party), how)
    if form == "onnx":
        write_whole(target, onnx_forest(model).SerializeToString())
    elif form == "treelite":
        write_whole(target, treelite_forest(model).serialize_bytes())
    else:
        model.save(target)
    if report is not None:
        _note_export(source, whole, report, f"{_what_left(whole, target, form)}: {_told(done)}")
    return done


def _what_left(model: ForestModel, target: Path, form: str) -> str:
    agreed = f", with the consent of {' and '.join(model.consent)}" if model.consent else ""
    return f"taken out as {target.name} ({form}{agreed})"


def _told(done: tuple[str, ...]) -> str:
    return "; ".join(done) or "as it is"


def _note_export(folder: Path, model: ForestModel, before: Report, told: str) -> None:
    """Write into a run's report what left, and how it was hardened."""
    report = msgspec.structs.replace(before, hardened=(*before.hardened, told))
    report.save(folder / REPORT)
    report.to_html(folder / PAGE, for_page(model, report.release)[0])


def predict_file(source: Path, table: Path, out: Path | None) -> tuple[str, int]:
    """Predict every row of a file; return the predictions as CSV, and how many there are."""
    text = StringIO()
    n_rows = _predict(source, table, text)
    if out is not None:
        write_whole(out, text.getvalue().encode())
    return text.getvalue(), n_rows


def _predict(source: Path, table: Path, out: TextIO) -> int:
    model = load_model(source)
    names = model.model_.schema.names
    frame = _columns(table, names)
    writer = csv.writer(out, lineterminator="\n")
    label = model.model_.schema.label.name
    if hasattr(model, "classes_"):
        shares = model.predict_proba(frame)
        writer.writerow([label, *(f"share of {name}" for name in model.classes_)])
        best = model.classes_.take(shares.argmax(axis=1))
        rows: Any = ([one, *map(repr, row)] for one, row in zip(best, shares.tolist(), strict=True))
    else:
        writer.writerow([label])
        rows = ([repr(value)] for value in model.predict(frame).tolist())
    writer.writerows(rows)
    return len(frame)


def _columns(table: Path, names: tuple[str, ...]) -> Any:
    """Return the model's columns of a file, as a pyarrow table."""
    if not table.is_file():
        raise StorageError(f"Cannot read {str(table)!r}: there is no such file. Check the path.")
    reader = "read_parquet(?)" if table.suffix == ".parquet" else "read_csv(?)"
    connection = duckdb.connect()
    try:
        relation = connection.execute(f"select * from {reader}", [str(table)])  # noqa: S608  fixed texts
        found = relation.to_arrow_table()
    except duckdb.Error as error:
        raise StorageError(
            f"{str(table)!r} is not a CSV or Parquet file that can be read.", local=str(error)
        ) from None
    finally:
        connection.close()
    missing = [name for name in names if name not in found.column_names]
    if missing:
        raise StorageError(
            f"{str(table)!r} has no column {missing[0]!r}, which the model asks for. "
            f"It has: {', '.join(found.column_names)}."
        )
    return found.select(list(names))
