"""The attack on yesterday's ledger, on a real federation: processes, cages and commands."""

import json
import shutil

import pytest

from deployed.loopback import CLINICS, Federation  # type: ignore[import-not-found]

SMALL = {"epsilon": 1.0, "n_estimators": 2, "max_depth": 2}

pytestmark = pytest.mark.slow  # processes of their own; test_ledger_heads.py plays it in one


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("clinics"))
    for name in CLINICS:
        made.write_party(name, policy="epsilon_total = 20.0\ntrust_coordinator = true")
    with made.up():
        yield made


def trained(federation, name):
    path = federation.write_job(name, "private_forest", **SMALL)
    federation.job("start", str(path), "--follow", "--out", f"{name}-run")


def proposed(federation, name):
    path = federation.write_job(name, "private_forest", **SMALL)
    return federation.job("propose", str(path), "--json", check=False)


def test_a_ledger_that_was_put_back_is_refused_until_the_newest_one_is_restored(federation):
    north = federation.root / "north"
    trained(federation, "first")
    federation.spinney("ledger", "backup", "ledger.db", "yesterday.db", folder="north")
    trained(federation, "second")
    federation.spinney("ledger", "backup", "ledger.db", "today.db", folder="north")
    shutil.copy(north / "yesterday.db", north / "ledger.db")
    said = proposed(federation, "third")
    assert said.returncode != 0
    told = " ".join((said.stdout + said.stderr).split())
    assert "north: This party's ledger has" in told
    assert "Restore the newest copy: spinney ledger restore" in told
    for other in ("st-mary", "lakeside"):  # they are told why
        log = (federation.root / other / "kit" / "spinney.jsonl").read_text()
        assert "north: This party's ledger has" in log
    federation.processes["north"].terminate()
    federation.processes["north"].wait(30)
    federation.spinney("ledger", "restore", "today.db", "ledger.db", folder="north")
    federation.start("north")
    federation.wait_until_connected("north")
    answers = json.loads(proposed(federation, "fourth").stdout)["answers"]
    assert answers == dict.fromkeys(CLINICS, "")


def test_a_lost_ledger_begins_anew_only_with_a_reason_that_all_read(federation):
    north = federation.root / "north"
    trained(
        federation, "before"
    )  # whichever test is first: a ledger that held nothing is not missed
    federation.processes["north"].terminate()
    federation.processes["north"].wait(30)
    (north / "ledger.db").unlink()
    said = federation.spinney("party", "run", "party.toml", folder="north", check=False, seconds=60)
    assert said.returncode == 32
    assert "This party's ledger is missing; it had " in " ".join(said.stderr.split())
    assert not (north / "ledger.db").exists()
    reason = "the disk of 16 November burnt"
    federation.spinney("ledger", "restart", "party.toml", "--reason", reason, folder="north")
    federation.start("north")
    federation.wait_until_connected("north")
    trained(federation, "fifth")
    for other in ("st-mary", "lakeside"):
        log = (federation.root / other / "kit" / "audit.jsonl").read_text()
        assert reason in log
    shown = federation.spinney("ledger", "verify", "ledger.db", folder="north").stdout
    assert reason in " ".join(shown.split())
    assert "Others keep its head up to entry" in shown
