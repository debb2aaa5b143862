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
from spinney.errors import MissingExtraError, SchemaError

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


def test_onnx_says_the_same_where_one_column_is_asked_again_and_again():
    """A table and a seed at which onnxruntime 1.31 once took two questions for one."""
    random = np.random.default_rng(2)
    frame = pd.DataFrame({c: pd.Categorical(random.choice([*"abcde"], 800)) for c in "pq"})
    often, rare = random.choice(["y", "z"], 800), random.choice(["x", "z"], 800)
    y = np.where(frame["p"] == "b", often, rare)
    y = np.where(frame["p"].isin(["a", "e"]), "x", y)
    forest = HorizontalForestClassifier(10, max_depth=6, max_features=1.0, random_state=2)
    session = onnxruntime.InferenceSession(
        forest.fit(frame, y).to_onnx().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = session.run(None, {"X": forest.encoded(frame)})[-1]
    assert np.allclose(found, forest.predict_proba(frame), rtol=1e-6, atol=1e-6)


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


def test_shap_explains_the_exported_forest_of_an_odd_table(forest, tree_explainer):
    frame = odd_table()
    encode, twin = forest.to_sklearn()
    rows = encode.transform(frame)
    assert np.isnan(rows).any()
    explainer = tree_explainer(twin)
    values = explainer.shap_values(rows)
    assert values.shape[:2] == (len(frame), len(encode.get_feature_names_out()))
    expected = ours(forest, frame)
    total = values.sum(axis=1) + explainer.expected_value
    assert np.allclose(total.reshape(-1, expected.shape[1] if total.ndim > 1 else 1), expected)
    by_column = encode.by_column(values)
    assert by_column.shape[:2] == (len(frame), 5)
    assert np.allclose(by_column.sum(axis=1), values.sum(axis=1))
    assert np.all(by_column[:, 4] == 0)  # a constant explains nothing
    assert np.abs(by_column[:, 2]).max() > 0


def test_shap_gives_a_column_asked_once_a_path_its_exact_share(tree_explainer):
    """A stump by a category: the row's share less the mean, by hand."""
    frame = pd.DataFrame({"c": pd.Categorical([*"uuvvww", None, None])})
    y = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 3.0, 3.0])
    forest = HorizontalForestRegressor(1, bootstrap=False, max_depth=1, max_features=1.0)
    encode, twin = forest.fit(frame, y).to_sklearn()
    assert encode.get_feature_names_out().tolist() in (["c is missing"], ["c is u or v or w"])
    explainer = tree_explainer(twin)
    found = encode.by_column(explainer.shap_values(encode.transform(frame)))
    assert np.allclose(found[:, 0], forest.predict(frame) - y.mean())


def test_shap_explains_noisy_counts_that_do_not_add_up(tree_explainer):
    frame = odd_table()
    face = HorizontalForestClassifier(3, max_depth=4, epsilon=1.0, random_state=0)
    encode, twin = face.fit(frame, labels(frame, "two classes")).to_sklearn()
    explainer = tree_explainer(twin)
    values = explainer.shap_values(encode.transform(frame))
    total = values.sum(axis=1) + explainer.expected_value
    assert np.allclose(total, face.predict_proba(frame))


def test_categories_alone_and_no_split_at_all_still_export():
    frame = pd.DataFrame({"c": pd.Categorical([*"uvuv"])})
    forest = HorizontalForestClassifier(2, max_depth=1, min_samples_leaf=4, bootstrap=False)
    forest.fit(frame, [0, 1, 0, 1])
    assert forest.model_.forest.n_nodes == 2
    assert np.array_equal(forest.to_sklearn().predict_proba(frame), forest.predict_proba(frame))


def test_an_encoder_treats_unknown_categories_as_the_estimator_does():
    frame = odd_table()
    forest = HorizontalForestClassifier(3, max_depth=4, random_state=0)
    forest.fit(frame, labels(frame, "two classes"))
    other = frame.assign(c=pd.Categorical(["new"] * len(frame)))
    with pytest.raises(SchemaError, match="'new'"):
        forest.to_sklearn().predict(other)
    forest.set_params(unknown_categories="as_missing")
    assert np.array_equal(forest.to_sklearn().predict_proba(other), forest.predict_proba(other))


@pytest.mark.parametrize("name", ["onnx", "treelite"])
def test_without_the_package_the_extra_is_named(forest, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "treelite.model_builder", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'spinney-trees\[export\]'"):
        getattr(forest, f"to_{name}")()


@pytest.mark.parametrize("name", ["save", "to_sklearn", "to_onnx", "to_treelite", "to_lightgbm"])
def test_whoever_exports_reads_that_rounded_thresholds_change_predictions(name):
    told = " ".join((getattr(HorizontalForestClassifier, name).__doc__ or "").split())
    assert ("a row between a threshold and its rounded value goes the other way" in told) or (
        "some rows get other predictions than here; see `save`." in told
    )
