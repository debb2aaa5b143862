"""The ledger's file only grows, detects every change, and reports plainly what is wrong."""

import os
import sqlite3
import stat
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from spinney.errors import InternalError, LedgerError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import START, LedgerStore, Opened, decode_entry
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import (
    ALL_ROWS,
    Budget,
    Disclosure,
    Protection,
    Question,
    Spend,
)
from spinney.privacy.signatures import LocalKey

NOISE = DiscreteLaplace(Fraction(1, 4))


def filled(path, key=None):
    """Return a ledger with an entry of every kind."""
    ledger = Ledger.open(path, "north", key=key, busy_seconds=0.05)
    ledger.allow_for_life("data", [Budget.pure(8)])
    ledger.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))
    exact = Disclosure("class names", Protection.UNPROTECTED, "exact", ("label",))
    ledger.answer(
        Question.of("q3", 0, b"level 0"),
        [Spend("level 0", NOISE, (ALL_ROWS.again("tree 0").part("a<1", "left"),))],
        lambda _: b"reply",
        [exact],
    )
    ledger.reserve(Question.of("q3", 1, b"level 1"), [Spend("level 1", NOISE)])
    return ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def verified(path):
    with closing(Ledger.open(path)) as ledger:
        return ledger.verify()


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """The bytes of a ledger without signatures and of one with."""
    folder = tmp_path_factory.mktemp("copies")
    filled(folder / "unsigned.db").close()
    filled(folder / "signed.db", LocalKey(Ed25519PrivateKey.generate())).close()
    return (folder / "unsigned.db").read_bytes(), (folder / "signed.db").read_bytes()


