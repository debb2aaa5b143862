"""Modelling randomness: repeatable, counter-based, and blind to who holds a row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney import seeds
from spinney.errors import SettingError

CELLS = st.floats(width=32, allow_infinity=False)


def test_a_hash_is_the_same_on_every_machine():
    """Values of SplitMix64 as its authors publish them, from state 0."""
    states = np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [hex(word) for word in seeds.mix(states).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_streams_below_a_seed_are_their_own():
    found = {
        seeds.derive_seed(7),
        seeds.derive_seed(7, 0),
        seeds.derive_seed(7, 1),
        seeds.derive_seed(7, 0, 1),
        seeds.derive_seed(7, 1, 0),
        seeds.derive_seed(8, 0),
    }
    assert len(found) == 6
    assert seeds.derive_seed(7, 0, 1) == seeds.derive_seed(7, 0, 1)
    assert all(0 <= seed < 2**64 for seed in found)


def test_a_generator_is_fixed_by_its_seed():
    first, same = seeds.generator(3).random(4), seeds.generator(3).random(4)
    assert np.array_equal(first, same)
    assert not np.array_equal(first, seeds.generator(4).random(4))


@pytest.mark.parametrize("given_state", [0, 1, 2**63 - 1, -1, 2**70, np.int32(5), np.uint64(2**63)])
def test_a_job_s_seed_has_63_bits(given_state):
    seed = seeds.job_seed(given_state)
    assert 0 <= seed < 2**63
    assert type(seed) is int
    assert seeds.job_seed(given_state) == seed


def test_no_state_is_a_fresh_seed():
    assert seeds.job_seed(None) != seeds.job_seed(None)


def test_a_generator_gives_one_seed_after_another():
    for make in (np.random.default_rng, np.random.RandomState):
        generator, twin = make(1), make(1)
        first, second = seeds.job_seed(generator), seeds.job_seed(generator)
        assert first != second
        assert [seeds.job_seed(twin), seeds.job_seed(twin)] == [first, second]
        assert 0 <= first < 2**63


@pytest.mark.parametrize("wrong", ["7", 1.0, True, [1], object()])
def test_anything_else_is_refused(wrong):
    with pytest.raises(SettingError, match="random_state must be a whole number, None, or a numpy"):
        seeds.job_seed(wrong)


# --- keys of rows --------------------------------------------------------------------------------


@given(st.lists(st.tuples(CELLS, CELLS, st.integers(0, 3)), min_size=1, max_size=40), st.data())
def test_the_keys_of_a_table_do_not_depend_on_its_order(rows, data):
    order = np.array(data.draw(st.permutations(range(len(rows)))))
    values = np.array([row[:2] for row in rows], np.float32).T
    target = np.array([row[2] for row in rows])
    keys = seeds.row_keys(seeds.row_hashes(values, target))
    turned = seeds.row_keys(seeds.row_hashes(values[:, order], target[order]))
    assert sorted(keys.tolist()) == sorted(turned.tolist())
    assert np.unique(keys).size == len(rows)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_equal_rows_get_keys_of_their_own_that_belong_to_their_content(words):
    hashes = seeds.mix(np.array(words, np.uint64) + np.uint64(99))  # as hashes of rows are
    keys = seeds.row_keys(hashes)
    assert np.unique(keys).size == keys.size
    for word in set(words):
        alone = seeds.row_keys(hashes[np.array(words) == word])
        assert sorted(keys[np.array(words) == word].tolist()) == sorted(alone.tolist())


def test_distinct_rows_keep_their_hash_as_key():
    hashes = seeds.mix(np.arange(5, dtype=np.uint64))
    assert seeds.row_keys(hashes) is hashes
    assert seeds.row_keys(hashes[:0]).size == 0


def test_gaps_hash_alike_and_so_do_the_zeros():
    quiet, other = np.float32(np.nan), np.array([0x7FC12345], np.uint32).view(np.float32)[0]
    values = np.array([[quiet, other, -quiet, 0.0, -0.0]], np.float32)
    hashes = seeds.row_hashes(values, np.zeros(5))
    assert len(set(hashes[:3].tolist())) == 1
    assert hashes[3] == hashes[4]
    assert hashes[0] != hashes[3]
    targets = seeds.row_hashes(np.zeros((1, 2), np.float32), np.array([0.0, -0.0]))
    assert targets[0] == targets[1]


def test_every_cell_and_the_target_count():
    base = np.zeros((3, 1), np.float32)
    hashes = {int(seeds.row_hashes(base, np.zeros(1))[0])}
    for column in range(3):
        changed = base.copy()
        changed[column] = 1.0
        hashes.add(int(seeds.row_hashes(changed, np.zeros(1))[0]))
    hashes.add(int(seeds.row_hashes(base, np.ones(1))[0]))
    assert len(hashes) == 5


def test_a_row_hashes_the_same_alone_as_among_others():
    random = np.random.RandomState(0)
    values = random.standard_normal((4, 100)).astype(np.float32)
    target = random.randint(0, 3, 100)
    together = seeds.row_hashes(values, target)
    apart = [seeds.row_hashes(values[:, i : i + 1], target[i : i + 1])[0] for i in range(100)]
    assert together.tolist() == apart
