"""A ledger that cannot be turned back: attacks on it in a federation over real connections."""

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing, contextmanager
from datetime import datetime
from errno import ENOSPC
from fractions import Fraction

import msgspec
import pytest
from typer.testing import CliRunner

from deployed.handmade import CLINICS, agreed_job, write_party  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.cli.main import app
from spinney.deployment.job import PROPOSE
from spinney.deployment.party import heads as party_heads
from spinney.deployment.party.config import load_party
from spinney.deployment.party.guard import Guarded
from spinney.deployment.party.tables import open_ledger
from spinney.errors import LedgerError, SettingError
from spinney.files import replace_file
from spinney.privacy import ledger_copies, ledger_store
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import Budget, Question, Spend


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path)
    for name in CLINICS:
        write_party(tmp_path, name, policy="epsilon_total = 20.0\ntrust_coordinator = true")
    with made.up(*CLINICS):
        yield made


def job_called(served, name, **settings):
    """Return a private job with a name of its own."""
    chosen = {"epsilon": 1.0, "n_estimators": 2, "max_depth": 2} | settings
    agreed = agreed_job(served.folder, 'protocol = "private_forest"', **chosen)
    return msgspec.structs.replace(agreed, name=name)


def proposed(served, name):
    job = msgspec.structs.replace(job_called(served, name), kind=PROPOSE)
    status = served.over(served.submit(job))
    rest(served)
    return status


def finished(served, name):
    status = served.over(served.submit(job_called(served, name)))
    assert status.state == "finished", status.message
    rest(served)
    return status


def rest(served):
    """Wait until all sides have kept what the last attempt came to."""
    served.wait(lambda: all(side.attempt == ("", 0) for side in served.sides.values()))
    served.wait(lambda: served.keeper.run == "")


def ledger_of(served, name="north"):
    return served.folder / name / "ledger.db"


def entries_of(path):
    with closing(Ledger.open(path)) as ledger:
        return ledger.verify().seq


@contextmanager
def careless(monkeypatch):
    """Play a party whose own software does not look at its ledger, and hides what others keep."""
    with monkeypatch.context() as patched:
        patched.setattr(party_heads, "require_own", lambda *_: None)
        patched.setattr(party_heads.OwnMark, "require_same", lambda *_: None)
        patched.setattr(party_heads.OwnMark, "require_ledger", lambda *_: None)
        yield


def restart(served, name="north", reason="the disk burnt"):
    return CliRunner().invoke(
        app,
        ["ledger", "restart", str(served.folder / name / "party.toml"), "--reason", reason],
        env={"COLUMNS": "1000"},
    )


def test_after_a_run_everybody_keeps_every_head_and_the_next_job_goes_on(served):
    finished(served, "first")
    before = entries_of(ledger_of(served))
    finished(served, "second")
    assert entries_of(ledger_of(served)) > before
    with closing(Ledger.open(ledger_of(served))) as ledger:
        keepers = {one.name for kept in ledger.books.countersigned for one in kept.by}
    assert keepers == {"the coordinator", "st-mary", "lakeside"}


def verified(served, name="north"):
    path = str(served.folder / name / "party.toml")
    return CliRunner().invoke(app, ["ledger", "verify", path], env={"COLUMNS": "1000"})


def test_yesterdays_ledger_is_refused_at_home(served, tmp_path):
    finished(served, "first")
    shutil.copy(ledger_of(served), tmp_path / "yesterday.db")
    finished(served, "second")
    assert "It goes on from where the party remembers that it ended" in verified(served).stdout
    shutil.copy(tmp_path / "yesterday.db", ledger_of(served))
    told = verified(served)  # its chain is whole; what the party remembers is not in it
    assert told.exit_code != 0
    assert "This party's ledger has " in told.stderr
    status = proposed(served, "third")
    assert status.state == "failed"
    assert "north: This party's ledger has " in status.message
    assert "Restore the newest copy: spinney ledger restore" in status.message


def test_yesterdays_ledger_is_noticed_by_the_others(served, tmp_path, monkeypatch):
    finished(served, "first")
    shutil.copy(ledger_of(served), tmp_path / "yesterday.db")
    finished(served, "second")
    shutil.copy(tmp_path / "yesterday.db", ledger_of(served))
    with careless(monkeypatch):
        status = proposed(served, "third")
    assert status.state == "failed"
    assert "north: The ledger of party 'north' has " in status.message  # the coordinator
    (served.file.kit / "heads.json").unlink()  # a coordinator that has forgotten, or colludes
    with careless(monkeypatch):
        status = proposed(served, "fourth")
    assert status.state == "failed"
    assert "The ledger of party 'north' has " in status.message
    assert "Nothing was released. 'north' must restore the newest copy" in status.message
    assert status.message.split(":")[0] in ("Party 'st-mary'", "Party 'lakeside'")


