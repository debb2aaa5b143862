"""`spinney model export` and `spinney model predict`: use a model outside the federation."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import msgspec
import pyarrow as pa

from spinney.errors import PolicyError, SchemaError, SettingError, StorageError, TableError
from spinney.estimators.models import load_model
from spinney.estimators.to_lightgbm import lightgbm_text
from spinney.estimators.to_onnx import onnx_forest
from spinney.estimators.to_treelite import treelite_forest
from spinney.files import write_whole
from spinney.jobs.checking.table import source_at
from spinney.jobs.reading import reading_query
from spinney.protocols.home import StoredFit
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.report.audit_limits import refuse_failed
from spinney.report.audited import audit_in
from spinney.report.door import release
from spinney.report.file_names import CANDIDATE, MODEL, PAGE, REPORT, file_in
from spinney.report.report import Report, load_report
from spinney.tables.readers import NOTHING
from spinney.tables.schema import Label, Schema, join_words
from spinney.tables.table import BATCH_ROWS

FORMATS = ("onnx", "treelite", "lightgbm", "spinney")
_READ_OTHERWISE = (
    "If the training read such cells by a query, as a job file of 'spinney check --write' does, "
    "read this file in the same way: --job JOB.toml."
)
Wanted = Callable[[Hardening], Hardening]
"""The terms that the command line changes from their defaults."""


def export_model(
    source: Path, target: Path, form: str | None, wanted: Wanted, party: str | None = None
) -> tuple[str, ...]:
    """Write a hardened model in another format; return a description of each change.

    The export keeps to what a run's parties agreed. From a model with one tree per party, it
    writes the tree of `party`.
    """
    form = _form_of(target, form)
    _require_new(target)
    file = file_in(source, MODEL)
    if file.name == CANDIDATE or (not file.is_file() and file.with_name(CANDIDATE).is_file()):
        raise PolicyError(
            "This model has not left its run: it waits until every audit of it has passed. Audit "
            "it, and resume the run. Nothing was written."
        )
    whole = ForestModel.load(file)
    if whole.owners and party is None:
        raise SettingError(
            f"This model holds one tree per party. Choose one with --party: "
            f"{', '.join(whole.owners)}."
        )
    report = load_report(source) if (source / REPORT).is_file() else None
    against = [] if report is None else [one.party for one in report.holders if not one.consents]
    if against:
        raise PolicyError(
            f"{join_words(map(repr, against))} did not consent to joining the parts. A vertical "
            "forest leaves its parties only if all of them consent; a job with join_parts = true "
            "asks them."
        )
    refuse_failed(source if source.is_dir() else source.parent, whole.to_bytes())
    agreed = whole.released if report is None or report.release is None else report.release
    how = wanted(agreed or Hardening())
    if agreed is not None:
        how.require_within(agreed)
    model, done = release(whole if party is None else whole.of_owner(party), how)
    if not done and model.released is not None:
        done = (f"before it left its run, with {model.released.in_words()}",)
    if form == "onnx":
        write_whole(target, onnx_forest(model).SerializeToString())
    elif form == "treelite":
        write_whole(target, treelite_forest(model).serialize_bytes())
    elif form == "lightgbm":
        write_whole(target, lightgbm_text(model).encode())
    else:
        model.save(target)
    if report is not None:
        _note_export(source, whole, report, f"{_what_left(whole, target, form)}: {_told(done)}")
    return done


def _require_new(target: Path) -> None:
    if target.exists():
        raise SettingError(
            f"{str(target)!r} exists, and Spinney overwrites nothing. Name another file."
        )


def _form_of(target: Path, given: str | None) -> str:
    """Return the format that the user names, or that the file's name tells."""
    told = target.suffix.lower().removeprefix(".")
    if given is None and told in FORMATS:
        return told
    if given is None:
        raise SettingError(
            f"The name {target.name!r} does not tell a format. End it with "
            f"{' or '.join(f'.{one}' for one in FORMATS)}, or name the format with --to."
        )
    if given not in FORMATS:
        raise SettingError(f"--to must be one of {', '.join(FORMATS)}; got {given!r}.")
    if told in FORMATS and told != given:
        raise SettingError(
            f"The name {target.name!r} says {told}, but --to says {given}. Change one of them."
        )
    return given


