"""Vertical forests: bad input is refused in one sentence, at the right place, showing nothing."""

from dataclasses import replace

import numpy as np
import pytest

from spinney import VerticalForestClassifier
from spinney.errors import ProtocolError, SchemaError, SettingError, TableError
from spinney.protocols import vertical_forest
from spinney.protocols.columns.messages import GainAsk, SplitAsk
from spinney.protocols.columns.prediction import PartAsk
from spinney.protocols.settings import ForestSettings
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from unit.protocols.vertical_forest.vertical_parties import (  # type: ignore[import-not-found]
    Lying,
    N,
    fitted,
    frame,
    lied,
    side,
    trained,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

# --- who holds what ------------------------------------------------------------------------------

REFUSED = [
    ({"column_party": ["age"]}, r"column_party must be a dict with a list of columns"),
    ({"column_party": {}}, r"column_party must be a dict"),
    ({"column_party": {"bank": "age"}}, r"must give party 'bank' a list of columns; got 'age'"),
    (
        {"column_party": {"bank": ["age", "income"], "shop": ["visits", "age"]}},
        r"gives the column 'age' to party 'shop' and to party 'bank'",
    ),
    (
        {"column_party": {"bank": ["age", "age", "income"], "shop": ["visits"]}},
        r"gives the column 'age' to party 'bank' twice",
    ),
    (
        {"column_party": {"bank": ["age", "rank"], "shop": ["visits"]}},
        r"the column 'rank', which the table does not have. It has: age, income, visits",
    ),
    (
        {"column_party": {"bank": ["age"], "shop": ["visits"]}},
        r"gives the column 'income' to no party. Give it to one, or drop it",
    ),
    ({"label_party": None}, r"label_party must name the one party that holds the labels"),
    ({"label_party": "moon"}, r"'bank', 'shop'; got 'moon'"),
    ({"label_party": ["bank", "shop"]}, r"label_party must name the one party"),
    ({"column_party": None}, r"label_party names 'bank', but column_party names no parties"),
    ({"labels": "hidden"}, r"labels must be 'shared' or 'encrypted'; got 'hidden'"),
    ({"scheme": "rsa"}, r"scheme must be 'auto' or 'okamoto-uchiyama' or 'paillier'; got 'rsa'"),
    ({"key_bits": 1024}, r"key_bits must be 2048 or 3072; got 1024"),
    ({"intersect_at": "home"}, r"intersect_at must be 'label_party' or 'coordinator'; got 'home'"),
    ({"label_epsilon": 0}, r"label_epsilon must be"),
    ({"label_epsilon": -1.0}, r"label_epsilon must be"),
    ({"binning": "adaptive"}, r"a vertical forest does not support it"),
    ({"consent": "some"}, r"consent must be 'all' or a list of parties"),
    ({"consent": ["moon"]}, r"consent must be 'all' or a list of parties"),
    ({"max_leaf_nodes": 5}, r"max_leaf_nodes is not supported"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_bad_settings_are_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        fitted(**changes)


def test_columns_of_an_array_are_named_by_place():
    X, y = frame()
    parties = {"bank": [0, 2], "shop": [1]}
    forest = VerticalForestClassifier(2, column_party=parties, label_party="shop", random_state=0)
    assert [c.name for c in forest.fit(X.to_numpy(), y).partial_models_["bank"].columns] == [
        "x0",
        "x2",
    ]
    with pytest.raises(SettingError, match=r"does not have\. It has: positions 0 to 2"):
        forest.set_params(column_party={"bank": ["age"], "shop": [1, 2]}).fit(X.to_numpy(), y)


# --- parties that do not fit ---------------------------------------------------------------------


def test_labels_at_two_parties_or_none_are_refused():
    with pytest.raises(SchemaError, match="Exactly one party must hold the labels; 'a', 'b' do"):
        trained({"a": side("age", label=True), "b": side("visits", label=True)})
    with pytest.raises(SchemaError, match="Exactly one party must hold the labels; none does"):
        trained({"a": side("age"), "b": side("visits")})


def test_different_numbers_of_rows_are_refused():
    with pytest.raises(SchemaError, match=r"'a' and 'b' hold different numbers of rows\. Match"):
        trained({"a": side("age", label=True), "b": side("visits", n=N - 1)})


def test_a_job_without_columns_or_of_another_kind_is_refused():
    with pytest.raises(SchemaError, match="No party holds a column"):
        trained({"a": side(label=True)})
    regression = ForestSettings(task="regression", criterion="squared_error", n_estimators=2)
    with pytest.raises(SchemaError, match="the label at party 'a' does not suit it"):
        trained({"a": side("age", label=True)}, forest=regression)
    with pytest.raises(SettingError, match="The job gives party 'b' 0 columns; it holds 1"):
        trained({"a": side("age", label=True), "b": side("visits")}, owners=["a"])


def test_labels_of_one_class_are_refused():
    X, _ = frame()
    same = Holding(
        N,
        (Column("age", "number"),),
        VectorColumns((X["age"].to_numpy(np.float32),)),
        Label("y", "class", ("no", "yes")),
        np.zeros(N, np.int32),
    )
    with pytest.raises(TableError, match="one class only over the rows that all parties share"):
        trained({"a": vertical_forest.Party(same)})


@pytest.mark.parametrize("slot", [1, 7, -1])
def test_a_party_that_answers_for_columns_it_was_not_asked_for_is_refused(slot):
    def other(reply):
        return replace(
            reply, gain=np.full_like(reply.gain, 5.0), slot=np.full_like(reply.slot, slot)
        )

    with pytest.raises(ProtocolError, match="Party 'shop' answered for columns it was not"):
        lied(GainAsk, other)


def test_a_party_that_answers_for_other_nodes_is_refused():
    with pytest.raises(ProtocolError, match="answered for nodes it was not asked about"):
        lied(GainAsk, lambda reply: replace(reply, gain=reply.gain[:-1], slot=reply.slot[:-1]))


def test_sides_that_do_not_fit_are_refused():
    def best(reply):
        return replace(reply, gain=np.full_like(reply.gain, 1e6), slot=np.zeros_like(reply.slot))

    def longer(reply):
        return replace(reply, sides=np.append(reply.sides, np.uint8(0)))

    class Both(Lying):  # type: ignore[misc]
        def answer(self, ask):
            reply = self.honest.answer(ask)
            return longer(reply) if isinstance(ask, SplitAsk) else reply

    sides = {"bank": side(label=True), "shop": Both(side("age", "visits"), SplitAsk, best)}
    with pytest.raises(ProtocolError, match="do not have the rows of the requested nodes"):
        trained(sides)


def test_gains_that_are_no_numbers_are_refused():
    with pytest.raises(ProtocolError, match="answered for columns it was not asked about"):
        lied(GainAsk, lambda reply: replace(reply, gain=np.full_like(reply.gain, np.nan)))


def test_part_questions_are_for_parties_that_predict():
    with pytest.raises(ProtocolError, match="does not answer PartAsk"):
        side("age").answer(PartAsk())
