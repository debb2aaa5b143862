"""`spinney ledger`: a privacy officer reads what was released at what cost."""

import json
import re
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

from spinney.cli.main import app
from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Exact
from spinney.privacy.scopes import PARTY_TOTALS, Budget, Disclosure, Protection, Question, Spend


@pytest.fixture
def ledger_file(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, "north")
    ledger.allow_for_life("admissions", [Budget.pure(4)])
    for name in ("q3", "q4"):
        ledger.open_job(JobTerms.agreed(name, "admissions", 5, [Budget.pure(1)]))
    noise = DiscreteLaplace(Fraction(1, 4), sensitivity=Fraction(1))

    def draw(charges):
        noise.release(Exact(np.zeros(4, np.int64)), charges[0])
        return b"reply"

    spends = [Spend("class counts of level 0", noise)]
    ledger.answer(Question.of("q3", 1, b"ask"), spends, draw)
    seen = Disclosure("edges", Protection.UNPROTECTED, "exact counts", ("label",))
    ledger.answer(Question.of("q4", 1, b"ask"), [], lambda _: b"reply", [seen])
    ledger.close()
    return path


def run(*words):
    return CliRunner().invoke(app, ["ledger", *map(str, words)])


def test_a_ledger_is_shown_job_by_job_with_every_charge(ledger_file):
    result = run("show", ledger_file)
    assert result.exit_code == 0
    opening = "ledger of 'north': 8 entries; 2 releases in 2 jobs"
    assert result.stdout.splitlines()[0] == opening
    assert "admissions may cost in all: epsilon=4" in result.stdout
    assert "class counts of level 0: epsilon 0.25 for a record added or removed" in result.stdout
    claim = r"One record, added or removed, against [^:]*; the coordinator[^:]*: epsilon=0\.25 "
    assert re.search(claim, result.stdout)
    assert "edges: UNPROTECTED (exact counts)" in result.stdout


def test_totals_come_first_and_equal_lines_are_folded(ledger_file):
    ledger = Ledger.open(ledger_file, "north")
    what, why = "counts of bins", "exact: the job adds no noise"
    for number in range(2, 9):
        seen = [
            Disclosure(what, Protection.UNPROTECTED, why, ("label",)),
            Disclosure(f"own {what}", Protection.UNPROTECTED, why, (PARTY_TOTALS,)),
        ]
        ledger.answer(Question.of("q4", number, b"ask"), [], lambda _: b"reply", seen)
    ledger.close()
    lines = run("show", ledger_file).stdout.splitlines()
    at = lines.index("job 'q3': 1 release")
    assert lines[at + 1] == "  total: epsilon 0.25 for one record, added or removed"
    at = lines.index("job 'q4': 15 releases")
    total = "  total: UNPROTECTED for one record, added or removed; one record's label; a party's "
    assert lines[at + 1] == f"{total}own totals"
    told = lines[at + 2 :]
    assert sum("against" in line for line in told) == 2  # one for records, one for totals
    (folded,) = [line for line in told if line.endswith(f"{what}: UNPROTECTED ({why})")]
    assert re.match(r"    14 entries, 9 to 28, \S+ .* UTC  counts", folded)
    found = json.loads(run("show", ledger_file, "--json").stdout)
    assert len(found["jobs"][1]["releases"]) == 15  # programs get every entry


def test_a_deployed_job_is_found_by_its_name_or_its_run(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.open(path, "north")
    for name in ("q3 4bf21853-a6a0", "q3 77aa", "q31"):
        ledger.open_job(JobTerms.agreed(name, "admissions", 5, [Budget.pure(1)]))
    ledger.close()
    for given, wanted in (
        ("q3", ["q3 4bf21853-a6a0", "q3 77aa"]),
        ("4bf2", ["q3 4bf21853-a6a0"]),
        ("q3 77aa", ["q3 77aa"]),
        ("q31", ["q31"]),
    ):
        found = json.loads(run("show", path, "--job", given, "--json").stdout)
        assert [job["name"] for job in found["jobs"]] == wanted
    assert run("show", path, "--job", "").exit_code == 32


def test_one_job_is_shown_as_json(ledger_file):
    result = run("show", ledger_file, "--job", "q3", "--json")
    found = json.loads(result.stdout)
    assert [job["name"] for job in found["jobs"]] == ["q3"]
    assert [release["what"] for release in found["jobs"][0]["releases"]] == [
        "class counts of level 0"
    ]


def test_an_unknown_job_is_named_with_the_known_ones(ledger_file):
    result = run("show", ledger_file, "--job", "q9")
    assert result.exit_code == 32
    assert "The ledger has no job 'q9'. It has: 'q3', 'q4'." in result.stderr


def test_a_whole_ledger_is_verified(ledger_file):
    result = run("verify", ledger_file)
    assert result.exit_code == 0
    assert "is intact: 8 entries" in result.stdout


def test_a_changed_ledger_is_found_out(ledger_file):
    with sqlite3.connect(ledger_file) as file:
        (rule,) = file.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'entries_UPDATE'"
        ).fetchone()
        file.execute("DROP TRIGGER entries_UPDATE")
        file.execute(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), '1/4', '1/8') AS BLOB) "
            "WHERE seq = 5"
        )
        file.execute(rule)
    file.close()
    result = run("verify", ledger_file)
    assert result.exit_code == 32
    assert "ntry 5 of the ledger" in result.stderr


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_file_that_is_no_ledger_is_refused_in_one_line(command, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a ledger, but long enough to be mistaken for one" * 40)
    for path, wording in (
        (other, "is not a Spinney ledger"),
        (tmp_path / "no", "ledger file does not exist"),
    ):
        result = run(command, path)
        assert result.exit_code == 32
        assert wording in result.stderr
        assert result.stderr.count("\n") == 1
