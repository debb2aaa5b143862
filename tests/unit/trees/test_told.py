"""Sums as parties are told them: they come back, in few bytes, or are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import StorageError
from spinney.trees.counts import Counts
from spinney.trees.told import ToldCounts

UNKNOWN = np.zeros((0, 0), np.int64)


def nodes(seed, most=60, n_nodes=30, n_classes=2):
    """Return cells, totals by class, and histograms whose slots have these totals."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 20, (n_nodes, 3)).astype(np.int32)
    cells[:, 1] += 1
    totals = rng.integers(0, most, (n_nodes, n_classes))
    parts = [
        np.stack([rng.multinomial(t, np.full(n, 1 / n)) for t in totals[node]], axis=1)
        for node, slots in enumerate(cells)
        for n in slots
        if n
    ]
    return cells, totals, np.concatenate(parts).astype(np.int32)


def told(counters, cells, held):
    """Return the counts after they travelled, having checked the size that was announced."""
    sent = ToldCounts(counters, cells, held)
    size = sent.packed_size()
    data = sent.pack()
    assert len(data) == size
    return ToldCounts.unpack(data)


@given(
    seed=st.integers(0, 2**32 - 1),
    most=st.sampled_from([2, 60, 10**6]),
    known=st.booleans(),
    n_classes=st.integers(1, 3),
)
def test_told_counts_come_back(seed, most, known, n_classes):
    cells, totals, counters = nodes(seed, most, n_classes=n_classes)
    held = totals if known else UNKNOWN
    found = told(counters, cells, held).read(cells, held, n_classes)
    assert found.dtype == np.int32
    assert np.array_equal(found, counters)


def test_totals_that_differ_from_those_expected_are_told_too():
    cells, totals, counters = nodes(1)
    held = totals + 1
    assert np.array_equal(told(counters, cells, held).read(cells, held, 2), counters)
    narrow = counters.astype(np.uint16)
    assert np.array_equal(told(narrow, cells, held).read(cells, held, 2), counters)


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_counts_that_are_no_histograms_come_back_too(n_classes):
    cells, totals, counters = nodes(2, n_classes=n_classes)
    counters[0, -1] += 1
    found = told(counters, cells, totals).read(cells, totals, n_classes)
    assert np.array_equal(found, counters)


def test_known_totals_save_a_sixth():
    cells, totals, counters = nodes(3, n_nodes=2000)
    plain = Counts(counters, np.cumsum(cells, dtype=np.int64)).packed_size()
    assert ToldCounts(counters, cells, totals).packed_size() < 5 / 6 * plain


def test_bytes_cut_anywhere_are_refused():
    cells, totals, counters = nodes(4, n_nodes=6)
    for held in (totals, UNKNOWN):
        data = ToldCounts(counters, cells, held).pack()
        for length in range(len(data)):
            with pytest.raises(StorageError, match=r"Told counts|Packed counts are cut short"):
                ToldCounts.unpack(data[:length]).read(cells, held, 2)
        with pytest.raises(StorageError, match="do not have the length"):
            ToldCounts.unpack(data + b"\0").read(cells, held, 2)


@given(seed=st.integers(0, 2**32 - 1), flips=st.lists(st.integers(0, 10**6), max_size=3))
def test_any_bytes_are_histograms_or_refused(seed, flips):
    cells, totals, counters = nodes(seed, n_nodes=4)
    for held in (totals, UNKNOWN):
        data = bytearray(ToldCounts(counters, cells, held).pack())
        for flip in flips:
            data[(flip // 8) % len(data)] ^= 1 << flip % 8
        try:
            found = ToldCounts.unpack(bytes(data)).read(cells, held, 2)
        except StorageError:
            continue
        assert found.ndim == 2
        assert int(found.min(initial=0)) >= 0


def test_plain_counts_of_more_cells_than_asked_for_are_not_unpacked():
    cells, totals, _ = nodes(5, n_nodes=2)
    many = Counts(np.zeros((60_000, 2), np.int32), np.array([60_000])).pack()
    with pytest.raises(StorageError, match="more cells than were asked for"):
        ToldCounts.unpack(b"\2" + many).read(cells, totals, 2)


@pytest.mark.parametrize(
    ("data", "words"), [(b"", "not of a kind"), (b"\7", "not of a kind"), (b"\0", "the length")]
)
def test_other_bytes_are_refused_in_words(data, words):
    cells = np.array([[4]], np.int32)
    with pytest.raises(StorageError, match=words):
        ToldCounts.unpack(data).read(cells, np.array([[9]]), 1)


def test_totals_that_no_node_holds_are_refused():
    cells = np.array([[4]], np.int32)
    with pytest.raises(StorageError, match="totals that no node holds"):
        ToldCounts.unpack(b"\0").read(cells, np.array([[1 << 40]]), 1)
