"""Report-noisy-max with one-sided shares: its distribution, its cost and its guarantee."""

import math
from fractions import Fraction

import numpy as np
import pytest

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.noisy_max import NoisyMax
from spinney.privacy.release import Exact, Shares
from spinney.privacy.scopes import Budget, Question, Spend


def drawn(mechanism, n):
    with_ledger = Ledger.in_memory()
    with_ledger.open_job(JobTerms.agreed("job", "data", 5, [Budget.pure(10)]))
    charges = with_ledger.reserve(Question.of("job", 0, b""), [Spend("a choice", mechanism)])
    assert charges is not None
    return mechanism.release(Exact(np.zeros(n, np.int64)), charges[0]).values


@pytest.mark.parametrize("honest", [1, 3])
def test_shares_of_the_honest_sum_to_one_geometric(honest):
    mechanism = NoisyMax(Fraction(1), Fraction(4), shares=Shares(5, honest))
    total = sum(drawn(mechanism, 20_000) for _ in range(honest))
    assert total.min() >= 0
    for k in (1, 4, 8):
        share = np.mean(total >= k)
        assert share == pytest.approx(math.exp(-k / 4), abs=5 * 0.5 / math.sqrt(20_000))


def test_a_choice_costs_epsilon_however_many_candidates():
    mechanism = NoisyMax(Fraction(1, 3), Fraction(16))
    assert mechanism.cost(1).amount == mechanism.cost(10_000).amount == Fraction(1, 3)
    assert mechanism.decay == Fraction(1, 48)


def chances(scores, decay):
    """Return the exact probability that each candidate wins; ties go to the first."""
    top = 60 * round(1 / decay)
    k = np.arange(top)
    mass = (1 - math.exp(-decay)) * np.exp(-decay * k)

    def below(limit):  # P[G <= limit]
        return np.where(limit >= 0, 1 - np.exp(-decay * (limit + 1)), 0.0)

    found = []
    for i, own in enumerate(scores):
        others = np.ones(top)
        for j, score in enumerate(scores):
            if j != i:
                others *= below(own + k - score - (1 if j < i else 0))
        found.append(float(np.sum(mass * others)))
    return np.array(found)


def test_monotone_scores_of_neighbours_are_told_apart_by_epsilon_at_most():
    """An additional record lowers every score by up to the sensitivity, in any pattern."""
    epsilon, sensitivity = 0.7, 4
    decay = epsilon / sensitivity
    random = np.random.RandomState(0)
    for _ in range(60):
        scores = random.randint(-20, 20, 4)
        lowered = scores - random.randint(0, sensitivity + 1, 4)
        p, q = chances(scores, decay), chances(lowered, decay)
        assert p.sum() == pytest.approx(1.0)
        assert np.abs(np.log(p / q)).max() <= epsilon + 1e-9


def test_scores_that_are_not_monotone_would_break_it():
    """The check above can fail: one score up and one down costs twice as much."""
    p, q = chances([0, 0], 0.175), chances([4, -4], 0.175)
    assert np.abs(np.log(p / q)).max() > 0.7


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0, 1), (-1, 1), (1, 0), ("x", 1)])
def test_numbers_that_cannot_be_are_refused(epsilon, sensitivity):
    with pytest.raises(SettingError):
        NoisyMax(epsilon, sensitivity)


def test_noise_that_would_not_fit_is_refused():
    with pytest.raises(SettingError, match="would not fit in 64-bit sums"):
        NoisyMax(Fraction(1, 2**60))
