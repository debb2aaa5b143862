"""Job files of vertical forests: matched tables, dealt columns, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spinney import load_model, load_report
from spinney.cli.text import opening
from spinney.errors import SchemaError, SettingError, TableError
from spinney.jobs.file import load_job
from spinney.simulation.progress import Stages
from spinney.simulation.run import simulate

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
EXAMPLE = (EXAMPLES / "bank_and_shop.toml").read_text(encoding="utf-8")
SMALL = EXAMPLE.replace("n_estimators = 100", "n_estimators = 3\nn_jobs = 1")


def ran(text, tmp_path):
    """Run a job file that stands beside the examples' tables."""
    for name in ("bank.csv", "shop.csv"):
        target = tmp_path / name
        if not target.exists():
            target.write_bytes((EXAMPLES / name).read_bytes())
    job = tmp_path / "job.toml"
    job.write_text(text, encoding="utf-8")
    return simulate(job, tmp_path / "run", Stages())


def test_tables_of_two_parties_are_matched_and_grow_the_pooled_forest(tmp_path):
    outcome = ran(SMALL, tmp_path)
    assert outcome.identical_to_pooled
    assert outcome.shares_rows
    common = outcome.parties[0].n_training + outcome.parties[0].n_held_out
    assert f"2 parties with {common:,} rows in common" in opening(outcome)
    report = load_report(tmp_path / "run")
    assert report.settings["matching"] == "keyed_hash"
    assert report.settings["label_party"] == "bank"
    assert report.label_leakage is not None
    assert report.seconds["matching"] >= 0
    asked = [entry.question for entry in report.disclosures]
    assert asked[:4] == ["Meet", "Secret", "Take", "Tags"]
    model = load_model(tmp_path / "run")
    assert list(model.model_.schema.names) == [
        "age", "balance", "mortgage", "visits", "basket", "branch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        ('matching = "keyed_hash"', 'matching = "psi"'),
        ('labels = "shared"', 'labels = "encrypted"'),
        ('labels = "shared"', 'labels = "shared"\nintersect_at = "coordinator"'),
        ('labels = "shared"', 'labels = "shared"\njoin_parts = true'),
    ],
    ids=["psi", "encrypted", "coordinator", "joined"],
)
def test_however_rows_are_matched_and_labels_kept_the_forest_is_the_same(change, tmp_path):
    # The common order is drawn anew in every run: only what does not draw by it is the same.
    small = SMALL.replace("max_depth = 6", "max_depth = 2\nbootstrap = false")
    small = small.replace("held_out = 0.25", "held_out = 0")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    ran(small, tmp_path / "one")
    assert ran(small.replace(*change), tmp_path / "two").identical_to_pooled
    one, two = (load_model(tmp_path / which / "run").model_ for which in ("one", "two"))
    assert one.to_bytes() == replace(two, consent=()).to_bytes()  # who agreed to join is beside it


def test_boosting_over_columns_is_the_pooled_booster_and_the_same_in_every_run(tmp_path):
    """Rows are drawn by their ids: the common order, which is drawn anew, decides nothing."""
    boosted = EXAMPLE.replace("vertical_forest", "vertical_boosting")
    boosted = boosted.replace("n_estimators = 100", "max_iter = 2\nbatch_trees = 1\nn_jobs = 1")
    boosted = boosted.replace("held_out = 0.25", "held_out = 0")
    hidden = boosted.replace('labels = "shared"', 'labels = "encrypted"')
    models = []
    for name, text in (("one", boosted), ("two", hidden)):
        (tmp_path / name).mkdir()
        assert ran(text, tmp_path / name).identical_to_pooled
        models.append(load_model(tmp_path / name / "run").model_.to_bytes())
    assert models[0] == models[1]
    assert len(load_report(tmp_path / "one" / "run").curves["training"]) == 2


def test_label_epsilon_is_paid_from_the_label_party_s_ledger(tmp_path):
    outcome = ran(SMALL.replace('labels = "shared"', "label_epsilon = 2"), tmp_path)
    assert outcome.identical_to_pooled is None
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert {entry["party"] for entry in report["budgets"]} == {"bank"}
    assert any(claim["epsilon"] == "2" for claim in report["privacy"] if claim["unit"] == "label")
    assert report["label_leakage"]["label_epsilon"] == "2"


ONE_TABLE = """
[job]
name = "dealt"
protocol = "vertical_forest"
[settings]
n_estimators = 3
max_depth = 3
n_jobs = 1
[schema]
label = "left"
classes = ["no", "yes"]
[table]
source = "csv"
path = "bank.csv"
row_id = "customer"
[table.columns]
age = { kind = "number", range = [18, 100] }
balance = { kind = "number", range = [-10000, 100000] }
mortgage = { kind = "boolean" }
[simulation]
n_parties = 3
"""


def test_one_table_is_dealt_out_by_columns(tmp_path):
    outcome = ran(ONE_TABLE, tmp_path)
    assert [party.party for party in outcome.parties] == ["party_0", "party_1", "party_2"]
    assert outcome.identical_to_pooled
    assert load_report(tmp_path / "run").settings["label_party"] == "party_0"


def test_a_label_party_may_have_nothing_but_the_label(tmp_path):
    text = (
        SMALL[: SMALL.index("[party.columns]")] + SMALL[SMALL.index('[[party]]\nname = "shop"') :]
    )
    text = text.replace('path = "bank.csv"', 'path = "bank.csv"\ncolumns = []')
    outcome = ran(text, tmp_path)
    assert outcome.identical_to_pooled
    assert [bool(party.local) for party in outcome.parties] == [False, True]


