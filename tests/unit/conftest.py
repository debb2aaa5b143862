"""A folder to work in, the command in this process, and small tables a person can check."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from spinney.cli.main import app

JOB = """
[job]
name = "visits"

[settings]
n_estimators = 4
max_depth = 3
n_jobs = 1

[schema]
label = "ill"
classes = ["no", "yes"]

[schema.columns]
age = { kind = "number", range = [0, 110] }
ward = { kind = "category", values = ["eye", "ear"] }
"""
TABLE = """
[table]
source = "csv"
path = "visits.csv"
"""


@dataclass
class Place:
    """A folder with a job file, and the command run in it."""

    folder: Path
    JOB: ClassVar[str] = JOB
    TABLE: ClassVar[str] = TABLE

    @staticmethod
    def visits(n: int = 120):
        """Return rows whose label follows from age and ward, with a little noise; all differ."""
        random = np.random.default_rng(0)
        ages = np.linspace(18, 98, n)
        wards = random.choice(["eye", "ear"], n)
        ill = (ages + 20 * (wards == "ear") + random.normal(0, 8, n)) > 70
        return [
            (f"{age:.3f}", ward, "yes" if one else "no")
            for age, ward, one in zip(ages, wards, ill, strict=True)
        ]

    def job(self, text: str = JOB + TABLE, **changes: str) -> Path:
        """Write the job file; a change replaces, in the text, a line that begins with its name."""
        lines = text.splitlines()
        for name, value in changes.items():
            (place,) = (at for at, line in enumerate(lines) if line.startswith(f"{name} ="))
            lines[place] = f"{name} = {value}"
        return self.write("\n".join(lines))

    def write(self, text: str) -> Path:
        path = self.folder / "job.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def csv(self, name: str, rows, header=("age", "ward", "ill")) -> Path:
        path = self.folder / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    def run(self, *arguments: str):
        return CliRunner().invoke(app, list(arguments))

    def refused(self, *arguments: str) -> tuple[int, str]:
        """Run a command that must fail, in one line and without a trace; return code and line."""
        before = self.files()
        told = self.run(*arguments)
        assert told.stdout == ""
        assert told.stderr.count("\n") == 1
        assert "Traceback" not in told.stderr
        assert self.files() == before
        return told.exit_code, told.stderr.rstrip("\n")

    def files(self) -> set[str]:
        """Return everything in the folder, hidden files too."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "spinney.simulation.progress._COMPILING_AFTER", 3600
    )  # a slow start is fine
    made = Place(tmp_path)
    made.csv("visits.csv", made.visits())
    return made
