"""No value that nobody declared is in a file that leaves: marked strings stand in every column."""

import json
import pickle
import zlib
from base64 import b64decode
from contextlib import suppress
from re import findall
from typing import Any

import numpy as np
import pandas as pd
import pytest

import spinney
from spinney import deal_rows
from spinney.errors import PrivacyLeakWarning, SettingError

N = 300
MARK = "Zq7secret"


def planted(n=N):
    """Return a table with marked cells of every kind, and its label."""
    random = np.random.default_rng(0)
    age = random.normal(50, 15, n)
    ward = random.choice(["eye", "ear", "knee"], n).astype(object)
    ward[5] = f"{MARK} in a category"  # a cell that was typed into the wrong column
    unused = np.where(np.arange(n) % 2, f"{MARK} even", f"{MARK} odd").astype(object)
    ill = np.where(age + 10 * (ward == "eye") + random.normal(0, 5, n) > 52, "yes", "no")
    return pd.DataFrame(
        {
            "patient": [f"{MARK}{i:04d}" for i in range(n)],
            "record": random.permutation(10 * n)[:n] + 77_000_000,
            "note": [f"{MARK} was here {i // 2}" for i in range(n)],
            "street": [f"{MARK} street {i}" for i in range(n)],
            "age": np.round(age, 1),
            "ward": ward,
            "unused": unused,
            "ill": ill,
        }
    )


def marks_in(path):
    """Return how often the mark is in a file, also where its parts are packed."""
    data = path.read_bytes()
    unpacked = b""
    for packed in findall(rb"[A-Za-z0-9+/=]{200,}", data):
        try:
            unpacked += zlib.decompress(b64decode(packed))
        except (ValueError, zlib.error):
            continue
    return (data + unpacked).count(MARK.encode())


def marked_files(folder):
    return [str(path) for path in folder.rglob("*") if path.is_file() and marks_in(path)]


def test_a_file_of_ones_own_leaves_without_its_text(place):
    """The column that nothing uses is dropped here, because a forest may split by anything."""
    planted().to_csv("own.csv")
    (place.folder / "out").mkdir()
    told = place.run(
        "simulate", "own.csv", "--label", "ill", "--out", "out/run", "--drop", "unused"
    )
    assert told.exit_code == 0, told.stderr
    for left in ("'patient'", "'record'", "'note'", "'street'"):
        assert left in told.stderr
    for suffix in ("onnx", "treelite", "spinney"):
        done = place.run("model", "export", "out/run", f"out/m.{suffix}", "--to", suffix)
        assert done.exit_code == 0, done.stderr
    assert marked_files(place.folder / "out") == []
    assert marks_in(place.folder / "own.csv") > 600
    again = place.run("model", "predict", "out/run", "own.csv")  # rare values count as missing
    assert again.exit_code == 0, again.stderr


def test_a_job_file_names_no_value_that_few_rows_hold(place):
    """A cell of every kind of column was mistyped in a row or two."""
    table = planted().drop(columns="unused")
    at = {"age": table["age"].astype(str)}
    at["day"] = pd.Series([f"2024-03-{1 + i % 28:02d}" for i in range(N)])
    at["cost"] = pd.Series([f"{1000 + i % 90:,}" for i in range(N)])
    at["flag"] = pd.Series(np.where(np.arange(N) % 2, "true", "false"))
    at["codes"] = pd.Series([str(i % 9) if i % 3 else f"V{i % 5}" for i in range(N)])
    at["spelt"] = pd.Series(np.where(np.arange(N) % 2, "Eye", "ear"), dtype=object)
    for place_of, (name, cells) in enumerate(at.items()):
        cells.iloc[10 + place_of] = f"{MARK} {name}"
        cells.iloc[20 + place_of] = f"{MARK} {name.upper()} "  # in another spelling
    table.assign(**at).to_csv("own.csv", index=False)
    (place.folder / "out").mkdir()
    told = place.run("check", "own.csv", "--label", "ill", "--write", "job.toml")
    assert told.exit_code == 0, told.stderr
    for words in ("2 cells are none and are read as missing", "has no value that 5 rows hold"):
        assert words in " ".join(told.stdout.split())
    assert marks_in(place.folder / "job.toml") == 0
    done = place.run("simulate", "job.toml", "--out", "out/run")
    assert done.exit_code == 0, done.stderr
    for command in (("audit", "out/run"), ("report", "--for-officer", "out/run")):
        done = place.run(*command)
        assert done.exit_code == 0, done.stderr
    assert marked_files(place.folder / "out") == []


