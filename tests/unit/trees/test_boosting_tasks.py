"""A level's work is divided into tasks that cover it, each part once."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from spinney.trees.boosting import Segments, _histogram_tasks
from spinney.trees.frontier import Slots
from spinney.trees.threads import TASKS_PER_THREAD, threads_for_levels

_NO_ENTRIES = np.zeros(0, np.uint32)


def segments(rows: Any) -> Segments:
    """Return segments with so many rows, by node and block."""
    ends = np.cumsum(np.asarray(rows, np.int64)).reshape(np.shape(rows))
    return Segments(_NO_ENTRIES, ends - rows, ends)


def covered(tasks: list[Any]) -> list[tuple[int, int]]:
    """Return what tasks of ranges by ranges cover, in order."""
    return sorted(pair for one, other in tasks for pair in product(range(*one), range(*other)))


SHAPES = [
    [[200_000]],
    [[65_536, 65_536, 65_536, 3_392]],
    [[1, 0], [90_000, 90_000]],
    [[30_000, 20_000]] * 9,
    [[10, 20]] * 9,
    [[900_000, 0, 1]] * 2,
]


@pytest.mark.parametrize("rows", SHAPES)
@pytest.mark.parametrize("n_threads", [1, 2, 16])
def test_every_node_is_moved_once_in_every_block(rows, n_threads):
    held = segments(rows)
    n_nodes, n_blocks = held.starts.shape
    tasks = held._tasks(n_nodes, n_blocks, n_threads)
    assert covered(tasks) == list(product(range(n_nodes), range(n_blocks)))


@pytest.mark.parametrize("rows", SHAPES)
@pytest.mark.parametrize("n_slots", [1, 2, 31])
@pytest.mark.parametrize("n_threads", [1, 2, 16])
def test_every_slot_of_every_node_is_summed_once_in_every_part(rows, n_slots, n_threads):
    held, n_nodes = segments(rows), len(rows)
    ones = np.ones((n_nodes, n_slots), np.int32)
    slots = Slots.of(ones, ones, ones.astype(np.uint8), ones)
    n_blocks = held.starts.shape[1]
    for part_start in ([0, n_blocks], [*range(n_blocks + 1)], [n_blocks - 1, n_blocks]):
        tasks = _histogram_tasks(held, np.array(part_start), slots, n_threads)
        n_items = n_nodes * (len(part_start) - 1)
        assert covered(tasks) == list(product(range(n_items), range(n_slots)))
        assert len(tasks) <= max(1, TASKS_PER_THREAD * n_threads)


def test_a_level_of_little_work_is_one_task():
    held = segments([[10, 20]] * 9)
    assert held._tasks(9, 2, 8) == [((0, 9), (0, 2))]


def test_trees_of_few_cells_grow_on_one_thread():
    assert threads_for_levels(2, 40_000 * 30) == 1  # few rows, one tree at a time
    assert threads_for_levels(2, 200_000 * 30) == 2  # many rows
    assert threads_for_levels(2, 40_000 * 30 * 10) == 2  # ten trees at a time
