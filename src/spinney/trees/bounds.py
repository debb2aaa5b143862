"""Bounds on the rows of a forest's nodes, narrowed until they add up."""

from typing import Final

import numpy as np

from spinney.trees._kernels import bounds as kernels
from spinney.trees.forest import Forest
from spinney.typing import Integers

_MOST_PASSES: Final = 64  # each narrows all nodes; most forests are done after a few


def narrow(forest: Forest, least: Integers, most: Integers) -> None:
    """Narrow the fewest and the most rows of each node until classes and children add up.

    Each has a column for each class and one for all rows. They are written into.
    """
    left = forest.left.astype(np.int64)
    for _ in range(_MOST_PASSES):
        if not kernels.narrow_once(forest.feature, left, least, most):
            return