def mistyped_label():
    """Return a table with a class that one cell made, in each of two parties' rows."""
    table = planted().drop(columns=["patient", "record", "note", "street", "unused"])
    table["ward"] = table["ward"].where(table["ward"] != f"{MARK} in a category", "eye")
    table["ill"] = table["ill"].astype(object)
    table.loc[[11, 210], "ill"] = f"{MARK} in the label"
    return table


def test_a_class_that_few_rows_hold_leaves_without_its_text(place):
    mistyped_label().to_csv("own.csv", index=False)
    (place.folder / "out").mkdir()
    told = place.run("simulate", "own.csv", "--label", "ill", "--out", "out/run")
    assert told.exit_code == 0, told.stderr
    words = " ".join(told.stderr.split())
    assert f"'{MARK} in the label' in 2 rows only" in words  # it is her own table
    assert "Correct its spelling" in words
    for suffix in ("onnx", "treelite", "spinney"):
        done = place.run("model", "export", "out/run", f"out/m.{suffix}", "--to", suffix)
        assert done.exit_code == 0, done.stderr
    for command in (("audit", "out/run"), ("report", "--for-officer", "out/run")):
        done = place.run(*command)
        assert done.exit_code == 0, done.stderr
    assert marked_files(place.folder / "out") == []
    report = (place.folder / "out/run/report.json").read_text()
    assert "1 class that nobody declared withheld" in report
    again = place.run("model", "predict", "out/run", "own.csv")
    assert again.exit_code == 0, again.stderr


def test_a_curve_does_not_end_at_the_largest_cell_of_a_range_that_nobody_declared(place):
    """Before: a report said 41.2346, which is one person's, beside a range that was rounded."""
    random = np.random.default_rng(0)
    size = random.integers(0, 40, 2 * N).astype(float)
    size[17] = 41.23456
    ill = np.where(random.random(2 * N) < 0.5, "yes", "no")  # so that trees cut everywhere
    pd.DataFrame({"size": size, "ill": ill}).to_csv("own.csv", index=False)
    (place.folder / "job.toml").write_text(
        """
        [job]
        name = "sizes"
        task = "classification"
        [table]
        source = "csv"
        path = "own.csv"
        label = "ill"
        [settings]
        n_estimators = 20
        binning = "ranges"
        [simulation]
        n_parties = 3
        """
    )
    done = place.run("simulate", "job.toml", "--out", "run")
    assert done.exit_code == 0, done.stderr
    report = json.loads((place.folder / "run/report.json").read_text())
    (curve,) = report["explanation"]["dependence"]
    assert curve["at"][-1] > 41.5
    assert "41.23" not in json.dumps(report)


