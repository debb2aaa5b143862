"""What guards a ledger itself: keys, heads, restarts; and kills and full disks on the way."""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copy

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from spinney.cli.main import app
from spinney.errors import LedgerError, SettingError
from spinney.privacy import ledger_store
from spinney.privacy.accounting import JobTerms
from spinney.privacy.heads import Head, Restart
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_copies import back_up
from spinney.privacy.ledger_store import Bound, Countersigned
from spinney.privacy.scopes import Budget
from spinney.privacy.signatures import LocalKey, is_signed_by, key_file_of, ledger_secret
from unit.privacy.ledger_jobs import RECORD, ask, level, noised  # type: ignore[import-not-found]

KEY = LocalKey(Ed25519PrivateKey.generate())
OLD = sorted((Path(__file__).parents[2] / "formats" / "data" / "running").glob("*/ledger.db"))


def filled(path, key=KEY):
    ledger = Ledger.open(path, "north", key=key)
    if key is not None:
        ledger.adopt(key.public_key)
    ledger.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))
    ledger.answer(ask(0), [level(0)], noised)
    return ledger


@pytest.mark.parametrize("old", OLD, ids=[path.parent.name for path in OLD])
def test_a_ledger_of_version_1_is_adopted_and_keeps_its_accounts(tmp_path, old):
    path = tmp_path / "ledger.db"
    copy(old, path)
    with closing(Ledger.open(path)) as before:
        owner, last, jobs = before.party, before.anchor(), before.books.jobs
        spent = {name: [before.spent(name, unit) for unit in type(RECORD)] for name in jobs}
    with closing(Ledger.open(path, owner, key=KEY)) as ledger:
        ledger.adopt(KEY.public_key)
        assert ledger.verify(anchor=last).seq == last.seq + 1
        assert {n: [ledger.spent(n, unit) for unit in type(RECORD)] for n in jobs} == spent
        head = ledger.head(places=[last.seq])
        assert [seq for seq, _ in head.past] == [last.seq]  # old entries are covered too


def test_a_ledger_without_a_key_has_no_head(tmp_path):
    with (
        closing(filled(tmp_path / "ledger.db", None)) as ledger,
        pytest.raises(LedgerError, match="has no key, so it has no head to show"),
    ):
        ledger.head()


def test_a_key_beside_a_ledger_is_private_and_made_once(tmp_path):
    path = tmp_path / "ledger.db"
    secret = ledger_secret(path)
    assert ledger_secret(path) == secret
    assert key_file_of(path).stat().st_mode & 0o777 == 0o600
    signed = LocalKey.of_secret(secret).sign(b"words")
    assert is_signed_by(LocalKey.of_secret(secret).public_key, signed, b"words")
    assert not is_signed_by(KEY.public_key, signed, b"words")
    with pytest.raises(LedgerError, match="cannot be read or made"):
        ledger_secret(tmp_path / "no" / "ledger.db")


def head(seq, mark="m", past=(), restarts=(), ledger="one"):
    return Head("north", ledger, seq, mark, "run/1", restarts, past)


BURNT = Restart(6, "2026-11-16T10:00:00", "the disk burnt")


@pytest.mark.parametrize(
    ("shown", "held", "words"),
    [
        (head(5), head(5), ""),
        (head(9, past=((5, "m"),)), head(5), ""),
        (head(9), head(9, "other"), "has another entry 9 than it had"),
        (head(9, past=((5, "m"),)), head(5, "other"), "has another entry 5 than it had"),
        (head(5), head(9), "has 5 entries, but it had 9"),
        (head(1), head(9), "has 1 entry, but it had 9"),
        (head(9, past=((4, "m"),)), head(5), "does not show its entry 5, which others keep"),
        (head(9, past=((7, "m"),)), head(5), ""),  # too long ago to be shown
        (head(9, ledger="two"), head(5), "is another one than the one that had 5 entries"),
        (head(2, restarts=(BURNT,), ledger="two"), head(5), ""),
        (head(2, restarts=(BURNT,)), head(5, restarts=(BURNT,)), "has 2 entries, but it had 5"),
    ],
)
def test_a_head_goes_on_from_one_that_is_held_or_says_why_not(shown, held, words):
    assert shown.problem_after(held) == words


