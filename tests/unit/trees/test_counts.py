"""Counters in messages: packing round-trips, in the size that was announced."""

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import ProtocolError, StorageError
from spinney.trees._kernels import packing
from spinney.trees.counts import Counts, packed_bits

HEAD = struct.Struct("<BQQQ")


def twin_of_bits(counters, run_ends):
    """Write the runs as text of ones and zeros, by the rules in the kernel's docstring."""
    text, begin = "", 0
    for end in run_ends:
        run = [int(x) for x in counters[begin:end]]
        n, total, k = len(run), sum(run), 0
        while n > 0 and (n << (k + 1)) <= total + (n >> 2) and k < 62:
            k += 1
        text += f"{k:06b}"[::-1]
        for x in run:
            ones = x >> k
            if ones < 40:
                text += "1" * ones + "0" + (f"{x:064b}"[::-1])[:k]
            else:
                text += "1" * 40 + f"{x:064b}"[::-1]
        begin = end
    return text


COUNTER = st.one_of(st.integers(0, 3), st.integers(0, 200), st.integers(0, 2**31 - 1))
WIDE = st.one_of(st.integers(0, 3), st.integers(0, 2**40), st.integers(0, 2**62))


@st.composite
def runs_of(draw, counter, width):
    """Draw cells in runs, some of them empty."""
    sizes = draw(st.lists(st.integers(0, 12), max_size=6))
    n = sum(sizes) * width
    counters = draw(st.lists(counter, min_size=n, max_size=n))
    return np.array(counters, np.int64).reshape(-1, width), np.cumsum(sizes, dtype=np.int64)


def require_round_trip(counts):
    data = counts.pack()
    again = Counts.unpack(data)
    assert np.array_equal(again.counters, counts.counters)
    assert again.counters.dtype == counts.counters.dtype
    assert again.counters.shape == counts.counters.shape
    assert again.run_ends.tolist() == counts.run_ends.tolist()
    assert counts.packed_size() == len(data)
    bits = packed_bits(counts.counters, counts.run_ends)
    assert Counts(counts.counters, counts.run_ends, bits).packed_size() == len(data)
    return data


@given(drawn=st.integers(1, 4).flatmap(lambda width: runs_of(COUNTER, width)))
def test_counts_come_back(drawn):
    counters, run_ends = drawn
    require_round_trip(Counts(counters.astype(np.int32), run_ends))


@given(drawn=runs_of(WIDE, 2))
def test_weights_and_sums_come_back(drawn):
    counters, run_ends = drawn
    counters[counters[:, 0] == 0, 1] = 0  # a cell without rows has no sum
    require_round_trip(Counts(counters, run_ends))


@given(drawn=runs_of(st.integers(0, 2**24), 3))
def test_weights_and_two_sums_come_back(drawn):
    counters, run_ends = drawn
    counters[counters[:, 0] == 0, 1:] = 0
    counters[:, 1] *= counters[:, 0]
    require_round_trip(Counts(counters, run_ends))


def test_two_sums_take_the_bytes_of_their_spread():
    random = np.random.RandomState(0)
    rows = random.randint(1, 20, 400)
    sums = np.stack([rows, rows * 1000 + random.randint(-50, 50, 400), rows * 900], axis=1)
    packed = len(Counts(sums.astype(np.int64), np.array([400])).pack())
    apart = [Counts(np.stack([rows, s], 1).astype(np.int64), np.array([400])) for s in sums.T[1:]]
    assert 2 * packed < sum(len(one.pack()) for one in apart)


