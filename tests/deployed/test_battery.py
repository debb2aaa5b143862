"""What an enrolled peer can reach, tried: every certificate, every method, every frame, and junk.

Everything that the coordinator's port knows is enumerated here from its own code, so that a new
method or frame without a case fails. Each attempt is refused, with the peer's name in the audit
log; the connections, the files and the run stay as they were.
"""

import hashlib
import pickle
import socket
import ssl
import time
from contextlib import suppress
from itertools import islice, repeat
from threading import Event

import grpc
import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    Authority,
    agreed_job,
)
from deployed.served import MEMBER, Served  # type: ignore[import-not-found]
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import words_signed
from spinney.errors import StorageError
from spinney.transport.remote import calling, frames, serving
from spinney.transport.remote.kits import Credentials
from spinney.transport.remote.serving import SERVICE
from spinney.version import __version__

EVERY_FRAME = frames.RemoteFrame.__subclasses__()
FOLDER = {"lead": ASKER, "member": MEMBER, "north": "north"}
JOB = b'{"kind":"train"}'
EXAMPLES = {
    frames.Hello: frames.Hello(frames.VERSION, "place", "", 0, __version__),
    frames.Decision: frames.Decision(1, "", ""),
    frames.Part: frames.Part(1, b"x", b""),
    frames.Said: frames.Said(1, b"x"),
    frames.Welcome: frames.Welcome(),
    frames.Unwelcome: frames.Unwelcome("no"),
    frames.Offer: frames.Offer(1, "run", 1, CLINICS, JOB, b"", b""),
    frames.Ahead: frames.Ahead(1, b"x"),
    frames.Inquiry: frames.Inquiry(1, b"x"),
    frames.End: frames.End("run", 1),
    frames.Submit: frames.Submit("run", JOB, b""),
    frames.Resume: frames.Resume("run", JOB, b""),
    frames.Runs: frames.Runs(),
    frames.Show: frames.Show("run"),
    frames.Abort: frames.Abort("run"),
    frames.Fetch: frames.Fetch("run"),
    frames.Present: frames.Present(),
    frames.Done: frames.Done(b""),
    frames.Refused: frames.Refused("", ""),
}
MAY = {  # what each certificate may do; anything else must be refused
    "lead": {frames.Runs, frames.Present},
    "member": {frames.Runs, frames.Present},
    "north": set(),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = Served(tmp_path_factory.mktemp("battery"))
    with made.up(*CLINICS):
        agreed = msgspec.structs.replace(agreed_job(made.folder), name="mine")
        made.run = made.submit(agreed)
        assert made.over(made.run).state == "finished"
        made.wait(lambda: is_settled(made))
        yield made


def is_settled(served):
    """Return whether all sides have written down that the run ended: they do so after its end."""
    before = files_of(served)
    time.sleep(0.5)
    return files_of(served) == before


@pytest.fixture(autouse=True)
def unharmed(served):
    """After every attempt, connections, files and the run are as they were."""
    before = files_of(served), served.status(served.run), served.attendance.names()
    yield
    served.wait(lambda: served.attendance.names() == before[2])
    assert (files_of(served), served.status(served.run)) == before[:2]


def files_of(served):
    """Return a digest of every file of the coordinator and the parties."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(served.folder.rglob("*"))
        if path.is_file() and path.name != "places.json"
    }


def channel_of(served, folder):
    kit = served.folder / folder / "kit"
    return calling._channel(Credentials.of(kit), served.port)


def requested(served, folder, data):
    """Return the coordinator's answer to a person's request."""
    with channel_of(served, folder) as channel:
        call = channel.stream_stream(f"/{SERVICE}/request")(iter([data]), timeout=20)
        return frames.decode(b"".join(frames.joined(call)), frames.TO_PERSON)


def attended(served, folder, parts):
    """Return what the coordinator sends to who opens a party's stream and sends these pieces."""
    with channel_of(served, folder) as channel:
        call = channel.stream_stream(f"/{SERVICE}/attend")(iter(parts), timeout=20)
        with suppress(grpc.RpcError):
            return [frames.decode(data, frames.TO_PARTY) for data in frames.joined(call)]
        return []


def silence(free):
    """Say nothing until one is free to go."""
    free.wait(60)
    yield b""


def test_there_is_a_case_for_every_frame_that_exists():
    assert set(EXAMPLES) == set(EVERY_FRAME)


def test_the_port_has_two_methods_and_answers_no_other(served, caplog):
    methods, others = served.server._server._state.generic_handlers
    known = list(methods._method_handlers)
    assert isinstance(others, serving._Unknown)
    assert sorted(known) == [f"/{SERVICE}/attend", f"/{SERVICE}/request"]
    names = ("shell", "deploy", "shutdown", "../request", "sys.shell", "")
    with channel_of(served, "lead") as channel:
        for path in (*(f"/{SERVICE}/{name}" for name in names), "/grpc.reflection/Info", "/x"):
            with pytest.raises(grpc.RpcError) as caught:
                list(channel.unary_stream(path)(b"", timeout=20))
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    refused = [said for said in caplog.messages if f"Refused {ASKER}" in said]
    assert len(refused) == len(names) + 2


@pytest.mark.parametrize("kind", EVERY_FRAME, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("who", FOLDER)
def test_every_certificate_with_every_frame_as_a_request(served, who, kind, caplog):
    answer = requested(served, who, frames.encode(EXAMPLES[kind]))
    if kind in MAY[who]:
        assert isinstance(answer, frames.Done)
        return
    assert isinstance(answer, frames.Refused)
    assert any(f"Refused {FOLDER[who]}" in said for said in caplog.messages)


@pytest.mark.parametrize("kind", EVERY_FRAME, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("who", ["lead", "member"])
def test_a_person_attends_nothing(served, who, kind, caplog):
    (answer,) = attended(served, who, frames.pieces(frames.encode(EXAMPLES[kind])))
    assert answer == frames.Unwelcome("only parties attend")
    assert any(f"Refused {FOLDER[who]}" in said for said in caplog.messages)


@pytest.mark.parametrize("kind", EVERY_FRAME, ids=lambda kind: kind.__name__)
def test_a_party_s_stream_takes_three_kinds_of_frames_if_asked(served, kind, caplog):
    """A new party says hello, and then every frame that exists."""
    served.kit(f"eve-{kind.__name__}", "eve", "client")
    parts = [
        frames.encode(frames.Hello(frames.VERSION, "there", "", 0, __version__)),
        frames.encode(EXAMPLES[kind]),
    ]
    pieces = [piece for part in parts for piece in frames.pieces(part)]
    said = attended(served, f"eve-{kind.__name__}", pieces)
    assert said in ([frames.Welcome()], [])  # then it is closed: nobody had asked
    served.wait(lambda: any("The connection of eve was closed" in one for one in caplog.messages))
    for path in (served.folder / f"eve-{kind.__name__}").rglob("*"):
        if path.is_file():
            path.unlink()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 1000,
        pickle.dumps(print),
        msgspec.msgpack.encode({"type": "Runs", "extra": 1}),
        msgspec.msgpack.encode({"type": "os.system", "run": "x"}),
        msgspec.msgpack.encode({"type": "Show", "run": ["x"]}),
        msgspec.msgpack.encode(["Show", "x"]),
        b"\x91" * 100_000,
    ],
    ids=["empty", "zeros", "pickle", "extra", "class", "type", "list", "deep"],
)
@pytest.mark.parametrize("who", FOLDER)
def test_what_is_no_frame_is_refused(served, who, data, caplog):
    answer = requested(served, who, data)
    assert isinstance(answer, frames.Refused)
    assert "os.system" not in answer.text
    assert any(f"Refused {FOLDER[who]}" in said for said in caplog.messages)


@pytest.mark.parametrize("run", ["../../north", "/etc", "..", ".", "", "a/b", "x" * 65, "a\0b"])
@pytest.mark.parametrize("kind", [frames.Show, frames.Abort, frames.Fetch])
def test_a_run_s_name_is_no_path(served, kind, run, caplog):
    answer = requested(served, "lead", frames.encode(kind(run)))
    assert isinstance(answer, frames.Refused)
    assert "There is no such run" in answer.text
    assert any(f"Refused {ASKER}" in said for said in caplog.messages)


@pytest.mark.parametrize("run", ["../../north", "/etc", "..", "", "a/b", "x" * 65])
@pytest.mark.parametrize("kind", [frames.Submit, frames.Resume])
def test_a_new_run_s_name_is_no_path(served, kind, run, caplog):
    kit = served.folder / "lead" / "kit"
    signature = KitIdentity(kit).sign(words_signed(run, JOB))
    answer = requested(served, "lead", frames.encode(kind(run, JOB, signature)))
    assert isinstance(answer, frames.Refused)
    assert "A run's id must be letters" in answer.text
    assert any(f"Refused {ASKER}" in said for said in caplog.messages)


def signed(served, who, run, job):
    kit = served.folder / who / "kit"
    return KitIdentity(kit).sign(words_signed(run, job))


def test_a_job_counts_only_with_the_sender_s_own_signature_for_this_run(served, caplog):
    job = agreed_job(served.folder).to_bytes()
    (served.folder / "job.toml").unlink()
    right = signed(served, "lead", "one", job)
    cases = {
        "nobody": frames.Submit("one", job, b""),
        "another run": frames.Submit("two", job, right),
        "another job": frames.Submit("one", job.replace(b'"q3"', b'"q4"'), right),
        "a member": frames.Submit("one", job, signed(served, "member", "one", job)),
        "a party": frames.Submit("one", job, signed(served, "north", "one", job)),
    }
    for frame in cases.values():
        answer = requested(served, "lead", frames.encode(frame))
        assert isinstance(answer, frames.Refused)
        assert "not signed by a lead" in answer.text
    assert sum(f"Refused {ASKER}" in said for said in caplog.messages) == len(cases)
    agreed_job(served.folder)  # the file is as it was


def test_a_run_is_not_submitted_twice(served, caplog):
    kit = served.folder / "lead" / "kit"
    job = (served.file.runs / served.run / "job.json").read_bytes()
    again = frames.Submit(served.run, job, KitIdentity(kit).sign(words_signed(served.run, job)))
    answer = requested(served, "lead", frames.encode(again))
    assert isinstance(answer, frames.Refused)
    assert "There is already a run with this id" in answer.text
    assert any(f"Refused {ASKER}" in said for said in caplog.messages)


def test_a_request_that_is_too_large_is_cut_off(served, caplog):
    with pytest.raises(grpc.RpcError) as caught:
        requested(served, "lead", bytes(frames.SMALL + 1))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    served.wait(lambda: any(f"Refused {ASKER}" in said for said in caplog.messages))


def test_a_frame_without_end_is_cut_off(served, caplog):
    served.kit("endless", "endless", "client")
    hello = frames.encode(frames.Hello(frames.VERSION, "there", "", 0, __version__))
    piece = b"\0" + bytes(frames.PIECE)
    attended(served, "endless", [*frames.pieces(hello), *islice(repeat(piece), 64)])
    served.wait(lambda: any("The connection of endless was closed" in m for m in caplog.messages))
    for path in (served.folder / "endless").rglob("*.*"):
        path.unlink()


def test_a_replayed_hello_replaces_only_its_own_place(served, caplog):
    (answer,) = attended(
        served,
        "north",
        frames.pieces(frames.encode(frames.Hello(frames.VERSION, "elsewhere", "", 0, __version__))),
    )
    assert answer == frames.Unwelcome("the start kit of 'north' is in use in another place")
    assert any("Refused north" in said for said in caplog.messages)


def test_another_version_is_refused_in_words(served, caplog):
    (answer,) = attended(
        served, "north", frames.pieces(frames.encode(frames.Hello(1, "there", "", 0, __version__)))
    )
    assert answer == frames.Unwelcome("it speaks another version of Spinney's messages")
    assert any("Refused north" in said for said in caplog.messages)


@pytest.mark.parametrize("role", ["server", "no role", "admin", "project_admin", "lead,client"])
def test_a_certificate_with_any_other_role_reaches_nothing(served, role, caplog):
    folder = f"role-{role}"
    kit = served.kit(folder, "odd", role)
    startup = kit / "startup"
    for ending in ("crt", "key"):
        with suppress(FileNotFoundError):
            (startup / f"server.{ending}").rename(startup / f"client.{ending}")
    for frame in EXAMPLES.values():
        assert isinstance(requested(served, folder, frames.encode(frame)), frames.Refused)
    said = attended(served, folder, frames.pieces(frames.encode(EXAMPLES[frames.Hello])))
    assert said == [frames.Unwelcome("only parties attend")]
    assert any("Refused odd" in one for one in caplog.messages)
    for path in startup.glob("*"):
        path.unlink()


def is_answered(served, kit):
    """Tell whether the coordinator answers who shows this certificate, or none."""
    context = ssl.create_default_context(cafile=served.file.kit / "startup" / "rootCA.pem")
    context.check_hostname = False
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    context.set_alpn_protocols(["h2"])
    if kit is not None:
        context.load_cert_chain(kit / "startup/client.crt", kit / "startup/client.key")
    try:
        with (
            socket.create_connection(("localhost", served.port), 20) as plain,
            context.wrap_socket(plain) as wrapped,
        ):
            wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            return wrapped.recv(9) != b""
    except (ssl.SSLError, ConnectionError):
        return False


def test_only_a_valid_certificate_of_the_authority_is_answered(served, tmp_path):
    served.authority.kit(tmp_path / "expired", "north", days=-1)
    served.authority.kit(tmp_path / "early", "north", first=3)
    Authority(2).kit(tmp_path / "foreign", "north")
    assert is_answered(served, served.folder / "north" / "kit")
    assert not is_answered(served, None)
    for kit in ("expired", "early", "foreign"):
        assert not is_answered(served, tmp_path / kit)


def test_a_thousand_idle_connections_and_garbage_keep_nobody_out(served):
    held = []
    try:
        for number in range(1000):
            plain = socket.create_connection(("127.0.0.1", served.port), 20)
            if number % 2:
                plain.sendall(b"\x16\x03\x01garbage" * 20)
            held.append(plain)
        answer = requested(served, "lead", frames.encode(frames.Runs()))
        assert isinstance(answer, frames.Done)
    finally:
        for plain in held:
            plain.close()


def test_many_open_streams_of_one_peer_keep_nobody_out(served, caplog, monkeypatch):
    """Two hundred streams that never say hello, and a lead who still gets an answer."""
    free = Event()
    with channel_of(served, "north") as channel:
        opened = channel.stream_stream(f"/{SERVICE}/attend")
        calls = [opened(silence(free), timeout=60) for _ in range(200)]
        served.wait(lambda: any("Refused north" in said for said in caplog.messages))
        answer = requested(served, "lead", frames.encode(frames.Runs()))
        assert isinstance(answer, frames.Done)
        free.set()
        for call in calls:
            call.cancel()


def test_who_says_nothing_is_not_waited_for(served, monkeypatch, caplog):
    monkeypatch.setattr(serving, "_HELLO_SECONDS", 0.3)
    free = Event()
    assert attended(served, "north", silence(free)) == []
    free.set()
    served.wait(lambda: any("north" in said for said in caplog.messages))


def test_small_pieces_and_long_greetings_are_refused():
    for parts in ([b"\0x", b"\1y"], [b""], [b"\2x"]):
        with pytest.raises(StorageError, match="got more, or no piece"):
            list(frames.joined(parts))
    with pytest.raises(StorageError, match="A message is malformed"):
        frames.decode(frames.encode(frames.Hello(2, "x" * 65, "", 0, __version__)), frames.Hello)


def test_a_party_that_nobody_asked_may_send_little(served, caplog):
    served.kit("talker", "talker", "client")
    hello = frames.encode(frames.Hello(frames.VERSION, "there", "", 0, __version__))
    much = frames.encode(frames.Said(0, bytes(1 << 21)))
    attended(served, "talker", [*frames.pieces(hello), *frames.pieces(much)])
    served.wait(lambda: any("The connection of talker was closed" in m for m in caplog.messages))
    for path in (served.folder / "talker").rglob("*.*"):
        path.unlink()


def test_requests_without_a_body_keep_nobody_out(served, monkeypatch):
    """Calls that begin and never send: they are few under one name, and do not last."""
    monkeypatch.setattr(serving, "_HELLO_SECONDS", 1.0)
    free = Event()
    with channel_of(served, "member") as channel:
        opened = channel.stream_stream(f"/{SERVICE}/request")
        calls = [opened(silence(free), timeout=30) for _ in range(100)]
        answer = requested(served, "lead", frames.encode(frames.Runs()))
        assert isinstance(answer, frames.Done)
        free.set()
        for call in calls:
            call.cancel()
