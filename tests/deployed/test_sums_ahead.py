"""Sums that come back while the rest goes up: over real connections, and with hostile ends.

A job whose parties are all needed sends the words or counts of an answer in parts, and gets their
sum in parts. Parts are small here, so that every step has many.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from threading import Event, local
from typing import Any

import pytest
from msgspec.structs import replace

from deployed.handmade import CLINICS, agreed_job  # type: ignore[import-not-found]
from deployed.one_process import models_of  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.errors import ProtocolError
from spinney.report.report import load_report
from spinney.transport.remote import ahead, calling
from spinney.transport.remote.attendance import PartyStream
from spinney.transport.remote.frames import Inquiry, Part, Said
from spinney.trees import fields, told_ahead

KINDS: dict[str, dict[str, Any]] = {
    "blind": {"coordinator": '"blind"', "secure_sum": "true"},
    "sighted": {"coordinator": '"sighted"', "secure_sum": "true"},
    "open": {"coordinator": None, "secure_sum": "false"},
}
ALL = pytest.mark.parametrize("kind", KINDS)
OPEN_TOO = pytest.mark.parametrize("kind", ["blind", "open"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("ahead")).up(*CLINICS) as made:
        yield made


@pytest.fixture(autouse=True)
def _in_small_parts(monkeypatch):
    monkeypatch.setattr(ahead, "PART", 64)
    monkeypatch.setattr(told_ahead, "_CHUNK", 256)
    monkeypatch.setattr(fields, "_CHUNK_COUNTERS", 256)


@dataclass
class Line:
    """What went down each party's connection: bytes ahead, and questions."""

    ahead: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLINICS, 0))
    questions: list[Inquiry] = field(default_factory=list)


@pytest.fixture
def line(monkeypatch):
    """Listen on the lines."""
    seen, send_ahead, send = Line(), PartyStream.send_ahead, PartyStream.send

    def ahead_too(stream, data):
        seen.ahead[stream.name] += len(data)
        send_ahead(stream, data)

    def sent(stream, frame):
        if isinstance(frame, Inquiry):
            seen.questions.append(frame)
        send(stream, frame)

    monkeypatch.setattr(PartyStream, "send_ahead", ahead_too)
    monkeypatch.setattr(PartyStream, "send", sent)
    return seen


def run_of(served, kind, name, job="", **settings):
    agreed = agreed_job(served.folder, job, **(KINDS[kind] | settings))
    agreed = replace(agreed, name=f"{kind}-{name}")
    return agreed, served.submit(agreed)


def grown(served, agreed, run):
    """Return the status of a run that must have ended with the pooled model."""
    status = served.over(run)
    assert status.state == "finished", status
    model = (served.file.runs / run / "model.spinney").read_bytes()
    assert model == models_of(served.folder, agreed)[""]
    return status


@ALL
def test_sums_come_ahead_and_the_model_is_the_pooled_one(served, line, kind):
    agreed, run = run_of(served, kind, "ahead")
    assert grown(served, agreed, run).attempt == 1
    (sent,) = set(line.ahead.values())
    assert sent > 500
    put_together = [one for one in line.questions if one.at >= 0]
    assert len(put_together) >= 3 * (4 if kind == "blind" else 2)  # levels alone, if they are read
    report = load_report(served.file.runs / run)
    down = sum(sum(one.bytes_down.values()) for one in report.traffic)
    assert down > 3 * sent  # what came ahead is counted with the question that it belongs to
    assert not any(one.question == "Reveal" for one in report.traffic)


@ALL
def test_sums_that_may_be_over_fewer_parties_do_not_come_ahead(served, line, kind):
    """A sum over all, and then one over fewer, would show what the one that left has."""
    honest = {} if kind == "open" else {"honest": 2}
    agreed, run = run_of(served, kind, "of-some", "quorum = 2", **honest)
    grown(served, agreed, run)
    assert not any(line.ahead.values())
    assert all(one.at < 0 for one in line.questions)


@ALL
def test_a_connection_that_is_cut_between_a_sum_and_its_question_costs_no_attempt(
    served, line, monkeypatch, kind
):
    """Its party is sent the question whole; the others need only what is left of theirs."""
    send_ahead, cut = PartyStream.send_ahead, Event()

    def cutting(stream, data):
        send_ahead(stream, data)
        if stream.name == "north" and line.ahead["north"] > 300 and not cut.is_set():
            cut.set()
            served.attendance.dismiss("north")

    monkeypatch.setattr(PartyStream, "send_ahead", cutting)
    agreed, run = run_of(served, kind, "cut")
    assert grown(served, agreed, run).attempt == 1
    assert cut.is_set()


@ALL
def test_a_sum_that_was_changed_on_the_way_ends_the_run(served, monkeypatch, kind):
    """The coordinator tells north another sum ahead than it tells the others."""
    send = PartyStream.send

    def lying(stream, frame):
        if type(frame).__name__ == "Ahead" and stream.name == "north":
            frame = replace(frame, data=frame.data[:-1] + bytes([frame.data[-1] ^ 1]))
        send(stream, frame)

    monkeypatch.setattr(PartyStream, "send", lying)
    _, run = run_of(served, kind, "changed")
    status = served.over(run)
    assert status.state == "failed"
    assert "is not what the parties replied" in status.message
    assert not (served.file.runs / run / "model.spinney").exists()


