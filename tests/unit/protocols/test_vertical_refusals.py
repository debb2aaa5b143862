"""Vertical forests: bad input is refused in one sentence, at the right place, showing nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from spinney import VerticalForestClassifier, VerticalForestRegressor, deal_columns
from spinney.errors import (
    PartyLostError,
    PolicyError,
    ProtocolError,
    SchemaError,
    SettingError,
    StorageError,
    TableError,
)
from spinney.privacy.homomorphic import new_key
from spinney.privacy.ledger import Ledger
from spinney.protocols import vertical_forest
from spinney.protocols.partial_model import PartialModel
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_messages import GainAsk, SplitAsk
from spinney.protocols.vertical_prediction import PartAsk, PredictingParty, ValuesAsk, join_parts
from spinney.protocols.vertical_sums import SealAsk, SumsAsk
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

N = 60
NAMES = ["age", "income", "visits"]


def frame():
    random = np.random.RandomState(0)
    X = pd.DataFrame(random.standard_normal((N, 3)), columns=NAMES)
    return X, (X["age"] + X["visits"] > 0).astype(int).to_numpy()


PARTIES = {"bank": ["age", "income"], "shop": ["visits"]}


def fitted(**changes):
    X, y = frame()
    given = {"column_party": PARTIES, "label_party": "bank", "random_state": 0, "max_depth": 3}
    return VerticalForestClassifier(3, **(given | changes)).fit(X, y)


# --- who holds what ------------------------------------------------------------------------------

REFUSED = [
    ({"column_party": ["age"]}, r"column_party must be a dict with a list of columns"),
    ({"column_party": {}}, r"column_party must be a dict"),
    ({"column_party": {"bank": "age"}}, r"must give party 'bank' a list of columns; got 'age'"),
    (
        {"column_party": {"bank": ["age", "income"], "shop": ["visits", "age"]}},
        r"gives the column 'age' to party 'shop' and party 'bank' too. Every column has one party",
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
        r"gives nobody the column 'income'. Give it to a party, or drop it",
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
    ({"binning": "adaptive"}, r"a vertical forest has no use for it"),
    ({"consent": "some"}, r"consent must be 'all' or a list of parties"),
    ({"consent": ["moon"]}, r"consent must be 'all' or a list of parties"),
    ({"max_leaf_nodes": 5}, r"max_leaf_nodes cannot be kept"),
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
    with pytest.raises(SettingError, match=r"does not have\. It has: places 0 to 2"):
        forest.set_params(column_party={"bank": ["age"], "shop": [1, 2]}).fit(X.to_numpy(), y)


# --- consent and parts ---------------------------------------------------------------------------


def test_a_forest_is_joined_only_if_all_agree(tmp_path):
    X, _ = frame()
    forest = fitted(consent=["bank"])
    words = r"'shop' did not consent to join its part with the others'"
    exports = (forest.to_sklearn, forest.to_onnx, forest.to_treelite)
    for use in (lambda: forest.model_, lambda: forest.save(tmp_path / "model"), *exports):
        with pytest.raises(PolicyError, match=words):
            use()
    assert forest.predict(X).size == N  # the parties predict together all the same
    assert not list(tmp_path.iterdir())


def test_a_part_holds_no_cut_of_others_and_leaves_only_at_the_label_party():
    forest = fitted()
    bank, shop = forest.partial_models_["bank"], forest.partial_models_["shop"]
    assert shop.part.value.shape[1] == shop.part.moments.shape[1] == 0
    assert shop.label is None
    assert bank.part.value.shape[1] == 2
    for part in (bank.part, shop.part):
        others = part.feature == -2
        assert others.any()
        assert not part.threshold[others].any()
        assert not part.gain[others].any()


def test_a_part_is_saved_and_read_by_its_party(tmp_path):
    part = fitted().partial_models_["shop"]
    part.save(tmp_path / "part")
    assert PartialModel.load(tmp_path / "part").to_bytes() == part.to_bytes()
    (tmp_path / "part").write_bytes(part.to_bytes()[:-40])
    with pytest.raises(StorageError):
        PartialModel.load(tmp_path / "part")
    cut = replace(part, part=replace(part.part, feature=part.part.feature + 9))
    cut.save(tmp_path / "part")
    with pytest.raises(StorageError, match="does not hold a sound part of a forest"):
        PartialModel.load(tmp_path / "part")


def predicting(forest, **changes):
    X, _ = frame()
    sides = {}
    for name, part in forest.partial_models_.items():
        own = X[[column.name for column in part.columns]].to_numpy(np.float32).T
        sides[name] = PredictingParty(part, VectorColumns(tuple(own)), N, **changes)
    return sides


def test_a_prediction_with_a_party_absent_is_refused():
    forest = fitted()
    sides = predicting(forest)
    del sides["shop"]
    with pytest.raises(PartyLostError, match="Party 'shop' is absent, and its cuts are nowhere"):
        forest.roles_.predict(InProcess(sides))


@pytest.mark.parametrize("intersect_at", ["label_party", "coordinator"])
def test_prediction_is_one_round_whatever_the_rows_and_trees(intersect_at):
    forest = fitted(intersect_at=intersect_at)
    channel = InProcess(predicting(forest), through_codec=True)
    forest.roles_.predict(channel)
    assert [r.question for r in channel.rounds] == ["Leaves", "Values"]
    asked = channel.rounds[0].answered
    assert asked == (("shop",) if intersect_at == "label_party" else ("bank", "shop"))


def test_rows_that_a_party_does_not_have_go_where_missing_values_go():
    X, _ = frame()
    forest = fitted()
    sides = predicting(forest)
    part = forest.partial_models_["shop"]
    held = np.flatnonzero(np.arange(N) % 3)
    own = VectorColumns((X["visits"].to_numpy(np.float32)[held],))
    row_of = np.full(N, -1)
    row_of[held] = np.arange(held.size)
    sides["shop"] = PredictingParty(part, own, held.size, row_of=row_of)
    found = forest.roles_.predict(InProcess(sides))
    gaps = X.copy()
    gaps.loc[row_of < 0, "visits"] = np.nan
    assert np.array_equal(found, forest.predict_proba(gaps))


def test_parts_are_given_away_only_with_consent():
    forest = fitted()
    with pytest.raises(PolicyError, match="does not give its part of the forest away"):
        join_parts(InProcess(predicting(forest)))
    joined = join_parts(InProcess(predicting(forest, consents=True)))
    assert joined.consent == ("bank", "shop")
    assert replace(joined, consent=()).to_bytes() == forest.model_.to_bytes()


def test_a_party_without_labels_names_no_values():
    forest = fitted()
    named = forest.roles_.named(InProcess(predicting(forest)), 0, 1)
    with pytest.raises(ProtocolError, match="does not hold the labels"):
        predicting(forest)["shop"].answer(ValuesAsk(replace(named, ownership=None)))
    with pytest.raises(ProtocolError, match="does not answer"):
        predicting(forest)["shop"].answer(Ask())


# --- parties that do not fit ---------------------------------------------------------------------


def holding(names, *, label=False, n=N, classes=("no", "yes")):
    X, y = frame()
    columns = tuple(Column(name, "number") for name in names)
    cells = tuple(X[name].to_numpy(np.float32)[:n] for name in names)
    values = VectorColumns(cells) if names else None
    facts = Label("y", "class", classes) if label else None
    return Holding(n, columns, values, facts, y[:n].astype(np.int32) if label else None)


def job(**changes):
    forest = ForestSettings(task="classification", n_estimators=2, max_depth=3)
    return vertical_forest.Settings(**({"forest": forest} | changes))


def trained(sides, **changes):
    how = {name: changes.pop(name) for name in ("owners",) if name in changes}
    return vertical_forest.train(InProcess(sides), job(**changes), **how)


def side(*names, label=False, n=N, **how):
    return vertical_forest.Party(holding(list(names), label=label, n=n), **how)


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
    with pytest.raises(SchemaError, match="the label at party 'a' is not for that"):
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


class Lying:
    """A party that changes one kind of reply."""

    def __init__(self, honest, kind, change):
        self.honest, self.kind, self.change = honest, kind, change

    def answer(self, ask):
        reply = self.honest.answer(ask)
        return self.change(reply) if isinstance(ask, self.kind) else reply


def lied(kind, change, **changes):
    sides = {"bank": side("age", label=True), "shop": Lying(side("visits"), kind, change)}
    return trained(sides, **changes)


@pytest.mark.parametrize("slot", [1, 7, -1])
def test_a_party_that_answers_for_columns_it_was_not_asked_for_is_refused(slot):
    def other(reply):
        return replace(
            reply, gain=np.full_like(reply.gain, 5.0), slot=np.full_like(reply.slot, slot)
        )

    with pytest.raises(ProtocolError, match="Party 'shop' answers for columns that it was not"):
        lied(GainAsk, other)


def test_a_party_that_answers_for_other_nodes_is_refused():
    with pytest.raises(ProtocolError, match="answers for other nodes than it was asked of"):
        lied(GainAsk, lambda reply: replace(reply, gain=reply.gain[:-1], slot=reply.slot[:-1]))


def test_sides_that_do_not_fit_are_refused():
    def best(reply):
        return replace(reply, gain=np.full_like(reply.gain, 1e6), slot=np.zeros_like(reply.slot))

    def longer(reply):
        return replace(reply, sides=np.append(reply.sides, np.uint8(0)))

    class Both(Lying):
        def answer(self, ask):
            reply = self.honest.answer(ask)
            return longer(reply) if isinstance(ask, SplitAsk) else reply

    sides = {"bank": side(label=True), "shop": Both(side("age", "visits"), SplitAsk, best)}
    with pytest.raises(ProtocolError, match="do not have the rows of the nodes asked for"):
        trained(sides)


def test_gains_that_are_no_numbers_are_refused():
    with pytest.raises(ProtocolError, match="answers for columns that it was not asked for"):
        lied(GainAsk, lambda reply: replace(reply, gain=np.full_like(reply.gain, np.nan)))


# --- encrypted labels ----------------------------------------------------------------------------

HIDDEN = {"labels": "encrypted", "scheme": "paillier"}
FOREIGN = "of another key, damaged, or out of range"


def test_ciphertexts_of_another_key_are_refused():
    other = new_key("paillier", 2048)

    def foreign(reply):
        data = other.dump(other.encrypt([1] * (len(reply.sums[0]) // 512)))
        return replace(reply, sums=(data,))

    with pytest.raises(ProtocolError, match=FOREIGN):
        lied(SumsAsk, foreign, **HIDDEN)
    with pytest.raises(ProtocolError, match=FOREIGN):
        lied(SumsAsk, lambda reply: replace(reply, key_id="0" * 32), **HIDDEN)


@pytest.mark.parametrize("damage", ["cut", "zero", "none"])
def test_damaged_ciphertexts_are_refused(damage):
    def damaged(reply):
        data = reply.sums[0]
        sums = {"cut": (data[:-1],), "zero": (bytes(len(data)),), "none": ()}[damage]
        return replace(reply, sums=sums)

    with pytest.raises(ProtocolError, match=FOREIGN):
        lied(SumsAsk, damaged, **HIDDEN)


def test_sums_above_the_rows_of_a_cell_are_refused():
    def fewer(reply):
        counts = reply.counts
        counts.counters[counts.counters > 0] = 1
        return reply

    with pytest.raises(ProtocolError, match=FOREIGN):
        lied(SumsAsk, fewer, **HIDDEN)


def test_sums_of_other_columns_are_refused():
    with pytest.raises(ProtocolError, match="not of the columns it was asked for"):
        lied(SumsAsk, lambda reply: replace(reply, cells=reply.cells[:-1]), **HIDDEN)


def test_no_label_is_in_any_message_to_others():
    """Labels as bytes, or as numbers, in the order of the rows: they are nowhere."""
    told: list[Ask[Any]] = []

    class Listening(Lying):
        def answer(self, ask):
            told.append(ask)
            return self.honest.answer(ask)

    sides = {"bank": side("age", label=True), "shop": Listening(side("visits"), object, None)}
    trained(sides, **HIDDEN)
    assert not any(getattr(ask, "target", np.zeros(0)).size for ask in told)
    assert any(getattr(ask, "sealed", ()) for ask in told)
    assert not any(isinstance(ask, SealAsk) for ask in told)


# --- randomised labels ---------------------------------------------------------------------------


def test_label_epsilon_is_paid_once_and_only_by_the_label_party():
    forest = fitted(label_epsilon=1.0)
    assert list(forest.ledger_) == ["bank"]
    ledger = forest.ledger_["bank"]
    charges = [entry for entry in ledger.entries() if type(entry.body).__name__ == "Charged"]
    assert len(charges) == 1
    assert any(c.unit == "label" and c.epsilon == "1" for c in forest.report_.privacy)
    assert "randomised labels" in forest.report_.quality[0].rows
    assert forest.report_.is_private


@pytest.mark.parametrize("labels", ["shared", "encrypted"])
def test_label_epsilon_works_with_both_kinds_of_labels(labels):
    X, y = frame()
    forest = VerticalForestRegressor(
        2,
        max_depth=2,
        column_party=PARTIES,
        label_party="bank",
        labels=labels,
        scheme="paillier",
        label_epsilon=2.0,
        random_state=0,
    ).fit(X, y * 10.0)
    assert forest.predict(X).shape == (N,)
    assert len(forest.ledger_["bank"].entries()) >= 2


def test_labels_are_randomised_only_with_a_ledger_and_shown_only_without():
    ledger = Ledger.in_memory("bank")
    with pytest.raises(PolicyError, match="gives labels away randomised only"):
        trained({"bank": side("age", label=True, ledger=ledger)})
    with pytest.raises(PolicyError, match="the label party has no ledger to pay from"):
        trained({"bank": side("age", label=True)}, label_epsilon="1", job="test")
    with pytest.raises(SettingError, match="label_epsilon needs a job name"):
        job(label_epsilon="1")


def test_the_report_says_how_many_labels_leaves_give_away():
    X, y = load_breast_cancer(return_X_y=True)
    parties = deal_columns(X, 2, names=["bank", "shop"], random_state=0)
    found = {}
    for epsilon in (None, 0.5):
        forest = VerticalForestClassifier(
            10,
            column_party=parties,
            label_party="bank",
            label_epsilon=epsilon,
            random_state=0,
        ).fit(X, y)
        found[epsilon] = forest.report_.label_leakage
        printed = " ".join(str(forest.report_).split())
        assert f"recovers {found[epsilon].recovered:.1%} of the labels" in printed
    assert found[None].recovered > 0.9  # PRIVACY: 98 to 100 % from membership alone
    assert found[None].base < 0.7
    assert found[0.5].recovered < found[None].recovered
    assert "with label_epsilon=0.5" in found[0.5].in_words()
    assert fitted(column_party=None, label_party=None).report_.label_leakage is None


def test_part_questions_are_for_parties_that_predict():
    with pytest.raises(ProtocolError, match="does not answer PartAsk"):
        side("age").answer(PartAsk())
