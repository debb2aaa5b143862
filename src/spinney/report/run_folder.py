"""The folder of a run: its files appear whole and together, or not at all."""

import os
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

from spinney.errors import StorageError
from spinney.files import replace_file
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT
from spinney.report.door import release
from spinney.report.file_names import MODEL, PAGE, REPORT, RUN_FILES
from spinney.report.page.page import page_of
from spinney.report.report import Report


def require_writable(folder: Path) -> None:
    """Raise unless a folder can be made or written to; called before the work starts."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise _unwritable(folder, f"{str(existing)!r} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _unwritable(folder, f"{str(existing)!r} may not be written to")
    for name in RUN_FILES:
        if (folder / name).is_dir():
            raise _unwritable(folder, f"{str(folder / name)!r} is a folder")


def require_no_run(folder: Path) -> None:
    """Raise if a folder that somebody named for a new run holds a run."""
    if not _has_room(folder, {}):
        raise StorageError(
            f"The folder {str(folder)!r} already holds a run, and Spinney overwrites none. Name "
            "another folder with --out, or move the earlier run away."
        )


def free_folder(wanted: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """Return the folder for a run: `wanted`, or `wanted`-2, -3, ... if that holds another run.

    A folder that holds some of the run's own `files` is not another run's.
    """
    number, folder = 1, wanted
    while not _has_room(folder, files or {}):
        number += 1
        folder = Path(f"{wanted}-{number}")
    return folder


def _has_room(folder: Path, files: Mapping[str, bytes]) -> bool:
    found = [folder / name for name in RUN_FILES if (folder / name).is_file()]
    return all(path.read_bytes() == files.get(path.name) for path in found)


def write_run(folder: Path, model: ForestModel | None, report: Report) -> None:
    """Write a run's model, report and page into a folder, replacing those that are there.

    The coordinator writes a run that stopped and was resumed into the same folder; for a new run,
    choose the folder with `free_folder`.

    The files are written to a temporary folder and moved when all are complete. People pass them
    on, so model and page hold the model as it may leave, on the terms of the report. `model` is
    None for a run that stopped before it had a model.
    """
    if model is not None:
        model, done = release(model, report.release or EXACT)
        if done:
            report = report.hardened_by(done, model)
    made = _missing_parents(folder)
    part = f".{os.getpid()}.part"
    beside = folder / part if folder.is_dir() else folder.with_name(f".{folder.name}{part}")
    try:
        beside.mkdir(parents=True)
        if model is not None:
            replace_file(beside / MODEL, model.to_bytes())
        replace_file(beside / REPORT, report.to_json().encode())
        replace_file(beside / PAGE, page_of(report, model).encode())
        _move(beside, folder)
    except BaseException as error:
        rmtree(beside, ignore_errors=True)
        _remove(made)
        if isinstance(error, OSError):
            raise _unwritable(folder, error.strerror or str(error)) from None
        raise


def _move(beside: Path, folder: Path) -> None:
    if not folder.exists():
        beside.rename(folder)
        return
    if not (beside / MODEL).exists():  # a report must not stand beside another run's model
        (folder / MODEL).unlink(missing_ok=True)
    for path in list(beside.iterdir()):
        path.replace(folder / path.name)
    beside.rmdir()


def _missing_parents(folder: Path) -> list[Path]:
    """Return the folders above that do not exist yet, the innermost first."""
    return [parent for parent in folder.parents if not parent.exists()]


def _remove(made: list[Path]) -> None:
    for folder in made:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _unwritable(folder: Path, reason: str) -> StorageError:
    return StorageError(
        f"Cannot write into the folder {str(folder)!r}: {reason}. "
        "Choose a folder that you may write to with --out."
    )
