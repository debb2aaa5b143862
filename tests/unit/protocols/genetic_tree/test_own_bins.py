"""Bins for trees fitted at home: own quantiles, and Appendix A's over all parties."""

import numpy as np
import pytest

from spinney.errors import TableError
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_tree.bins import (
    _own_edges,
    lay_own_bins,
    lay_pooled_bins,
)
from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess


def schema(*names):
    return Schema(tuple(Column(name, "number") for name in names), Label("y", "class", (0, 1)))


def tables(X, n_parties=3):
    names = [f"x{i}" for i in range(X.shape[1])]
    whole = MemoryTable(
        schema(*names),
        MatrixColumns(X.astype(np.float32)),
        (np.arange(len(X)) % 2).astype(np.int32),
    )
    return {str(p): whole.select(np.arange(p, len(X), n_parties)) for p in range(n_parties)}


def pooled(X, max_bins=5):
    found = tables(X)
    channel = InProcess({name: genetic_tree.Party(t, name) for name, t in found.items()})
    settings = GeneticSettings(task="classification", binning="pooled", max_bins=max_bins)
    return lay_pooled_bins(channel, found["0"].schema, settings)


def test_few_values_have_a_bin_each_with_cuts_half_way():
    assert _own_edges(np.array([1, 3, 3, 7, np.nan], np.float32), 255).tolist() == [2.0, 5.0]
    assert _own_edges(np.array([4, 4, np.nan], np.float32), 255).size == 0
    above = np.nextafter(np.float32(1), np.float32(2))
    assert _own_edges(np.array([1, above], np.float32), 255).tolist() == [1.0]


def test_many_values_are_cut_at_their_quantiles():
    random = np.random.default_rng(0)
    column = random.lognormal(size=5000).astype(np.float32)
    edges = _own_edges(column, 10)
    assert len(edges) == 9
    counts = np.bincount(np.searchsorted(edges, column, side="left"))
    assert np.all(np.abs(counts - 500) <= 1)


def test_own_bins_need_no_question():
    random = np.random.default_rng(1)
    found = lay_own_bins(tables(random.random((90, 2)))["1"], 255)
    assert [len(edges) for edges in found.edges] == [29, 29]


def test_pooled_bins_are_quantiles_of_all_rows():
    random = np.random.default_rng(0)
    X = random.standard_normal((3000, 2))
    for edges, column in zip(pooled(X).edges, X.T, strict=True):
        expected = np.quantile(column, [0.2, 0.4, 0.6, 0.8])
        assert edges == pytest.approx(expected, abs=0.01)


def test_where_all_quantiles_coincide_the_range_is_cut_in_the_middle():
    X = np.ones((1000, 2))
    X[:20, 0] = 9.0
    (first, second) = pooled(X, max_bins=2).edges
    assert len(first) == 1
    assert 1.0 <= first[0] < 9.0
    assert len(second) == 0


def test_pooled_bins_of_one_class_over_all_parties_are_refused():
    X = np.random.default_rng(0).random((60, 1))
    found = {
        name: MemoryTable(t.schema, t.columns, np.zeros(60, np.int32))
        for name, t in tables(X).items()
    }
    channel = InProcess({name: genetic_tree.Party(t, name) for name, t in found.items()})
    settings = GeneticSettings(task="classification", binning="pooled", n_generations=1)
    with pytest.raises(TableError, match="one class only over all parties"):
        genetic_tree.train(channel, settings)
