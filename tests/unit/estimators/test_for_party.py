"""A party fits the joint forest's scores at home: class prior, calibration, threshold."""

import pickle

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss

from spinney import (
    ExtraTreesClassifier,
    HorizontalBoostingClassifier,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    load_model,
)
from spinney.errors import SettingError
from spinney.protocols.home import HomeModel, fit_at_home, shares_elsewhere

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def skewed(seed, n=900):
    """Return rows of three parties; the share of the second class is 4, 50 and 96 percent."""
    random = np.random.default_rng(seed)
    site = np.repeat(["calm", "even", "ill"], n // 3)
    share = np.repeat([0.04, 0.5, 0.96], n // 3)
    y = (random.random(n) < share).astype(int)
    X = random.normal(size=(n, 6))
    X[:, 0] += 1.2 * y
    X[:, 1] -= 0.8 * y
    return X, y, site


@pytest.fixture(scope="module")
def joint():
    X, y, site = skewed(0)
    return HorizontalForestClassifier(40, max_depth=6, random_state=0).fit(X, y, party=site)


def rows_of(party):
    X, y, site = skewed(1)
    return X[site == party], y[site == party]


@pytest.mark.parametrize("party", ["calm", "ill"])
def test_a_skewed_party_loses_nothing_against_its_majority(joint, party):
    X, y = rows_of(party)
    home = joint.for_party(party)
    majority = max(np.mean(y), 1 - np.mean(y))
    assert joint.score(X, y) < majority - 0.05
    assert home.score(X, y) > majority - 0.02
    assert log_loss(y, home.predict_proba(X)) < log_loss(y, joint.predict_proba(X))
    order = np.argsort(joint.predict_proba(X)[:, 1], kind="stable")
    assert (np.diff(home.predict_proba(X)[order, 1]) >= -1e-12).all()  # so that AUC stays


def test_the_joint_forest_stays_as_it_is(joint):
    before = joint.model_.to_bytes()
    home = joint.for_party("calm")
    assert joint.model_.to_bytes() == before
    again = home.for_party("calm")
    assert np.array_equal(
        again.predict_proba(rows_of("calm")[0]), home.predict_proba(rows_of("calm")[0])
    )


def test_a_threshold_is_chosen_for_the_metric_that_the_party_names(joint):
    random = np.random.default_rng(0)
    share = 0.4 * random.random(2000)
    truth = (random.random(2000) < share).astype(int)
    shares = np.stack([1 - share, share], axis=1)
    scores = [
        f1_score(truth, HomeModel.of(joint.model_, fit).decided(fit.shares(shares)))
        for fit in (fit_at_home(shares, truth), fit_at_home(shares, truth, "f1"))
    ]
    assert scores[0] < 0.1
    assert scores[1] > 0.35
    X, _ = rows_of("calm")
    plain, found = joint.for_party("calm"), joint.for_party("calm", metric="f1")
    assert np.array_equal(plain.predict_proba(X), found.predict_proba(X))


def test_rows_that_were_held_back_do_as_well(joint):
    X, y = rows_of("ill")
    found = joint.for_party("ill", X, y)
    assert found.score(X, y) > joint.score(X, y)


def test_rare_classes_are_found_if_each_class_weighs_the_same(joint):
    random = np.random.default_rng(0)
    share = 0.3 * random.random(2000)
    truth = (random.random(2000) < share).astype(int)
    shares = np.stack([1 - share, share], axis=1)
    plain, even = fit_at_home(shares, truth), fit_at_home(shares, truth, "balanced_accuracy")
    assert np.array_equal(plain.shares(shares), even.shares(shares))
    scores = [
        balanced_accuracy_score(truth, HomeModel.of(joint.model_, fit).decided(fit.shares(shares)))
        for fit in (plain, even)
    ]
    assert scores[0] < 0.55
    assert scores[1] > 0.6


def test_boosted_trees_are_fitted_to_rows_that_were_held_back(tmp_path):
    X, y, site = skewed(0)
    joint = HorizontalBoostingClassifier(max_iter=30, random_state=0).fit(X, y, party=site)
    with pytest.raises(SettingError, match=r"Of boosted trees, .* Hold rows of the party back"):
        joint.for_party("calm")
    X, y = rows_of("calm")
    home = joint.for_party("calm", X[::2], y[::2])
    X, y = X[1::2], y[1::2]
    assert log_loss(y, home.predict_proba(X)) < log_loss(y, joint.predict_proba(X))
    assert home.score(X, y) >= max(np.mean(y), 1 - np.mean(y)) - 0.02
    assert np.array_equal(list(home.staged_predict(X))[-1], home.predict(X))
    joint.save(tmp_path / "model.spinney", exact=True)
    loaded = load_model(tmp_path / "model.spinney").for_party("calm", *rows_of("calm"))
    assert np.array_equal(
        loaded.predict_proba(X), joint.for_party("calm", *rows_of("calm")).predict_proba(X)
    )


@pytest.mark.parametrize("bootstrap", [False, True])
def test_extra_trees_are_fitted_to_rows_that_no_tree_drew_or_that_were_held_back(bootstrap):
    X, y, site = skewed(0)
    joint = ExtraTreesClassifier(40, max_depth=6, bootstrap=bootstrap, random_state=0)
    joint.fit(X, y, party=site)
    X, y = rows_of("calm")
    if bootstrap:
        home = joint.for_party("calm")
    else:
        with pytest.raises(SettingError, match=r"no row is out of bag\. Hold rows"):
            joint.for_party("calm")
        home = joint.for_party("calm", X[::2], y[::2])
        X, y = X[1::2], y[1::2]
    assert joint.score(X, y) < max(np.mean(y), 1 - np.mean(y)) - 0.05
    assert home.score(X, y) >= max(np.mean(y), 1 - np.mean(y)) - 0.02
    assert log_loss(y, home.predict_proba(X)) < log_loss(y, joint.predict_proba(X))


def test_what_a_party_would_decide_is_judged_on_rows_that_it_did_not_fit(joint):
    X, y = rows_of("ill")
    told = joint.predict_proba(X)
    elsewhere = shares_elsewhere(told, y)
    apart = np.arange(len(y)) % 5 == 0
    fit = fit_at_home(told[~apart], y[~apart])
    assert np.allclose(elsewhere[apart], fit.shares(told[apart]))


def test_what_was_fitted_at_home_stays_there(joint, tmp_path):
    home = joint.for_party("calm")
    for leave in (lambda: home.save(tmp_path / "home"), home.to_onnx, home.to_sklearn):
        with pytest.raises(SettingError, match="fitted at home stays there"):
            leave()
    assert "_tables" not in pickle.loads(pickle.dumps(joint)).__dict__


def test_the_fits_numbers_turn_scores_of_an_exported_joint_model_into_the_partys(joint):
    """As docs/report.md says it."""
    X, _ = rows_of("calm")
    own = joint.for_party("calm", metric="f1")
    fit = own.model_.home
    p = joint.to_sklearn(exact=True).predict_proba(X)
    shares = softmax(fit.slope * np.log(np.maximum(p, 0.0001)) + fit.offset, axis=1)
    assert np.allclose(shares, own.predict_proba(X), rtol=1e-9)
    assert np.array_equal((shares * fit.weight).argmax(axis=1), own.predict(X))
    assert not np.array_equal(p.argmax(axis=1), own.predict(X))


def test_what_cannot_be_fitted_is_refused(joint):
    with pytest.raises(SettingError, match=r"No party is called 'moon'\. .*: calm, even, ill"):
        joint.for_party("moon")
    with pytest.raises(SettingError, match="metric must be 'accuracy', 'balanced_accuracy'"):
        joint.for_party("calm", metric="profit")
    X, y, site = skewed(0, 90)
    whole = HorizontalForestClassifier(2, bootstrap=False, random_state=0).fit(X, y, party=site)
    with pytest.raises(SettingError, match=r"no row is out of bag\. Hold rows"):
        whole.for_party("calm")
    amounts = HorizontalForestRegressor(2, random_state=0).fit(X, y.astype(float), party=site)
    with pytest.raises(SettingError, match="a regressor has none"):
        amounts.for_party("calm")


def test_without_rows_the_joint_scores_stay():
    fit = fit_at_home(np.full((3, 2), np.nan), np.zeros(3, np.int64))
    shares = np.array([[0.2, 0.8]])
    assert np.allclose(fit.shares(shares), shares)
    with pytest.raises(SettingError, match="needs two classes"):
        fit_at_home(np.full((3, 3), 1 / 3), np.zeros(3, np.int64), "f1")
