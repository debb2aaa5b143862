"""A run at the coordinator: one folder, and one status file that always says how it stands."""

from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final
from zipfile import ZipFile

import msgspec

from spinney.errors import StorageError
from spinney.files import replace_file, write_whole
from spinney.report.file_names import (
    MODEL,
    PAGE,
    REPORT,
)

COORDINATOR_VARIABLE = "SPINNEY_COORDINATOR"
"""Where `spinney coordinator run` says which file is the coordinator's."""


RUNNING, WAITING, PAUSED = "running", "waiting", "paused"
FINISHED, FAILED, ABORTED = "finished", "failed", "aborted"
OVER = (FINISHED, FAILED, ABORTED)
_RESERVE: Final = "reserve"
_RESERVE_BYTES: Final = 1 << 18


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands."""

    run: str
    name: str
    kind: str
    state: str
    digest: str = ""
    parties: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    attempt: int = 1
    job: str = ""  # the engine job of this attempt
    quorum: int = 0  # how many parties must stay; 0: not known yet
    stalled: int = 0  # attempts since the last that finished a round
    waiting_since: float = 0.0  # 0: not waiting
    together: bool = False  # nobody may be dropped now, see `Run._heard`
    rounds: int = 0  # finished and written down
    trees: int = 0  # that the job grows; 0: not known
    phase: str = ""
    level: int = 0
    levels: int = 0  # in all; 0: unknown
    step: str = "level"  # what is counted so: a level, a generation
    question: str = ""
    answered: tuple[str, ...] = ()
    message: str = ""
    begun: float = 0.0
    since: float = 0.0  # when the present attempt began
    updated: float = 0.0
    model: str = ""  # of a finished run: the digest by which an evaluation names its model
    answers: dict[str, str] = {}  # of a proposal: "" for yes, or the reason

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state in (*OVER, PAUSED)


class RunFolder:
    """A run's files: `status.json`, `job.json`, `rounds/`, and at the end model and report."""

    def __init__(self, runs: Path, run: str) -> None:
        self.folder = runs / run
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def job(self) -> Path:
        """The job, as all parties were told it."""
        return self.folder / "job.json"

    @property
    def rounds(self) -> Path:
        """The journal."""
        return self.folder / "rounds"

    def archived(self) -> Path | None:
        """Make one file of the model, the report and the page, to be sent; None: there are none."""
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
        """Return how the run stands; None if it has not begun."""
        try:
            return msgspec.json.decode((self.folder / "status.json").read_bytes(), type=Status)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None

    def write(self, status: Status) -> Status:
        """Write down how the run stands; the file is whole at any time."""
        stamped = msgspec.structs.replace(status, updated=time())
        try:
            self._write(stamped)
        except StorageError:
            if status.state == RUNNING:  # the reserve is for telling that it does not
                raise
            (self.folder.parent / _RESERVE).unlink(missing_ok=True)
            self._write(stamped)
        return stamped

    def _write(self, status: Status) -> None:
        try:
            replace_file(self.folder / "status.json", msgspec.json.encode(status))
        except OSError as error:
            raise StorageError(
                f"The coordinator cannot write down how run {status.run} stands: "
                f"{error.strerror or error}. Make room; then the run goes on by itself."
            ) from None


def keep_reserve(runs: Path) -> None:
    """Keep some room, so that a run can still tell that the disk is full."""
    if not (runs / _RESERVE).exists():
        with suppress(StorageError):  # there is none to keep
            write_whole(runs / _RESERVE, bytes(_RESERVE_BYTES))