def test_a_job_file_leaves_out_the_rows_of_a_rare_class(place):
    mistyped_label().to_csv("own.csv", index=False)
    told = place.run("check", "own.csv", "--label", "ill", "--write", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert marks_in(place.folder / "job.toml") == 0
    done = place.run("simulate", "job.toml", "--out", "run")
    assert done.exit_code == 0, done.stderr
    assert spinney.load_model("run").classes_.tolist() == ["no", "yes"]
    assert marked_files(place.folder / "run") == []


def test_a_private_job_refuses_a_rare_class(place):
    mistyped_label().to_csv("own.csv", index=False)
    job = """
        [job]
        name = "ill"
        protocol = "private_forest"
        task = "classification"
        [table]
        source = "csv"
        path = "own.csv"
        label = "ill"
        [settings]
        epsilon = 2
    """
    (place.folder / "job.toml").write_text(job)
    done = place.run("simulate", "job.toml", "--out", "run")
    assert done.exit_code != 0
    words = " ".join(done.stderr.split())
    assert "has a class that fewer than 5 rows hold and that nobody declared" in words
    assert f"Rare: '{MARK} in the label'." in words
    assert not (place.folder / "run").exists()


COLUMNS: dict[str, Any] = {
    "column_party": {"a": ["age"], "b": ["ward", "unused"]},
    "label_party": "a",
}
FAMILIES: dict[str, dict[str, Any]] = {
    "HorizontalForestClassifier": {"n_estimators": 5},
    "HorizontalForestRegressor": {"n_estimators": 5},
    "HorizontalBoostingClassifier": {"max_iter": 3},
    "HorizontalBoostingRegressor": {"max_iter": 3},
    "ExtraTreesClassifier": {"n_estimators": 5},
    "ExtraTreesRegressor": {"n_estimators": 5},
    "PrivateTreeClassifier": {"epsilon": 5},
    "PrivateForestClassifier": {"epsilon": 5},
    "PrivateBoostingClassifier": {"epsilon": 5},
    "PrivateBoostingRegressor": {"epsilon": 5},
    "GeneticTreeClassifier": {"n_generations": 2},
    "GeneticTreeRegressor": {"n_generations": 2},
    "VerticalForestClassifier": {"n_estimators": 3, **COLUMNS},
    "VerticalForestRegressor": {"n_estimators": 3, **COLUMNS},
    "VerticalBoostingClassifier": {"max_iter": 3, **COLUMNS},
    "VerticalBoostingRegressor": {"max_iter": 3, **COLUMNS},
}


def test_every_estimator_is_planted():
    """A new family joins the list above."""
    names = [name for name in spinney.__all__ if name.endswith(("Classifier", "Regressor"))]
    assert sorted(names) == sorted(FAMILIES)


LOWEST, HIGHEST = -27.182818, 131.415927


@pytest.mark.parametrize("name", [name for name in FAMILIES if name.endswith("Regressor")])
def test_the_ends_of_a_range_that_nobody_declared_do_not_leave(tmp_path, name):
    """The smallest and the largest amount are somebody's."""
    table = planted()[["age", "ward", "unused"]]
    amount = table.pop("age").to_numpy() + 0.125
    amount[[7, 9]] = LOWEST, HIGHEST
    table["size"] = np.random.default_rng(2).normal(size=N).round(3)
    model = getattr(spinney, name)(random_state=0, **FAMILIES[name])
    given = {"party": deal_rows(np.zeros(N), n_parties=3, random_state=0)}
    if "column_party" in FAMILIES[name]:
        model.set_params(column_party={"a": ["size"], "b": ["ward", "unused"]})
        model.set_params(consent=("a", "b"))
        given = {}
    with pytest.warns(PrivacyLeakWarning):
        model.fit(table, amount, **given)
    model.save(tmp_path / "m.spinney")
    label = spinney.load_model(tmp_path / "m.spinney").model_.schema.label
    assert label.range == (-30.0, 140.0)
    data = (tmp_path / "m.spinney").read_bytes()
    if not name.startswith("Genetic"):  # one tree a party: no joint export
        data += model.to_onnx().SerializeToString()
    for told in (b"27.1828", b"131.4159"):
        assert told not in data


def exports_of(model):
    """Return every form in which a model can leave, as bytes; a form that it has not is left out.

    Evolved trees are one model a party, and have no common one in another format.
    """
    made: dict[str, Any] = {
        "onnx": lambda: model.to_onnx().SerializeToString(),
        "treelite": lambda: model.to_treelite().serialize_bytes(),
        "lightgbm": lambda: model.to_lightgbm().encode(),
        "sklearn": lambda: pickle.dumps(model.to_sklearn()),
    }
    found = {}
    for form, make in made.items():
        with suppress(SettingError):
            found[form] = make()
    return found


def grow_and_save(name, folder):
    """Fit an estimator on three parties' rows; write all that may leave. Return the forms.

    Some rows of a classifier are of a class that nobody declared.
    """
    table = planted()
    X, y = table[["age", "ward", "unused"]], table["ill"]
    rare = np.where(np.arange(N) < 4, X["unused"], "plain")  # few rows hold each marked value
    X = X.assign(unused=rare)
    site = deal_rows(y, 3, random_state=0)
    if name.endswith("Regressor"):
        y = 2 * table["age"] + 10 * (table["ill"] == "yes")
    else:
        y = y.where(np.arange(N) % 80 != 7, f"{MARK} in the label")
    model = getattr(spinney, name)(**FAMILIES[name])
    model.fit(X, y, **({} if name.startswith("Vertical") else {"party": site}))
    model.save(folder / "model.spinney")
    model.report_.save(folder / "report.json")
    model.report_.to_html(folder / "report.html", model.model_)
    (folder / "report.txt").write_text(str(model.report_) + model.report_._repr_html_())
    exports = exports_of(model)
    for form, data in exports.items():
        (folder / f"model.{form}").write_bytes(data)
    assert model.predict(X).shape == (N,)  # whoever holds the rows goes on as before
    assert spinney.load_model(folder / "model.spinney").predict(X).shape == (N,)
    return set(exports)


def forms_of(name):
    """Return the forms that a family has."""
    if name.startswith("Genetic"):
        return {"sklearn"}
    return {"onnx", "treelite", "sklearn"} | ({"lightgbm"} if "Boosting" in name else set())


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning")
def test_an_estimator_saves_no_rare_value(tmp_path):
    name = "HorizontalForestClassifier"
    assert grow_and_save(name, tmp_path) == forms_of(name)
    assert marked_files(tmp_path) == []


def test_a_rare_class_stays_with_who_fits_and_is_withheld_where_the_model_goes(tmp_path):
    X, y = planted()[["age"]], np.arange(N) % 2
    y[:3] = 7
    forest = spinney.HorizontalForestClassifier(3, random_state=0)
    with pytest.warns(PrivacyLeakWarning, match="Fewer than 5 rows hold the class 7: a model that"):
        forest.fit(X, y, party=deal_rows(y, 3, random_state=0))
    assert forest.classes_.tolist() == [0, 1, 7]
    assert forest.evaluate(X, y, epsilon=5).classes == ("0", "1", "7")
    assert forest.report_.evaluation.classes == ("0", "1", "(withheld 3)")
    forest.save(tmp_path / "model.spinney")
    named = [0, 1, "(withheld 3)"]  # numbers stay numbers
    assert spinney.load_model(tmp_path / "model.spinney").classes_.tolist() == named
    assert forest.to_sklearn().classes_.tolist() == named
    assert forest.to_sklearn(exact=True).classes_.tolist() == [0, 1, 7]


def test_a_rare_class_of_two_is_not_named_beside_its_score(place):
    rows = "".join(f"{i % 90},{MARK if i < 4 else 'No'}\n" for i in range(300))
    (place.folder / "rare.csv").write_text(f"age,ill\n{rows}")
    (place.folder / "rare.toml").write_text(
        '[job]\nname = "rare"\n[settings]\nn_estimators = 3\n'
        "[simulation]\nn_parties = 2\nheld_out = 0.5\n"
        '[table]\nsource = "csv"\npath = "rare.csv"\nlabel = "ill"\n'
    )
    told = place.run("simulate", "rare.toml", "--out", "rare")
    assert told.exit_code == 0, told.stderr
    assert "F1 is that of the class '(withheld" in told.stdout
    assert marked_files(place.folder / "rare") == []


@pytest.mark.slow(reason="trains every family")
@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_no_family_saves_a_rare_value(tmp_path, name):
    assert grow_and_save(name, tmp_path) == forms_of(name)
    assert marked_files(tmp_path) == []


def test_the_search_for_marks_finds_them(tmp_path):
    """One party's own model, which nobody hardens, holds what it was given."""
    table = planted()
    forest = spinney.HorizontalForestClassifier(3, random_state=0)
    forest.fit(table[["age", "ward"]], table["ill"])
    forest.save(tmp_path / "own.spinney")
    assert marked_files(tmp_path) == [str(tmp_path / "own.spinney")]
