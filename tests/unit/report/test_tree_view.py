"""A tree as text and as a picture."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from spinney import (
    GeneticTreeClassifier,
    GeneticTreeRegressor,
    HorizontalForestClassifier,
    deal_rows,
)
from spinney.report.tree_text import tree_nodes, tree_text
from spinney.trees.leaf_counts import NodeNoise

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture(scope="module")
def model():
    import pandas as pd  # noqa: PLC0415

    random = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "age <years>": random.randint(0, 90, 300).astype(float),
            "ward": pd.Categorical(random.choice(["eye", "heart", "knee"], 300)),
            "smokes": random.random_sample(300) < 0.5,
        }
    )
    X.loc[::7, "age <years>"] = np.nan
    y = (X["age <years>"] > 40) ^ (X["ward"] == "heart") ^ X["smokes"]
    site = deal_rows(y, 2, random_state=0)
    how = {"n_generations": 5, "max_depth": 4, "random_state": 0}
    return GeneticTreeClassifier(8, **how).fit(X, np.where(y, "ill", "well"), party=site)


def test_the_text_has_a_line_for_every_leaf_and_question(model):
    tree = model.tree_of_[0]
    lines = str(tree).splitlines()
    assert sum("->" in line for line in lines) == tree.n_leaves == tree.n_decisions + 1
    assert "smokes is false" in tree.text()
    assert "ward is " in tree.text()
    assert "age <years> <= " in tree.text()
    assert "y = ill (" in tree.text()


def test_a_tree_of_one_leaf_is_one_line():
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    tree = GeneticTreeClassifier(4, n_generations=1, random_state=0).fit(X, y).tree_of_["all"]
    assert str(tree) == "-> y = 0 (0.50), 20 rows"
    assert ET.fromstring(tree.svg()) is not None


def test_numbers_are_shown_with_their_mean():
    X = np.arange(40.0)[:, None]
    tree = GeneticTreeRegressor(4, n_generations=1, max_depth=2, random_state=0).fit(
        X, X[:, 0] > 19.5
    )
    assert "x0 <= 19.5" in str(tree.tree_of_["all"])
    assert "-> y = 1" in str(tree.tree_of_["all"])


def test_the_picture_has_a_box_for_every_node_and_escapes_names(model, tmp_path):
    tree = model.tree_of_[1]
    tree.save_picture(tmp_path / "tree.svg")
    root = ET.parse(tmp_path / "tree.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f".//{space}rect")) == tree.n_decisions + tree.n_leaves
    assert len(root.findall(f"./{space}line")) == 2 * tree.n_decisions
    assert tree._repr_svg_() == tree.svg()


def test_the_rows_of_a_picture_s_leaves_are_the_party_s(model):
    for name in model.tree_of_:
        rows = next(q.n_rows for q in model.report_.quality if q.party == name)
        shown = re.findall(r">(\d+) rows?<", model.tree_of_[name].svg())
        assert sum(map(int, shown)) == rows


def test_a_leaf_that_noise_cannot_tell_from_an_empty_one_says_so(ward_table, ward_labels):
    forest = HorizontalForestClassifier(1, max_depth=1, bootstrap=False, random_state=0)
    model = forest.fit(ward_table, ward_labels["two classes"]).model_
    assert model.forest.n_nodes == 3
    moments = model.forest.moments.copy()
    moments[2] = [3, 2]
    nodes = np.full(3, 2.0)  # of each of two counts: 2.8 of their sum
    noisy = replace(
        model, forest=replace(model.forest, moments=moments), noise=NodeNoise(nodes, 0 * nodes)
    )
    first, second = (line for line in tree_text(noisy).splitlines() if "->" in line)
    assert first.endswith(f", about {moments[1].sum()} rows")
    assert second.endswith(", few rows or none")
    assert tree_text(replace(noisy, noise=None)).splitlines()[1].endswith(", 5 rows")


def test_text_says_where_missing_values_go(ward_table, ward_labels):
    forest = HorizontalForestClassifier(5, max_depth=5, random_state=0)
    model = forest.fit(ward_table, ward_labels["two classes"]).model_
    trees = model.forest
    sides = set()
    for tree in range(trees.n_trees):
        for node, text in tree_nodes(model, tree).items():
            if not text.question or np.isinf(trees.threshold[node]):
                continue
            words = trees.bin_sets[trees.subset[node]]
            goes_left = (
                words[3] >> np.uint64(63) if trees.subset[node] >= 0 else trees.missing_left[node]
            )
            assert text.question.endswith((" missing", " or missing")) == bool(goes_left)
            sides.add((bool(trees.subset[node] >= 0), bool(goes_left)))
    assert len(sides) == 4  # numbers and categories, both ways
    lines = tree_text(model).splitlines()
    assert sum("->" in line for line in lines) == (trees.feature[: trees.tree_start[1]] < 0).sum()
