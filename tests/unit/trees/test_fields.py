"""Histograms as words for masked sums: words add up as histograms do, and have one reading."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import ProtocolError
from spinney.trees import wraps
from spinney.trees.fields import Fields
from spinney.trees.frontier import Slots

CELLS = st.one_of(st.integers(0, 5), st.integers(30, 40), st.just(256), st.just(600))
HELD = st.one_of(st.integers(0, 9), st.integers(10, 300), st.integers(0, 2**31 - 1))


def histogram_of(rng, cells, total, shape):
    """Return cells that add up to a total: spread, all in one cell, or in a few."""
    counts = np.zeros(cells, np.int64)
    if not cells:
        return counts
    if shape == "one":
        counts[rng.integers(cells)] = total
    elif shape == "few":
        some = rng.integers(cells, size=3)
        np.add.at(counts, some, rng.multinomial(total, [1 / 3] * 3))
    else:
        counts += rng.multinomial(total, np.full(cells, 1 / cells))
    return counts


def histograms_of(rng, cells, totals, shapes):
    """Return the counters of nodes whose slots all hold the same rows."""
    parts = []
    for node, slots in enumerate(cells):
        for n in slots:
            by_class = [histogram_of(rng, n, total, rng.choice(shapes)) for total in totals[node]]
            parts.append(np.array(by_class).T.reshape(n, len(by_class)))
    return np.concatenate(parts).astype(np.int32)


def dealt(rng, counters, n_parties):
    """Deal every row of a histogram to a party."""
    parties = []
    for left in range(n_parties, 0, -1):
        own = rng.binomial(counters, 1 / left) if left > 1 else counters
        parties.append(own.astype(np.int32))
        counters = counters - own
    return parties


@st.composite
def nodes(draw):
    """Draw the cells of some nodes, and the rows that they hold at most and really hold."""
    n_nodes, n_slots = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    n_classes = draw(st.integers(1, 3))
    cells = draw(
        st.lists(
            st.lists(CELLS, min_size=n_slots, max_size=n_slots), min_size=n_nodes, max_size=n_nodes
        )
    )
    held = np.array(
        draw(
            st.lists(
                st.lists(HELD, min_size=n_classes, max_size=n_classes),
                min_size=n_nodes,
                max_size=n_nodes,
            )
        ),
        np.int64,
    )
    return np.array(cells, np.int32), held


@given(
    drawn=nodes(),
    seed=st.integers(0, 2**32 - 1),
    is_full=st.booleans(),
    shapes=st.sampled_from([["one"], ["few"], ["even"], ["one", "few", "even"]]),
)
def test_words_add_up_as_histograms_do(drawn, seed, is_full, shapes):
    """The bound may be reached, or not: a party may be lost, or not be counted."""
    cells, held = drawn
    rng = np.random.default_rng(seed)
    totals = held if is_full else rng.integers(0, held + 1)
    counters = histograms_of(rng, cells, totals, shapes)
    fields = Fields(cells, held)
    parties = dealt(rng, counters, 3)
    words = [fields.pack(own, 1) for own in parties]
    exact = [sum(map(int, word)) for word in zip(*words, strict=True)]
    assert all(word < 2**64 for word in exact)  # so tags of words add up too
    total = np.array(exact, np.uint64)
    assert np.array_equal(fields.unpack(total, 2).reshape(counters.shape), counters)
    assert np.array_equal(fields.pack(counters, 2), total)
    assert fields.are_histograms(counters, 2)


def many_nodes(rng, n_nodes=2000):
    cells = rng.integers(2, 34, (n_nodes, 4)).astype(np.int32)
    held = rng.integers(0, 80, (n_nodes, 2))
    return cells, held, histograms_of(rng, cells, held, ["one", "few", "even"])


def test_threads_and_16_bits_change_nothing():
    cells, held, counters = many_nodes(np.random.default_rng(0))
    fields = Fields(cells, held)
    words = fields.pack(counters, 1)
    assert np.array_equal(fields.pack(counters.astype(np.uint16), 3), words)
    for n_threads in (1, 3):
        for narrow in (False, True):
            found = fields.unpack(words, n_threads, narrow=narrow)
            assert np.array_equal(found, counters.ravel())
            assert found.dtype == (np.uint16 if narrow else np.int32)


def test_words_are_well_filled():
    """A counter of up to 79 rows has 7 bits; digits, sums and all take 5.2 on average."""
    cells, held, counters = many_nodes(np.random.default_rng(1))
    assert 64 * Fields(cells, held).n_words < 5.2 * counters.size


def test_a_small_node_takes_few_words():
    fields = Fields(np.array([[5, 5]], np.int32), np.array([[9, 9]]))
    assert fields.n_words <= 4


def test_changed_words_are_refused_or_differ_from_what_is_read():
    rng = np.random.default_rng(2)
    cells, held, counters = many_nodes(rng, 40)
    fields = Fields(cells, held)
    words = fields.pack(counters, 1)
    n_refused = 0
    for _ in range(300):
        changed = words.copy()
        changed[rng.integers(words.size)] ^= np.uint64(1) << np.uint64(rng.integers(64))
        try:
            found = fields.unpack(changed, 1)
        except ProtocolError:
            n_refused += 1
            continue
        packed = Fields(cells, held).pack(found, 1)  # `fields` knows what it has just read
        is_packed_so = np.array_equal(packed, changed)
        assert not (is_packed_so and np.array_equal(found, counters.ravel()))
    assert n_refused > 150


@given(seed=st.integers(0, 2**32 - 1))
def test_any_words_are_histograms_or_refused(seed):
    rng = np.random.default_rng(seed)
    cells, held, _ = many_nodes(rng, 3)
    fields = Fields(cells, held)
    words = rng.integers(0, 2**64, fields.n_words, np.uint64)
    try:
        found = fields.unpack(words, 1).reshape(-1, 2)
    except ProtocolError:
        return
    ends = np.cumsum(cells.sum(axis=1))
    for node, part in enumerate(np.split(found, ends[:-1])):
        assert int(part.min()) >= 0
        assert np.all(part.sum(axis=0) <= 4 * held[node])


def test_more_rows_than_a_node_holds_are_refused():
    cells = np.array([[6]], np.int32)
    words = Fields(cells, np.array([[7]])).pack(np.full(6, 1, np.int32), 1)
    with pytest.raises(ProtocolError, match="do not add up to histograms of the rows"):
        Fields(cells, np.array([[5]])).unpack(words, 1)


@pytest.mark.parametrize("change", [(0, 1), (4, 1), (4, -1), (9, 6)])
def test_counts_are_histograms_if_slots_add_up_to_the_same_rows_that_the_node_holds(change):
    fields = Fields(np.array([[4, 0, 3], [2, 0, 1]], np.int32), np.array([[6], [5]]))
    counters = np.array([1, 2, 0, 2, 0, 5, 0, 0, 4, 4], np.int32)
    assert fields.are_histograms(counters, 1)
    cell, more = change
    counters[cell] += more
    assert not fields.are_histograms(counters, 1)


def test_nothing_is_sent_about_a_class_without_rows():
    cells = np.array([[6, 3]], np.int32)
    fields = Fields(cells, np.zeros((1, 2), np.int64))
    assert fields.n_words == 0
    assert fields.unpack(fields.pack(np.zeros((9, 2), np.int32), 1), 1).tolist() == [0] * 18


def test_a_slot_of_one_cell_takes_its_total_alone():
    fields = Fields(np.array([[1, 1, 1]], np.int32), np.array([[200]]))
    words = fields.pack(np.full(3, 190, np.int32), 1)
    assert np.flatnonzero(words).size == 1
    assert fields.unpack(words, 1).tolist() == [190] * 3


def test_words_that_are_not_those_asked_for_are_refused():
    fields = Fields(np.array([[10, 20]], np.int32), np.array([[99]]))
    words = fields.pack(np.ones(30, np.int32), 1)
    with pytest.raises(ProtocolError, match="have the wrong number of words"):
        fields.unpack(words[:-1], 1)
    with pytest.raises(ProtocolError, match="Counts do not have the cells"):
        fields.pack(np.ones(29, np.int32), 1)


@pytest.mark.parametrize("held", [[[-1]], [[1 << 41]], [[1], [1]], [1]])
def test_rows_that_cannot_be_held_are_refused(held):
    with pytest.raises(ProtocolError, match="do not fit the nodes"):
        Fields(np.array([[4]], np.int32), np.array(held))


def test_without_known_rows_a_node_holds_fewer_than_its_bits_say():
    cells = np.array([[3], [4]], np.int32)
    slots = Slots.of(cells, cells, cells.astype(np.uint8), cells)
    fields = Fields.of(slots, np.array([3, 5], np.uint8), 2)
    assert fields.held.tolist() == [[7, 7], [31, 31]]


@pytest.mark.parametrize("n_wraps", [1, 2, 3])
def test_every_sum_of_weights_names_its_cells(n_wraps):
    names = wraps.naming()
    bits = names.index_bits[n_wraps]
    known = np.flatnonzero(bits[2:] != wraps.NOT_NAMED) + 2
    assert known.max() >= 34  # 32 cells, one cut off at each end, missing values
    for cells in {int(known[bits[known] == b].max()) for b in set(bits[known].tolist())}:
        first = names.first_weight[n_wraps, cells]
        weights = names.weights[first : first + cells].tolist()
        assert weights[:2] == [0, 1]
        assert max(weights) < 2 ** int(bits[cells])
        chosen = list(combinations_with_replacement(range(cells), n_wraps))
        sums = [sum(weights[c] for c in some) % 2 ** int(bits[cells]) for some in chosen]
        assert len(set(sums)) == len(sums)
        places = names.places[names.first_sum[n_wraps, cells] :]
        for some, named in zip(chosen, sums, strict=True):
            read = [int(places[named]) >> wraps.PLACE_BITS * i & 511 for i in range(n_wraps)]
            assert read == sorted(some, reverse=True)
