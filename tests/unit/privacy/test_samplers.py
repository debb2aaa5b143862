"""Thresholds are correct to the last bit, and an undecided word draws more bits."""

import ast
import inspect
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.privacy import entropy, inversion, samplers, wide_shares
from spinney.privacy.budget import exp_bounds, log_bounds
from spinney.privacy.inversion import InversionTable, invert

TOP = 2**64 - 1


@pytest.fixture(autouse=True)
def precise():
    with localcontext() as context:
        context.prec = 90
        yield


def decimal_of(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


def words_of(probabilities):
    """Return floor(F * 2**64) of a distribution, computed independently with decimals."""
    return [min(int(f * 2**64), TOP) for f in accumulate(probabilities)]


def negative_binomial(decay, honest, length):
    alpha = (-decimal_of(decay)).exp()
    p = (1 - alpha) ** (Decimal(1) / honest)
    for k in range(length):
        yield p
        p *= alpha * (k * honest + 1) / (honest * (k + 1))


@pytest.mark.parametrize("decay", ["1/100", "1/20", "1/10", "1/2", "1", "2", "40", "1000"])
@pytest.mark.parametrize("honest", [1, 2, 3, 5, 100])
def test_thresholds_of_shares_are_right_to_the_last_bit(decay, honest):
    thresholds = samplers._share_table(Fraction(decay), honest).thresholds.tolist()
    assert thresholds == words_of(negative_binomial(Fraction(decay), honest, len(thresholds)))
    assert thresholds[-1] == TOP
    assert TOP not in thresholds[:-1]


@pytest.mark.parametrize("variance", ["1/100", "1/4", "1", "5/3", "100", "57121"])
def test_thresholds_of_the_gaussian_are_right_to_the_last_bit(variance):
    variance = Fraction(variance)
    thresholds = samplers._gaussian_table(variance).thresholds.tolist()
    order = [(i + 1) // 2 for i in range(max(3 * len(thresholds), 40))]
    weights = [(-decimal_of(k * k / (2 * variance))).exp() for k in order]
    norm = sum(weights)
    assert thresholds == words_of(w / norm for w in weights[: len(thresholds)])


@pytest.mark.parametrize("decay", ["1/1000", "1/1000000000", "1/1125899906842624"])
def test_thresholds_of_digits_are_right_to_the_last_bit(decay):
    decay = Fraction(decay)
    weights = [(-decimal_of(decay) * k).exp() for k in range(256)]
    digits = samplers._digit_table(decay).thresholds.tolist()
    assert digits == [*words_of(w / sum(weights) for w in weights)[:255], TOP]


@pytest.mark.parametrize("decay", ["1/5000", "1/1000000000", "1/1125899906842624"])
@pytest.mark.parametrize("honest", [2, 5])
def test_thresholds_of_wide_shares_are_right_to_the_last_bit(decay, honest):
    """Small numbers have their own mass, blocks an upper bound of theirs."""
    decay, small = Fraction(decay), 2**14
    alpha, power = (-decimal_of(decay)).exp(), Decimal(honest - 1) / honest
    masses = [Decimal(1)]
    for k in range(small):
        masses.append(masses[-1] * alpha * (k * honest + 1) / (honest * (k + 1)))
    first = masses.pop()  # of the number where blocks begin
    excess = 1 + Decimal(2) ** -16 + Decimal(2) ** -22
    for doubled in range(60):
        start = small << doubled
        lost = (-decimal_of(decay) * (start - small)).exp() * Decimal(2) ** (-doubled * power)
        masses.append(start * first * lost * excess)
    thresholds = wide_shares._table(decay, honest).thresholds.tolist()
    total = sum(masses)
    assert thresholds == words_of(mass / total for mass in masses)[: len(thresholds)]


@pytest.mark.parametrize("honest", [2, 3, 63])
def test_what_powers_miss_of_gamma_functions_is_bounded_and_small(honest):
    """rho as a long product of factors agrees with Stirling's series."""
    first, size = 2**14, 2**14 + 3000
    rho = Decimal(1)
    for k in range(first, size):
        rho *= Decimal(k * honest + 1) / (honest * (k + 1))
    power = Decimal(honest - 1) / honest
    rho /= (Decimal(first) / size) ** power * (1 + Decimal(2) ** -16 + Decimal(2) ** -22)
    (low, high), end = islice(wide_shares._rho(size, honest)(192), 2)
    assert low <= int(rho * 2**192) <= high < low + 2**20
    assert end == (2**192, 2**192)
    for large in (first, 2**15 - 1, 2**30 + 7, 2**57 - 1):
        (low, high), _ = islice(wide_shares._rho(large, honest)(128), 2)
        assert (1 - Fraction(1, 2**15)) * 2**128 <= low <= high <= 2**128


def test_a_word_that_rho_leaves_open_is_looked_at_closely(monkeypatch):
    asked: list[Any] = []
    right = wide_shares._rho

    def noted(*given):
        asked.append(given)
        return right(*given)

    monkeypatch.setattr(wide_shares, "_rho", noted)
    words = np.array([0, TOP, 2**64 - 2**49 - 1, 2**64 - 2**49], np.uint64)
    monkeypatch.setattr(entropy, "words", lambda count: words[:count].copy())
    kept = wide_shares._by_rho(np.full(4, 2**20), 3)
    assert kept.tolist()[:3] == [True, False, True]
    assert asked == [(2**20, 3)] * 2


def test_bernoulli_s_numbers():
    found = [wide_shares._bernoulli(n) for n in (0, 1, 2, 3, 4, 10)]
    assert found == [1, Fraction(-1, 2), Fraction(1, 6), 0, Fraction(-1, 30), Fraction(5, 66)]


def test_the_power_coin_falls_as_often_as_the_power():
    n, honest = 200_000, 3
    start, size = np.full(n, 2**20), np.full(n, 2**20 + 2**19)
    with entropy.seeded_for_tests(1):
        kept = int(wide_shares._by_power(start, size, honest).sum())
    assert abs(kept / n - (2 / 3) ** (2 / 3)) < 4.5 * (0.25 / n) ** 0.5


@pytest.mark.parametrize(("epsilon", "n_categories"), [("1", 2), ("1/2", 10), ("3", 26)])
def test_thresholds_of_randomised_response_are_right_to_the_last_bit(epsilon, n_categories):
    e = decimal_of(Fraction(epsilon)).exp()
    thresholds = samplers._keep_table(Fraction(epsilon), n_categories).thresholds.tolist()
    assert thresholds == [int(e / (e + n_categories - 1) * 2**64), TOP]


@pytest.mark.parametrize("honest", [2, 3, 7])
def test_the_shares_of_the_honest_sum_to_the_geometric_law(honest):
    def law(decay, parties):
        words = [0, *samplers._share_table(decay, parties).thresholds.tolist()]
        return [b - a for a, b in pairwise(words)]  # in units of 2**-64

    decay, length = Fraction(1, 2), 40
    share, whole = law(decay, honest)[:length], law(decay, 1)[:length]
    together = share
    for _ in range(honest - 1):
        together = [
            sum(together[i] * share[k - i] for i in range(k + 1)) >> 64 for k in range(length)
        ]
    assert max(abs(a - b) for a, b in zip(together, whole, strict=True)) < 100 * honest


@pytest.mark.parametrize(
    ("epsilon", "parties", "curious", "true_epsilon"),
    [
        *[("1/10", 3, 1, 0.343), ("1/10", 5, 1, 0.212), ("1/10", 5, 2, 0.433)],
        *[("1/10", 10, 1, 0.146), ("1/10", 10, 5, 0.606)],
        *[("1", 3, 1, 1.389), ("1", 5, 1, 1.212), ("1", 5, 2, 1.494), ("1", 10, 5, 1.675)],
    ],
)
def test_shares_for_all_parties_protect_less_against_the_curious(
    epsilon, parties, curious, true_epsilon
):
    """PRIVACY A.3, item 9: the rest of NB(1/K) shares after some parties subtract theirs."""
    words = samplers._share_table(Fraction(epsilon), parties).thresholds.astype(np.float64)
    share = np.diff(words, prepend=0) / 2**64
    left = np.ones(1)
    for _ in range(parties - curious):
        left = np.convolve(left, share)
    noise = np.convolve(left, left[::-1])
    middle = noise.size // 2
    steps = np.log(noise[middle : middle + 20] / noise[middle + 1 : middle + 21])
    assert steps.max() == pytest.approx(true_epsilon, abs=0.0006)


def test_a_word_below_at_and_above_a_threshold():
    table = samplers._share_table(Fraction(1), 1)
    first = int(table.thresholds[0])
    drawn = {
        word: draw_from(table, [word], [more])
        for word in (first - 1, first + 1)
        for more in (0, TOP)
    }
    assert drawn == {first - 1: 0, first + 1: 1}
    assert draw_from(table, [first], [0]) == 0  # the next bits decide
    assert draw_from(table, [first], [TOP]) == 1


def draw_from(table, *batches):
    """Draw one value with words from the given batches, all of which must be used."""
    queue = [np.array(batch, dtype=np.uint64) for batch in batches]
    used: list[Any] = []

    def words(count):
        used.append(queue[len(used)])
        assert used[-1].size == count
        return used[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "words", words)
        return int(table.draw(1)[0])


def test_the_second_word_decides_by_the_next_64_bits_of_the_law():
    table = samplers._share_table(Fraction(1), 1)
    truth = (1 - (-Decimal(1)).exp()) * 2**128
    first, second = divmod(int(truth), 2**64)
    assert int(table.thresholds[0]) == first
    assert draw_from(table, [first], [second - 1]) == 0
    assert draw_from(table, [first], [second + 1]) == 1
    assert draw_from(table, [first], [second], [0]) == 0
    assert draw_from(table, [first], [second], [TOP]) == 1


def test_the_tail_beyond_the_table_is_drawn_not_cut():
    table = samplers._share_table(Fraction(1), 1)
    assert table.thresholds.size == 45
    # U lies between 1 - 10 * 2**-128 and 1 - 9 * 2**-128, and F(k) = 1 - e**-(k+1)
    assert 86 < -(10 / Decimal(2) ** 128).ln() < -(9 / Decimal(2) ** 128).ln() < 87
    assert draw_from(table, [TOP], [TOP - 9]) == 86


def test_a_law_of_huge_decay_is_zero_but_for_the_last_word():
    table = samplers._share_table(Fraction(10**6), 1)
    assert table.thresholds.tolist() == [TOP]
    assert draw_from(table, [TOP], [5]) == 0


def test_a_threshold_that_the_first_precision_leaves_open_is_computed_again():
    asked = []

    def law(bits):
        asked.append(bits)
        one = 1 << bits
        blur = one >> 1 if bits < 300 else 0
        yield one // 3 - blur // 2, one // 3 + blur // 2
        yield one, one

    assert InversionTable.of(law).thresholds.tolist() == [2**64 // 3, TOP]
    assert asked == [192, 384]


def test_a_law_that_is_too_short_for_its_precision_is_asked_again():
    def law(bits):
        one = 1 << bits
        yield one // 3, one // 3
        if bits > 192:
            yield one, one

    table = InversionTable.of(law)
    assert table.thresholds.tolist() == [2**64 // 3, TOP]
    assert invert(law, TOP, 64) == 1


@given(st.integers(0, 2**64 - 1), st.integers(1, 40))
def test_inversion_agrees_with_the_table(word, twentieths):
    table = samplers._share_table(Fraction(twentieths, 20), 2)
    place = int(np.searchsorted(table.thresholds, np.uint64(word)))
    if int(table.thresholds[place]) != word:
        assert invert(table.law, word, 64) == place


@pytest.mark.parametrize("decay", [Fraction(1, 2), Fraction(1, 10**5)], ids=["table", "wide"])
@pytest.mark.parametrize("count", [0, 1, 70_000])
def test_every_sampler_returns_the_number_of_draws_asked_for(decay, count):
    drawn = [
        samplers.discrete_laplace(decay, count),
        samplers.shares(decay, 3, count),
        samplers.one_sided_shares(decay, 3, count),
        samplers.geometric(decay, count),
        samplers.discrete_gaussian(Fraction(7), count),
        samplers.uniform_below(5, count),
    ]
    assert all(x.shape == (count,) and x.dtype == np.int64 for x in drawn)
    assert samplers.draw_kept(Fraction(1), 3, count).shape == (count,)


def test_one_sided_draws_are_never_negative():
    for decay in (Fraction(1, 3), Fraction(1, 10**6)):
        assert samplers.one_sided_shares(decay, 4, 10_000).min() >= 0
        assert samplers.geometric(decay, 10_000).min() >= 0


def test_the_widest_gaussian_and_the_slowest_decay_can_be_drawn():
    wide = samplers.discrete_gaussian(samplers.LARGEST_VARIANCE, 50)
    assert 2**47 < np.abs(wide).max() < 2**53
    slow = samplers.shares(samplers.SMALLEST_DECAY, 3, 500)
    assert 2**49 < np.abs(slow).max() < 2**56


def test_a_coin_of_zero_always_falls_on_true():
    assert all(samplers.bernoulli_exp(Fraction(0)) for _ in range(50))
    assert not any(samplers.bernoulli_exp(Fraction(10**4)) for _ in range(50))


def test_a_uniform_number_is_below_its_bound_and_misses_are_drawn_again():
    for bound in (1, 2, 3, 5, 2**33 + 1, 2**63):
        drawn = samplers.uniform_below(bound, 2000)
        assert drawn.min() >= 0
        assert drawn.max() < bound
    assert set(samplers.uniform_below(5, 500).tolist()) == {0, 1, 2, 3, 4}


def test_bounds_of_a_law_rise_and_enclose():
    for table in (samplers._share_table(Fraction(1, 7), 3), samplers._gaussian_table(Fraction(9))):
        bounds = list(islice(table.law(128), 60))
        assert all(low <= high for low, high in bounds)
        assert [low for low, _ in bounds] == sorted(low for low, _ in bounds)


def test_a_decay_at_the_border_of_two_methods_keeps_its_spread():
    border = samplers._TABLE_DECAY
    with entropy.seeded_for_tests(3):
        spread = [
            float(samplers.shares(decay, 2, 60_000).std() * decay)
            for decay in (border, border - Fraction(1, 10**9))
        ]
    assert spread == pytest.approx([1.0, 1.0], rel=0.03)  # sqrt(2 / t) / decay


def test_the_drawing_path_has_no_floats():
    for source in (samplers, inversion, wide_shares, exp_bounds, log_bounds):
        nodes = list(ast.walk(ast.parse(inspect.getsource(source))))
        assert not [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, float)]
        names = {n.id for n in nodes if isinstance(n, ast.Name)}
        names |= {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        assert not {"float", "float64", "float32", "random", "exp", "log", "sqrt"} & names
