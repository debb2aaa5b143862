"""Divided bins: a code is the number of edges below a value, and a cut's threshold is its edge."""

import numpy as np
import pytest

from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.dtypes import MAX_PARTS

RANDOM = np.random.RandomState(0)
EDGES = {
    "even": np.linspace(-3, 5, 254, dtype=np.float32),
    "steep": np.geomspace(1e-30, 1e30, 254).astype(np.float32),
    "narrow": np.nextafter(np.float32(1), np.float32(2), dtype=np.float32)
    * (1 + np.arange(254, dtype=np.float32) * np.float32(2e-7)),
    "around zero": np.sort(
        np.r_[np.linspace(-9, -1, 100), -np.finfo(np.float32).tiny, 0.0, np.linspace(1, 9, 100)]
    ).astype(np.float32),
    "wide": np.linspace(-3e38, 3e38, 200).astype(np.float32),
}


def divided(*edges, parts=MAX_PARTS):
    numbers = (np.zeros(0, np.uint8),) * len(edges)
    return Binning(tuple(np.unique(e) for e in edges), numbers, np.ones(len(edges), bool), 0, parts)


def codes(binning, values):
    out = np.zeros(values.shape, np.uint16)
    binning.codes(values, out)
    return out


@pytest.mark.parametrize("kind", EDGES)
def test_a_value_goes_left_of_exactly_the_cuts_at_or_above_it(kind):
    binning = divided(EDGES[kind])
    n_codes = int(binning.columns.n_bins[0])
    assert n_codes > 100 * 256
    cuts = np.arange(n_codes, dtype=np.uint16)
    ends = binning.thresholds(np.zeros(n_codes, np.int32), cuts)
    assert (np.diff(ends) >= 0).all()
    assert ends[-1] == np.inf
    middle = RANDOM.choice(binning.edges[0], 2000)
    values = np.r_[
        ends[:-1], middle, np.nextafter(middle, np.float32(np.inf)), -3.3e38, 3.3e38, 0.0
    ]
    values = values[np.isfinite(values)].astype(np.float32)
    found = codes(binning, values[None])[0].astype(int)
    assert np.array_equal(found, np.searchsorted(ends[:-1], values, side="left"))


def test_every_edge_of_a_bin_is_an_edge_of_its_last_part():
    binning = divided(EDGES["even"])
    ends = binning.begins[0, 1:255].astype(np.uint16) - 1
    found = binning.thresholds(np.zeros(ends.size, np.int32), ends)
    assert np.array_equal(found, binning.edges[0])


def test_zero_and_columns_with_few_values_are_not_divided():
    few = np.arange(100, dtype=np.float32)
    binning = divided(few, EDGES["around zero"])
    assert binning.columns.n_bins.tolist() == [101, 256 * (len(EDGES["around zero"])) + 1]
    assert codes(binning, np.array([[55.0], [0.0]], np.float32))[0, 0] == 55
    zero = int(codes(binning, np.array([[0.0], [0.0]], np.float32))[1, 0])
    column = np.ones(2, np.int32)
    below, above = binning.thresholds(column, np.array([zero - 1, zero], np.uint16))
    assert (below, above) == (-np.finfo(np.float32).tiny, 0.0)


def test_missing_values_and_categories_have_codes_of_two_bytes():
    values = np.array([[np.nan, 0.1], [2.0, np.nan]], np.float32)
    binning = Binning(
        (EDGES["even"], np.zeros(0, np.float32)),
        (np.zeros(0, np.uint8), np.arange(3, dtype=np.uint8)),
        np.ones(2, np.bool_),
        0,
        MAX_PARTS,
    )
    keys = np.arange(2, dtype=np.uint64)
    batches = [(values, np.zeros(2, np.uint8), keys)]
    table = BinnedTable.of_batches(batches, binning, 2, n_threads=1)
    assert table.codes.dtype == np.uint16
    found = table.by_column()
    assert found[:, 0].tolist() == [65535, 2]
    assert found[1, 1] == 65535
    assert binning.columns.n_bins.tolist() == [255 * 256, 3]


def test_parts_are_told_apart_by_the_digest():
    assert divided(EDGES["even"]).digest() != divided(EDGES["even"], parts=1).digest()
