"""What a party does at home: folds, depth, votes (Eq. 1 and 2), its own tree or an evolved one."""

from typing import Any

import numpy as np
import pytest

from spinney.errors import TableError
from spinney.protocols.genetic_tree.local_fit import Home
from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.trees.binning import Binning
from spinney.trees.structures import FitTable


def home(target, codes, n_classes=0, **changes):
    n_columns, n_rows = codes.shape
    table = FitTable(
        codes.astype(np.uint8), np.full(n_columns, 16), np.zeros(n_columns, np.bool_),
        target.astype(np.int32), n_classes,
    )  # fmt: skip
    edges = tuple(np.arange(15, dtype=np.float32) for _ in range(n_columns))
    nothing = tuple(np.zeros(0, np.uint8) for _ in range(n_columns))
    binning = Binning(edges, nothing, np.ones(n_columns, np.bool_))
    task: Any = "classification" if n_classes else "regression"
    return Home(
        table, binning, np.arange(n_rows, dtype=np.uint64), GeneticSettings(task=task, **changes)
    )


def drawn(n=400, seed=0):
    return np.random.default_rng(seed).integers(0, 16, (3, n))


def test_rows_are_dealt_to_folds_evenly_within_each_class():
    codes = drawn(200)
    target = (np.arange(200) % 4 == 0).astype(int)
    found = home(target, codes, 2)
    judged = [found.rows_for(turn, all_rows=False)[1] for turn in range(5)]
    assert np.array_equal(np.sort(np.concatenate(judged)), np.arange(200))
    assert [int(target[rows].sum()) for rows in judged] == [10] * 5
    for turn in range(5):
        fit, held = found.rows_for(turn, all_rows=False)
        assert (fit.size, held.size) == (160, 40)
        assert np.intersect1d(fit, held).size == 0


def test_with_a_fixed_validation_all_generations_have_the_same_rows():
    found = home(drawn()[0], drawn(), validation="fixed")
    first, later = (found.rows_for(turn, all_rows=False)[1] for turn in (0, 7))
    assert np.array_equal(first, later)
    rotating = home(drawn()[0], drawn())
    assert not np.array_equal(*(rotating.rows_for(turn, all_rows=False)[1] for turn in (0, 5)))


@pytest.mark.parametrize(("share", "n"), [(1.0, 1), (0.5, 2), (0.25, 4), (0.1, 5)])
def test_the_fewer_parties_judge_the_more_of_its_rows_each_one_judges_by(share, n):
    found = home(drawn()[0], drawn(), participation=share)
    genes = np.array([[0, 1, 2], [2, 2, 1]], np.int16)
    judged = found.judged(genes, 2, 3, all_rows=False, n_threads=1)
    divisions = [found.rows_for(3 * n + turn, all_rows=False) for turn in range(n)]
    assert len({rows[1].tobytes() for rows in divisions}) == n
    each = [found.scores(genes, 2, rows, 1) for rows in divisions]
    assert np.array_equal(judged, np.mean(each, axis=0))
    by_all = found.judged(genes, 2, 3, all_rows=True, n_threads=1)
    assert np.array_equal(by_all, found.scores(genes, 2, found.rows_for(0, all_rows=True), 1))


def test_where_all_rows_judge_they_are_also_fitted_to():
    found = home(drawn()[0], drawn())
    fit, judged = found.rows_for(3, all_rows=True)
    assert np.array_equal(fit, judged)
    assert fit.size == 400


def test_the_depth_is_the_least_of_those_that_do_best_in_cross_validation():
    codes = drawn(600)
    one = home((codes[0] > 7).astype(int), codes, 2, min_depth=1, max_depth=6)
    assert one.depth_scores.shape == (5, 7)
    assert one.best_depth == 1  # one question is enough, and deeper ones score the same
    crossed = home(((codes[0] > 7) ^ (codes[1] > 7)).astype(int), codes, 2, min_depth=1)
    assert crossed.best_depth >= 2


def test_a_vote_for_all_rows_needs_little_noise_and_much_interaction(monkeypatch):
    found = home(drawn()[0], drawn(), min_depth=2, max_depth=3)
    # (fold, depth from 0): phi is the variation over folds at a depth, theta that over depths
    for scores, depth, expected in (
        ([[0, 0, 0.8, 0.9], [0, 0, 0.8, 0.9]], 2, True),
        ([[0, 0, 0.2, 0.3], [0, 0, 0.8, 0.9]], 2, False),  # noisy: phi is 0.6
        ([[0, 0, 0.8, 0.8], [0, 0, 0.8, 0.8]], 2, False),  # not complex: theta is 0
        ([[0, 0, 0.2, 0.9], [0, 0, 0.8, 0.9]], 3, True),  # the depth that was agreed counts
    ):
        monkeypatch.setitem(found.__dict__, "depth_scores", np.array(scores))
        assert found.vote_for_all_rows(depth) is expected


@pytest.mark.parametrize(("n_unique", "expected"), [(400, True), (321, True), (320, False)])
def test_a_vote_for_elitism_needs_mostly_unique_targets(n_unique, expected):
    assert home(np.arange(400) % n_unique, drawn()).vote_for_elitism() is expected


def test_a_party_keeps_its_own_tree_where_that_does_better():
    codes = drawn(600)
    target = ((codes[0] > 7) ^ (codes[1] > 7)).astype(int)
    useless = np.full((2, 7), 2, np.int16)
    kept = home(target, codes, 2).personal_tree(useless, 3, all_rows=False, n_threads=1)
    assert kept.is_home
    assert kept.score == home(target, codes, 2).home_tree(1).score
    anyway = home(target, codes, 2, keep_home=False)
    taken = anyway.personal_tree(useless, 3, all_rows=False, n_threads=1)
    assert not taken.is_home
    assert taken.score < kept.score
    good = np.array([[0, 1, -1, -1, 1, -1, -1], [2] * 7], np.int16)
    chosen = anyway.personal_tree(good, 3, all_rows=False, n_threads=1)
    assert chosen.genes.tolist() == good[0].tolist()


def test_fewer_rows_than_folds_are_refused():
    with pytest.raises(TableError, match="fewer rows than the 5 folds"):
        home(np.arange(4), drawn(4))
