"""A federation between organisations: every party behind a line of 10 Mbit/s and 100 ms.

The line is a relay in this process, one for each party: it holds every byte back by half the round
trip, and lets through so many bytes a second in each direction. 50,000 rows of 20 columns are
dealt to three parties, which grow 100 trees of depth 10, open, with masked sums, and with sums
that the coordinator does not see; and 100 boosted trees in their batches.
Run: python benchmarks/bench_wan.py [job ...], for example "open boosted"
"""

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from deployed.loopback import Federation, free_port  # noqa: E402

ROWS, COLUMNS = 50_000, 20
ROUND_TRIP = float(os.environ.get("SPINNEY_WAN_MS", "100")) / 1000
BYTES_A_SECOND = 10e6 / 8
TARGETS = {"open": 15.0, "masked": 20.0, "open boosted": 60.0, "masked boosted": 60.0}
SUMS = {
    "open": {"secure_sum": False},
    "masked": {"secure_sum": True, "coordinator": "sighted"},
    "blind": {"secure_sum": True, "coordinator": "blind"},
}
FOREST = "[settings]\nn_estimators = 100\nmax_depth = 10"
BOOSTED = 'protocol = "horizontal_boosting"\n[settings]\nmax_iter = 100'  # the default, in batches
FORESTS = ("open cold", "masked cold", "open", "masked", "blind", "open again", "masked again")
JOBS = (*FORESTS, "open boosted", "masked boosted")
"""Cold: the first of its kind in a new federation, whose parties compile their kernels."""


class Line:
    """Relays that stand for lines between organisations."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def to(self, port: int) -> int:
        """Return a port that leads to another one over a line of its own."""
        own = free_port()
        asyncio.run_coroutine_threadsafe(self._serve(own, port), self.loop).result()
        return own

    async def _serve(self, own: int, port: int) -> None:
        async def connected(reader, writer):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            ways = ((reader, far_writer), (far_reader, writer))
            await asyncio.gather(*(self._carry(*way) for way in ways))

        await asyncio.start_server(connected, "127.0.0.1", own)

    async def _carry(self, reader, writer) -> None:
        """Carry bytes one way: each chunk leaves when the line is free, and arrives later."""
        underway: asyncio.Queue = asyncio.Queue()

        async def arriving() -> None:
            while (item := await underway.get()) is not None:
                at, data = item
                await asyncio.sleep(max(0.0, at - self.loop.time()))
                writer.write(data)
                await writer.drain()
            writer.close()

        task, free = asyncio.ensure_future(arriving()), 0.0
        try:
            while data := await reader.read(16384):
                free = max(free, self.loop.time()) + len(data) / BYTES_A_SECOND
                await asyncio.sleep(max(0.0, free - self.loop.time()))
                underway.put_nowait((free + ROUND_TRIP / 2, data))
        finally:
            underway.put_nowait(None)
            await task


def installed(federation: Federation) -> None:
    """Let the processes keep compiled files, as those of an installation do."""
    federation.environment.pop("NUMBA_NUM_THREADS")
    federation.environment.pop("PYTHONDONTWRITEBYTECODE", None)
    federation.environment["PYTHONPYCACHEPREFIX"] = str(federation.root / "compiled")


def write_tables(federation: Federation) -> None:
    """Deal the rows to the parties."""
    random = np.random.RandomState(0)
    cells = np.round(random.standard_normal((ROWS, COLUMNS)), 3)
    score = cells[:, 0] * cells[:, 1] + cells[:, 2] + random.standard_normal(ROWS)
    frame = pd.DataFrame(cells, columns=[f"x{i}" for i in range(COLUMNS)])
    frame["sick"] = np.where(score > 0, "yes", "no")
    for number, name in enumerate(federation.parties):
        frame[number :: len(federation.parties)].to_csv(
            federation.root / name / "table.csv", index=False
        )
        federation.write_party(name, 'source = "csv"\npath = "table.csv"\nquery = "from source"')


def write_job(federation: Federation, name: str, **settings) -> Path:
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    facts = "\n".join(f'x{i} = {{ kind = "number", range = [-9, 9] }}' for i in range(COLUMNS))
    path = federation.root / "lead" / f"{name}.toml"
    path.write_text(
        f'[job]\nname = "{name}"\nparties = {json.dumps(list(federation.parties))}\n'
        f"{BOOSTED if 'boosted' in name else FOREST}\n{lines}\n"
        f'[schema]\nlabel = "sick"\nclasses = ["no", "yes"]\n[schema.columns]\n{facts}\n'
        "[simulation]\nheld_out = 0.0\n"
    )
    return path


def begun_after(federation: Federation, run: str) -> float:
    """Return the seconds from the submission of a run to its first round's beginning."""
    status = federation.status(run)
    return status["since"] - status["begun"]


def main() -> None:
    line = Line()
    with tempfile.TemporaryDirectory() as place:
        federation = Federation(Path(place) / "federation", limits="silence_seconds = 60")
        installed(federation)
        write_tables(federation)
        federation.enrol()
        for side in (*federation.parties, "lead"):
            file = federation.root / side / "kit" / "startup" / "federation.json"
            facts = json.loads(file.read_text())
            facts |= {key: line.to(facts[key]) for key in ("port", "admin_port")}
            file.write_text(json.dumps(facts))
        federation.start()
        result: dict = {"round_trip_s": ROUND_TRIP, "cpus": os.cpu_count()}
        try:
            federation.wait_until_connected()
            for name in sys.argv[1:] or JOBS:
                path = write_job(federation, name.replace(" ", "-"), **SUMS[name.split()[0]])
                begin = time.perf_counter()
                federation.job("start", str(path), "--follow", "--out", path.stem)
                seconds = time.perf_counter() - begin
                report = json.loads(
                    (federation.root / "lead" / path.stem / "report.json").read_text()
                )
                runs = json.loads(federation.job("list", "--json").stdout)
                result[name] = {
                    "seconds": round(seconds, 1),
                    "training_s": round(sum(report["seconds"].values()), 1),
                    "first_round_after_s": round(begun_after(federation, runs[0]["run"]), 2),
                    "rounds": len(report["traffic"]),
                    "up_bytes": sum(sum(r["bytes_up"].values()) for r in report["traffic"]),
                    "down_bytes": sum(sum(r["bytes_down"].values()) for r in report["traffic"]),
                }
        finally:
            federation.stop()
    if {"masked", "open"} <= set(result):
        upload = result["masked"]["up_bytes"] / result["open"]["up_bytes"]
        result["masked_to_open_upload"] = round(upload, 2)
    result["targets_s"] = TARGETS
    result["load"] = os.getloadavg()[0]
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
