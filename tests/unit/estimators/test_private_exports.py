"""Private models taken out whole: what runs them elsewhere says what they say here."""

from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import treelite

from spinney import PrivateBoostingClassifier, PrivateBoostingRegressor, PrivateTreeClassifier
from spinney.errors import SettingError
from spinney.tables.schema import Column, Label, Schema

COLUMNS = (
    Column("a", "number", (-4.0, 4.0)),
    Column("b", "number", (0.0, 500.0)),
    Column("c", "category", categories=("rare", "u", "v", "w")),
    Column("d", "boolean"),
)


def table(n=400):
    """Numbers out of range and missing, categories of which one is rare, booleans."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": random.normal(0, 2, n),
            "b": random.exponential(5, n),
            "c": pd.Categorical(
                random.choice(["rare", "u", "v", "w"], n, p=[0.01, 0.33, 0.33, 0.33]),
                categories=["rare", "u", "v", "w"],
            ),
            "d": random.random(n) < 0.5,
        }
    )
    frame.loc[random.random(n) < 0.1, "a"] = np.nan
    frame.loc[random.random(n) < 0.1, "c"] = np.nan
    return frame


FRAME = table()
HIGH = FRAME["a"].fillna(0).to_numpy() + 2 * (FRAME["c"] == "u").to_numpy()
TWO = np.where(HIGH > 1, "yes", "no")
THREE = np.where(HIGH > 2, "high", np.where(HIGH > 0, "some", "low"))
MODELS: dict[str, Any] = {
    "two classes": (PrivateBoostingClassifier, TWO, {}),
    "two classes, pure": (PrivateBoostingClassifier, TWO, {"delta": None}),
    "three classes": (PrivateBoostingClassifier, THREE, {"method": "pairs"}),
    "numbers with curves": (PrivateBoostingRegressor, HIGH, {}),
    "numbers, pure": (PrivateBoostingRegressor, HIGH, {"delta": None}),
    "distilled tree": (PrivateTreeClassifier, THREE, {"method": "distilled"}),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    kind, y, how = MODELS[request.param]
    is_number = kind is PrivateBoostingRegressor
    label = (
        Label("y", "number", range=(-8.0, 10.0))
        if is_number
        else Label("y", "class", tuple(sorted(set(y))))
    )
    given = {"n_rows": 20_000, "schema": Schema(COLUMNS, label)} | how
    site = np.arange(len(y)) % 3
    return kind(50.0, **given).fit(FRAME, y, party=site)


def ours(model):
    found = model.predict_proba(FRAME) if hasattr(model, "classes_") else model.predict(FRAME)
    return found.reshape(len(FRAME), -1)


def test_onnx_says_the_same(model):
    session = onnxruntime.InferenceSession(
        model.to_onnx(exact=True).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {"X": model.encoded(FRAME)})[-1].reshape(len(FRAME), -1)
    assert np.allclose(found, ours(model), rtol=1e-4, atol=1e-5)


def test_treelite_says_the_same(model):
    found = treelite.gtil.predict(model.to_treelite(exact=True), model.encoded(FRAME))
    last = found.reshape(len(FRAME), -1)[:, -1]
    assert np.allclose(last, ours(model)[:, -1], rtol=1e-4, atol=1e-5)


def test_lightgbm_says_the_same_of_boosted_trees(model):
    if isinstance(model, PrivateTreeClassifier):
        with pytest.raises(SettingError, match="holds boosted trees, and this model is a forest"):
            model.to_lightgbm()
        return
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.Booster(model_str=model.to_lightgbm(exact=True))
    last = booster.predict(model.encoded(FRAME)).reshape(len(FRAME), -1)[:, -1]
    assert np.allclose(last, ours(model)[:, -1], rtol=1e-9, atol=1e-9)


def test_scikit_learn_says_the_same(model):
    twin = model.to_sklearn(exact=True)
    found = twin.predict_proba(FRAME) if hasattr(model, "classes_") else twin.predict(FRAME)
    assert np.allclose(found.reshape(len(FRAME), -1), ours(model), rtol=1e-9, atol=1e-9)
