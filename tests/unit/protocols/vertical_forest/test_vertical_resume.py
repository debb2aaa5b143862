"""A party is killed while a vertical forest grows; the job goes on from the last finished level."""

import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from spinney.errors import PartyLostError, ProtocolError, StorageError
from spinney.protocols import vertical_forest
from spinney.protocols.columns.messages import FinishAsk, GainAsk
from spinney.protocols.columns.prediction import JudgeAsk, LeavesAsk
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_forest.messages import StartAsk
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport import codec
from spinney.transport.in_process import InProcess

N = 200
COLUMNS = tuple(Column(name, "number") for name in "abcd")


def rows():
    random = np.random.RandomState(0)
    X = random.standard_normal((4, N)).astype(np.float32)
    y = (X[0] * X[2] + 0.5 * X[1] + 0.3 * random.standard_normal(N) > 0).astype(np.int32)
    return X, y


def holding(name):
    X, y = rows()
    if name == "bank":
        label = Label("y", "class", ("no", "yes"))
        return Holding(N, COLUMNS[:2], VectorColumns((X[0], X[1])), label, y)
    return Holding(N, COLUMNS[2:], VectorColumns((X[2], X[3])))


def settings(labels="shared"):
    forest = ForestSettings(task="classification", n_estimators=3, max_depth=6, seed=7)
    return vertical_forest.Settings(forest=forest, labels=labels, scheme="paillier")


def party(name, folder=None):
    return vertical_forest.Party(
        holding(name), notebook=None if folder is None else folder / name, n_jobs=1
    )


class Counting:
    """A party whose questions are counted; `change` may replace it at any of them."""

    def __init__(self, side, change=lambda side, _: side):
        self.side, self.change, self.asked = side, change, []

    def answer(self, ask):
        self.side = self.change(self.side, ask)
        self.asked.append(ask)
        return self.side.answer(ask)


def parts(sides):
    return {name: one.side.finished_model.to_bytes() for name, one in sides.items()}


def undisturbed(labels="shared"):
    sides = {name: Counting(party(name)) for name in ("bank", "shop")}
    vertical_forest.train(InProcess(sides), settings(labels))
    return parts(sides)


# --- killed for real -----------------------------------------------------------------------------

SIDE = """
import struct, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_vertical_resume import party
from spinney.protocols import vertical_forest
from spinney.transport import codec
kinds = {kind.__name__: kind for kind in vertical_forest.ASKS}
side = party("shop", Path(sys.argv[2]))
while head := sys.stdin.buffer.read(8):
    n_name, n_body = struct.unpack("<II", head)
    name = sys.stdin.buffer.read(n_name).decode()
    reply = codec.encode(side.answer(codec.decode(sys.stdin.buffer.read(n_body), kinds[name])))
    sys.stdout.buffer.write(struct.pack("<I", len(reply)) + reply)
    sys.stdout.buffer.flush()
"""


class OtherProcess:
    """A party in a process of its own, spoken to in frames."""

    def __init__(self, folder):
        here = str(__file__).rsplit("/", 1)[0]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SIDE, here, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def answer(self, ask):
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        name, body = type(ask).__name__.encode(), codec.encode(ask)
        try:
            self.process.stdin.write(struct.pack("<II", len(name), len(body)) + name + body)
            self.process.stdin.flush()
            (size,) = struct.unpack("<I", self.process.stdout.read(4))
        except (BrokenPipeError, ValueError, struct.error):
            raise PartyLostError("It does not answer.") from None
        return codec.decode(self.process.stdout.read(size), ask.reply_type)

    def kill(self):
        self.process.kill()
        self.process.communicate()


