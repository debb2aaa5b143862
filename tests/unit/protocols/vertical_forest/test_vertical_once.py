"""A party of a vertical job answers a question one way: nobody can try out what it would say."""

from dataclasses import replace

import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.protocols.columns.encrypted_messages import ChooseAsk, CutAsk
from spinney.protocols.columns.prediction import JudgeAsk, LeavesAsk
from spinney.protocols.settings import ForestSettings
from spinney.transport import codec
from unit.protocols.vertical_forest.vertical_parties import (  # type: ignore[import-not-found]
    side,
    trained,
)

FOREST = ForestSettings(
    task="classification", n_estimators=2, max_depth=3, max_features=None
)  # every column is drawn, whoever holds it
HIDDEN = {"labels": "encrypted", "scheme": "paillier", "forest": FOREST}
OTHERWISE = "already gave a different answer to this question"


class Tried:
    """A party that is asked again, the same and then otherwise, whenever a kind of ask comes."""

    def __init__(self, honest, kind, otherwise):
        self.honest, self.kind, self.otherwise, self.refused = honest, kind, otherwise, 0

    def answer(self, ask):
        reply = self.honest.answer(ask)
        if isinstance(ask, self.kind) and not self.refused:
            assert codec.encode(self.honest.answer(ask)) == codec.encode(reply)
            with pytest.raises(ProtocolError, match=OTHERWISE):
                self.honest.answer(self.otherwise(ask))
            self.refused += 1
        return reply


def test_a_choice_is_made_once():
    """Sums of one's own making would bring labels to light, one row at a time."""
    bank = Tried(side("age", label=True), ChooseAsk, lambda ask: replace(ask, others=()))
    trained({"bank": bank, "shop": side("visits", "income")}, **HIDDEN)
    assert bank.refused


def test_cuts_are_made_once():
    """Every cut of a column, asked for in turn, would tell the order of its cells."""
    shop = Tried(
        side("age", "visits"),
        CutAsk,
        lambda ask: replace(ask, cut=np.where(ask.cut > 0, ask.cut - 1, 1).astype(np.uint8)),
    )
    trained({"bank": side("income", label=True), "shop": shop}, **HIDDEN)
    assert shop.refused


def test_a_forest_is_judged_once():
    def shifted(ask):
        return replace(ask, named=replace(ask.named, leaves=np.roll(ask.named.leaves, 1, axis=1)))

    bank = Tried(side("age", label=True), JudgeAsk, shifted)
    trained({"bank": bank, "shop": side("visits")}, intersect_at="coordinator")
    assert bank.refused


def test_a_forest_is_judged_by_the_rows_of_the_job_and_no_single_one():
    bank, shop = side("age", label=True), side("visits")
    asked = []

    class Noting:
        def answer(self, ask):
            asked.append(ask)
            return bank.answer(ask)

    trained({"bank": Noting(), "shop": shop}, intersect_at="coordinator")
    ask = next(one for one in asked if isinstance(one, JudgeAsk))
    for party, question in ((bank, replace(ask, n_judged=1)), (shop, LeavesAsk(1))):
        with pytest.raises(ProtocolError, match="not about the rows that the job is scored on"):
            party.answer(question)