def _what_left(model: ForestModel, target: Path, form: str) -> str:
    agreed = f", with the consent of {' and '.join(model.consent)}" if model.consent else ""
    return f"exported as {target.name} ({form}{agreed})"


def _told(done: tuple[str, ...]) -> str:
    return "; ".join(done) or "as it is"


def _note_export(folder: Path, model: ForestModel, before: Report, told: str) -> None:
    """Record in a run's report what left, and how it was hardened."""
    report = msgspec.structs.replace(before, hardened=(*before.hardened, told))
    report.save(folder / REPORT)
    report.to_html(folder / PAGE, model, audit_in(folder))


def predict_file(
    source: Path,
    table: Path,
    out: Path | None,
    *,
    unknown: str = "refuse",
    job: Path | None = None,
    home: Path | None = None,
) -> tuple[str, int]:
    """Predict every row of a file; return the predictions as CSV and the number of rows.

    `unknown` says what happens to categories that the model does not know: "refuse" or
    "as_missing". The file is read as the [table] of `job`, if one is given; `home` is a party's fit
    of the model.
    """
    if not table.is_file():
        raise StorageError(f"Cannot read {str(table)!r}: there is no such file. Check the path.")
    text = StringIO()
    n_rows = _predict(_loaded(source, unknown, home), table, text, job)
    if out is not None:
        _require_new(out)
        write_whole(out, text.getvalue().encode())
    return text.getvalue(), n_rows


def _loaded(source: Path, unknown: str, home: Path | None) -> Any:
    """Return the estimator that predicts, with a party's fit if there is one."""
    model = load_model(source).set_params(unknown_categories=unknown)
    if home is not None:
        model.model_ = StoredFit.load(home).of_model(file_in(source, MODEL))
    return model


def _predict(model: Any, table: Path, out: TextIO, job: Path | None) -> int:
    schema = model.model_.schema
    writer = csv.writer(out, lineterminator="\n")
    has_classes = hasattr(model, "classes_")
    shares_of = [f"share of {name}" for name in model.classes_] if has_classes else []
    writer.writerow([schema.label.name, *shares_of])
    n_rows = 0
    for frame in _frames(table, schema, job):
        n_rows += len(frame)
        if has_classes:
            shares = model.predict_proba(frame)
            best = model.classes_.take(model.model_.decided(shares))
            pairs = zip(best, shares.tolist(), strict=True)
            writer.writerows([one, *map(repr, row)] for one, row in pairs)
        else:
            writer.writerows([repr(value)] for value in model.predict(frame).tolist())
    if not n_rows:
        raise TableError(f"{str(table)!r} has no rows. Check the file.")
    return n_rows


def _frames(table: Path, schema: Schema, job: Path | None) -> Iterator[pa.Table]:
    """Yield the model's columns of a file in batches of rows, read as in training."""
    # The label column is not read, because it is unknown at prediction.
    own = Schema(schema.columns, Label(NOTHING, "number"))
    source = source_at(table)
    if job is not None:
        source = replace(source, query=reading_query(job, source, schema))
    stream = source.stream(own)
    found = stream.names()
    missing = [name for name in schema.names if name not in found]
    if missing:
        raise StorageError(
            f"{str(table)!r} has no column {missing[0]!r}, which the model needs. "
            f"It has: {', '.join(found)}."
        )
    try:
        for frame in stream.frames(schema.names, BATCH_ROWS):
            columns = [cells.data for cells in frame.cells]
            yield pa.table(columns, names=list(schema.names))
    except SchemaError as error:  # cells that are not what the model's columns are
        if job is not None:
            raise
        raise SchemaError(f"{error.public} {_READ_OTHERWISE}", local=error.local) from None