def tamper(path, *statements):
    """Change the file as an SQLite expert would: drop the rules, then restore them."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA synchronous = OFF")
        found = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        rules = found.fetchall()
        for name, _ in rules:
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        for _, rule in rules:
            database.execute(rule)
        database.commit()


def test_an_untouched_ledger_is_verified(path):
    with closing(filled(path)) as ledger:
        assert ledger.verify().seq == 7
        assert ledger.verify() == ledger.anchor()


@pytest.mark.parametrize("table", ["entries", "replies"])
@pytest.mark.parametrize("change", ["UPDATE {} SET seq = seq + 100", "DELETE FROM {}"])
def test_entries_and_replies_cannot_be_changed_by_accident(path, table, change):
    filled(path).close()
    with (
        closing(sqlite3.connect(path)) as database,
        pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"),
    ):
        database.execute(change.format(table))


def test_no_entry_can_be_left_out_when_writing(path):
    filled(path).close()
    with (
        closing(sqlite3.connect(path)) as database,
        pytest.raises(sqlite3.IntegrityError, match="an entry is missing"),
    ):
        database.execute("INSERT INTO entries VALUES (99, '', '', '', '', '', '')")


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seq", range(1, 8))
@pytest.mark.parametrize(
    "change",
    [
        "seq = 100 + seq",
        "at = '2000-01-01'",
        "at = at || ' '",
        "kind = 'Answered2'",
        "body = replace(body, '4', '5') || ' '",
        "body = CAST(body AS TEXT)",
        "body = x'00'",
        "previous = zeroblob(31)",
        "hash = zeroblob(32)",
        "hash = CAST('text' AS TEXT)",
        "signature = x'01'",
        "signature = 'text'",
    ],
)
def test_a_change_of_any_field_of_any_entry_is_found(path, seq, change, signed, copies):
    path.write_bytes(copies[signed])
    tamper(path, f"UPDATE entries SET {change} WHERE seq = {seq}")

    with pytest.raises(LedgerError, match=rf"Entry ({seq}|{seq + 1}) of the ledger"):
        verified(path)


@pytest.mark.parametrize("number", ["1/4", "1/8"])
def test_a_smaller_cost_is_found_before_the_next_charge(path, number):
    filled(path).close()
    tamper(path, f"UPDATE entries SET body = replace(body, '1/4', '{number}9') WHERE seq = 4")

    with pytest.raises(LedgerError, match="Entry 4 of the ledger was changed after it was written"):
        Ledger.open(path, "north")


def test_a_change_under_a_running_ledger_is_found(path):
    with closing(filled(path)) as ledger:
        tamper(path, "UPDATE entries SET body = x'00' WHERE seq = 4")
        with pytest.raises(LedgerError, match="Entry 4 of the ledger was changed"):
            ledger.verify()


def test_entries_missing_in_the_middle_or_at_the_end_are_found(path):
    with closing(filled(path)) as ledger:
        anchor = ledger.anchor()
    tamper(path, "DELETE FROM entries WHERE seq = 7")
    with pytest.raises(LedgerError, match="Entry 7 of the ledger is missing"):
        verified(path)
    tamper(path, "UPDATE sqlite_sequence SET seq = 6")  # hides the change, but not from an anchor
    with closing(Ledger.open(path)) as ledger:
        assert ledger.verify().seq == 6
        with pytest.raises(LedgerError, match="Entry 7 of the ledger is missing"):
            ledger.verify(anchor)
    tamper(path, "DELETE FROM entries WHERE seq = 3")
    with pytest.raises(LedgerError, match="Entry 3 of the ledger is missing"):
        Ledger.open(path)


def test_a_ledger_written_anew_is_not_the_one_known_before(path, tmp_path):
    with closing(filled(path)) as ledger, closing(filled(tmp_path / "other.db")) as other:
        ledger.verify(ledger.anchor())
        with pytest.raises(LedgerError, match="Entry 7 of the ledger does not match the anchor"):
            other.verify(ledger.anchor())


def test_a_changed_reply_is_found_and_never_sent(path):
    filled(path).close()
    tamper(path, "UPDATE replies SET reply = x'00'")
    with closing(Ledger.open(path, "north")) as ledger:
        with pytest.raises(
            LedgerError, match="reply stored with entry 6 of the ledger was changed"
        ):
            ledger.verify()
        with pytest.raises(
            LedgerError, match="reply stored with entry 6 of the ledger was changed"
        ):
            ledger.stored_reply(Question.of("q3", 0, b"level 0"))


def test_a_missing_or_foreign_reply_is_found(path):
    filled(path).close()
    tamper(path, "INSERT INTO replies VALUES (7, x'00')")
    with pytest.raises(LedgerError, match="Entry 7 of the ledger has a reply but is not an answer"):
        verified(path)
    tamper(path, "DELETE FROM replies")
    with pytest.raises(LedgerError, match="reply stored with entry 6 of the ledger was changed"):
        verified(path)


def test_a_chain_rewritten_without_the_key_is_found(path, tmp_path):
    key, other = LocalKey(Ed25519PrivateKey.generate()), LocalKey(Ed25519PrivateKey.generate())
    filled(path, other).close()
    with closing(Ledger.open(path)) as ledger:
        assert ledger.verify(public_key=other.public_key).seq == 7
        with pytest.raises(LedgerError, match="Entry 1 of the ledger does not carry the party's"):
            ledger.verify(public_key=key.public_key)
    filled(tmp_path / "unsigned.db").close()
    with (
        closing(Ledger.open(tmp_path / "unsigned.db")) as ledger,
        pytest.raises(LedgerError, match="Entry 1 of the ledger does not carry the party's"),
    ):
        ledger.verify(public_key=key.public_key)


def test_an_entry_of_a_later_version_is_not_guessed_at(path):
    @dataclass(frozen=True)
    class Novelty:
        colour: str

    filled(path).close()
    with closing(LedgerStore(path)) as store:
        last = [row.anchor for row in store.rows_after(START)][-1]
        with store.writing():
            store.append(last, cast("Any", Novelty("red")))
        row = next(store.rows_after(last))
    with pytest.raises(LedgerError, match="Entry 8 of the ledger cannot be decoded"):
        decode_entry(row)


def test_entries_are_written_in_a_transaction_only(path):
    with (
        closing(LedgerStore(path)) as store,
        pytest.raises(InternalError, match="can be written only within `writing`"),
    ):
        store.append(START, Opened("north", ""))


def test_what_fails_half_way_is_not_written(path):
    def fails(store):
        with store.writing():
            store.append(START, Opened("north", ""))
            raise ValueError

    with closing(LedgerStore(path)) as store:
        with pytest.raises(ValueError, match=r"^$"):
            fails(store)
        assert list(store.rows_after(START)) == []


def test_every_transaction_is_synced_to_the_disk(path):
    with closing(LedgerStore(path)) as store:
        assert store._pragma("synchronous") == 3
        assert store._database.execute("PRAGMA journal_mode").fetchone() == ("persist",)


def test_a_locked_ledger_says_so(path):
    with closing(filled(path)) as ledger, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match=r"locked by another process. Nothing was released"):
            ledger.reserve(Question.of("q3", 2, b""), [Spend("level 2", NOISE)])
        other.execute("ROLLBACK")
        assert len(ledger.reserve(Question.of("q3", 2, b""), [Spend("level 2", NOISE)])) == 1


def test_a_full_disk_refuses_and_keeps_what_was_written(path):
    with closing(filled(path)) as ledger:
        database = ledger._store._database
        database.execute(f"PRAGMA max_page_count = {ledger._store._pragma('page_count')}")
        question = Question.of("q3", 1, b"level 1")
        with pytest.raises(LedgerError, match=r"The ledger's disk is full. Nothing was released"):
            ledger.commit(question, bytes(100_000))
        assert ledger.stored_reply(question) is None
        assert ledger.spent("q3", NOISE.unit) == Fraction(1, 2)
        database.execute("PRAGMA max_page_count = 100000")
        assert ledger.commit(question, bytes(100_000)) == bytes(100_000)
        assert ledger.verify().seq == 8


@contextmanager
def unprivileged():
    """Act as a user bound by file permissions, even if tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public_folder():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_read_only_ledger_can_be_read_and_verified_but_not_written(public_folder):
    path = public_folder / "ledger.db"
    filled(path).close()
    for file in public_folder.iterdir():
        file.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    with unprivileged():
        with closing(Ledger.open(path)) as ledger:
            assert ledger.verify().seq == 7
        with (
            closing(Ledger.open(path, "north")) as ledger,
            pytest.raises(LedgerError, match=r"it is read-only. Nothing was released"),
        ):
            ledger.reserve(Question.of("q3", 2, b""), [Spend("level 2", NOISE)])


