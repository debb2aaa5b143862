"""A run at the coordinator: one folder, with a status file that is always up to date."""

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from time import time
from typing import Final
from zipfile import ZIP_BZIP2, ZipFile

import msgspec

from spinney.deployment.job import RUN_ID
from spinney.errors import StorageError
from spinney.files import replace_file, write_whole
from spinney.protocols.release_terms import Hardening
from spinney.report.file_names import MODEL, PAGE, REPORT
from spinney.report.table_fit import TableFit

QUEUED, RUNNING, WAITING, PAUSED = "queued", "running", "waiting", "paused"
FINISHED, FAILED, ABORTED = "finished", "failed", "aborted"
OVER = (FINISHED, FAILED, ABORTED)
_SIGNED: Final = "signed.json"
_RESERVE: Final = ".reserve"  # no run can be called so
_RESERVE_BYTES: Final = 1 << 18


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a run."""

    run: str
    name: str
    kind: str
    state: str
    digest: str = ""
    parties: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    attempt: int = 1
    quorum: int = 0  # how many parties must stay; 0: not yet known
    stalled: int = 0  # attempts since the last completed round
    waiting_since: float = 0.0  # 0: not waiting
    together: bool = False  # no party may be dropped now; see `Run._heard`
    rounds: int = 0  # completed and stored
    trees: int = 0  # number of trees to grow; 0: unknown
    phase: str = ""
    level: int = 0  # steps done in this phase
    levels: int = 0  # steps in all; 0: the phase has none; below 0: unknown
    step: str = "level"  # the unit of these counts: a level, a generation
    question: str = ""
    answered: tuple[str, ...] = ()
    message: str = ""
    begun: float = 0.0
    since: float = 0.0  # when the present attempt began
    updated: float = 0.0
    model: str = ""  # of a finished run: the model's digest, for evaluations
    submitter: str = ""  # who started it; empty: a run of version 0.1
    terms: dict[str, Hardening] = {}  # on which each party lets the model leave
    answers: dict[str, str] = {}  # of a proposal: "" for yes, or the reason
    auditing: tuple[str, ...] = ()  # of a proposal: who audits the model before it leaves
    fit: TableFit | None = None  # of a finished comparison of tables

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or waits for somebody to resume it."""
        return self.state in (*OVER, PAUSED)


class Signature(msgspec.Struct, frozen=True, kw_only=False):
    """A job as its lead signed it for a run."""

    job: bytes
    certificate: bytes
    signature: bytes


class RunFolder:
    """A run's files: `status.json`, `job.json`, `rounds/`, and finally model and report."""

    def __init__(self, runs: Path, run: str) -> None:
        self.folder = runs / run
        self.folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def made(cls, runs: Path, run: str) -> "RunFolder | None":
        """Make the folder of a new run; None if there is one already."""
        try:
            (runs / run).mkdir(parents=True)
        except FileExistsError:
            return None
        return cls(runs, run)

    @classmethod
    def found(cls, runs: Path, run: str) -> "RunFolder | None":
        """Return the folder of a run; None if there is none."""
        return cls(runs, run) if RUN_ID.fullmatch(run) and (runs / run).is_dir() else None

    def sign(self, signature: Signature) -> None:
        """Keep what the lead signed, for every attempt."""
        write_whole(self.folder / _SIGNED, msgspec.json.encode(signature))

    def signature(self) -> Signature | None:
        """Return what the lead signed; None for a run of version 0.1."""
        try:
            return msgspec.json.decode((self.folder / _SIGNED).read_bytes(), type=Signature)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    @property
    def job(self) -> Path:
        """The job, as sent to all parties."""
        return self.folder / "job.json"

    @property
    def rounds(self) -> Path:
        """The journal."""
        return self.folder / "rounds"

    def archived(self) -> bytes | None:
        """Return the model, the report and the page in one archive; None: there are none."""
        found = [self.folder / name for name in (MODEL, REPORT, PAGE)]
        found = [path for path in found if path.is_file()]
        if not found:
            return None
        archive = BytesIO()
        with ZipFile(archive, "w", ZIP_BZIP2) as files:  # of a model a third less than deflated
            for path in found:
                files.write(path, path.name)
        return archive.getvalue()

    def status(self) -> Status | None:
        """Return the status of the run; None if it has not begun."""
        try:
            return msgspec.json.decode((self.folder / "status.json").read_bytes(), type=Status)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def write(self, status: Status) -> Status:
        """Write the status of the run; the file is complete at any time."""
        stamped = msgspec.structs.replace(status, updated=time())
        try:
            self._write(stamped)
        except StorageError:
            if status.state == RUNNING:  # the reserve is for the message that it stopped
                raise
            (self.folder.parent / _RESERVE).unlink(missing_ok=True)
            self._write(stamped)
        return stamped

    def _write(self, status: Status) -> None:
        try:
            replace_file(self.folder / "status.json", msgspec.json.encode(status))
        except OSError as error:
            raise StorageError(
                f"The coordinator cannot write the status of run {status.run}: "
                f"{error.strerror or error}. Make room; the run then continues by itself."
            ) from None


def run_folders(runs: Path) -> Iterator[RunFolder]:
    """Yield the folders of all runs."""
    if runs.is_dir():
        for path in sorted(runs.iterdir()):
            if path.is_dir() and RUN_ID.fullmatch(path.name):
                yield RunFolder(runs, path.name)


def keep_reserve(runs: Path) -> None:
    """Reserve some disk space, so that a run can still report that the disk is full."""
    if not (runs / _RESERVE).exists():
        with suppress(StorageError):  # the disk is already full
            write_whole(runs / _RESERVE, bytes(_RESERVE_BYTES))
