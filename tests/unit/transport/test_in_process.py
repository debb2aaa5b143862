"""Parties as objects in one process: two verbs, and every round recorded."""

from dataclasses import dataclass
from threading import Event, current_thread, main_thread
from time import sleep
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from spinney.errors import PartyLostError, ProtocolError, StorageError, TableError
from spinney.transport import codec
from spinney.transport.channel import Ask, sum_replies
from spinney.transport.in_process import InProcess


@dataclass(frozen=True)
class HeadcountReply:
    heads: NDArray[np.int64]

    def vectors(self):
        return (self.heads,)

    @classmethod
    def of_vectors(cls, vectors):
        return cls(*vectors)


@dataclass(frozen=True)
class HeadcountAsk(Ask[HeadcountReply]):
    """How many are you?"""

    floor: int
    reveals: ClassVar[str] = "how many there are"
    reply_type: ClassVar[type[Any]] = HeadcountReply


@dataclass(frozen=True)
class NameReply:
    name: str


@dataclass(frozen=True)
class NameAsk(Ask[NameReply]):
    """What is your name?"""

    reveals: ClassVar[str] = "a name"
    reply_type: ClassVar[type[Any]] = NameReply


class House:
    def __init__(self, name, heads):
        self.name, self.heads = name, heads
        self.asked: list[object] = []

    def answer(self, ask):
        self.asked.append(ask)
        if isinstance(self.heads, Exception):
            raise self.heads
        if isinstance(ask, NameAsk):
            return NameReply(self.name)
        return HeadcountReply(np.array([self.heads, ask.floor]))


def street(*heads, **how):
    names = ["north", "south", "west"]
    houses = {name: House(name, n) for name, n in zip(names, heads, strict=False)}
    return InProcess(houses, **how), houses


@pytest.mark.parametrize("through_codec", [False, True])
def test_ask_shows_every_reply_and_sum_only_the_sum(through_codec):
    channel, _ = street(3, 4, 5, through_codec=through_codec)
    assert {name: reply.name for name, reply in channel.ask(NameAsk()).items()} == {
        "north": "north",
        "south": "south",
        "west": "west",
    }
    assert channel.sum(HeadcountAsk(2)).heads.tolist() == [12, 6]


@pytest.mark.parametrize("through_codec", [False, True])
def test_every_round_is_written_down(through_codec):
    channel, _ = street(3, 4, through_codec=through_codec)
    channel.ask(NameAsk())
    channel.sum(HeadcountAsk(2))
    asked, added = channel.rounds
    assert (asked.number, asked.question, asked.verb) == (1, "Name", "ask")
    assert (added.number, added.question, added.verb) == (2, "Headcount", "sum")
    assert asked.reveals == "a name"
    assert asked.protection == "none: the coordinator sees each party's reply"
    assert added.protection == "summed by the channel; not masked"
    assert added.answered == ("north", "south")
    assert added.seconds >= 0
    down = len(codec.encode(HeadcountAsk(2)))
    up = len(codec.encode(HeadcountReply(np.array([3, 2]))))
    assert added.bytes_down == {"north": down, "south": down}
    assert added.bytes_up == {"north": up, "south": up}


def test_through_the_codec_a_party_gets_a_copy():
    channel, houses = street(3, through_codec=True)
    ask = HeadcountAsk(2)
    channel.sum(ask)
    (seen,) = houses["north"].asked
    assert seen == ask
    assert seen is not ask


@pytest.mark.parametrize("through_codec", [False, True])
def test_an_error_names_its_party(through_codec):
    channel, _ = street(3, TableError("The table is gone."), through_codec=through_codec)
    with pytest.raises(TableError, match=r"^Party 'south': The table is gone") as caught:
        channel.ask(NameAsk())
    assert caught.value.party == "south"
    assert channel.rounds == []


def test_a_party_s_unreadable_reply_names_the_party():
    class Rude(House):
        def answer(self, ask):
            super().answer(ask)
            return NameReply(object())  # type: ignore[arg-type]

    channel = InProcess({"rude": Rude("rude", 1)}, through_codec=True)
    with pytest.raises(StorageError, match="Party 'rude': A message cannot carry a object"):
        channel.ask(NameAsk())


def test_a_job_needs_a_party():
    with pytest.raises(ProtocolError, match="A job needs at least one party"):
        InProcess({})


def test_some_parties_can_be_asked_alone():
    channel, houses = street(3, 4, 5)
    assert list(channel.ask(NameAsk(), to=("west", "north"))) == ["west", "north"]
    assert houses["south"].asked == []


def test_without_a_quorum_a_lost_party_ends_the_job():
    channel, _ = street(3, PartyLostError("It does not answer."), 5)
    with pytest.raises(PartyLostError, match="Party 'south'"):
        channel.ask(NameAsk())


def test_a_quorum_bears_lost_parties_down_to_its_number():
    channel, _ = street(3, PartyLostError("It does not answer."), 5)
    assert list(channel.ask(NameAsk(), quorum=2)) == ["north", "west"]
    assert channel.rounds[-1].answered == ("north", "west")
    with pytest.raises(PartyLostError, match="Only 2 parties answered NameAsk; 3 are needed"):
        channel.ask(NameAsk(), quorum=3)


