"""A forest over columns, deployed: each party keeps its part; what all agreed to, and no more."""

from contextlib import closing
from dataclasses import replace

import msgspec
import numpy as np
import pandas as pd
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    EXAMPLES,
    Sites,
    agreed_job,
    attempt_of,
    coordinator_in,
    kits,
    status_of,
    write_party,
)
from deployed.one_process import models_of  # type: ignore[import-not-found]
from spinney import load_model, load_report
from spinney.cli.ledgers import describe_ledger
from spinney.cli.models import PartDescription
from spinney.cli.models import describe_model as described_model
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import (
    agreement_of,
    evaluation_of,
    prediction_of,
)
from spinney.deployment.party.policy import Policy
from spinney.deployment.party.status import check
from spinney.deployment.questions import WithdrawAsk
from spinney.errors import (
    BudgetError,
    PartyLostError,
    PolicyError,
    ProtocolError,
    SettingError,
)
from spinney.jobs.file import load_job
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Disclosed
from spinney.protocols.columns.messages import HoldingsAsk
from spinney.protocols.columns.model import PartialModel, join_model
from spinney.protocols.columns.prediction import PartAsk
from spinney.report.door import release
from spinney.tables.frames import columns_of
from spinney.typing import silent

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


FOREST = {"n_estimators": "4", "bootstrap": "false"}
BOOSTED = {"max_iter": "4", "batch_trees": "2"}


def job_of(folder, held_out=0.0, protocol="vertical_forest", **settings):
    chosen = (
        (FOREST if protocol == "vertical_forest" else BOOSTED)
        | {
            "max_depth": "3",
            "label_party": '"bank"',
            "matching": '"keyed_hash"',
        }
        | settings
    )
    lines = "\n".join(f"{key} = {value}" for key, value in chosen.items())
    path = folder / "job.toml"
    path.write_text(
        f'[job]\nname = "q4"\nprotocol = "{protocol}"\nparties = ["bank", "shop"]\n'
        f'[settings]\n{lines}\n[schema]\nlabel = "left"\nclasses = ["no", "yes"]\n'
        f"[simulation]\nheld_out = {held_out}\n"
    )
    return agreement_of(load_job(path, deployed=True))


def conducted(folder, agreed, run="run-1", attempt=1, dies_after=None):
    sites, asked = Sites(folder, agreed, run=run, attempt=attempt), 0

    def send(targets, data):
        nonlocal asked
        asked += 1
        dead = dies_after is not None and asked > dies_after
        return {} if dead else sites.bytes_to(targets, data)

    try:
        Run(coordinator_in(folder), agreed, attempt_of(agreed, run, attempt), send).conduct()
    finally:
        sites.close()
    return folder / "runs" / run


def part(folder, name, run="run-1"):
    return (folder / name / "records" / "runs" / run / "part.spinney").read_bytes()


def test_each_party_keeps_its_part_of_the_forest_of_one_process(both):
    agreed = job_of(both)
    folder = conducted(both, agreed)
    parts = models_of(both, agreed)
    for name in BOTH:
        assert part(both, name) == parts[name]
        (job,) = describe_ledger(both / name / "ledger.db", None).jobs
        assert any("UNPROTECTED" in claim for claim in job.claims)
    assert not (folder / "model.spinney").exists()
    report = load_report(folder)
    assert report.protocol == "vertical_forest"
    assert [one.columns for one in report.holders] == [(), ()]  # whose names are told to nobody
    own = described_model(both / "shop" / "records" / "runs" / "run-1")
    assert isinstance(own, PartDescription)
    assert own.splits.keys() == {"visits", "basket", "branch"}
    assert sum(own.splits.values()) == report.holders[1].n_splits > 0
    assert own.n_elsewhere == report.holders[0].n_splits
    assert "shop's part of a forest of 4 trees" in str(own)
    assert "and all leaves" not in str(own)


def test_signed_and_sealed_between_kits_the_forest_is_the_same(both):
    """Ids by private set intersection, labels encrypted: all is signed, by real certificates."""
    agreed = job_of(both, matching='"psi"', labels='"encrypted"', scheme='"paillier"')
    conducted(both, agreed)
    with closing(Ledger.open(both / "shop" / "ledger.db")) as ledger:
        every = [entry.body for entry in ledger.entries()]
    told = [body.disclosure.what for body in every if isinstance(body, Disclosed)]
    n_ids = len(pd.read_csv(EXAMPLES / "bank.csv"))
    assert told.count(f"to 'bank', which of its {n_ids} ids are here") == 1
    parts = models_of(both, agreed)
    for name in BOTH:
        assert part(both, name) == parts[name]


def test_a_policy_limits_how_many_ids_are_asked_about(both):
    write(both, "shop", policy="max_match_ids = 3")
    with pytest.raises(PolicyError, match=r"answers for at most 3 \(rule 'max_match_ids'\)"):
        conducted(both, job_of(both, matching='"psi"'))
    with pytest.raises(SettingError, match="max_match_ids must be at least 0; got -1"):
        Policy(max_match_ids=-1)


