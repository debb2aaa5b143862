"""How far two tree structures are from each other: Zhang and Shasha (1989), unit costs.

The distance is the least number of nodes to remove, to add or to rename; children are ordered.
Normalised, it is divided by the nodes of both trees together, so that 0 is equal and 1 is nothing
in common.
"""

from dataclasses import dataclass

import numpy as np

from spinney.trees.genome import Genes, connected
from spinney.typing import Bools, Integers


@dataclass(frozen=True)
class _PostOrder:
    """A tree in post-order: labels, and for each node its leftmost descendant."""

    label: list[int]
    leftmost: list[int]

    @property
    def key_roots(self) -> list[int]:
        """Nodes with a sibling to their left, and the root: the last of each leftmost leaf."""
        last = {leftmost: node for node, leftmost in enumerate(self.leftmost)}
        return sorted(last.values())


def edit_distance(one: Genes, other: Genes, depth: int, other_depth: int | None = None) -> int:
    """Return the least number of changes that turn one structure into the other."""
    a = _post_order(one, depth)
    b = _post_order(other, depth if other_depth is None else other_depth)
    if not a.label or not b.label:
        return len(a.label) + len(b.label)
    distance = np.zeros((len(a.label), len(b.label)), np.int64)
    for i in a.key_roots:
        for j in b.key_roots:
            _fill(a, b, i, j, distance)
    return int(distance[-1, -1])


def normalised_distance(
    one: Genes, other: Genes, depth: int, other_depth: int | None = None
) -> float:
    """Return the distance by the nodes of both trees: 0 equal, 1 nothing in common."""
    second = depth if other_depth is None else other_depth
    both = int(connected(one, depth).sum() + connected(other, second).sum())
    return edit_distance(one, other, depth, second) / both if both else 0.0


def _post_order(genes: Genes, depth: int) -> _PostOrder:
    present: Bools = connected(genes, depth)
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
    return _PostOrder(label, leftmost)


def _fill(a: _PostOrder, b: _PostOrder, i: int, j: int, distance: Integers) -> None:
    """Write the distances of all subtrees that end on the way to `i` and `j`."""
    low_i, low_j = a.leftmost[i], b.leftmost[j]
    forest = np.zeros((i - low_i + 2, j - low_j + 2), np.int64)
    forest[:, 0] = np.arange(len(forest))
    forest[0, :] = np.arange(forest.shape[1])
    for x in range(low_i, i + 1):
        for y in range(low_j, j + 1):
            at_x, at_y = x - low_i + 1, y - low_j + 1
            least = min(forest[at_x - 1, at_y], forest[at_x, at_y - 1]) + 1
            if a.leftmost[x] == low_i and b.leftmost[y] == low_j:
                renamed = forest[at_x - 1, at_y - 1] + (a.label[x] != b.label[y])
                forest[at_x, at_y] = distance[x, y] = min(least, renamed)
            else:
                whole = forest[a.leftmost[x] - low_i, b.leftmost[y] - low_j] + distance[x, y]
                forest[at_x, at_y] = min(least, whole)
