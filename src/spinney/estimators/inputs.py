"""Turn the arguments of `fit` and `predict` into tables of parties."""

import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import column_or_1d, validate_data

from spinney.errors import (
    PrivacyLeakWarning,
    SchemaError,
    SettingError,
    SpinneyWarning,
    TableError,
)
from spinney.tables.cells import cells_of
from spinney.tables.describe import complete_schema, declare, describe
from spinney.tables.digits import loses_digits, lost_digits, require_digits
from spinney.tables.frames import cells_of_columns, columns_of, encode_target
from spinney.tables.names import feature_names
from spinney.tables.opening import Frame, open_frame
from spinney.tables.outside import (
    Changes,
    Outside,
    changed_columns,
    changed_target,
    draws_of,
    warn_of_changes,
)
from spinney.tables.schema import LabelKind, Schema, join_words
from spinney.tables.table import MemoryTable
from spinney.tables.undeclared import are_classes_read
from spinney.tables.withheld import FEW_ROWS
from spinney.typing import Floats, Integers

_FEW = 1 << 16  # different labels that are counted instead of sorted

_MOST_SPARSE_CELLS = 1 << 28
_NAMED_FACTS = 20  # the number of facts that a warning lists


@dataclass(frozen=True)
class FitInput:
    """A checked table, the given label, and the public facts that were read from the data."""

    table: MemoryTable
    labels: NDArray[Any]
    read_facts: tuple[str, ...]


def fit_input(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    *,
    is_classifier: bool,
    needs_ranges: bool,
    schema: Schema | dict[str, Any] | None,
    categorical_features: Any,
    is_private: bool = False,
    outside: Outside = "refuse",
    n_threads: int | None = None,
    sample_weight: Any = None,
) -> FitInput:
    """Check X and y and return them as one table; `n_threads` threads hash its rows.

    `outside` says what happens to values that a declared schema does not allow.
    """
    takes_all = schema is not None and outside != "refuse"
    X = check_features(estimator, X, categorical_features, reset=True, allows_infinity=takes_all)
    labels = _checked_labels(y, X, is_classifier=is_classifier)
    kind: LabelKind = "class" if is_classifier else "number"
    if isinstance(schema, dict):
        name = _name_of(y, X) or "y"
        schema = declare(X, name, kind, schema, categorical_features=categorical_features)
    if schema is not None and is_private:
        _require_facts(schema)
    if schema is None or _lacks_facts(schema, needs_ranges=needs_ranges):
        found, facts = describe(
            X,
            labels,
            categorical_features=categorical_features,
            label_kind=kind,
            label_name=_name_of(y, X),
            declared=[c.name for c in schema.columns if c.categories] if schema else (),
            with_ranges=needs_ranges,
        )
        if schema is None:
            schema = found
        else:
            schema, facts = complete_schema(schema, found)
    else:
        facts = ()
    if schema.label.kind != kind:
        raise SettingError(
            f"The schema's label {schema.label.name!r} is a {schema.label.kind}; "
            f"{type(estimator).__name__} needs a {kind}."
        )
    _require_order(X, schema)
    _tell_of_lost_digits(X, labels, kind)
    if takes_all and not facts:
        table = _changed_table(X, labels, schema, outside, n_threads)
    else:
        columns = columns_of(X, schema)
        target = encode_target(labels, schema.label)
        weight = _checked_weights(sample_weight, labels.size)
        table = MemoryTable(schema, columns, target, n_threads=n_threads, weight=weight)
    return FitInput(table, labels, facts)


def _changed_table(
    X: Any, labels: Any, schema: Schema, outside: Outside, n_threads: int | None
) -> MemoryTable:
    """Return a private job's table, changed where the schema does not allow it; warn of that."""
    changes: Changes = Counter()
    columns = changed_columns(cells_of_columns(X, schema), schema, changes)
    draws = draws_of(columns.values(slice(None)), None)
    target, kept = changed_target(cells_of(labels), schema.label, draws, outside, changes)
    warn_of_changes(changes)
    rows = None if kept.all() else np.flatnonzero(kept)
    return MemoryTable(schema, columns, target, rows=rows, n_threads=n_threads)


def check_features(
    estimator: BaseEstimator,
    X: Any,
    categorical_features: Any,
    *,
    reset: bool,
    allows_infinity: bool = False,
) -> Any:
    """Check X as scikit-learn's contract requires; data frames keep their columns."""
    if sparse.issparse(X):
        X = _dense(X)
    if _is_frame(X) or _has_own_categories(X, categorical_features):
        feature_names(X)  # its errors are clearer than scikit-learn's
        return validate_data(estimator, X, reset=reset, skip_check_array=True)
    finite = False if allows_infinity else "allow-nan"
    return validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=finite)


