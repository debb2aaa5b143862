"""Masked sums of gradients take as many bits as their parents' histograms allow."""

import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.trees._kernels import gradient_fields as kernels
from spinney.trees.frontier import Slots
from spinney.trees.gradient_fields import MOST_BITS, GradientFields

CELLS = np.array([[3, 5, 0], [2, 0, 0]], np.int32)


def slots():
    feature = np.where(CELLS > 0, np.arange(3, dtype=np.int32), -1).astype(np.int32)
    return Slots.of(feature, np.zeros_like(CELLS), np.zeros(CELLS.shape, np.uint8), CELLS)


def test_sums_of_words_are_words_of_sums():
    random = np.random.default_rng(0)
    widths = random.integers(0, 21, (2, 3, 3)).astype(np.uint8)
    fields = GradientFields(slots(), widths)
    most = np.repeat((1 << widths[CELLS > 0].astype(np.int64)) - 1, CELLS[CELLS > 0], axis=0)
    parts = np.zeros((3, *most.shape), np.int64)
    parts[0] = random.integers(0, most + 1)
    parts[1] = random.integers(0, most - parts[0] + 1)
    parts[2] = most - parts[0] - parts[1]  # every field is full
    words = sum((fields.words(part) for part in parts), np.zeros(1, np.uint64))
    assert np.array_equal(fields.counters(words), most)
    assert words.size <= int(widths[CELLS > 0].sum(axis=1) @ CELLS[CELLS > 0]) // 64 + 8


def test_bits_that_do_not_fit_the_cells_are_refused():
    for widths in (np.zeros((2, 2, 3), np.uint8), np.full((2, 3, 3), MOST_BITS + 1, np.uint8)):
        with pytest.raises(ProtocolError, match="numbers of bits do not fit"):
            GradientFields(slots(), widths)


def test_words_of_another_length_are_refused():
    fields = GradientFields(slots(), np.full((2, 3, 3), 9, np.uint8))
    with pytest.raises(ProtocolError, match="wrong number of words"):
        fields.counters(np.zeros(1, np.uint64))
    with pytest.raises(ProtocolError, match="do not have the cells"):
        fields.words(np.zeros((1, 3), np.int64))


@pytest.mark.parametrize("widths", [(63, 1, 0), (0, 5, 5), (0, 0, 0)])
def test_counters_without_bits_are_written_nowhere(widths):
    """Others may send counts where there is room for none; they must not reach other memory."""
    places = np.empty((1, 3), np.int64)
    n_words = kernels.place(np.array([[1]], np.int32), np.array([[widths]], np.uint8), places)
    memory = np.zeros(n_words + 2, np.uint64)
    sent = np.where(np.array([widths]) == 0, 0x41414141, 0)
    kernels.fill(sent, places, memory[:n_words])
    assert not memory.any()
