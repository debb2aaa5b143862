"""A coordinator and leads that attack: what a party's stream, or a race, can be made to do.

The coordinator's end of a party's stream is played here, with its true certificate. Whatever it
sends, the party's files stay as they were, its audit log says so, and the next true offer is taken.
"""

import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue
from threading import Barrier, Event, Thread
from types import SimpleNamespace
from typing import Any, get_args

import grpc
import msgspec
import pytest

from deployed.handmade import ASKER, CLINICS, agreed_job, write_party  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import words_signed
from spinney.deployment.party.attending import AttendingParty
from spinney.errors import SettingError, SpinneyError
from spinney.transport import codec
from spinney.transport.remote import calling, frames
from spinney.transport.remote.frames import Decision, End, Inquiry, Offer, Said, Submit
from spinney.transport.remote.kits import Credentials
from spinney.transport.remote.serving import SERVICE
from spinney.transport.remote.wire import REFUSED, Answer, Envelope

LOGS = ("spinney.jsonl", "audit.jsonl")


class Hostile:
    """A coordinator that sends a party what it likes, and keeps what the party says."""

    def __init__(self, folder):
        self.home = Served(folder)  # its kits; it does not listen
        self.party = AttendingParty(folder / "north" / "party.toml")
        self.job = agreed_job(folder)
        self.lead = folder / "lead" / "kit"

    def sends(self, *parts):
        """Send pieces of frames to the party; return what it says until the stream ends."""
        said: SimpleQueue[Any] = SimpleQueue()

        def attend(coming, context):
            Thread(target=listen, args=(coming, said), daemon=True).start()
            yield from frames.pieces(frames.encode(frames.Welcome()))
            yield from parts
            self.home.wait(lambda: said.qsize() >= self.expected or not context.is_active(), 20)

        own = Credentials.of(self.home.file.kit, "server")
        server = grpc.server(ThreadPoolExecutor(4))
        handler = {"attend": grpc.stream_stream_rpc_method_handler(attend)}
        known = grpc.method_handlers_generic_handler(SERVICE, handler)
        server.add_generic_rpc_handlers((known,))
        pair = [(own.key, own.certificate)]
        secure = grpc.ssl_server_credentials(pair, own.authority, require_client_auth=True)
        server.add_secure_port(f"127.0.0.1:{self.home.port}", secure)
        server.start()
        try:
            kit = self.home.folder / "north" / "kit"
            with suppress(SpinneyError):
                calling.attend(Credentials.of(kit), "here", self.party, lambda: None)
        finally:
            server.stop(0).wait()
        return [said.get() for _ in range(said.qsize())][1:]  # after its hello

    def frames(self, *sent, answers=1):
        """Send frames; return what the party says."""
        self.expected = 1 + answers
        return self.sends(*(p for one in sent for p in frames.pieces(frames.encode(one))))

    def offer(self, run="run", attempt=1, present=CLINICS, job=None, signer=None, **more):
        """Return an offer that a lead signed, or somebody else."""
        kit = signer or self.lead
        data = self.job.to_bytes() if job is None else job
        certificate = (kit / "startup" / "client.crt").read_bytes()
        signature = KitIdentity(kit).sign(words_signed(run, data))
        return Offer(1, run, attempt, present, data, certificate, signature, **more)


def listen(coming, said):
    with suppress(grpc.RpcError):
        for data in frames.joined(coming):
            said.put(frames.decode(data, frames.ANSWERS | frames.Hello))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def hostile(made, caplog):
    """After every attempt, the party's files are as they were, and its audit log has a line."""
    before = files_of(made.home.folder)
    yield made
    assert files_of(made.home.folder) == before
    audited = [one for one in caplog.get_records("call") if one.name == "spinney.audit"]
    assert any("oordinator" in one.getMessage() for one in audited)


def files_of(folder):
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in LOGS
    }


