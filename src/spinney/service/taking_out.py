"""`spinney model export` and `spinney model predict`: a model put to use outside."""

import csv
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import duckdb
import msgspec

from spinney.errors import SettingError, StorageError
from spinney.estimators.models import load_model
from spinney.estimators.to_onnx import onnx_forest
from spinney.estimators.to_treelite import treelite_forest
from spinney.protocols.model import ForestModel
from spinney.report.hardening import Hardening, hardened
from spinney.report.report import load_report
from spinney.report.run_folder import MODEL, PAGE, REPORT, file_in
from spinney.trees.storage import write_whole

FORMATS = ("onnx", "treelite", "spinney")


def exported(
    source: Path, target: Path, form: str, hardening: Hardening, party: str | None = None
) -> tuple[str, ...]:
    """Write a model in another form, hardened as asked; return what was done to it.

    Of a model that holds a tree for each party, that of `party` is written.
    """
    if form not in FORMATS:
        raise SettingError(f"--to must be one of {', '.join(FORMATS)}; got {form!r}.")
    whole = ForestModel.load(file_in(source, MODEL))
    if whole.owners and party is None:
        raise SettingError(
            f"This model holds a tree for each party. Say whose, with --party: "
            f"{', '.join(whole.owners)}."
        )
    model, done = hardened(whole if party is None else whole.of_owner(party), hardening)
    if form == "onnx":
        write_whole(target, onnx_forest(model).SerializeToString())
    elif form == "treelite":
        write_whole(target, treelite_forest(model).serialize_bytes())
    else:
        model.save(target)
    if (source / REPORT).is_file():
        _note_export(source, whole, f"taken out as {target.name} ({form})", done)
    return done


def _note_export(folder: Path, model: ForestModel, what: str, done: tuple[str, ...]) -> None:
    """Write into a run's report what left, and how it was hardened."""
    told = f"{what}: {'; '.join(done) or 'as it is'}"
    before = load_report(folder)
    report = msgspec.structs.replace(before, hardened=(*before.hardened, told))
    report.save(folder / REPORT)
    report.to_html(folder / PAGE, model)


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
