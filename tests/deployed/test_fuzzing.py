"""Whatever bytes or texts arrive: a Spinney error and no other, no hang, no data in it."""

import json
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    kits,
    write_party,
)
from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.job import Agreed
from spinney.deployment.party.config import load_party
from spinney.deployment.questions import ModelAsk, ProposalAsk
from spinney.errors import SpinneyError
from spinney.jobs.file import load_job
from spinney.jobs.registry import SPECS
from spinney.protocols.verified.channel import VerifiedSums
from spinney.transport import codec
from spinney.transport.journal import Finished, Sums
from spinney.transport.remote import frames
from spinney.transport.remote.wire import Answer, Envelope

BOUNDED = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
ASKS = {ask.__name__: ask for spec in SPECS.values() for ask in spec.asks}
KINDS = [*ASKS.values(), *(ask.reply_type for ask in ASKS.values())]
KINDS += [Envelope, Answer, Finished, Sums, ModelAsk, ProposalAsk]
CANARY = "canary-4711"
WORDS = (
    *("[party]", "[table]", "[policy]", "[ledger]", "[coordinator]", "[limits]", "[job]"),
    *('name = "x"', "name = 3", 'source = "csv"', "port = -1", "port = 1e999", "host = []"),
    *("min_parties = 0", "epsilon_total = nan", "never = 7", "[[party]]", "silence_seconds = 0"),
    *('kind = "number"', "[table.columns]", "age = { kind = 3 }", "parties = [1]", "quorum = 0"),
)


def refusal(call, *arguments):
    """Return what may be told of a refusal; any other error fails the test."""
    try:
        call(*arguments)
    except SpinneyError as error:
        return error.public
    return ""


def damaged(data: bytes, cuts: list[tuple[int, int]]) -> bytes:
    """Return a message with some bytes overwritten, and perhaps cut short."""
    found = bytearray(data)
    for place, value in cuts:
        if value == 256:
            del found[place % (len(found) + 1) :]
        elif found:
            found[place % len(found)] = value
    return bytes(found)


DAMAGE = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 256)), min_size=1, max_size=8)


@BOUNDED
@given(st.binary(max_size=400), st.sampled_from(KINDS))
def test_random_bytes_are_refused(data, kind):
    data += CANARY.encode()
    for whole in (data, b"SPNY\x01" + len(data).to_bytes(4, "little") + data):
        assert CANARY not in refusal(codec.decode, whole, kind)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Real messages of a job: what a coordinator sent, and what came back."""
    folder = tmp_path_factory.mktemp("messages")
    kits(folder)
    for name in CLINICS:
        write_party(folder, name)
    agreed = agreed_job(folder, n_estimators=2, max_depth=2)
    sites = Sites(folder, agreed)
    messages: list[bytes] = []
    inner = sites.bytes_to

    def listening(targets, data):
        came = inner(targets, data)
        messages.extend([data, *came.values()])
        return came

    sites.bytes_to = listening
    settings_ = agreed.protocol_settings()
    agreed.spec.train(VerifiedSums(sites.keyed()), settings_, n_jobs=1, progress=lambda *_: None)
    sites.close()
    return folder, agreed, messages


@BOUNDED
@given(st.data(), DAMAGE)
def test_damaged_messages_are_refused_or_answered(questions, data, damage):
    _, _, messages = questions
    message = damaged(data.draw(st.sampled_from(messages)), damage)
    for kind in (Envelope, Answer):
        try:
            opened: Any = codec.decode(message, kind)
        except SpinneyError:
            continue
        inside = ASKS.get(opened.kind)
        if kind is Envelope and inside is not None:
            assert len(refusal(codec.decode, opened.body, inside)) < 300


@settings(BOUNDED, max_examples=60)
@given(st.data(), DAMAGE)
def test_a_party_survives_damaged_questions(questions, data, damage):
    folder, agreed, messages = questions
    asked = [m for m in messages if is_question(m)]
    envelope = codec.decode(data.draw(st.sampled_from(asked)), Envelope)
    body = damaged(envelope.body, damage)
    hurt = codec.encode(Envelope("run-1", 1, 1, envelope.kind, body))
    sites = Sites(folder, agreed)
    answer = codec.decode(sites.residents["north"].answer(hurt), Answer)
    sites.close()
    assert answer.state in ("reply", "refused")
    assert str(folder) not in answer.text


def is_question(message):
    try:
        codec.decode(message, Envelope)
    except SpinneyError:
        return False
    return True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@BOUNDED
@given(JSON, st.sampled_from(list(Agreed.__struct_fields__)), st.binary(max_size=50))
def test_jobs_from_elsewhere_are_refused_or_sound(tmp_path_factory, value, field, junk):
    folder = tmp_path_factory.mktemp("job")
    job = json.loads(agreed_job(folder).to_bytes())
    job[field] = value
    for data in (json.dumps(job).encode(), junk):
        try:
            found = Agreed.of_bytes(data)
            found.protocol_settings()
        except SpinneyError:
            continue
        assert Agreed.of_bytes(found.to_bytes()) == found


TEXTS = st.text(max_size=200) | st.lists(
    st.sampled_from(WORDS),
    max_size=12,
).map("\n".join)


@BOUNDED
@given(TEXTS)
def test_files_are_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("files") / "file.toml"
    path.write_text(text, encoding="utf-8", errors="ignore")
    for load in (load_party, load_coordinator, lambda p: load_job(p, deployed=True)):
        assert len(refusal(load, path)) < 5000


@BOUNDED
@given(st.binary(max_size=200) | JSON.map(msgspec.json.encode))
def test_frames_are_read_or_refused(data):
    for kind in (frames.ANSWERS, frames.TO_PARTY, frames.REQUESTS, frames.TO_PERSON, frames.Hello):
        assert CANARY not in refusal(lambda data, kind=kind: frames.decode(data, kind), data)


@BOUNDED
@given(st.lists(st.binary(max_size=50), max_size=5))
def test_pieces_are_joined_or_refused(parts):
    refusal(lambda parts: list(frames.joined(parts, lambda: 100)), parts)


@BOUNDED
@given(st.binary(max_size=3000))
def test_a_frame_arrives_as_it_was_sent_in_pieces(data):
    with patch.object(frames, "PIECE", 1000):
        parts = list(frames.pieces(data))
    assert all(len(part) <= 1001 for part in parts)
    assert list(frames.joined(parts)) == [data]
