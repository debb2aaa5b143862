"""A party answers sound questions only: what cannot be is refused, in words that may travel.

A question that decodes may still be nonsense; kernels do not look twice, so the party must.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import SettingError, SpinneyError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest import LevelAsk, Party
from spinney.protocols.setup import EdgesAsk
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts
from spinney.trees.quantiles import Refinement


def small_table():
    random = np.random.RandomState(0)
    schema = Schema(
        (Column("a", "number"), Column("b", "number")), Label("y", "class", ("no", "yes"))
    )
    target = random.randint(0, 2, 60).astype(np.int32)
    return MemoryTable(schema, MatrixColumns(random.standard_normal((60, 2))), target)


@pytest.fixture
def asks():
    """All questions of a small job."""
    asked: list[Any] = []

    class Noting(Party):
        def answer(self, ask):
            asked.append(ask)
            return super().answer(ask)

    job = horizontal_forest.Settings(task="classification", n_estimators=2, max_depth=4)
    horizontal_forest.train(InProcess({"one": Noting(small_table())}), job)
    return asked


@pytest.fixture
def level_ask(asks):
    """A sound question about the third level of a small forest."""
    return [ask for ask in asks if isinstance(ask, LevelAsk)][2]


@pytest.fixture
def quality_ask(asks):
    """A sound question about the finished forest."""
    return asks[-1]


def require_refusal(ask):
    with pytest.raises(SpinneyError) as caught:
        Party(small_table()).answer(ask)
    assert caught.value.public


def with_level(ask, **changes):
    first, *others = ask.levels
    return replace(ask, levels=(first.replaced(**changes), *others))


def test_the_sound_questions_are_answered(level_ask, quality_ask):
    party = Party(small_table())
    assert len(party.answer(replace(level_ask)).counts.counters)
    assert party.answer(replace(quality_ask)).counts.sum() > 0


def test_a_column_that_is_not_there(level_ask):
    require_refusal(with_level(level_ask, feature=level_ask.levels[0].feature + 99))


def test_decisions_for_other_nodes_than_there_are(level_ask):
    require_refusal(with_level(level_ask, feature=level_ask.levels[0].feature[:1]))


def test_children_of_other_nodes_than_there_are(level_ask):
    require_refusal(with_level(level_ask, child_open=np.ones(98, bool)))


@pytest.mark.parametrize(("first", "last"), [(0, 10**6), (-3, 1), (1, 0), (0, 0)])
def test_a_range_of_nodes_that_is_not_there(first, last, level_ask):
    require_refusal(replace(level_ask, first=first, last=last))


def test_bins_for_fewer_columns_than_the_schema_has(level_ask):
    binning = level_ask.job.binning
    fewer = replace(binning, edges=binning.edges[:1], bin_of_category=binning.bin_of_category[:1])
    require_refusal(replace(level_ask, job=replace(level_ask.job, binning=fewer)))


def test_more_edges_than_a_byte_can_tell_apart(level_ask):
    binning = replace(level_ask.job.binning, edges=(np.arange(300, dtype=np.float32),) * 2)
    require_refusal(replace(level_ask, job=replace(level_ask.job, binning=binning)))


def test_a_number_of_classes_that_the_schema_has_not(level_ask):
    require_refusal(replace(level_ask, job=replace(level_ask.job, n_classes=3)))


def test_a_seed_below_zero(level_ask):
    with pytest.raises(SettingError, match="seed must be a whole number between 0 and"):
        replace(level_ask.job.settings, seed=-1)


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


@pytest.mark.parametrize("change", [-1, 1])
def test_leaves_of_another_forest(change, quality_ask):
    counters = quality_ask.leaf_moments.counters
    other = counters[:change] if change < 0 else np.vstack([counters, counters[:1]])
    moments = Counts(other, np.array([len(other)]))
    require_refusal(replace(quality_ask, leaf_moments=moments))


def test_leaves_of_other_classes(quality_ask):
    counters = np.hstack([quality_ask.leaf_moments.counters] * 2)
    moments = Counts(counters, np.array([len(counters)]))
    require_refusal(replace(quality_ask, leaf_moments=moments))
    require_refusal(replace(quality_ask, class_weight=np.ones(3)))


def test_a_finished_forest_with_a_column_that_is_not_there(quality_ask):
    feature = quality_ask.levels[0].feature + 99
    require_refusal(with_level(quality_ask, feature=feature))


def test_a_finished_forest_in_other_bins(quality_ask):
    binning = replace(quality_ask.job.binning, edges=(np.array([1.0, 0.0], np.float32),) * 2)
    require_refusal(replace(quality_ask, job=replace(quality_ask.job, binning=binning)))


def test_a_node_of_more_rows_than_there_can_be(level_ask):
    bits = np.full_like(level_ask.levels[0].child_bits, 200)
    require_refusal(with_level(level_ask, child_bits=bits))
