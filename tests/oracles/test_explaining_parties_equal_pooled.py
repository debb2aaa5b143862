"""Importances and partial dependence from five parties are those of the pooled rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles.pooled_explanation import Pooled  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.errors import ProtocolError
from spinney.protocols import explanation as explaining
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture(params=["two classes", "amount"])
def fitted(request, ward_table, ward_labels):
    y = ward_labels[request.param]
    face = HorizontalForestRegressor if request.param == "amount" else HorizontalForestClassifier
    forest = face(6, max_depth=4, random_state=0).fit(ward_table, y)
    schema = forest.model_.schema
    table = MemoryTable(schema, columns_of(ward_table, schema), encode_target(y, schema.label))
    return forest.model_, table


def parties_of(table, n_parties):
    site = np.arange(table.n_rows) % n_parties
    return {
        f"party_{p}": explaining.Party(table.select(np.flatnonzero(site == p)), n_jobs=1)
        for p in range(n_parties)
    }


def test_five_parties_give_the_counts_of_pooled_rows_for_the_same_permutations(fitted):
    model, table = fitted
    ask = explaining.question_of(model, n_repeats=3)
    channel = InProcess(parties_of(table, 5), through_codec=True)
    reply = channel.sum(ask)
    own = [table.select(np.arange(table.n_rows)[p::5]) for p in range(5)]
    pooled = Pooled(own).answer(ask)
    assert np.array_equal(reply.judged, pooled.judged)  # bit for bit
    assert np.array_equal(reply.dependence, pooled.dependence)
    one = explaining.Party(table, n_jobs=1).answer(ask)  # who shuffles all rows among each other
    n_curve = ask.tree_counts.size
    assert np.array_equal(reply.judged[:n_curve], one.judged[:n_curve])
    assert np.array_equal(reply.dependence, one.dependence)


def test_masked_sums_explain_the_same(fitted):
    model, table = fitted
    ask = explaining.question_of(model, n_repeats=2)
    plain = explaining.explain(InProcess(parties_of(table, 3)), ask)
    masked = secure_parties(parties_of(table, 3), InProcess, explaining.SUMMED, job="explained")
    assert explaining.explain(masked, ask) == plain
    assert plain is not None
    assert plain.n_rows == table.n_rows
    assert plain.by_trees[-1] == (6, plain.baseline)
    assert max(loss for loss, _ in plain.loss.values()) > 0.05


def test_shuffling_goes_by_keys_and_moves_every_value_once():
    keys = np.array([5, 1, 9, 7], np.uint64)
    order = explaining.shuffling(keys, 3)
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    turned = explaining.shuffling(keys[::-1], 3)
    assert keys[order].tolist() == keys[::-1][turned][::-1].tolist()


def test_questions_that_do_not_fit_are_refused(fitted):
    model, table = fitted
    ask = explaining.question_of(model)
    party = explaining.Party(table, n_jobs=1)
    wrong: dict[str, Any] = {
        "shuffled": np.array([99]),
        "point_column": np.array([-1]),
        "n_repeats": 0,
        "tree_counts": np.array([3, 2, 6]),
    }
    for name, value in wrong.items():
        with pytest.raises(ProtocolError, match="does not fit its model"):
            party.answer(replace(ask, **{name: value}))
