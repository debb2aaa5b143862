"""Tree structures as strings of integers, and the genetic operators (S4, III-A and III-D).

A structure says which column each node of a tree tests: no thresholds, no leaves. It is written in
pre-order over the full tree of depth d, 2^d - 1 genes long; an absent node is `NIL`. Genes below an
absent node are detached: they are ignored, and may become active again when a crossover or a
mutation puts a node above them.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.typing import Bools, Integers

NIL = -1
MAX_DEPTH = 15  # 32767 genes
MAX_COLUMNS = 32767  # a gene has 16 bits

Genes = NDArray[np.int16]  # (n_structures, 2^depth - 1)
Random = np.random.Generator


def n_genes(depth: int) -> int:
    """Return the length of a structure."""
    return (1 << depth) - 1


@cache
def parents(depth: int) -> Integers:
    """Return the index of each gene's parent, -1 for the root; parents come before children."""
    parent = np.full(n_genes(depth), -1, np.int64)
    level = np.zeros(n_genes(depth), np.int64)
    for gene in range(n_genes(depth)):
        if level[gene] < depth - 1:
            below = 1 << (depth - int(level[gene]) - 1)
            for child in (gene + 1, gene + below):
                parent[child], level[child] = gene, level[gene] + 1
    return parent


def find_connected(genes: Genes, depth: int) -> Bools:
    """Return which genes are nodes: those connected to the root."""
    found: Bools = genes >= 0
    for gene, parent in enumerate(parents(depth)):
        if parent >= 0:
            found[..., gene] &= found[..., parent]
    return found


def drop_detached(genes: Genes, depth: int) -> Genes:
    """Return the structures with detached genes set to NIL."""
    return np.where(find_connected(genes, depth), genes, np.int16(NIL))


def n_nodes(genes: Genes, depth: int) -> Integers:
    """Return how many decision nodes each structure has."""
    found: Integers = find_connected(genes, depth).sum(axis=-1, dtype=np.int64)
    return found


def initial(random: Random, n: int, depth: int, n_columns: int, leaf_ratio: float) -> Genes:
    """Return random structures with a share of absent nodes: *Initializer*."""
    shape = (n, n_genes(depth))
    genes = random.integers(0, n_columns, shape).astype(np.int16)
    genes[random.random(shape) < leaf_ratio] = NIL
    return genes


def cross(random: Random, pool: Genes, n: int) -> Genes:
    """Return `n` offspring of consecutive pairs of parents: one-point crossover."""
    first, second = pool[0::2], pool[1::2]
    length = pool.shape[1]
    point = random.integers(1, max(length, 2), len(first))[:, None]
    before = np.arange(length) < point
    children = np.stack([np.where(before, first, second), np.where(before, second, first)], axis=1)
    return children.reshape(-1, length)[:n]


def mutate(
    random: Random, genes: Genes, n_columns: int, flip_ratio: float, swap_ratio: float
) -> Genes:
    """Return the structures after one of three mutations, the same for all of them."""
    strategy = int(random.integers(3))
    length = genes.shape[1]
    if strategy == 0:
        return _flipped(random, genes, n_columns, share_of(length, flip_ratio))
    if strategy == 1:
        return _swapped(random, genes, share_of(length, swap_ratio))
    return _reordered(random, genes)


def share_of(length: int, ratio: float) -> int:
    """Return the number of genes in a share: at least one, unless the share is zero."""
    return max(1, round(ratio * length)) if ratio > 0 else 0


def _flipped(random: Random, genes: Genes, n_columns: int, n: int) -> Genes:
    """Node flip: set random genes to other columns, or to none."""
    found = genes.copy()
    for structure in found:
        at = random.choice(structure.size, n, replace=False)
        drawn = random.integers(
            NIL, n_columns - 1, n
        )  # one value fewer: the current one is excluded
        structure[at] = drawn + (drawn >= structure[at])
    return found


def _swapped(random: Random, genes: Genes, n: int) -> Genes:
    """Node swap: exchange two random genes, several times."""
    found = genes.copy()
    for structure in found:
        for one, other in random.integers(0, structure.size, (n, 2)):
            structure[[one, other]] = structure[[other, one]]
    return found


def _reordered(random: Random, genes: Genes) -> Genes:
    """Substring swap: cut each structure in three and reorder the parts."""
    length = genes.shape[1]
    if length < 3:
        return genes.copy()
    found = genes.copy()
    for structure in found:
        cuts = np.sort(random.choice(length - 1, 2, replace=False) + 1)
        parts = np.split(structure.copy(), cuts)
        structure[:] = np.concatenate([parts[part] for part in random.permutation(3)])
    return found


def require_structures(genes: Genes, depth: int, n_columns: int) -> None:
    """Raise unless structures have this depth and name only these columns."""
    fits = 1 <= depth <= MAX_DEPTH and genes.ndim == 2 and genes.shape[1] == n_genes(depth)
    if not (fits and (genes.size == 0 or (genes.min() >= NIL and genes.max() < n_columns))):
        raise SettingError("The structures do not fit their depth or the table's columns.")
