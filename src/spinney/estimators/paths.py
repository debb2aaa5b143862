"""Where rows end in the trees, and by which nodes: `apply` and `decision_path`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spinney.typing import Integers

if TYPE_CHECKING:
    from spinney.protocols.model import ForestModel
    from spinney.tables.columns import Columns


def leaves_of(model: ForestModel, columns: Columns) -> Integers:
    """Return the leaf of each row in each tree, numbered from the tree's root, which is 0."""
    forest = model.forest
    rows = model.rows(columns.values(slice(None)))
    leaves = [forest.leaves(rows, tree).astype(np.int64) for tree in range(forest.n_trees)]
    return np.stack(leaves, axis=1) - forest.tree_start[:-1]


def paths_of(model: ForestModel, columns: Columns) -> tuple[Any, Integers]:
    """Return a sparse matrix, rows by nodes of all trees, and where each tree's nodes begin."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415  only here

    forest = model.forest
    parent = np.full(forest.n_nodes, -1, np.int64)
    inner = np.flatnonzero(forest.feature >= 0)
    left = forest.left[inner].astype(np.int64)
    parent[left] = parent[left + 1] = inner
    node = (leaves_of(model, columns) + forest.tree_start[:-1]).ravel()
    row = np.repeat(np.arange(columns.n_rows), forest.n_trees)
    rows, nodes = [], []
    while node.size:
        rows.append(row)
        nodes.append(node)
        above = parent[node]
        row, node = row[above >= 0], above[above >= 0]
    at = (np.concatenate(rows), np.concatenate(nodes))
    shape = (columns.n_rows, forest.n_nodes)
    path = csr_matrix((np.ones(at[0].size, np.int64), at), shape=shape)
    path.sort_indices()
    return path, forest.tree_start.copy()