def test_a_deleted_ledger_is_refused_at_home_and_by_the_others(served, monkeypatch):
    finished(served, "first")
    had = entries_of(ledger_of(served))
    ledger_of(served).unlink()
    status = proposed(served, "second")
    assert f"north: This party's ledger is missing; it had {had} entries." in status.message
    assert not ledger_of(served).exists()  # none is begun by the way
    with careless(monkeypatch):
        status = proposed(served, "third")
    words = "north: The ledger of party 'north' is another one than the one that had "
    assert words in status.message


def rehash(path, signer):
    """Rewrite a ledger as somebody would who knows its format: cheaper, and with right hashes."""
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        rules = found.fetchall()
        for name, _ in rules:
            database.execute(f"DROP TRIGGER {name}")
        last = bytes(32)
        for row in database.execute("SELECT * FROM entries ORDER BY seq").fetchall():
            seq, at, kind, body = row[:4]
            body = body.replace(b'"n_releases":1', b'"n_releases":0')
            link = ledger_store._hash(seq, at, kind, body, last)
            signature = signer.sign(link) if signer else row[6]
            database.execute(
                "UPDATE entries SET body = ?, previous = ?, hash = ?, signature = ? WHERE seq = ?",
                (body, last, link, signature, seq),
            )
            last = link
        for _, rule in rules:
            database.execute(rule)
        database.commit()


def test_a_rewritten_and_rehashed_ledger_is_refused(served, monkeypatch):
    finished(served, "first")
    path = ledger_of(served)
    shutil.copy(path, path.with_name("whole.db"))
    rehash(path, None)  # without the party's key
    said = CliRunner().invoke(app, ["ledger", "verify", str(path)])
    assert said.exit_code == LedgerError.exit_code
    assert "of the ledger does not carry the party's signature" in said.stderr
    shutil.copy(path.with_name("whole.db"), path)
    rehash(path, party_heads.signer_of(load_party(served.folder / "north" / "party.toml")))
    said = CliRunner().invoke(app, ["ledger", "verify", str(path)])  # and with it
    assert said.exit_code == LedgerError.exit_code
    assert "says that others keep entry" in said.stderr
    status = proposed(served, "second")
    assert "north: This party's ledger has another entry " in status.message
    with careless(monkeypatch):
        status = proposed(served, "third")
    assert "north: The ledger of party 'north' has another entry " in status.message


def test_two_copies_that_go_on_apart_are_noticed(served, monkeypatch):
    finished(served, "first")
    path = ledger_of(served)
    shutil.copy(path, path.with_name("copy.db"))
    finished(served, "second")
    shutil.copy(path.with_name("copy.db"), path)
    party = load_party(served.folder / "north" / "party.toml")
    with careless(monkeypatch), closing(open_ledger(party)) as fork:
        for number in range(30):  # longer than what the others keep
            fork.restart("elsewhere", number)
    drop_restarts(path)
    status = proposed(served, "third")
    assert "north: This party's ledger has another entry " in status.message
    (served.file.kit / "heads.json").unlink()
    with careless(monkeypatch):
        status = proposed(served, "fourth")
    assert status.state == "failed"
    assert "The ledger of party 'north' does not show its entry " in status.message


def drop_restarts(path):
    """Turn the entries of a fork into ordinary ones, with right hashes."""
    party = load_party(path.parent / "party.toml")
    with closing(sqlite3.connect(path)) as database:
        rules = database.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (rule,) in rules:
            database.execute(f"DROP TRIGGER {rule.split()[2]}")
        database.execute(
            "UPDATE entries SET kind = 'LifeBudgets', body = (SELECT body FROM entries WHERE "
            "kind = 'LifeBudgets') WHERE kind = 'Restarted'"
        )
        for (rule,) in rules:
            database.execute(rule)
        database.commit()
    rehash_from(path, party_heads.signer_of(party))


def rehash_from(path, signer):
    with closing(sqlite3.connect(path)) as database:
        rules = database.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (rule,) in rules:
            database.execute(f"DROP TRIGGER {rule.split()[2]}")
        last = bytes(32)
        for row in database.execute("SELECT * FROM entries ORDER BY seq").fetchall():
            link = ledger_store._hash(row[0], row[1], row[2], row[3], last)
            if link != row[5]:
                new = (last, link, signer.sign(link), row[0])
                database.execute(
                    "UPDATE entries SET previous = ?, hash = ?, signature = ? WHERE seq = ?", new
                )
            last = link
        for (rule,) in rules:
            database.execute(rule)
        database.commit()


