"""Binned tables made by hand, for the tests of tree arithmetic."""

import itertools

import numpy as np
import pytest

from spinney.trees.binning import BinnedTable


@pytest.fixture
def in_blocks():
    """Return a function that lays bins (n_rows, n_columns) out block by block."""

    def laid_out(codes, target, block_sizes=None, keys=None):
        n_rows, n_columns = codes.shape
        sizes = [n_rows] if block_sizes is None else block_sizes
        starts = np.cumsum([0, *sizes]).astype(np.int64)
        assert starts[-1] == n_rows
        parts = [codes[a:b].T.ravel() for a, b in itertools.pairwise(starts)]
        if keys is None:
            keys = np.random.RandomState(0).randint(0, 2**62, n_rows).astype(np.uint64)
        return BinnedTable(np.concatenate(parts), starts, n_columns, target, keys)

    return laid_out
