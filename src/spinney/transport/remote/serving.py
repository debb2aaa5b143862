"""The coordinator's port: what a certificate of the federation can reach, and nothing else.

There are two methods. `attend` is a party's stream; `request` takes one frame of a person. Who asks
is read from the certificate of the connection, never from a message. Anything else is refused, and
the refusal is logged with the peer's name.
"""

import logging
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, Thread, Timer
from typing import Any, Final, Protocol

import grpc
from cryptography import x509

from spinney.errors import PolicyError, SettingError, SpinneyError
from spinney.transport.remote import frames
from spinney.transport.remote.attendance import Attendance, PartyStream
from spinney.transport.remote.certificates import PARTY, Peer, holder_of
from spinney.transport.remote.frames import Done, Hello, Refused, RemoteFrame, Unwelcome, Welcome
from spinney.transport.remote.kits import Credentials
from spinney.version import __version__

AUDIT: Final = logging.getLogger("spinney.audit")
_LOG: Final = logging.getLogger("spinney.coordinator")
SERVICE: Final = "spinney.Federation"
_STREAMS: Final = 64  # threads: two for each party, one for each request
_AT_ONCE: Final = 4  # requests, or greetings, of one peer
_HELLO_SECONDS: Final = 10.0
_TAKE_SECONDS: Final = 60.0  # for a piece of a frame
_SAMPLE: Final = 1 << 14  # bytes of a piece that are compressed to try
_WORTH: Final = 0.95
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
OPTIONS: Final = (
    ("grpc.max_receive_message_length", frames.SMALL),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)
_SERVER_OPTIONS: Final = (
    *OPTIONS,
    ("grpc.so_reuseport", 0),  # a second coordinator must not share the port
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.max_concurrent_streams", _STREAMS),
    ("grpc.max_metadata_size", 8192),
    ("grpc.server_handshake_timeout_ms", 10_000),
)


class Desk(Protocol):
    """The coordinator's side of people's requests."""

    def refuses(self, peer: Peer) -> str:
        """Say why a certificate of the federation is refused all the same; empty if it is not."""
        ...

    def answer(self, peer: Peer, frame: RemoteFrame) -> bytes:
        """Carry out a person's request; raise if the person may not."""
        ...


@dataclass(frozen=True)
class Door:
    """Where the coordinator listens, and with which certificate."""

    own: Credentials
    ports: tuple[int, ...]
    message_bytes: int = frames.FRAME_LIMIT


