"""Noise keeps nodes alive; their number is bounded, and the coordinator says so."""

import numpy as np
import pytest

from spinney import ExtraTreesClassifier, HorizontalForestClassifier
from spinney.errors import SpinneyWarning
from spinney.protocols.row_forest import coordinator
from spinney.tables.schema import Column, Label, Schema

PUBLIC = Schema(
    (Column("a", "number", range=(0, 1)), Column("b", "number", range=(0, 1))),
    Label("y", "class", classes=(0, 1, 2)),
)
FORESTS = {
    "histograms": HorizontalForestClassifier(
        2, max_depth=7, epsilon=100.0, tree_rows="all", schema=PUBLIC, random_state=0
    ),
    "cuts": ExtraTreesClassifier(
        2, max_depth=7, label_privacy="laplace", epsilon=100.0, schema=PUBLIC, random_state=0
    ),
}


@pytest.fixture
def rows():
    random = np.random.RandomState(0)
    return random.uniform(size=(3000, 2)), random.randint(0, 3, 3000)


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
@pytest.mark.parametrize("party", [None, np.arange(3000) % 3], ids=["alone", "verified"])
def test_of_too_many_open_nodes_the_largest_stay_open(monkeypatch, rows, forest, party):
    monkeypatch.setattr(coordinator, "_NUMBERS_OF_OPEN_NODES", 5 * 16)  # 3 classes, 2 columns
    words = "Noise kept so many nodes open that .* of them were made leaves, to bound the memory"
    with pytest.warns(SpinneyWarning, match=words):
        forest.fit(*rows, party)
    assert 100 < forest.model_.forest.n_nodes <= 2 + 7 * 2 * 16


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
def test_forests_of_a_common_size_are_not_cut(rows, forest):
    forest.fit(*rows)  # warnings are errors here
    assert forest.model_.forest.n_nodes > 2 + 7 * 2 * 16


@pytest.mark.parametrize("forest", FORESTS.values(), ids=FORESTS)
def test_the_counters_of_a_level_are_bounded_too(monkeypatch, rows, forest):
    """Ledgers keep every reply: letter to depth 20 took 10 GB within the other bound."""
    monkeypatch.setattr(coordinator, "_COUNTERS_OF_LEVEL", 1)  # at least the roots stay open
    with pytest.warns(SpinneyWarning, match="Noise kept so many nodes open"):
        forest.fit(*rows)
    assert forest.model_.forest.n_nodes <= 2 + 7 * 2 * 2
