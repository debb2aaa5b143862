"""Trees with explicitly given rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spinney.trees.binning import BinnedTable
from spinney.trees.rows import standing_of_rows


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    n_trees=st.integers(1, 4),
    data=st.data(),
)
def test_every_tree_stands_on_its_own_rows_each_once(sizes, n_trees, data):
    n = sum(sizes)
    starts = np.cumsum([0, *sizes]).astype(np.int64)
    table = BinnedTable(
        np.zeros(n, np.uint8), starts, 1, np.zeros(n, np.uint8), np.zeros(n, np.uint64)
    )
    rows_of_tree = [
        np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else [], np.int64)
        for _ in range(n_trees)
    ]
    standing = standing_of_rows(table, rows_of_tree)
    for tree, rows in enumerate(rows_of_tree):
        found = []
        for block, start in enumerate(starts[:-1]):
            entries = standing.entries[standing.starts[tree, block] : standing.ends[tree, block]]
            assert (entries >> 27 == 1).all()
            found += (start + (entries & ((1 << 27) - 1))).tolist()
        assert found == rows.tolist()