def test_a_killed_party_starts_again_from_the_last_finished_level(tmp_path):
    checkpoint = tmp_path / "levels"
    bank = Counting(party("bank", tmp_path))
    first = OtherProcess(tmp_path)

    def killed(side, ask):
        if isinstance(ask, GainAsk) and ask.depth == 3:
            side.kill()  # SIGKILL: nothing is tidied up
        return side

    sides = {"bank": bank, "shop": Counting(first, killed)}
    with pytest.raises(PartyLostError, match="Party 'shop': It does not answer"):
        vertical_forest.train(InProcess(sides), settings(), checkpoint=checkpoint)
    second = OtherProcess(tmp_path)
    try:
        sides = {"bank": bank, "shop": Counting(second)}
        training = vertical_forest.train(InProcess(sides), settings(), checkpoint=checkpoint)
    finally:
        second.kill()
    depths = [ask.depth for ask in bank.asked if isinstance(ask, GainAsk)]
    assert sorted(set(depths)) == depths[:3] + sorted(set(depths[3:]))  # no level before is redone
    assert depths.count(0) == depths.count(1) == depths.count(2) == 1
    assert bank.side.finished_model.to_bytes() == undisturbed()["bank"]
    assert training.shape.depth == 6


# --- parties that lose their memory --------------------------------------------------------------


@pytest.mark.parametrize("labels", ["shared", "encrypted"])
@pytest.mark.parametrize("name", ["bank", "shop"])
@pytest.mark.parametrize("when", [(GainAsk, 2), "split", FinishAsk])
def test_a_party_that_forgot_everything_is_brought_back(labels, name, when, tmp_path):
    """It is asked as if nothing had happened, and the forest is the same."""
    forgotten: list[Any] = []

    def is_time(ask):
        kind = type(ask).__name__
        if when == "split":
            return kind in {"SplitAsk", "CutAsk"} and ask.depth == 1
        if when is FinishAsk:
            return isinstance(ask, FinishAsk)
        return kind in {"GainAsk", "SumsAsk", "ChooseAsk"} and ask.depth == 2

    def replaced(side, ask):
        if is_time(ask) and not forgotten:
            forgotten.append(ask)
            return party(name, tmp_path)
        return side

    sides = {
        one: Counting(party(one, tmp_path), replaced if one == name else lambda side, _: side)
        for one in ("bank", "shop")
    }
    vertical_forest.train(InProcess(sides, through_codec=True), settings(labels))
    found = parts(sides)
    assert found == undisturbed(labels) if forgotten else forgotten == []
    if forgotten:
        starts = [ask for ask in sides[name].asked if isinstance(ask, StartAsk)]
        assert len(starts) == 2
        assert len(starts[1].levels) == forgotten[0].depth - (when is FinishAsk) * 0


def test_a_party_without_its_notebook_cannot_go_on():
    lost: list[Any] = []

    def replaced(side, ask):
        if isinstance(ask, GainAsk) and ask.depth == 3 and not lost:
            lost.append(ask)
            return party("shop")  # with a new, empty notebook
        return side

    sides = {"bank": Counting(party("bank")), "shop": Counting(party("shop"), replaced)}
    with pytest.raises(ProtocolError, match=r"cuts of level .* are missing from its notebook"):
        vertical_forest.train(InProcess(sides), settings())


def test_a_checkpoint_of_another_job_is_refused(tmp_path):
    checkpoint = tmp_path / "levels"
    sides = {name: party(name) for name in ("bank", "shop")}
    vertical_forest.train(InProcess(sides), settings(), checkpoint=checkpoint)
    other = vertical_forest.Settings(
        forest=ForestSettings(task="classification", n_estimators=2, seed=7)
    )
    sides = {name: party(name) for name in ("bank", "shop")}  # a run has one job
    with pytest.raises(StorageError, match="is the checkpoint of another job"):
        vertical_forest.train(InProcess(sides), other, checkpoint=checkpoint)


def test_a_finished_checkpoint_gives_the_forest_at_once(tmp_path):
    checkpoint = tmp_path / "levels"
    sides = {name: Counting(party(name)) for name in ("bank", "shop")}
    vertical_forest.train(InProcess(sides), settings(), checkpoint=checkpoint)
    before = parts(sides)
    for side in sides.values():
        side.asked.clear()
    vertical_forest.train(InProcess(sides), settings(), checkpoint=checkpoint)
    assert parts(sides) == before
    kinds = {type(ask) for ask in sides["shop"].asked}
    assert GainAsk not in kinds
    assert kinds >= {StartAsk, FinishAsk, LeavesAsk}
    assert any(isinstance(ask, JudgeAsk) for ask in sides["bank"].asked)
