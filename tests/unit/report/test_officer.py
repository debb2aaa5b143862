"""The privacy officer's document: every part is there, and every statement has its file."""

import json
import re
from contextlib import closing
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spinney.errors import SettingError, StorageError
from spinney.privacy.ledger import Ledger
from spinney.privacy.signatures import LocalKey
from spinney.report.officer.claims import claims_section, odds_section
from spinney.report.officer.document import officer_document
from spinney.report.officer.odds import PRIORS, posterior
from spinney.report.officer.sources import Source
from spinney.report.privacy import PrivacyClaim

ABOUT = """
purpose = "Plan care after <discharge>."
legal_basis = "Art. 9(2)(i) GDPR"
[contacts]
party_0 = "dpo@north.example.org"
lead = "alice@example.org"
[data_categories]
age = "personal data"
ill = "health data"
"""
SHARE = {"share": 0.25, "low": 0.2, "high": 0.31, "hits": 25, "tries": 100}
AUDIT = {
    "format": 1,
    "target": "runs/visits",
    "protocol": "horizontal_forest",
    "n_rows": 120,
    "models": [
        {
            "name": "hardened",
            "digest": "",
            "groups": {
                "least": 5,
                "smallest_leaf": 2,
                "leaves": 40,
                "small_leaves": 3,
                "small_nodes": 4,
                "small_cells": 9,
                "exact_counts": False,
            },
            "rebuilt": {"view": "reader", "structures": 1, "isolated": SHARE, "cells": None},
            "membership": {
                "n_models": 32,
                "n_rows": 120,
                "area": 0.6,
                "at": [{"wanted": 0.01, "found": SHARE, "false": SHARE, "rows_needed": 0}],
            },
        }
    ],
    "sums": [{"view": "coordinator", "structures": 2, "isolated": SHARE, "cells": SHARE}],
    "epsilon": {
        "claim": 4.0,
        "delta": 0.0,
        "bound": 1.25,
        "n_runs": 500,
        "event": "a leaf",
        "most": 5.0,
        "always_same": False,
    },
    "broken": [],
}
PARTS = (
    "Purpose",
    "Parties and contacts",
    "Data",
    "Who learns what",
    "What is promised",
    "What this epsilon means for a record",
    "How the model left",
    "What attacks got: the audit",
    "How good the model is",
    "Ledgers",
    "Risks that are left",
    "Signature",
    "Files and their hashes",
)


@pytest.fixture
def run(place):
    place.job(place.JOB + place.TABLE)
    assert place.run("simulate", "job.toml").exit_code == 0
    return place.folder / "runs" / "visits"


def words_of(document):
    return " ".join(re.sub(r"<[^>]+>", " ", document.split("</style>")[1]).split())


def test_every_part_is_there_and_nothing_is_fetched_or_run(run):
    document = officer_document(run)
    found = re.findall(r"<h2>\d+\. (.*?)</h2>", document)
    assert tuple(found) == PARTS
    assert "default-src 'none'; style-src 'unsafe-inline'" in document.replace("&#x27;", "'")
    assert "<script" not in document
    assert not re.search(r'(src|href)="(?!#)', document)


class Open(HTMLParser):
    """Counts elements that are not closed."""

    depth = 0

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.depth += tag != "meta"

    def handle_endtag(self, tag):  # noqa: ARG002
        self.depth -= 1


def test_every_statement_leads_to_a_file_and_its_hash(run):
    (run / "about.toml").write_text(ABOUT, encoding="utf-8")
    (run / "audit.json").write_text(json.dumps(AUDIT), encoding="utf-8")
    document = officer_document(run)
    parser = Open()
    parser.feed(document)
    assert parser.depth == 0
    for name in ("report.json", "model.spinney", "audit.json", "about.toml"):
        assert sha256((run / name).read_bytes()).hexdigest() in document
    marks = set(re.findall(r'href="#source-([A-Z])"', document))
    assert marks == set(re.findall(r'id="source-([A-Z])"', document)) == set("ABCD")
    for section in document.split("<h2>")[1:]:
        title = section.split("</h2>")[0]
        assert (
            "Signature" in title
            or "#source-" in section
            or "source-A" in section
            or ("audit" in title or "Ledgers" in title)
        ), title


