"""A party answers sound questions only: what cannot be is refused, in words that may travel.

A question that decodes may still be nonsense; kernels do not look twice, so the party must.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import SpinneyError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest import LevelAsk, Party
from spinney.protocols.setup import EdgesAsk
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.level import Level
from spinney.trees.quantiles import Refinement

unchecked = pytest.mark.xfail(
    reason="A party does not check what a question says before it acts on it.",
    raises=(AssertionError, IndexError, ValueError, OverflowError, pytest.fail.Exception),
)


def small_table():
    random = np.random.RandomState(0)
    schema = Schema(
        (Column("a", "number"), Column("b", "number")), Label("y", "class", ("no", "yes"))
    )
    target = random.randint(0, 2, 60).astype(np.int32)
    return MemoryTable(schema, MatrixColumns(random.standard_normal((60, 2))), target)


@pytest.fixture
def level_ask():
    """A sound question about the third level of a small forest."""
    asked: list[Any] = []

    class Noting(Party):
        def answer(self, ask):
            asked.append(ask)
            return super().answer(ask)

    job = horizontal_forest.Settings(task="classification", n_estimators=2, max_depth=4)
    horizontal_forest.train(InProcess({"one": Noting(small_table())}), job)
    return [ask for ask in asked if isinstance(ask, LevelAsk)][2]


def require_refusal(ask):
    with pytest.raises(SpinneyError) as caught:
        Party(small_table()).answer(ask)
    assert caught.value.public


def with_level(ask, **changes):
    first, *others = ask.levels
    return replace(ask, levels=(Level(**(vars(first) | changes)), *others))


def test_the_sound_question_is_answered(level_ask):
    assert len(Party(small_table()).answer(level_ask).counts.counters)


@unchecked
def test_a_column_that_is_not_there(level_ask):
    require_refusal(with_level(level_ask, feature=level_ask.levels[0].feature + 99))


@unchecked
def test_decisions_for_other_nodes_than_there_are(level_ask):
    require_refusal(with_level(level_ask, feature=level_ask.levels[0].feature[:1]))


@unchecked
def test_children_of_other_nodes_than_there_are(level_ask):
    require_refusal(with_level(level_ask, child_open=np.ones(98, bool)))


@unchecked
@pytest.mark.parametrize(("first", "last"), [(0, 10**6), (-3, 1), (1, 0), (0, 0)])
def test_a_range_of_nodes_that_is_not_there(first, last, level_ask):
    require_refusal(replace(level_ask, first=first, last=last))


@unchecked
def test_bins_for_fewer_columns_than_the_schema_has(level_ask):
    binning = level_ask.job.binning
    fewer = replace(binning, edges=binning.edges[:1], bin_of_category=binning.bin_of_category[:1])
    require_refusal(replace(level_ask, job=replace(level_ask.job, binning=fewer)))


@unchecked
def test_more_edges_than_a_byte_can_tell_apart(level_ask):
    binning = replace(level_ask.job.binning, edges=(np.arange(300, dtype=np.float32),) * 2)
    require_refusal(replace(level_ask, job=replace(level_ask.job, binning=binning)))


@unchecked
def test_a_number_of_classes_that_the_schema_has_not(level_ask):
    require_refusal(replace(level_ask, job=replace(level_ask.job, n_classes=3)))


@unchecked
def test_a_seed_below_zero(level_ask):
    settings = replace(level_ask.job.settings, seed=-1)
    require_refusal(replace(level_ask, job=replace(level_ask.job, settings=settings)))


@unchecked
@pytest.mark.parametrize(
    "refinement",
    [
        Refinement(7, (np.zeros(1, np.uint32),) * 2),
        Refinement(-4, (np.zeros(1, np.uint32),) * 2),
        Refinement(0, (np.array([99_999], np.uint32),) * 2),
        Refinement(0, (np.zeros(1, np.uint32),)),
    ],
    ids=["a digit that is not there", "a digit before the first", "a prefix too long", "columns"],
)
def test_cut_points_that_cannot_be(refinement):
    require_refusal(EdgesAsk(small_table().schema.digest(), refinement))