def withhold(monkeypatch, is_held):
    """Let the coordinator say that a sum went ahead to north, and hold some of it back."""
    send, held = PartyStream.send, []

    def withholding(stream, frame):
        if type(frame).__name__ == "Ahead" and stream.name == "north":
            held.append(frame)
            if is_held(len(held)):
                return
        send(stream, frame)

    monkeypatch.setattr(PartyStream, "send", withholding)
    return held


@OPEN_TOO
def test_a_party_that_was_sent_nothing_ahead_connects_again_for_its_question(
    served, monkeypatch, caplog, kind
):
    held = withhold(monkeypatch, lambda _: True)
    agreed, run = run_of(served, kind, "withheld")
    assert grown(served, agreed, run).attempt == 1
    assert held
    assert any("lacks what should have come ahead of it" in one for one in caplog.messages)


@OPEN_TOO
def test_a_party_that_was_sent_only_some_of_a_sum_answers_nothing(served, monkeypatch, kind):
    withhold(monkeypatch, lambda number: number == 2)
    _, run = run_of(served, kind, "some")
    status = served.over(run)
    assert status.state in ("failed", "paused"), status
    assert not (served.file.runs / run / "model.spinney").exists()


def changed_answers(monkeypatch, *changes):
    """Let north send other frames for its first answers in parts, once for each change.

    It is asked again as often as its connection ends.
    """
    true, say, speaking = ahead.frames_of, calling._Work._say, local()
    numbers: list[int] = []

    def saying(work, number, said):
        speaking.name = work._party._path.parent.name
        say(work, number, said)

    def other(number, answer):
        made = list(true(number, answer))
        if speaking.name == "north" and len(made) > 4 and len(numbers) < len(changes):
            numbers.append(number)
            made = changes[len(numbers) - 1](made)
        return iter(made)

    monkeypatch.setattr(calling._Work, "_say", saying)
    monkeypatch.setattr(calling, "frames_of", other)
    return numbers


def as_one(made):
    """Send the parts, and then the whole answer."""
    *parts, last = made
    data = b"".join(part.data for part in parts)
    return [*parts, Said(last.number, ahead.whole(last.body, last.at, data))]


def with_other_numbers(made):
    """Send zeros, as one that has made up its mind anew does: they have the digest of zeros."""
    *parts, last = made
    zeros = bytes(sum(len(part.data) for part in parts))
    digest = sha256(ahead.whole(last.body, last.at, zeros)).digest()
    other = [replace(part, data=bytes(len(part.data)), digest=digest) for part in parts]
    return [*other, last]


OTHER_PARTS = {
    "short": lambda made: [*made[:1], *made[2:]],
    "long": lambda made: [*made[:-1], made[0], made[-1]],
    "swapped": lambda made: [made[1], made[0], *made[2:]],
    "replayed": lambda made: [made[0], made[0], *made[2:]],
    "changed at the end": lambda made: [
        *made[:-2],
        replace(made[-2], data=bytes(len(made[-2].data))),
        made[-1],
    ],
    "announced anew": lambda made: [*made[:-2], replace(made[-2], digest=b"another"), made[-1]],
    "and the whole": as_one,
}


@OPEN_TOO
@pytest.mark.parametrize("which", OTHER_PARTS)
def test_a_party_that_sends_other_parts_than_it_began_with_is_cut_off(
    served, monkeypatch, caplog, which, kind
):
    """It is asked again when it is back; here it then says the truth."""
    changed = changed_answers(monkeypatch, OTHER_PARTS[which])
    agreed, run = run_of(served, kind, f"parts-{which.replace(' ', '-')}")
    assert grown(served, agreed, run).attempt == 1
    assert changed
    said = "The parts of its answer are not those that it began with."
    assert any(said in one for one in caplog.messages)


@ALL
def test_a_party_cannot_answer_by_what_it_has_seen_of_the_sum(served, line, monkeypatch, kind):
    """It sees the sum of all but its last part, leaves, comes back, and says something else."""

    def slowly(made):
        before = dict(line.ahead)
        yield from made[:-2]
        served.wait(lambda: all(line.ahead[name] > before[name] for name in CLINICS))
        yield as_one(made)[-1]  # which ends the connection

    changed_answers(monkeypatch, slowly, with_other_numbers)
    _, run = run_of(served, kind, "rushing")
    status = served.over(run)
    assert status.state == "failed", status
    assert "It answered otherwise after it saw a part of the sum." in status.message


def test_a_party_that_sends_parts_that_nobody_asked_for_is_cut_off(served):
    stream = served.attendance._streams["north"]
    number = stream._number
    stream._asked = b""
    with pytest.raises(ProtocolError, match="more parts than an answer may have, or nobody asked"):
        stream.heard(Part(number, b"x", b""))
    with pytest.raises(ProtocolError, match="question that was never asked"):
        stream.heard(Part(number + 1, b"x", b""))
