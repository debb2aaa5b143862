"""`spinney model`, `report` and `runs` over the folders of real runs."""

import json
import re
import webbrowser
from dataclasses import replace
from datetime import date
from html import escape
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from spinney import load_model, load_report
from spinney.errors import PartyLostError, SettingError
from spinney.estimators.to_onnx import onnx_forest
from spinney.protocols import horizontal_forest
from spinney.protocols.release_terms import Hardening
from spinney.simulation import comparison


@pytest.fixture
def run(place):
    place.job()
    assert place.run("simulate", "job.toml").exit_code == 0
    return place


def test_a_run_has_a_page_with_trees_intervals_and_explanations(run):
    page = (run.folder / "runs/visits/report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    report = load_report("runs/visits")
    assert report.explanation.rows == "held-out"
    assert report.explanation.n_rows == sum(q.n_rows for q in report.quality)
    assert {one.column for one in report.explanation.dependence} <= {"age", "ward"}
    assert report.importances[0].permutation is not None
    assert report.quality[0].intervals == {}  # of fewer than ten rows of a class none would hold
    assert "Explain" in {entry.question for entry in report.disclosures}
    told = run.run("report", "show", "runs/visits")
    assert "horizontal_forest   5 parties" in told.stdout


AS_IS = ("--smallest-leaf", "1", "--threshold-digits", "15", "--value-digits", "15")
RELEASE_AS_IS = """
[release]
smallest_leaf = 1
threshold_digits = 15
value_digits = 15
exact_counts = true
"""


@pytest.fixture
def exact_run(place):
    job = place.JOB.replace("max_depth = 3", "max_depth = 3\nmin_samples_leaf = 1")
    place.visits()
    place.job(job + place.TABLE + RELEASE_AS_IS)
    assert place.run("simulate", "job.toml").exit_code == 0
    return place


def test_export_to_onnx_predicts_the_same_and_says_what_was_done(exact_run):
    run = exact_run
    rounded = ("--no-exact-counts",)
    told = run.run("model", "export", "runs/visits", "out.onnx", *AS_IS, *rounded)
    assert told.exit_code == 0, told.stderr
    said = "Hardened: counts of nodes rounded to powers of two, and predictions as coarsely"
    assert " ".join(told.stdout.split()).startswith(said)
    assert told.stdout.endswith("Model   out.onnx\n")
    told = "exported as out.onnx (onnx): counts of nodes rounded to powers of two, and predictions"
    assert load_report("runs/visits").hardened[0].startswith(told)
    assert told in (run.folder / "runs/visits/report.html").read_text(encoding="utf-8")
    model = load_model("runs/visits")
    frame = pd.read_csv("visits.csv")[["age", "ward"]]
    import onnxruntime  # noqa: PLC0415  late: it takes a while

    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": model.encoded(frame)})[1]
    assert np.abs(found - model.predict_proba(frame)).mean() < 0.1  # predictions are coarse too


def test_what_leaves_is_hardened_once_and_the_run_has_no_other_model(run):
    terms = "smallest_leaf=5, threshold_digits=4, value_digits=3, exact_counts=false"
    (told,) = load_report("runs/visits").hardened
    assert told.startswith("in model.spinney and report.html: ")
    assert "counts of nodes rounded to powers of two, and predictions as coarsely" in told
    held = load_model("runs/visits").model_
    rows = held.forest.moments.sum(axis=1)
    assert np.array_equal(np.log2(rows), np.rint(np.log2(rows)))
    told = run.run("model", "export", "runs/visits", "out.spinney", "--to", "spinney")
    assert told.stdout.splitlines() == [
        f"Hardened: before it left its run, with {terms}.",
        "Model   out.spinney",
    ]
    model = (run.folder / "runs/visits/model.spinney").read_bytes()
    assert (run.folder / "out.spinney").read_bytes() == model
    asked = ("model", "export", "out.spinney", "again.spinney", "--to", "spinney")
    code, line = run.refused(*asked, "--exact-counts")  # the file knows how it left
    assert code == 30
    assert "The parties of this run agreed to exact_counts=false for exported models" in line
    told = run.run(*asked, "--smallest-leaf", "30")
    assert "with fewer than 30 rows on a side closed" in told.stdout


def test_exact_bytes_leave_only_on_terms_that_say_so(exact_run):
    run = exact_run
    told = run.run("model", "export", "runs/visits", "all.spinney", "--to", "spinney")
    assert told.stdout == "Model   all.spinney\n"
    model = (run.folder / "runs/visits/model.spinney").read_bytes()
    assert (run.folder / "all.spinney").read_bytes() == model
    assert load_model("all.spinney").model_.released is None
    weaker = " ".join(load_report("runs/visits").weaker)
    assert "min_samples_leaf = 1: a leaf may hold fewer than 5 rows" in weaker
    assert "the model left with smallest_leaf=1; the default is smallest_leaf=5" in weaker
    told = " ".join(run.run("report", "show", "runs/visits").stdout.split())
    assert "weaker min_samples_leaf = 1: a leaf may hold fewer than 5 rows (weaker than" in told
    page = (run.folder / "runs/visits/report.html").read_text(encoding="utf-8")
    assert "Weaker than a job file" in page


def test_what_parties_agreed_on_is_kept_to_on_the_page_and_in_exports(place):
    place.write(place.JOB + place.TABLE + "[release]\nsmallest_leaf = 12\nvalue_digits = 2\n")
    assert place.run("simulate", "job.toml").exit_code == 0
    report = load_report("runs/visits")
    assert report.release == Hardening(12, 4, 2)
    (told,) = report.hardened
    assert told.startswith("in model.spinney and report.html: ")
    assert "splits with fewer than 12 rows on a side closed; thresholds rounded" in told
    page = (place.folder / "runs/visits/report.html").read_text(encoding="utf-8")
    assert escape(told) in page
    (head,) = re.findall(r'id="trees-head">(.*?)</script>', page)
    model = load_model("runs/visits").model_
    assert sum(json.loads(head)["n_nodes"]) == model.forest.n_nodes
    code, line = place.refused("model", "export", "runs/visits", "x.onnx", "--exact-counts")
    assert code == 30
    assert "The parties of this run agreed to exact_counts=false" in line
    told = place.run("model", "export", "runs/visits", "x.onnx", "--smallest-leaf", "20")
    assert "splits with fewer than 20 rows" in told.stdout
    assert "predictions of leaves rounded to 2 digits" in told.stdout
    again = (place.folder / "runs/visits/report.html").read_text(encoding="utf-8")
    assert "exported as x.onnx (onnx)" in again
    (drawn,) = re.findall(r'id="trees-data">(.*?)</script>', again)
    assert drawn in page
    place.write(place.JOB + place.TABLE + "[release]\nsmallest_leaf = 0\n")
    code, line = place.refused("simulate", "job.toml")
    assert (code, line) == (10, "spinney: smallest_leaf must be at least 1; got 0.")


def test_a_run_that_ended_early_leaves_a_report_of_what_there_is(run, monkeypatch):
    run.job(run.JOB.replace("n_jobs", "secure_sum = false\nn_jobs") + run.TABLE)
    asked = []
    answer = horizontal_forest.Party.answer

    def lost(self, ask):
        asked.append(type(ask).__name__)
        if asked.count("LevelAsk") > 8:
            raise PartyLostError("The party 'north' does not answer.")
        return answer(self, ask)

    monkeypatch.setattr(comparison, "_warm_up", lambda *_: None)
    monkeypatch.setattr(horizontal_forest.Party, "answer", lost)
    told = run.run("simulate", "job.toml")
    assert told.exit_code == 41
    remark, line = told.stderr.splitlines()
    words = "Training stopped early. Report of the completed rounds: runs/visits-2/report.html"
    assert words in remark  # the run before keeps its folder
    assert "does not answer" in line
    report = load_report("runs/visits-2")
    assert report.ended.endswith("The party 'north' does not answer.")
    assert report.n_trees == 0
    assert "Level" in {entry.question for entry in report.disclosures}
    assert "UNPROTECTED" in {claim.verdict for claim in report.privacy}
    page = (run.folder / "runs/visits-2/report.html").read_text(encoding="utf-8")
    assert "Training stopped early: " in page
    assert "No tree was finished." in page
    assert not (run.folder / "runs/visits-2/model.spinney").exists()
    assert load_report("runs/visits").ended == ""
    told = run.run("report", "show", "runs/visits-2")
    assert "stopped early in " in told.stdout
    words = " ".join(told.stdout.split())
    assert "does not answer. This report covers the completed rounds." in words
    told = run.run("runs")
    assert "stopped early: " in told.stdout


def test_export_to_other_forms_and_hardened(exact_run):
    run = exact_run
    given = ("--smallest-leaf", "10", "--threshold-digits", "2", "--exact-counts")
    told = run.run("model", "export", "runs/visits", "small.spinney", "--to", "spinney", *given)
    assert told.exit_code == 0, told.stderr
    forest = load_model("small.spinney").model_.forest
    assert forest.moments.sum(axis=1)[forest.feature < 0].min() >= 10
    assert run.run("model", "export", "runs/visits", "f.tl", "--to", "treelite").exit_code == 0
    code, line = run.refused("model", "export", "runs/visits", "x", "--to", "lightgbm")
    assert code == 10
    assert "LightGBM's text model holds boosted trees, and this model is a forest" in line
    code, line = run.refused("model", "export", "runs/visits", "x", "--to", "pmml")
    assert (code, line) == (
        10,
        "spinney: --to must be one of onnx, treelite, lightgbm, spinney; got 'pmml'.",
    )


def test_a_model_predicts_a_file(run):
    told = run.run("model", "predict", "runs/visits", "visits.csv")
    lines = told.stdout.splitlines()
    assert lines[0] == "ill,share of no,share of yes"
    assert len(lines) == 121
    expected = load_model("runs/visits").predict(pd.read_csv("visits.csv")[["age", "ward"]])
    assert [line.split(",")[0] for line in lines[1:]] == expected.tolist()
    told = run.run("model", "predict", "runs/visits", "visits.csv", "--out", "said.csv")
    assert told.stdout == "120 rows  said.csv\n"
    run.csv("other.csv", [("1",)], header=("age",))
    code, line = run.refused("model", "predict", "runs/visits", "other.csv")
    assert code == 22
    assert "'other.csv' has no column 'ward', which the model needs. It has: age." in line
    code, line = run.refused("model", "predict", "runs/visits", "none.csv")
    assert "there is no such file. Check the path." in line


FILES = {
    "ragged rows": (
        "age,ward\n30,eye\n31\n",
        20,
        r"a row with more or fewer cells than its header\. Give .* Line 3\. Expected 2 cells",
    ),
    "nothing at all": ("", 20, r"The CSV file is empty\."),
    "no rows": ("age,ward\n", 20, r"'x.csv' has no rows\. Check the file\."),
    "text for a number": (
        "age,ward\nold,eye\n",
        21,
        r"The column 'age' of the CSV file holds text that cannot be read as numbers\. Correct it",
    ),
    "an unknown category": (
        "age,ward\n30,nose\n",
        21,
        r"The column 'ward' holds a category that the schema does not name\. It names: .* 'nose'",
    ),
    "a missing column": ("ward\neye\n", 22, r"'x.csv' has no column 'age', which the model needs"),
}


def test_a_file_that_a_model_cannot_predict_is_refused_and_nothing_is_written(run):
    for what, (text, expected, words) in FILES.items():
        (run.folder / "x.csv").write_text(text, encoding="utf-8")
        code, line = run.refused("model", "predict", "runs/visits", "x.csv", "--out", "said.csv")
        assert code == expected, what
        assert re.search(words, line), line
        assert "said.csv" not in run.files()


def test_a_file_is_read_as_in_training_whatever_it_holds_beside(run):
    """The label is not known yet, columns have an order of their own, and some cells are gaps."""
    said = run.run("model", "predict", "runs/visits", "visits.csv").stdout.splitlines()
    rows = pd.read_csv("visits.csv").assign(ill="?", note="x")[["note", "ill", "ward", "age"]]
    rows.to_csv("other.csv", index=False, sep=";")
    assert run.run("model", "predict", "runs/visits", "other.csv").stdout.splitlines() == said
    (run.folder / "gaps.csv").write_text("age,ward\nNA,eye\n30,\n", encoding="utf-8")
    told = run.run("model", "predict", "runs/visits", "gaps.csv")
    assert (told.exit_code, len(told.stdout.splitlines())) == (0, 3)


def test_a_tree_is_printed(run):
    told = run.run("model", "show", "runs/visits", "--tree", "2")
    lines = told.stdout.splitlines()
    assert sum(line.lstrip() == "else" or " else " in line for line in lines) == len(lines) / 2
    assert " or missing" in told.stdout
    code, line = run.refused("model", "show", "runs/visits", "--tree", "9")
    assert (code, line) == (10, "spinney: The model has trees 1 to 4; got 9.")


def test_runs_are_listed_and_compared(run):
    run.job(n_estimators="6")
    assert run.run("simulate", "job.toml", "--out", "runs/more").exit_code == 0
    told = run.run("runs", "list")
    assert [line.split()[0] for line in told.stdout.splitlines()] == ["more", "visits"]
    assert run.run("runs").stdout == told.stdout
    told = run.run("runs", "compare", "runs/visits", "runs/more")
    assert "trees                   4" in told.stdout
    assert "Settings that differ:\nn_estimators  4  6" in told.stdout
    found = json.loads(run.run("runs", "compare", "runs/visits", "runs/more", "--json").stdout)
    assert found["different_settings"] == {"n_estimators": ["4", "6"]}
    (run.folder / "runs/more/report.json").write_text('{"format": 9, "version": "7.0"}')
    told = run.run("runs", "list")
    assert "has report format 9" in told.stdout.splitlines()[0]
    code, line = run.refused("runs", "list", "--in", "nowhere")
    assert code == 22
    assert "There is no folder 'nowhere'. Give the folder that holds your runs." in line


def test_a_run_is_found_by_the_name_that_runs_lists(run):
    for words in (("report", "show"), ("model", "show"), ("report", "show", "--json")):
        by_path = run.run(*words, "runs/visits")
        assert run.run(*words, "visits").stdout == by_path.stdout
        assert by_path.exit_code == 0
    told = run.run("model", "export", "visits", "out.onnx")
    assert told.stdout.endswith("Model   out.onnx\n")
    told = run.run("runs", "compare", "visits", "runs/visits")
    assert "Both runs have the same settings." in told.stdout
    code, line = run.refused("report", "show", "visit")
    assert (code, "Cannot read 'visit'" in line) == (22, True)


def test_a_path_comes_before_a_name(run):
    (run.folder / "visits").mkdir()  # holds no run, so the name is meant
    assert run.run("report", "show", "visits").exit_code == 0
    (run.folder / "visits/report.json").write_text("{}")
    code, line = run.refused("report", "show", "visits")
    assert (code, "'visits/report.json' is not a report" in line) == (22, True)


def test_a_second_run_of_a_job_is_written_beside_the_first(run):
    before = {path: path.read_bytes() for path in (run.folder / "runs/visits").iterdir()}
    run.job(n_estimators="6")
    for number in (2, 3):
        told = run.run("simulate", "job.toml")
        assert f"Model   runs/visits-{number}/model.spinney" in told.stdout
    assert {path: path.read_bytes() for path in (run.folder / "runs/visits").iterdir()} == before
    told = run.run("runs")
    names = [line.split()[0] for line in told.stdout.splitlines()]
    assert names == ["visits", "visits-2", "visits-3"]


def test_a_named_folder_that_holds_a_run_is_refused_before_the_work(run):
    words = (
        "spinney: The folder 'runs/visits' already holds a run, and Spinney overwrites none. "
        "Name another folder with --out, or move the earlier run away."
    )
    for command in (("simulate", "job.toml"), ("demo",)):
        assert run.refused(*command, "--out", "runs/visits") == (22, words)


def test_a_page_is_opened_or_told(run, monkeypatch):
    opened = []

    def opening(url):
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", opening)
    assert run.run("report", "open", "runs/visits").stdout.startswith("Opened  ")
    assert opened[0].startswith("file:///")
    assert opened[0].endswith("runs/visits/report.html")
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    told = run.run("report", "open", "runs/visits")
    assert told.stdout.startswith("No browser found. Open the page yourself: ")
    code, line = run.refused("report", "open", "nowhere")
    assert code == 22
    assert "There is no page 'nowhere'." in line


def test_of_trees_of_many_parties_one_is_taken_out(run):
    whole = load_model("runs/visits").model_
    trees = replace(whole, owners=("a", "b", "c", "d"))
    trees.save("own.spinney")
    code, line = run.refused("model", "export", "own.spinney", "x.onnx")
    assert code == 10
    assert "holds one tree per party. Choose one with --party: a, b, c, d." in line
    told = run.run("model", "export", "own.spinney", "b.onnx", "--party", "b")
    assert told.exit_code == 0, told.stderr
    with pytest.raises(SettingError, match="Export one party's"):
        onnx_forest(trees)


def test_the_format_follows_the_name_of_the_file(exact_run):
    run = exact_run
    assert run.run("model", "export", "runs/visits", "by-name.spinney").exit_code == 0
    assert load_model("by-name.spinney").model_.forest.n_trees
    code, line = run.refused("model", "export", "runs/visits", "m.pmml")
    assert code == 10
    assert line.startswith("spinney: The name 'm.pmml' does not tell a format. End it with .onnx")
    code, line = run.refused("model", "export", "runs/visits", "m.onnx", "--to", "spinney")
    assert "says onnx, but --to says spinney. Change one of them." in line


def test_categories_that_a_model_does_not_know_may_count_as_missing(exact_run):
    run = exact_run
    rows = [(age, "moon", ill) for age, _, ill in run.visits(10)]
    run.csv("new.csv", rows)
    code, line = run.refused("model", "predict", "runs/visits", "new.csv")
    assert code == 21
    assert "unknown_categories='as_missing'" in line
    asked = ("model", "predict", "runs/visits", "new.csv", "--unknown-categories", "as_missing")
    assert run.run(*asked).exit_code == 0


def test_the_demo_is_listed_and_runs_of_different_labels_are_not_compared_silently(place):
    place.run("simulate", "visits.csv", "--label", "ill", "--out", "spinney-demo")
    listed = place.run("runs")
    assert listed.stdout.startswith("spinney-demo  horizontal_forest"), listed.stderr
    place.run("simulate", "visits.csv", "--label", "age", "--task", "regression")
    told = place.run("runs", "compare", "spinney-demo", "visits")
    assert "These runs predict different labels, 'ill' and 'age': their scores" in told.stdout


def test_messy_rows_are_predicted_as_the_job_read_them_with_labels_and_without(place):
    cells = [(str(n), f"{1000 + 10 * n:,}", f"{1 + n % 28:02d}.03.2024", *row)
             for n, row in enumerate(place.visits(120))]  # fmt: skip
    header = ("case", "pay", "seen", "age", "ward", "ill")
    place.csv("own.csv", cells, header=header)
    place.csv("new.csv", [row[1:-1] for row in cells[:9]], header=header[1:-1])
    assert place.run("check", "own.csv", "--label", "ill", "--write", "own.toml").exit_code == 0
    assert place.run("simulate", "own.toml").exit_code == 0
    code, line = place.refused("model", "predict", "own", "new.csv")
    assert code == 21
    assert "read this file in the same way: --job JOB.toml." in line
    asked = ("model", "predict", "own", "new.csv", "--job", "own.toml")
    told = place.run(*asked)
    assert told.exit_code == 0, told.stderr
    found = pd.read_csv(StringIO(told.stdout))
    days = [float((date(2024, 3, 1 + n % 28) - date(1970, 1, 1)).days) for n in range(9)]
    plain = pd.DataFrame(
        {
            "pay": [1000.0 + 10 * n for n in range(9)],
            "seen": days,
            "age": [float(row[3]) for row in cells[:9]],
            "ward": [row[4] for row in cells[:9]],
        }
    )
    assert found["ill"].tolist() == load_model("runs/own").predict(plain).tolist()
    with_labels = place.run("model", "predict", "own", "own.csv", "--job", "own.toml").stdout
    assert with_labels.splitlines()[:10] == told.stdout.splitlines()
    place.job("[job]\nname = 'x'\n[[party]]\nname = 'a'\nsource = 'csv'\npath = 'own.csv'\n")
    _, line = place.refused(*asked[:-1], "job.toml")
    assert "has a table for each party and no [table], so it does not say how to read" in line