NOT_FOR_A_PARTY = [
    frames.Hello(1, "x", "", 0, "1"),
    Decision(1, "", ""),
    frames.Part(1, b"x", b""),
    Said(1, b"x"),
    Submit("run", b"{}", b""),
    frames.Resume("run", b"{}", b""),
    frames.Runs(),
    frames.Show("run"),
    frames.Abort("run"),
    frames.Fetch("run"),
    frames.Present(),
    frames.Done(b""),
    frames.Refused("", ""),
]
JUNK = {
    "empty": b"\1",
    "zeros": b"\1" + bytes(1000),
    "pickle": b"\1" + pickle.dumps(print),
    "class": b"\1" + msgspec.msgpack.encode({"type": "os.system", "run": "x"}),
    "extra": b"\1" + msgspec.msgpack.encode({"type": "Welcome", "more": 1}),
    "deep": b"\1" + b"\x91" * 100_000,
    "no piece": b"\2x",
    "short piece": b"\0x",
}


def test_every_frame_is_for_a_party_or_tried_here():
    kinds = {type(one) for one in NOT_FOR_A_PARTY} | set(get_args(frames.TO_PARTY))
    assert kinds == set(frames.RemoteFrame.__subclasses__())


@pytest.mark.parametrize("frame", NOT_FOR_A_PARTY, ids=lambda frame: type(frame).__name__)
def test_a_frame_that_is_not_for_a_party_ends_the_connection(hostile, frame):
    assert hostile.frames(frame) == []


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("data", [b"x", b"", bytes(1 << 20)], ids=len)
def test_what_comes_ahead_of_nothing_ends_the_connection(hostile, number, data):
    """No part of an answer has left, so there is no sum of parts."""
    assert hostile.frames(frames.Ahead(number, data)) == []


def test_a_question_without_what_should_have_come_ahead_ends_the_connection(hostile):
    assert hostile.frames(Inquiry(1, b"question", 0)) == []


@pytest.mark.parametrize("what", JUNK)
def test_what_is_no_frame_ends_the_connection(hostile, what):
    hostile.expected = 2
    assert hostile.sends(JUNK[what]) == []


def test_a_frame_without_end_ends_the_connection(hostile, monkeypatch):
    monkeypatch.setattr(frames, "FRAME_LIMIT", 1 << 21)
    hostile.expected = 2
    assert hostile.sends(*[b"\0" + bytes(frames.PIECE)] * 8) == []


@pytest.mark.parametrize("run", ["../../x", "/etc/x", "..", "", "a/b", "a\0b", "x" * 65, "run\n"])
def test_a_run_is_no_path_for_a_party(hostile, run):
    (said,) = hostile.frames(hostile.offer(run))
    assert (said.kind, said.reason) == ("PolicyError", "The job has no valid run id.")


@pytest.mark.parametrize("attempt", [0, -1, -(2**62)])
def test_an_attempt_is_a_number_from_one(hostile, attempt):
    (said,) = hostile.frames(hostile.offer(attempt=attempt))
    assert said.kind == "PolicyError"


@pytest.mark.parametrize(
    "present", [(), ("st-mary",), ("north", "north"), ("north", "../x"), ("north",) * 500]
)
def test_an_attempt_is_among_the_parties_of_its_job(hostile, present):
    run = f"of-{present.count('north')}-{len(set(present))}"
    (said,) = hostile.frames(hostile.offer(run, present=present))
    assert said.kind == "PolicyError"


def test_only_a_lead_s_signature_counts(hostile):
    home = hostile.home.folder
    for folder in ("member", "north", "st-mary"):
        (said,) = hostile.frames(hostile.offer(f"of-{folder}", signer=home / folder / "kit"))
        assert "not signed by a lead" in said.reason
    true = hostile.offer("one")
    for changes in (
        {"run": "two"},
        {"signature": b""},
        {"certificate": b"no certificate"},
        {"certificate": pickle.dumps(print)},
        {"job": true.job.replace(b'"q3"', b'"q4"')},
    ):
        (said,) = hostile.frames(msgspec.structs.replace(true, **changes))
        assert said.kind


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("protocol", "os.system"),
        ("protocol", "../../x"),
        ("protocol", "spinney.cli.main:app"),
        ("name", "../../x"),
        ("name", "x\0y"),
        ("task", "__import__('os')"),
        ("kind", "shell"),
        ("settings", {"__class__": "os.system"}),
        ("parties", ["north", "../x", "st-mary"]),
        ("model", "../../x"),
        ("more", "x"),
    ],
)
def test_a_signed_job_names_no_code_and_no_path(hostile, key, value):
    said = msgspec.json.decode(hostile.job.to_bytes()) | {key: value}
    offer = hostile.offer(f"job-{key}", job=msgspec.json.encode(said))
    (said,) = hostile.frames(offer)
    assert said.kind
    assert "os.system" not in said.reason or key == "protocol"


