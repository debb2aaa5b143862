"""Sample weights as whole numbers: counts are integers, so a weight is how often a row counts."""

from typing import Any, Final

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from spinney.errors import SettingError
from spinney.typing import Integers

_MOST_TIMES: Final = 1000  # the most that a row may count more than another
_MOST_ROWS: Final = 1 << 28  # rows with their repeats
_ROUNDING: Final = 1e-9


def repeated_rows(sample_weight: Any, X: Any) -> Integers | None:
    """Return the rows of X, each as often as its weight says; None if every row counts once."""
    if sample_weight is None:
        return None
    times = times_of(sample_weight, _num_samples(X))
    return None if (times == 1).all() else np.repeat(np.arange(times.size), times)


def taken(given: Any, rows: Integers | None) -> Any:
    """Return these rows of a table, a label or a list of parties; all of them if None."""
    return given if given is None or rows is None else _safe_indexing(given, rows)


def times_of(sample_weight: Any, n_rows: int) -> Integers:
    """Return how often each row counts: its weight over the smallest one above zero."""
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise SettingError("sample_weight must be one number for each row.") from None
    if weight.shape == () and np.isfinite(weight) and weight > 0:
        return np.ones(n_rows, np.int64)
    if weight.shape != (n_rows,):
        raise SettingError(
            f"sample_weight must be one number for each of the {n_rows} rows (sample_weight.shape "
            f"== ({n_rows},)); got shape {weight.shape}."
        )
    if not np.isfinite(weight).all():
        raise SettingError("sample_weight must be finite; it holds NaN or infinite weights.")
    if (weight < 0).any():
        raise SettingError("sample_weight must not be negative: no row counts less than never.")
    if not weight.any():
        raise SettingError("sample_weight is zero for every row, so that nothing is left to count.")
    ratio = weight / weight[weight > 0].min()
    whole = np.rint(ratio)
    if ratio.max() > _MOST_TIMES or np.any(np.abs(ratio - whole) > _ROUNDING * ratio):
        raise SettingError(
            "sample_weight must be whole multiples of its smallest weight above zero, at most "
            f"{_MOST_TIMES} times as large: parties add up whole counts. Round the weights."
        )
    times: Integers = whole.astype(np.int64)
    if int(times.sum()) > _MOST_ROWS:
        raise SettingError(f"sample_weight adds up to more than {_MOST_ROWS} rows. Round more.")
    return times