def test_what_people_say_is_shown_as_text(run):
    (run / "about.toml").write_text(ABOUT, encoding="utf-8")
    document = officer_document(run)
    assert "Plan care after &lt;discharge&gt;." in document
    words = words_of(document)
    assert "party_0 took part to the end dpo@north.example.org" in words
    assert "age column number from 0 to 110 personal data" in words
    assert "ill label: what the model predicts one of no, yes health data" in words
    assert "party_1 took part to the end not stated" in words


def test_what_is_not_known_is_said(run):
    words = words_of(officer_document(run))
    assert "This was a simulation: one process held the rows of all parties." in words
    assert "Every party and the lead get the model; the lead gets the coordinator" in words
    assert "every party was also told the sums of the table" in words
    assert words.count("Not stated. Say it in about.toml beside the report.") == 2
    assert "No audit is in this folder: this document does not know" in words
    assert "No ledger was given." in words
    assert "No epsilon holds in this run" in words
    assert "No epsilon holds against readers of the model" in words
    assert "The model was hardened before it left, with smallest_leaf=5" in words


def test_an_audit_is_shown_and_must_be_of_this_model(run):
    path = run / "audit.json"
    path.write_text(json.dumps(AUDIT), encoding="utf-8")
    words = words_of(officer_document(run))
    assert "The audit tried another model than the one in this folder." in words
    assert "leaves with fewer than 5 rows 3 of 40" in words
    assert "rows isolated 25.0 % [20.0, 31.0]" in words
    assert "members found at 1 % false 25.0 % [20.0, 31.0]" in words
    assert "runs with and without one row show at least 1.25" in words
    assert "No limit was set for the audit ([policy.audit] in a party" in words
    digest = sha256((run / "model.spinney").read_bytes()).hexdigest()
    own = json.loads(json.dumps(AUDIT).replace('"digest": ""', f'"digest": "{digest}"'))
    path.write_text(json.dumps(own | {"broken": ["too many rows stand alone"]}), encoding="utf-8")
    words = words_of(officer_document(run))
    assert "another model" not in words
    assert "1 limit not kept." in words
    limited = own | {"limits": {"least_group": 2}}
    path.write_text(json.dumps(limited), encoding="utf-8")
    words_kept = words_of(officer_document(run))
    assert "compared with the party&#x27;s limits: least_group = 2. All are kept." in words_kept
    assert "What is not kept: too many rows stand alone." in words