def test_a_restart_is_seen_by_all_and_kept_on_record(served, caplog):
    finished(served, "first")
    path = ledger_of(served)
    shutil.copy(path, path.with_name("yesterday.db"))
    finished(served, "second")
    shutil.copy(path.with_name("yesterday.db"), path)
    assert proposed(served, "third").state == "failed"
    said = restart(served)
    assert said.exit_code == 0, said.output
    assert "lower epsilon_total by what they cost" in said.stdout
    caplog.clear()
    finished(served, "fourth")
    told = [r.getMessage() for r in caplog.records if "says why: the disk burnt" in r.getMessage()]
    assert len(told) == 2  # once at each of the others
    assert "Party 'north' restarted its ledger on " in told[0]
    caplog.clear()
    finished(served, "fifth")  # and is not told again
    assert not [r for r in caplog.records if "the disk burnt" in r.getMessage()]
    asked = ["party", "peers", str(served.folder / "st-mary" / "party.toml"), "--json"]
    (warned,) = json.loads(CliRunner().invoke(app, asked).stdout)["warnings"]
    assert warned.startswith("north restarted its ledger on ")
    assert warned.endswith(", and says why: the disk burnt")
    shown = CliRunner().invoke(app, ["ledger", "verify", str(path)]).stdout
    assert "Restarted once, the last time: the disk burnt" in shown


def test_an_old_restart_does_not_excuse_a_copy_of_later(served):
    finished(served, "first")
    ledger_of(served).unlink()
    assert restart(served).exit_code == 0
    finished(served, "second")
    path = ledger_of(served)
    shutil.copy(path, path.with_name("copy.db"))
    finished(served, "third")
    shutil.copy(path.with_name("copy.db"), path)
    assert "north: This party's ledger has " in proposed(served, "fourth").message


def test_a_restart_needs_a_reason_and_something_to_restart(served):
    finished(served, "first")
    for reason in ("", "  ", "two\nlines", "x" * 301):
        said = restart(served, reason=reason)
        assert said.exit_code == SettingError.exit_code
        assert "A restart needs a reason of at most 300 printable characters" in said.stderr
    write_party(served.folder, "new")
    said = restart(served, "new")
    assert "There is no ledger, and there was none." in said.stderr


def test_records_that_do_not_know_the_ledger_are_noticed(served):
    finished(served, "first")
    (served.folder / "north" / "records" / "ledger.json").unlink()
    status = proposed(served, "second")
    assert "north: This party's records do not know its ledger" in status.message
    assert "ledger.json is missing. Restore records/ from a backup" in status.message
    assert restart(served, reason="records were lost").exit_code == 0
    finished(served, "third")


def test_a_head_of_another_attempt_cannot_be_shown_again(served, monkeypatch):
    finished(served, "first")
    keeper_heads = served.keeper._heads
    shown: list[tuple[bytes, ...]] = []
    joined = type(keeper_heads).joined

    def replaying(self, attempt, said):
        if not shown:
            shown.append(tuple(said.values()))
        wrong = joined(self, attempt, said)
        self.shown = shown[0]
        return wrong

    monkeypatch.setattr(type(keeper_heads), "joined", replaying)
    finished(served, "second")
    status = proposed(served, "third")
    assert status.state == "failed"
    assert "is of another attempt. Nothing was released." in status.message
    shown[0] = shown[0][:1]
    assert "did not show the head of the ledger of party" in proposed(served, "fourth").message
    shown[0] = (b"nonsense",)
    assert "A ledger's head is malformed" in proposed(served, "fifth").message


def no_room(*_, **__):
    raise OSError(ENOSPC, os.strerror(ENOSPC))


def test_a_coordinator_that_cannot_keep_heads_leaves_those_it_has(served, monkeypatch):
    finished(served, "first")
    before = (served.file.kit / "heads.json").read_bytes()
    monkeypatch.setattr("spinney.deployment.coordinator.heads.replace_file", no_room)
    finished(served, "second")
    assert (served.file.kit / "heads.json").read_bytes() == before
    monkeypatch.undo()
    finished(served, "third")  # what the parties keep is enough to go on


def test_a_party_that_cannot_record_its_head_lets_nothing_leave(served, monkeypatch):
    finished(served, "first")
    records = served.folder / "north" / "records"
    before = {name: (records / name).read_bytes() for name in ("ledger.json", "heads.json")}

    def full(path, data, **how):
        return no_room() if records in path.parents else replace_file(path, data, **how)

    monkeypatch.setattr(party_heads, "replace_file", full)
    status = proposed(served, "second")
    assert "This party cannot record where ledgers end, so nothing leaves" in status.message
    assert {name: (records / name).read_bytes() for name in before} == before
    monkeypatch.undo()
    finished(served, "third")


