"""What the files in a run's folder are called."""

import os
from pathlib import Path

MODEL = "model.spinney"
REPORT = "report.json"
PAGE = "report.html"


def file_in(path: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file, or of the one called `name` where a run's folder is given."""
    given = Path(path)
    return given / name if given.is_dir() else given
