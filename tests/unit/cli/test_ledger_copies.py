"""`spinney ledger backup` and `restore`: nothing that was promised is forgotten by mistake."""

import shutil
import sqlite3
import stat
from fractions import Fraction
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from typer.testing import CliRunner

from spinney.cli.main import app
from spinney.files import hold_lock
from spinney.privacy import ledger_copies
from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Exact
from spinney.privacy.scopes import Budget, Question, Spend

NOISE = DiscreteLaplace(Fraction(1, 4), sensitivity=Fraction(1))


def answer(ledger, round_):
    def draw(charges):
        NOISE.release(Exact(np.zeros(4, np.int64)), charges[0])
        return b"reply" * 1000

    ledger.answer(Question.of("q3", round_, b"ask"), [Spend(f"level {round_}", NOISE)], draw)


def ledger_in(path: Path, rounds: int = 1, party: str = "north") -> Path:
    """Make a ledger of three entries, or go on with one; a round has two more."""
    ledger = Ledger.open(path, party)
    ledger.allow_for_life("table", [Budget.pure(10**6)])
    ledger.open_job(JobTerms.agreed("q3", "table", 5, [Budget.pure(10**6)]))
    first = (len(ledger.entries()) - 1) // 2
    for number in range(rounds):
        answer(ledger, first + number)
    ledger.close()
    return path


def anchor_of(path):
    ledger = Ledger.open(path)
    try:
        return ledger.verify()
    finally:
        ledger.close()


def run(*words):
    return CliRunner().invoke(app, ["ledger", *map(str, words)])


def refused(words, *said):
    told = run(*words)
    assert told.exit_code == 32, told.output
    for words_ in said:
        assert words_ in told.stderr, told.stderr
    return told.stderr


@pytest.fixture
def ledger(tmp_path):
    return ledger_in(tmp_path / "ledger.db")


def test_a_copy_is_checked_private_and_tells_its_last_entry(ledger, tmp_path):
    copy = tmp_path / "copies.db"
    told = run("backup", ledger, copy)
    last = anchor_of(ledger)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.strip().endswith(f"to prove it later: {last.seq} {last.hash.hex()}")
    assert f"is intact: {last.seq} entries" in told.stdout
    assert anchor_of(copy) == last
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} <= {
        "ledger.db", "ledger.db-journal", "copies.db"
    }  # fmt: skip


