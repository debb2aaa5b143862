"""Work divided over threads in ranges of equal work."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock, get_ident
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import SettingError
from spinney.trees.threads import (
    LITTLE_WORK,
    equal_ranges,
    in_turn,
    run_ranges,
    shared_out,
    thread_count,
)


@given(
    work=st.lists(st.integers(0, 1000), max_size=60),
    n_ranges=st.integers(1, 12),
)
def test_ranges_cover_every_item_once_in_order(work, n_ranges):
    ranges = equal_ranges(np.array(work, np.int64), n_ranges)
    assert [i for a, b in ranges for i in range(a, b)] == list(range(len(work)))
    assert len(ranges) <= n_ranges
    assert all(b > a for a, b in ranges)


@given(work=st.lists(st.integers(1, 100), min_size=1, max_size=60), n_ranges=st.integers(1, 6))
def test_no_range_has_much_more_than_its_share(work, n_ranges):
    many = [LITTLE_WORK * one for one in work]
    for a, b in equal_ranges(np.array(many), n_ranges):
        assert sum(many[a:b]) <= sum(many) / n_ranges + 2 * max(many)


def test_equal_work_is_shared_equally():
    much = np.full(8, LITTLE_WORK)
    assert equal_ranges(much, 4) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert equal_ranges(much[:2], 2) == [(0, 1), (1, 2)]


def test_little_work_is_not_worth_a_thread():
    assert equal_ranges(np.ones(LITTLE_WORK, np.int64), 4) == [(0, LITTLE_WORK)]
    assert len(equal_ranges(np.ones(LITTLE_WORK + 1, np.int64), 4)) == 4


def test_an_item_larger_than_a_share_has_a_range_of_its_own():
    assert equal_ranges(LITTLE_WORK * np.array([100, 1, 1]), 2) == [(0, 1), (1, 3)]


def test_no_work_is_no_range():
    assert equal_ranges(np.zeros(0, np.int64), 3) == []


@pytest.mark.parametrize("where", ["this thread", "another"])
def test_an_error_on_any_thread_is_raised_and_ends_the_work(where):
    own, both = get_ident(), Barrier(2)

    def task(first, _):
        if first < 2:  # one range on each thread
            both.wait(10)
            if (get_ident() == own) == (where == "this thread"):
                raise SettingError("no")

    with pytest.raises(SettingError, match="no"):
        run_ranges(task, [(i, i + 1) for i in range(9)], 2)


def test_one_thread_is_given_all_items_at_once():
    assert shared_out(lambda: np.full(9, LITTLE_WORK), 9, 1) == [(0, 9)]
    assert len(shared_out(lambda: np.full(9, LITTLE_WORK), 9, 2)) == 8
    assert shared_out(lambda: np.zeros(0, np.int64), 0, 2) == []


def test_two_callers_in_turn_have_no_more_tasks_under_way_than_cores():
    most, lock, both = [0, 0], Lock(), Barrier(2)

    def task(*_):
        with lock:
            most[0] += 1
            most[1] = max(most)
        sleep(0.005)
        with lock:
            most[0] -= 1

    def call(_):
        both.wait(10)
        run_ranges(task, [(i, i + 1) for i in range(8)], 2)

    with in_turn(), ThreadPoolExecutor(2) as callers:
        list(callers.map(call, range(2)))
    assert most == [0, 2]


def test_an_error_of_a_task_in_turn_is_raised_and_later_tasks_are_not_begun():
    done = []

    def task(first, _):
        done.append(first)
        if first == 0:
            raise ZeroDivisionError
        sleep(0.01)

    with in_turn(), pytest.raises(ZeroDivisionError):
        run_ranges(task, [(i, i + 1) for i in range(50)], 2)
    assert len(done) < 50


def test_a_task_may_spread_work_in_its_turn():
    done = []

    def outer(*_):
        own = get_ident()
        run_ranges(lambda first, _: done.append((first, get_ident() == own)), [(0, 1), (1, 2)], 2)

    run_ranges(outer, [(i, i + 1) for i in range(4)], 2)
    assert sorted(done) == 4 * [(0, True)] + 4 * [(1, True)]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_range_is_run(n_threads):
    done: list[int] = []
    lock = Lock()

    def task(first, last):
        with lock:
            done.extend(range(first, last))

    run_ranges(task, [(0, 3), (3, 4), (4, 9)], n_threads)
    assert sorted(done) == list(range(9))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_on_a_thread_is_raised(n_threads):
    def task(first, last):
        if first:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_ranges(task, [(0, 1), (1, 2)], n_threads)


def test_none_and_minus_one_mean_all_cores():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert thread_count(None) == thread_count(-1) == cores
    assert thread_count(3) == 3
    assert thread_count(-10_000) == 1


@pytest.mark.parametrize("n_jobs", [0, "2", 1.5, True])
def test_other_numbers_of_threads_are_refused(n_jobs):
    with pytest.raises(SettingError, match="n_jobs must be a whole number other than 0"):
        thread_count(n_jobs)
