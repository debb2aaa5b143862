"""The ledger's file: numbered entries that can be added, never changed or taken out.

SQLite, because it is one file, survives a crash at any instruction and lets several processes
write in turn. Every transaction is on the disk when it returns: rollback journal in TRUNCATE mode
with synchronous=EXTRA. (A write-ahead log is faster, but loses its tail with its second file, and
has a known race between checkpoints and writers before SQLite 3.51.3.)

Each entry holds the hash of the one before, so that a change anywhere breaks every later link.
Triggers stop accidents; the chain finds what triggers cannot stop. Whoever can rewrite the whole
file can also rewrite an unsigned chain: sign the entries, or keep an `Anchor` elsewhere.

This file knows bytes only; `ledger` knows what they mean.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from spinney.errors import InternalError, LedgerError

FORMAT: Final = 1
MEMORY: Final = ":memory:"
_APPLICATION: Final = 0x5F1A7E1E  # marks the file as a Spinney ledger
_START: Final = bytes(32)  # what the first entry names as its predecessor
_FROZEN: Final = "RAISE(ABORT, 'the ledger is append-only')"
_SCHEMA: Final = (
    """CREATE TABLE entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL,
        body BLOB NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL)""",
    """CREATE TABLE replies (
        seq INTEGER PRIMARY KEY REFERENCES entries, reply BLOB NOT NULL)""",
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT {_FROZEN}; END"
        for table in ("entries", "replies")
        for verb in ("UPDATE", "DELETE")
    ),
)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the chain; kept elsewhere, it proves that nothing up to there was changed."""

    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One stored entry."""

    seq: int
    at: str
    kind: str
    body: bytes
    previous: bytes
    hash: bytes
    signature: bytes = b""

    @classmethod
    def after(cls, last: Anchor, at: str, kind: str, body: bytes) -> Self:
        """Return the next entry of the chain, not yet signed."""
        seq = last.seq + 1
        return cls(seq, at, kind, body, last.hash, _hash(seq, at, kind, body, last.hash))

    def check_follows(self, last: Anchor) -> None:
        """Raise `LedgerError` unless this is, unchanged, what was written after `last`."""
        if self.seq != last.seq + 1:
            raise LedgerError(f"Entry {last.seq + 1} of the ledger is missing.")
        if self.previous != last.hash:
            raise LedgerError(
                f"Entry {self.seq} of the ledger does not follow entry {last.seq}: "
                f"one of them was changed after it was written."
            )
        if self.hash != _hash(self.seq, self.at, self.kind, self.body, self.previous):
            raise LedgerError(f"Entry {self.seq} of the ledger was changed after it was written.")

    @property
    def anchor(self) -> Anchor:
        """The entry's place in the chain."""
        return Anchor(self.seq, self.hash)