def test_what_is_no_head_is_refused():
    for data in (b"", b"{}", b'{"party": 1}'):
        with pytest.raises(LedgerError, match="The head of a ledger cannot be read"):
            Head.of_bytes(data)
    for reason in ("x" * 301, "\x1b[2J"):
        with pytest.raises(ValueError, match=r"^$"):
            head(1, restarts=(Restart(1, "", reason),))


def test_a_head_hides_what_entries_say(tmp_path):
    with closing(filled(tmp_path / "ledger.db")) as ledger:
        shown = ledger.head(places=[1, 2]).to_bytes()
        for seq in (1, 2, ledger.anchor().seq):
            assert ledger._hash_of(seq).hex()[:16].encode() not in shown


def test_a_countersigned_head_that_is_another_one_is_found(tmp_path):
    with closing(filled(tmp_path / "ledger.db")) as ledger:
        false = head(2).to_bytes().hex()
        ledger.keep_countersigned(Countersigned("run", "", 2, false, ()))
        with pytest.raises(LedgerError, match="says that others keep entry 2, but they keep anoth"):
            ledger.verify()


def test_a_restart_needs_a_reason(tmp_path):
    with closing(filled(tmp_path / "ledger.db")) as ledger:
        for reason in ("", " ", "two\nlines", "x" * 301):
            with pytest.raises(SettingError, match="needs a reason of at most 300 printable"):
                ledger.restart(reason, 0)


class SetBack(datetime):
    """A clock that goes back by a day at every look."""

    looks = 0

    @classmethod
    def now(cls, tz=None):
        cls.looks += 1
        return datetime(2026, 11, 16, tzinfo=tz or UTC) - timedelta(days=cls.looks)


def test_a_clock_that_goes_back_is_told_and_changes_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "ledger.db"
    with closing(filled(path)) as ledger:
        before = ledger.head()
        monkeypatch.setattr(ledger_store, "datetime", SetBack)
        ledger.answer(ask(1), [level(1)], noised)
        assert ledger.verify() == ledger.anchor()
        assert not ledger.head(places=[before.seq]).problem_after(before)
    said = CliRunner().invoke(app, ["ledger", "verify", str(path)])
    assert said.exit_code == 0
    assert "This machine's clock went back before entry 6, 7." in said.stdout.replace("\n", " ")
    assert "only their times are not" in said.stdout


def at(ledger):
    """Return a text that no other entry has."""
    return str(ledger.anchor().seq)


WRITES = {
    "adopt": lambda ledger: ledger.adopt(LocalKey.of_secret(at(ledger).encode()).public_key),
    "restart": lambda ledger: ledger.restart("the disk burnt", 9),
    "settle": lambda ledger: ledger.settle("run", f"step {at(ledger)}", "00"),
    "bind": lambda ledger: ledger.bind(Bound("data", at(ledger), "", "", ("a" * 16,) * 256)),
    "countersign": lambda ledger: ledger.keep_countersigned(
        Countersigned("run", "", ledger.anchor().seq, ledger.head().to_bytes().hex(), ())
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_leaves_a_ledger_as_it_was(tmp_path, write):
    with closing(filled(tmp_path / "ledger.db")) as ledger:
        store, before = ledger._store, ledger.anchor()
        store._database.execute(f"PRAGMA max_page_count = {store._pragma('page_count')}")

        def fill():
            nonlocal before
            while True:  # until the last page has no room
                WRITES[write](ledger)
                before = ledger.anchor()

        with pytest.raises(LedgerError, match=r"The ledger's disk is full. Nothing was released"):
            fill()
        assert ledger.verify() == before
        store._database.execute("PRAGMA max_page_count = 100000")
        WRITES[write](ledger)
        assert ledger.verify().seq == before.seq + 1


PROGRAM = """
    import os, signal, sys
    sys.path.insert(0, sys.argv[4])
    from spinney.privacy.ledger import Ledger
    from unit.privacy import test_ledger_safeguards as tests
    path, write, deadly, _ = sys.argv[1:]
    def watch(step):
        if step == deadly and armed:
            os.kill(os.getpid(), signal.SIGKILL)
    armed = False
    key = tests.LocalKey.of_secret(b"a test")
    ledger = Ledger.open(path, "north", key=key, watch=watch)
    armed = True
    tests.WRITES[write](ledger)
"""


@pytest.mark.parametrize("step", ["asked", "locked", "written", "on disk"])
@pytest.mark.parametrize("write", WRITES)
def test_a_process_killed_at_any_step_leaves_it_as_it_was_or_whole(tmp_path, write, step):
    path = tmp_path / "ledger.db"
    key = LocalKey.of_secret(b"a test")
    with closing(filled(path, key)) as ledger:
        before = ledger.anchor()
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), path, write, f"{write}: {step}", tests],
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with closing(Ledger.open(path, "north", key=key)) as ledger:
        is_whole = step == "on disk"
        assert ledger.verify().seq == before.seq + is_whole
        WRITES[write](ledger)
        assert ledger.verify().seq >= before.seq + 1


