"""A saved model predicts as the estimator did, and a file that is none says so."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, load_model
from spinney.errors import StorageError
from spinney.trees import storage

KIND = "forest model"


@pytest.fixture(params=["two classes", "three classes", "amount"])
def fitted(request, ward_table, ward_labels):
    is_amount = request.param == "amount"
    kind = HorizontalForestRegressor if is_amount else HorizontalForestClassifier
    return kind(5, random_state=0).fit(ward_table, ward_labels[request.param])


def test_a_loaded_model_predicts_the_same(fitted, ward_table, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(fitted)
    assert np.array_equal(loaded.predict(ward_table), fitted.predict(ward_table))
    if hasattr(fitted, "predict_proba"):
        assert np.array_equal(loaded.predict_proba(ward_table), fitted.predict_proba(ward_table))
        assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert np.array_equal(loaded.feature_importances_, fitted.feature_importances_)
    assert loaded.n_features_in_ == fitted.n_features_in_
    assert loaded.feature_names_in_.tolist() == fitted.feature_names_in_.tolist()
    assert np.array_equal(loaded.to_sklearn().predict(ward_table), fitted.predict(ward_table))


def test_a_run_s_folder_stands_for_its_model(fitted, ward_table, tmp_path):
    fitted.save(tmp_path / "model.spinney")
    assert np.array_equal(load_model(tmp_path).predict(ward_table), fitted.predict(ward_table))
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match=r"Cannot read .*empty/model\.spinney'.*Check the path"):
        load_model(str(tmp_path / "empty"))


def test_a_loaded_model_can_be_saved_and_cloned(fitted, tmp_path):
    fitted.save(str(tmp_path / "one"))
    loaded = load_model(str(tmp_path / "one"))
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert clone(loaded).n_estimators == 5


def test_a_loaded_model_of_an_array_takes_an_array(tmp_path):
    X = np.arange(20.0).reshape(10, 2)
    forest = HorizontalForestClassifier(3, random_state=0).fit(X, np.arange(10) % 2)
    forest.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(X), forest.predict(X))


@pytest.mark.parametrize("labels", [[True, False], [1, 7], ["a", "b"], [0.5, 1.5]])
def test_classes_keep_their_type_in_a_file(labels, tmp_path):
    X = np.arange(20.0).reshape(10, 2)
    y = np.array(labels, dtype=object)[np.arange(10) % 2].tolist()
    if isinstance(labels[0], float):
        y = [str(label) for label in y]
    forest = HorizontalForestClassifier(3, random_state=0).fit(X, np.array(y))
    forest.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.predict(X).tolist() == forest.predict(X).tolist()
    assert loaded.classes_.dtype.kind == forest.classes_.dtype.kind


def test_a_saved_model_says_nothing_of_time_or_place(fitted, tmp_path):
    (tmp_path / "deep").mkdir()
    fitted.save(tmp_path / "here")
    fitted.save(tmp_path / "deep" / "there")
    data = (tmp_path / "here").read_bytes()
    assert data == (tmp_path / "deep" / "there").read_bytes()
    assert str(tmp_path).encode() not in data


def test_a_file_that_is_no_model_says_so(tmp_path, fitted):
    path = tmp_path / "model"
    with pytest.raises(StorageError, match=r"Cannot read .*model'.*Check the path"):
        load_model(path)
    path.write_bytes(b"not a model at all, but long enough to have been one, to be fair")
    with pytest.raises(StorageError, match=r"is not a Spinney file\. Give the path of a model"):
        load_model(path)
    fitted.save(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StorageError, match="damaged or cut short: its checksum does not match"):
        load_model(path)
    path.write_bytes(storage.to_bytes("ledger", {}, {}))
    with pytest.raises(StorageError, match="holds a ledger; expected a forest model"):
        load_model(path)
    path.write_bytes(storage.to_bytes(KIND, {"protocol": "x"}, {}))
    with pytest.raises(StorageError, match="is not a complete model: 'schema'"):
        load_model(path)


def test_a_model_of_another_protocol_says_so(tmp_path, fitted):
    meta, arrays = storage.from_bytes(fitted.model_.to_bytes(), KIND)
    storage.write_file(tmp_path / "model", KIND, meta | {"protocol": "moon"}, arrays)
    with pytest.raises(StorageError, match="holds a model of 'moon', which this Spinney does not"):
        load_model(tmp_path / "model")


def forged(fitted, path, **changes):
    meta, arrays = storage.from_bytes(fitted.model_.to_bytes(), KIND)
    storage.write_file(path, KIND, meta, arrays | changes)


def arrays_of(fitted):
    return storage.from_bytes(fitted.model_.to_bytes(), KIND)[1]


def where(condition, value, array):
    return np.where(condition, value, array).astype(array.dtype)


FORGERIES = {
    "a child that is its own parent": lambda a: {"left": np.zeros_like(a["left"])},
    "a child beyond the tree": lambda a: {"left": where(a["feature"] >= 0, 2**31, a["left"])},
    "a leaf that leads on": lambda a: {"left": where(a["feature"] < 0, 1, a["left"])},
    "a feature beyond the columns": lambda a: {"feature": a["feature"] + 7},
    "a feature below a leaf's": lambda a: {"feature": where(a["feature"] < 0, -9, a["feature"])},
    "features of another type": lambda a: {"feature": a["feature"].astype(np.float64)},
    "links of another type": lambda a: {"left": a["left"].astype(np.int64)},
    "a set beyond the sets": lambda a: {"subset": a["subset"] + 1000},
    "a set for a number": lambda a: {"subset": np.where(a["feature"] >= 0, 0, -1).astype(np.int32)},
    "no set for a category": lambda a: {"subset": np.full_like(a["subset"], -1)},
    "sets of another width": lambda a: {"bin_sets": a["bin_sets"][:, :1]},
    "sets in a row": lambda a: {"bin_sets": a["bin_sets"].ravel()},
    "flags that are numbers": lambda a: {"missing_left": a["missing_left"].astype(np.uint8)},
    "values of other classes": lambda a: {"value": np.hstack([a["value"]] * 3)},
    "values that are not numbers": lambda a: {"value": a["value"] * np.nan},
    "values in a row": lambda a: {"value": a["value"][:, 0]},
    "too few values": lambda a: {"value": a["value"][:-1]},
    "too few gains": lambda a: {"gain": a["gain"][:-1]},
    "moments of another width": lambda a: {"moments": a["moments"][:, :1]},
    "trees that overlap": lambda a: {"tree_start": a["tree_start"][[0, 2, 1, *range(3, 6)]]},
    "an empty tree": lambda a: {"tree_start": a["tree_start"][[0, 1, 1, *range(2, 6)]]},
    "no tree": lambda a: {"tree_start": a["tree_start"][:1]},
    "trees that end early": lambda a: {"tree_start": a["tree_start"][:-1]},
    "starts of another type": lambda a: {"tree_start": a["tree_start"].astype(np.float64)},
    "bins for a number": lambda a: {"bin_of_category.0": a["bin_of_category.4"]},
    "bins for too few categories": lambda a: {"bin_of_category.4": a["bin_of_category.4"][:2]},
    "no bins for a category": lambda a: {"bin_of_category.4": a["bin_of_category.0"]},
    "nothing at all": lambda a: {name: array[:0] for name, array in a.items()},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_model_is_refused_before_it_is_walked(forgery, fitted, tmp_path):
    """With a checksum that fits: nothing is believed of a file, as kernels do not look twice."""
    forged(fitted, tmp_path / "model", **FORGERIES[forgery](arrays_of(fitted)))
    with pytest.raises(StorageError, match=r"does not hold a valid forest\. Save the model again"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("missing", ["left", "value", "bin_of_category.0"])
def test_a_model_that_lacks_an_array_says_which(missing, fitted, tmp_path):
    meta, arrays = storage.from_bytes(fitted.model_.to_bytes(), KIND)
    del arrays[missing]
    storage.write_file(tmp_path / "model", KIND, meta, arrays)
    with pytest.raises(StorageError, match=f"is not a complete model: '{missing}'"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"columns": [], "label": {"name": "y", "kind": "number"}},
        {"columns": [{"name": "a", "kind": "moon"}], "label": {"name": "y", "kind": "number"}},
        "schema",
    ],
)
def test_a_model_with_no_sound_schema_is_refused(schema, fitted, tmp_path):
    meta, arrays = storage.from_bytes(fitted.model_.to_bytes(), KIND)
    storage.write_file(tmp_path / "model", KIND, meta | {"schema": schema}, arrays)
    with pytest.raises(StorageError, match="is not a complete model"):
        load_model(tmp_path / "model")


def test_a_frame_in_another_order_of_columns_is_the_same_table(fitted, ward_table, tmp_path):
    """Columns are matched by name; a loaded model has no other contract to keep."""
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    turned = ward_table[ward_table.columns[::-1]]
    try:
        found = loaded.predict(turned)
    except ValueError as error:
        assert "order" in str(error)  # noqa: PT017  scikit-learn's contract, kept by both
    else:
        assert np.array_equal(found, fitted.predict(ward_table))


def test_a_pandas_frame_needs_no_matching_index(fitted, ward_table):
    shifted = ward_table.set_axis(pd.RangeIndex(5, 5 + len(ward_table)))
    assert np.array_equal(fitted.predict(shifted), fitted.predict(ward_table))
