"""Counter-based draws: the compiled hash is the plain one, and weights follow Poisson's law."""

from decimal import Decimal, getcontext
from math import factorial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spinney import seeds
from spinney.trees._kernels import hashing, level

WORDS = np.r_[
    np.array([0, 1, 2, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15], np.uint64),
    np.random.RandomState(0).randint(0, 2**63, 2000, dtype=np.uint64) * np.uint64(2) + np.uint64(1),
]


def twin_of_poisson(words):
    """A draw is how many thresholds lie at or below its word."""
    return np.searchsorted(hashing._POISSON, words, side="right")


def test_the_compiled_hash_is_the_plain_one():
    compiled = [int(hashing.mixed(word)) for word in WORDS]
    assert compiled == seeds.mix(WORDS).tolist()


@given(st.integers(0, 2**64 - 1))
def test_the_hash_is_split_mix_64(word):
    """The three lines of Steele, Lea and Flood (2014), in Python's whole numbers."""
    mask = 2**64 - 1
    z = (word + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    expected = z ^ (z >> 31)
    assert int(seeds.mix(np.array([word], np.uint64))[0]) == expected
    assert int(hashing.mixed(np.uint64(word))) == expected


def test_the_thresholds_are_poisson_s_law():
    getcontext().prec = 60
    total = Decimal(0)
    for k, threshold in enumerate(hashing._POISSON.tolist()):
        total += (Decimal(-1)).exp() / factorial(k)
        assert abs(Decimal(threshold) - total * 2**64) <= 2
    assert hashing._POISSON.size == 12


def test_a_draw_is_the_number_of_thresholds_below_its_word():
    edges = hashing._POISSON
    words = np.concatenate([WORDS, edges, edges - np.uint64(1), edges + np.uint64(1)])
    drawn = [int(hashing.poisson(word)) for word in words]
    assert drawn == twin_of_poisson(words).tolist()


def test_bootstrap_weights_are_draws_of_both_keys():
    weights = np.empty(WORDS.size, np.uint8)
    tree_key = np.uint64(12345)
    hashing.bootstrap_weights(tree_key, WORDS, weights)
    assert weights.tolist() == twin_of_poisson(seeds.mix(tree_key ^ WORDS)).tolist()


def test_bootstrap_weights_follow_poisson_s_law():
    """Pearson's chi-square over 0, 1, 2, 3, 4, 5 and more; 99.9 % of right laws pass."""
    n = 200_000
    row_keys = seeds.mix(np.arange(n, dtype=np.uint64))
    weights = np.empty(n, np.uint8)
    law = np.exp(-1) / np.array([factorial(k) for k in range(6)])
    law[5] = 1 - law[:5].sum()
    for tree_key in seeds.mix(np.arange(5, dtype=np.uint64)):
        hashing.bootstrap_weights(tree_key, row_keys, weights)
        counted = np.bincount(np.minimum(weights, 5), minlength=6)
        assert ((counted - n * law) ** 2 / (n * law)).sum() < 20.5
    wrong = n * np.roll(law, 1)  # and a wrong law fails
    assert ((counted - wrong) ** 2 / wrong).sum() > 1000


def test_weights_of_two_trees_are_unrelated():
    n = 100_000
    row_keys = seeds.mix(np.arange(n, dtype=np.uint64))
    weights = np.empty((2, n), np.uint8)
    for tree, key in enumerate(seeds.mix(np.arange(2, dtype=np.uint64))):
        hashing.bootstrap_weights(key, row_keys, weights[tree])
    assert abs(np.asarray(np.corrcoef(weights))[0, 1]) < 4 / np.sqrt(n)


def test_children_have_keys_of_their_own():
    keys = np.empty(2 * WORDS.size, np.uint64)
    level.child_keys(WORDS, keys)
    assert keys[0::2].tolist() == seeds.mix(WORDS ^ np.uint64(1)).tolist()
    assert keys[1::2].tolist() == seeds.mix(WORDS ^ np.uint64(2)).tolist()
    assert np.unique(keys[12:]).size == keys.size - 12  # the first six words are near each other
