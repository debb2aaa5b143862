"""Secret randomness comes from the operating system, and a test's seed is visible."""

import os
from threading import Thread

import numpy as np
import pytest
from scipy import stats

from spinney.errors import InternalError
from spinney.privacy import entropy


@pytest.mark.parametrize("count", [0, 1, 128, 129, 1000, 131_072, 131_073, 300_001])
def test_words_have_the_length_asked_for_and_never_repeat(count):
    words = entropy.words(count)
    assert words.dtype == np.uint64
    assert words.shape == (count,)
    assert np.unique(words).size == count
    assert np.intersect1d(words, entropy.words(count)).size == 0


def test_words_are_writeable():
    for count in (3, 3000):
        entropy.words(count)[0] = 1


@pytest.mark.parametrize("count", [100, 200_000], ids=["direct", "expanded"])
def test_the_bytes_of_words_are_uniform(count):
    draws = [entropy.words(count) for _ in range(200_000 // count)]
    octets = np.concatenate(draws).view(np.uint8)
    assert stats.chisquare(np.bincount(octets, minlength=256)).pvalue > 1e-6


def test_every_bulk_call_has_a_fresh_key_of_the_operating_system(monkeypatch):
    keys = []

    def watched(count, real=os.urandom):
        keys.append(real(count))
        return keys[-1]

    monkeypatch.setattr(os, "urandom", watched)
    entropy.words(10_000)
    entropy.words(10_000)
    assert [len(key) for key in keys] == [32, 32]
    assert keys[0] != keys[1]


def test_secret_bytes_come_from_the_operating_system(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: b"x" * count)
    assert entropy.secret_bytes(5) == b"xxxxx"


def test_a_negative_number_of_words_is_a_bug():
    with pytest.raises(InternalError, match="number of words must be at least 0; got -1"):
        entropy.words(-1)


def test_a_seed_repeats_and_shows():
    def drawn():
        assert entropy.is_seeded()
        return entropy.secret_bytes(7), entropy.words(3).tolist(), entropy.words(1000).tolist()

    assert not entropy.is_seeded()
    with entropy.seeded_for_tests(5):
        first = drawn()
    assert not entropy.is_seeded()
    with entropy.seeded_for_tests(5):
        again = drawn()
    with entropy.seeded_for_tests(6):
        other = drawn()
    assert first == again
    assert first[0] != other[0]
    assert first[2] != other[2]


def test_a_seed_ends_with_its_block_even_after_an_error():
    with pytest.raises(ZeroDivisionError), entropy.seeded_for_tests(1):
        _ = 1 / 0
    assert not entropy.is_seeded()


def test_an_inner_seed_gives_way_to_the_outer():
    with entropy.seeded_for_tests(1):
        whole = entropy.words(6).tolist()
    with entropy.seeded_for_tests(1):
        start = entropy.words(3).tolist()
        with entropy.seeded_for_tests(2):
            entropy.words(3)
        assert start + entropy.words(3).tolist() == whole


def test_threads_share_a_seeded_stream_without_repeating_it():
    drawn = []
    with entropy.seeded_for_tests(1):
        threads = [Thread(target=lambda: drawn.append(entropy.words(50_000))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert np.unique(np.concatenate(drawn)).size == 200_000


def test_no_function_takes_a_seed_but_the_one_for_tests():
    public = [name for name in vars(entropy) if not name.startswith("_")]
    ours = [getattr(entropy, name) for name in public]
    functions = [f for f in ours if getattr(f, "__module__", "") == entropy.__name__]
    takers = [f.__name__ for f in functions if "seed" in f.__code__.co_varnames]
    # the decorator hides the code of the context manager: look at the wrapped function
    wrapped = [f.__name__ for f in functions if hasattr(f, "__wrapped__")]
    assert takers == []
    assert wrapped == ["seeded_for_tests"]