def test_a_folder_that_is_missing_or_closed_says_so(tmp_path, public_folder):
    with pytest.raises(LedgerError, match="cannot be opened: its folder is missing") as caught:
        Ledger.open(tmp_path / "missing" / "ledger.db", "north")
    assert str(tmp_path) not in caught.value.public
    assert str(tmp_path) in caught.value.local
    public_folder.chmod(0o555)
    with unprivileged(), pytest.raises(LedgerError, match="its folder is missing or not writable"):
        Ledger.open(public_folder / "ledger.db", "north")
    public_folder.chmod(0o755)


def test_a_damaged_ledger_says_so(path):
    filled(path).close()
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)  # all pages except the first
    path.write_bytes(data)
    with pytest.raises(LedgerError, match=r"file is damaged. Nothing was released; an older copy"):
        Ledger.open(path, "north")


def test_a_file_that_is_no_ledger_is_left_alone(path):
    path.write_bytes(b"age,ward\n42,surgery\n" * 100)
    with pytest.raises(LedgerError, match="not a Spinney ledger"):
        Ledger.open(path, "north")
    assert path.read_bytes().startswith(b"age,ward")


def test_another_database_is_left_alone(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE patients (age)")
    with pytest.raises(LedgerError, match="not a Spinney ledger"):
        Ledger.open(path, "north")


def test_a_ledger_of_another_format_is_refused(path):
    filled(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match=r"has format 2; this version of Spinney reads format 1"):
        Ledger.open(path, "north")


def test_a_ledger_without_its_rules_is_refused(path):
    filled(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TRIGGER entries_UPDATE")
    with pytest.raises(LedgerError, match="tables or its append-only rules were changed"):
        Ledger.open(path, "north")


def test_any_other_trouble_is_told_without_the_path(path):
    ledger = filled(path)
    ledger.close()
    with pytest.raises(LedgerError, match=r"cannot be read or written. Nothing was") as caught:
        ledger.verify()
    assert str(path) not in caught.value.public
    assert "closed database" in caught.value.local


def test_a_ledger_put_back_to_an_earlier_state_while_open_is_not_written(path):
    with closing(filled(path)) as ledger:
        tamper(path, "DELETE FROM entries WHERE seq = 7")
        with pytest.raises(LedgerError, match="cannot be read or written"):
            ledger.reserve(Question.of("q3", 2, b""), [Spend("level 2", NOISE)])


def test_a_forked_process_opens_its_own(path, monkeypatch):
    with closing(filled(path)) as ledger:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(InternalError, match="cannot be used in a forked process"):
            ledger.reserve(Question.of("q3", 2, b""), [Spend("level 2", NOISE)])


def test_two_processes_that_begin_a_ledger_make_one(path, monkeypatch):
    """The second has seen an empty file, waits for the first, and then finds the tables there."""
    filled(path).close()
    pragma, definitions = LedgerStore._pragma, LedgerStore._definitions
    stale_pragmas = iter([0])
    nothing_yet: set[str] = set()
    stale_definitions = iter([nothing_yet])
    monkeypatch.setattr(LedgerStore, "_pragma", lambda s, n: next(stale_pragmas, pragma(s, n)))
    monkeypatch.setattr(
        LedgerStore, "_definitions", lambda s: next(stale_definitions, definitions(s))
    )
    with closing(Ledger.open(path, "north")) as ledger:
        assert ledger.verify().seq == 7