def test_replies_of_different_shapes_are_not_added():
    with pytest.raises(ProtocolError, match="differ in shape; nothing was used"):
        sum_replies(
            HeadcountReply(np.zeros(2, np.int64)), [HeadcountReply(np.zeros((1, 2), np.int64))]
        )


@pytest.mark.parametrize("n_parties", [1, 2, 3])
def test_no_reply_is_written_into(n_parties):
    replies = [HeadcountReply(np.array([i, 2], np.int64)) for i in range(n_parties)]
    total = sum_replies(replies[0], replies[1:])
    assert total.vectors()[0].tolist() == [sum(range(n_parties)), 2 * n_parties]
    assert [r.vectors()[0].tolist() for r in replies] == [[i, 2] for i in range(n_parties)]


def test_what_can_be_added_says_so():
    assert HeadcountAsk(1).is_summable
    assert not NameAsk().is_summable


class PacedHouse(House):
    """A house that records when its answers begin and end."""

    def __init__(self, heads, log, gate=None):
        super().__init__(f"h{heads}", heads)
        self.log = log
        self.gate = gate

    def answer(self, ask):
        self.log.append(("begins", self.heads))
        if self.gate is not None:
            assert self.gate.wait(10)
        reply = super().answer(ask)
        self.log.append(("ends", self.heads))
        return reply


class Opener(PacedHouse):
    """A house whose answer lets another one answer."""

    def __init__(self, heads, log, gate):
        super().__init__(heads, log)
        self.opens = gate

    def answer(self, ask):
        reply = super().answer(ask)
        self.opens.set()
        return reply


def test_two_parties_answer_at_once_and_no_more():
    log: list[Any] = []
    gate = Event()
    first = PacedHouse(3, log, gate)
    houses = {house.name: house for house in (first, Opener(4, log, gate), PacedHouse(5, log))}
    total = InProcess(houses, at_once=2).sum(HeadcountAsk(0))
    assert total.heads.tolist() == [12, 0]
    assert log.index(("ends", 4)) < log.index(("ends", 3))  # the first waited for the second
    assert log.index(("begins", 5)) > log.index(("ends", 3))  # a reply is used before the next


@pytest.mark.parametrize("at_once", [1, 2])
def test_replies_come_in_the_order_of_the_parties(at_once):
    houses = {f"h{heads}": PacedHouse(heads, []) for heads in (5, 3, 4)}
    channel = InProcess(houses, at_once=at_once)
    assert list(channel.ask(NameAsk())) == ["h5", "h3", "h4"]
    assert channel.rounds[-1].answered == ("h5", "h3", "h4")


def test_a_refusal_waits_for_whoever_is_at_work():
    log: list[Any] = []
    houses = {
        "shut": House("shut", TableError("Nobody is at home.")),
        **{f"h{heads}": PacedHouse(heads, log) for heads in (3, 4)},
    }
    with pytest.raises(TableError, match="at home") as caught:
        InProcess(houses, at_once=2).sum(HeadcountAsk(0))
    assert caught.value.party == "shut"
    assert log == [("begins", 3), ("ends", 3)] or not log  # nobody is at work any more


def test_nobody_is_at_work_any_more_when_a_job_is_interrupted():
    """Ctrl-C while waiting for a reply: its party must not continue in the background."""
    log: list[Any] = []
    at_work = Event()

    class Interrupted(Exception):  # noqa: N818  stands for Ctrl-C
        pass

    class Slow(PacedHouse):
        def answer(self, ask):
            at_work.set()
            sleep(0.2)
            return super().answer(ask)

    channel = InProcess({"h3": Slow(3, log), "h4": PacedHouse(4, log)}, at_once=2)
    calls = channel._calls(("h3", "h4"), NameAsk(), channel._sizes(NameAsk()))
    next(calls)
    assert at_work.wait(10)
    with pytest.raises(Interrupted):
        calls.throw(Interrupted())
    assert ("ends", 3) in log


def test_nobody_is_at_work_any_more_when_replies_cannot_be_added():
    log: list[Any] = []

    class Odd(House):
        def answer(self, _ask):
            return HeadcountReply(np.zeros((1, 2), np.int64))

    class Slow(PacedHouse):
        def answer(self, ask):
            sleep(0.2)
            return super().answer(ask)

    houses = {"h3": House("h3", 3), "odd": Odd("odd", 1), "h5": Slow(5, log)}
    with pytest.raises(ProtocolError, match="differ in shape") as caught:
        InProcess(houses, at_once=2).sum(HeadcountAsk(0))
    at_the_end = list(log)
    sleep(0.4)
    assert log == at_the_end, caught  # whose traceback keeps the round's frames alive


def test_the_size_of_a_question_is_found_once_and_before_anybody_is_at_work(monkeypatch):
    """Parties that answer at once share the round's sizes: nothing iterates over them meanwhile."""
    found: list[Any] = []
    size = codec.Measure.size

    def noted(measure, message):
        found.append((type(message).__name__, current_thread() is main_thread()))
        return size(measure, message)

    monkeypatch.setattr(codec.Measure, "size", noted)
    channel = InProcess({f"h{n}": House(f"h{n}", n) for n in range(5)}, at_once=2)
    channel.sum(HeadcountAsk(0))
    assert [where for what, where in found if what == "HeadcountAsk"] == [True]
