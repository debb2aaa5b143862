"""A forest with noise on its counts says how much, and leaves as what it is."""

from dataclasses import replace

import numpy as np
import pytest

from spinney.privacy.ledger import Ledger
from spinney.protocols import extra_trees
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.protocols.settings import PrivacySettings
from spinney.report.door import release
from spinney.report.tree_text import tree_text
from spinney.transport.in_process import InProcess
from unit.protocols.row_forest.noisy_forests import (  # type: ignore[import-not-found]
    dealt,
    job,
    table,
    trained,
)

MANY = {"n_estimators": 20, "max_depth": 3}


def by_leaf(model, whole):
    """Return each leaf, and the rows of each class that truly stand in it."""
    (batch,) = whole.batches(10**6)
    rows = model.rows(batch.values)
    truth = np.zeros_like(model.forest.moments)
    for tree in range(model.forest.n_trees):
        leaf = model.forest.leaves(rows, tree).astype(np.int64)
        np.add.at(truth, (leaf, batch.target), 1)
    return np.flatnonzero(model.forest.feature < 0), truth


def off(model, whole):
    """Return how far the counts of leaves are off, in the deviations that the model tells."""
    leaves, truth = by_leaf(model, whole)
    error = (model.forest.moments - truth)[leaves]
    return error / model.noise.counts[leaves, None]


def grown_by_cuts(mechanism, n_parties=2, **privacy):
    settings = replace(
        job(3, MANY),
        privacy=PrivacySettings(job="q", mechanism=mechanism, epsilon="1", **privacy),
        thresholds="public",
    )
    sides = {
        name: extra_trees.Party(part, ledger=Ledger.in_memory(name))
        for name, part in dealt(table(3), n_parties).items()
    }
    return extra_trees.train(InProcess(sides), settings).model


@pytest.mark.parametrize("n_parties", [1, 3])
def test_the_noise_that_a_model_tells_is_the_noise_of_its_leaves(n_parties):
    whole = table(3)
    model = trained(job(3, MANY, tree_rows="all"), whole, n_parties)[0].model
    assert 0.5 < np.mean(off(model, whole) ** 2) < 1.7  # 480 numbers; 1 if it is right


def test_an_inner_node_has_the_noise_of_all_its_leaves():
    model = trained(job(2, MANY), table())[0].model
    forest, counts = model.forest, model.noise.counts
    split = np.flatnonzero(forest.feature >= 0)
    left = forest.left[split].astype(np.int64)
    assert counts[split] == pytest.approx(np.hypot(counts[left], counts[left + 1]))
    assert model.noise.gain.max() == 0  # not known
    said = tree_text(model, 0)
    assert "standard error" not in said
    assert "about" in said


def test_without_a_count_of_leaves_the_noise_is_told_as_no_less_than_it_is():
    whole = table(3)
    model = trained(job(3, MANY, epsilon_per_count="1/2", tree_rows="all"), whole)[0].model
    assert 0.02 < np.mean(off(model, whole) ** 2) < 1.2


def test_noisy_cuts_say_their_noise_too():
    model = grown_by_cuts("noisy_histograms", tree_rows="all")
    assert 0.5 < np.mean(off(model, table(3)) ** 2) < 1.7


def test_counts_with_noise_leave_as_they_are():
    """Closing leaves by noisy counts would cost accuracy and hide nothing."""
    for n_classes in (2, 0):
        model = trained(job(n_classes), table(n_classes))[0].model
        left, done = release(model, Hardening())
        assert np.array_equal(left.forest.moments, model.forest.moments)
        assert not any("closed" in one or "powers of two" in one for one in done)
        again = ForestModel.from_bytes(left.to_bytes(), name="a model")
        assert again.noise is not None
        assert "about" in tree_text(again, 0)


def test_noise_in_labels_or_rows_does_not_make_counts_noisy():
    labels = grown_by_cuts("randomised_labels")
    assert labels.noise is None
    rows = labels.forest.moments.sum(axis=1)
    assert (rows[labels.forest.feature < 0] < 5).any()
    told, done = release(labels, Hardening())[0].forest.moments.sum(axis=1), "closed"
    assert np.array_equal(np.log2(told), np.rint(np.log2(told)))
    assert any(done in one for one in release(labels, Hardening())[1])
    given = trained(job(2, mechanism="perturbed_input"), table())[0].model
    assert given.noise is None
