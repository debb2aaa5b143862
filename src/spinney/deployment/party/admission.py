"""The jobs that a party accepted, on which table, and how many began within an hour."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep, time
from typing import Final

import msgspec

from spinney.deployment.job import Agreed
from spinney.errors import PolicyError, ProtocolError, TableError
from spinney.files import hold_lock, replace_file
from spinney.report.words import some

_HOUR: Final = 3600.0
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class Acceptance(msgspec.Struct, frozen=True):
    """A job that the party accepted, and the fingerprint of its table at that time."""

    digest: str
    fingerprint: str
    at: float


class Accepted:
    """The jobs that a party accepted, by name."""

    def __init__(self, records: Path) -> None:
        self._folder = records / "accepted"

    def accept(self, job: Agreed, fingerprint: str) -> None:
        """Record an acceptance; it replaces that of an earlier job with the same name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        accepted = Acceptance(job.digest, fingerprint, time())
        replace_file(self._path(job), msgspec.json.encode(accepted))

    def require_same_job(self, job: Agreed) -> None:
        """Refuse a job that was changed after it was accepted."""
        known = self._known(job)
        if known is not None and known.digest != job.digest:
            raise PolicyError(
                f"Job {job.name!r} was changed after this party accepted it. Propose it again, or "
                "give the new job another name."
            )

    def require_same_table(self, job: Agreed, fingerprint: str) -> None:
        """Refuse a job whose table changed since it was accepted; accept a new job."""
        known = self._known(job)
        if known is None:
            self.accept(job, fingerprint)
        elif known.fingerprint != fingerprint:
            raise TableError(
                f"The table changed since this party accepted job {job.name!r}. Restore it, or "
                "propose the job again."
            )

    def _known(self, job: Agreed) -> Acceptance | None:
        try:
            return msgspec.json.decode(self._path(job).read_bytes(), type=Acceptance)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def _path(self, job: Agreed) -> Path:
        return self._folder / f"{_UNSAFE.sub('_', job.name)}.json"


def count_job(records: Path, party: str, most: int) -> None:
    """Record that a job begins; refuse it if too many began within an hour."""
    records.mkdir(parents=True, exist_ok=True)
    path = records / "begun.json"
    now = time()
    try:
        begun = [float(at) for at in json.loads(path.read_text())]
    except (FileNotFoundError, ValueError, TypeError):
        begun = []
    # A clock that was set back neither forgets jobs nor blocks the party for more than an hour.
    recent = [min(at, now) for at in begun if at > now - _HOUR]
    if len(recent) >= most:
        raise PolicyError(
            f"The policy of {party!r} allows {some(most, 'job', 'jobs')} to begin within "
            "an hour (rule 'jobs_per_hour'). Try again later."
        )
    replace_file(path, json.dumps([*recent, now]).encode())


@contextmanager
def alone(records: Path, seconds: float) -> Iterator[None]:
    """Be the only running job at this party; wait for a job that is just ending."""
    records.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        until = monotonic() + seconds
        while True:
            try:
                held.enter_context(hold_lock(records / "busy.lock"))
                break
            except BlockingIOError:
                if monotonic() > until:
                    raise ProtocolError(
                        "This party is running another job. Try again when it has ended."
                    ) from None
                sleep(0.2)
        yield
