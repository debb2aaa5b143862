"""A forest over columns, deployed: each party keeps its part; what all agreed to, and no more."""

import msgspec
import numpy as np
import pandas as pd
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    EXAMPLES,
    Sites,
    agreed_job,
    coordinator_in,
    kits,
    link_to,
    status_of,
    write_party,
)
from spinney import load_model, load_report
from spinney.errors import PartyLostError, PolicyError, SettingError
from spinney.protocols.partial_model import PartialModel
from spinney.service import registry
from spinney.service.config import load_job
from spinney.service.deployed.agreed import agreed_of, evaluation_of, prediction_of
from spinney.service.deployed.checking import check
from spinney.service.deployed.conductor import Run
from spinney.service.deployed.opening import table_for
from spinney.service.deployed.party_file import load_party
from spinney.service.ledgers import described
from spinney.transport.in_process import InProcess

BOTH = ("bank", "shop")
COLUMNS = {
    "bank": (
        "age = { kind = 'number', range = [18, 100] }\n"
        "balance = { kind = 'number', range = [-10000, 100000] }\n"
        "mortgage = { kind = 'boolean' }\n"
    ),
    "shop": (
        "visits = { kind = 'number', range = [0, 100] }\n"
        "basket = { kind = 'number', range = [0, 1000] }\n"
        "branch = { kind = 'category', values = ['city', 'station', 'village'] }\n"
    ),
}


@pytest.fixture
def both(tmp_path):
    """A bank and a shop with kits and tables."""
    kits(tmp_path, BOTH)
    for name in BOTH:
        write(tmp_path, name)
    return tmp_path


def write(folder, name, **more):
    table = f'source = "csv"\npath = "{EXAMPLES / name}.csv"\nrow_id = "customer"\n'
    write_party(folder, name, table=f"{table}[table.columns]\n{COLUMNS[name]}", **more)


def job_of(folder, held_out=0.0, **settings):
    chosen = {
        "n_estimators": "4",
        "max_depth": "3",
        "bootstrap": "false",
        "label_party": '"bank"',
        "matching": '"keyed_hash"',
    } | settings
    lines = "\n".join(f"{key} = {value}" for key, value in chosen.items())
    path = folder / "job.toml"
    path.write_text(
        '[job]\nname = "q4"\nprotocol = "vertical_forest"\nparties = ["bank", "shop"]\n'
        f'[settings]\n{lines}\n[schema]\nlabel = "left"\nclasses = ["no", "yes"]\n'
        f"[simulation]\nheld_out = {held_out}\n"
    )
    return agreed_of(load_job(path, deployed=True))


def conducted(folder, agreed, run="run-1", attempt=1, dies_after=None):
    sites, asked = Sites(folder, agreed, run=run, attempt=attempt), 0

    def send(targets, data):
        nonlocal asked
        asked += 1
        dead = dies_after is not None and asked > dies_after
        return {} if dead else sites.bytes_to(targets, data)

    try:
        Run(coordinator_in(folder), agreed, link_to(folder, run, attempt), send).conduct()
    finally:
        sites.close()
    return folder / "runs" / run


def in_process(folder, agreed):
    """Return the same job's parts over the plain channel."""
    settings, sides = agreed.protocol_settings(), {}
    for name in BOTH:
        held = table_for(load_party(folder / name / "party.toml"), agreed)
        sides[name] = agreed.entry.party(held, settings, registry.Site(name, 1))
    training = agreed.entry.train(InProcess(sides), settings, n_jobs=1, progress=lambda *_: None)
    return training, {name: side.finished_model for name, side in sides.items()}


def part(folder, name, run="run-1"):
    return (folder / name / "records" / "runs" / run / "part.spinney").read_bytes()


def test_each_party_keeps_its_part_of_the_forest_of_one_process(both):
    agreed = job_of(both)
    folder = conducted(both, agreed)
    _, parts = in_process(both, agreed)
    for name in BOTH:
        assert part(both, name) == parts[name].to_bytes()
        (job,) = described(both / name / "ledger.db", None).jobs
        assert any("UNPROTECTED" in claim for claim in job.claims)
    assert not (folder / "model.spinney").exists()
    assert load_report(folder).protocol == "vertical_forest"


def test_parts_are_joined_where_the_job_says_so(both):
    agreed = job_of(both, join_parts="true")
    folder = conducted(both, agreed)
    training, _ = in_process(both, agreed)
    assert (folder / "model.spinney").read_bytes() == training.model.to_bytes()
    assert load_model(folder).model_.forest.n_trees == 4


def test_a_killed_run_over_columns_goes_on_with_the_same_parts(both):
    agreed = job_of(both)
    for attempt, after in enumerate((9, 14), start=1):
        with pytest.raises(PartyLostError):
            conducted(both, agreed, attempt=attempt, dies_after=after)
    conducted(both, agreed, attempt=3)
    _, parts = in_process(both, agreed)
    for name in BOTH:
        assert PartialModel.from_bytes(part(both, name), name="part").party == name
        assert part(both, name) == parts[name].to_bytes()


def test_a_column_that_is_never_lent_is_no_part_of_a_job(both):
    write(both, "shop", policy='never = ["basket"]')
    agreed = job_of(both)
    with pytest.raises(PolicyError, match="lists the column 'basket', which its policy never"):
        conducted(both, agreed)


def test_a_party_checks_its_columns(both):
    job_of(both)
    found = check(both / "shop" / "party.toml", both / "job.toml")
    assert found["columns"] == "visits, basket, branch"


def test_a_forest_over_columns_is_not_evaluated_by_rows(both):
    job_of(both)
    job = load_job(both / "job.toml", deployed=True)
    with pytest.raises(SettingError, match="has no common table to be evaluated by"):
        evaluation_of(job, "0" * 64)


def test_rows_are_predicted_by_all_parties_and_written_where_the_labels_are(both):
    agreed = job_of(both, join_parts="true")
    model = load_model(conducted(both, agreed))
    asked = prediction_of(load_job(both / "job.toml", deployed=True), "run-1")
    conducted(both, asked, "run-2")
    status = status_of(both, "run-2")
    written = pd.read_csv(both / "bank" / "records" / "runs" / "run-2" / "predictions.csv")
    assert status.message.startswith(f"{len(written)} rows; their predictions are in the label")
    assert not (both / "shop" / "records" / "runs" / "run-2" / "predictions.csv").exists()
    bank, shop = (pd.read_csv(EXAMPLES / f"{name}.csv") for name in BOTH)
    rows = bank.merge(shop, on="customer").set_index("customer").loc[written["id"]]
    expected = model.predict_proba(rows[list(model.feature_names_in_)])
    np.testing.assert_allclose(written[["no", "yes"]].to_numpy(), expected, atol=1e-12)


def test_only_a_forest_over_columns_is_predicted_by_a_job(tmp_path):
    agreed_job(tmp_path)
    job = load_job(tmp_path / "job.toml", deployed=True)
    with pytest.raises(SettingError, match="A model over rows is a file"):
        prediction_of(job, "run-1")
    with pytest.raises(SettingError, match="names a model by its digest, or by its run's id"):
        msgspec.structs.replace(agreed_job(tmp_path), kind="predict", model="../run-1")
