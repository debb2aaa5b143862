"""`spinney job ...`: propose, start, follow, list, show, abort and resume."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final
from uuid import uuid4
from zipfile import ZipFile

import msgspec

from spinney.archives import UNREADABLE, read_archived
from spinney.deployment.coordinator.runs import ABORTED, FAILED, FINISHED, OVER, PAUSED, Status
from spinney.deployment.costs import JobCost, cost_of
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import (
    EVALUATE,
    PROPOSE,
    TRAIN,
    Agreed,
    agreement_of,
    check_of,
    evaluation_of,
    prediction_of,
    words_signed,
)
from spinney.errors import PolicyError, ProtocolError, SettingError, StorageError
from spinney.files import write_whole
from spinney.jobs.file import JobConfig, load_job
from spinney.report.file_names import RUN_FILES, RUNS
from spinney.report.run_folder import free_folder, require_no_run
from spinney.report.table_fit import TableFit
from spinney.transport.remote import calling, kits
from spinney.transport.remote.calling import Session
from spinney.transport.remote.certificates import LEAD, MEMBER, holder_of
from spinney.transport.remote.frames import Abort, Fetch, Present, Resume, Runs, Show, Submit

_EVERY: Final = 0.1  # seconds
_AWAY_SECONDS: Final = 600.0  # for a coordinator that is started again while somebody follows
_LARGEST: Final = 1 << 31  # bytes of a file of a result
_FETCH_SECONDS: Final = 3600.0
Tell = Callable[[Status], None]


class Proposal(msgspec.Struct, frozen=True):
    """Every party's answer to a proposed job, and the cost of the job."""

    name: str
    digest: str
    answers: dict[str, str]  # "" for yes, or the reason
    cost: JobCost
    auditing: tuple[str, ...] = ()  # who audits the model before it leaves


def propose(path: Path, kit: Path, tell: Tell) -> Proposal:
    """Ask every party for yes or no, without starting the job."""
    job = agreement_of(load_job(path, deployed=True), PROPOSE)
    with session(kit) as opened:
        status = _followed(opened, _submitted(opened, kit, job), tell)
    if status.state != FINISHED:
        raise ProtocolError(f"The job could not be proposed: {status.message}")
    return Proposal(job.name, job.digest, status.answers, cost_of(job), status.auditing)


def start(path: Path, kit: Path) -> str:
    """Start a job; return the run's id."""
    job = agreement_of(load_job(path, deployed=True))
    with session(kit) as opened:
        return _submitted(opened, kit, job)


def check(path: Path, kit: Path, tell: Tell) -> TableFit:
    """Let the parties of a job compare their tables; return what they find."""
    job = check_of(load_job(path, deployed=True))
    with session(kit) as opened:
        status = _followed(opened, _submitted(opened, kit, job), tell)
    if status.state != FINISHED or status.fit is None:
        raise PolicyError(f"The tables could not be compared: {status.message}")
    return status.fit


def run_job(job: Agreed, kit: Path, folder: Path) -> Status:
    """Run a job to its end and download its result into a new folder; raise if it fails."""
    with session(kit) as opened:
        status = _followed(opened, _submitted(opened, kit, job), lambda _: None)
        if status.state != FINISHED:
            raise PolicyError(f"The job {job.name!r} ended: {status.message}")
        _unpacked(opened.request(Fetch(status.run), seconds=_FETCH_SECONDS), folder, status.name)
    return status


def evaluate(run: str, path: Path, kit: Path) -> str:
    """Start a job that evaluates a finished run's model; return the evaluation's id."""
    job = load_job(path, deployed=True)
    with session(kit) as opened:
        status = _trained(opened, run, agreement_of(job))
        return _submitted(opened, kit, evaluation_of(job, status.model))


def predict(run: str, path: Path, kit: Path) -> str:
    """Start a job that predicts with a finished run's forest; return the prediction's id."""
    job = load_job(path, deployed=True)
    with session(kit) as opened:
        status = _trained(opened, run, agreement_of(job))
        return _submitted(opened, kit, prediction_of(job, status.run))


def _trained(opened: Session, run: str, job: Agreed) -> Status:
    """Return the status of a finished training; raise unless it is a training of this job."""
    status = _found(opened, run)
    if status.state != FINISHED or status.kind != TRAIN:
        raise SettingError(
            f"Only a finished training leaves a model; {run!r} is of kind {status.kind!r} and "
            f"{status.state}."
        )
    if status.digest != job.digest:
        raise _other_job_file(run, "Use that file, or train again.")
    return status


def follow(run: str, kit: Path, folder: Path | None, tell: Tell) -> tuple[Status, Path | None]:
    """Watch a run until it is over; download its model and report, and return their folder.

    Another run's files are never overwritten: without `folder`, the run gets a numbered folder
    beside them; a `folder` that somebody named is refused.
    """
    with session(kit) as opened:
        status = _followed(opened, _found(opened, run).run, tell)
        whereto = None
        if status.state == FINISHED and status.kind in (TRAIN, EVALUATE):
            archive = opened.request(Fetch(status.run), seconds=_FETCH_SECONDS)
            whereto = _unpacked(archive, folder, status.name)
    if status.state == FAILED:
        raise PolicyError(f"The job ended: {status.message}")
    return status, whereto


