"""Copies of a ledger, and how one takes the ledger's place.

A ledger records what was promised. A copy that lacks entries has forgotten charges, so a party that
goes on with it could exceed its budget: nobody restores such a copy by mistake.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from uuid import uuid4

from spinney.errors import LedgerError
from spinney.files import hold_lock, is_locked, sync_to_disk
from spinney.privacy.claims import Entry
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Anchor

_BEFORE = ".before-restore"


@dataclass(frozen=True)
class Restored:
    """The result of a restore."""

    last: Anchor
    forgotten: int  # entries
    kept: Path | None  # the ledger that was replaced


def lock_of(ledger: Path) -> Path:
    """Return the lock of a ledger: a party shares it while it runs; a restore holds it alone."""
    return ledger.with_name(f"{ledger.name}.lock")


def back_up(ledger: Path, copy: Path) -> Anchor:
    """Copy a ledger and check the copy; return its last entry."""
    _refuse_existing(copy, "A copy is never overwritten; choose another name.")
    with _copied(ledger, copy) as (part, last):
        try:
            os.link(part, copy)  # unlike a rename, it replaces nothing
        except OSError:  # somebody was faster; or a file system without links
            _refuse_existing(copy, "A copy is never overwritten; choose another name.")
            part.replace(copy)
        _sync(copy)
    return last


def restore(copy: Path, ledger: Path, forget: int | None = None) -> Restored:
    """Put a copy in a ledger's place.

    Parameters
    ----------
    forget
        How many entries of the ledger the copy lacks, as a confirmation; None: it must lack none.
    """
    with alone_with(ledger), _copied(copy, ledger) as (part, last):
        lacking = _forgotten(part, ledger) if ledger.exists() else 0
        if lacking != (forget or 0):
            raise _forgets(copy, lacking, last, forget)
        kept = _keep(ledger) if ledger.exists() else None
        _put(part, ledger, kept or ledger.parent)
        return Restored(last, lacking, kept)


def begin_anew(ledger: Path, begin: Callable[[Path], None]) -> None:
    """Make a ledger where none is: whole, or not at all; only while it is held alone."""
    part = ledger.with_name(f".{ledger.name}.{uuid4().hex}.part")
    try:
        begin(part)
        _put(part, ledger, ledger.parent)
    finally:
        for rest in (part, part.with_name(f"{part.name}-journal")):
            rest.unlink(missing_ok=True)


def _put(part: Path, ledger: Path, owner: Path) -> None:
    """Put a whole file in a ledger's place; it belongs to whom another file belongs."""
    # A journal belongs to the file that wrote it; SQLite would play it into this one.
    journal = ledger.with_name(f"{ledger.name}-journal")
    with suppress(FileNotFoundError):
        journal.rename(ledger.with_name(f"{ledger.name}{_BEFORE}-journal"))
    _give_to_owner(part, owner)
    part.replace(ledger)
    _sync(ledger)


@contextmanager
def _copied(source: Path, beside: Path) -> Iterator[tuple[Path, Anchor]]:
    """Yield a checked copy of a ledger in the folder of a file, and its last entry."""
    part = beside.with_name(f".{beside.name}.{uuid4().hex}.part")
    try:
        with opened(source) as ledger:
            _copy(ledger, part)
        with opened(part) as ledger:
            last = ledger.verify()
        yield part, last
    finally:
        for rest in (part, part.with_name(f"{part.name}-journal")):
            rest.unlink(missing_ok=True)


def _copy(ledger: Ledger, part: Path) -> None:
    try:
        ledger.copy_to(part)
    except OSError as error:
        raise LedgerError(
            "The copy cannot be written.", local=f"File: {part.parent}: {error.strerror}."
        ) from None


@contextmanager
def alone_with(ledger: Path) -> Iterator[None]:
    """Hold a ledger's lock; raise if its party runs, or somebody else replaces it."""
    lock = lock_of(ledger)
    with ExitStack() as held:
        try:
            held.enter_context(hold_lock(lock))
        except BlockingIOError:
            if is_locked(lock):  # alone: a party that runs shares it
                raise LedgerError(
                    "Somebody else is just replacing this ledger. Wait until that is done, and "
                    "look at what it holds then: spinney ledger verify.",
                    local=f"File: {ledger}.",
                ) from None
            raise LedgerError(
                "The party that uses this ledger is running. Stop it, restore, and start it again.",
                local=f"File: {ledger}.",
            ) from None
        except OSError as error:
            raise LedgerError(
                "The ledger cannot be restored there.", local=f"File: {lock}: {error.strerror}."
            ) from None
        _give_to_owner(lock, ledger if ledger.exists() else ledger.parent)
        yield


def _forgotten(copy: Path, ledger: Path) -> int:
    """Return how many entries of a ledger a copy lacks."""
    try:
        with opened(ledger) as present:
            present.verify()
            party, entries = present.party, present.entries()
    except LedgerError as error:
        raise LedgerError(
            "The ledger to be replaced is damaged, so nobody can count what the copy has "
            "forgotten. Compare the last entry that you noted elsewhere with the copy's ('spinney "
            "ledger verify'); if it is the same, move the damaged file away and restore again.",
            local=f"File: {ledger}: {error}",
        ) from None
    with opened(copy) as stored:
        if stored.party != party:
            raise LedgerError(
                f"The copy is the ledger of {stored.party!r}; the ledger to be replaced is that of "
                f"{party!r}. Name the right files."
            )
        pairs = zip(entries, stored.entries(), strict=False)
        common = sum(1 for _ in takewhile(_are_same, pairs))
    return len(entries) - common


def _are_same(pair: tuple[Entry, Entry]) -> bool:
    return pair[0] == pair[1]


def _forgets(copy: Path, lacking: int, last: Anchor, forget: int | None) -> LedgerError:
    """Return why a copy is not restored."""
    entries = "1 entry" if lacking == 1 else f"{lacking} entries"
    if not lacking:
        return LedgerError(
            f"--forget {forget} was given, but the copy has forgotten nothing. Leave it out."
        )
    said = "" if forget is None else f"--forget {forget} was given, but "
    the = "the" if said else "The"
    return LedgerError(
        f"{said}{the} copy has forgotten {entries}: it ends with entry {last.seq}. Their "
        "charges still count: a party that goes on without them could spend its budget twice. "
        f"Look for a newer copy; if there is none, confirm with --forget {lacking}.",
        local=f"File: {copy}.",
    )


def _keep(ledger: Path) -> Path:
    """Give the ledger that is replaced a second name; there is a ledger at any moment."""
    kept = ledger.with_name(f"{ledger.name}{_BEFORE}")
    _refuse_existing(kept, "It is of an earlier restore; move it away first.")
    try:
        os.link(ledger, kept)
    except OSError:  # a file system without links
        shutil.copy2(ledger, kept)
    return kept


def _give_to_owner(path: Path, like: Path) -> None:
    """Give a file to the owner of another, if we may: root restores for the party's user."""
    with suppress(OSError):
        found = like.stat()
        os.chown(path, found.st_uid, found.st_gid)


def _refuse_existing(path: Path, instead: str) -> None:
    if path.exists():
        raise LedgerError("There is already a file of that name.", local=f"{path}: {instead}")


def _sync(path: Path) -> None:
    """Sync a file and its folder to disk."""
    for one in (path, path.parent):
        sync_to_disk(one)


@contextmanager
def opened(path: Path) -> Iterator[Ledger]:
    """Open a ledger that exists, and close it in the end."""
    ledger = Ledger.open(path)
    try:
        yield ledger
    finally:
        ledger.close()
