"""The connection to the workers of a party's cluster: Dask, and the only module that knows it.

Dask sends Python objects between its processes with `pickle`, and a scheduler or worker can
therefore run code in the party. So the cluster must be the party's own, and the connection must be
encrypted and signed on both sides (TLS), or stay on this machine. What another organisation has
written crosses it only as bytes that `transport.codec` reads; Dask never sees more of it.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from spinney.errors import MissingExtraError, ProtocolError, SettingError, TableError
from spinney.version import __version__

_CONNECT_SECONDS: Final = 20
_LARGEST_QUESTION: Final = "1 GiB"  # Dask warns of arguments that are larger
_TLS_FILES: Final = ("ca.pem", "cert.pem", "key.pem")
_RESULT_SECONDS: Final = 60
PATIENCE: Final = 60.0  # seconds without any worker, or with one that is paused


class Missing(Enum):
    """Why a future has no result."""

    PENDING = "its worker is still at it, or is lost"
    LOST = "its worker is lost"


@dataclass(frozen=True)
class ClusterAddress:
    """Where the party's cluster is, and the folder of its certificates if it is elsewhere."""

    address: str
    tls: Path | None = None

    def __post_init__(self) -> None:
        place = self._place()
        if place.scheme == "tls":
            self._require_certificates()
        elif self.tls is not None:
            raise SettingError(
                f"cluster_tls names certificates, but cluster = {self.address!r} uses none. Use "
                "tls://host:port, or drop cluster_tls."
            )
        elif not _is_loopback(place.hostname or ""):
            raise SettingError(
                f"cluster = {self.address!r} is on another machine and not encrypted. Whoever "
                "answers there runs code in this party, so it must prove who it is: use "
                "tls://host:port and cluster_tls, or tcp://127.0.0.1:port on this machine."
            )

    def _place(self) -> Any:
        try:
            place = urlsplit(self.address)
            known = place.scheme in ("tls", "tcp") and place.hostname and place.port
        except ValueError:
            known = False
        if not known:
            raise SettingError(
                f"cluster must be the address of a Dask scheduler, tls://host:port or "
                f"tcp://127.0.0.1:port; got {self.address!r}."
            )
        return place

    @property
    def port(self) -> int:
        """The port of the scheduler."""
        return int(self._place().port)

    @property
    def files(self) -> tuple[Path, ...]:
        """The authority's certificate, the party's own, and its key."""
        return () if self.tls is None else tuple(self.tls / name for name in _TLS_FILES)

    def _require_certificates(self) -> None:
        if self.tls is None:
            raise SettingError(
                f"cluster = {self.address!r} needs cluster_tls, the folder with "
                f"{', '.join(_TLS_FILES)} of the party's cluster."
            )
        missing = [path.name for path in self.files if not path.is_file()]
        if missing:
            raise SettingError(
                f"The folder that cluster_tls names has no {missing[0]}. It needs "
                f"{', '.join(_TLS_FILES)}."
            )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _require_dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise MissingExtraError("distributed", "cluster", "A table on a cluster") from None


def versions() -> dict[str, str]:
    """Return the versions that must be the same at the party and at its workers."""
    return {"spinney": __version__, "distributed": str(_require_dask().__version__)}


class Workers:
    """A connection to a running cluster."""

    def __init__(self, where: ClusterAddress) -> None:
        distributed = _require_dask()
        self._distributed = distributed
        security = None
        if where.tls is not None:
            authority, own, key = map(str, where.files)
            security = distributed.Security(
                tls_ca_file=authority,
                tls_client_cert=own,
                tls_client_key=key,
                require_encryption=True,
            )
        importlib.import_module("dask").config.set(
            {"distributed.admin.large-graph-warning-threshold": _LARGEST_QUESTION}
        )
        try:
            # Through the scheduler only: the party's cage opens one port.
            self._client = distributed.Client(
                where.address,
                timeout=_CONNECT_SECONDS,
                security=security,
                set_as_default=False,
                direct_to_workers=False,
                name="spinney",
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise TableError(
                "The cluster of this party's table does not answer. Check that its scheduler "
                "runs, and its certificates.",
                local=f"Address: {where.address}. {error}",
            ) from None

    def close(self) -> None:
        """Leave the cluster; the workers forget the party's rows."""
        self._client.close()

    def look(self) -> "Look":
        """Return which workers are there."""
        try:
            found = self._client.sync(self._client.scheduler.identity)["workers"]
        except OSError as error:
            raise _silent(error) from None
        return Look(
            {address: int(found[address]["nthreads"]) for address in sorted(found)},
            frozenset(address for address in found if found[address]["status"] == "paused"),
        )

    def wait_for_one(self) -> None:
        """Wait until there is a worker; raise if none comes."""
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise TableError(
                "The cluster of this party's table has no workers. Start some, with Spinney "
                "installed."
            ) from None

    def require_same_versions(self) -> None:
        """Raise if the cluster runs other versions than the party: its counts might differ."""
        try:
            found = {"the scheduler": self._client.run_on_scheduler(versions)}
            found |= self._client.run(versions)
        except Exception as error:  # noqa: BLE001  whatever another Python says
            raise TableError(
                "The cluster of this party's table cannot run Spinney. Install the party's version "
                "at its scheduler and at every worker.",
                local=repr(error),
            ) from None
        own = versions()
        for address, theirs in found.items():
            for package in own:
                if theirs[package] != own[package]:
                    raise TableError(
                        f"This party's cluster has another version of {package} than the party. "
                        "Install the same version everywhere.",
                        local=f"{address} has {theirs[package]}; the party has {own[package]}.",
                    )

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function at any worker, and return its result."""
        future = self._client.submit(function, *arguments, pure=False)
        try:
            return future.result(timeout=_RESULT_SECONDS)
        except TimeoutError as error:
            raise _silent(error) from None

    def submit(self, address: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function at one worker and nowhere else; return a future."""
        return self._client.submit(
            function, *arguments, workers=[address], allow_other_workers=False, pure=False
        )

    def wait(self, futures: Sequence[Any], seconds: float) -> None:
        """Wait until one of the futures is done, but no longer than this."""
        with suppress(TimeoutError, CancelledError), self._client.as_current():
            self._distributed.wait(futures, timeout=seconds, return_when="FIRST_COMPLETED")

    def outcome(self, future: Any) -> Any:
        """Return the result of a future, or why it is missing."""
        if future.status == "pending":
            return Missing.PENDING
        if future.status in {"lost", "cancelled"}:
            return Missing.LOST
        try:
            return future.result(timeout=_RESULT_SECONDS)
        except TimeoutError:
            return Missing.PENDING  # its worker left after it was done
        except (self._distributed.KilledWorker, CancelledError):
            return Missing.LOST
        except Exception as error:  # noqa: BLE001  its text may hold data and stays here
            raise ProtocolError(
                "A worker of this party's cluster failed.", local=f"{type(error).__name__}: {error}"
            ) from None


def _silent(error: OSError) -> TableError:
    return TableError(
        "The cluster of this party's table does not answer any more. Start it again, and then the "
        "job.",
        local=str(error),
    )


@dataclass(frozen=True)
class Look:
    """The workers that are there.

    Attributes
    ----------
    threads
        How many threads each has, by its address.
    paused
        Those that do nothing because their memory is nearly full.
    """

    threads: Mapping[str, int]
    paused: frozenset[str]