def _plain(name: str) -> str:
    """Return a job's name as a folder's; the coordinator says it, and it must be no path."""
    JobConfig(name=name, protocol="horizontal_forest", task="classification")  # checks it
    return name


def _unpacked(archive: bytes, given: Path | None, name: str) -> Path:
    """Write the files of a result, and no others that may have been added; return their folder."""
    try:
        with ZipFile(BytesIO(archive)) as zipped:
            sizes = {one.filename: one.file_size for one in zipped.infolist()}
            wanted = [file for file in RUN_FILES if sizes.get(file, _LARGEST + 1) <= _LARGEST]
            files = {file: read_archived(zipped, file) for file in wanted}
    except UNREADABLE:
        raise StorageError("The coordinator's result cannot be read. Fetch it again.") from None
    folder = free_folder(given or Path(RUNS) / _plain(name), files)
    if given is not None and folder != given:
        require_no_run(given)
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write_whole(folder / file, content)
    return folder


def list_runs(kit: Path) -> list[Status]:
    """Return all runs, newest first."""
    with session(kit) as opened:
        return _listed(opened)


def connected(kit: Path) -> list[str]:
    """Return the parties that are connected."""
    with session(kit) as opened:
        return msgspec.json.decode(opened.request(Present()), type=list[str])


def show_run(run: str, kit: Path) -> Status:
    """Return the status of a run."""
    with session(kit) as opened:
        return _found(opened, run)


def _listed(opened: Session) -> list[Status]:
    return msgspec.json.decode(opened.request(Runs()), type=list[Status])


def _found(opened: Session, run: str) -> Status:
    """Return the status of a run, given its id, the beginning of its id, or its job's name."""
    runs = _listed(opened)
    found = [status for status in runs if status.run.startswith(run)]
    if not found:  # the newest with that name; a proposal leaves nothing to use
        found = [one for one in runs if one.name == run and one.kind != PROPOSE][:1]
    if len(found) != 1:
        raise SettingError(
            f"{'No run is' if not found else 'More than one run is'} called {run!r}. "
            "'spinney job list' shows all runs."
        )
    return found[0]


def abort(run: str, kit: Path) -> Status:
    """End a run; the parties' ledgers and records keep what they have released."""
    with session(kit) as opened:
        status = _found(opened, run)
        if status.state not in OVER:
            opened.request(Abort(status.run))
            while status.state not in OVER:
                time.sleep(_EVERY)
                status = _shown(opened, status.run)
            if status.state == ABORTED:
                return status
    raise SettingError(f"The run {run!r} is already over: {status.state}.")


def resume(run: str, path: Path, kit: Path) -> str:
    """Resume a paused run after its last completed round; return its id."""
    job = agreement_of(load_job(path, deployed=True))
    with session(kit) as opened:
        status = _found(opened, run)
        if status.state != PAUSED:
            instead = "Start the job again." if status.is_over else "'spinney job follow' shows it."
            raise SettingError(
                f"Only a paused run can be resumed; {run!r} is {status.state}. {instead}"
            )
        if status.digest != job.digest:
            raise _other_job_file(run, "Resume with that file, or start the job again.")
        data = job.to_bytes()
        opened.request(Resume(status.run, data, _signature(kit, status.run, data)))
        return status.run


def _other_job_file(run: str, instead: str) -> SettingError:
    return SettingError(f"Run {run!r} was started with another job file. {instead}")


def _submitted(opened: Session, kit: Path, job: Agreed) -> str:
    """Sign a job for a new run and submit it; return the run's id."""
    run, data = str(uuid4()), job.to_bytes()
    opened.request(Submit(run, data, _signature(kit, run, data)))
    return run


def _signature(kit: Path, run: str, job: bytes) -> bytes:
    return KitIdentity(kit).sign(words_signed(run, job))


@contextmanager
def session(kit: Path) -> Iterator[Session]:
    """Connect as the person whose start kit this is."""
    path = kit / "startup" / "client.crt"
    role = (
        holder_of(kits.certificate_in(kit, "client", "spinney party join")).role
        if path.exists()
        else ""
    )
    if role not in (LEAD, MEMBER):
        raise SettingError(
            f"{str(kit)!r} is not the start kit of a person who may start jobs. Name it with --kit."
        )
    with calling.session(kit) as opened:
        yield opened


def _shown(opened: Session, run: str) -> Status:
    """Return the status of a run; wait for a coordinator that is just being started again."""
    until = time.monotonic() + _AWAY_SECONDS
    while True:
        try:
            return msgspec.json.decode(opened.request(Show(run)), type=Status)
        except ProtocolError:
            if time.monotonic() > until:
                raise
            time.sleep(_EVERY)


def _followed(opened: Session, run: str, tell: Tell) -> Status:
    last = None
    while True:
        status = _shown(opened, run)
        if status != last:
            tell(status)
            last = status
        if status.is_over:
            return status
        time.sleep(_EVERY)