@pytest.mark.parametrize("job", [b"", b"x" * (1 << 21), b"[" * 100_000, pickle.dumps(print)])
def test_what_is_no_job_is_refused(hostile, job):
    (said,) = hostile.frames(hostile.offer(f"junk-{len(job)}", job=job))
    assert said.kind in ("StorageError", "SettingError")


def test_questions_before_an_offer_and_junk_after_it_release_nothing(made, caplog):
    hostile, run = made, "joined"
    envelopes = [
        Envelope(run, 2, 1, "TermsAsk", b""),
        Envelope("../x", 1, 1, "TermsAsk", b""),
        Envelope(run, 1, 1, "os.system", b""),
        Envelope(run, 1, 2, "StepAsk", pickle.dumps(print)),
        Envelope(run, 1, 1, "StepAsk", b""),  # an old number
    ]
    asked = [Inquiry(n, codec.encode(one)) for n, one in enumerate(envelopes, 3)]
    said = hostile.frames(
        Inquiry(1, b"x"),
        End("../../x", 1),
        hostile.offer(run),
        Inquiry(2, pickle.dumps(print)),
        *asked,
        End(run, 7),
        answers=7,
    )
    joined, *answers = said
    assert joined == Decision(1, "", "", joined.head)
    states = [codec.decode(one.body, Answer) for one in answers]
    assert [one.state for one in states] == [REFUSED] * 6
    assert {one.body for one in states} == {b""}
    assert sum("of the coordinator was refused" in said for said in caplog.messages) == 6
    assert not list(hostile.home.folder.rglob("disclosures*"))
    hostile.party.end(run, 1)
    (again,) = hostile.frames(hostile.offer(run))  # replayed
    assert again.reason == "This attempt was offered before. Nothing was released."


def test_one_run_submitted_twice_at_once_is_one_run(tmp_path_factory, caplog):
    """Two leads race with one id: one run, with one signature, is what the other is refused."""
    home = Served(tmp_path_factory.mktemp("race"))
    names = (ASKER, "carol@clinics.example.org")
    kits = [home.folder / "lead" / "kit", home.kit("carol", names[1], "lead")]
    job = agreed_job(home.folder).to_bytes()
    together = Barrier(8)

    def submitted(number):
        kit = kits[number % 2]
        signature = KitIdentity(kit).sign(words_signed("raced", job))
        with calling.session(kit) as opened:
            together.wait(300)
            try:
                opened.request(Submit("raced", job, signature))
            except SettingError as error:
                return str(error)
            return ""

    with home.up(), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(submitted, range(8)))
        runs = [path.name for path in home.file.runs.iterdir() if path.is_dir()]
        submitter = home.status("raced").submitter
    assert set(found) == {"", "There is already a run with this id. Start the job again."}
    assert found.count("") == 1
    assert runs == ["raced"]
    assert submitter == names[found.index("") % 2]
    assert sum("Refused" in said and "already a run" in said for said in caplog.messages) == 7


def test_an_end_that_meets_the_next_offer_does_not_lose_its_ledger(tmp_path):
    """The end of an attempt reads the ledger; the next offer closes it, and waits for that."""
    write_party(tmp_path, "north")
    party: Any = AttendingParty(tmp_path / "north" / "party.toml")
    steps, begun, free = [], Event(), Event()

    class Heads:
        def end(self, _):
            begun.set()
            assert free.wait(300)
            steps.append("ended")

    party._side = SimpleNamespace(heads=Heads(), close=lambda: steps.append("closed"))
    party._resident = SimpleNamespace(close=lambda: None, wait=lambda _: True)
    party._attempt = ("run", 1)
    with ThreadPoolExecutor(2) as pool:
        ending = pool.submit(party.end, "run", 1, (b"a head",))
        assert begun.wait(300)
        leaving = pool.submit(party._leave, 1.0)
        assert not wait([leaving], 0.2).done
        free.set()
        ending.result()
        leaving.result()
    assert steps == ["ended", "closed"]
