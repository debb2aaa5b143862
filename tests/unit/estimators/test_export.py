"""Models taken out: ONNX, treelite, scikit-learn and SHAP agree with ours on odd tables."""

import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import treelite

from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
)
from spinney.errors import MissingExtraError

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
FACES = {
    "horizontal": (HorizontalForestClassifier, HorizontalForestRegressor),
    "extra": (ExtraTreesClassifier, ExtraTreesRegressor),
}


def odd_table(n=300):
    """Numbers, categories of which one is rare, booleans, missing values, a constant."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": random.normal(size=n),
            "b": random.normal(size=n).astype(np.float32),
            "c": pd.Categorical(random.choice([*"uvwxyz", "rare"], n, p=[*[0.165] * 6, 0.01])),
            "d": random.random(n) < 0.5,
            "same": 1.0,
        }
    )
    frame.loc[random.random(n) < 0.2, "a"] = np.nan
    frame.loc[random.random(n) < 0.1, "c"] = np.nan
    return frame


def labels(frame, task):
    in_set = frame["c"].isin(["u", "w", "z"]).to_numpy()
    high = (frame["b"] > 0).to_numpy()
    if task == "numbers":
        return (np.nan_to_num(frame["a"]) * 2 + frame["b"] + 3 * in_set).to_numpy()
    if task == "two classes":
        return (in_set ^ high).astype(int)
    return np.where(in_set, "p", np.where(high, "q", "日本"))


@pytest.fixture(params=["two classes", "three classes", "numbers"])
def task(request):
    return request.param


@pytest.fixture(params=FACES)
def forest(request, task):
    face = FACES[request.param][task == "numbers"]
    frame = odd_table()
    return face(7, max_depth=6, random_state=0).fit(frame, labels(frame, task))


def ours(forest, frame):
    if hasattr(forest, "predict_proba"):
        return forest.predict_proba(frame)
    return forest.predict(frame)[:, None]


def test_onnx_says_the_same(forest, task):
    frame = odd_table()
    session = onnxruntime.InferenceSession(
        forest.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {"X": forest.encoded(frame)})
    assert np.allclose(found[-1], ours(forest, frame), rtol=1e-6, atol=1e-6)
    if task != "numbers":
        shares = ours(forest, frame)
        clear = np.sort(shares, axis=1)[:, -1] - np.sort(shares, axis=1)[:, -2] > 1e-5
        assert clear.sum() > 200
        assert found[0][clear].tolist() == forest.predict(frame)[clear].tolist()


def test_treelite_says_the_same(forest):
    frame = odd_table()
    found = treelite.gtil.predict(forest.to_treelite(), forest.encoded(frame))
    expected = ours(forest, frame)
    assert np.allclose(found.reshape(expected.shape), expected, rtol=1e-6, atol=1e-6)


def test_scikit_learn_says_the_same_to_the_last_bit(forest):
    frame = odd_table()
    twin = forest.to_sklearn()
    found = twin.predict_proba(frame) if hasattr(forest, "classes_") else twin.predict(frame)
    assert np.array_equal(np.ravel(found), np.ravel(ours(forest, frame)))


def test_onnx_carries_its_schema(forest):
    properties = {p.key: p.value for p in forest.to_onnx().metadata_props}
    assert '"categories":["rare","u","v","w","x","y","z"]' in properties["spinney.schema"]


def test_shap_explains_the_exported_forest(tree_explainer):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    y = X[:, 0] + np.abs(X[:, 1]) > 0.5
    forest = HorizontalForestClassifier(6, max_depth=5, random_state=0).fit(X, y)
    explainer = tree_explainer(forest.to_sklearn())
    values = explainer.shap_values(X[:20])
    assert values.shape == (20, 4, 2)
    total = values.sum(axis=1) + explainer.expected_value
    assert np.allclose(total, forest.predict_proba(X[:20]), atol=1e-6)


@pytest.mark.parametrize("name", ["onnx", "treelite"])
def test_without_the_package_the_extra_is_named(forest, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'spinney\[export\]'"):
        getattr(forest, f"to_{name}")()
