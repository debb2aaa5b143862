"""Every estimator: scikit-learn's own checks, and its tools with `party` routed as metadata."""

import inspect

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    VerticalForestClassifier,
    VerticalForestRegressor,
    deal_rows,
)

ESTIMATORS = [
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    VerticalForestClassifier,
    VerticalForestRegressor,
]
OVER_ROWS = [kind for kind in ESTIMATORS if "party" in inspect.signature(kind.fit).parameters]
DEFAULTS = {  # bootstrap and binning
    HorizontalForestClassifier: (True, "quantiles"),
    HorizontalForestRegressor: (True, "quantiles"),
    ExtraTreesClassifier: (False, "quantiles"),
    ExtraTreesRegressor: (False, "quantiles"),
    VerticalForestClassifier: (True, "quantiles"),
    VerticalForestRegressor: (True, "quantiles"),
}
SMALL = {"n_estimators": 5, "random_state": 0}

quiet = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
each = pytest.mark.parametrize("kind", ESTIMATORS, ids=[kind.__name__ for kind in ESTIMATORS])
over_rows = pytest.mark.parametrize("kind", OVER_ROWS, ids=[kind.__name__ for kind in OVER_ROWS])


@parametrize_with_checks([kind(**SMALL) for kind in ESTIMATORS])
def test_scikit_learn_s_own_checks(estimator, check):
    """No check is expected to fail, and none is skipped by us."""
    check(estimator)


def table(kind, n=120):
    random = np.random.RandomState(0)
    X = random.standard_normal((n, 4))
    signal = X[:, 0] + 0.5 * X[:, 1] + 0.3 * random.standard_normal(n)
    return X, (signal > 0).astype(int) if is_classifier(kind()) else signal


# --- parameters ----------------------------------------------------------------------------------


@each
def test_a_constructor_only_stores(kind):
    wrong = {"n_estimators": "many", "max_bins": -1, "criterion": None, "schema": "none"}
    forest = kind(**wrong)
    for name, value in wrong.items():
        assert getattr(forest, name) == value


@each
def test_every_parameter_is_documented_and_kept(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert sorted(kind().get_params()) == sorted(names)
    documented = {
        HorizontalForestRegressor: HorizontalForestClassifier,
        ExtraTreesRegressor: ExtraTreesClassifier,
        VerticalForestRegressor: VerticalForestClassifier,
    }
    for name in names:
        assert name in (documented.get(kind, kind).__doc__ or "")


@each
def test_scikit_learn_s_defaults_are_kept(kind):
    forest = kind()
    assert (forest.n_estimators, forest.max_depth, forest.min_samples_leaf) == (100, None, 1)
    assert (forest.oob_score, forest.random_state, forest.max_bins) == (False, None, 255)
    assert (forest.bootstrap, forest.binning) == DEFAULTS[kind]


@each
def test_parameters_can_be_set_and_cloned(kind):
    forest = kind().set_params(max_depth=3, max_bins=16)
    twin = clone(forest)
    assert twin.get_params() == forest.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        forest.set_params(depth=3)


@each
def test_a_clone_of_a_fitted_forest_is_unfitted_and_fits_to_the_same(kind):
    X, y = table(kind)
    forest = kind(**SMALL).fit(X, y)
    twin = clone(forest)
    with pytest.raises(NotFittedError):
        twin.predict(X)
    assert twin.fit(X, y).model_.to_bytes() == forest.model_.to_bytes()


@each
def test_fit_does_not_change_parameters_or_data(kind):
    X, y = table(kind)
    X_before, y_before = X.copy(), y.copy()
    forest = kind(**SMALL)
    before = forest.get_params()
    assert forest.fit(X, y) is forest
    assert forest.get_params() == before
    assert np.array_equal(X, X_before)
    assert np.array_equal(y, y_before)


@each
def test_numpy_s_own_numbers_are_good_parameters(kind):
    """A grid made by `np.arange` gives them."""
    X, y = table(kind)
    forest = kind(
        n_estimators=np.int64(3),
        max_depth=np.int32(2),
        max_features=np.int64(2),
        min_samples_leaf=np.int8(2),
        min_impurity_decrease=np.float32(0.0),
        max_bins=np.uint8(200),
        bootstrap=np.True_,
        random_state=np.int64(0),
    ).fit(X, y)
    assert forest.model_.forest.n_trees == 3
    assert forest.report_.to_json()


@each
def test_random_state_may_be_a_generator(kind):
    X, y = table(kind)
    for make in (np.random.default_rng, np.random.RandomState):
        one, same = (kind(n_estimators=2, random_state=make(3)).fit(X, y) for _ in range(2))
        assert one.model_.to_bytes() == same.model_.to_bytes()
    generator = np.random.default_rng(3)
    first, second = (
        kind(n_estimators=2, random_state=generator).fit(X, y).model_.to_bytes() for _ in range(2)
    )
    assert first != second


# --- what a fitted estimator has -----------------------------------------------------------------


@each
def test_a_fitted_estimator_has_what_scikit_learn_s_have(kind):
    X, y = table(kind)
    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = kind(20, random_state=0, bootstrap=True, oob_score=True).fit(frame, y)
    assert forest.n_features_in_ == 4
    assert forest.feature_names_in_.tolist() == list("abcd")
    assert forest.feature_importances_.shape == (4,)
    assert forest.feature_importances_.sum() == pytest.approx(1.0)
    assert forest.feature_importances_.argmax() == 0
    assert isinstance(forest.oob_score_, float)
    assert forest.report_.n_trees == 20
    assert is_classifier(forest) == ("Classifier" in kind.__name__)
    assert is_regressor(forest) == ("Regressor" in kind.__name__)


@each
def test_an_array_has_no_feature_names(kind):
    X, y = table(kind)
    assert not hasattr(kind(**SMALL).fit(X, y), "feature_names_in_")


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], object),
        np.array([3, 7]),
        np.array([3, 7], np.uint8),
        np.array([-1.0, 1.0]),
        np.array([False, True]),
    ],
    ids=["text", "objects", "numbers", "bytes", "floats", "booleans"],
)
def test_classes_are_of_the_labels_type(labels):
    X, y = table(HorizontalForestClassifier)
    forest = HorizontalForestClassifier(**SMALL).fit(X, labels[y])
    assert forest.classes_.tolist() == labels.tolist()
    assert forest.classes_.dtype == labels.dtype
    assert forest.predict(X).dtype == labels.dtype
    assert forest.score(X, labels[y]) > 0.9


