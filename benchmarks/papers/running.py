"""Measure what is not stored yet: cells over processes, timed ones alone, each kept at once."""

import logging
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from typing import Any

from data import SHARED, absent
from papers.experiment import Cell, Experiment, Found, Paper, paper
from papers.store import Store
from spinney.errors import PrivacyLeakWarning
from spinney.privacy.entropy import seeded_for_tests

Wanted = list[tuple[Experiment, Cell]]


def measured(name: str, experiment: str, cell: Cell) -> tuple[Found, float]:
    """Measure one cell, with noise that repeats; return what was found and how long it took."""
    one = paper(name).experiment(experiment)
    begin = time.perf_counter()
    logging.disable(logging.WARNING)  # values outside a public range are part of some papers' data
    try:
        with warnings.catch_warnings(), seeded_for_tests(one.seed(cell)):
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            found = one.measure(**cell)
    finally:
        logging.disable(logging.NOTSET)
    return found, time.perf_counter() - begin


def run(store: Store, *, fast: bool, workers: int, minutes: float) -> list[str]:
    """Measure the cells of a setting that are not stored; return what failed or is missing."""
    wanted = store.paper.wanted(fast=fast)
    here, told = possible(store.paper, wanted)
    left = [one for one in here if one not in store]
    print(f"{store.paper.name}: {len(wanted)} cells, {len(left)} to measure", flush=True)
    if not left:
        return told
    give_up = time.monotonic() + 60 * minutes if minutes else float("inf")
    store.open()
    try:
        store.begin()
        for alone, most in ((False, workers), (True, 1)):
            part = [one for one in left if one[0].alone is alone]
            told += _measure_all(store, part, most, give_up)
    finally:
        store.close()
    return told


def possible(declared: Paper, wanted: Wanted) -> tuple[Wanted, list[str]]:
    """Return the cells whose data are here, and a sentence about those whose data are not."""
    sets = {one.needs(cell) for one, cell in wanted} - {None}
    missing = {name: why for name in sorted(map(str, sets)) if (why := absent(name))}
    here = [(one, cell) for one, cell in wanted if one.needs(cell) not in missing]
    if not missing:
        return here, []
    reasons = "; ".join(f"{name} ({why})" for name, why in missing.items())
    runs = ", ".join(dict.fromkeys(f"{one.shows}" for one, _ in here)) or "nothing"
    folder = "" if SHARED.is_dir() else f" The folder {SHARED} is absent."
    told = (
        f"{declared.name}: {len(wanted) - len(here)} of {len(wanted)} cells cannot be measured."
        f"{folder} Missing: {reasons}. What still runs: {runs}."
    )
    return here, [told]


def _measure_all(store: Store, left: Wanted, workers: int, give_up: float) -> list[str]:
    """Measure cells on some processes of one thread each, in order; keep each as it comes.

    When a process is killed, as for want of memory, its pool ends with it. The cells that were in
    work are measured again one by one, which shows whose it was, and the others go on.
    """
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes that are started below
    failed: list[str] = []
    queue, numbers = iter(left), count(1)
    while lost := _measured_in_a_pool(store, queue, workers, give_up, (numbers, failed, len(left))):
        for one in lost:
            alone = iter([one])
            if _measured_in_a_pool(store, alone, 1, give_up, (numbers, failed, len(left))):
                failed.append(f"{one[0].name} {one[1]} failed: its process was killed")
                print(failed[-1], flush=True)
    return failed


def _measured_in_a_pool(
    store: Store, queue: Iterator[Any], workers: int, give_up: float, told: Any
) -> Wanted:
    """Measure cells until there are no more, or the pool is broken; return those in work then."""
    numbers, failed, n_cells = told
    running = dict[Future[Any], tuple[Experiment, Cell]]()
    lost: Wanted = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for one in _until(queue, give_up, workers):
            running[_submitted(pool, store, one)] = one
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                one = running.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    lost.append(one)
                    continue
                name = f"{one[0].name} {one[1]}"
                if error is None:
                    store.add(*one, *future.result())
                    print(f"{next(numbers)} of {n_cells}: {name}", flush=True)
                else:
                    failed.append(f"{name} failed: {error!r}")
                    print(failed[-1], flush=True)
                if not lost:
                    for another in _until(queue, give_up, 1):
                        running[_submitted(pool, store, another)] = another
    return lost


def _until(queue: Iterator[Any], give_up: float, most: int) -> Iterator[Any]:
    for _ in range(most):
        if time.monotonic() < give_up and (one := next(queue, None)) is not None:
            yield one


def _submitted(pool: Any, store: Store, one: tuple[Experiment, Cell]) -> Future[Any]:
    experiment, cell = one
    try:
        future: Future[Any] = pool.submit(measured, store.paper.name, experiment.name, cell)
    except BrokenProcessPool as error:  # between two looks
        future = Future()
        future.set_exception(error)
    return future
