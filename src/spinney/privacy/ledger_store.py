"""The ledger's file: numbered entries that can be added, but never changed or removed.

The file is an SQLite database, because it is one file, survives a crash at any instruction and lets
several processes write in turn. Every transaction is on disk when it returns: rollback journal,
full syncs. (A write-ahead log is faster, but a ledger that loses its second file forgets its last
charges.)

Each entry holds the hash of the previous one, so a change anywhere breaks every later link.
Triggers prevent accidents; the chain detects what triggers cannot prevent. Whoever can rewrite the
whole file can also rewrite an unsigned chain, so a party signs its entries; and whoever has the key
as well is noticed by others, who keep its heads (`privacy.heads`).

The kinds of entry keep their names and fields for ever: old ledgers must stay readable.
"""

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from spinney.errors import InternalError, LedgerError, SpinneyError
from spinney.privacy.accounting import JobTerms, Line
from spinney.privacy.budget import Cost
from spinney.privacy.scopes import Budget, Disclosure, Question, Scope, View
from spinney.privacy.signatures import Signer

FORMAT: Final = 1
MEMORY: Final = ":memory:"
_APPLICATION: Final = 0x5F1A7E1E  # marks the file as a Spinney ledger
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
    """CREATE TRIGGER entries_INSERT BEFORE INSERT ON entries
        WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
        BEGIN SELECT RAISE(ABORT, 'an entry is missing'); END""",
)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the chain; kept elsewhere, it proves that nothing up to there was changed."""

    seq: int
    hash: bytes


START: Final = Anchor(0, bytes(32))  # the predecessor of the first entry


@dataclass(frozen=True, slots=True)
class Row:
    """One stored entry."""

    seq: int
    at: str
    kind: str
    body: bytes
    previous: bytes
    hash: bytes
    signature: bytes

    def check_follows(self, last: Anchor) -> None:
        """Raise `LedgerError` unless this is the unchanged entry written after `last`."""
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
    """Return SHA-256 over all fields, each preceded by its type and length."""
    digest = sha256(b"spinney ledger")
    for part in (previous, seq, at, kind, body):  # of any type if the file was changed
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{type(part).__name__} {len(data)} ".encode() + data)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Opened:
    """The first entry: the owner of the ledger, and the key that signs it (hex; empty: none)."""

    party: str
    public_key: str


@dataclass(frozen=True, slots=True)
class LifeBudgets:
    """From here on, all jobs on a data set together may cost at most this much."""

    data: str
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class JobOpened:
    """The party takes part in a job."""

    job: JobTerms


@dataclass(frozen=True, slots=True)
class Charged:
    """A release is paid for; the charge stands whatever happens next."""

    question: Question
    data: str
    what: str
    parameters: dict[str, str]  # the mechanism, its sensitivity, norm and noise, as exact text
    cost: Cost  # of one release
    n_releases: int
    n_values: int
    scopes: tuple[tuple[tuple[str, ...], ...], ...]
    views: tuple[View, ...]
    t_honest: int  # parties whose noise must be honest; 1 if this party's noise is enough
    n_parties: int
    is_seeded: bool  # a test had replaced the source of noise

    @property
    def lines(self) -> tuple[Line, ...]:
        """The cost for each scope."""
        return tuple(Line(Scope.of_words(s), self.cost, self.n_releases) for s in self.scopes)


@dataclass(frozen=True, slots=True)
class Disclosed:
    """A release without a charge."""

    question: Question
    data: str
    disclosure: Disclosure
    t_honest: int
    n_parties: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply to a question is stored; it may be sent whenever the question is asked."""

    question: Question
    reply: str  # SHA-256, hex


@dataclass(frozen=True, slots=True)
class Adopted:
    """From here on a key signs the entries; the chain before it is thereby signed too.

    A ledger may have several keys: a certificate is renewed, and federations may share a ledger.
    Whoever can write the file could adopt a key of his own, so another key vouches for it.
    """

    public_key: str
    salt: str  # hex; hides the hashes of entries from those who keep the ledger's heads
    vouched: str = ""  # hex: the signature of an earlier key, or of the one beside the ledger

    @property
    def vouches_for(self) -> bytes:
        """The words under that signature."""
        return b"spinney ledger adopts\0" + f"{self.salt} {self.public_key}".encode()


@dataclass(frozen=True, slots=True)
class Countersignature:
    """Somebody's signature under a head of this ledger."""

    name: str
    public_key: str
    signature: str  # hex


@dataclass(frozen=True, slots=True)
class Countersigned:
    """Others keep a head of this ledger."""

    run: str
    federation: str  # the fingerprint of its authority
    entry: int
    head: str  # what they signed, hex
    by: tuple[Countersignature, ...]


@dataclass(frozen=True, slots=True)
class Restarted:
    """The party goes on although entries are lost; all parties of its jobs see why."""

    reason: str
    lost: int  # the number of the last entry that was known to be lost; 0: unknown


@dataclass(frozen=True, slots=True)
class Bound:
    """A data set's name belongs to this source, and these are marks of some of its rows."""

    data: str
    source: str  # digest
    words: str  # the source, for people
    key: str  # a check value of the key that made the marks
    marks: tuple[str, ...]  # of ids
    cells: tuple[str, ...] = ()  # of the cells that the job read