def test_a_copy_is_never_overwritten(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_text("precious")
    refused(
        ["backup", ledger, copy],
        "There is already a file of that name.",
        "A copy is never overwritten; choose another name.",
    )
    assert copy.read_text() == "precious"


def test_what_is_no_ledger_is_not_copied(tmp_path):
    refused(["backup", tmp_path / "none.db", tmp_path / "copy.db"], "does not exist")
    (tmp_path / "text.db").write_text("text, and more of it" * 100)
    refused(["backup", tmp_path / "text.db", tmp_path / "copy.db"], "is not a Spinney ledger")
    assert not (tmp_path / "copy.db").exists()


def test_a_changed_ledger_leaves_no_copy(ledger, tmp_path):
    database = sqlite3.connect(ledger)
    database.execute("DROP TRIGGER replies_UPDATE")
    database.execute("UPDATE replies SET reply = x'00'")
    database.execute(
        "CREATE TRIGGER replies_UPDATE BEFORE UPDATE ON replies BEGIN SELECT "
        "RAISE(ABORT, 'the ledger is append-only'); END"
    )
    database.commit()
    database.close()
    refused(["backup", ledger, tmp_path / "copy.db"], "of the ledger was changed")
    assert [path for path in tmp_path.iterdir() if not path.name.startswith("ledger.db")] == []


def test_copies_are_whole_while_the_party_writes(ledger, tmp_path):
    stop, written = Event(), []

    def write():
        own = Ledger.open(ledger, "north")
        number = 100
        while not stop.is_set():
            answer(own, number)
            number += 1
            written.append(number)
        own.close()

    writer = Thread(target=write)
    writer.start()
    try:
        lengths = []
        for number in range(5):
            assert run("backup", ledger, tmp_path / f"{number}.db").exit_code == 0
            lengths.append(anchor_of(tmp_path / f"{number}.db").seq)
            before = len(written)
            while len(written) < before + 2:
                assert writer.is_alive()
    finally:
        stop.set()
        writer.join()
    assert lengths == sorted(set(lengths))
    assert lengths[-1] < anchor_of(ledger).seq


def test_a_lost_ledger_is_restored_whole(ledger, tmp_path):
    assert run("backup", ledger, tmp_path / "copy.db").exit_code == 0
    last = anchor_of(ledger)
    ledger.unlink()
    (tmp_path / "ledger.db-journal").write_bytes(b"a journal of the lost file")
    told = run("restore", tmp_path / "copy.db", ledger)
    assert told.exit_code == 0, told.stderr
    assert f"Restored {last.seq} entries; the last: {last.seq} {last.hash.hex()}" in told.stdout
    assert anchor_of(ledger) == last
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
    assert (tmp_path / "ledger.db.before-restore-journal").exists()  # not played into the copy
    assert (tmp_path / "copy.db").exists()
    ledger_in(ledger, rounds=1)  # and goes on
    assert anchor_of(ledger).seq == last.seq + 2


def test_a_copy_that_has_forgotten_entries_is_refused_unless_their_number_is_said(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    assert run("backup", ledger, copy).exit_code == 0
    ledger_in(ledger, rounds=2)
    before, last = ledger.read_bytes(), anchor_of(ledger)
    words = ["restore", copy, ledger]
    refused(
        words,
        "The copy has forgotten 4 entries: it ends with entry 5.",
        "Their charges still count: a party that goes on without them could spend its",
        "confirm with --forget 4.",
    )
    refused([*words, "--forget", 3], "--forget 3 was given, but the copy has forgotten 4 entries")
    assert ledger.read_bytes() == before
    assert not (tmp_path / "ledger.db.before-restore").exists()
    told = run(*words, "--forget", 4)
    assert told.exit_code == 0, told.stderr
    assert "Forgotten: 4 entries." in told.stdout
    assert "lower epsilon_total by what they cost" in told.stdout
    assert anchor_of(ledger).seq == 5
    assert anchor_of(tmp_path / "ledger.db.before-restore") == last


def test_entries_are_compared_not_counted(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger, copy)
    ledger_in(ledger, rounds=1)
    ledger_in(copy, rounds=3)  # longer, and yet it lacks what the ledger has since
    refused(["restore", copy, ledger], "The copy has forgotten 2 entries")


def test_a_copy_that_has_more_is_restored_and_needs_no_confirmation(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger, copy)
    ledger_in(copy, rounds=1)
    refused(
        ["restore", copy, ledger, "--forget", 1],
        "--forget 1 was given, but the copy has forgotten nothing. Leave it out.",
    )
    told = run("restore", copy, ledger)
    assert told.exit_code == 0, told.stderr
    assert "The replaced ledger is kept as" in told.stdout
    assert anchor_of(ledger).seq == 7


def test_the_replaced_ledger_of_an_earlier_restore_is_kept(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger, copy)
    kept = tmp_path / "ledger.db.before-restore"
    kept.write_text("precious")
    refused(["restore", copy, ledger], "It is of an earlier restore; move it away first.")
    assert kept.read_text() == "precious"


def test_nothing_is_restored_while_the_party_runs(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger, copy)
    with hold_lock(ledger_copies.lock_of(ledger), shared=True):
        refused(
            ["restore", copy, ledger],
            "The party that uses this ledger is running. Stop it, restore, and start it again.",
        )
    assert run("restore", copy, ledger).exit_code == 0


def test_what_is_no_intact_copy_is_not_restored(ledger, tmp_path):
    before = ledger.read_bytes()
    refused(["restore", tmp_path / "none.db", ledger], "does not exist")
    cut = tmp_path / "cut.db"
    cut.write_bytes(before[:3000])
    refused(["restore", cut, ledger])
    other = ledger_in(tmp_path / "other.db", party="lakeside")
    refused(
        ["restore", other, ledger],
        "The copy is the ledger of 'lakeside'; the ledger to be replaced is that of 'north'.",
    )
    refused(["restore", other, tmp_path / "no" / "ledger.db"], "cannot be restored there")
    assert ledger.read_bytes() == before


def test_a_damaged_ledger_is_not_replaced_by_guess(ledger, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger, copy)
    ledger.write_bytes(ledger.read_bytes()[:5000])
    refused(
        ["restore", copy, ledger],
        "is damaged, so nobody can count what the copy has forgotten",
        "Compare the last entry that you noted elsewhere",
        "move the damaged file away and restore again",
    )
    ledger.rename(tmp_path / "damaged.db")
    assert run("restore", copy, ledger).exit_code == 0


def test_a_file_system_without_links_will_do(ledger, tmp_path, monkeypatch):
    copy = tmp_path / "copy.db"
    shutil.copy(ledger, copy)

    def no_links(*_):
        raise OSError

    monkeypatch.setattr("os.link", no_links)
    assert run("backup", ledger, tmp_path / "second.db").exit_code == 0
    assert anchor_of(tmp_path / "second.db") == anchor_of(ledger)
    assert run("restore", copy, ledger).exit_code == 0
    assert anchor_of(tmp_path / "ledger.db.before-restore") == anchor_of(ledger)
