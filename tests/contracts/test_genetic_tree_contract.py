"""`GeneticTree*` as an estimator: scikit-learn's checks and tools, one tree for each party."""

import inspect

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from spinney import GeneticTreeClassifier, GeneticTreeRegressor, deal_rows, load_model
from spinney.errors import SettingError, TableError

ESTIMATORS = [GeneticTreeClassifier, GeneticTreeRegressor]
SMALL = {"population_size": 6, "n_generations": 3, "max_depth": 4, "random_state": 0}

quiet = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
each = pytest.mark.parametrize("kind", ESTIMATORS, ids=[kind.__name__ for kind in ESTIMATORS])


@parametrize_with_checks([kind(**SMALL) for kind in ESTIMATORS])
def test_scikit_learn_s_own_checks(estimator, check):
    """No check is expected to fail, and none is skipped by us."""
    check(estimator)


def table(kind, n=150):
    random = np.random.RandomState(0)
    X = random.standard_normal((n, 4))
    signal = X[:, 0] + 0.5 * X[:, 1] + 0.3 * random.standard_normal(n)
    return X, (signal > 0).astype(int) if kind is GeneticTreeClassifier else signal


@each
def test_a_constructor_only_stores(kind):
    wrong = {"population_size": "many", "max_bins": -1, "metric": "none", "schema": "none"}
    for name, value in wrong.items():
        assert getattr(kind(**wrong), name) == value


@each
def test_every_parameter_is_documented_and_kept(kind):
    names = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    assert sorted(kind().get_params()) == sorted(names)
    for name in names:
        assert name in (GeneticTreeClassifier.__doc__ or "")


@each
def test_a_clone_is_unfitted_and_fits_to_the_same(kind):
    X, y = table(kind)
    model = kind(**SMALL).fit(X, y)
    twin = clone(model)
    for use in (lambda: twin.predict(X), lambda: twin.save("x"), lambda: twin.home_tree_of_):
        with pytest.raises(NotFittedError):
            use()
    assert twin.fit(X, y).model_.to_bytes() == model.model_.to_bytes()


@each
def test_numpy_s_own_numbers_are_good_parameters(kind):
    X, y = table(kind)
    model = kind(
        np.int64(5),
        n_generations=np.int32(2),
        max_depth=np.uint8(3),
        participation=np.float32(1.0),
        keep_home=np.True_,
        random_state=np.random.RandomState(3),
    ).fit(X, y)
    assert model.report_.to_json()


@quiet
@each
def test_each_party_has_a_tree_of_its_own(kind):
    X, y = table(kind)
    frame = pd.DataFrame(X, columns=list("abcd"))
    site = np.array(["north", "south", "west"])[deal_rows(y, 3, random_state=0)]
    model = kind(**SMALL).fit(frame, y, party=site)
    assert list(model.tree_of_) == list(model.home_tree_of_) == ["north", "south", "west"]
    assert is_classifier(model) == (kind is GeneticTreeClassifier)
    assert is_regressor(model) == (kind is GeneticTreeRegressor)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_.argmax() == 0
    by_row = model.predict(frame, party=site)
    for name in model.tree_of_:
        mine = site == name
        assert np.array_equal(model.predict(frame[mine], party=name), by_row[mine])
        tree = model.tree_of_[name]
        assert 0.0 <= tree.edit_distance <= 1.0
        assert tree.n_decisions == int((tree.model.forest.feature >= 0).sum())
    scores = {q.party: q.scores for q in model.report_.quality}
    assert scores["west"]["nodes"] == model.tree_of_["west"].n_decisions
    assert len(model.report_.history) == 3


@quiet
@each
def test_without_a_party_all_trees_vote(kind):
    X, y = table(kind)
    model = kind(**SMALL).fit(X, y, party=deal_rows(y, 3, random_state=0))
    shown = model.predict_proba if kind is GeneticTreeClassifier else model.predict
    assert np.allclose(shown(X), np.mean([shown(X, party=name) for name in range(3)], axis=0))
    assert model.score(X, y) > 0.5


