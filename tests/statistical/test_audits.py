"""Every mechanism stands its audit, and the audit catches planted faults.

The real release path is audited: exact values, a charge, one release. A counter of 3 rows and one
of 4 are the neighbours; numbers released together have independent noise, so that one release of N
equal counters is N runs.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from spinney.errors import InternalError
from spinney.privacy import samplers
from spinney.privacy.budget import Measure, Unit, epsilon_of
from spinney.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PermuteAndFlip,
    RandomisedResponse,
)
from spinney.privacy.release import (
    _LEDGER_TOKEN,
    Charge,
    Exact,
    Shares,
)
from statistical.audit import audit  # type: ignore[import-not-found]

N = 200_000
ROWS, NEIGHBOURS = 3, 4

pytestmark = pytest.mark.usefixtures("seeded")


def release(mechanism, values):
    """Release by the only way there is: pay, then draw."""
    charge = Charge._issued_by(
        _LEDGER_TOKEN, cost=mechanism.cost(values.size), entry="1", reason="an audit"
    )
    return mechanism.release(Exact(values), charge).values


def counter(mechanism, rows):
    return lambda n: release(mechanism, np.full(n, rows))


def summed(mechanism, rows, n_noises):
    """What remains of a sum when the adversary has subtracted all but `n_noises` known shares."""

    def run(n):
        total = release(mechanism, np.full(n, rows))
        for _ in range(n_noises - 1):
            total = total + release(mechanism, np.zeros(n, dtype=np.int64))
        return total

    return run


# Claims that hold


@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "2"])
def test_discrete_laplace_keeps_its_claim_tightly(epsilon):
    mechanism = DiscreteLaplace(Fraction(epsilon))
    found = audit(counter(mechanism, ROWS), counter(mechanism, NEIGHBOURS), N)
    claim = float(mechanism.cost().amount)
    assert not found.refutes(claim), found
    assert found.epsilon > 0.9 * claim - 0.02, found


@pytest.mark.parametrize(("parties", "honest"), [(2, 1), (3, 2), (5, 3), (5, 4)])
def test_shares_keep_their_claim_against_all_the_curious_together(parties, honest):
    mechanism = DiscreteLaplace(Fraction(1, 2), shares=Shares(parties, honest))
    found = audit(summed(mechanism, ROWS, honest), summed(mechanism, NEIGHBOURS, honest), N)
    assert not found.refutes(0.5), found
    assert found.epsilon > 0.45, found


def test_a_replaced_record_is_hidden_by_twice_the_sensitivity():
    mechanism = DiscreteLaplace(
        Fraction(1), sensitivity=Fraction(2), unit=Unit.RECORD_REPLACE
    )  # one row leaves a bin and enters the next: both bins are seen

    def bins(first, second):
        def run(n):
            seen = release(mechanism, np.tile([first, second], (n, 1)))
            return seen[:, 0] - seen[:, 1]

        return run

    found = audit(bins(4, 3), bins(3, 4), N)
    assert not found.refutes(1.0), found
    assert found.epsilon > 0.7, found


@pytest.mark.parametrize("shares", [None, Shares(4)])
def test_discrete_gaussian_keeps_its_claim(shares):
    mechanism = DiscreteGaussian(Fraction(1, 8), shares=shares)
    n_noises = shares.honest if shares else 1
    delta = Fraction(1, 1000)
    cost = mechanism.cost()
    assert cost.measure is Measure.ZCDP
    claim = float(epsilon_of(cost.amount, delta))
    first, second = (summed(mechanism, rows, n_noises) for rows in (ROWS, NEIGHBOURS))
    found = audit(first, second, N, delta=float(delta))
    assert not found.refutes(claim), found
    assert found.epsilon > 0.5, found


@pytest.mark.parametrize("n_categories", [2, 3, 10])
def test_randomised_response_keeps_its_claim_tightly(n_categories):
    mechanism = RandomisedResponse(Fraction(1), n_categories)
    found = audit(counter(mechanism, 0), counter(mechanism, 1), N)
    assert not found.refutes(1.0), found
    assert found.epsilon > 0.9, found


@pytest.mark.parametrize(
    ("monotone", "neighbour"), [(True, [3, 3, 3]), (False, [2, 3, 3])], ids=["monotone", "any"]
)
def test_permute_and_flip_keeps_its_claim(monotone, neighbour):
    mechanism = PermuteAndFlip(Fraction(1), monotone=monotone)

    def choices(scores):
        return lambda n: release(mechanism, np.tile(scores, (n, 1)))

    found = audit(choices([3, 2, 2]), choices(neighbour), 30_000)
    assert not found.refutes(1.0), found
    assert found.epsilon > 0.3, found


def test_the_stored_reply_to_a_repeated_question_gives_nothing_away():
    mechanism = DiscreteLaplace(Fraction(1, 2))

    def twice(rows):
        def run(n):
            stored = release(mechanism, np.full(n, rows))
            return stored + stored

        return run

    assert not audit(twice(ROWS), twice(NEIGHBOURS), N).refutes(0.5)


# Planted faults


def test_a_fresh_draw_on_retry_is_caught():
    mechanism = DiscreteLaplace(Fraction(1, 2))

    def averaged(rows):
        return lambda n: sum(release(mechanism, np.full(n, rows)) for _ in range(10))

    found = audit(averaged(ROWS), averaged(NEIGHBOURS), N)
    assert found.refutes(0.5), found
    assert found.epsilon > 1.0, found


def test_equation_6_of_s1_is_caught():
    """S1 takes epsilon itself for alpha: at epsilon = 0.1 the true epsilon is -ln 0.1 = 2.303."""
    decay = Fraction(2302585093, 10**9)

    def published(rows):
        return lambda n: rows + samplers.discrete_laplace(decay, n)

    found = audit(published(ROWS), published(NEIGHBOURS), N)
    assert found.refutes(0.1), found
    assert 2.2 < found.epsilon < 2.31, found


@pytest.mark.parametrize(
    ("parties", "curious", "bound"), [(3, 1, 0.75), (5, 1, 0.6), (5, 4, 1.8)], ids=str
)
def test_missing_shares_are_caught(parties, curious, bound):
    """Shares made as if all were honest, while some subtract theirs (PRIVACY A.3, item 9)."""

    def rest(rows):
        def run(n):
            shares = (samplers.shares(Fraction(1, 2), parties, n) for _ in range(parties - curious))
            return rows + sum(shares)

        return run

    found = audit(rest(ROWS), rest(NEIGHBOURS), N)
    assert found.refutes(0.5), found
    assert found.epsilon > bound, found


def test_half_the_sensitivity_is_caught():
    mechanism = DiscreteLaplace(Fraction(1))  # 1 claimed, but a row moves the counter by 2
    found = audit(counter(mechanism, ROWS), counter(mechanism, ROWS + 2), N)
    assert found.refutes(1.0), found


def off_the_grid(released):
    """The event |y| < 1/4 and y is no multiple of 2**-53 (Mironov 2012)."""
    return (np.abs(released) < 0.25) & (np.ldexp(released, 53) % 1 != 0)


def test_float_laplace_noise_is_caught_by_where_it_can_fall():
    rng = np.random.default_rng(0)

    def floats(exact):
        return lambda n: off_the_grid(exact + rng.laplace(0.0, 1.0, n)).astype(int)

    found = audit(floats(0.0), floats(1.0), N)
    assert found.refutes(1.0), found
    assert found.epsilon > 8, found


def test_float_noise_cannot_be_released_at_all(monkeypatch):
    """Planted in the real release path: the type refuses it before anything leaves."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(samplers, "shares", lambda decay, _, n: rng.laplace(0, 1 / decay, n))
    with pytest.raises(InternalError, match="Noised holds integers only; got float64"):
        release(DiscreteLaplace(Fraction(1)), np.zeros(3, np.int64))