@given(drawn=runs_of(COUNTER, 1))
def test_bits_are_those_of_the_plain_rules(drawn):
    counters, run_ends = drawn
    flat = counters.ravel().astype(np.int32)
    text = twin_of_bits(flat, run_ends)
    assert int(packing.packed_bits(flat, run_ends)) == len(text)
    out = np.zeros((len(text) + 7) // 8, np.uint8)
    assert int(packing.pack(flat, run_ends, out)) == len(text)
    assert "".join(map(str, np.unpackbits(out, bitorder="little")))[: len(text)] == text


def test_a_counter_far_above_its_run_is_written_out():
    counters = np.zeros((60, 1), np.int32)
    counters[7] = 2**31 - 1
    data = require_round_trip(Counts(counters, np.array([60])))
    assert len(data) < 240  # one of 64 bits, and 59 of the size that the mean asks for


def test_deep_nodes_take_about_a_bit_a_counter():
    counters = np.zeros((10_000, 2), np.int32)
    counters[::50, 0] = 1
    counts = Counts(counters, np.arange(100, 10_001, 100))
    assert counts.packed_size() < 20_000 * 1.2 / 8 + 200 + 100


def packed():
    return Counts(np.arange(24, dtype=np.int32).reshape(12, 2), np.array([3, 12])).pack()


def packed_sums():
    return Counts(np.arange(24, dtype=np.int64).reshape(12, 2), np.array([3, 12])).pack()


@pytest.mark.parametrize("data", [packed(), packed_sums()], ids=["counts", "sums"])
def test_data_cut_anywhere_are_refused(data):
    for length in range(len(data)):
        with pytest.raises(StorageError, match="Packed counts"):
            Counts.unpack(data[:length])
    with pytest.raises(StorageError, match="Packed counts are longer than their header says"):
        Counts.unpack(data + b"\0")


@pytest.mark.parametrize(
    "head",
    [
        (3, 12, 2, 2),
        (8, 12, 4, 2),
        (8, 12, 1, 2),
        (4, 12, 0, 2),
        (4, 2**63, 2, 2),
        (4, 12, 2**63, 2),
        (4, 12, 2, 2**63),
        (4, 0, 2**64 - 1, 0),
        (4, 13, 2, 2),
        (8, 2**40, 2, 2),
    ],
)
def test_a_head_that_cannot_be_true_is_refused(head):
    with pytest.raises(StorageError, match="Packed counts have"):
        Counts.unpack(HEAD.pack(*head) + packed()[HEAD.size :])


def test_a_few_bytes_cannot_claim_much_memory():
    """A thousand runs of 65,535 cells in two kilobytes: no counter has its bit."""
    cells = np.full(1000, 65535, "<u2").tobytes()
    for itemsize, width in ((4, 1), (8, 2)):
        head = HEAD.pack(itemsize, 65535 * 1000, width, 1000)
        with pytest.raises(StorageError, match="does not fit their length"):
            Counts.unpack(head + cells)


def in_64_bits(counters, width):
    """Return a message of counters in one run, each written in 64 bits, whatever it is."""
    n_cells, kind = len(counters) // width, 8 if width == 2 else 4
    columns = [counters] if kind == 4 else [counters[::2], counters[1::2]]
    streams = []
    for column in columns:
        text = "0" * 6 + "".join("1" * 40 + f"{x % 2**64:064b}"[::-1] for x in column)
        bits = np.array(list(text), np.uint8)
        streams.append(np.packbits(bits, bitorder="little").tobytes())
    head = HEAD.pack(kind, n_cells, width, 1) + np.array([n_cells], "<u2").tobytes()
    return head + b"".join(streams)


@pytest.mark.parametrize("width", [1, 2])
def test_numbers_below_zero_are_no_counts(width):
    assert Counts.unpack(in_64_bits([7, 1000, 50, 3], width)).counters.sum() == 1060
    with pytest.raises(StorageError, match="hold numbers below zero"):
        Counts.unpack(in_64_bits([7, 1000, 50, -3], width))


@pytest.mark.parametrize(("kind", "width"), [(np.int32, 1), (np.int64, 2), (np.int64, 3)])
def test_sums_below_zero_are_not_written_beyond_their_bytes(kind, width):
    """Of sums that wrapped around, the size was too small, and bits landed in others' memory."""
    counters = np.full((300, width), 1000, kind)
    counters[::3, -1] = -5000
    counts = Counts(counters, np.array([150, 300]))
    with pytest.raises(ProtocolError, match="are not below zero: a party sent"):
        counts.pack()


@given(data=st.binary(max_size=200), flips=st.lists(st.integers(0, 8 * 200), max_size=3))
def test_any_bytes_are_counts_or_refused(data, flips):
    damaged = bytearray(packed_sums())
    for flip in flips:
        damaged[(flip // 8) % len(damaged)] ^= 1 << flip % 8
    for candidate in (data, bytes(damaged)):
        try:
            counts = Counts.unpack(candidate)
        except StorageError:
            continue
        assert counts.counters.ndim == 2
        assert counts.counters.min(initial=0) >= 0
        with suppress(ProtocolError):  # sums whose means wrap around
            counts.pack()