RESTORING = """
    import sys, time
    from pathlib import Path
    from spinney.errors import LedgerError
    from spinney.privacy import ledger_copies
    copy, ledger = map(Path, sys.argv[1:])
    forgotten = ledger_copies._forgotten
    def slowly(*files):
        time.sleep(0.5)
        return forgotten(*files)
    ledger_copies._forgotten = slowly
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        ledger_copies.restore(copy, ledger)
        print("restored")
    except LedgerError as error:
        print(error.public)
"""


def test_of_two_restores_at_once_one_is_refused_and_the_ledger_is_whole(tmp_path):
    path, kept = tmp_path / "ledger.db", tmp_path / "copy.db"
    with closing(filled(path)) as ledger:
        last = ledger.anchor()
    back_up(path, kept)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(RESTORING), kept, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=120)[0].strip() for process in both)
    if said != ["restored", "restored"]:  # one after the other is as good
        assert said[0].startswith("Somebody else is just replacing this ledger.") or said == [
            "There is already a file of that name.",
            "restored",
        ], said
        assert said[1] == "restored"
    with closing(Ledger.open(path)) as ledger:
        assert ledger.verify() == last


STRANGER = LocalKey.of_secret(b"a stranger's")


def test_a_ledger_that_a_strangers_key_adopted_is_not_called_intact(tmp_path):
    path = tmp_path / "ledger.db"
    own = LocalKey.of_secret(ledger_secret(path))
    Ledger.open(path, "north", key=KEY, vouching=own).close()
    renewed = LocalKey.of_secret(b"the renewed certificate")
    with closing(Ledger.open(path, "north", key=renewed, vouching=own)) as ledger:
        ledger.check_keys([], own=own.public_key)  # the ledger's own key vouches
        ledger.check_keys([renewed.public_key])
    assert CliRunner().invoke(app, ["ledger", "verify", str(path)]).exit_code == 0
    with closing(Ledger.open(path, "north", key=STRANGER)) as ledger:
        ledger.settle("run", "step 1", "00")
        ledger.verify()  # its chain and signatures are whole
    said = CliRunner().invoke(app, ["ledger", "verify", str(path)])
    assert said.exit_code != 0
    told = " ".join(said.stderr.split())
    assert "lets a key sign that is none of this party's, and for which no earlier key" in told
    with closing(Ledger.open(path)) as ledger, pytest.raises(LedgerError, match="none of this"):
        ledger.check_keys([renewed.public_key], own=own.public_key)


def test_a_stranger_cannot_vouch_for_himself(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.open(path, "north", key=KEY).close()
    with (
        closing(Ledger.open(path, "north", key=STRANGER, vouching=STRANGER)) as ledger,
        pytest.raises(LedgerError, match="none of this party's"),
    ):
        ledger.check_keys([KEY.public_key])