def test_an_audit_of_another_format_is_refused(run):
    (run / "audit.json").write_text(json.dumps(AUDIT | {"format": 9}), encoding="utf-8")
    with pytest.raises(
        StorageError, match=r"has audit format 9; this Spinney \(.+\) reads format 1"
    ):
        officer_document(run)
    (run / "audit.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StorageError, match="is not an audit that this Spinney can read"):
        officer_document(run)


def test_a_ledger_is_checked_and_its_head_is_shown(run, tmp_path):
    path = tmp_path / "north.db"
    ledger = Ledger.open(path, "north")
    head = ledger.anchor().hash.hex()
    ledger.close()
    document = officer_document(run, (path,))
    assert head in document
    assert "every entry holds" in document
    assert "has no head that others keep" in document
    with closing(Ledger.open(path, "north", key=LocalKey.of_secret(b"a"))) as ledger:
        ledger.restart("the disk burnt", 9)
    words = words_of(officer_document(run, (path,)))
    assert "The ledger of north was RESTARTED on 20" in words
    assert "and says why: the disk burnt. Entries up to 9 were given up." in words
    document = officer_document(run, (path,))
    assert sha256(path.read_bytes()).hexdigest() in document


WRONG = {
    "not toml": ("purpose = ", "'about.toml' cannot be read: .* docs/report.md shows one"),
    "another key": ("owner = 'x'", "'about.toml' cannot be read: .*unknown field `owner`"),
    "a stranger": ("[contacts]\nbob = 'x'", "has a contact for 'bob', who is not in this run"),
    "no column": ("[data_categories]\nsize = 'x'", "for 'size', which is no column of this run's"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_about_a_run_is_refused(run, case):
    text, words = WRONG[case]
    (run / "about.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=words):
        officer_document(run)


def test_a_folder_without_a_report_is_refused(tmp_path):
    with pytest.raises(
        StorageError, match=r"holds no report\.json, from which the document is made"
    ):
        officer_document(tmp_path)


def test_odds_move_by_e_to_the_epsilon_and_no_more():
    for prior in PRIORS:
        assert posterior(prior, 0.0) == pytest.approx(prior)
        odds = posterior(prior, 1.0) / (1 - posterior(prior, 1.0))
        assert odds / (prior / (1 - prior)) == pytest.approx(2.718281828)
    assert posterior(0.5, 10_000.0) == pytest.approx(1.0)


def test_the_command_writes_the_document_into_the_run(run, place):
    told = place.run("report", "--for-officer", "visits")
    assert (told.exit_code, told.stdout) == (0, "Document  runs/visits/officer.html\n")
    assert (run / "officer.html").read_text(encoding="utf-8") == officer_document(run)
    told = place.run("report", "--for-officer", "runs/visits", "--out", "mine.html")
    assert told.stdout == "Document  mine.html\n"
    code, line = place.refused("report", "--for-officer", "job.toml")
    assert (code, "'job.toml' is not a run's folder" in line) == (10, True)
    told = place.run("report", "show", "runs/visits")  # the other commands are as they were
    assert "horizontal_forest" in told.stdout


def test_the_guide_has_the_odds_that_the_document_has():
    from pathlib import Path  # noqa: PLC0415

    from spinney.report.officer.odds import _percent  # noqa: PLC0415

    guide = (Path(__file__).parents[3] / "docs" / "choosing-epsilon.md").read_text("utf-8")
    for epsilon in (0.1, 0.5, 1, 2, 4, 8):
        told = " | ".join(_percent(posterior(prior, epsilon)) for prior in PRIORS)
        assert re.search(rf"^\| {epsilon:g} \| \S+ \| {re.escape(told)} \|$", guide, re.MULTILINE)


def test_the_odds_count_what_an_evaluation_cost_as_well():
    def claim(epsilon, text):
        return PrivacyClaim(
            ("a",), "record, add or remove", "reader", "EPSILON", epsilon, "0", text
        )

    paid, judged = claim("1", "trained"), claim("3", "judged")
    facts: Any = SimpleNamespace(privacy=(paid,), evaluation_privacy=(judged,), parties=("a",))
    source = Source("A", Path("report.json"), "0" * 64, 1, "the report")
    odds = str(odds_section(facts, source))
    assert "54.6" in odds
    assert "all evaluations included" in odds
    told = str(claims_section(facts, source))
    assert "judged" in told
    assert ">evaluation<" in told


PRIVATE = """
[job]
name = "noisy"
protocol = "private_forest"
[settings]
n_estimators = 2
max_depth = 2
epsilon = 1.0
n_jobs = 1
[schema]
label = "ill"
classes = ["no", "yes"]
[schema.columns]
age = { kind = "number", range = [0, 110] }
ward = { kind = "category", values = ["eye", "ear"] }
[table]
source = "csv"
path = "visits.csv"
[simulation]
n_parties = 3
[evaluation]
epsilon = 0.5
"""


def test_quality_that_was_measured_with_noise_is_shown_and_exact_scores_are_called_so(place):
    place.job(PRIVATE)
    assert place.run("simulate", "job.toml").exit_code == 0
    words = words_of(officer_document(place.folder / "runs" / "noisy"))
    assert "Measured with noise, which the ledgers paid for, on the model that left:" in words
    assert "Measures with 95 % intervals" in words
    assert (
        "Scores are exact counts, of the model before it was hardened. No epsilon covers" in words
    )
    assert "The scores by party are exact counts of rows that were held back." in words


def test_what_left_is_told_with_its_bytes(run):
    document = words_of(officer_document(run))
    left = json.loads((run / "report.json").read_text(encoding="utf-8"))["disclosures"]
    assert "what left who sees it protection times bytes" in document
    assert left
    for entry in left:
        assert f" {entry['times']:,} {sum(entry['bytes_up'].values()):,} " in document
