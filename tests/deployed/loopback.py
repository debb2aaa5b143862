"""A real federation on this machine, made and run by the commands that organisations use."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spinney.deployment.client import connected
from spinney.errors import ProtocolError

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CLINICS = ("st-mary", "north", "lakeside")
OVER = ("finished", "failed", "paused", "aborted")
_SPINNEY = (sys.executable, "-m", "spinney.cli")
LEAD = "alice@clinics.example.org"


def free_port() -> int:
    """Return a port such that it and the next are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("", port + 1))
            except OSError:
                continue
            return port


class Federation:
    """Three clinics and a coordinator, each in a folder of its own."""

    def __init__(
        self,
        root: Path,
        parties: tuple[str, ...] = CLINICS,
        limits: str = "",
        host: str = "localhost",
    ) -> None:
        self.host = host
        self.namespace: dict[str, str] = {}  # of the network, by side
        self.ahead: dict[str, float] = {}  # seconds by which a side's clock is wrong
        self.root = root
        self.parties = parties
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "HOME": str(root),  # where the engine's tool keeps its own notes
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "NUMBA_NUM_THREADS": os.environ.get("NUMBA_NUM_THREADS", "1"),
        }
        self._write_files(limits)

    def _write_files(self, limits: str) -> None:
        for name in ("coordinator", "lead", *self.parties):
            (self.root / name).mkdir(parents=True)
        if "silence_seconds" not in limits:
            limits += "\nsilence_seconds = 20\nreply_seconds = 10"
        (self.root / "coordinator" / "coordinator.toml").write_text(
            f'[coordinator]\nname = "clinics"\nhost = "{self.host}"\nport = {self.port}\n'
            f"[limits]\n{limits}\n"
        )
        for name in self.parties:
            self.write_party(name)

    def write_party(self, name: str, table: str = "", policy: str = "", more: str = "") -> None:
        """Write a party's file; its table is the example's unless given."""
        policy = policy if "min_parties" in policy else f"min_parties = 2\n{policy}"
        own = name if name in CLINICS else CLINICS[0]
        query = "select * from source where age >= 18" if name == "north" else ""
        table = table or f'source = "csv"\npath = "{EXAMPLES / own}.csv"\nrow_id = "visit"\n'
        if query and "query" not in table:
            table += f'query = "{query}"\n'
        (self.root / name / "party.toml").write_text(
            f'[party]\nname = "{name}"\nn_jobs = 1\n[table]\n{table}\n[policy]\n{policy}\n{more}'
        )

    def spinney(self, *arguments: str, folder: str = "", check: bool = True, seconds: float = 900):
        """Run a command; return what it printed."""
        done = subprocess.run(
            [*self._within(folder), sys.executable, "-m", "spinney.cli", *arguments],
            cwd=self.root / folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"spinney {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done

    def enrol(self) -> None:
        """Go all the way from nothing to start kits."""
        said = self.spinney("coordinator", "init", "coordinator.toml", folder="coordinator").stdout
        self.fingerprint = said.split()[-1]
        for name in self.parties:
            self.enrol_one(name, name)
        self.enrol_one("lead", LEAD, "--role", "lead")

    def enrol_one(self, folder: str, name: str, *options: str) -> None:
        """Request, approve, join."""
        self.spinney("party", "request", name, "clinics", *options, folder=folder)
        request = self.root / folder / "request" / f"{name}.request.zip"
        self.spinney(
            "coordinator", "approve", "coordinator.toml", str(request), folder="coordinator"
        )
        signed = str(request).replace(".request.zip", ".signed.zip")
        self.spinney("party", "join", signed, "--fingerprint", self.fingerprint, folder=folder)

    @contextmanager
    def up(self) -> Iterator["Federation"]:
        """Enrol everybody and run until the end, whatever that is."""
        self.enrol()
        try:
            self.start()
            self.wait_until_connected()
            yield self
        finally:
            self.stop()

    def start(self, *names: str) -> None:
        """Start the coordinator and the parties, or some of them."""
        for name in names or ("coordinator", *self.parties):
            kind = "coordinator" if name == "coordinator" else "party"
            with (self.root / name / "output.txt").open("ab") as output:
                self.processes[name] = subprocess.Popen(
                    [*self._within(name), *_SPINNEY, kind, "run", f"{kind}.toml"],
                    cwd=self.root / name,
                    env=self._by_clock(name),
                    stdout=output,
                    stderr=output,
                )
            if name == "coordinator":
                self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        """Wait until the coordinator's port is open, or the coordinator has ended."""
        process, until = self.processes["coordinator"], time.monotonic() + 60
        while process.poll() is None and not self.namespace:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert time.monotonic() < until
            time.sleep(0.05)

    def _within(self, side: str) -> list[str]:
        """Return what runs a command in a side's part of the network."""
        inside = self.namespace.get(side)
        return ["ip", "netns", "exec", inside] if inside else []

    def _by_clock(self, side: str) -> dict[str, str]:
        """Return the environment in which a side's clock is as it is there."""
        if side not in self.ahead:
            return self.environment
        paths = f"{Path(__file__).parent / 'wrong_clock'}:{self.environment['PYTHONPATH']}"
        ahead = {"PYTHONPATH": paths, "SPINNEY_TEST_AHEAD": str(self.ahead[side])}
        return self.environment | ahead

    def kill(self, name: str) -> None:
        """Kill one side at once, as a power cut would."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(20)

    def stop(self) -> None:
        """Stop all sides."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = {}

    def connected(self) -> list[str]:
        """Return the parties that the coordinator hears."""
        with suppress(ProtocolError):  # the coordinator is not there yet
            return connected(self.root / "lead" / "kit")
        return []

    def wait_until_connected(self, *names: str, seconds: float = 300) -> None:
        """Wait until these parties are heard, or all; the limit only ends a hang."""
        until = time.monotonic() + seconds
        while not set(names or self.parties) <= set(self.connected()):
            assert time.monotonic() < until, names
            time.sleep(0.5)

    def job(self, *arguments: str, check: bool = True, seconds: float = 900):
        """Run a job command as the lead."""
        return self.spinney("job", *arguments, folder="lead", check=check, seconds=seconds)

    def simulated(self, path: Path) -> Path:
        """Run a job over the example's tables in one process; return its folder."""
        text = path.read_text().split("[simulation]")
        tables = (EXAMPLES / "three_clinics.toml").read_text().split("[[party]]", maxsplit=1)[1]
        tables = "[[party]]" + tables.split("[simulation]", maxsplit=1)[0]
        tables = tables.replace('path = "', f'path = "{EXAMPLES}/')
        whole = path.with_name(f"simulated-{path.name}")
        whole.write_text(f"{text[0]}\n{tables}\n[simulation]{text[1]}")
        out = path.with_suffix("")
        self.spinney("simulate", str(whole), "--out", str(out))
        return out

    def write_job(
        self,
        name: str,
        protocol: str = "horizontal_forest",
        held_out: float = 0.0,
        **settings: object,
    ) -> Path:
        """Write a job file over the example's schema."""
        text = (EXAMPLES / "three_clinics.toml").read_text()
        schema = text.split("[schema]")[1].split("[[party]]")[0]
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
        parties = json.dumps(list(self.parties))
        path = self.root / "lead" / f"{name}.toml"
        path.write_text(
            f'[job]\nname = "{name}"\nprotocol = "{protocol}"\nparties = {parties}\n'
            f"[settings]\n{lines}\n[schema]{schema}\n[simulation]\nheld_out = {held_out}\n"
        )
        return path

    def status(self, run: str) -> dict[str, Any]:
        """Return how a run stands, from the coordinator's own file."""
        path = self.root / "coordinator" / "runs" / run / "status.json"
        for _ in range(3):
            with suppress(FileNotFoundError, ValueError):
                return dict(json.loads(path.read_text()))
            time.sleep(0.05)
        return {"state": "", "rounds": 0}

    def wait(self, run: str, reached, seconds: float = 900) -> dict[str, Any]:
        """Wait until a run's status is as wished; the limit only ends a hang."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            status = self.status(run)
            if reached(status):
                return status
            time.sleep(0.1)
        raise AssertionError(f"Waited in vain; the run stands so: {self.status(run)}")

    def read_when_there(self, path: Path, seconds: float = 300) -> dict[str, Any]:
        """Return a JSON file that is being written; the limit only ends a hang."""
        until = time.monotonic() + seconds
        while not path.exists():
            assert time.monotonic() < until, path
            time.sleep(0.1)
        return dict(json.loads(path.read_text()))

    def signal(self, name: str, number: int) -> None:
        """Send a signal to all processes of a side: SIGSTOP holds it, SIGCONT lets it go on."""
        for process in self.processes_of(name):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def wait_for_round(self, run: str, number: int, seconds: float = 900) -> None:
        """Wait until a run has finished so many rounds, and no longer; or until it is over."""
        rounds = self.root / "coordinator" / "runs" / run / "rounds"
        until = time.monotonic() + seconds
        while not (rounds / f"{number:06d}.round").exists():
            if self.status(run)["state"] in OVER:
                return
            assert time.monotonic() < until, self.status(run)
            time.sleep(0.002)

    def processes_of(self, name: str) -> list[int]:
        """Return the processes of a side: there is one."""
        return [self.processes[name].pid] if name in self.processes else []
