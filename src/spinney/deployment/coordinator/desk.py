"""What people may ask of the coordinator: to start, resume, watch, fetch and end runs.

A person's name and role come from the certificate of the connection. A lead may do all of this; a
member may watch. Only the lead who started a run may abort it or fetch its result.
"""

from collections.abc import Callable
from time import time
from typing import Any, Final, Protocol

import msgspec

from spinney.deployment.coordinator.config import CoordinatorFile
from spinney.deployment.coordinator.members import Members
from spinney.deployment.coordinator.runs import (
    FINISHED,
    OVER,
    PAUSED,
    QUEUED,
    WAITING,
    RunFolder,
    Signature,
    Status,
    run_folders,
)
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import RUN_ID, Agreed, words_signed
from spinney.errors import PolicyError, SettingError
from spinney.transport.remote import frames
from spinney.transport.remote.certificates import LEAD, MEMBER, Peer

_MAY: Final[dict[str, tuple[type[frames.RemoteFrame], ...]]] = {
    LEAD: frames.FROM_PERSON,
    MEMBER: (frames.Runs, frames.Show, frames.Present),
}


_MOST_RUNS: Final = 20  # of one person, that are not over


class RunKeeping(Protocol):
    """The keeper, as the desk sees it."""

    def hurry(self) -> None:
        """Look after the runs at once: there is a new one."""
        ...

    def abort(self, folder: RunFolder) -> None:
        """End a run for good; an attempt that is under way ends first."""
        ...

    def connected(self) -> tuple[str, ...]:
        """Return the parties that are connected."""
        ...

    def changed(self, folder: RunFolder, status: Status, **changes: Any) -> Status:
        """Change a run's status, unless its attempt is under way."""
        ...


class CoordinatorDesk:
    """The coordinator's side of people's requests."""

    def __init__(self, file: CoordinatorFile, members: Members, keeper: RunKeeping) -> None:
        self._file = file
        self._members = members
        self._keeper = keeper
        self._identity = KitIdentity(file.kit)
        self._handlers: dict[type[frames.RemoteFrame], Callable[[Peer, Any], bytes]] = {
            frames.Submit: self._submit,
            frames.Resume: self._resume,
            frames.Runs: self._runs,
            frames.Show: self._show,
            frames.Abort: self._abort,
            frames.Fetch: self._fetch,
            frames.Present: self._present,
        }

    def refuses(self, peer: Peer) -> str:
        """Say why a certificate of the federation is refused; empty if it is not."""
        return self._members.refuses(peer)

    def answer(self, peer: Peer, frame: frames.RemoteFrame) -> bytes:
        """Carry out a person's request."""
        if type(frame) not in _MAY.get(peer.role, ()):
            raise PolicyError(
                "Your role does not allow this. Ask the coordinator for the role 'lead'."
            )
        return self._handlers[type(frame)](peer, frame)

    def _submit(self, peer: Peer, frame: frames.Submit) -> bytes:
        job = self._checked(peer, frame)
        self._require_own_model(peer, job)
        self._require_few(peer)
        folder = RunFolder.made(self._file.runs, frame.run)
        if folder is None:
            raise SettingError("There is already a run with this id. Start the job again.")
        folder.sign(Signature(frame.job, peer.certificate, frame.signature))
        folder.write(
            Status(
                run=frame.run,
                name=job.name,
                kind=job.kind,
                state=QUEUED,
                digest=job.digest,
                parties=job.parties,
                present=job.parties,
                attempt=0,
                quorum=job.quorum,
                submitter=peer.name,
                begun=time(),
            )
        )
        self._keeper.hurry()
        return b""

    def _resume(self, peer: Peer, frame: frames.Resume) -> bytes:
        job = self._checked(peer, frame)
        folder, status = self._found(frame.run)
        if status.state != PAUSED:
            raise SettingError(f"Only a paused run can be resumed; it is {status.state}.")
        if status.digest != job.digest:
            raise SettingError("The run was started with another job file.")
        changes = {"state": WAITING, "message": "", "stalled": 0, "waiting_since": time()}
        folder.sign(Signature(frame.job, peer.certificate, frame.signature))
        if self._keeper.changed(folder, status, **changes).state != WAITING:
            raise SettingError("The run was ended at this moment.")
        return b""

    def _runs(self, peer: Peer, frame: frames.Runs) -> bytes:
        del peer, frame
        return msgspec.json.encode(sorted(self._statuses(), key=lambda status: -status.begun))

    def _show(self, peer: Peer, frame: frames.Show) -> bytes:
        del peer
        return msgspec.json.encode(self._found(frame.run)[1])

    def _abort(self, peer: Peer, frame: frames.Abort) -> bytes:
        folder, status = self._found(frame.run)
        self._require_own(peer, status)
        if status.state in OVER:
            raise SettingError(f"The run is already over: {status.state}.")
        self._keeper.abort(folder)
        return b""

    def _fetch(self, peer: Peer, frame: frames.Fetch) -> bytes:
        folder, status = self._found(frame.run)
        self._require_own(peer, status)
        archive = folder.archived() if status.state == FINISHED else None
        if archive is None:
            raise SettingError("The run has no result.")
        return archive

    def _present(self, peer: Peer, frame: frames.Present) -> bytes:
        del peer, frame
        return msgspec.json.encode(self._keeper.connected())

    def _checked(self, peer: Peer, frame: frames.Submit | frames.Resume) -> Agreed:
        """Return the job of a request, which the person who sends it has signed."""
        if not RUN_ID.fullmatch(frame.run):
            raise SettingError("A run's id must be letters, digits and '-'.")
        signed = words_signed(frame.run, frame.job)
        signer = self._identity.lead_who_signed(peer.certificate, frame.signature, signed)
        if signer != peer.name:
            raise PolicyError("The job is signed by somebody else.")
        job = Agreed.of_bytes(frame.job)
        gone = [name for name in job.parties if name in self._members.removed()]
        if gone:
            raise PolicyError(f"{gone[0]} was removed from this federation.")
        return job

    def _require_own_model(self, peer: Peer, job: Agreed) -> None:
        """Raise if a job is about a run that somebody else started."""
        if not job.model:
            return
        for status in self._statuses():
            if job.model in (status.run, status.model) and status.submitter in ("", peer.name):
                return
        raise PolicyError("Only who started a run may evaluate its model, or predict with it.")

    def _require_few(self, peer: Peer) -> None:
        """Raise if a person has too many runs that are not over."""
        waiting = [one for one in self._statuses() if one.submitter == peer.name]
        if sum(one.state not in OVER for one in waiting) >= _MOST_RUNS:
            raise PolicyError(
                f"You have {_MOST_RUNS} runs that are not over. Abort some, or wait for them."
            )

    def _statuses(self) -> list[Status]:
        found = [folder.status() for folder in run_folders(self._file.runs)]
        return [status for status in found if status is not None]

    def _found(self, run: str) -> tuple[RunFolder, Status]:
        folder = RunFolder.found(self._file.runs, run)
        status = None if folder is None else folder.status()
        if folder is None or status is None:
            raise SettingError("There is no such run. 'spinney job list' shows all runs.")
        return folder, status

    @staticmethod
    def _require_own(peer: Peer, status: Status) -> None:
        if status.submitter and status.submitter != peer.name:
            raise PolicyError(f"Only {status.submitter}, who started the run, may do this.")
