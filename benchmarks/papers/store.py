"""Measured cells on disk: JSON lines while running, each written as soon as it is measured.

A line is either a run (an id, the commit, the machine, versions, when) or a cell that names its
run. A line that an interruption cut short is dropped; the cell is measured again. One process at a
time writes to a store.
"""

import fcntl
import gzip
import json
import os
import subprocess
import time
from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from harness import machine, versions
from papers.experiment import Cell, Experiment, Found, Paper

_HOME = Path(__file__).parents[2]
_RESULTS = (":(exclude)docs/results", ":(exclude)docs/results.md")


class Store:
    """The cells of one paper that were measured so far."""

    def __init__(self, folder: Path, paper: Paper) -> None:
        self.paper = paper
        self.path = folder / f"{paper.name}.jsonl"
        self.runs: dict[str, dict[str, Any]] = {}
        self._cells: dict[str, dict[str, Any]] = {}
        self._file: IO[str] | None = None
        self._lock: IO[str] | None = None
        self._run = ""
        self.take(self.path)

    def __contains__(self, one: tuple[Experiment, Cell]) -> bool:
        experiment, cell = one
        return experiment.key(cell) in self._cells

    def found(self, wanted: list[tuple[Experiment, Cell]]) -> list[tuple[str, Cell, Found]]:
        """Return those of the wanted cells that are stored, in the order they are wanted."""
        return [
            (one.name, cell, self._cells[one.key(cell)]["found"])
            for one, cell in wanted
            if (one, cell) in self
        ]

    def origins(self, wanted: list[tuple[Experiment, Cell]]) -> list[dict[str, Any]]:
        """Return the runs that measured the wanted cells, and how many each did."""
        ids = [self._cells[o.key(cell)]["run"] for o, cell in wanted if (o, cell) in self]
        return [self.runs[run] | {"cells": ids.count(run)} for run in dict.fromkeys(ids)]

    def hours(self, wanted: list[tuple[Experiment, Cell]]) -> float | None:
        """Return how long cells take one after another; unknown ones as the mean of their kind."""
        known: dict[str, list[float]] = {}
        for line in self._cells.values():
            if line["seconds"] is not None:
                known.setdefault(line["experiment"], []).append(line["seconds"])
        if not all(one.name in known for one, _ in wanted):
            return None
        # fsum: from Python 3.12 on, `sum` rounds otherwise than before.
        means = {name: fsum(seconds) / len(seconds) for name, seconds in known.items()}
        stored = (self._cells.get(one.key(cell), {}).get("seconds") for one, cell in wanted)
        pairs = zip(wanted, stored, strict=True)
        spent = fsum(means[one.name] if own is None else own for (one, _), own in pairs)
        return round(spent / 3600, 6)

    def take(self, path: Path) -> int:
        """Take over the cells of a file of this form, with their runs; return how many are new."""
        if not path.exists():
            return 0
        before = len(self._cells)
        whole = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = whole.decode().split("\n")[:-1]  # the rest was cut short
        for number, text_line in enumerate(lines, 1):
            try:
                line = json.loads(text_line)
                self._know(line)
            except (ValueError, KeyError, StopIteration) as error:
                raise SystemExit(
                    f"{path}, line {number}, is not a run or a cell of {self.paper.name}: "
                    f"{error!r}. Delete that line; its cell is then measured again."
                ) from error
        return len(self._cells) - before

    def _know(self, line: dict[str, Any]) -> None:
        if "cell" not in line:
            self.runs.setdefault(line["id"], line)
            return
        key = self.paper.experiment(line["experiment"]).key(line["cell"])
        if line["run"] not in self.runs:
            raise KeyError(line["run"])
        self._cells.setdefault(key, line)

    def open(self) -> None:
        """Lock the store and write what it took over; what was cut short goes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.path.with_suffix(".lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise SystemExit(
                f"Another run writes to {self.path}. Wait until it has ended, or give this one "
                "another folder by --into."
            ) from None
        whole = self.path.with_suffix(".new")
        lines = (*self.runs.values(), *self._cells.values())
        whole.write_text("".join(map(_line, lines)), encoding="utf-8")
        whole.replace(self.path)  # all or nothing, should we be stopped here
        self._file = self.path.open("a", encoding="utf-8")

    def begin(self) -> None:
        """Note the run that now measures: its commit, machine and versions."""
        self._run = f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
        run = {
            "id": self._run,
            "commit": commit(),
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "machine": machine(),
            "versions": versions(),
            "noise": "seeded by the cell: a simulation, private to nobody",
        }
        self._add(run)

    def add(self, experiment: Experiment, cell: Cell, found: Found, seconds: float) -> None:
        """Keep a cell that was just measured."""
        self._add(
            {
                "experiment": experiment.name,
                "cell": cell,
                "seed": experiment.seed(cell),
                "found": found,
                "seconds": round(seconds, 3),
                "run": self._run,
            }
        )

    def _add(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        self._know(json.loads(_line(line)))  # what is shown now is what a later run will read
        self._file.write(_line(line))
        self._file.flush()

    def close(self) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                file.close()

    def publish(self, to: Path) -> None:
        """Write all cells with their runs, compressed, so that the tables can be made again."""
        text = "".join(map(_line, (*self.runs.values(), *self._cells.values())))
        to.write_bytes(gzip.compress(text.encode(), mtime=0))  # the same cells, the same file

    def export(self, to: Path) -> None:
        """Write all cells as Parquet, a row for every number: facts, path, value, origin."""
        rows = [
            {
                "experiment": line["experiment"],
                **line["cell"],
                "metric": metric,
                "value": value,
                "seed": line["seed"],
                "seconds": line["seconds"],
                "commit": self.runs[line["run"]]["commit"],
                "run": line["run"],
            }
            for line in self._cells.values()
            for metric, value in _numbers(line["found"])
        ]
        frame = pd.DataFrame(rows)
        mixed = [name for name in frame if frame[name].dtype.kind == "O"]  # facts of several kinds
        for name in mixed:
            frame[name] = frame[name].map(lambda value: value if value is None else str(value))
        table = pa.Table.from_pandas(frame, preserve_index=False)
        runs = {"runs": json.dumps(list(self.runs.values()))}
        parquet.write_table(table.replace_schema_metadata(runs), to, compression="zstd")


def _line(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"


def _numbers(found: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Give every number that was found, with the way to it."""
    if isinstance(found, dict | list):
        for name, value in found.items() if isinstance(found, dict) else enumerate(found):
            yield from _numbers(value, f"{path}/{name}" if path else str(name))
    elif isinstance(found, int | float):
        yield path, float(found)


def commit() -> str:
    """Return the commit that is checked out, and whether files differ from it, but for results."""
    git = ["git", "-C", str(_HOME)]
    named = subprocess.run(
        [*git, "describe", "--always", "--abbrev=9"], capture_output=True, text=True, check=False
    )
    same = subprocess.run(  # a part of a run that was published makes no later one dirty
        [*git, "diff", "--quiet", "HEAD", "--", ".", *_RESULTS], check=False
    )
    return (named.stdout.strip() or "unknown") + ("" if same.returncode == 0 else "-dirty")
