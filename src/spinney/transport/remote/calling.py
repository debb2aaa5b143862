"""The other end of the coordinator's port: a party that attends, a person that requests."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol

import grpc

from spinney import errors
from spinney.errors import InternalError, PolicyError, ProtocolError, SpinneyError, StorageError
from spinney.transport.remote import frames
from spinney.transport.remote.ahead import Arrived, Divided, frames_of
from spinney.transport.remote.frames import (
    Ahead,
    Decision,
    Done,
    End,
    Hello,
    Inquiry,
    Offer,
    Part,
    Present,
    Refused,
    RemoteFrame,
    Unwelcome,
    Welcome,
)
from spinney.transport.remote.kits import Address, Credentials
from spinney.transport.remote.serving import OPTIONS, SERVICE
from spinney.version import __version__

_LOG: Final = logging.getLogger("spinney.party")
_AUDIT: Final = logging.getLogger("spinney.audit")
_CONNECT_SECONDS: Final = 4.0
_LAST_SECONDS: Final = 0.5
_ATTEND: Final = f"/{SERVICE}/attend"
_REQUEST: Final = f"/{SERVICE}/request"


class Attending(Protocol):
    """A party, as its connection sees it."""

    @property
    def attempt(self) -> tuple[str, int]:
        """Which attempt of which run it is in."""
        ...

    def take(self, offer: Offer) -> Decision:
        """Take part in an attempt, or say why not."""
        ...

    def answer(self, body: bytes) -> Iterator[bytes]:
        """Yield that it is still working, as often as it likes, and then the answer."""
        ...

    def end(self, run: str, attempt: int, heads: Sequence[bytes] = (), why: str = "") -> None:
        """Stop taking part in an attempt."""
        ...


class NotAdmittedError(PolicyError):
    """The coordinator does not let this party in."""


def attend(own: Credentials, place: str, party: Attending, connected: Callable[[], None]) -> None:
    """Connect a party to its coordinator and serve it until the connection ends.

    Raise `ProtocolError` if it ended or could not begin, and `NotAdmittedError` if the coordinator
    does not want this party.
    """
    outgoing: SimpleQueue[RemoteFrame | None] = SimpleQueue()
    run, number = party.attempt
    outgoing.put(Hello(frames.VERSION, place, run, number, __version__))
    address = own.address
    with _channel(own, address.port) as channel:
        call = channel.stream_stream(_ATTEND)(_sent(outgoing), wait_for_ready=False)
        work = _Work(party, outgoing)
        try:
            for data in frames.joined(call):
                match frames.decode(data, frames.TO_PARTY):
                    case Welcome():
                        connected()
                    case Unwelcome(reason):
                        raise NotAdmittedError(reason)
                    case frame:
                        work.do(frame)
        except grpc.RpcError as error:
            raise ProtocolError(reason_of(error, address)) from None
        except StorageError as error:
            _AUDIT.warning("The coordinator sent what is no message: %s", error)
            raise
        finally:
            work.close()
            outgoing.put(None)
            call.cancel()


class _Work:
    """A party's work, in a thread of its own, so that the connection always listens."""

    def __init__(self, party: Attending, outgoing: "SimpleQueue[RemoteFrame | None]") -> None:
        self._party = party
        self._outgoing = outgoing
        self._tasks: SimpleQueue[RemoteFrame | None] = SimpleQueue()
        self._arrived = Arrived()
        Thread(target=self._run, name="spinney-answers", daemon=True).start()

    def do(self, frame: RemoteFrame) -> None:
        """Do what a frame asks, after what earlier ones asked."""
        match frame:
            case End():  # not after a long answer: it is no longer wanted
                self._party.end(frame.run, frame.attempt, frame.heads, frame.why)
            case Ahead():
                self._arrived.take(frame)
            case Inquiry():
                self._tasks.put(self._arrived.asked(frame))
            case _:
                self._arrived = Arrived()
                self._tasks.put(frame)

    def close(self) -> None:
        """Do no more."""
        self._tasks.put(None)

    def _run(self) -> None:
        while (frame := self._tasks.get()) is not None:
            try:
                match frame:
                    case Offer():
                        self._outgoing.put(self._party.take(frame))
                    case Inquiry(number, body):
                        for said in self._party.answer(body):
                            self._say(number, said)
            except Exception:  # noqa: BLE001  its text may hold data and stays here
                _LOG.exception("A message could not be answered.")

    def _say(self, number: int, said: bytes) -> None:
        worth = said.worth if isinstance(said, Divided) else 1
        for frame in frames_of(number, said):
            if isinstance(frame, Part):
                self._arrived.sent(frame, worth)
            self._outgoing.put(frame)