def _dense(X: Any) -> NDArray[Any]:
    """Return a sparse table as an array, which counts its zeros, stored or not."""
    if X.ndim == 2 and X.shape[0] * X.shape[1] > _MOST_SPARSE_CELLS:
        raise TableError(
            f"X is sparse and has more than {_MOST_SPARSE_CELLS} cells. Trees count every cell of "
            "a table, the zeros too, so that it would be made dense. Drop columns that are nearly "
            "always zero, or pass an array."
        )
    dense: NDArray[Any] = X.toarray()
    return dense


def _numbered(labels: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """Return the different labels, sorted, and the number of each row's label among them.

    Small numbers, and texts that differ in few places, are numbered without being sorted.
    """
    if labels.dtype.kind not in "iU" or not labels.size or not labels.dtype.isnative:
        return np.unique(labels, return_inverse=True)
    kind = np.dtype(np.uint32) if labels.dtype.kind == "U" else labels.dtype
    letters = np.ascontiguousarray(labels).view(kind).reshape(labels.size, -1)
    place, n_places = np.zeros(labels.size, np.int64), 1
    for column in letters.T:
        low, high = int(column.min()), int(column.max())
        n_places *= high - low + 1
        if n_places > _FEW:
            return np.unique(labels, return_inverse=True)
        if low < high:
            place = place * (high - low + 1) + (column.astype(np.int64) - low)
    row = np.full(n_places, -1)
    row[place] = np.arange(labels.size)  # of some row that has it
    found = np.flatnonzero(row >= 0)
    number = np.zeros(n_places, np.intp)
    number[found] = np.arange(found.size)
    return labels[row[found]], number[place]


def deal_tables(table: MemoryTable, party: Any) -> dict[str, MemoryTable]:
    """Return each party's table, in the order of their names; None means one party."""
    if party is None:
        return {"all": table}
    labels = np.asarray(party)
    if labels.ndim == 0 or labels.size != labels.shape[0]:
        raise SettingError(
            "party must be one list that names a party for each row; got an array of shape "
            f"{labels.shape}."
        )
    labels = labels.ravel()
    if labels.shape[0] != table.columns.n_rows:
        raise SettingError(
            f"party must name a party for each of the {table.columns.n_rows} rows; "
            f"got {labels.shape[0]} labels."
        )
    if labels.dtype.kind in "fO" and None in cells_of(labels).texts():
        raise SettingError("party must name a party for every row; some labels are missing.")
    names, row_party = _numbered(labels.astype(str) if labels.dtype == object else labels)
    row_party = row_party if table.rows is None else row_party[table.rows]  # some are left out
    few = row_party.astype(np.uint16) if names.size < _FEW else row_party  # sorted by counting
    order = np.argsort(few, kind="stable")
    ends = np.cumsum(np.bincount(row_party, minlength=names.size))
    rows = np.split(order, ends[:-1])
    return {str(name): table.select(part) for name, part in zip(names, rows, strict=True)}


def warn_of_leaks(facts: tuple[str, ...], table: MemoryTable | None = None) -> None:
    """Warn of the public facts that a simulation read from private data.

    With the `table`, also of classes that leave without their text, because few rows hold them.
    """
    if not facts:
        return
    named = ", ".join(facts[:_NAMED_FACTS])
    more = len(facts) - _NAMED_FACTS
    text = f"{named} and {more} more" if more > 0 else named
    warnings.warn(
        f"Public facts were read from the parties' data: {text}. That is fine in a simulation; "
        f"real parties declare them. Pass schema=Schema(...) to do so here.{_rare(facts, table)}",
        PrivacyLeakWarning,
        stacklevel=4,
    )


def _rare(facts: tuple[str, ...], table: MemoryTable | None) -> str:
    """Say which classes a saved or exported model does not name."""
    if table is None or not are_classes_read(table.schema.label, facts):
        return ""
    label = table.schema.label
    assert label.classes is not None
    rows = np.bincount(table.target, minlength=len(label.classes))
    rare = [repr(name) for name, n in zip(label.classes, rows, strict=True) if n < FEW_ROWS]
    if not rare:
        return ""
    return (
        f" Fewer than {FEW_ROWS} rows hold the class {join_words(rare)}: a model that is saved or "
        "exported does not name it. Mend its spelling, leave its rows out, or declare it in "
        "schema."
    )


def is_complete(y: Any) -> bool:
    """Return whether no label is missing or infinite."""
    labels = np.asarray(y)
    if labels.dtype.kind == "f":
        return bool(np.isfinite(labels).all())
    return labels.dtype.kind != "O" or labels.ndim != 1 or None not in cells_of(labels).texts()


def _name_of(y: Any, X: Any) -> str | None:
    """Return the name of the label column, if it is text; a label made from a column has another.

    `2 * X["age"]` is called "age" by pandas, and is a label beside that column.
    """
    name = getattr(y, "name", None)
    if not isinstance(name, str):
        return None
    while name in (feature_names(X) or ()):
        name += "_"
    return name


def _is_frame(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")


def _has_own_categories(X: Any, categorical_features: Any) -> bool:
    """Return whether X is an object array whose categories the caller named."""
    named = categorical_features is not None and not isinstance(categorical_features, str)
    return named and isinstance(X, np.ndarray) and X.dtype.kind in "OUS" and X.ndim == 2


def _checked_labels(y: Any, X: Any, *, is_classifier: bool) -> NDArray[Any]:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    n_outputs = _n_outputs(y)
    if n_outputs != 1:
        raise TableError(
            f"y should be a 1d array: it has {n_outputs} outputs, and a forest predicts one. "
            "Fit a forest for each, or use scikit-learn's MultiOutputClassifier."
        )
    labels: NDArray[Any] = column_or_1d(
        y if not hasattr(y, "to_numpy") else y.to_numpy(), warn=True
    )
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if labels.shape[0] != n_rows:
        raise ValueError(
            f"X and y must have the same number of rows; got {n_rows} and {labels.shape[0]}."
        )
    if n_rows == 0:
        raise TableError("X has no rows. A forest needs at least one.")
    if not is_classifier and labels.dtype.kind in "OUS":
        with suppress(ValueError, TypeError):  # the schema refuses other text
            labels = labels.astype(np.float64)
    return labels


def _tell_of_lost_digits(X: Any, labels: NDArray[Any], kind: LabelKind) -> None:
    """Warn of columns whose numbers differ, but are one number at the precision of trees."""
    table = open_frame(X)
    lost: list[int] = []
    if isinstance(table, Frame):
        lost = [place for place, one in enumerate(table.cells) if loses_digits(one)]
    elif table.dtype != np.float32:
        least, most = np.fmin.reduce(table, axis=0), np.fmax.reduce(table, axis=0)
        alike = (least < most) & (least.astype(np.float32) == most.astype(np.float32))
        lost = np.flatnonzero(alike).tolist()
    if lost:
        names = feature_names(X)
        named = [repr(names[place]) if names else f"column {place}" for place in lost]
        warnings.warn(lost_digits(named), SpinneyWarning, stacklevel=4)
    if kind == "number" and labels.dtype.kind in "iu" and labels.min() < labels.max():
        require_digits(labels)


def _n_outputs(y: Any) -> int:
    """Return how many numbers or classes a row has; scikit-learn refuses odd shapes later."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list) and y and isinstance(y[0], list | tuple):
        shape = (len(y), len(y[0]))
    return int(shape[1]) if shape is not None and len(shape) == 2 else 1


def _checked_weights(given: Any, n_rows: int) -> Floats | None:
    """Return how much each row counts; None if all count alike."""
    if given is None:
        return None
    try:
        weight = np.array(given, np.float64)
    except (TypeError, ValueError):
        raise SettingError("sample_weight must be a number for each row.") from None
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    if weight.shape != (n_rows,):
        raise SettingError(
            f"sample_weight must be one number for each of the {n_rows} rows; got an array of "
            f"shape {weight.shape}."
        )
    if not np.isfinite(weight).all() or weight.min(initial=0.0) < 0.0:
        raise SettingError("sample_weight must be finite and not negative.")
    if not weight.any():
        raise SettingError("sample_weight is zero for every row, so that nothing can be learnt.")
    return None if np.all(weight == 1.0) else weight


def _require_order(X: Any, schema: Schema) -> None:
    """Raise if X has the schema's columns in another order; `predict` goes by position."""
    names = feature_names(X)
    if names is not None and names != schema.names and set(names) == set(schema.names):
        raise SchemaError(
            "X has the schema's columns in another order. The schema has: "
            f"{join_words(schema.names)}. Pass them in that order: X[list(schema.names)]."
        )


def _lacks_facts(schema: Schema, *, needs_ranges: bool) -> bool:
    """Return whether a declared schema lacks a fact that training needs."""
    label = schema.label
    label_open = label.classes is None if label.kind == "class" else label.range is None
    return label_open or any(
        (column.kind == "category" and column.categories is None)
        or (needs_ranges and column.kind == "number" and column.range is None)
        for column in schema.columns
    )


def _require_facts(schema: Schema) -> None:
    """Raise unless a declared schema has every fact that a private job needs."""
    label = schema.label
    missing = [
        f"the range of {c.name!r}" for c in schema.columns if c.kind == "number" and not c.range
    ]
    missing += [
        f"the categories of {c.name!r}"
        for c in schema.columns
        if c.kind == "category" and not c.categories
    ]
    if label.kind == "class" and not label.classes:
        missing.append(f"the classes of {label.name!r}")
    if label.kind == "number" and not label.range:
        missing.append(f"the range of {label.name!r}")
    if missing:
        raise SettingError(
            f"The schema does not declare {join_words(missing)}. A private job reads no public "
            "fact from the data. Declare them, or pass no schema to simulate without one."
        )