@dataclass(frozen=True, slots=True)
class Told:
    """What the party was told in a run, once and for all: a digest."""

    run: str
    what: str
    digest: str


Body: TypeAlias = (
    Opened
    | LifeBudgets
    | JobOpened
    | Charged
    | Disclosed
    | Answered
    | Adopted
    | Countersigned
    | Restarted
    | Bound
    | Told
)
_KINDS: Final[dict[str, type[Body]]] = {cls.__name__: cls for cls in Body.__args__}


def decode_entry(row: Row) -> Body:
    """Decode an entry, or raise `LedgerError`."""
    try:
        body: Body = msgspec.json.decode(
            row.body, type=_KINDS[row.kind], dec_hook=lambda kind, text: kind(text)
        )
    except (KeyError, ValueError, SpinneyError) as error:  # msgspec's errors are ValueErrors
        raise LedgerError(f"Entry {row.seq} of the ledger cannot be decoded.") from error
    return body


class LedgerStore:
    """An append-only chain of entries, and the replies they paid for.

    The file is created if missing; `MEMORY` is lost when the process ends. The key, if any, signs
    all entries.
    """

    def __init__(
        self, path: Path | str, key: Signer | None = None, *, busy_seconds: float = 30.0
    ) -> None:
        self._where = str(path)
        self._key = key
        self._process = os.getpid()
        with self._plain_errors():
            self._database = sqlite3.connect(
                self._where, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._database.close()
                raise
        # Since Python 3.13 a connection that nobody closes warns; a store that nobody holds closes.
        weakref.finalize(self, self._database.close).atexit = False

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def copy_to(self, path: Path) -> None:
        """Copy the file as it is between two entries; other processes may go on writing after it.

        The copy is a new file that only its owner may read.
        """
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with self._plain_errors():
            copy = sqlite3.connect(path)
            try:
                copy.execute("PRAGMA synchronous = EXTRA")
                self._database.backup(copy)
            finally:
                copy.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock out other processes until the end; then everything is on disk, or nothing."""
        if self._process != os.getpid():
            raise InternalError("A ledger cannot be used in a forked process; open it there.")
        with self._plain_errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # SQLite rolls back by itself on a full disk
                    self._database.execute("ROLLBACK")
                raise

    def append(self, last: Anchor, body: Body, reply: bytes | None = None) -> Anchor:
        """Write the entry that follows `last`; only within `writing`."""
        if not self._database.in_transaction:
            raise InternalError("Entries can be written only within `writing`.")
        data = msgspec.json.encode(body, enc_hook=str, order="deterministic")  # fractions: "1/4"
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        content = (last.seq + 1, at, type(body).__name__, data, last.hash)
        link = _hash(*content)
        values = (*content, link, self._key.sign(link) if self._key else b"")
        self._database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        if reply is not None:
            self._database.execute("INSERT INTO replies VALUES (?, ?)", (last.seq + 1, reply))
        return Anchor(last.seq + 1, link)

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

    def hash_of(self, seq: int) -> bytes | None:
        """Return the hash of an entry; None if there is none of this number."""
        with self._plain_errors():
            found = self._database.execute("SELECT hash FROM entries WHERE seq = ?", (seq,))
            row: tuple[bytes] | None = found.fetchone()
        return None if row is None else row[0]

    def check_end(self, last: Anchor) -> None:
        """Raise if entries are missing after the last one, or a reply belongs to none."""
        with self._plain_errors():
            counted = self._database.execute("SELECT seq FROM sqlite_sequence").fetchone()
            (loose,) = self._database.execute(
                "SELECT min(seq) FROM replies WHERE seq NOT IN "
                "(SELECT seq FROM entries WHERE kind = 'Answered')"
            ).fetchone()
        if counted != (last.seq,):
            raise LedgerError(f"Entry {last.seq + 1} of the ledger is missing.")
        if loose is not None:
            raise LedgerError(f"Entry {loose} of the ledger has a reply but is not an answer.")

    def _prepare(self) -> None:
        """Set up a new file, or check that an existing one is a Spinney ledger."""
        for pragma in ("journal_mode = PERSIST", "synchronous = EXTRA"):
            self._database.execute(f"PRAGMA {pragma}")
        if self._pragma("application_id") == 0 and not self._definitions():
            with self.writing():
                if not self._definitions():  # another process may just have created it
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
            raise LedgerError("The ledger's tables or its append-only rules were changed.")

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
        """Translate SQLite's error codes into plain sentences."""
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


_SENTENCES: Final = {
    "SQLITE_BUSY": "The ledger is locked by another process. Nothing was released; try again.",
    "SQLITE_FULL": "The ledger's disk is full. Nothing was released; make room and try again.",
    "SQLITE_READONLY": "The ledger cannot be written: it is read-only. Nothing was released.",
    "SQLITE_CANTOPEN": "The ledger cannot be opened: its folder is missing or not writable.",
    "SQLITE_CORRUPT": "The ledger's file is damaged. Nothing was released; an older copy would "
    "forget charges, so use one only if it holds the last entry.",
    "SQLITE_NOTADB": "This file is not a Spinney ledger.",
}