class Server:
    """The coordinator's gRPC server."""

    def __init__(self, door: Door, desk: Desk, attendance: Attendance) -> None:
        self._desk = desk
        self._attendance = attendance
        attendance.most = min(door.message_bytes, frames.FRAME_LIMIT)
        self._busy: dict[str, int] = {}
        self._lock = Lock()
        pool = ThreadPoolExecutor(_STREAMS, thread_name_prefix="spinney-peer")
        self._server = grpc.server(
            pool,
            options=_SERVER_OPTIONS,
            maximum_concurrent_rpcs=_STREAMS,
            compression=grpc.Compression.Gzip,  # of what shrinks; see `_watched`
        )
        handlers = {
            "attend": grpc.stream_stream_rpc_method_handler(self._attend),
            "request": grpc.stream_stream_rpc_method_handler(self._request),
        }
        known = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((known, _Unknown()))
        own = door.own
        pair = (own.key, own.certificate)
        secure = grpc.ssl_server_credentials([pair], own.authority, require_client_auth=True)
        where = "127.0.0.1" if own.address.host in _LOCAL else "[::]"
        for port in door.ports:
            try:
                self._server.add_secure_port(f"{where}:{port}", secure)
            except RuntimeError:
                raise SettingError(
                    f"Port {port} cannot be used. Stop what uses it, or choose another port."
                ) from None

    def start(self) -> None:
        """Listen."""
        self._server.start()

    def stop(self, grace: float = 1.0) -> None:
        """End all connections."""
        for name in self._attendance.names():
            self._attendance.dismiss(name)
        self._server.stop(grace).wait()

    # --- parties ---------------------------------------------------------------------------------

    def _attend(self, coming: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """A party's stream."""
        peer = _peer(context)
        with self._counted(peer, context):
            yield from _watched(context, self._served(peer, coming, context))

    def _served(self, peer: Peer, coming: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Yield what a party is sent; a party that is not let in is told so, and no more."""
        limit = _Limit()
        try:
            with _in_time(context, _HELLO_SECONDS):
                hello, arriving = self._met(peer, coming, limit)
        except PolicyError as error:
            yield from _refused_stream(peer, error)
            return
        except SpinneyError as error:  # it may be let in at another time
            AUDIT.warning("The connection of %s was closed: %s", peer.name, error)
            context.abort(grpc.StatusCode.UNAVAILABLE, "The coordinator cannot let you in now.")
        except grpc.RpcError:
            _note_cut_off(peer)
            return
        stream = self._attendance.enter(peer, hello)
        if stream is None:
            elsewhere = PolicyError(f"the start kit of {peer.name!r} is in use in another place")
            yield from _refused_stream(peer, elsewhere)
            return
        limit.of = stream.limit
        stream.on_close = context.cancel
        context.add_callback(lambda: self._attendance.leave(stream))
        Thread(target=self._read, args=(stream, arriving), daemon=True).start()
        stream.send(Welcome())
        yield from stream.outgoing()

    def _met(
        self, peer: Peer, coming: Iterator[bytes], limit: "_Limit"
    ) -> tuple[Hello, Iterator[bytes]]:
        """Return a party's first frame, and the frames that follow."""
        if peer.role != PARTY:
            raise PolicyError("only parties attend")
        why = self._desk.refuses(peer)
        if why:
            raise PolicyError(why)
        arriving = frames.joined(coming, limit)
        hello = frames.decode(next(arriving, b""), Hello)
        if hello.version != frames.VERSION:
            raise PolicyError("it speaks another version of Spinney's messages")
        if hello.release != __version__:  # parties derive what they are asked, as all others do
            raise PolicyError(
                f"it runs Spinney {hello.release} and the coordinator {__version__}; all sides of "
                "a federation need the same version"
            )
        return hello, arriving

    def _read(self, stream: PartyStream, arriving: Iterator[bytes]) -> None:
        """Take a party's frames until it leaves, or sends what nobody asked for."""
        try:
            for data in arriving:
                stream.heard(frames.decode(data, frames.ANSWERS))
        except SpinneyError as error:
            AUDIT.warning("The connection of %s was closed: %s", stream.name, error)
        except grpc.RpcError:  # the connection ended, or a message was longer than any piece
            AUDIT.info("The connection of %s ended.", stream.name)
        except Exception:  # noqa: BLE001  one party's stream must not end the others'
            _LOG.exception("The connection of %s failed.", stream.name)
        self._attendance.leave(stream)

    # --- people ----------------------------------------------------------------------------------

    def _request(self, coming: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """One request of a person: one message, and its answer in pieces."""
        peer = _peer(context)
        with self._counted(peer, context):
            try:
                with _in_time(context, _HELLO_SECONDS):
                    data = next(coming, b"")
            except grpc.RpcError:
                _note_cut_off(peer)
                return
            answer = frames.pieces(frames.encode(self._answered(peer, data)))
            yield from _watched(context, answer)

    def _answered(self, peer: Peer, data: bytes) -> Done | Refused:
        try:
            self._require_welcome(peer)
            return Done(self._desk.answer(peer, frames.decode(data, frames.REQUESTS)))
        except SpinneyError as error:
            AUDIT.warning("Refused %s (%s): %s", peer.name, peer.role, error)
            return Refused(type(error).__name__, error.public)
        except Exception:  # noqa: BLE001  its text stays here
            _LOG.exception("A request of %s failed.", peer.name)
            return Refused("InternalError", "The coordinator failed; see its log.")

    @contextmanager
    def _counted(self, peer: Peer, context: Any) -> Iterator[None]:
        """Let a peer keep only a few threads busy, for as long as its calls last."""
        with self._lock:
            is_full = self._busy.get(peer.name, 0) >= _AT_ONCE
            if not is_full:
                self._busy[peer.name] = self._busy.get(peer.name, 0) + 1
        if is_full:
            AUDIT.warning("Refused %s: too many calls are open under this name.", peer.name)
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "Too many requests are open under this name. Try again.",
            )
        try:
            yield
        finally:
            with self._lock:
                self._busy[peer.name] -= 1

    def _require_welcome(self, peer: Peer) -> None:
        why = self._desk.refuses(peer)
        if why:
            raise PolicyError(f"The coordinator refused you: {why}. Ask the coordinator.")


class _Unknown(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Whatever is not one of the methods: refused, with the peer's name."""

    def service(self, handler_call_details: Any) -> Any:
        """Return what answers a call of any method."""
        del handler_call_details
        return grpc.stream_stream_rpc_method_handler(_refuse_method)


def _refuse_method(coming: Iterator[bytes], context: Any) -> Iterator[bytes]:
    del coming
    peer = _peer(context)
    AUDIT.warning("Refused %s (%s): there is no such method.", peer.name, peer.role)
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "There is no such method.")
    yield b""


def _note_cut_off(peer: Peer) -> None:
    AUDIT.warning(
        "Refused %s (%s): its message was too large, too late, or withdrawn.", peer.name, peer.role
    )


class _Limit:
    """How many bytes a party may send now: little before it is known, then what its stream says."""

    def __init__(self) -> None:
        self.of: Callable[[], int] = lambda: 0

    def __call__(self) -> int:
        return self.of()


@contextmanager
def _in_time(context: Any, seconds: float) -> Iterator[None]:
    """End a call that takes longer."""
    timer = Timer(seconds, context.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _watched(context: Any, made: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces; end the call of a peer that does not take one in time."""
    for piece in made:
        if not _shrinks(piece):
            context.disable_next_message_compression()
        with _in_time(context, _TAKE_SECONDS):  # gRPC comes back when the piece is on its way
            yield piece


def _shrinks(piece: bytes) -> bool:
    """Return whether compression is worth its time: models shrink, packed counts do not."""
    sample = piece[:_SAMPLE]
    return len(zlib.compress(sample, 1)) < _WORTH * len(sample)


def _peer(context: Any) -> Peer:
    """Return whose certificate a connection shows; TLS has checked it against the authority."""
    (pem,) = context.auth_context()["x509_pem_cert"]
    return holder_of(x509.load_pem_x509_certificate(pem))


def _refused_stream(peer: Peer, error: SpinneyError) -> Iterator[bytes]:
    AUDIT.warning("Refused %s (%s): %s.", peer.name, peer.role, str(error).rstrip("."))
    yield from frames.pieces(frames.encode(Unwelcome(error.public)))
