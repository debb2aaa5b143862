"""What users get wrong: one clear sentence each, and nothing fitted."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import PrivacyLeakWarning, SchemaError, SettingError, TableError
from spinney.tables.schema import Column, Label, Schema

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


# --- parameters ----------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("max_bins", [0, 1, 256, -5, "x", True, 2.0, None])
def test_max_bins_out_of_range(kind, max_bins):
    words = rf"max_bins must be a whole number between 2 and 255; got {max_bins!r}\."
    refused(kind, words, max_bins=max_bins)


@each
@pytest.mark.parametrize("max_bins", [2, 255])
def test_max_bins_at_its_limits(kind, max_bins):
    assert kind(3, max_bins=max_bins).fit(X, Y).score(X, Y) > 0.3


@each
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_estimators", 0, "n_estimators must be a whole number between 1 and 100000; got 0"),
        (
            "n_estimators",
            "10",
            "n_estimators must be a whole number between 1 .*; got '10'",
        ),
        ("n_estimators", 2.5, "n_estimators must be a whole number between 1 and 100000; got 2.5"),
        ("max_depth", 0, "max_depth must be a whole number at least 1 or None for no limit; got 0"),
        ("max_depth", True, "max_depth must be a whole number at least 1"),
        ("max_cells", 1, "max_cells must be a whole number between 2 and 255; got 1"),
        ("max_cells", 300, "max_cells must be a whole number between 2 and 255; got 300"),
        ("min_samples_split", 1, "min_samples_split must be a whole number at least 2"),
        ("min_samples_split", 1.0, "min_samples_split as a fraction must lie between 0 and 1"),
        ("min_samples_split", "2", "min_samples_split must be a whole number at least 2"),
        ("min_samples_leaf", 0, "min_samples_leaf must be a whole number at least 1"),
        ("min_samples_leaf", 0.0, "min_samples_leaf as a fraction must lie between 0 and 1"),
        ("min_impurity_decrease", -0.1, "min_impurity_decrease must be a finite number"),
        ("min_impurity_decrease", np.nan, "min_impurity_decrease must be a finite number"),
        ("min_impurity_decrease", "0", "min_impurity_decrease must be a finite number"),
        ("min_weight_fraction_leaf", 0.6, "min_weight_fraction_leaf must be at most 0.5"),
        ("min_weight_fraction_leaf", -1, "min_weight_fraction_leaf must be a finite number"),
        ("max_features", 0, "max_features must be 'sqrt', 'log2', None"),
        ("max_features", 1.5, "max_features must be 'sqrt', 'log2', None"),
        ("max_features", "auto", "max_features must be 'sqrt', 'log2', None.* got 'auto'"),
        ("max_features", True, "max_features must be 'sqrt', 'log2', None"),
        ("binning", "quantile", "binning must be 'quantiles' or 'ranges'.* got 'quantile'"),
        ("binning", None, "binning must be 'quantiles' or 'ranges'"),
        ("bootstrap", "no", "bootstrap must be True or False; got 'no'"),
        ("oob_score", "accuracy", "oob_score must be True or False; got 'accuracy'"),
        ("max_leaf_nodes", 10, "max_leaf_nodes cannot be kept .* Use max_depth"),
        ("random_state", "x", "random_state must be a whole number, None, or a numpy generator"),
        ("random_state", 1.5, "random_state must be a whole number"),
        ("n_jobs", 0, "n_jobs must be a whole number other than 0"),
        ("n_jobs", "all", "n_jobs must be a whole number other than 0.* got 'all'"),
        ("schema", {"a": "number"}, "schema must be a spinney Schema or None; got a dict"),
        ("unknown_categories", "ignore", "unknown_categories must be 'refuse' or 'as_missing'"),
        ("categorical_features", "all", "categorical_features must be 'from_dtype', None, or"),
        ("unknown_categories", ["refuse"], "unknown_categories must be 'refuse' or 'as_missing'"),
        ("max_features", np.array([1, 2]), "max_features must be 'sqrt', 'log2', None"),
        (
            "message_limit",
            10,
            "message_limit must be a whole number between 65536 and 2147483648; got 10",
        ),
        ("categorical_features", 5, "categorical_features must be 'from_dtype'.*; got 5"),
        ("categorical_features", [[1]], r"categorical_features must be .*; got \[\[1\]\]"),
        ("categorical_features", {1: 2}, "categorical_features must be 'from_dtype', None, or"),
        ("categorical_features", [7], "categorical_features names 7, which is not a column"),
        ("categorical_features", ["z"], "categorical_features names 'z', which is not a column"),
        ("categorical_features", [True], "has 1 booleans for 3 columns"),
    ],
)
def test_a_parameter_that_cannot_work(kind, name, value, words):
    refused(kind, words, **{name: value})


@each
def test_out_of_bag_needs_a_bootstrap(kind):
    refused(kind, "oob_score=True needs bootstrap=True", oob_score=True, bootstrap=False)


@each
def test_adaptive_histograms_cannot_be_masked(kind):
    refused(kind, "binning='adaptive' cannot be masked", binning="adaptive", secure_sum=True)


def test_a_criterion_of_the_other_task():
    words = "criterion must be 'gini' or 'entropy'; got 'squared_error'"
    refused(HorizontalForestClassifier, words, criterion="squared_error")
    words = "criterion must be 'squared_error'; got 'gini'"
    refused(HorizontalForestRegressor, words, criterion="gini")


@pytest.mark.parametrize(
    ("class_weight", "words"),
    [
        ("even", "class_weight must be None, 'balanced' or a dict .* got 'even'"),
        ([1, 2], "class_weight must be None, 'balanced' or a dict"),
        ({5: 1.0}, r"class_weight names classes that y does not have: \[5\]"),
        ({0: -1.0}, "class_weight must give a finite weight of at least 0"),
        ({0: np.inf}, "class_weight must give a finite weight of at least 0"),
        ({0: "heavy"}, "class_weight must give a number for each class"),
    ],
)
def test_class_weights_that_cannot_work(class_weight, words):
    refused(HorizontalForestClassifier, words, class_weight=class_weight)


# --- labels --------------------------------------------------------------------------------------


@each
def test_a_missing_label(kind):
    y = Y.astype(float)
    y[3] = np.nan
    refused(kind, r"label 'y' is missing \(NaN\) in some rows.*leave those rows out", y=y,
            error=TableError)  # fmt: skip


def test_a_missing_label_among_texts():
    y = np.array(["no", "yes"], object)[Y]
    y[3] = None
    words = r"label 'y' is missing \(NaN\) in some rows"
    refused(HorizontalForestClassifier, words, y=y, error=TableError)
    refused(HorizontalForestClassifier, words, y=pd.Series(y, name="y"), error=TableError)


@each
def test_no_label_at_all(kind):
    refused(kind, "missing in every row", y=np.full(40, np.nan), error=TableError)
    refused(kind, "requires y to be passed, but the target y is None", y=None, error=ValueError)


def test_one_class_only():
    words = "label 'y' has one class only. A classifier needs at least 2 classes"
    refused(HorizontalForestClassifier, words, y=np.ones(40), error=TableError)


def test_more_classes_than_a_forest_can_tell_apart():
    words = "label 'y' has 2500 classes; a forest can tell 2048 apart"
    y = np.repeat(np.arange(2500), 2)
    refused(HorizontalForestClassifier, words, X=y[:, None].astype(float), y=y)


def test_as_many_classes_as_a_forest_can_tell_apart():
    y = np.repeat(np.arange(2048), 2)
    X = y[:, None].astype(float)
    forest = HorizontalForestClassifier(1, bootstrap=False, max_depth=6).fit(X, y)
    assert forest.predict_proba(X[:9]).shape == (9, 2048)
    assert forest.model_.forest.moments[0].tolist() == [2] * 2048


@pytest.mark.parametrize("classes", [(1, 2**63 + 1), (2**63 + 5, 2**64 - 1)])
def test_labels_beyond_what_is_held_exactly(classes):
    """Such labels were once rounded: a class came back that nobody had given."""
    words = r"whole number must lie between -2\^63 and 2\^63 - 1.* Write larger ones as text"
    y = np.array(classes, np.uint64)[Y]
    refused(HorizontalForestClassifier, words, y=y)
    refused(HorizontalForestClassifier, words, X=y[:, None], categorical_features=[0])
    fits = np.array([1, 2**63 - 1], np.uint64)[Y]
    forest = HorizontalForestClassifier(1, bootstrap=False, max_features=None).fit(X, fits)
    assert np.array_equal(forest.predict(X), fits)


def test_a_label_s_own_name_is_used():
    y = pd.Series(np.ones(40, int), name="churn")
    words = "The label 'churn' has one class only"
    refused(HorizontalForestClassifier, words, y=y, error=TableError)


def test_a_label_of_amounts_for_a_classifier():
    words = "Unknown label type: continuous"
    refused(HorizontalForestClassifier, words, y=X[:, 1], error=ValueError)


def test_a_label_of_text_for_a_regressor():
    words = "label 'y' holds text, but a number is to be predicted.*use a classifier"
    refused(HorizontalForestRegressor, words, y=np.array(["a", "b"])[Y], error=TableError)


@each
def test_an_infinite_label(kind):
    y = Y.astype(float)
    y[0] = np.inf
    refused(kind, "label 'y' holds an infinite number", y=y, error=TableError)


def test_a_label_of_too_wide_a_range():
    y = np.where(Y, 1.7e308, -1.7e308)
    refused(HorizontalForestRegressor, "range of the label 'y' is too wide", y=y)


@each
def test_labels_of_another_length(kind):
    refused(kind, "same number of rows; got 40 and 39", y=Y[:-1], error=ValueError)


@each
def test_labels_of_two_columns(kind):
    refused(kind, "y should be a 1d array", y=np.c_[Y, Y], error=ValueError)


# --- tables --------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    ("table", "words"),
    [
        (X[:, 0], "Expected 2D array, got 1D array instead"),
        (X[:0], "Found array with 0 sample"),
        (X[:, :0], "Found array with 0 feature"),
        (np.where(X > 2, np.inf, X), "infinity"),
        (X * 1e300, "infinite or beyond 3.4e"),
        (X.astype(complex), "Complex data not supported"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 40)}), "'a' holds dates or times"),
        (pd.DataFrame({"a": [[1]] * 40}), "'a' holds values of type"),
        (
            pd.DataFrame(X, columns=["a", "a", "b"]),
            "^The table has more than one column called a. Give every column a name of its own.$",
        ),
        (
            pd.DataFrame(X, columns=["a", "b", 5]),
            "^Some column names are text and some are not. Make all of them text",
        ),
        (pd.DataFrame({"a": X[:, 0] * 1e300}), "column 'a' holds a number that is infinite"),
        (pl.DataFrame({"a": [None] * 39 + [np.inf]}, strict=False), "'a' holds a number that is"),
    ],
)
def test_a_table_that_cannot_be_learnt_from(kind, table, words):
    refused(kind, words, X=table, error=(ValueError, TypeError))


@each
def test_text_among_numbers_of_an_array(kind):
    table = X.astype(object)
    table[0, 0] = "old"
    refused(kind, "could not convert string to float|holds text", X=table, error=ValueError)


@each
def test_text_that_is_said_to_be_no_category(kind):
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": X[:, 1]})
    words = "column 'a' holds text but is not among categorical_features"
    refused(kind, words, X=table, categorical_features=["b"], error=(SettingError, TableError))


@each
def test_a_sparse_table(kind):
    sparse = pytest.importorskip("scipy.sparse")
    refused(kind, "[Ss]parse", X=sparse.csr_matrix(X), error=(TypeError, ValueError))


# --- prediction ----------------------------------------------------------------------------------


def wards(n=40):
    return pd.DataFrame(
        {
            "age": np.arange(n, dtype=float),
            "ward": pd.Categorical(np.resize(["eye", "knee", "skin"], n)),
        }
    )


@pytest.fixture(params=BOTH, ids=[kind.__name__ for kind in BOTH])
def forest(request):
    return request.param(5, random_state=0).fit(wards(), Y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_an_unknown_category_is_refused_by_name_of_the_column(forest, frame):
    table = frame({"age": [1.0, 2.0], "ward": ["eye", "heart"]})
    words = (
        "column 'ward' holds a category that the schema does not name. "
        "It names: eye, knee, skin. Add the category to the schema, or leave those rows out."
    )
    with pytest.raises(SchemaError, match=words) as caught:
        forest.predict(table)
    assert "heart" not in caught.value.public
    assert "heart" in str(caught.value)


def test_an_unknown_category_can_be_taken_as_missing(forest):
    forest.set_params(unknown_categories="as_missing")
    unknown = pd.DataFrame({"age": [1.0, 30.0], "ward": ["heart", "heart"]})
    missing = pd.DataFrame({"age": [1.0, 30.0], "ward": pd.Categorical([None, None])})
    assert np.array_equal(forest.predict(unknown), forest.predict(missing))


def test_a_category_that_is_a_number_is_refused(forest):
    with pytest.raises(SchemaError, match="'ward' holds numbers, but its categories are text"):
        forest.predict(pd.DataFrame({"age": [1.0], "ward": [3.0]}))


def test_text_for_a_number_is_refused(forest):
    with pytest.raises(SchemaError, match="'age' is a number in the schema, but holds text"):
        forest.predict(pd.DataFrame({"age": ["old"], "ward": ["eye"]}))


def test_a_missing_column_is_named(forest):
    with pytest.raises(ValueError, match="ward"):
        forest.predict(wards()[["age"]])


def test_an_extra_column_is_named(forest):
    with pytest.raises(ValueError, match="bed"):
        forest.predict(wards().assign(bed=1.0))


def test_columns_in_another_order_are_matched_by_name_or_refused(forest):
    """As in scikit-learn, whose contract refuses; never silently by position."""
    turned = wards()[["ward", "age"]]
    try:
        found = forest.predict(turned)
    except ValueError as error:
        assert "order" in str(error)  # noqa: PT017  either outcome is sound
    else:
        assert np.array_equal(found, forest.predict(wards()))


@each
def test_an_array_of_another_width(kind):
    forest = kind(3).fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        forest.predict(X[:, :2])


@each
def test_infinite_numbers_are_refused_at_prediction(kind):
    forest = kind(3).fit(X, Y)
    with pytest.raises(ValueError, match="infinity"):
        forest.predict(np.full((1, 3), np.inf))
    frame = kind(3).fit(pd.DataFrame(X, columns=list("abc")), Y)
    with pytest.raises(TableError, match="column 'a' holds a number that is infinite"):
        frame.predict(pd.DataFrame(np.full((1, 3), np.inf), columns=list("abc")))


@each
def test_no_rows_to_predict(kind):
    with pytest.raises(ValueError, match="0 sample"):
        kind(3).fit(X, Y).predict(X[:0])


@each
def test_gaps_at_prediction_are_fine_where_none_were_seen(kind):
    forest = kind(5, random_state=0).fit(X, Y)
    assert forest.predict(np.full((2, 3), np.nan)).shape == (2,)


# --- parties -------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    ("party", "words"),
    [
        (np.zeros(39, int), "party must name a party for each of the 40 rows; got 39 labels"),
        (np.zeros(41, int), "party must name a party for each of the 40 rows; got 41 labels"),
        (np.r_[np.nan, np.zeros(39)], "party must name a party for every row; some labels are"),
        (np.array([None] + ["a"] * 39, object), "party must name a party for every row"),
        (pd.Series([None] + ["a"] * 39, dtype="string"), "party must name a party for every row"),
        (np.zeros((40, 2), int), r"party must be one list .* got an array of shape \(40, 2\)"),
        ("north", r"party must be one list that names a party for each row; got .* shape \(\)"),
        (5, r"party must be one list that names a party for each row"),
    ],
)
@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_parties_that_do_not_fit_the_rows(kind, party, words):
    refused(kind, words, party=party, error=ValueError)


def test_a_simulation_names_the_public_facts_it_read():
    with pytest.warns(PrivacyLeakWarning, match="classes of 'y'.*Pass schema=Schema"):
        HorizontalForestClassifier(2).fit(X, Y, party=np.arange(40) % 2)
    with pytest.warns(PrivacyLeakWarning, match="range of 'y'"):
        HorizontalForestRegressor(2).fit(X, X[:, 0], party=np.arange(40) % 2)
    with pytest.warns(PrivacyLeakWarning, match="range of 'x0', range of 'x1', range of 'x2'"):
        HorizontalForestClassifier(2, binning="ranges").fit(X, Y, party=np.arange(40) % 2)
    with pytest.warns(PrivacyLeakWarning, match="categories of 'ward'"):
        HorizontalForestClassifier(2).fit(wards(), Y, party=np.arange(40) % 2)


def test_a_full_schema_leaks_nothing():
    """And warnings are errors here."""
    schema = Schema(
        (
            Column("age", "number", range=(0, 99)),
            Column("ward", "category", categories=("eye", "knee", "skin")),
        ),
        Label("ill", "class", (0, 1)),
    )
    for binning in ("quantiles", "ranges"):
        forest = HorizontalForestClassifier(2, schema=schema, binning=binning)
        assert forest.fit(wards(), Y, party=np.arange(40) % 2).model_.schema == schema


def test_one_organisation_alone_is_not_warned():
    HorizontalForestClassifier(2).fit(wards(), Y)


# --- schemas -------------------------------------------------------------------------------------


def schema_of(label, *columns):
    return Schema(columns or (Column("age", "number"), Column("ward", "category")), label)


def test_a_schema_of_another_kind_of_label():
    words = "schema's label 'ill' is a number; HorizontalForestClassifier needs a class"
    label = Label("ill", "number", range=(0, 1))
    refused(HorizontalForestClassifier, words, X=wards(), schema=schema_of(label))
    words = "schema's label 'ill' is a class; HorizontalForestRegressor needs a number"
    label = Label("ill", "class", (0, 1))
    refused(HorizontalForestRegressor, words, X=wards(), schema=schema_of(label))


def test_a_class_that_the_schema_does_not_name():
    label = Label("ill", "class", ("no", "yes"))
    words = "The label 'ill' holds a class that the schema does not name. It names: no, yes"
    y = np.array(["no", "maybe"])[Y]
    refused(
        HorizontalForestClassifier, words, X=wards(), y=y, schema=schema_of(label),
        error=SchemaError,
    )  # fmt: skip


def test_a_schema_with_other_columns():
    schema = schema_of(Label("ill", "class", (0, 1)), Column("height", "number"))
    with pytest.raises(SchemaError, match="no column 'height'"):
        HorizontalForestClassifier(2, schema=schema).fit(wards()[["age"]], Y)


def test_a_schema_in_another_order_is_refused_since_models_count_by_place():
    frame = pd.DataFrame({"age": X[:, 0], "height": X[:, 1]})
    schema = Schema(
        (Column("height", "number"), Column("age", "number")), Label("ill", "class", (0, 1))
    )
    words = r"columns in another order. The schema has: height, age.*X\[list\(schema.names\)\]"
    refused(HorizontalForestClassifier, words, X=frame, schema=schema, error=SchemaError)
    forest = HorizontalForestClassifier(3, schema=schema, random_state=0)
    forest.fit(frame[list(schema.names)], Y)
    assert forest.feature_names_in_.tolist() == ["height", "age"]
    assert forest.feature_importances_.argmax() == 1


def test_classes_of_the_schema_that_no_row_has_are_kept():
    """Also where the labels' own type is too narrow for their names."""
    schema = Schema((Column("age", "number"),), Label("ill", "class", ("maybe", "no", "yes")))
    forest = HorizontalForestClassifier(3, schema=schema, random_state=0)
    forest.fit(wards()[["age"]], np.array(["no", "yes"])[Y])
    assert forest.classes_.tolist() == ["maybe", "no", "yes"]
    shares = forest.predict_proba(wards()[["age"]])
    assert shares.shape == (40, 3)
    assert not shares[:, 0].any()
