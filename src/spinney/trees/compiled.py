"""Compiled kernels for a process in a cage.

Numba unpickles what it finds in its cache, which runs code. A process that may be attacked
therefore has a cache of its own, from which no other process loads.
"""

from pathlib import Path
from shutil import copyfile

from spinney.trees._kernels.compiling import cache_folder, cache_folder_in


def copy_compiled(folder: Path) -> None:
    """Copy kernels that are compiled already to where `NUMBA_CACHE_DIR` is to be `folder`."""
    to = cache_folder_in(folder)
    to.mkdir(parents=True, exist_ok=True)
    kept = cache_folder()
    for path in kept.glob("*.nb[ci]") if kept else ():
        if not (to / path.name).exists():
            copyfile(path, to / path.name)
