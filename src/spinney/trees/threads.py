"""Spread kernels over threads by ranges of equal work."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from numbers import Integral
from threading import Semaphore, local

import numpy as np

from spinney.errors import SettingError
from spinney.typing import Integers

Range = tuple[int, int]
LITTLE_WORK = 4096  # rows, or what costs about as much: threads would take longer than they save
_OWN = local()  # whether this thread is in a task
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


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="spinney")


@cache
def _cores(n_threads: int) -> Semaphore:
    return Semaphore(n_threads)


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_cores.cache_clear)  # which may have held some


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


def run_ranges(task: Callable[[int, int], object], ranges: list[Range], n_threads: int) -> None:
    """Run `task(first, last)` for every range: on this thread, and on others that are idle.

    This thread works too, instead of waiting: small tasks are done before another thread is awake.
    Two parties that answer at the same time would so have more tasks under way than cores, each of
    which takes longer; so no more than `n_threads` tasks run at once, whoever wants them done. What
    a task spreads in its turn runs on its own thread.
    """
    if n_threads == 1 or len(ranges) <= 1 or getattr(_OWN, "is_busy", False):
        for first, last in ranges:
            task(first, last)
        return
    left, cores = deque(ranges), _cores(n_threads)

    def work() -> None:
        while left:
            with cores:
                try:
                    first, last = left.popleft()
                except IndexError:
                    return
                _OWN.is_busy = True
                try:
                    task(first, last)
                finally:
                    _OWN.is_busy = False

    n_helpers = min(n_threads, len(ranges)) - 1
    helpers = [_pool(n_threads).submit(work) for _ in range(n_helpers)]
    try:
        work()
    finally:
        left.clear()
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()
