"""A population: which structures survive, are averaged, and breed."""

import numpy as np
import pytest

from spinney.trees.evolution import Breeding, Population

RULES = Breeding(5, 2, 4, 3, 0.05, 0.05)


def genes(*lines):
    return np.array(lines, np.int16).reshape(-1, 3)


def grown(*, distinct=True):
    population = Population(RULES, distinct=distinct)
    population.update(genes([0, 0, 0], [1, 1, 1], [2, 2, 2]), np.array([0.1, 0.3, 0.2]))
    return population


def test_the_best_survive_best_first():
    population = grown()
    population.update(genes([3, 3, 3], [4, 4, 4]), np.array([0.25, 0.05]))
    assert population.genes[:, 0].tolist() == [1, 3, 2, 0]
    assert population.score.tolist() == [0.3, 0.25, 0.2, 0.1]


def test_structures_that_read_alike_live_once():
    detached = genes([-1, 3, 3], [-1, 4, 4])
    population = grown()
    population.update(detached, np.array([0.9, 0.9]))
    assert len(population.genes) == 4
    both = grown(distinct=False)
    both.update(detached, np.array([0.9, 0.9]))
    assert both.genes[:, 0].tolist() == [-1, -1, 1, 2]


def test_survivors_count_by_the_mean_of_their_scores():
    population = grown()
    population.judge_again(np.array([0.1, 0.4, 0.1]), anew=False)
    assert population.score == pytest.approx([0.2, 0.3, 0.1])
    population.update(genes([3, 3, 3]), np.array([0.0]))
    assert population.genes[0, 0] == 2
    assert population.n_judged.tolist() == [2, 2, 2, 1]


def test_survivors_judged_anew_forget_what_they_had():
    population = grown()
    population.judge_again(np.array([0.1, 0.4, 0.1]), anew=True)
    assert population.score.tolist() == [0.1, 0.4, 0.1]
    assert population.n_judged.tolist() == [1, 1, 1]


def test_protected_structures_live_on():
    population = grown()
    population.protect(genes([0, 0, 0]))
    population.update(genes([3, 3, 3], [4, 4, 4]), np.array([0.5, 0.5]))
    assert population.genes[:, 0].tolist() == [3, 4, 1, 2, 0]
    population.update(genes([4, 3, 3]), np.array([0.6]))
    assert population.genes[:, 0].tolist() == [4, 3, 4, 1, 0]


def test_the_same_seed_breeds_the_same():
    one, other = (grown().offspring(np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one, other)
    assert one.shape == (4, 3)


def test_tournaments_prefer_the_best():
    population = Population(Breeding(5, 2, 400, 3, 0.0, 0.0), distinct=True)
    population.update(genes([0, 0, 0], [1, 1, 1]), np.array([0.0, 1.0]))
    drawn = np.concatenate([population.offspring(np.random.default_rng(s)) for s in range(5)])
    assert np.mean(drawn == 1) == pytest.approx(1 - 0.5**3, abs=0.03)
