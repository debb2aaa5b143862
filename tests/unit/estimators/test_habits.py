"""What users of scikit-learn and interpret expect to find."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import spinney
from spinney import HorizontalForestClassifier, PrivateTreeClassifier, Schema, deal_rows
from spinney.errors import SettingError

RANDOM = np.random.default_rng(0)
N = 120
X = pd.DataFrame(
    {"age": RANDOM.normal(50, 10, N).round(1), "ward": pd.Categorical(RANDOM.choice(["a", "b"], N))}
)
Y = pd.Series(np.where(X.age > 50, "yes", "no"), name="ill")


@pytest.fixture(scope="module")
def forest():
    return HorizontalForestClassifier(4, max_depth=3, random_state=0).fit(X, Y)


def test_apply_tells_the_leaf_of_each_row(forest):
    leaves = forest.apply(X)
    assert leaves.shape == (N, 4)
    model = forest.model_.forest
    assert (model.feature[leaves + model.tree_start[:-1]] == -1).all()
    values = model.value[leaves + model.tree_start[:-1]].mean(axis=1)
    assert np.allclose(values, forest.predict_proba(X))
    encoder, theirs = forest.to_sklearn(exact=True)
    assert np.array_equal(leaves, theirs.apply(encoder.transform(X)))


def test_a_decision_path_ends_at_the_leaf_and_begins_at_the_root(forest):
    path, starts = forest.decision_path(X)
    assert path.shape == (N, forest.model_.forest.n_nodes)
    leaves = forest.apply(X) + starts[:-1]
    dense = path.toarray()
    for tree in range(4):
        assert dense[np.arange(N), leaves[:, tree]].all()
        assert dense[:, starts[tree]].all()
    assert dense.sum() == sum(
        depth_of(forest.model_.forest, leaf) for leaf in leaves.ravel()
    )  # as many nodes as the leaf is deep, and one


@pytest.mark.parametrize("method", ["apply", "decision_path"])
def test_before_a_fit_there_are_no_leaves_and_no_paths(method):
    with pytest.raises(NotFittedError):
        getattr(HorizontalForestClassifier(), method)(X)


def depth_of(model, node):
    depth, inner = 1, np.flatnonzero(model.feature >= 0)
    parent = {int(c): int(n) for n in inner for c in (model.left[n], model.left[n] + 1)}
    while int(node) in parent:
        node, depth = parent[int(node)], depth + 1
    return depth


def test_a_schema_is_made_from_a_frame_and_declared_ranges():
    frame = X.assign(ill=Y)
    schema = Schema.from_frame(frame, label="ill", ranges={"age": (0, 110), "ill": ["no", "yes"]})
    assert spinney.Schema is Schema
    assert schema.names == ("age", "ward")
    assert schema.column("age").range == (0.0, 110.0)
    assert schema.column("ward").categories == ("a", "b")
    assert schema.label.classes == ("no", "yes")
    number = Schema.from_frame(X, label="cost", ranges={"cost": (0, 9)})
    assert number.label.kind == "number"
    with pytest.raises(SettingError, match="'agee', which is neither a column nor the label 'ill'"):
        Schema.from_frame(X, label="ill", ranges={"agee": (0, 1)})


def test_text_is_not_declared_by_standing_in_a_frame():
    schema = Schema.from_frame(X.assign(ward=X.ward.astype(str)), label="ill")
    assert schema.column("ward").categories is None


def test_plain_dictionaries_declare_ranges():
    facts = {"age": (0, 110), "ward": ["a", "b"], "ill": ["no", "yes"]}
    tree = PrivateTreeClassifier(epsilon=5, schema=facts)
    with pytest.warns(spinney.errors.PrivacyLeakWarning, match="data: number of rows. That"):
        tree.fit(X, Y, party=deal_rows(Y, 2, random_state=0))
    assert tree.model_.schema.column("age").range == (0.0, 110.0)
    with pytest.raises(SettingError, match="does not declare the range of 'age'"):
        PrivateTreeClassifier(epsilon=5, schema={"ill": ["no", "yes"]}).fit(X, Y)
    with pytest.raises(SettingError, match="a dict of ranges and categories by column"):
        PrivateTreeClassifier(epsilon=5, schema=3).fit(X, Y)


def test_a_report_is_a_frame_and_a_styled_notebook_view(forest):
    with pytest.warns(spinney.errors.PrivacyLeakWarning):
        joint = HorizontalForestClassifier(20, max_depth=3, random_state=0, oob_score=True).fit(
            X, Y, party=deal_rows(Y, 3, random_state=0)
        )
    frame = joint.report_.to_frame()
    assert frame.index.tolist() == ["0", "1", "2"]
    assert "accuracy" in frame.columns
    bare = forest.report_.to_frame()
    assert bare.index.name == "party"
    assert bare.index.tolist() == list(forest.report_.parties)  # without scores, who took part
    assert '<div class="spinney-report"><style>' in joint.report_._repr_html_()


def test_the_frame_of_a_private_model_tells_what_it_cost_and_what_was_measured():
    facts = {"age": (0, 110), "ward": ["a", "b"], "ill": ["no", "yes"]}
    tree = PrivateTreeClassifier(epsilon=5, n_rows=len(Y), schema=facts)
    site = deal_rows(Y, 3, random_state=0)
    tree.fit(X, Y, party=site)
    frame = tree.report_.to_frame()
    assert frame.index.tolist() == ["0", "1", "2"]
    assert frame["epsilon spent, record, add or remove"].tolist() == [5.0] * 3
    assert frame["epsilon left, record, add or remove"].tolist() == [0.0] * 3
    assert (frame["bytes up"] > 0).all()
    assert "accuracy" not in frame.columns
    tree.evaluate(X, Y, party=site, epsilon=50)
    frame = tree.report_.to_frame()
    whole = frame.loc["all parties"]
    assert whole["accuracy, low"] <= whole["accuracy"] <= whole["accuracy, high"]
