"""A run on this machine, by its folder or by the name that `spinney runs` lists."""

from pathlib import Path
from typing import Final

from spinney.report.file_names import RUN_FILES, RUNS

RUN_HELP: Final = "A run: its folder, or its name in runs/"


def run_called(given: Path) -> Path:
    """Return the path itself, or the run of this name in `runs/`.

    A file or a run at the path comes first, so that a name never hides what a path means.
    """
    if given.is_file() or any((given / name).is_file() for name in RUN_FILES):
        return given
    named = Path(RUNS) / given
    return named if len(given.parts) == 1 and named.is_dir() else given
