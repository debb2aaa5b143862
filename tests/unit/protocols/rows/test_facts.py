"""What all parties' tables have in common: counts from which bins and weights follow."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import SettingError, TableError
from spinney.protocols.rows.facts import (
    FactsReply,
    bin_table,
    binning_of,
    check_facts,
    class_weights,
    count_facts,
    fixed_point,
    target_range,
)
from spinney.protocols.settings import ForestSettings
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.channel import sum_replies
from spinney.trees.dtypes import MAX_ROWS, MAX_WEIGHT, target_bits

SCHEMA = Schema(
    (
        Column("age", "number", range=(0, 4)),
        Column("ward", "category", categories=("eye", "knee", "skin")),
        Column("smokes", "boolean"),
    ),
    Label("ill", "class", ("no", "yes", "maybe")),
)
SETTINGS = ForestSettings(task="classification", max_bins=4)
NAN = np.nan


def four_rows():
    """Return a table that a person can count."""
    columns: tuple[Any, ...] = (
        np.array([0.0, 1.0, NAN, 3.0], np.float32),
        np.array([0, 2, 2, NAN], np.float32),
        np.array([1, 0, 1, NAN], np.float32),
    )
    return MemoryTable(SCHEMA, VectorColumns(columns), np.array([0, 1, 1, 1], np.int32))


def test_a_table_is_counted_in_one_pass():
    facts = count_facts(four_rows(), with_leading=True, n_threads=1)
    assert facts.n_rows.tolist() == [4]
    assert facts.classes.tolist() == [1, 3, 0]
    assert facts.missing.tolist() == [1, 1, 1]
    assert facts.categories.tolist() == [1, 0, 2]
    assert facts.leading.counters.shape == (3 * 4096, 1)
    assert facts.leading.counters.reshape(3, -1).sum(axis=1).tolist() == [3, 3, 3]


def test_leading_bits_are_counted_only_if_quantiles_are_wanted():
    facts = count_facts(four_rows(), with_leading=False, n_threads=1)
    assert facts.leading.counters.shape == (0, 1)


def test_facts_of_parties_add_up():
    whole = four_rows()
    parts = [whole.select(np.array(rows)) for rows in ([0, 2], [1], [3])]
    facts = [count_facts(part, with_leading=True, n_threads=1) for part in parts]
    total = sum_replies(facts[0], facts[1:])
    expected = count_facts(whole, with_leading=True, n_threads=1)
    for there, here in zip(total.vectors(), expected.vectors(), strict=True):
        assert np.array_equal(there, here)
    again = FactsReply.of_vectors(total.vectors())
    assert again.leading.run_ends.tolist() == expected.leading.run_ends.tolist()


def test_bins_follow_from_kinds():
    facts = count_facts(four_rows(), with_leading=True, n_threads=1)
    quantiles = tuple(np.array([1.0], np.float32) for _ in range(3))
    binning = binning_of(SCHEMA, facts, SETTINGS, quantiles)
    assert [edges.tolist() for edges in binning.edges] == [[1.0], [], [0.0]]
    assert [bins.tolist() for bins in binning.bin_of_category] == [[], [0, 1, 2], []]
    assert binning.has_missing.tolist() == [True, True, True]
    ranges = binning_of(SCHEMA, facts, replace(SETTINGS, binning="ranges"), ())
    assert ranges.edges[0].tolist() == [1.0, 2.0, 3.0]


def test_a_column_of_gaps_needs_no_range():
    gaps = Schema((Column("age", "number"),), SCHEMA.label)
    column: Any = np.full(3, NAN, np.float32)
    table = MemoryTable(gaps, VectorColumns((column,)), np.array([0, 1, 1], np.int32))
    facts = count_facts(table, with_leading=False, n_threads=1)
    binning = binning_of(gaps, facts, replace(SETTINGS, binning="ranges"), ())
    assert binning.columns.n_bins.tolist() == [1]


def test_weights_of_classes():
    facts = count_facts(four_rows(), with_leading=False, n_threads=1)
    assert class_weights(SETTINGS, facts).tolist() == [1.0, 1.0, 1.0]
    balanced = class_weights(replace(SETTINGS, class_weight="balanced"), facts)
    assert balanced[:2].tolist() == [2.0, 4 / 6]  # rows / (classes that occur x rows of the class)
    given = replace(SETTINGS, class_weight=(1.0, 2.0, 0.5))
    assert class_weights(given, facts).tolist() == [1.0, 2.0, 0.5]
    for wrong in ((1.0, 2.0), (1.0, -1.0, 1.0), (1.0, NAN, 1.0)):
        with pytest.raises(SettingError, match="class_weight must give a finite weight"):
            class_weights(replace(SETTINGS, class_weight=wrong), facts)


@pytest.mark.parametrize("wrong", [(0.0, 0.0, 0.0), (1.0, 1e-200, 1.0), (1.0, 1e200, 0.0)])
def test_weights_whose_squares_are_no_numbers_are_refused(wrong):
    facts = count_facts(four_rows(), with_leading=False, n_threads=1)
    words = "at least one class a weight above 0, and every weight that is not 0 must lie between"
    words += " 1e-100"
    with pytest.raises(SettingError, match=words):
        class_weights(replace(SETTINGS, class_weight=wrong), facts)
    some = replace(SETTINGS, class_weight=(0.0, 1.0, 2.0))
    assert class_weights(some, facts).tolist() == [0.0, 1.0, 2.0]


def test_one_class_or_no_row_is_refused():
    one = four_rows().select(np.array([1, 2]))
    with pytest.raises(TableError, match="The label 'ill' has one class only over all parties"):
        check_facts(SCHEMA, count_facts(one, with_leading=False, n_threads=1))
    none = four_rows().select(np.zeros(0, np.intp))
    with pytest.raises(TableError, match="None of the parties holds any rows"):
        check_facts(SCHEMA, count_facts(none, with_leading=False, n_threads=1))


# --- targets -------------------------------------------------------------------------------------


def test_a_target_is_a_whole_number_of_steps():
    label = Label("stay", "number", range=(-1.0, 1.0))
    steps = 2**24 - 1
    found = fixed_point(np.array([-1.0, 0.0, 1.0, -5.0, 5.0]), label, 24)
    assert found.tolist() == [0, round(steps / 2), steps, 0, steps]  # cut off at the ends
    assert found.dtype == np.int64


def test_sums_of_targets_fit_whatever_the_number_of_rows():
    for n_rows in (1, 1000, 200_000, 5_000_000, MAX_ROWS - 1):
        bits = target_bits(n_rows)
        assert (2**bits - 1) * MAX_WEIGHT * n_rows < 2**62
        assert bits == 40 or (2 ** (bits + 1) - 1) * MAX_WEIGHT * n_rows > 2**61
    assert target_bits(200_000) == 40


def test_a_range_of_one_number_has_one_step():
    label = Label("stay", "number", range=(7.0, 7.0))
    assert fixed_point(np.array([7.0, 8.0]), label, 24).tolist() == [0, 0]


def test_a_range_must_be_declared_and_finite_in_width():
    with pytest.raises(SettingError, match="label 'stay' has no declared range"):
        target_range(Label("stay", "number"))
    with pytest.raises(SettingError, match="range of the label 'stay' is too wide"):
        target_range(Label("stay", "number", range=(-1.7e308, 1.7e308)))


@pytest.mark.parametrize(("n_classes", "kind"), [(2, np.uint8), (256, np.uint8), (257, np.uint16)])
def test_classes_take_as_few_bytes_as_they_need(n_classes, kind):
    schema = Schema((Column("a", "number"),), Label("y", "class", tuple(range(n_classes))))
    column: Any = np.zeros(n_classes, np.float32)
    table = MemoryTable(schema, VectorColumns((column,)), np.arange(n_classes, dtype=np.int32))
    facts = count_facts(table, with_leading=False, n_threads=1)
    settings = replace(SETTINGS, binning="ranges")
    binning = binning_of(
        Schema((Column("a", "number", range=(0, 1)),), schema.label), facts, settings, ()
    )
    found = bin_table(table, binning, n_threads=1, target_bits=24)
    assert found.target.dtype == kind
    assert found.target.tolist() == list(range(n_classes))


def test_a_table_without_rows_can_be_binned():
    none = four_rows().select(np.zeros(0, np.intp))
    facts = count_facts(four_rows(), with_leading=False, n_threads=1)
    found = bin_table(
        none,
        binning_of(SCHEMA, facts, replace(SETTINGS, binning="ranges"), ()),
        n_threads=1,
        target_bits=24,
    )
    assert found.n_rows == 0
    assert found.target.dtype == np.uint8
