"""Spread kernels over threads by ranges of equal work."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from numbers import Integral
from threading import local

import numpy as np

from spinney.errors import SettingError
from spinney.typing import Integers

Range = tuple[int, int]
LITTLE_WORK = 1 << 16  # rows, or what costs as much: another thread takes as long to begin
_MUCH_WORK = 3 << 20  # cells of all trees that grow at once: two threads take less time than one
_OWN = local()  # whether this thread is in a task
_IN_TURN: list[None] = []  # not empty: tasks of all threads are done in the order they come
TASKS_PER_THREAD = 4  # more than one, because work is estimated and the slowest task decides


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads to use; None and -1 mean all cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if n_jobs is None:
        return cores or 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise SettingError(
            "n_jobs must be a whole number other than 0, for example 4, or -1 for all cores; "
            f"got {n_jobs!r}."
        )
    n_jobs = int(n_jobs)
    return n_jobs if n_jobs > 0 else max(1, (cores or 1) + 1 + n_jobs)


def threads_for_levels(n_threads: int, cells: int) -> int:
    """Return how many threads grow trees, level by level, in the least time: one for few cells.

    `cells` are the rows, times columns, times the trees that grow at once. Waking a thread, and
    waiting for Python's lock, costs about as much at every level.
    """
    return n_threads if cells >= _MUCH_WORK else 1


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="spinney")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def equal_ranges(work: Integers, n_ranges: int) -> list[Range]:
    """Return consecutive ranges of items with about equal total work; one range if it is little.

    Work is counted in rows, or in what costs about as much as counting a row.
    """
    ends = np.cumsum(work)
    total = int(ends[-1]) if ends.size else 0
    if total <= LITTLE_WORK:
        return [(0, int(work.size))] if work.size else []
    goals = [total * (i + 1) // n_ranges for i in range(n_ranges - 1)]
    reached = np.searchsorted(ends, goals, side="left") + 1  # includes the item reaching the goal
    cuts = [0, *np.minimum(reached, work.size).tolist(), int(work.size)]
    return [(a, b) for a, b in pairwise(cuts) if b > a]


def shared_out(work: Callable[[], Integers], n_items: int, n_threads: int) -> list[Range]:
    """Return ranges of items for tasks on some threads; the work of each item, if it matters."""
    if n_threads == 1 or n_items <= 1:
        return [(0, n_items)] if n_items else []
    return equal_ranges(work(), TASKS_PER_THREAD * n_threads)


@contextmanager
def in_turn() -> Iterator[None]:
    """Have all tasks done in the order in which they come, by as many threads as there may be.

    For parties that answer at the same time: threads that work for themselves would have more tasks
    under way than there are cores, each of which takes longer.
    """
    _IN_TURN.append(None)  # lists are safe between threads
    try:
        yield
    finally:
        _IN_TURN.pop()


def run_ranges(task: Callable[[int, int], object], ranges: list[Range], n_threads: int) -> None:
    """Run `task(first, last)` for every range: on this thread, and on others that are idle.

    This thread works too, instead of waiting (unless all work is done `in_turn`): small tasks are
    done before another thread is awake. What a task spreads in its turn runs on its own thread.
    """
    if n_threads == 1 or len(ranges) <= 1 or getattr(_OWN, "is_busy", False):
        for first, last in ranges:
            task(first, last)
        return
    if _IN_TURN:
        _run(task, [deque([one]) for one in ranges], deque(), n_threads)
    else:
        left = deque(ranges)
        _run(task, [left] * (min(n_threads, len(ranges)) - 1), left, n_threads)


def _run(
    task: Callable[[int, int], object],
    others: list[deque[Range]],
    own: deque[Range],
    n_threads: int,
) -> None:
    """Run some ranges on other threads, and those of `own` on this one too."""
    only_others = not own
    helpers = [_pool(n_threads).submit(_work, task, left) for left in others]
    try:
        _work(task, own)
        if only_others:
            wait(helpers, return_when=FIRST_EXCEPTION)
    finally:
        own.clear()
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()


def _work(task: Callable[[int, int], object], left: deque[Range]) -> None:
    """Run tasks until none is left."""
    _OWN.is_busy = True
    try:
        while True:
            try:
                first, last = left.popleft()
            except IndexError:
                return
            task(first, last)
    finally:
        _OWN.is_busy = False