@quiet
@each
def test_what_is_wrong_with_party_is_said(kind):
    X, y = table(kind)
    model = kind(**SMALL).fit(X, y, party=deal_rows(y, 2, random_state=0))
    with pytest.raises(SettingError, match="No party is called 'x'"):
        model.predict(X, party="x")
    with pytest.raises(SettingError, match="for each of the 150 rows; got 3 names"):
        model.predict(X, party=[0, 1, 0])
    with pytest.raises(SettingError, match=r"There is no party 7\. Parties with trees: 0, 1"):
        model.tree_of_[7]
    assert 1 in model.tree_of_


@quiet
@each
def test_a_saved_model_predicts_the_same(kind, tmp_path):
    X, y = table(kind)
    site = deal_rows(y, 3, random_state=0)
    model = kind(**SMALL).fit(X, y, party=site)
    model.save(tmp_path / "model.spinney", exact=True)
    loaded = load_model(tmp_path / "model.spinney")
    assert isinstance(loaded, kind)
    assert np.array_equal(loaded.predict(X, party=site), model.predict(X, party=site))
    assert str(loaded.tree_of_[1]) == str(model.tree_of_[1])
    assert loaded.tree_of_[1].is_home is None
    with pytest.raises(AttributeError, match="not saved with it"):
        loaded.home_tree_of_  # noqa: B018
    joblib.dump(model, tmp_path / "model.joblib")
    assert np.array_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))
    assert np.allclose(model.to_sklearn(exact=True).predict(X), model.predict(X))


@quiet
@each
def test_scikit_learn_s_tools_pass_party_on(kind):
    X, y = table(kind)
    site = deal_rows(y, 3, random_state=0)
    pipe = Pipeline([("scale", StandardScaler()), ("tree", kind(**SMALL))])
    pipe.fit(X, y, tree__party=site)
    assert pipe["tree"].report_.parties == ("0", "1", "2")
    search = GridSearchCV(kind(**SMALL), {"max_depth": [2, 3]}, cv=2).fit(X, y, party=site)
    assert len(search.best_estimator_.report_.parties) == 3
    plain = cross_val_score(kind(**SMALL), X, y, cv=2, params={"party": site})
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            kind(**SMALL), X, y, cv=2, params={"party": site}, return_estimator=True
        )
    assert np.array_equal(found["test_score"], plain)
    assert all(len(tree.tree_of_) == 3 for tree in found["estimator"])


@quiet
@each
def test_masks_and_noisy_sizes(kind):
    X, y = table(kind)
    site = deal_rows(y, 3, random_state=0)
    plain, masked = (
        kind(**SMALL, secure_sum=secure).fit(X, y, party=site) for secure in (False, True)
    )
    assert plain.model_.to_bytes() == masked.model_.to_bytes()
    assert plain.ledger_ == {}
    noisy = kind(**SMALL, size_epsilon=1).fit(X, y, party=site)
    assert sorted(noisy.ledger_) == ["0", "1", "2"]
    assert not noisy.report_.is_private
    with pytest.raises(SettingError, match="It needs secure_sum=True"):
        kind(**SMALL, honest=2).fit(X, y, party=site)
    with pytest.raises(SettingError, match="secure_sum must be True or False"):
        kind(**SMALL, secure_sum="yes").fit(X, y)


@quiet
@each
def test_too_few_rows_are_refused(kind):
    X, y = table(kind, n=20)
    with pytest.raises(TableError, match="X has n_samples=4, fewer rows than the 5 folds"):
        kind(**SMALL).fit(X[-4:], y[-4:])
    with pytest.raises(TableError, match="Party '1' has n_samples=2, fewer rows"):
        kind(**SMALL).fit(X, y, party=np.r_[np.zeros(18), 1, 1].astype(int))


@quiet
def test_progress_tells_the_best_score_of_each_generation(capsys):
    X, y = table(GeneticTreeClassifier)
    GeneticTreeClassifier(**SMALL, verbose=1).fit(X, y, party=deal_rows(y, 2, random_state=0))
    told = [line for line in capsys.readouterr().err.splitlines() if "evolving" in line]
    assert [line.split()[-1] for line in told] == ["1/3", "2/3", "3/3"]
    assert all("best f1 " in line for line in told)
