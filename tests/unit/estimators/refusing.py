"""A table, and the check that it is refused in these words; for tests."""

import numpy as np
import pandas as pd
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import SettingError

BOTH = [HorizontalForestClassifier, HorizontalForestRegressor]
each = pytest.mark.parametrize("kind", BOTH, ids=[kind.__name__ for kind in BOTH])

X = np.random.RandomState(0).standard_normal((40, 3))
Y = (X[:, 0] > 0).astype(int)


def refused(kind, words, X=X, y=Y, *, error=SettingError, party=None, **parameters):
    """Raise unless `fit` refuses with these words, and stays unfitted."""
    forest = kind(**({"n_estimators": 3} | parameters))
    with pytest.raises(error, match=words):
        forest.fit(X, y, party=party)
    assert not hasattr(forest, "model_")


def wards(n=40):
    return pd.DataFrame(
        {
            "age": np.arange(n, dtype=float),
            "ward": pd.Categorical(np.resize(["eye", "knee", "skin"], n)),
        }
    )
