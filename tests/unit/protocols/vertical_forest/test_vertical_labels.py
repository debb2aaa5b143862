"""Labels of vertical forests, encrypted or randomised: what is refused, and what is not told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from spinney import VerticalForestClassifier, VerticalForestRegressor, deal_columns
from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.ledger import Ledger
from spinney.privacy.schemes import new_key
from spinney.protocols.columns.encrypted_messages import SumsAsk
from spinney.protocols.columns.labels import LabelAccount
from spinney.protocols.vertical_forest.messages import SealAsk
from spinney.tables.schema import Column, Label, Schema
from spinney.transport.channel import Ask
from unit.protocols.vertical_forest.vertical_parties import (  # type: ignore[import-not-found]
    NAMES,
    PARTIES,
    Lying,
    N,
    fitted,
    frame,
    job,
    lied,
    side,
    trained,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

HIDDEN = {"labels": "encrypted", "scheme": "paillier"}
FOREIGN = "Encrypted sums do not fit this job"  # one wording for whatever is wrong


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
    with pytest.raises(ProtocolError, match=FOREIGN):
        lied(SumsAsk, lambda reply: replace(reply, cells=reply.cells[:-1]), **HIDDEN)


def test_no_label_is_in_any_message_to_others():
    """Labels as bytes, or as numbers, in the order of the rows: they are nowhere."""
    told: list[Ask[Any]] = []

    class Listening(Lying):  # type: ignore[misc]
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
    columns = tuple(Column(name, "number") for name in NAMES)
    schema = Schema(columns, Label("y", "class", (0, 1)))
    forest = fitted(label_epsilon=1.0, schema=schema)
    assert list(forest.ledger_) == ["bank"]
    ledger = forest.ledger_["bank"]
    charges = [entry for entry in ledger.entries() if type(entry.body).__name__ == "Charged"]
    assert len(charges) == 1
    assert any(c.unit == "label" and c.epsilon == "1" for c in forest.report_.privacy)
    assert "randomised labels" in forest.report_.quality[0].rows
    assert forest.report_.is_private


def test_no_epsilon_is_promised_where_classes_were_read_off_the_labels():
    forest = fitted(label_epsilon=1.0)
    assert not any(c.unit == "label" and c.epsilon for c in forest.report_.privacy)
    assert "classes of 'y'" in str(forest.report_)


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
    with pytest.raises(PolicyError, match="gives away only randomised labels"):
        trained({"bank": side("age", label=True, account=LabelAccount(ledger))})
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
