"""Sums told while they come in: the beginning of what is told at the end, or nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.trees import told_ahead
from spinney.trees._kernels import packing
from spinney.trees.counts import Counts
from spinney.trees.fields import Fields
from spinney.trees.told import ToldCounts
from spinney.trees.told_ahead import TOLD_WORTH, MaskedToldAhead, OpenToldAhead

N_PARTIES = 3


@pytest.fixture(autouse=True)
def _in_small_chunks(monkeypatch):
    monkeypatch.setattr(told_ahead, "_CHUNK", 64)
    monkeypatch.setattr("spinney.trees.fields._CHUNK_COUNTERS", 64)


def parties_of(seed, most=30, n_nodes=40, n_classes=2):
    """Return cells, and each party's histograms of the same nodes."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 9, (n_nodes, 3)).astype(np.int32)
    cells[:, 1] += 1
    found = []
    for _ in range(N_PARTIES):
        totals = rng.integers(0, most, (n_nodes, n_classes))
        parts = [
            np.stack([rng.multinomial(t, np.full(n, 1 / n)) for t in totals[node]], axis=1)
            for node, slots in enumerate(cells)
            for n in slots
            if n
        ]
        found.append(np.concatenate(parts).astype(np.int32))
    return cells, found


def held_of(cells, counters):
    """Return how many rows of each class the nodes hold."""
    ends = np.cumsum(cells.sum(axis=1))
    first = np.cumsum(cells.sum(axis=1)) - cells.sum(axis=1)
    own = [counters[a:b] for a, b in zip(first, ends, strict=True)]
    slots = [row[row > 0][0] for row in cells]  # of the first that is used
    return np.array([part[:n].sum(axis=0) for part, n in zip(own, slots, strict=True)], np.int64)


def streams_of(cells, parties, *, is_masked, held):
    """Return what travels of each party, and what tells the sum."""
    if is_masked:
        fields = Fields(cells, held)
        words = [fields.pack(counters, 1) for counters in parties]
        words[0] = words[0] + np.uint64(2**63 + 12345)  # masks cancel
        words[1] = words[1] - np.uint64(2**63 + 12345)
        return [one.tobytes() for one in words], MaskedToldAhead(cells, held, fields)
    run_ends = np.cumsum(cells, dtype=np.int64)
    return (
        [Counts(counters, run_ends).stream for counters in parties],
        OpenToldAhead(cells, held, N_PARTIES),
    )


def told_in_parts(ahead, streams, steps):
    """Return what is told if streams come so many bytes at a time."""
    told, sizes = [], [0] * len(streams)
    while any(size < len(stream) for size, stream in zip(sizes, streams, strict=True)):
        sizes = [size + step for size, step in zip(sizes, steps, strict=True)]
        parts = [bytearray(s[:size]) for s, size in zip(streams, sizes, strict=True)]
        told.append(ahead.more(parts))
    return told


@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.tuples(*[st.integers(1, 40)] * N_PARTIES),
    n_classes=st.integers(1, 3),
    is_masked=st.booleans(),
)
def test_what_is_told_early_is_the_beginning_of_what_is_told(seed, steps, n_classes, is_masked):
    cells, parties = parties_of(seed, n_classes=n_classes)
    total = sum(parties)
    held = held_of(cells, total)
    streams, ahead = streams_of(cells, parties, is_masked=is_masked, held=held)
    told = told_in_parts(ahead, streams, steps)
    whole = ToldCounts(total, cells, held).pack()
    assert whole.startswith(b"".join(told))
    assert len(whole) - len(b"".join(told)) <= 1  # the last byte may not be full
    assert sum(map(bool, told)) > 1
    assert len(whole) <= TOLD_WORTH * min(map(len, streams))
    assert ahead.more([bytearray(stream) for stream in streams]) == b""


@pytest.mark.parametrize("is_masked", [False, True])
def test_nothing_is_told_of_what_only_some_have_sent(is_masked):
    cells, parties = parties_of(3)
    held = held_of(cells, sum(parties))
    streams, ahead = streams_of(cells, parties, is_masked=is_masked, held=held)
    assert ahead.more([bytearray(streams[0]), bytearray(streams[1]), bytearray()]) == b""
    assert ahead.more([bytearray(streams[0]), bytearray(streams[1]), bytearray(3)]) == b""
    assert len(ahead.more([bytearray(stream) for stream in streams])) > 100


def test_a_large_node_is_not_read_from_its_beginning_with_every_part(monkeypatch):
    """Before: 21 MB of a party that wrote its counts in 104 bits each took the coordinator 14 s."""
    cells = np.full((1, 500), 4, np.int32)
    counters = np.ones((2000, 2), np.int32)
    held = np.full((1, 2), 4 * N_PARTIES)
    streams, ahead = streams_of(cells, [counters] * N_PARTIES, is_masked=False, held=held)
    read, unpack = [], packing.unpack

    def counted(data, at, run_ends, out):
        read.append(out.size)
        return unpack(data, at, run_ends, out)

    monkeypatch.setattr(packing, "unpack", counted)
    told = b"".join(told_in_parts(ahead, streams, (8, 8, 8)))
    assert ToldCounts(N_PARTIES * counters, cells, held).pack().startswith(told)
    assert told
    n_steps = -(-len(streams[0]) // 8)
    assert sum(read) <= N_PARTIES * counters.size + 64 * n_steps


def test_no_more_is_told_than_sums_that_all_expect():
    """From the chunk on where a party counts itself out, or lies, the sum is told at the end."""
    cells, parties = parties_of(4)
    total = sum(parties)
    held = held_of(cells, total)
    for node in (0, 20, 39):
        counters = parties[1].copy()
        first = int(cells[:node].sum())
        counters[first, 0] += 1
        others = [parties[0], counters, parties[2]]
        streams, ahead = streams_of(cells, others, is_masked=False, held=held)
        told = b"".join(told_in_parts(ahead, streams, (7, 7, 7)))
        assert ToldCounts(total, cells, held).pack().startswith(told)
        assert len(told) < max(1, first)
        assert not (node == 0 and told)


def test_words_that_are_no_histograms_are_not_told():
    cells, parties = parties_of(5)
    held = held_of(cells, sum(parties))
    streams, ahead = streams_of(cells, parties, is_masked=True, held=held)
    junk = np.full(len(streams[0]) // 8, 2**64 - 1, np.uint64).tobytes()
    assert ahead.more([bytearray(junk), bytearray(streams[1]), bytearray(streams[2])]) == b""
    assert ahead.more([bytearray(stream) for stream in streams]) == b""


def test_a_stream_that_is_no_counts_tells_nothing_that_is_no_sum():
    cells, parties = parties_of(6)
    held = held_of(cells, sum(parties))
    streams, ahead = streams_of(cells, parties, is_masked=False, held=held)
    junk = np.random.default_rng(1).bytes(len(streams[0]))
    assert ahead.more([bytearray(junk), bytearray(streams[1]), bytearray(streams[2])]) == b""
