"""The coordinator's port: what a certificate of the federation can reach, and nothing else.

There are two methods. `attend` is a party's stream; `request` takes one frame of a person. Who asks
is read from the certificate of the connection, never from a message. Anything else is refused, and
the refusal is logged with the peer's name.
"""

import logging
from collections.abc import Iterator
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

AUDIT: Final = logging.getLogger("spinney.audit")
_LOG: Final = logging.getLogger("spinney.coordinator")
SERVICE: Final = "spinney.Federation"
_STREAMS: Final = 64  # threads: two for each party, one for each request
_AT_ONCE: Final = 4  # requests, or greetings, of one peer
_HELLO_SECONDS: Final = 10.0
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
        self._limit = min(door.message_bytes, frames.FRAME_LIMIT)
        self._busy: dict[str, int] = {}
        self._lock = Lock()
        pool = ThreadPoolExecutor(_STREAMS, thread_name_prefix="spinney-peer")
        self._server = grpc.server(
            pool,
            options=_SERVER_OPTIONS,
            maximum_concurrent_rpcs=_STREAMS,
            compression=grpc.Compression.Gzip,  # models and questions shrink; answers would not
        )
        handlers = {
            "attend": grpc.stream_stream_rpc_method_handler(self._attend),
            "request": grpc.unary_stream_rpc_method_handler(self._request),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
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
        impatience = Timer(_HELLO_SECONDS, context.cancel)
        impatience.daemon = True
        impatience.start()
        try:
            with self._counted(peer):
                hello, arriving = self._met(peer, coming)
        except SpinneyError as error:
            yield from _refused_stream(peer, error)
            return
        finally:
            impatience.cancel()
        stream = self._attendance.enter(peer, hello)
        if stream is None:
            elsewhere = PolicyError(f"the start kit of {peer.name!r} is in use in another place")
            yield from _refused_stream(peer, elsewhere)
            return
        context.add_callback(lambda: self._attendance.leave(stream))
        reading = Thread(target=self._read, args=(stream, arriving), daemon=True)
        reading.start()
        stream.send(Welcome())
        yield from stream.outgoing()

    def _met(self, peer: Peer, coming: Iterator[bytes]) -> tuple[Hello, Iterator[bytes]]:
        """Return a party's first frame, and the frames that follow."""
        if peer.role != PARTY:
            raise PolicyError("only parties attend")
        why = self._desk.refuses(peer)
        if why:
            raise PolicyError(why)
        arriving = frames.joined(coming, self._limit)
        hello = frames.decode(next(arriving, b""), Hello)
        if hello.version != frames.VERSION:
            raise PolicyError("it speaks another version of Spinney's messages")
        return hello, arriving

    def _read(self, stream: PartyStream, arriving: Iterator[bytes]) -> None:
        """Take a party's frames until it leaves, or sends what nobody asked for."""
        try:
            for data in arriving:
                stream.heard(frames.decode(data, frames.ANSWERS))
        except SpinneyError as error:
            AUDIT.warning("The connection of %s was closed: %s", stream.name, error)
        except grpc.RpcError:
            pass  # the connection ended
        except Exception:  # noqa: BLE001  one party's stream must not end the others'
            _LOG.exception("The connection of %s failed.", stream.name)
        self._attendance.leave(stream)

    # --- people ----------------------------------------------------------------------------------

    def _request(self, data: bytes, context: Any) -> Iterator[bytes]:
        """One request of a person."""
        peer = _peer(context)
        yield from frames.pieces(frames.encode(self._answered(peer, data)))

    def _answered(self, peer: Peer, data: bytes) -> Done | Refused:
        try:
            with self._counted(peer):
                self._require_welcome(peer)
                return Done(self._desk.answer(peer, frames.decode(data, frames.REQUESTS)))
        except SpinneyError as error:
            AUDIT.warning("Refused %s (%s): %s", peer.name, peer.role, error)
            return Refused(type(error).__name__, error.public)
        except Exception:  # noqa: BLE001  its text stays here
            _LOG.exception("A request of %s failed.", peer.name)
            return Refused("InternalError", "The coordinator failed; see its log.")

    @contextmanager
    def _counted(self, peer: Peer) -> Iterator[None]:
        """Let a peer keep only a few threads busy."""
        with self._lock:
            if self._busy.get(peer.name, 0) >= _AT_ONCE:
                raise PolicyError("Too many requests are open under this name. Try again.")
            self._busy[peer.name] = self._busy.get(peer.name, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._busy[peer.name] -= 1

    def _require_welcome(self, peer: Peer) -> None:
        why = self._desk.refuses(peer)
        if why:
            raise PolicyError(f"The coordinator refused you: {why}. Ask the coordinator.")


def _peer(context: Any) -> Peer:
    """Return whose certificate a connection shows; TLS has checked it against the authority."""
    (pem,) = context.auth_context()["x509_pem_cert"]
    return holder_of(x509.load_pem_x509_certificate(pem))


def _refused_stream(peer: Peer, error: SpinneyError) -> Iterator[bytes]:
    AUDIT.warning("Refused %s (%s): %s.", peer.name, peer.role, str(error).rstrip("."))
    yield from frames.pieces(frames.encode(Unwelcome(error.public)))
