"""A run at the coordinator: one folder, with a status file that is always up to date."""

from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final
from zipfile import ZipFile

import msgspec

from spinney.errors import StorageError
from spinney.files import replace_file, write_whole
from spinney.report.file_names import MODEL, PAGE, REPORT

COORDINATOR_VARIABLE = "SPINNEY_COORDINATOR"
"""The environment variable in which `spinney coordinator run` names the coordinator's file."""


RUNNING, WAITING, PAUSED = "running", "waiting", "paused"
FINISHED, FAILED, ABORTED = "finished", "failed", "aborted"
OVER = (FINISHED, FAILED, ABORTED)
_RESERVE: Final = "reserve"
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
    job: str = ""  # the engine job of this attempt
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
    answers: dict[str, str] = {}  # of a proposal: "" for yes, or the reason

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or waits for somebody to resume it."""
        return self.state in (*OVER, PAUSED)


class RunFolder:
    """A run's files: `status.json`, `job.json`, `rounds/`, and finally model and report."""

    def __init__(self, runs: Path, run: str) -> None:
        self.folder = runs / run
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def job(self) -> Path:
        """The job, as sent to all parties."""
        return self.folder / "job.json"

    @property
    def rounds(self) -> Path:
        """The journal."""
        return self.folder / "rounds"

    def archived(self) -> Path | None:
        """Pack the model, the report and the page into one file to send; None: there are none."""
        found = [self.folder / name for name in (MODEL, REPORT, PAGE)]
        found = [path for path in found if path.is_file()]
        if not found:
            return None
        archive = self.folder / "result.zip"
        with ZipFile(archive, "w") as files:
            for path in found:
                files.write(path, path.name)
        return archive

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


def keep_reserve(runs: Path) -> None:
    """Reserve some disk space, so that a run can still report that the disk is full."""
    if not (runs / _RESERVE).exists():
        with suppress(StorageError):  # the disk is already full
            write_whole(runs / _RESERVE, bytes(_RESERVE_BYTES))