def test_integer_noise_falls_where_it_would_on_the_neighbour():
    mechanism = DiscreteLaplace(Fraction(1))
    for rows in (0, 1):
        assert not off_the_grid(release(mechanism, np.full(N, rows)).astype(float)).any()


def test_a_deterministic_release_is_caught_the_more_the_longer_one_looks():
    def exact(rows):
        return lambda n: np.full(n, rows)

    short, long = (audit(exact(ROWS), exact(NEIGHBOURS), n).epsilon for n in (1000, 100_000))
    assert 4.5 < short < long
    assert long > 9


def test_equal_inputs_show_nothing():
    mechanism = DiscreteLaplace(Fraction(1))
    assert audit(counter(mechanism, ROWS), counter(mechanism, ROWS), N).epsilon < 0.1


def test_a_skipped_charge_cannot_be_released_at_all():
    with pytest.raises(Exception, match="Only a ledger makes a Charge"):
        Charge()


@pytest.mark.slow
def test_a_small_epsilon_is_audited_closely_too():
    mechanism = DiscreteLaplace(Fraction(1, 50))
    runs = (counter(mechanism, rows) for rows in (ROWS, NEIGHBOURS))
    found = audit(*runs, 4_000_000, confidence=0.9999)
    assert not found.refutes(0.02), found
    assert found.epsilon > 0.01, found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize("honest", [1, 3])
def test_millions_of_unseeded_runs_do_not_refute_the_claim(epsilon, honest):
    shares = Shares(5, honest)
    mechanism = DiscreteLaplace(Fraction(epsilon), shares=shares)
    first, second = (summed(mechanism, rows, honest) for rows in (ROWS, NEIGHBOURS))
    found = audit(first, second, 4_000_000, confidence=1 - 1e-6)
    claim = float(Fraction(epsilon))
    assert not found.refutes(claim), found
    assert math.isclose(found.epsilon, claim, rel_tol=0.1), found
