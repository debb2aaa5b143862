"""Metrics and health of a running process, over HTTP on 127.0.0.1; off unless its file says so.

`/metrics` is for Prometheus; `/health` answers 200 while the process is connected, and else 503
with the reason. They hold no data of any table, but every user of the machine can read them.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any, Final

from spinney.deployment.standing import (
    CONNECTED,
    LISTENING,
    MetricsConfig,
    ProcessStanding,
    StandingFile,
)
from spinney.errors import MissingExtraError, SettingError

_HERE: Final = "127.0.0.1"
_OWN_NAMES: Final = (_HERE, "localhost")
_SECONDS: Final = 5.0  # for a request


@dataclass(frozen=True)
class Reading:
    """A number that is measured, or several by label."""

    name: str
    words: str
    value: float | Mapping[str, float]
    label: str = ""
    is_counter: bool = False


Measuring = Callable[[], Sequence[Reading]]


def measures_of(
    standing: ProcessStanding, folder: Path, days: Mapping[str, float]
) -> list[Reading]:
    """Return what is measured of every process.

    Parameters
    ----------
    folder
        Its free space is measured.
    days
        The days until certificates expire.
    """
    certificate = "Days until a certificate expires."
    return [
        Reading("started_seconds", "When the process began, as Unix time.", standing.started),
        Reading("certificate_days", certificate, days, "certificate"),
        Reading("disk_free_bytes", "Free space on the disk.", shutil.disk_usage(folder).free),
        Reading("version", "Always 1.", {standing.spinney: 1.0}, "spinney"),
        Reading("cage", "Always 1.", {standing.cage: 1.0}, "kind"),
    ]


def port_of(config: MetricsConfig | None) -> tuple[int, ...]:
    """Return the port for metrics, if there is one."""
    return () if config is None else (config.port,)


@contextmanager
def observed(
    config: MetricsConfig | None, standing: StandingFile, measure: Measuring
) -> Iterator[None]:
    """Serve metrics and health while the block runs, if the process's file says so."""
    if config is None:
        yield
        return
    if find_spec("prometheus_client") is None:
        raise MissingExtraError("prometheus_client", "deploy", "The section [metrics]")
    try:
        server = _Server((_HERE, config.port), _handler(standing, measure))
    except OSError as error:
        raise SettingError(
            f"Port {config.port} of [metrics] cannot be used: {error.strerror}. Stop what uses it, "
            "or choose another port."
        ) from None
    Thread(target=server.serve_forever, name="spinney-metrics", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever asked has gone away."""


def _handler(standing: StandingFile, measure: Measuring) -> type[BaseHTTPRequestHandler]:
    """Return what answers the requests."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_GET(self) -> None:
            """Answer a request."""
            # A page in a browser of this machine must not read it under a name of its own.
            host = str(self.headers.get("Host", "")).rsplit(":", 1)[0]
            if host not in _OWN_NAMES:
                self._reply(403, "text/plain", b"Ask 127.0.0.1.\n")
            elif self.path == "/health":
                code, said = health_of(standing.now)
                self._reply(code, "application/json", json.dumps(said).encode() + b"\n")
            elif self.path == "/metrics":
                self._reply(200, "text/plain; version=0.0.4; charset=utf-8", rendered(measure()))
            else:
                self._reply(404, "text/plain", b"There are /metrics and /health.\n")

        def _reply(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log no requests."""

    return Handler


def health_of(now: ProcessStanding) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and the words for how a process stands."""
    if now.state == CONNECTED:
        return 200, {"state": now.state}
    if now.state == LISTENING:
        return 200, {"state": now.state, "connected": sorted(now.heard)}
    return 503, {"state": now.state, "reason": now.reason or "It has not connected yet."}


def rendered(measures: Sequence[Reading]) -> bytes:
    """Return measures as Prometheus reads them."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    class Collector:
        def collect(self) -> Iterator[Any]:
            for one in measures:
                kind = CounterMetricFamily if one.is_counter else GaugeMetricFamily
                labels = [one.label] if one.label else []
                family = kind(f"spinney_{one.name}", one.words, labels=labels)
                named = one.value if isinstance(one.value, Mapping) else {"": one.value}
                for label, value in named.items():
                    family.add_metric([label] if one.label else [], value)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return bytes(generate_latest(registry))