def test_parts_are_joined_where_the_job_says_so(both):
    agreed = job_of(both, join_parts="true")
    folder = conducted(both, agreed)
    assert (folder / "model.spinney").read_bytes() == models_of(both, agreed)[""]
    model = load_model(folder).model_
    assert model.forest.n_trees == 4
    bank, shop = load_report(folder).holders
    assert set(bank.columns) <= {"age", "balance", "mortgage"}
    assert set(shop.columns) <= {"visits", "basket", "branch"}
    split_by = {model.schema.names[column] for column in model.forest.feature if column >= 0}
    assert {*bank.columns, *shop.columns} == split_by


def test_a_killed_run_over_columns_goes_on_with_the_same_parts(both):
    agreed = job_of(both)
    for attempt, after in enumerate((9, 13), start=1):
        with pytest.raises(PartyLostError):
            conducted(both, agreed, attempt=attempt, dies_after=after)
    conducted(both, agreed, attempt=3)
    parts = models_of(both, agreed)
    for name in BOTH:
        assert PartialModel.from_bytes(part(both, name), name="part").party == name
        assert part(both, name) == parts[name]


def test_labels_that_were_randomised_go_with_their_rows_into_the_next_run(both):
    agreed = job_of(both, label_epsilon="4")
    conducted(both, agreed)
    (spent,) = describe_ledger(both / "bank" / "ledger.db", "q4").jobs
    conducted(both, agreed, "run-2")  # its rows stand in another order
    assert describe_ledger(both / "bank" / "ledger.db", "q4").jobs == (spent,)
    for name in BOTH:
        assert part(both, name, "run-2") == part(both, name)


def test_rows_whose_labels_were_not_drawn_cannot_join_a_job_that_is_paid_for(both):
    agreed = job_of(both, label_epsilon="4", held_out=0.25)
    conducted(both, agreed)
    with pytest.raises(BudgetError):
        conducted(both, agreed, "run-2")  # holds other rows back


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
    with pytest.raises(SettingError, match="has no common table for an evaluation"):
        evaluation_of(job, "0" * 64)


def test_rows_are_predicted_by_all_parties_and_written_where_the_labels_are(both):
    agreed = job_of(both, join_parts="true")
    model = load_model(conducted(both, agreed)).model_
    asked = prediction_of(load_job(both / "job.toml", deployed=True), "run-1")
    conducted(both, asked, "run-2")
    status = status_of(both, "run-2")
    written = pd.read_csv(both / "bank" / "records" / "runs" / "run-2" / "predictions.csv")
    assert status.message.startswith(f"{len(written)} rows; their predictions are in the label")
    assert not (both / "shop" / "records" / "runs" / "run-2" / "predictions.csv").exists()
    bank, shop = (pd.read_csv(EXAMPLES / f"{name}.csv") for name in BOTH)
    rows = bank.merge(shop, on="customer").set_index("customer").loc[written["id"]]
    parts = {name: PartialModel.from_bytes(part(both, name), name=name) for name in BOTH}
    exact = join_model(parts, BOTH)  # what left is coarser; the parties predict with their own
    assert release(replace(exact, consent=BOTH), agreed.release)[0].to_bytes() == model.to_bytes()
    expected = exact.predict(columns_of(rows[list(exact.schema.names)], exact.schema))
    found = written[["no", "yes"]].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


def test_a_part_predicts_only_on_the_terms_of_its_training(both):
    """A lead that writes the job by hand would let the coordinator make up leaves."""
    conducted(both, job_of(both))
    asked = prediction_of(load_job(both / "job.toml", deployed=True), "run-1")
    settings = asked.settings | {"intersect_at": "coordinator"}
    other = msgspec.structs.replace(asked, settings=settings)
    with pytest.raises(
        PolicyError, match="trained the model that is to be predicted with in a job"
    ):
        conducted(both, other, "run-2")


def test_only_a_forest_over_columns_is_predicted_by_a_job(tmp_path):
    agreed_job(tmp_path)
    job = load_job(tmp_path / "job.toml", deployed=True)
    with pytest.raises(SettingError, match="A model over rows is a file"):
        prediction_of(job, "run-1")
    with pytest.raises(SettingError, match="must name a model by its digest, or by its run's id"):
        msgspec.structs.replace(agreed_job(tmp_path), kind="predict", model="../run-1")


def test_a_withdrawn_run_over_columns_gives_no_part_and_is_not_trained_again(both):
    agreed = job_of(both, join_parts="true")
    for attempt in (1, 2):
        with closing(Sites(both, agreed, attempt=attempt)) as sites:
            wire = sites.channel()
            if attempt == 1:
                settings = agreed.protocol_settings()
                agreed.spec.train(wire, settings, n_jobs=1, progress=silent)
                wire.ask(WithdrawAsk())
            for ask in (PartAsk(), HoldingsAsk()):
                for name in BOTH:
                    with pytest.raises(ProtocolError, match="that nobody keeps it"):
                        wire.ask(ask, to=(name,))
    for name in BOTH:
        assert not (both / name / "records" / "runs" / "run-1" / "part.spinney").exists()
