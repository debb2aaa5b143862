"""How a vertical forest grows: so many rounds a level, and to each party only what is its own."""

from typing import Any

import numpy as np
import pytest

from spinney.protocols import vertical_forest
from spinney.protocols.columns.messages import GainAsk, SplitAsk
from spinney.protocols.settings import ForestSettings
from spinney.transport.in_process import InProcess
from unit.protocols.vertical_forest.vertical_parties import (  # type: ignore[import-not-found]
    job,
    side,
)


class Noting:
    """A party whose questions and answers are kept."""

    def __init__(self, honest):
        self.honest, self.said = honest, []

    def answer(self, ask):
        reply = self.honest.answer(ask)
        self.said.append((ask, reply))
        return reply

    def of(self, kind) -> list[Any]:
        return [pair for pair in self.said if isinstance(pair[0], kind)]


def grown(**changes):
    forest = ForestSettings(
        task="classification", n_estimators=4, max_depth=3, max_features=2, seed=1
    )
    sides = {"bank": Noting(side("age", label=True)), "shop": Noting(side("income", "visits"))}
    channel = InProcess(sides, through_codec=True)
    phases: list[str] = []
    training = vertical_forest.train(
        channel,
        job(forest=forest, **changes),
        progress=lambda phase, *_: phases.append(phase),
    )
    return sides, training, phases


def test_a_level_of_all_trees_takes_two_rounds():
    _, training, phases = grown()
    asked = [r.question for r in training.rounds]
    assert asked == [
        "Holdings", "Labels", "Start", *["Gain", "Split"] * training.shape.depth,
        "Finish", "Leaves", "Judge",
    ]  # fmt: skip
    assert len(asked) <= 2 * training.shape.depth + 8
    assert list(dict.fromkeys(phases)) == ["binning", "growing", "judging"]


def test_a_level_with_encrypted_labels_takes_three():
    _, training, phases = grown(labels="encrypted", scheme="paillier")
    asked = [r.question for r in training.rounds]
    assert asked[:3] == ["Holdings", "Seal", "Start"]
    per_level = [one for one in asked if one in {"Sums", "Choose"}]
    assert per_level == ["Sums", "Choose"] * training.shape.depth
    assert {"Cut", "Split"} >= set(asked) - {"Holdings", "Seal", "Start", "Sums", "Choose",
                                             "Finish", "Leaves", "Judge"}  # fmt: skip
    assert phases[0] == "encrypting"


def test_a_party_is_told_of_its_own_drawn_columns_only():
    sides, _, _ = grown()
    for bank, shop in zip(sides["bank"].of(GainAsk), sides["shop"].of(GainAsk), strict=True):
        drawn = [ask.offered.n_slots.astype(int) for ask, _ in (bank, shop)]
        assert np.all(drawn[0] + drawn[1] <= 2)  # max_features, over both parties
        assert bank[0].offered.column.max(initial=0) == 0
        assert shop[0].offered.column.max(initial=0) <= 1
    told = sides["bank"].of(GainAsk)[0][0].offered.n_slots
    assert 0 < np.count_nonzero(told) < told.size  # some trees drew none of the bank's columns


def test_a_winner_answers_with_a_bit_for_each_row():
    sides, _, _ = grown()
    answers = [pair for party in sides.values() for pair in party.of(SplitAsk)]
    assert answers
    for ask, reply in answers:
        assert reply.sides.dtype == np.uint8
        assert reply.sides.size <= ask.node.size * (60 // 8 + 1)  # 60 rows, a byte begun


@pytest.mark.parametrize("scheme", ["okamoto-uchiyama", "paillier"])
def test_longer_keys_grow_the_same_forest(scheme):
    found = []
    for key_bits in (2048, 3072):
        sides, _, _ = grown(labels="encrypted", scheme=scheme, key_bits=key_bits)
        found.append([one.honest.finished_model.to_bytes() for one in sides.values()])
    assert found[0] == found[1]
