"""Files that Spinney 0.1.0 wrote still load, and predict what they predicted then."""

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest

from spinney import load_model, load_report
from spinney.trees import storage

DATA = Path(__file__).parent / "data"
DIGESTS = {  # nobody writes these files anew by accident
    "classifier-1.spinney": "16ca92a3a52b94c69a8ec0254de189113970e6be26a4468b4b8cdef498537081",
    "regressor-1.spinney": "72946fad3ffa48ac850e43ee77cebbb528940addfc5481db3f1df05bd0b86604",
    "report-1.json": "26d6d12d9d54d76c1bc9e4dc1cf62f692c63828510c344ec48477e86b175de66",
}


@pytest.fixture
def expected():
    return json.loads((DATA / "predictions-1.json").read_text(encoding="utf-8"))


@pytest.fixture
def rows(expected):
    return pd.DataFrame(expected["rows"]).astype({"age": float, "stay": float, "smokes": bool})


@pytest.mark.parametrize("name", DIGESTS)
def test_a_stored_file_is_the_one_that_was_stored(name):
    assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == DIGESTS[name]


def test_a_classifier_of_version_1_predicts_as_it_did(rows, expected):
    forest = load_model(DATA / "classifier-1.spinney")
    assert forest.classes_.tolist() == ["low", "middle", "high"]
    assert forest.n_estimators == 4
    assert forest.predict(rows).tolist() == expected["classes"]
    assert forest.predict_proba(rows).tolist() == expected["shares"]
    assert forest.to_sklearn().predict_proba(rows).tolist() == expected["shares"]


def test_a_regressor_of_version_1_predicts_as_it_did(rows, expected):
    forest = load_model(DATA / "regressor-1.spinney")
    assert forest.predict(rows).tolist() == expected["risks"]
    assert forest.model_.schema.label.range == (-1.0, 5.0)


def test_a_model_of_version_1_is_written_back_as_it_was(tmp_path):
    for name in ("classifier-1.spinney", "regressor-1.spinney"):
        load_model(DATA / name).save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


def test_a_report_of_version_1_can_be_read_and_printed():
    report = load_report(DATA / "report-1.json")
    assert report.format == 1
    assert report.version == "0.1.0"
    assert report.protocol == "horizontal_forest"
    assert report.parties == ("north", "south")
    assert report.n_trees == 4
    assert [entry.question for entry in report.disclosures][:2] == ["Schema", "Facts"]
    assert report.rounds == len(report.traffic)
    assert report.bytes_up["north"] > 1000
    assert "2 parties   4 trees, depth 4" in str(report)


def test_the_layout_is_the_one_that_is_documented():
    """Read a model by its documented layout alone: head length, head, arrays, checksum."""
    data = (DATA / "regressor-1.spinney").read_bytes()
    assert data[:8] == b"SPINNEY\0"
    assert int.from_bytes(data[8:12], "little") == storage.VERSION == 1
    n_head = int.from_bytes(data[12:20], "little")
    head = json.loads(data[20 : 20 + n_head])
    assert head["kind"] == "forest model"
    assert sorted(head) == ["arrays", "kind", "meta"]
    sizes = {"|b1": 1, "|u1": 1, "<u4": 4, "<i4": 4, "<f4": 4, "<u8": 8, "<i8": 8, "<f8": 8}
    total = 0
    for _, kind, shape in head["arrays"]:
        n = 1
        for length in shape:
            n *= length
        total += n * sizes[kind]
    assert len(data) == 20 + n_head + total + 32
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
