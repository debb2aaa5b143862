"""What happened in a job: written, read again, and printed for people."""

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, deal_rows, load_report
from spinney.errors import StorageError
from spinney.report.door import release
from spinney.report.facts import FORMAT, Holder, PartyQuality
from spinney.report.page.disclosed import what_left
from spinney.report.privacy import say_once
from spinney.report.render import size
from spinney.report.report import Report
from spinney.report.verdicts import below_majority

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture
def forest(ward_table, ward_labels):
    y = ward_labels["two classes"]
    site = np.array(["north", "south", "west"])[deal_rows(y, 3, random_state=0)]
    return HorizontalForestClassifier(6, max_depth=4, random_state=0).fit(ward_table, y, party=site)


@pytest.fixture
def report(forest):
    return forest.report_


def test_a_report_tells_what_grew(report, forest):
    assert report.protocol == "horizontal_forest"
    assert report.parties == ("north", "south", "west")
    assert report.n_trees == 6
    assert report.depth == 4
    assert report.n_nodes == forest.model_.forest.n_nodes
    assert report.settings["max_depth"] == 4
    assert report.format == FORMAT
    assert set(report.seconds) == {"agreeing", "binning", "growing", "judging"}
    assert all(seconds >= 0 for seconds in report.seconds.values())


def test_quality_is_told_party_by_party(report):
    assert [found.party for found in report.quality] == ["north", "south", "west"]
    for found in report.quality:
        assert found.rows == "out-of-bag"
        assert 0 < found.n_rows <= 80
        assert set(found.scores) == {"accuracy", "f1", "majority", "joint_majority"}
        assert all(0 <= score <= 1 for score in found.scores.values())


def test_a_saved_report_comes_back(report, tmp_path):
    report.save(tmp_path / "report.json")
    again = load_report(tmp_path / "report.json")
    left, _ = release(report.__dict__["model"], report.release)
    assert again == report.of_leaving(left)
    assert again.importances != report.importances  # those of the model that leaves
    again.save(tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == again
    assert load_report(tmp_path) == again  # a run's folder
    assert load_report(str(tmp_path / "report.json")) == again
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_is_plain_json(report):
    found = json.loads(report.to_json())
    assert found["n_trees"] == 6
    assert found["format"] == 1
    assert [entry["question"] for entry in found["disclosures"]] == [
        "Schema",
        "Facts",
        "Edges",
        "Level",
        "Quality",
    ]


def test_a_party_of_one_row_has_no_r2_and_its_report_comes_back(ward_table, ward_labels, tmp_path):
    y = ward_labels["amount"]
    party = (np.arange(len(y)) > 0).astype(int)
    forest = HorizontalForestRegressor(20, random_state=0).fit(ward_table, y, party=party)
    alone = forest.report_.quality[0]
    assert alone.n_rows == 1
    assert set(alone.scores) == {"rmse"}
    forest.report_.save(tmp_path / "report.json")
    assert load_report(tmp_path).quality == forest.report_.quality
    assert "rmse" in str(forest.report_)


def test_without_a_bootstrap_quality_is_of_the_training_rows(ward_table, ward_labels):
    forest = HorizontalForestRegressor(2, bootstrap=False, random_state=0)
    found = forest.fit(ward_table, ward_labels["amount"]).report_.quality[0]
    assert found.rows == "training"
    assert found.n_rows == len(ward_table)
    assert found.scores["r2"] > 0.9


def test_a_printed_report_says_what_matters(report):
    text = str(report)
    for words in (
        "horizontal_forest   3 parties   6 trees, depth 4",
        "quality (out-of-bag rows)",
        "what left each party",
        "histograms of tree nodes by class",
        "the coordinator, summed",
        f"{report.rounds} rounds",
        "Not differentially private: no noise was added",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_printed_report_tells_all_that_the_page_tells(report):
    quality = (PartyQuality("north", "held-out", 50, {"f1": 0.7, "local_f1": 0.6}),)
    told = str(
        msgspec.structs.replace(
            report,
            quality=quality,
            attempts=3,
            dropped=("west",),
            hardened=("exported as x.onnx (onnx): as it is",),
            holders=(
                Holder("bank", ("a", "b"), 7, holds_label=True, consents=False),
                Holder("shop", (), 2, holds_label=False, consents=True),
            ),
            ended="The party 'west' does not answer.",
        )
    )
    for words in (
        "stopped early in",
        "ended        The party 'west' does not answer. This report covers the completed rounds.",
        "worth it?    There was one party" if len(report.parties) == 1 else "By F1, no party has",
        "lost         west",
        "retries      2 retries: the job started 3 times",
        "hardened     exported as x.onnx (onnx): as it is",
        "splits       bank owns 7, by 2 columns, does not consent to joining its part; shop",
        "shop owns 2, by\n             columns it keeps secret",
        f"why          {report.importances[0].column} 0.",
    ):
        assert words in told, told
    assert max(map(len, told.splitlines())) <= 100


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("shared", "The label of every row left its party, and so did which rows share a node."),
        ("encrypted", "Labels left only encrypted, and so did which rows share a node."),
        (None, "Not differentially private: no noise was added.</p>"),
    ],
)
def test_a_page_tells_of_labels_only_what_the_settings_tell(report, labels, words):
    settings = report.settings | ({"labels": labels} if labels else {})
    holders = (Holder("bank", ("a",), 7, holds_label=True, consents=False),)
    page = str(what_left(msgspec.structs.replace(report, settings=settings, holders=holders)))
    assert words in page


