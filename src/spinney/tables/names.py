"""The column names of a table; needs none of the packages that made the table."""

from collections.abc import Iterable
from typing import Any

from spinney.errors import TableError
from spinney.tables.schema import join_words


def feature_names(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame, or None for an array.

    As in scikit-learn, a frame whose column names are not text counts as having none.
    """
    names = getattr(X, "column_names", None)  # pyarrow
    if names is None:
        names = getattr(X, "columns", None)  # pandas, polars
    if names is None or callable(names) or not isinstance(names, Iterable):
        return None
    found = list(names)
    n_texts = sum(isinstance(name, str) for name in found)
    if n_texts == 0:
        return None
    if n_texts < len(found):
        raise TableError(
            "Some column names are text and some are not. Make all of them text, "
            "for example with X.columns = X.columns.astype(str)."
        )
    names = tuple(str(name) for name in found)
    if any("\0" in name for name in names):  # polars aborts the whole process on one
        raise TableError("A column name holds a NUL character. Rename the column.")
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise TableError(
            f"The table has more than one column called {join_words(repeated)}. "
            "Give every column a different name."
        )
    return names


def default_names(n_columns: int) -> tuple[str, ...]:
    """Return the names of columns that have none: x0, x1 and so on."""
    return tuple(f"x{column}" for column in range(n_columns))