def test_a_number_is_predicted_over_columns(tmp_path):
    text = SMALL.replace(
        'protocol = "vertical_forest"', 'protocol = "vertical_forest"\ntask = "regression"'
    )
    text = text.replace(
        'label = "left"\nclasses = ["no", "yes"]', 'label = "balance"\nrange = [-10000, 100000]'
    )
    text = text.replace(
        "balance = { kind", 'left = { kind = "category", values = ["no", "yes"] }\n#'
    )
    assert ran(text, tmp_path).identical_to_pooled


REFUSED_SETTINGS = [
    ('matching = "md5"', "find their common rows by matching = 'psi' or 'keyed_hash'; got 'md5'"),
    ("", "find their common rows by matching = 'psi' or 'keyed_hash'; got None"),
    ('matching = "psi"\nsecure_sum = true', "sums nothing over parties"),
    ('matching = "psi"\nepsilon = 1', "adds noise to labels only. Use label_epsilon"),
    ('matching = "psi"\nlabel_epsilon = 0', "label_epsilon must be"),
    ('matching = "psi"\nkey_bits = 1024', "key_bits must be 2048 or 3072; got 1024"),
    ('matching = "psi"\nscheme = "rsa"', "scheme must be 'auto' or"),
    ('matching = "psi"\nintersect_at = "shop"', "intersect_at must be 'label_party' or"),
    ('matching = "psi"\nmax_leaf_nodes = 8', "max_leaf_nodes"),
    (
        'matching = "psi"\nn_generations = 8',
        "has no setting 'n_generations': it belongs to 'genetic_tree'",
    ),
    ('matching = "psi"\nbinning = "adaptive"', "a vertical forest does not support it"),
]


@pytest.mark.parametrize(("setting", "words"), REFUSED_SETTINGS)
def test_settings_that_cannot_work_are_refused_before_a_table_is_opened(setting, words, tmp_path):
    text = EXAMPLE.replace('matching = "keyed_hash"', setting).replace(".csv", ".nowhere")
    job = tmp_path / "job.toml"
    job.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=words):
        simulate(job, tmp_path / "run", Stages())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('label_party = "bank"', ""), "label_party must name the one party that holds the labels"),
        (('label_party = "bank"', 'label_party = "post"'), "one of 'bank', 'shop'; got 'post'"),
        (("[schema]", '[schema]\ncolumns = ["age"]'), "have different columns"),
        (('path = "shop.csv"', 'path = "shop.csv"\nlabel = "branch"'),
         "Party 'shop' names a label but is not label_party"),
        (('label = "left"\nclasses = ["no", "yes"]', ""),
         "Party 'bank' is label_party but names no label"),
        (('path = "shop.csv"\nrow_id = "customer"', 'path = "shop.csv"'), "the table names none"),
        (("basket = {", "age = {"), "no column 'age'"),
    ],
)  # fmt: skip
def test_parties_that_do_not_fit_are_refused(change, words, tmp_path):
    assert change[0] in SMALL
    with pytest.raises((SchemaError, SettingError), match=words):
        ran(SMALL.replace(*change), tmp_path)


def test_a_column_at_two_parties_is_refused(tmp_path):
    shop = (EXAMPLES / "shop.csv").read_text(encoding="utf-8").replace("basket", "age", 1)
    (tmp_path / "shop.csv").write_text(shop, encoding="utf-8")
    with pytest.raises(SchemaError, match="'bank' and 'shop' both have a column 'age'"):
        ran(SMALL.replace("basket = {", "age = {"), tmp_path)


def test_ids_of_nobody_in_common_repeated_or_of_another_type_are_refused(tmp_path):
    shop = (EXAMPLES / "shop.csv").read_text(encoding="utf-8")
    strange = shop.replace("\nc", "\nd")
    (tmp_path / "shop.csv").write_text(strange, encoding="utf-8")
    with pytest.raises(TableError, match="no row id in common"):
        ran(SMALL, tmp_path)
    lines = shop.splitlines()
    (tmp_path / "shop.csv").write_text("\n".join([*lines, lines[1]]), encoding="utf-8")
    with pytest.raises(TableError, match="are in more than one row"):
        ran(SMALL, tmp_path)
    (tmp_path / "shop.csv").write_text(shop, encoding="utf-8")
    query = (
        'path = "shop.csv"\nquery = "select cast(substr(customer, 2) as integer) as customer, '
        'visits, basket, branch from source"'
    )
    with pytest.raises(TableError, match="are text at party 'bank' and whole numbers at"):
        ran(SMALL.replace('path = "shop.csv"', query), tmp_path)


@pytest.mark.parametrize("key", ["skew = 0.5", "sizes = [1, 2]", "stratified = true"])
def test_columns_are_not_dealt_like_rows(key, tmp_path):
    with pytest.raises(SettingError, match="deals out rows; a vertical job deals out columns"):
        ran(ONE_TABLE.replace("n_parties = 3", key), tmp_path)


def test_one_table_needs_no_matching(tmp_path):
    with pytest.raises(SettingError, match="are already in the same order"):
        ran(ONE_TABLE.replace("n_jobs = 1", 'n_jobs = 1\nmatching = "psi"'), tmp_path)


def test_other_protocols_do_not_take_the_settings_of_vertical_forests(tmp_path):
    job = tmp_path / "job.toml"
    text = ONE_TABLE.replace("vertical_forest", "horizontal_forest")
    job.write_text(text.replace("n_jobs = 1", 'labels = "shared"'), encoding="utf-8")
    words = "'horizontal_forest' has no setting 'labels': it belongs to 'vertical_forest'"
    with pytest.raises(SettingError, match=words):
        load_job(job)
