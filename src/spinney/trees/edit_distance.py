"""The edit distance of two tree structures: Zhang and Shasha (1989), unit costs.

The distance is the smallest number of nodes to remove, add or rename; children are ordered. The
normalised distance is divided by the number of nodes in both trees: 0 means equal, 1 means nothing
in common.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import edit_distance as kernels
from spinney.trees.genome import find_connected
from spinney.typing import Bools, Integers

Structure = NDArray[np.int16]  # (n_genes,)
_MOST_PAIRS = 4_000_000  # pairs of nodes: about a second


@dataclass(frozen=True)
class _PostOrder:
    """A tree in post-order: labels, and for each node its leftmost descendant."""

    label: Integers
    leftmost: Integers

    @property
    def key_roots(self) -> Integers:
        """Nodes with a sibling to their left, and the root: the last of each leftmost leaf."""
        last = {int(leftmost): node for node, leftmost in enumerate(self.leftmost)}
        return np.array(sorted(last.values()), np.int64)

    @property
    def parts(self) -> tuple[Integers, Integers, Integers]:
        """The arrays that the kernel takes."""
        return self.label, self.leftmost, self.key_roots


def edit_distance(one: Structure, other: Structure, depth: int, other_depth: int) -> int | None:
    """Return the smallest number of changes that turn one structure into the other.

    Returns None for trees that are too large to compare in reasonable time.
    """
    a, b = _post_order(one, depth), _post_order(other, other_depth)
    if not a.label.size or not b.label.size:
        return int(a.label.size + b.label.size)
    if a.label.size * b.label.size > _MOST_PAIRS:
        return None
    return int(kernels.tree_distance(*a.parts, *b.parts))


def normalised_distance(
    one: Structure, other: Structure, depth: int, other_depth: int
) -> float | None:
    """Return the distance divided by the nodes of both trees: 0 equal, 1 nothing in common."""
    both = int(find_connected(one, depth).sum() + find_connected(other, other_depth).sum())
    found = edit_distance(one, other, depth, other_depth)
    if found is None:
        return None
    return found / both if both else 0.0


def _post_order(genes: Structure, depth: int) -> _PostOrder:
    present: Bools = find_connected(genes, depth)
    label: list[int] = []
    leftmost: list[int] = []

    def visit(gene: int, level: int) -> int | None:
        """Append a subtree; return its leftmost node."""
        if level == depth or not present[gene]:
            return None
        below = 1 << (depth - level - 1)
        found = [visit(child, level + 1) for child in (gene + 1, gene + below)]
        own = len(label)
        first = next((at for at in found if at is not None), own)
        label.append(int(genes[gene]))
        leftmost.append(first)
        return first

    visit(0, 0)
    return _PostOrder(np.array(label, np.int64), np.array(leftmost, np.int64))