def test_a_restart_that_is_interrupted_leaves_everything_as_it_was_or_is_whole(served, monkeypatch):
    finished(served, "first")
    path = ledger_of(served)
    path.unlink()
    beside = sorted(one.name for one in path.parent.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(ledger_copies, "_put", no_room)  # before the new file is in its place
        assert restart(served).exit_code != 0
    assert sorted(one.name for one in path.parent.iterdir()) == sorted({*beside, "ledger.db.lock"})
    assert "north: This party's ledger is missing" in proposed(served, "second").message
    with monkeypatch.context() as patched:
        patched.setattr(party_heads, "replace_file", no_room)  # after it, before the records follow
        assert restart(served).exit_code != 0
    finished(served, "third")  # the restart is in the ledger, and explains itself
    assert entries_of(path) > 2


def test_a_copy_that_has_forgotten_entries_is_restored_only_together_with_a_reason(served):
    finished(served, "first")
    path = ledger_of(served)
    kept = path.with_name("copy.db")
    run = CliRunner().invoke
    assert run(app, ["ledger", "backup", str(path), str(kept)]).exit_code == 0
    had = entries_of(path)
    finished(served, "second")
    lacking = entries_of(path) - had
    said = run(app, ["ledger", "restore", str(kept), str(path), "--forget", str(lacking)])
    assert "The other parties notice, so say why: spinney ledger restart" in said.stdout
    assert "north: This party's ledger has " in proposed(served, "third").message
    assert restart(served, reason="the backup was a day old").exit_code == 0
    finished(served, "fourth")


def test_clocks_that_go_back_do_not_matter_between_parties(served, monkeypatch):
    finished(served, "first")

    class Yesterday(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr(ledger_store, "datetime", Yesterday)
    finished(served, "second")
    said = CliRunner().invoke(app, ["ledger", "verify", str(ledger_of(served))])
    assert "This machine's clock went back before entry" in said.stdout


def test_a_coordinator_that_was_killed_or_lost_its_disk_raises_no_alarm(served, monkeypatch):
    finished(served, "first")
    with monkeypatch.context() as patched:  # killed before it could tell anybody
        patched.setattr(type(served.keeper._heads), "closed", lambda _: ())
        finished(served, "second")
    finished(served, "third")
    (served.file.kit / "heads.json").unlink()
    finished(served, "fourth")


def test_a_party_that_missed_the_end_of_an_attempt_raises_no_alarm(served, monkeypatch):
    finished(served, "first")
    with monkeypatch.context() as patched:
        patched.setattr(party_heads.LedgerHeads, "end", lambda *_: None)
        finished(served, "second")
    finished(served, "third")
    assert entries_of(ledger_of(served))


def test_a_ledger_of_an_earlier_version_goes_on_with_all_its_charges(tmp_path):
    made = Served(tmp_path)
    for name in CLINICS:
        write_party(tmp_path, name, policy="epsilon_total = 3.0\ntrust_coordinator = true")
    with closing(Ledger.open(ledger_of(made), "north")) as old:  # as version 0.1 wrote it
        old.allow_for_life("table", [Budget.pure(3, unit) for unit in Unit])
        old.open_job(JobTerms.agreed("q0", "table", 3, [Budget.pure(1)]))
        spend = Spend("counts", DiscreteLaplace(Fraction(1)))
        old.reserve(Question.of("q0", 0, b""), [spend])
        before = old.anchor()
    with made.up(*CLINICS):
        status = made.over(made.submit(job_called(made, "first")))
        assert status.state == "failed"
        assert "asked epsilon=2 for a record replaced by another" in status.message
        assert "more than is left for the life of the data set" in status.message
        rest(made)
        with closing(Ledger.open(ledger_of(made))) as ledger:
            assert ledger.verify(anchor=before).seq > before.seq
            assert ledger.left_for_life("table", Unit.RECORD_REPLACE) == 1


def test_a_file_that_is_replaced_under_a_running_party_is_noticed(served, monkeypatch):
    finished(served, "first")
    path = ledger_of(served)
    shutil.copy(path, path.with_name("copy.db"))
    answer = Guarded.answer

    def replaced(side, ask):
        reply = answer(side, ask)
        if "north" in side._record.folder.parts and type(ask).__name__ == "ClaimsAsk":
            shutil.copy(path.with_name("copy.db"), path)
        return reply

    monkeypatch.setattr(Guarded, "answer", replaced)
    status = served.over(served.submit(job_called(served, "second")))
    rest(served)
    assert status.state == "paused"
    assert re.search(r"Party 'north': Entry \d+ of the ledger is missing\.", status.message)