@each
def test_an_unfitted_estimator_says_so(kind):
    X, _ = table(kind)
    forest = kind()
    for use in (
        lambda: forest.predict(X),
        lambda: forest.save("x"),
        forest.to_sklearn,
        lambda: forest.feature_importances_,
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use()


def test_probabilities_are_those_of_the_classes():
    X, y = table(HorizontalForestClassifier)
    forest = HorizontalForestClassifier(**SMALL).fit(X, y)
    shares = forest.predict_proba(X)
    assert shares.shape == (120, 2)
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert np.array_equal(forest.predict(X), forest.classes_[shares.argmax(axis=1)])


@each
def test_a_fitted_forest_survives_joblib(kind, tmp_path):
    """For users' own use; Spinney itself never unpickles."""
    X, y = table(kind)
    forest = kind(**SMALL).fit(X, y)
    joblib.dump(forest, tmp_path / "forest.joblib")
    twin = joblib.load(tmp_path / "forest.joblib")
    assert twin.model_.to_bytes() == forest.model_.to_bytes()
    assert np.array_equal(twin.predict(X), forest.predict(X))


@each
def test_a_copy_works_in_another_process(kind):
    X, y = table(kind)
    forest = kind(**SMALL).fit(X, y)
    (found,) = joblib.Parallel(n_jobs=2, backend="threading")(
        joblib.delayed(forest.predict)(X) for _ in range(1)
    )
    assert np.array_equal(found, forest.predict(X))


# --- parties -------------------------------------------------------------------------------------


@over_rows
def test_no_party_is_one_party(kind):
    X, y = table(kind)
    alone = kind(**SMALL).fit(X, y)
    named = kind(**SMALL).fit(X, y, party=None)
    assert alone.report_.parties == named.report_.parties == ("all",)
    assert alone.model_.to_bytes() == named.model_.to_bytes()


@quiet
@over_rows
def test_a_pipeline_passes_party_on(kind):
    X, y = table(kind)
    site = deal_rows(y, 3, random_state=0)
    pipe = Pipeline([("scale", StandardScaler()), ("forest", kind(**SMALL))])
    pipe.fit(X, y, forest__party=site)
    assert pipe["forest"].report_.parties == ("0", "1", "2")
    alone = make_pipeline(StandardScaler(), kind(**SMALL)).fit(X, y)
    assert np.array_equal(pipe.predict(X), alone.predict(X))


@quiet
@over_rows
def test_a_grid_search_passes_party_on_without_routing(kind):
    X, y = table(kind)
    site = deal_rows(y, 3, random_state=0)
    search = GridSearchCV(kind(**SMALL), {"max_depth": np.arange(1, 3)}, cv=3)
    search.fit(X, y, party=site)
    assert len(search.best_estimator_.report_.parties) == 3
    alone = GridSearchCV(kind(**SMALL), {"max_depth": [1, 2]}, cv=3).fit(X, y)
    assert np.array_equal(
        search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"]
    )


@quiet
@over_rows
def test_a_grid_search_passes_party_on_with_routing(kind):
    X, y = table(kind)
    site = deal_rows(y, 3, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(kind(**SMALL), {"max_depth": [1, 2]}, cv=3)
        search.fit(X, y, party=site)
        assert len(search.best_estimator_.report_.parties) == 3
        pipe = GridSearchCV(
            make_pipeline(StandardScaler(), kind(**SMALL)),
            {f"{kind.__name__.lower()}__max_depth": [1, 2]},
            cv=3,
        ).fit(X, y, party=site)
        assert len(pipe.best_estimator_[-1].report_.parties) == 3


@quiet
@over_rows
def test_cross_validation_passes_party_on(kind):
    X, y = table(kind)
    site = np.array(["north", "south"])[deal_rows(y, 2, random_state=0)]
    alone = cross_val_score(kind(**SMALL), X, y, cv=3)
    assert np.array_equal(cross_val_score(kind(**SMALL), X, y, cv=3, params={"party": site}), alone)
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            kind(**SMALL), X, y, cv=3, params={"party": site}, return_estimator=True
        )
    assert np.array_equal(found["test_score"], alone)
    for forest in found["estimator"]:
        assert forest.report_.parties == ("north", "south")


@over_rows
def test_party_can_be_left_unrouted(kind):
    X, y = table(kind)
    with sklearn.config_context(enable_metadata_routing=True):
        assert kind().get_metadata_routing().fit.requests["party"] is True
        forest = kind(**SMALL).set_fit_request(party=False)
        assert GridSearchCV(forest, {"max_depth": [1]}, cv=2).fit(X, y).best_score_
