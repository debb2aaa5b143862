"""What a deployed job costs more than one in process: a round of 1 MB each way, and whole forests.

A real federation of three parties on this machine, with TLS. The echo runs through the same port,
channel and resident as every job; the forests are made by Spinney's commands: the first with cold
processes, the second on the running federation, the third with masked sums. Then 100 boosted trees,
in the batches of the default, without and with masks.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from deployed import wide  # noqa: E402
from deployed.loopback import CLINICS, Federation  # noqa: E402
from spinney.deployment.place import place_of  # noqa: E402
from spinney.transport.channel import Ask  # noqa: E402
from spinney.transport.remote import calling  # noqa: E402
from spinney.transport.remote.attendance import Attendance  # noqa: E402
from spinney.transport.remote.channel import Limits, RemoteChannel  # noqa: E402
from spinney.transport.remote.frames import Decision, Offer  # noqa: E402
from spinney.transport.remote.kits import Credentials  # noqa: E402
from spinney.transport.remote.resident import Resident  # noqa: E402
from spinney.transport.remote.serving import Door, Server  # noqa: E402

ROUNDS = 30
MEGABYTE = 1_000_000
BOOSTING = 'protocol = "horizontal_boosting"'
TARGET_ROUND, TARGET_FOREST = 0.2, 20.0


@dataclass(frozen=True)
class EchoReply:
    data: bytes


@dataclass(frozen=True)
class EchoAsk(Ask[EchoReply]):
    data: bytes
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = EchoReply


class Echo:
    """A party that sends back what it is sent."""

    attempt = ("", 0)

    def answer(self, ask):
        return EchoReply(ask.data)


class EchoSide:
    """The party's end of the connection."""

    attempt = ("", 0)

    def take(self, offer: Offer) -> Decision:
        self._resident = Resident(
            Echo(), run=offer.run, attempt=offer.attempt, known={"EchoAsk": EchoAsk}
        )
        return Decision(offer.number, "", "")

    def answer(self, body: bytes):
        return self._resident.answers(body)

    def end(self, _run: str, _attempt: int) -> None:
        pass


class Open:
    """A desk that lets everybody in and does nothing."""

    def refuses(self, _peer):
        return ""

    def answer(self, _peer, _frame):
        return b"[]"


def echo(federation) -> list[float]:
    """Return the seconds of each round of one megabyte each way."""
    attendance = Attendance()
    kit = federation.root / "coordinator" / "kit"
    ports = (federation.port, federation.port + 1)
    server = Server(Door(Credentials.of(kit, "server"), ports), Open(), attendance)
    server.start()
    parties = [
        subprocess.Popen([sys.executable, __file__, str(federation.root / name / "kit")])
        for name in CLINICS
    ]
    try:
        while len(attendance.names()) < len(CLINICS):
            time.sleep(0.05)
        attendance.offer(Offer(0, "echo", 1, CLINICS, b"", b"", b""), 30)
        how = {"run": "echo", "attempt": 1, "parties": CLINICS, "present": CLINICS}

        def send(names, data):
            return attendance.ask(names, data, ("echo", 1), 15)

        channel = RemoteChannel(send, **how, least=len(CLINICS), limits=Limits())
        data = os.urandom(MEGABYTE)
        for _ in range(ROUNDS + 1):
            assert all(reply.data == data for reply in channel.ask(EchoAsk(data)).values())
        return [round_.seconds for round_ in channel.rounds[1:]]
    finally:
        for party in parties:
            party.terminate()
        for party in parties:
            party.wait()
        server.stop(0.0)


def forest(federation, name: str, **settings) -> dict[str, Any]:
    """Run a forest's job."""
    return run(federation, name, n_estimators=100, max_depth=10, **settings)


def run(federation, name: str, **settings) -> dict[str, Any]:
    """Run a job by the commands; return its times and whether its model is that of one process."""
    path = wide.write_job(federation, name, **settings)
    begin = time.perf_counter()
    federation.job("start", str(path), "--follow", "--out", name)
    deployed = time.perf_counter() - begin
    folder = federation.root / "lead" / name
    report = json.loads((folder / "report.json").read_text())
    up = sum(sum(round_["bytes_up"].values()) for round_ in report["traffic"])
    want = wide.simulated(federation, path)
    newest = max(path.parent.glob("simulated-*/report.json"), key=lambda p: p.stat().st_mtime)
    alone = sum(json.loads(newest.read_text())["seconds"].values())
    return {
        "deployed_s": round(deployed, 2),
        "adds_s": round(deployed - alone, 2),
        "rounds": len(report["traffic"]),
        "training_s": round(sum(report["seconds"].values()), 2),
        "bytes_up": up,
        "same_bytes": (folder / "model.spinney").read_bytes() == want,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        federation = Federation(Path(place) / "federation")
        federation.environment.pop("NUMBA_NUM_THREADS")
        wide.write_tables(federation, int(os.environ.get("SPINNEY_BENCH_ROWS", "20000")))
        federation.enrol()
        seconds = echo(federation)
        federation.start()
        try:
            federation.wait_until_connected()
            forests = {
                "cold": forest(federation, "cold"),
                "warm": forest(federation, "warm"),
                "masked": forest(federation, "masked", secure_sum=True),
            }
            boosted = {
                name: run(federation, name, job=BOOSTING, max_iter=100, secure_sum=is_masked)
                for name, is_masked in (("boosted", False), ("boosted-masked", True))
            }
        finally:
            federation.stop()
        alone = min(
            (federation.root / "lead").glob("simulated-*/report.json"),
            key=lambda path: path.stat().st_mtime,
        )
        in_process = sum(json.loads(alone.read_text())["seconds"].values())
    result = {
        "rounds": ROUNDS,
        "round_median_s": round(statistics.median(seconds), 4),
        "round_worst_s": round(max(seconds), 4),
        "round_target_s": TARGET_ROUND,
        "forests": forests,
        "boosting": boosted,
        "forest_in_process_s": round(in_process, 2),
        "forest_adds_s": round(forests["warm"]["deployed_s"] - in_process, 2),
        "forest_target_s": TARGET_FOREST,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(result, indent=1))


def attend(kit: Path) -> None:
    """Be an echoing party until the end."""
    calling.attend(Credentials.of(kit), place_of(kit), EchoSide(), lambda: None)
    Event().wait()


if __name__ == "__main__":
    attend(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