def test_a_printed_private_report_has_each_budget(ward_table, ward_labels):
    y = ward_labels["two classes"]
    forest = HorizontalForestClassifier(2, max_depth=2, epsilon=4.0, random_state=0)
    text = str(forest.fit(ward_table, y, party=np.arange(len(y)) % 2).report_)
    assert re.search(
        r"budget +0, 1: epsilon 4 before, [\d.]+ spent, [\d.]+ left \(record, add", text
    )


def test_one_of_a_kind_is_in_the_singular(ward_table, ward_labels):
    forest = HorizontalForestClassifier(1, random_state=0)
    text = str(forest.fit(ward_table, ward_labels["two classes"]).report_)
    assert "1 party   1 tree," in text


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (15_300_000, "15.3 MB"), (2e9, "2.0 GB")],
)
def test_bytes_for_people(n_bytes, words):
    assert size(n_bytes) == words


# --- files that are none -------------------------------------------------------------------------


def test_a_report_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot read .*none\.json'.*Check the path"):
        load_report(tmp_path / "none.json")
    with pytest.raises(StorageError, match=r"Cannot read .*report\.json'"):
        load_report(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"protocol": 3}', "\udcff"])
def test_a_file_that_is_no_report(text, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(StorageError, match="is not a report that this Spinney can read"):
        load_report(path)


def test_a_report_of_a_newer_format(report, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(report.to_json().replace('"format": 1', '"format": 2'))
    words = r"has report format 2; this Spinney \(.*\) reads format 1\. Install Spinney"
    with pytest.raises(StorageError, match=words):
        load_report(path)
    path.write_text('{"format": 7, "version": "9.1", "parties": "told in another way"}')
    with pytest.raises(StorageError, match=r"has report format 7; .* Spinney 9\.1 or a newer"):
        load_report(path)


def test_a_report_of_parties_that_it_does_not_name(report, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(report.to_json().replace('"north"', '"nord"', 1))  # in `parties` alone
    words = "is not a valid report: it mentions 'north', not listed among its parties"
    with pytest.raises(StorageError, match=words):
        load_report(path)


def test_a_party_that_a_round_did_not_ask_counts_nothing_there(report):
    first, *others = report.traffic
    few = msgspec.structs.replace(first, bytes_up={"north": 5}, bytes_down={"north": 7})
    changed = msgspec.structs.replace(report, traffic=(few, *others))
    sent = sum(r.bytes_up["south"] for r in others)
    assert changed.bytes_up["south"] == sent
    assert str(changed)


def test_a_disclosure_says_whether_single_replies_could_be_read(report, ward_table, ward_labels):
    seen = {entry.question: entry.seen_by for entry in report.disclosures}
    assert seen["Schema"] == "the coordinator, party by party"
    assert seen["Level"] == "the coordinator, summed, not masked"
    masked = HorizontalForestClassifier(2, max_depth=2, secure_sum=True, random_state=0)
    masked.fit(ward_table, ward_labels["two classes"], party=np.arange(len(ward_table)) % 3)
    seen = {entry.question: entry.seen_by for entry in masked.report_.disclosures}
    assert seen["Level"] == "the coordinator, as a sum"


def test_an_interrupt_while_writing_leaves_nothing(report, tmp_path, monkeypatch):
    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        report.save(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(report, tmp_path):
    with pytest.raises(StorageError, match=r"Cannot write .*Choose a folder that exists"):
        report.save(tmp_path / "nowhere" / "report.json")


def test_a_write_that_fails_leaves_nothing(report, tmp_path, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError, match="No space left on device"):
        report.save(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_frozen(report):
    with pytest.raises(AttributeError):
        report.n_trees = 7
    assert isinstance(report, Report)


def test_a_printed_report_says_every_list_once(report):
    told = " ".join(str(report).split())
    assert "kinds of what left, above" in told or "all that is listed above" in told
    for entry in report.disclosures:
        assert told.count(f"; {entry.statistic};") == 0


def test_a_reason_is_listed_once_and_no_claim_loses_its_verdict():
    facts = "the range of 'age' (read from the data; declare it); the range of 'dose' (the same)"
    said = say_once(
        [
            f"One record, against readers: UNPROTECTED: {facts}; and 2 more. No epsilon holds.",
            f"One record, to others: UNPROTECTED: {facts}; exact; and 1 more. No epsilon.",
            "A label, against readers: epsilon 1.",
            f"A label, against others: UNPROTECTED: {facts}. No epsilon holds.",
            "Totals, against others: UNPROTECTED, party by party: exact.",
        ]
    )
    assert said[0].endswith(f"UNPROTECTED: {facts}; and 2 more. No epsilon holds.")
    assert said[1:] == [
        "One record, to others: UNPROTECTED: exact; what is listed above; and 1 more. No epsilon.",
        "A label, against readers: epsilon 1.",
        "A label, against others: UNPROTECTED: what is listed above. No epsilon holds.",
        "Totals, against others: UNPROTECTED, party by party: what is listed above.",
    ]


def below(**scores):
    return below_majority([PartyQuality("north", "held-out", 50, scores)])


def test_a_party_below_its_majority_is_named_and_told_why():
    (skewed,) = below(accuracy=0.74, majority=0.937, joint_majority=0.5)
    assert "At 'north' the joint model is right in 0.740 of 50 rows" in skewed
    assert "most common class would be right in 0.937" in skewed
    assert "That class is 0.500 of all parties' rows" in skewed
    assert "spinney party fit" in skewed
    (fitted,) = below(accuracy=0.74, majority=0.937, joint_majority=0.5, home_accuracy=0.95)
    assert "Fitted at home it is right in 0.950" in fitted
    (weak,) = below(accuracy=0.74, majority=0.8, joint_majority=0.79)
    assert "as common at the other parties" in weak
    (alone,) = below(accuracy=0.74, majority=0.8)
    assert "rarer at the other parties, which this report does not know, that is" in alone
    assert below(accuracy=0.94, majority=0.937, joint_majority=0.5) == []
    assert below(rmse=3.0) == []


def test_a_forest_of_parties_with_other_classes_names_them(ward_table, ward_labels):
    y = np.asarray(ward_labels["two classes"])
    second = np.unique(y)[1]
    random = np.random.RandomState(0)
    drawn = random.random_sample(len(y))
    site = np.where((y == second) == (drawn < 0.97), "north", "south")
    forest = HorizontalForestClassifier(8, max_depth=2, random_state=0)
    report = forest.fit(ward_table, y, party=site).report_
    shares = {found.party: found.scores for found in report.quality}
    assert shares["north"]["majority"] > 0.9
    assert shares["north"]["joint_majority"] == pytest.approx(np.mean(y == second), abs=0.1)
    assert "joint model is right in" in str(report)
    page = report._repr_html_()
    assert "always to say its most common class would be right in" in page
