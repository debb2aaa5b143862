"""Measure what is not stored yet: cells over processes, timed ones alone, each kept at once."""

import logging
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

from data import SHARED, absent
from papers.experiment import Cell, Experiment, Found, Paper, paper
from papers.store import Store
from spinney.errors import PrivacyLeakWarning
from spinney.privacy.entropy import seeded_for_tests

Wanted = list[tuple[Experiment, Cell]]


def measured(name: str, experiment: str, cell: Cell) -> tuple[Found, float]:
    """Measure one cell, with noise that repeats; return what was found and how long it took."""
    logging.disable(logging.WARNING)  # values outside a public range are part of some papers' data
    one = paper(name).experiment(experiment)
    begin = time.perf_counter()
    with warnings.catch_warnings(), seeded_for_tests(one.seed(cell)):
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        found = one.measure(**cell)
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
    """Measure cells on some processes of one thread each, in order; keep each as it comes."""
    failed: list[str] = []
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes that are started below
    context = multiprocessing.get_context("spawn")
    queue, running = iter(left), dict[Future[Any], tuple[Experiment, Cell]]()
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for one in _until(queue, give_up, workers):
            running[_submitted(pool, store, one)] = one
        done = 0
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                experiment, cell = running.pop(future)
                error = future.exception()
                done += 1
                if error is None:
                    store.add(experiment, cell, *future.result())
                    print(f"{done} of {len(left)}: {experiment.name} {cell}", flush=True)
                else:
                    failed.append(f"{experiment.name} {cell} failed: {error!r}")
                    print(failed[-1], flush=True)
                for one in _until(queue, give_up, 1):
                    running[_submitted(pool, store, one)] = one
    return failed


def _until(queue: Iterator[Any], give_up: float, most: int) -> Iterator[Any]:
    for _ in range(most):
        if time.monotonic() < give_up and (one := next(queue, None)) is not None:
            yield one


def _submitted(pool: Any, store: Store, one: tuple[Experiment, Cell]) -> Future[Any]:
    experiment, cell = one
    future: Future[Any] = pool.submit(measured, store.paper.name, experiment.name, cell)
    return future
