"""A deployed boosting job that breaks off goes on, and ends with the bytes of one process."""

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    write_party,
)
from deployed.one_process import models_of  # type: ignore[import-not-found]
from spinney.deployment.coordinator.process import Run
from spinney.transport.journal import Journal


def conducted(folder, agreed, attempt, last=None):
    """Run an attempt, up to a message after which it breaks off."""
    sites = Sites(folder, agreed, attempt=attempt)
    asked = []

    def send(targets, data):
        asked.append(data)
        if len(asked) == last:
            raise KeyboardInterrupt
        return sites.bytes_to(targets, data)

    try:
        Run(
            coordinator_in(folder), agreed, attempt_of(agreed, "run-1", attempt=attempt), send
        ).conduct()
    finally:
        sites.close()


@pytest.mark.parametrize("secure_sum", ["false", "true"])
def test_a_job_goes_on_between_two_batches(tmp_path, secure_sum):
    clinics_in(tmp_path)
    how = {"n_estimators": None, "max_iter": 6, "batch_trees": 2, "secure_sum": secure_sum}
    agreed = agreed_job(tmp_path, 'protocol = "horizontal_boosting"', **how)
    with pytest.raises(KeyboardInterrupt):
        conducted(tmp_path, agreed, 1, last=18)
    rounds = tmp_path / "runs" / "run-1" / "rounds"
    assert len(Journal(rounds)) > 8  # some trees are finished
    conducted(tmp_path, agreed, 2)
    model = (tmp_path / "runs" / "run-1" / "model.spinney").read_bytes()
    assert model == models_of(tmp_path, agreed)[""]


def test_rows_count_as_much_as_a_party_s_column_of_weights_says(tmp_path):
    """Here older patients count more."""
    clinics_in(tmp_path)
    for name in CLINICS:
        source = f'source = "csv"\npath = "{EXAMPLES / name}.csv"\nrow_id = "visit"'
        write_party(tmp_path, name, table=f'{source}\nrow_weight = "age"')
    how = {"n_estimators": None, "max_iter": 2, "batch_trees": 1}
    alike = agreed_job(tmp_path, 'protocol = "horizontal_boosting"', **how)
    weighed = agreed_job(tmp_path, 'protocol = "horizontal_boosting"', largest_weight=120, **how)
    conducted(tmp_path, weighed, 1)
    model = (tmp_path / "runs" / "run-1" / "model.spinney").read_bytes()
    assert model == models_of(tmp_path, weighed)[""]
    assert model != models_of(tmp_path, alike)[""]
