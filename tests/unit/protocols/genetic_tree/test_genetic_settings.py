"""Table II as defaults, and every parameter out of range in one sentence."""

import pytest

from spinney.errors import SettingError
from spinney.protocols.genetic_tree.settings import GeneticSettings


def test_defaults_are_those_of_the_paper():
    of_classes, of_numbers = (
        GeneticSettings(task=task) for task in ("classification", "regression")
    )
    assert (of_classes.population_size, of_numbers.population_size) == (20, 40)
    assert (of_classes.metric, of_numbers.metric) == ("f1", "mse")
    for found in (of_classes, of_numbers):
        assert (found.n_generations, found.train_ratio, found.leaf_ratio) == (100, 0.8, 0.01)
        assert (found.tournament_size, found.flip_ratio, found.swap_ratio) == (3, 0.05, 0.05)
        assert (found.n_folds, found.min_depth, found.max_depth) == (5, 2, 15)
        assert (found.noise_threshold, found.complexity_threshold) == (0.25, 0.02)
        assert (found.unique_threshold, found.participation) == (80, 1.0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"population_size": 1}, "population_size must be a whole number between 2 and 10000"),
        ({"population_size": 2.5}, "population_size must be a whole number"),
        ({"n_generations": 0}, "n_generations must be a whole number at least 1; got 0"),
        ({"tournament_size": True}, "tournament_size must be a whole number"),
        ({"n_folds": 1}, "n_folds must be a whole number between 2 and 100"),
        ({"min_depth": 0}, "min_depth must be a whole number between 1 and 15"),
        ({"max_depth": 16}, "max_depth must be a whole number between 1 and 15; got 16"),
        ({"max_depth": None}, "max_depth must be a whole number between 1 and 15"),
        ({"min_depth": 5, "max_depth": 4}, "min_depth=5 must not be above max_depth=4"),
        ({"max_bins": 256}, "max_bins must be a whole number between 2 and 255"),
        ({"participation": 0.0}, "participation must be a share above 0 and at most 1; got 0.0"),
        ({"participation": 1.5}, "participation must be a share above 0 and at most 1"),
        ({"train_ratio": 1.0}, "train_ratio must leave rows for scoring"),
        ({"train_ratio": "most"}, "train_ratio must be a share above 0"),
        ({"leaf_ratio": -0.1}, "leaf_ratio must be a share at least 0 and at most 1"),
        ({"flip_ratio": 2}, "flip_ratio must be a share"),
        ({"metric": "accuracy"}, "metric must be 'f1'; got 'accuracy'"),
        ({"task": "regression", "metric": "f1"}, "metric must be 'mse' or 'r2' or 'rae'"),
        ({"validation": "once"}, "validation must be 'rotating' or 'fixed'"),
        ({"binning": "quantiles"}, "binning must be 'own' or 'pooled'"),
        ({"keep_home": 1}, "keep_home must be True or False; got 1"),
        ({"noise_threshold": float("nan")}, "noise_threshold must be a number of at least 0"),
    ],
)
def test_parameters_out_of_range_are_refused(wrong, sentence):
    with pytest.raises(SettingError, match=sentence):
        GeneticSettings(**({"task": "classification"} | wrong))


def test_rows_are_dealt_in_as_many_parts_as_the_ratio_says():
    parts = [
        GeneticSettings(task="classification", train_ratio=ratio).n_parts
        for ratio in (0.5, 0.75, 0.8, 0.9)
    ]
    assert parts == [2, 4, 5, 10]


def test_at_least_one_party_takes_part():
    some = GeneticSettings(task="classification", participation=0.1)
    assert [some.n_active(n) for n in (1, 5, 20, 30)] == [1, 1, 2, 3]
