"""A person's session with the coordinator, through the engine's admin interface."""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, Final
from zipfile import ZipFile

from cryptography import x509
from cryptography.x509.oid import NameOID

from spinney.errors import MissingExtraError, PolicyError, ProtocolError, SettingError, SpinneyError
from spinney.transport.flare.jobs import write_job

RESULT_KIND, RESULT_NAME = "LOG", "result"
"""The name of a job's result in the engine's store, which knows only its own kinds."""

_CONNECT_SECONDS: Final = 40.0
_TRY_SECONDS: Final = 10.0  # a try that began too early does not notice a coordinator started later
_UNWELCOME: Final = "register_client unauthenticated"  # the engine's own words
_EVERY: Final = 0.5  # seconds


class Session:
    """An open connection of one person to the coordinator."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def submit(self, name: str, parties: tuple[str, ...], job: bytes, **extra: Any) -> str:
        """Submit an engine job; return its id."""
        with TemporaryDirectory() as place:
            folder = Path(place) / name
            write_job(folder, name, parties, job, **extra)
            return str(self._done(self._inner.submit_job, str(folder)))

    def meta(self, job: str) -> dict[str, Any]:
        """Return the engine's record of a job."""
        return dict(self._done(self._inner.get_job_meta, job))

    def jobs(self) -> list[dict[str, Any]]:
        """Return the engine's records of all jobs, newest first."""
        return list(self._done(self._inner.list_jobs, detailed=True, reverse=True))

    def abort(self, job: str) -> None:
        """End an engine job."""
        self._done(self._inner.abort_job, job)

    def fetch(self, job: str, folder: Path) -> None:
        """Copy the files that the coordinator added to a job as its result.

        The engine's own archive of a job appears only some seconds after the work is done.
        """
        found = self._done(self._inner.download_job_components, job)
        archive = None if found is None else Path(found) / f"{RESULT_KIND}_{RESULT_NAME}"
        if archive is None or not archive.is_file():
            raise ProtocolError(f"The job {job!r} has no result.")
        folder.mkdir(parents=True, exist_ok=True)
        with ZipFile(archive) as files:
            for name in files.namelist():
                (folder / Path(name).name).write_bytes(files.read(name))
        shutil.rmtree(found, ignore_errors=True)

    def connected(self) -> list[str]:
        """Return the parties that are connected."""
        info = self._done(self._inner.get_system_info)
        return sorted(client.name for client in info.client_info)

    @staticmethod
    def _done(call: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except Exception as error:  # noqa: BLE001  the engine's errors have no common base
            raise _told(error) from None


@contextmanager
def session(kit: Path) -> Iterator[Session]:
    """Connect as the person whose start kit this is."""
    try:
        from nvflare.fuel.flare_api.flare_api import new_secure_session  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("nvflare", "flare", "A deployed job") from None
    # The engine's cells log to stderr what our errors say; the names of its loggers vary.
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    person, until = person_of(kit), monotonic() + _CONNECT_SECONDS
    while True:
        try:
            # Our output may be one JSON document, and we report errors in our own words.
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                inner = new_secure_session(person, str(kit), timeout=_TRY_SECONDS)
            break
        except Exception as error:  # noqa: BLE001  the engine's errors have no common base
            told = _told(error)
        if type(told) is not ProtocolError or monotonic() > until:
            raise told
        sleep(_EVERY)
    try:
        yield Session(inner)
    finally:
        inner.close()


def person_of(kit: Path) -> str:
    """Return the name of the person that the start kit belongs to."""
    try:
        certificate = x509.load_pem_x509_certificate((kit / "startup" / "client.crt").read_bytes())
        json.loads((kit / "startup" / "fed_admin.json").read_text())
    except (OSError, ValueError):
        raise SettingError(
            f"{str(kit)!r} is not the start kit of a person who may start jobs. Name it with --kit."
        ) from None
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def _told(error: Exception) -> SpinneyError:
    """Translate the engine's error."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    if kind in {"NoConnection", "SessionClosed", "ConnectionError", "TimeoutError"}:
        return ProtocolError(
            "The coordinator does not answer. Is 'spinney coordinator run' running, and is its "
            "address the one in the start kit?"
        )
    if kind == "AuthorizationError":
        return PolicyError(
            "Your role does not allow this. Ask the coordinator for the role 'lead'."
        )
    if kind in {"AuthenticationError", "InvalidCertChain"}:
        return PolicyError("The coordinator does not accept your certificate.")
    if _UNWELCOME in f"{text} {error.__context__}":
        return PolicyError(
            "The coordinator refused you: you were removed from the federation. Ask the "
            "coordinator."
        )
    if kind == "JobNotFound":
        return SettingError("There is no such job. 'spinney job list' shows all jobs.")
    return ProtocolError(f"The engine refused: {kind}: {text}"[:500])
