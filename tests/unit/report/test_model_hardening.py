"""A model before it leaves: small leaves closed, numbers rounded, no exact counts."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from spinney import (
    HorizontalBoostingClassifier,
    HorizontalBoostingRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
)
from spinney.errors import PolicyError, SettingError
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.report.door import release, require_released
from spinney.report.hardening import coarse_counts, counts_classes, harden
from spinney.report.narrowing import bounds_told
from spinney.tables.frames import columns_of
from spinney.tables.withheld import UndeclaredRows

AS_IS = Hardening(1, 15, 15, exact_counts=True)
pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture(params=["two classes", "amount"])
def model(request, ward_table, ward_labels):
    face = HorizontalForestRegressor if request.param == "amount" else HorizontalForestClassifier
    model = face(4, random_state=0).fit(ward_table, ward_labels[request.param]).model_
    return replace(model, undeclared=UndeclaredRows())  # as if the range had been declared


def only(**changes):
    return msgspec.structs.replace(AS_IS, **changes)


def rows_of(model):
    moments = model.forest.moments
    return moments[:, 0] if model.schema.label.kind == "number" else moments.sum(axis=1)


def test_nothing_asked_is_nothing_done(model):
    same, done = harden(model, AS_IS)
    assert same is model
    assert done == ()


def test_no_leaf_is_smaller_than_allowed(model, ward_table):
    changed, (told, *_) = harden(model, only(smallest_leaf=20))
    leaves = changed.forest.feature < 0
    assert rows_of(model)[model.forest.feature < 0].min() < 20
    assert rows_of(changed)[leaves].min() >= 20
    assert told.endswith("splits with fewer than 20 rows on a side closed")
    columns = columns_of(ward_table, model.schema)
    found = changed.predict(columns)
    assert found.shape == model.predict(columns).shape
    assert np.corrcoef(found[:, -1], model.predict(columns)[:, -1])[0, 1] > 0.6


def test_thresholds_and_predictions_are_rounded(model):
    changed, done = harden(model, only(threshold_digits=2, value_digits=2))
    forest = model.forest
    for column in np.unique(forest.feature[(forest.feature >= 0) & (forest.subset < 0)]):
        here = forest.feature == column
        before, after = forest.threshold[here], changed.forest.threshold[here]
        span = float(before.max() - before.min()) or float(np.abs(before).max()) or 1.0
        unit = 10.0 ** (np.floor(np.log10(span)) - 1)
        assert np.allclose(after / unit, np.rint(after / unit), atol=1e-4)
        assert np.all(np.abs(after - before) <= 0.51 * unit)
    assert done == (
        (
            "thresholds rounded to 2 digits of their column's span; a row between a threshold and "
            "its rounded value now goes the other way"
        ),
        "predictions of leaves rounded to 2 digits",
    )
    if model.schema.label.kind == "class":
        assert np.allclose(changed.forest.value.sum(axis=1), 1)


def test_no_exact_count_is_left(model):
    changed, (_, told, *closed) = harden(model, only(smallest_leaf=5, exact_counts=False))
    assert told == "counts of nodes rounded to powers of two, and predictions as coarsely"
    assert all(one.endswith("from which an exact count would have followed") for one in closed)
    power = np.log2(rows_of(changed))
    assert np.array_equal(power, np.rint(power))
    is_class = counts_classes(model)
    least, most = bounds_told(changed.forest, only(smallest_leaf=5), is_class=is_class)
    assert np.all(least < most)
    if is_class:  # the shares tell no more than the counts
        shares = changed.forest.moments / rows_of(changed)[:, None]
        assert np.allclose(changed.forest.value, shares)


def test_weighted_classes_keep_their_weights(ward_table, ward_labels):
    """Predictions follow from the coarse counts and the weights, not from exact counts."""
    y = ward_labels["two classes"]
    face = HorizontalForestClassifier(8, class_weight="balanced", random_state=0)
    model = face.fit(ward_table, y).model_
    changed, _ = release(model, Hardening())
    closed, _ = harden(model, only(smallest_leaf=5))
    roots, exact = changed.forest.tree_start[:-1], closed.forest.tree_start[:-1]
    off = np.abs(changed.forest.value[roots] - closed.forest.value[exact])
    assert off.max() < 0.08
    columns = columns_of(ward_table, model.schema)
    assert np.abs(changed.predict(columns) - closed.predict(columns)).mean() < 0.1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"smallest_leaf": 0}, "smallest_leaf must be at least 1; got 0"),
        ({"threshold_digits": 0}, r"threshold_digits must be between 1 and 15 \(all\); got 0"),
        ({"value_digits": 16}, r"value_digits must be between 1 and 15 \(all\); got 16"),
    ],
)
def test_what_cannot_be_is_refused(wrong, words):
    with pytest.raises(SettingError, match=words):
        Hardening(**wrong)


def test_years_stay_apart_and_a_question_for_missing_values_stays():
    random = np.random.default_rng(0)
    year = random.integers(1990, 2020, 400).astype(float)
    gone = np.where(random.random(400) < 0.3, np.nan, 1.0)
    X = np.stack([year, gone], axis=1)
    y = np.where(np.isnan(gone), "none", np.where(year > 2004, "new", "old"))
    forest = HorizontalForestClassifier(5, random_state=0).fit(X, y)
    assert np.isinf(forest.model_.forest.threshold).any()
    changed, _ = harden(forest.model_, Hardening())
    columns = columns_of(X, forest.model_.schema)
    found = changed.predict(columns).argmax(axis=1)
    assert np.mean(np.array(forest.classes_)[found] == y) > 0.98


def test_by_default_nothing_of_few_people_is_left(model):
    changed, done = harden(model, Hardening())
    assert len(done) == 4
    powers = np.log2(np.maximum(rows_of(changed), 1))
    if model.schema.label.kind == "number":
        assert np.array_equal(powers, np.rint(powers))
    before, closed = harden(model, only(smallest_leaf=5))
    assert closed == done[:1]
    assert rows_of(before)[before.forest.feature < 0].min() >= 5


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"smallest_leaf": 4}, "agreed to smallest_leaf=5 .*; smallest_leaf=4 would show more"),
        ({"threshold_digits": 5}, "agreed to threshold_digits=4"),
        ({"value_digits": 15}, "agreed to value_digits=3"),
        ({"exact_counts": True}, "agreed to exact_counts=false .*; exact_counts=true would"),
    ],
)
def test_no_more_leaves_than_was_agreed(asked, words):
    with pytest.raises(PolicyError, match=words):
        msgspec.structs.replace(Hardening(), **asked).require_within(Hardening())
    Hardening(9, 2, 1).require_within(Hardening())


def test_a_model_leaves_once_and_later_only_stricter(model):
    left, done = release(model, Hardening())
    assert (len(done), left.released) == (4, Hardening())
    assert release(left, Hardening()) == (left, ())
    assert release(left, AS_IS) == (left, ())  # nothing comes back
    again = ForestModel.from_bytes(left.to_bytes(), name="left")
    assert again.released == Hardening()
    require_released(again, Hardening(), noises_counts=False)
    stricter, _ = release(left, Hardening(30))
    assert stricter.released == Hardening(30)
    exact, _ = harden(model, only(smallest_leaf=30))
    assert stricter.forest.n_nodes <= exact.forest.n_nodes  # a rounded count is read as its least
    require_released(stricter, Hardening(30), noises_counts=False)


def test_rounded_counts_add_up_to_a_power_of_two(model):
    left, _ = release(model, Hardening())
    power = np.log2(rows_of(left))
    assert np.array_equal(power, np.rint(power))


def test_the_strictest_terms_are_the_strictest_of_each():
    found = Hardening(9, 5, 2, exact_counts=True).with_all([Hardening(3, 4, 6)])
    assert found == Hardening(9, 4, 2, exact_counts=False)
    assert EXACT == AS_IS
    assert found.in_words() == (
        "smallest_leaf=9, threshold_digits=4, value_digits=2, exact_counts=false"
    )


def test_sets_of_categories_of_closed_splits_do_not_leave(model):
    """They would tell which categories stood apart in a group too small to be shown."""
    forest = harden(model, only(smallest_leaf=25))[0].forest
    used = forest.subset[forest.subset >= 0]
    assert np.array_equal(used, np.arange(len(forest.bin_sets)))
    assert len(forest.bin_sets) < len(model.forest.bin_sets)


def test_counts_that_noise_left_below_zero_are_rounded_to_whole_lots():
    noisy = np.array([[-3, 40], [-2, -1], [7, 5], [0, 0]])
    found = coarse_counts(noisy, Hardening(), is_class=True)
    assert found.tolist() == [[0, 32], [4, 4], [8, 8], [4, 4]]


@pytest.mark.parametrize("label", ["two classes", "three classes"])
def test_where_boosting_starts_tells_no_count(ward_table, ward_labels, label):
    """Log odds of all rows, to the last digit, are the counts of the classes."""
    y = ward_labels[label]
    forest = HorizontalBoostingClassifier(max_iter=4, batch_trees=2, random_state=0)
    model = forest.fit(ward_table, y).model_
    counts = np.unique(y, return_counts=True)[1]
    n = int(counts.sum())

    def fitting(boosted, rows):
        """Return how many numbers of rows of the last class would start boosting there."""
        share = boosted.predicted(np.zeros((1, boosted.base.size)))[0, -1]
        return sum(
            abs(held / of - share) <= (0.5 / lots if lots else 1e-7)
            for of in rows
            for held in range(1, of)
        )

    lots = 0
    assert model.boosted is not None
    assert fitting(model.boosted, [n]) == 1
    left, _ = release(model, Hardening())
    power = 2 ** round(np.log2(n))
    lots = power // 4
    assert left.boosted is not None
    assert not np.allclose(left.boosted.base, model.boosted.base, atol=1e-9)
    assert fitting(left.boosted, range(int(power / 2**0.5) + 1, int(power * 2**0.5))) > 100
    columns = columns_of(ward_table, model.schema)
    assert np.abs(left.predict(columns) - model.predict(columns)).mean() < 0.1


def test_gains_tell_no_more_than_the_counts_beside_them(model):
    """A gain, even as a power of two, says which of the few possible counts are the true ones."""
    random = np.random.default_rng(0)
    other = replace(model.forest, gain=model.forest.gain * random.uniform(0.5, 2.0))
    left, _ = release(model, Hardening())
    assert release(replace(model, forest=other), Hardening())[0].to_bytes() == left.to_bytes()
    moved = left.forest.gain[left.forest.feature >= 0]
    assert np.all(moved >= 0.0)
    assert np.count_nonzero(moved) > 0.5 * moved.size
    roots = model.forest.tree_start[:-1]
    if model.schema.label.kind == "class":  # counts of many rows are close to what they are
        told = left.forest.gain[left.forest.tree_start[:-1]]
        assert np.allclose(told, model.forest.gain[roots], rtol=0.6)


def test_where_boosting_of_numbers_starts_is_rounded(ward_table, ward_labels):
    forest = HorizontalBoostingRegressor(max_iter=4, batch_trees=2, random_state=0)
    model = forest.fit(ward_table, ward_labels["amount"]).model_
    left, _ = release(model, Hardening())
    assert left.boosted is not None
    assert model.boosted is not None
    off = float(np.abs(left.boosted.base - model.boosted.base)[0])
    assert 0 < off < np.std(model.forest.value) / 10


@pytest.mark.parametrize("n_rows", [30, 200])
def test_where_boosted_numbers_start_tells_a_magnitude_and_no_sum(n_rows):
    """In units of an exact spread, or in no unit at all, a start would tell rows and sums."""
    random = np.random.RandomState(0)
    X, y = random.rand(n_rows, 2), random.randint(0, 9, n_rows).astype(float)
    model = HorizontalBoostingRegressor(max_iter=2, batch_trees=1, random_state=0).fit(X, y).model_
    left, _ = release(model, Hardening())
    assert model.boosted is not None
    assert left.boosted is not None
    (base,) = left.boosted.base
    assert base != model.boosted.base[0]
    spread = float(np.std(model.forest.tree(0).value)) or abs(float(model.boosted.base[0]))
    unit = 2.0 ** np.floor(np.log2(spread)) / max(2 ** round(np.log2(n_rows)) // 4, 2)
    assert base / unit == round(base / unit)


def test_balanced_weights_are_told_in_steps_of_an_eighth_of_a_doubling(ward_table):
    y = np.arange(len(ward_table)) % 7 == 0
    forest = HorizontalForestClassifier(5, class_weight="balanced", max_depth=3, random_state=0)
    left, _ = release(forest.fit(ward_table, y).model_, Hardening())
    counts, value = left.forest.moments, left.forest.value
    both = np.flatnonzero((counts > 0).all(axis=1))
    told = value[both, 1] / value[both, 0] * counts[both, 0] / counts[both, 1]
    steps = 8 * np.log2(told)
    assert np.abs(steps - np.median(np.rint(steps))).max() < 0.15  # shares have three digits
