"""No value that nobody declared is in a file that leaves: marked strings stand in every column."""

import zlib
from base64 import b64decode
from re import findall
from typing import Any

import numpy as np
import pandas as pd
import pytest

import spinney
from spinney import deal_rows

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


FAMILIES: dict[str, dict[str, Any]] = {
    "HorizontalForestClassifier": {"n_estimators": 5},
    "HorizontalBoostingClassifier": {"max_iter": 3},
    "ExtraTreesClassifier": {"n_estimators": 5},
    "PrivateTreeClassifier": {"epsilon": 5},
    "PrivateForestClassifier": {"epsilon": 5},
    "GeneticTreeClassifier": {"n_generations": 2},
    "VerticalForestClassifier": {
        "n_estimators": 3,
        "column_party": {"a": ["age"], "b": ["ward", "unused"]},
        "label_party": "a",
    },
}


def grow_and_save(name, folder):
    """Fit an estimator on three parties' rows; write all that may leave."""
    table = planted()
    X, y = table[["age", "ward", "unused"]], table["ill"]
    rare = np.where(np.arange(N) < 4, X["unused"], "plain")  # few rows hold each marked value
    X = X.assign(unused=rare)
    model = getattr(spinney, name)(**FAMILIES[name])
    if name.startswith("Vertical"):
        model.fit(X, y)
    else:
        model.fit(X, y, party=deal_rows(y, 3, random_state=0))
    model.save(folder / "model.spinney")
    owner = getattr(model.model_, "owners", ())
    if not owner:
        (folder / "model.onnx").write_bytes(model.to_onnx().SerializeToString())
        (folder / "model.treelite").write_bytes(model.to_treelite().serialize_bytes())
    model.report_.save(folder / "report.json")
    model.report_.to_html(folder / "report.html", model.model_)
    assert model.predict(X).shape == (N,)  # whoever holds the rows goes on as before
    assert spinney.load_model(folder / "model.spinney").predict(X).shape == (N,)


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning")
def test_an_estimator_saves_no_rare_value(tmp_path):
    grow_and_save("HorizontalForestClassifier", tmp_path)
    assert marked_files(tmp_path) == []


@pytest.mark.slow(reason="trains every family")
@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.filterwarnings("ignore::spinney.errors.SpinneyWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_no_family_saves_a_rare_value(tmp_path, name):
    grow_and_save(name, tmp_path)
    assert marked_files(tmp_path) == []


def test_the_search_for_marks_finds_them(tmp_path):
    """One party's own model, which nobody hardens, holds what it was given."""
    table = planted()
    forest = spinney.HorizontalForestClassifier(3, random_state=0)
    forest.fit(table[["age", "ward"]], table["ill"])
    forest.save(tmp_path / "own.spinney")
    assert marked_files(tmp_path) == [str(tmp_path / "own.spinney")]
