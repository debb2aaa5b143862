"""Atomic file writes, and locks that only one process can hold at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Final
from uuid import uuid4

from spinney.errors import StorageError

_GLANCE: Final = 0.1  # seconds


def replace_file(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file atomically: a temporary file beside it is synced to disk, then renamed.

    Parameters
    ----------
    path
        The file; an existing one is replaced.
    data
        The whole content.
    mode
        The permission bits, before the process's umask is applied.
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_to_disk(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically; raise `StorageError` if that fails."""
    target = Path(path)
    try:
        replace_file(target, data)
    except OSError as error:
        raise StorageError(
            f"Cannot write {str(target)!r}: {error.strerror or error}. "
            "Choose a folder that exists and that you may write to."
        ) from None


@contextmanager
def hold_lock(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock file while the block runs; raise `BlockingIOError` if another process has it.

    Several processes may hold a shared lock; then nobody can hold it alone.
    """
    wanted = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    with path.open("w") as file:
        try:
            fcntl.flock(file, wanted)
        except BlockingIOError:
            sleep(_GLANCE)  # perhaps somebody only asked whether it is held
            fcntl.flock(file, wanted)
        yield


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Hold a lock file while the block runs, as soon as no other process holds it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock alone; it makes no file, and needs no right to write.

    Processes that ask at the same time do not take each other for the holder.
    """
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
