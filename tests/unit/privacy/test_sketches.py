"""Marks by which a party knows its rows again, in whatever part of them."""

import numpy as np
import pytest

from spinney.privacy.sketches import MOST_MARKS, OF_CELLS, have_same_rows, sketch

KEY = b"a" * 32


def hashes(n, seed=1):
    return np.random.default_rng(seed).integers(0, 1 << 63, n).astype(np.uint64)


def test_a_sketch_tells_shares_and_hides_rows():
    rows = hashes(20_000)
    one = sketch(KEY, rows[:10_000])
    assert MOST_MARKS / 2 < len(one) - 1 <= MOST_MARKS
    assert one == sketch(KEY, rows[:10_000][::-1])
    assert have_same_rows(one, sketch(KEY, rows[8_000:]))  # a fifth of them
    assert not have_same_rows(one, sketch(KEY, rows[10_000:]))
    assert not have_same_rows(one, sketch(b"b" * 32, rows[:10_000]))  # without the key, nothing
    assert not have_same_rows(sketch(KEY, rows[:1]), sketch(KEY, rows[:1]))  # one row is no proof


@pytest.mark.parametrize("share", [0.0033, 0.01, 0.03])
def test_a_slice_of_a_large_table_is_noticed(share):
    rows = hashes(300_000)
    whole = sketch(KEY, rows)
    size = int(share * rows.size)
    starts = np.linspace(0, rows.size - size, 100).astype(int)
    found = [have_same_rows(whole, sketch(KEY, rows[s : s + size])) for s in starts]
    assert np.mean(found) >= 0.97


def test_a_table_with_some_old_rows_is_noticed_from_one_in_a_hundred():
    rows, others = hashes(100_000), hashes(100_000, seed=2)
    whole = sketch(KEY, rows)
    mixed = sketch(KEY, np.concatenate([rows[:2_000], others[:98_000]]))
    assert have_same_rows(whole, mixed)
    assert not have_same_rows(whole, mixed, OF_CELLS)
    assert not have_same_rows(whole, sketch(KEY, others))


def test_marks_of_another_kind_are_not_compared():
    assert not have_same_rows(("a" * 16,) * 256, ("a" * 16,) * 256)
    assert not have_same_rows((), sketch(KEY, hashes(10)))