class Session:
    """A person's open connection to the coordinator."""

    def __init__(self, channel: Any, address: Address) -> None:
        self._call = channel.stream_stream(_REQUEST)
        self._address = address

    def request(self, frame: RemoteFrame, *, seconds: float = 60.0) -> bytes:
        """Make a request; return its result."""
        try:
            call = self._call(iter([frames.encode(frame)]), timeout=seconds)
            answer = frames.decode(b"".join(frames.joined(call)), frames.TO_PERSON)
        except grpc.RpcError as error:
            raise ProtocolError(reason_of(error, self._address)) from None
        if isinstance(answer, Refused):
            raise _error_of(answer)
        assert isinstance(answer, Done)
        return answer.result


@contextmanager
def session(kit: Path) -> Iterator[Session]:
    """Connect as the person whose start kit this is; raise soon if nobody answers."""
    own = Credentials.of(kit)
    with _channel(own, own.address.admin_port) as channel:
        opened = Session(channel, own.address)
        try:  # a coordinator that is just being started is waited for
            grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
        except grpc.FutureTimeoutError:
            opened.request(Present(), seconds=_LAST_SECONDS)  # which says why
        yield opened


def _error_of(answer: Refused) -> SpinneyError:
    kind = getattr(errors, answer.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, SpinneyError)):
        kind = InternalError
    error = SpinneyError.__new__(kind)
    SpinneyError.__init__(error, answer.text[:4096])
    return error


def _sent(outgoing: "SimpleQueue[RemoteFrame | None]") -> Iterator[bytes]:
    while (frame := outgoing.get()) is not None:
        yield from frames.pieces(frames.encode(frame))


def _channel(own: Credentials, port: int) -> Any:
    secure = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    options = (
        *OPTIONS,
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 500),
    )
    return grpc.secure_channel(f"{own.address.host}:{port}", secure, options)


def reason_of(error: Any, address: Address) -> str:
    """Say why there is no connection."""
    said = str(error.details() or "")
    for words, reason in _REASONS:
        if any(word in said for word in words):
            return reason.format(where=address.host)
    return _SILENT.format(where=address.host)


_REASONS: Final = (
    (
        ("certificate has expired",),
        "The certificate of the coordinator at {where} has expired. It must be renewed there.",
    ),
    (
        ("certificate is not yet valid",),
        (
            "The certificate of the coordinator at {where} is not valid yet. Is this machine's "
            "clock right?"
        ),
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED", "certificate signature failure"),
        (
            "The machine at {where} shows a certificate that this federation's authority did not "
            "sign. Do not go on; ask the coordinator by telephone."
        ),
    ),
    (
        ("Peer name", "Hostname"),
        "The certificate of the machine at {where} is for another name.",
    ),
    (
        ("ALPN", "WRONG_VERSION"),
        "What answers at {where} is not a Spinney coordinator.",
    ),
    (
        ("Socket closed", "Connection reset", "recvmsg", "Stream removed", "GOAWAY"),
        (
            "The coordinator at {where} closed the connection. It stopped, or it does not accept "
            "this certificate, which may have expired or belong to another federation."
        ),
    ),
)
_SILENT: Final = (
    "The coordinator does not answer. Is 'spinney coordinator run' running, and is its address the "
    "one in the start kit, {where}?"
)
