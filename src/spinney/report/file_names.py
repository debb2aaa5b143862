"""The names of the files in a run's folder."""

import os
from pathlib import Path

MODEL = "model.spinney"
CANDIDATE = "candidate.spinney"  # at a party: a model that has not left, to be audited
REPORT = "report.json"
PAGE = "report.html"
AUDIT = "audit.json"
RUN_FILES = (MODEL, REPORT, PAGE)
RUNS = "runs"  # the folder of runs, unless a command names another
DEMO = "spinney-demo"  # the folder of the demo's run


def file_in(path: str | os.PathLike[str], name: str) -> Path:
    """Return the path itself, or the file `name` in it if the path is a run's folder."""
    given = Path(path)
    return given / name if given.is_dir() else given
