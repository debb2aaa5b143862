"""Reused memory: never by two arrays at once, and never before the last view is gone."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from spinney import HorizontalForestClassifier
from spinney.trees.buffers import Buffers


@pytest.fixture
def hasty():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def address(array):
    return array.__array_interface__["data"][0]


def test_an_array_has_the_size_and_type_that_were_asked_for():
    buffers = Buffers()
    for n, dtype in ((0, np.int32), (7, np.int64), (3, np.uint8), (5, np.float64)):
        array = buffers.array(n, dtype)
        assert array.shape == (n,)
        assert array.dtype == dtype
        array[:] = 1
        assert array.sum() == n


def test_memory_is_used_again_when_its_array_is_gone():
    buffers = Buffers()
    first = buffers.array(1000, np.int64)
    where = address(first)
    del first
    assert address(buffers.array(500, np.int32)) == where


def test_memory_in_use_is_not_given_away():
    buffers = Buffers()
    first = buffers.array(1000, np.int64)
    first[:] = 1
    second = buffers.array(1000, np.int64)
    second[:] = 2
    assert first.sum() == 1000


def test_a_view_keeps_the_memory():
    buffers = Buffers()
    view = buffers.array(1000, np.int64).reshape(10, 100)[3].view(np.int32)
    view[:] = 1
    other = buffers.array(1000, np.int64)
    other[:] = 2
    assert view.sum() == 200


def test_few_spare_buffers_are_kept():
    buffers = Buffers()
    arrays = [buffers.array((i + 1) << 20, np.int64) for i in range(10)]
    del arrays
    assert sorted(spare.size >> 25 for spare in buffers._spare) == [4, 4, *range(5, 11)]


@pytest.mark.usefixtures("hasty")
def test_threads_never_share_memory():
    buffers = Buffers()
    start = Barrier(6)

    def work(mine):
        start.wait()
        wrong = 0
        for _ in range(2000):
            array = buffers.array(1000, np.int64)
            array[:] = mine
            time.sleep(0)
            wrong += not (array == mine).all()
            del array
        return wrong

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, range(6))) == 0


@pytest.mark.usefixtures("hasty")
def test_forests_may_grow_on_several_threads():
    random = np.random.RandomState(0)
    X = random.standard_normal((300, 4))
    y = (X[:, 0] + random.standard_normal(300) > 0).astype(int)

    def grown(seed):
        forest = HorizontalForestClassifier(5, random_state=seed, n_jobs=1)
        return forest.fit(X, y).model_.to_bytes()

    alone = [grown(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(grown, [0, 1, 2, 3] * 4))
    assert together == alone * 4
