"""A mean with its spread, as the tables of several papers show it."""

import pandas as pd


def with_spread(values: pd.Series, digits: int) -> str:
    """Return the mean and, of two values or more, their standard deviation."""
    mean = f"{values.mean():.{digits}f}"
    return f"{mean} +- {values.std(ddof=1):.{digits}f}" if values.count() > 1 else mean
