"""Boosting over columns between kits: the trees of one process, also after the run was killed."""

import numpy as np
import pandas as pd
import pytest

from deployed.handmade import EXAMPLES, kits, status_of  # type: ignore[import-not-found]
from deployed.one_process import models_of  # type: ignore[import-not-found]
from deployed.test_columns_deployed import (  # type: ignore[import-not-found]
    BOTH,
    conducted,
    part,
    write,
)
from deployed.test_columns_deployed import job_of as columns_job
from spinney import load_report
from spinney.cli.ledgers import describe_ledger
from spinney.deployment.job import prediction_of
from spinney.errors import PartyLostError
from spinney.jobs.file import load_job
from spinney.protocols.columns.model import PartialModel, join_model
from spinney.tables.frames import columns_of


@pytest.fixture
def both(tmp_path):
    """Two parties with columns of their own."""
    kits(tmp_path, BOTH)
    for name in BOTH:
        write(tmp_path, name)
    return tmp_path


def job_of(folder, **settings):
    return columns_job(folder, protocol="vertical_boosting", **settings)


@pytest.mark.parametrize(
    "labels",
    ["encrypted", pytest.param("shared", marks=pytest.mark.slow)],  # one of two is enough
)
def test_a_run_killed_twice_gives_each_party_its_part_of_the_trees_of_one_process(both, labels):
    """Every attempt begins with parties that were restarted: they know what their disks hold."""
    agreed = job_of(both, labels=f'"{labels}"')
    for attempt, after in enumerate((12, 19), start=1):  # in the first batch, and in the second
        with pytest.raises(PartyLostError):
            conducted(both, agreed, attempt=attempt, dies_after=after)
    folder = conducted(both, agreed, attempt=3)
    parts = models_of(both, agreed)
    for name in BOTH:
        assert PartialModel.from_bytes(part(both, name), name="part").party == name
        assert part(both, name) == parts[name]
    assert not (folder / "model.spinney").exists()
    report = load_report(folder)
    assert report.protocol == "vertical_boosting"
    assert len(report.curves["training"]) == 2  # before each batch


def test_rows_are_predicted_by_all_parties_and_written_where_the_labels_are(both):
    conducted(both, job_of(both))
    asked = prediction_of(load_job(both / "job.toml", deployed=True), "run-1")
    conducted(both, asked, "run-2")
    written = pd.read_csv(both / "bank" / "records" / "runs" / "run-2" / "predictions.csv")
    assert status_of(both, "run-2").message.startswith(f"{len(written)} rows; their predictions")
    bank, shop = (pd.read_csv(EXAMPLES / f"{name}.csv") for name in BOTH)
    rows = bank.merge(shop, on="customer").set_index("customer").loc[written["id"]]
    parts = {name: PartialModel.from_bytes(part(both, name), name=name) for name in BOTH}
    model = join_model(parts, BOTH)
    expected = model.predict(columns_of(rows[list(model.schema.names)], model.schema))
    np.testing.assert_allclose(written[["no", "yes"]], expected, rtol=1e-12, atol=0)


def test_labels_that_were_randomised_are_paid_for_once(both):
    agreed = job_of(both, label_epsilon="4")
    conducted(both, agreed)
    (spent,) = describe_ledger(both / "bank" / "ledger.db", "q4").jobs
    conducted(both, agreed, "run-2")  # its rows stand in another order
    assert describe_ledger(both / "bank" / "ledger.db", "q4").jobs == (spent,)
    for name in BOTH:
        assert part(both, name, "run-2") == part(both, name)
