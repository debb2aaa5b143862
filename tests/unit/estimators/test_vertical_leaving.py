"""A forest over columns leaves its parties only joined, by consent, and says whose."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from typer.testing import CliRunner

from spinney import VerticalForestClassifier, load_model, load_report
from spinney.cli.main import app
from spinney.cli.models import describe_model
from spinney.report.page.page import page_of

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
PARTIES = {"bank": ["age", "income"], "shop": ["visits"]}


def fitted(**changes):
    random = np.random.RandomState(0)
    X = pd.DataFrame(random.standard_normal((60, 3)), columns=["age", "income", "visits"])
    y = (X["age"] + X["visits"] > 0).astype(int).to_numpy()
    given = {"column_party": PARTIES, "label_party": "bank", "random_state": 0, "max_depth": 3}
    return VerticalForestClassifier(3, **(given | changes)).fit(X, y)


def test_what_leaves_says_who_agreed(tmp_path):
    forest = fitted()
    forest.save(tmp_path / "model")
    assert load_model(tmp_path / "model").model_.consent == ("bank", "shop")
    told = str(describe_model(tmp_path / "model")).splitlines()[1]
    assert told == "joined from its parts with the consent of bank, shop"
    properties = {p.key: p.value for p in forest.to_onnx().metadata_props}
    assert properties["spinney.consent"] == '["bank","shop"]'
    again = load_model(tmp_path / "model")
    again.save(tmp_path / "again")  # who has the whole passes on whose consent it has
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_page_says_who_owns_which_split_and_who_agreed():
    forest = fitted()
    bank, shop = forest.report_.holders
    owned = np.isin(forest.model_.forest.feature, [0, 1]).sum()
    assert (bank.columns, bank.n_splits, bank.holds_label) == (("age", "income"), owned, True)
    assert (shop.columns, shop.holds_label, shop.consents) == (("visits",), False, True)
    assert bank.n_splits + shop.n_splits == (forest.model_.forest.feature >= 0).sum()
    page = page_of(forest.report_, forest.model_)
    assert "<caption>Who owns which splits</caption>" in page
    assert "Every party consented to joining the parts: bank, shop." in page
    assert '"name": "visits", "kind": "number"' in page
    assert '"holder": "shop"' in page
    assert "The label of every row left its party, and so did which rows share a node." in page
    assert "What the nodes reveal: grouping rows by shared leaves recovers" in page
    assert "matters most by the decrease in impurity" in page
    report = fitted(consent=["bank"]).report_
    apart = page_of(report)
    assert "The parts stay at their parties: shop did not consent to joining them." in apart
    assert "simulated all parties in one place" not in apart
    assert "simulated all parties in one place" in page_of(report, forest.model_)


def test_a_part_is_no_model_to_export(tmp_path):
    fitted().partial_models_["shop"].save(tmp_path / "part.spinney")
    told = CliRunner().invoke(
        app, ["model", "export", str(tmp_path / "part.spinney"), str(tmp_path / "x.onnx")]
    )
    assert told.exit_code == 22
    assert "part of a forest" in told.stderr
    assert not (tmp_path / "x.onnx").exists()


EXAMPLE = Path(__file__).parents[3] / "docs" / "examples"


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bank.csv", "shop.csv"):
        shutil.copy(EXAMPLE / name, tmp_path)
    text = (EXAMPLE / "bank_and_shop.toml").read_text(encoding="utf-8")
    return text.replace("n_estimators = 100", "n_estimators = 3")


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_run_without_consent_is_not_taken_out(job, tmp_path):
    (tmp_path / "job.toml").write_text(job, encoding="utf-8")
    assert run("simulate", "job.toml").exit_code == 0
    bank, shop = load_report("runs/bank-and-shop").holders
    assert bank.columns == ("age", "balance", "mortgage")
    assert bank.holds_label
    assert not shop.consents
    told = run("model", "export", "runs/bank-and-shop", "x.onnx")
    assert told.exit_code == 30
    assert "'bank', 'shop' did not consent to joining the parts" in told.stderr
    assert "join_parts = true" in told.stderr
    assert not (tmp_path / "x.onnx").exists()


def test_consent_is_recorded_where_a_run_is_taken_out(job, tmp_path):
    agreed = job.replace("[schema]", "join_parts = true\n[schema]", 1)
    (tmp_path / "job.toml").write_text(agreed, encoding="utf-8")
    told = run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert "identical to the pooled one, bit for bit." in told.stdout
    assert run("model", "export", "runs/bank-and-shop", "x.onnx").exit_code == 0
    left = load_report("runs/bank-and-shop").hardened[-1]
    assert left.startswith("exported as x.onnx (onnx, with the consent of bank and shop): ")
    page = (tmp_path / "runs/bank-and-shop/report.html").read_text(encoding="utf-8")
    assert "with the consent of bank and shop" in page
    properties = {p.key: p.value for p in onnx.load("x.onnx").metadata_props}
    assert properties["spinney.consent"] == '["bank","shop"]'
