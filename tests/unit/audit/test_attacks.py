"""The attacks find what is there to find, and nothing where there is nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.audit.boxes import boxes_of
from spinney.audit.groups import groups_of
from spinney.audit.membership import infer_membership, rows_needed
from spinney.audit.rehearsal import Rows, rehearsal_of
from spinney.audit.shares import share_of
from spinney.audit.sums import listen, rebuild_from_sums
from spinney.audit.told import counts_told, has_exact_counts
from spinney.protocols.release_terms import Hardening
from spinney.report.door import release
from spinney.report.hardening import coarse_counts, harden


def grown(**settings):
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    y = (X[:, 0] + random.normal(size=300) > 0).astype(int)
    return HorizontalForestClassifier(5, random_state=0, **settings).fit(X, y).model_, X, y


@pytest.mark.parametrize(("hits", "tries"), [(0, 10), (3, 10), (10, 10), (1, 1000)])
def test_intervals_are_exact(hits, tries):
    found = share_of(hits, tries)
    exact = stats.binomtest(hits, tries).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_a_share_of_nothing_leaves_all_open():
    assert (share_of(0, 0).low, share_of(0, 0).high) == (0.0, 1.0)


def test_the_box_of_a_leaf_holds_its_rows():
    model, X, _ = grown()
    rows = X.astype(np.float32)
    boxes = boxes_of(model)
    for tree in range(5):
        leaf = model.forest.leaves(rows, tree)
        assert np.all((boxes.low[leaf] < rows) & (rows <= boxes.high[leaf]))


def test_exact_counts_are_told_apart_from_rounded_ones():
    model, _, _ = grown()
    assert has_exact_counts(model)
    rounded = harden(model, Hardening(smallest_leaf=1))[0]
    assert not has_exact_counts(rounded)
    assert has_exact_counts(harden(model, Hardening(exact_counts=True))[0])


def test_rounded_counts_are_narrowed_to_the_true_ones_by_whoever_adds_up():
    """Before splits that tell a count are closed, some counts follow from the rounded ones."""
    model, _, _ = grown(min_samples_leaf=5)
    how, forest = Hardening(), model.forest
    counts = coarse_counts(forest.moments, how, is_class=True)
    rounded = replace(model, forest=replace(forest, moments=counts), released=how)
    told = counts_told(rounded, is_noisy=False)
    assert (told >= 0).sum() > 5
    assert np.array_equal(told[told >= 0], forest.moments[told >= 0])


@pytest.mark.parametrize("least", [1, 2, 5, 20])
def test_no_count_follows_from_a_hardened_model(least):
    model, _, _ = grown(min_samples_leaf=5)
    left = release(model, Hardening(least))[0]
    assert left.forest.n_nodes > 20
    assert not np.any(counts_told(left, is_noisy=False) >= 0)
    exact = harden(model, Hardening(least, exact_counts=True))[0]
    assert left.forest.n_nodes <= exact.forest.n_nodes
    root = left.forest.tree_start[:-1]
    assert np.all(np.abs(left.forest.value[root] - exact.forest.value[exact.forest.tree_start[:-1]])
                  < 0.1)  # fmt: skip


def test_noise_tells_no_count():
    model, _, _ = grown()
    assert not np.any(counts_told(model, is_noisy=True) >= 0)


def test_small_groups_are_counted_after_hardening_by_their_true_rows():
    model, _, _ = grown()
    assert groups_of(model, 5).smallest_leaf == 1
    hardened = harden(model, Hardening())[0]
    counted = harden(model, Hardening(exact_counts=True))[0]
    found = groups_of(hardened, 5, counted)
    assert found.smallest_leaf >= 5
    assert found.small_leaves == 0
    assert not found.exact_counts


def test_a_regression_forest_has_groups_too():
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 3))
    model = HorizontalForestRegressor(3, random_state=0).fit(X, X[:, 0]).model_
    assert groups_of(model, 5).smallest_leaf == 1


class _Knows:
    """A model that is surer of the rows that it saw, by a margin."""

    def __init__(self, model, saw, margin):
        self._saw, self._margin = saw, margin
        self.schema = model.schema

    def predict_batches(self, batches):
        for values in batches:
            random = np.random.default_rng(int(self._saw.sum()) + int(self._saw[:9].sum()))
            sure = 0.5 + self._margin * self._saw + 0.05 * random.normal(size=values.shape[1])
            yield np.stack([1 - sure, sure], axis=1)


@pytest.mark.parametrize(("margin", "least", "most"), [(0.3, 0.9, 1.0), (0.0, 0.0, 0.04)])
def test_members_are_found_where_a_model_gives_them_away(margin, least, most):
    model, _, _ = grown()
    random = np.random.default_rng(1)
    n, n_models = 2000, 8
    saw = np.argsort(random.random((n_models, n)), axis=0) < n_models // 2
    models: Any = tuple(_Knows(model, kept, margin) for kept in saw)
    rows = Rows(np.zeros((4, n), np.float32), np.ones(n, np.int32), np.zeros(n, np.uint64))
    found = infer_membership(models, saw, rows)
    at = found.at[1]
    assert least <= at.found.share <= most
    assert at.false.share <= 0.011
    assert at.rows_needed == 0


def test_how_many_rows_a_rate_needs():
    assert rows_needed(0.001, 16) == 1250
    assert rows_needed(0.01, 16) == 125


def test_the_sums_show_the_cells_of_rows_that_stand_alone(place):
    rehearsal, _ = rehearsal_of(place.job(max_depth="8", n_estimators="40"), None)
    training, heard = listen(rehearsal)
    views = ("the coordinator",)
    coordinator: Any = rebuild_from_sums(training.model, rehearsal, heard, views=views)[0]
    assert coordinator.isolated.hits > 5
    assert coordinator.cells.share > coordinator.guessed
    assert coordinator.error < coordinator.guessed_error


def test_a_watched_job_grows_the_same_model(place):
    rehearsal, _ = rehearsal_of(place.job(), None)
    assert listen(rehearsal)[0].model.to_bytes() == rehearsal.model().to_bytes()


def test_who_drew_a_row_is_known_again(place):
    rehearsal, _ = rehearsal_of(place.job(), None)
    model = rehearsal.model()
    for tree in range(model.forest.n_trees):
        root = int(model.forest.tree_start[tree])
        assert rehearsal.drawn(tree).sum() == model.forest.moments[root].sum()