def _hash(seq: int, at: str, kind: str, body: bytes, previous: bytes) -> bytes:
    """Return SHA-256 over all fields, each with its length before it."""
    digest = sha256(b"spinney ledger")
    for part in (previous, str(seq).encode(), at.encode(), kind.encode(), body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.digest()


class LedgerStore:
    """An append-only chain of entries, and the replies they paid for.

    Parameters
    ----------
    path
        The file, made if missing; `MEMORY` for a ledger that ends with the process.
    key
        Signs every entry, if given.
    busy_seconds
        How long to wait for another process that is writing.
    """

    def __init__(
        self, path: Path | str, key: Ed25519PrivateKey | None = None, *, busy_seconds: float = 30.0
    ) -> None:
        self._where = str(path)
        self._key = key
        self._process = os.getpid()
        self._writing = False
        with self._plain_errors():
            self._database = sqlite3.connect(
                self._where, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
        try:
            with self._plain_errors():
                self._prepare()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes out until the end; then all is on the disk, or nothing."""
        if self._process != os.getpid():
            raise InternalError("A ledger cannot be used in a forked process; open it there.")
        with self._plain_errors():
            self._database.execute("BEGIN IMMEDIATE")
            self._writing = True
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk has already rolled it back
                    self._database.execute("ROLLBACK")
                raise
            finally:
                self._writing = False

    def append(self, last: Anchor, kind: str, body: bytes, reply: bytes | None = None) -> Row:
        """Write the entry that follows `last`; only within `writing`."""
        if not self._writing:
            raise InternalError("Entries are written within `writing` only.")
        row = Row.after(last, datetime.now(UTC).isoformat(timespec="microseconds"), kind, body)
        signature = self._key.sign(row.hash) if self._key else b""
        self._database.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row.seq, row.at, kind, body, row.previous, row.hash, signature),
        )
        if reply is not None:
            self._database.execute("INSERT INTO replies VALUES (?, ?)", (row.seq, reply))
        return row

    def rows_after(self, last: Anchor) -> Iterator[Row]:
        """Yield the entries that follow `last`, each checked against the one before it."""
        with self._plain_errors():
            stored = self._database.execute(
                "SELECT * FROM entries WHERE seq > ? ORDER BY seq", (last.seq,)
            )
            for fields in stored:
                row = Row(*fields)
                row.check_follows(last)
                last = row.anchor
                yield row

    def reply(self, seq: int) -> bytes | None:
        """Return the reply that was stored with an entry."""
        with self._plain_errors():
            found = self._database.execute("SELECT reply FROM replies WHERE seq = ?", (seq,))
            row: tuple[bytes] | None = found.fetchone()
        return None if row is None else row[0]

    def verified_rows(self, public_key: bytes | None) -> Iterator[Row]:
        """Yield all entries, signatures checked too; then check that none is missing at the end."""
        verifier = Ed25519PublicKey.from_public_bytes(public_key) if public_key else None
        last = START
        for row in self.rows_after(START):
            if verifier is not None:
                _check_signature(row, verifier)
            last = row.anchor
            yield row
        with self._plain_errors():
            counted = self._database.execute("SELECT seq FROM sqlite_sequence").fetchone()
            loose = self._database.execute(
                "SELECT min(seq) FROM replies WHERE seq NOT IN (SELECT seq FROM entries)"
            ).fetchone()
        if counted != (last.seq,):
            raise LedgerError(f"Entry {last.seq + 1} of the ledger is missing.")
        if loose != (None,):
            raise LedgerError(f"The ledger holds a reply for entry {loose[0]}, which is missing.")

    def _prepare(self) -> None:
        """Set the file up, or check that it is one of ours."""
        for pragma in ("journal_mode = TRUNCATE", "synchronous = EXTRA"):
            self._database.execute(f"PRAGMA {pragma}")
        if self._pragma("application_id") == 0 and not self._definitions():
            with self.writing():
                if not self._definitions():  # another process may just have made it
                    for statement in _SCHEMA:
                        self._database.execute(statement)
                    self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._database.execute(f"PRAGMA user_version = {FORMAT}")
        if self._pragma("application_id") != _APPLICATION:
            raise LedgerError("This file is not a Spinney ledger.", local=f"File: {self._where}.")
        version = self._pragma("user_version")
        if version != FORMAT:
            raise LedgerError(
                f"The ledger has format {version}; this version of Spinney reads format {FORMAT}. "
                f"Use the version that wrote it.",
                local=f"File: {self._where}.",
            )
        if self._definitions() != set(_SCHEMA):
            raise LedgerError(
                "The ledger's tables or its append-only rules were changed.",
                local=f"File: {self._where}.",
            )

    def _pragma(self, name: str) -> int:
        value: int = self._database.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def _definitions(self) -> set[str]:
        found = self._database.execute(
            "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%' AND sql IS NOT NULL"
        )
        return {sql for (sql,) in found}

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Say in one sentence what SQLite reports by a number."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            for prefix, sentence in _SENTENCES.items():
                if name.startswith(prefix):
                    raise LedgerError(sentence, local=f"File: {self._where}.") from error
            raise LedgerError(
                "The ledger cannot be read or written. Nothing was released.",
                local=f"File: {self._where}; SQLite says: {error}.",
            ) from error


START: Final = Anchor(0, _START)
_SENTENCES: Final = {
    "SQLITE_BUSY": "The ledger is locked by another process. Nothing was released; try again.",
    "SQLITE_FULL": "The ledger's disk is full. Nothing was released; make room and try again.",
    "SQLITE_READONLY": "The ledger cannot be written: it is read-only. Nothing was released.",
    "SQLITE_CANTOPEN": "The ledger cannot be opened: its folder is missing or not writable.",
    "SQLITE_CORRUPT": "The ledger's file is damaged. Nothing was released; an older copy would "
    "forget charges, so use one only if it holds the last entry.",
    "SQLITE_NOTADB": "This file is not a Spinney ledger.",
}


def _check_signature(row: Row, verifier: Ed25519PublicKey) -> None:
    try:
        verifier.verify(row.signature, row.hash)
    except InvalidSignature:
        raise LedgerError(
            f"Entry {row.seq} of the ledger does not carry the party's signature."
        ) from None
