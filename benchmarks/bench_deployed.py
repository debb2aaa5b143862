"""What a deployed job costs more than one in process: a round of 1 MB each way, and a whole forest.

A real federation of three parties on this machine, with TLS, made and run by Spinney's commands.
The echo runs through the same channel, resident and engine sides as every job.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from deployed import wide  # noqa: E402
from deployed.loopback import Federation  # noqa: E402
from spinney.transport.channel import Ask  # noqa: E402
from spinney.transport.remote import kits  # noqa: E402
from spinney.transport.remote.channel import RemoteChannel, Limits  # noqa: E402
from spinney.transport.remote.engine import CoordinatorSide, Link, PartySide  # noqa: E402
from spinney.transport.remote.jobs import write_job  # noqa: E402
from spinney.transport.remote.resident import Resident  # noqa: E402
from spinney.transport.remote.session import session  # noqa: E402

ROUNDS = 30
MEGABYTE = 1_000_000
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
    def answer(self, ask):
        return EchoReply(ask.data)


class EchoSite(PartySide):
    def begin(self, link: Link) -> Resident:
        known = {"EchoAsk": EchoAsk}
        return Resident(Echo(), run=link.job_id, attempt=1, known=known)


class EchoConductor(CoordinatorSide):
    def __init__(self, parties: list[str]) -> None:
        super().__init__()
        self._parties = tuple(parties)

    def conduct(self, link: Link, send):
        parties = self._parties
        how = {"run": link.job_id, "attempt": 1, "parties": parties, "present": parties}
        channel = RemoteChannel(send, **how, least=len(parties), limits=Limits())
        data = os.urandom(MEGABYTE)
        for _ in range(ROUNDS + 1):
            assert all(reply.data == data for reply in channel.ask(EchoAsk(data)).values())
        seconds = [round_.seconds for round_ in channel.rounds[1:]]
        (link.folder / "spinney").mkdir()
        (link.folder / "spinney" / "echo.json").write_text(json.dumps(seconds))


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        federation = Federation(Path(place) / "federation")
        here = Path(__file__).parent
        federation.environment["PYTHONPATH"] += f":{here}:{here / 'echo_gate'}:{ROOT / 'tests'}"
        federation.environment.pop("NUMBA_NUM_THREADS")
        wide.write_tables(federation, int(os.environ.get("SPINNEY_BENCH_ROWS", "20000")))
        federation.enrol()
        federation.start()
        try:
            folder = Path(place) / "echo"
            write_echo(folder, federation.parties)
            with session(federation.root / "lead" / "kit") as opened:
                job = opened._inner.submit_job(str(folder))  # noqa: SLF001
                while not str(opened.meta(job)["status"]).startswith("FINISHED"):
                    time.sleep(0.5)
                found = opened._inner.download_job_result(job, str(Path(place) / "fetched"))  # noqa: SLF001
            seconds = json.loads((Path(found) / "workspace/spinney/echo.json").read_text())
            close_again(federation)
            path = wide.write_job(federation, "forest", n_estimators=100, max_depth=10)
            begin = time.perf_counter()
            federation.job("start", str(path), "--follow", "--out", "deployed")
            deployed = time.perf_counter() - begin
            want = wide.simulated(federation, path)  # warm: kernels are compiled by now
        finally:
            federation.stop()
        made = (federation.root / "lead" / "deployed" / "model.spinney").read_bytes()
        report = json.loads((federation.root / "lead" / "deployed" / "report.json").read_text())
        (in_one,) = (federation.root / "lead").glob("simulated-*/report.json")
        alone = json.loads(in_one.read_text())
    in_process = sum(alone["seconds"].values())
    result = {
        "rounds": ROUNDS,
        "round_median_s": round(statistics.median(seconds), 4),
        "round_worst_s": round(max(seconds), 4),
        "round_target_s": TARGET_ROUND,
        "forest_deployed_s": round(deployed, 2),
        "forest_training_s": round(sum(report["seconds"].values()), 2),
        "forest_in_process_s": round(in_process, 2),
        "forest_adds_s": round(deployed - in_process, 2),
        "forest_target_s": TARGET_FOREST,
        "same_bytes": made == want,
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(result, indent=1))


def close_again(federation) -> None:
    """Have the gates back."""
    for name in federation.parties:
        kits.settle_party(federation.root / name / "kit")


def write_echo(folder: Path, parties) -> None:
    write_job(folder, "echo", parties, b"{}")
    conductor = {"path": "bench_deployed.EchoConductor", "args": {"parties": list(parties)}}
    site = {"path": "bench_deployed.EchoSite", "args": {}}
    for name, part in (
        ("server", {"workflows": [{"id": "echo", **conductor}]}),
        ("client", {"executors": [{"tasks": ["echo"], "executor": site}]}),
    ):
        config = {"format_version": 2, "components": [], **part}
        (folder / f"spinney/config/config_fed_{name}.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main()
