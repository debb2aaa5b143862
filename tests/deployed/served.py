"""A federation in this process, over real gRPC and mutual TLS: its parties are threads."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    Authority,
    coordinator_in,
    write_party,
)
from deployed.loopback import free_port  # type: ignore[import-not-found]
from spinney.deployment.coordinator.desk import CoordinatorDesk
from spinney.deployment.coordinator.keeper import Keeper
from spinney.deployment.coordinator.members import Members
from spinney.deployment.coordinator.runs import OVER, PAUSED, RunFolder, Status
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import Agreed, words_signed
from spinney.deployment.party.attending import AttendingParty
from spinney.deployment.place import place_of
from spinney.errors import SpinneyError
from spinney.transport.remote import calling
from spinney.transport.remote.attendance import Attendance
from spinney.transport.remote.frames import Submit
from spinney.transport.remote.kits import Address, Credentials
from spinney.transport.remote.serving import Door, Server

MEMBER = "bob@clinics.example.org"


class Served:
    """A coordinator that listens, and parties that attend."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.port = free_port()
        self.address = Address(
            name="clinics", host="localhost", port=self.port, admin_port=self.port
        )
        self.file = coordinator_in(folder)
        self.members = Members(folder)
        self.attendance = Attendance()
        self.ended: dict[str, Event] = {}
        self.sides: dict[str, AttendingParty] = {}
        self.kit(".", "localhost", "server")
        self.kit("lead", ASKER, "lead")
        self.kit("member", MEMBER, "member")
        for name in CLINICS:
            write_party(folder, name)
            self.kit(name, name, "client")

    def kit(self, folder: str, name: str, role: str, authority: Any = None, **more: Any) -> Path:
        """Make a start kit; return it."""
        kit: Path = self.folder / folder / "kit"
        (authority or self.authority).kit(kit, name, role=role, address=self.address, **more)
        return kit

    @contextmanager
    def up(self, *parties: str) -> Iterator["Served"]:
        """Listen, and let parties attend, until the end."""
        self.listen()
        try:
            for name in parties:
                self.attend(name)
            self.wait(lambda: set(parties) <= set(self.attendance.names()))
            yield self
        finally:
            for event in self.ended.values():
                event.set()
            self.keeper.stop()
            self.server.stop(0.0)

    def listen(self) -> None:
        """Start the coordinator, also a second time."""
        self.keeper = Keeper(self.file, self.members, self.attendance)
        desk = CoordinatorDesk(self.file, self.members, self.keeper)
        door = Door(Credentials.of(self.file.kit, "server"), (self.port,), 1 << 24)
        self.server = Server(door, desk, self.attendance)
        self.server.start()
        self.keeper.start()

    def attend(self, name: str) -> AttendingParty:
        """Let a party attend; it connects again whenever its connection ends."""
        party = AttendingParty(self.folder / name / "party.toml")
        kit, ended = self.folder / name / "kit", Event()
        self.ended[name], self.sides[name] = ended, party

        def run() -> None:
            while not ended.is_set():
                with suppress(SpinneyError):
                    calling.attend(Credentials.of(kit), place_of(kit), party, lambda: None)
                ended.wait(0.1)

        Thread(target=run, daemon=True).start()
        return party

    def restart(self, name: str, held: Event) -> None:
        """End a party in the middle of an answer that is held, and start it again."""
        self.ended[name].set()
        self.attendance.dismiss(name)
        self.wait(lambda: name not in self.attendance.names())
        held.set()
        self.sides[name]._leave(30)  # a process that ends lets go of its lock
        self.attend(name)

    def wait(self, reached: Any, seconds: float = 300) -> None:
        """Wait until something is so; the limit only ends a hang."""
        until = monotonic() + seconds
        while not reached():
            assert monotonic() < until
            sleep(0.02)

    def submit(self, job: Agreed, kit: Path | None = None) -> str:
        """Start a job as the lead; return the run."""
        run, data, kit = str(uuid4()), job.to_bytes(), kit or self.folder / "lead" / "kit"
        with calling.session(kit) as opened:
            opened.request(Submit(run, data, KitIdentity(kit).sign(words_signed(run, data))))
        return run

    def status(self, run: str) -> Status:
        """Return the status of a run."""
        found = RunFolder(self.file.runs, run).status()
        assert found is not None
        return found

    def over(self, run: str) -> Status:
        """Return the status of a run once it is over or paused."""
        self.wait(lambda: self.status(run).state in (*OVER, PAUSED))
        return self.status(run)
