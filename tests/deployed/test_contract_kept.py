"""What every protocol states about itself is true of a real run: its bounds, and its progress."""

import json
import re
from typing import Any

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    kits,
    status_of,
)
from deployed.test_columns_deployed import (  # type: ignore[import-not-found]
    BOTH,
)
from deployed.test_columns_deployed import job_of as columns_job
from deployed.test_columns_deployed import write as write_columns
from spinney import load_report
from spinney.deployment.coordinator.process import Run
from spinney.deployment.coordinator.runs import RunFolder
from spinney.deployment.costs import cost_of
from spinney.deployment.party import progress
from spinney.deployment.text import standing_of
from spinney.jobs.registry import SPECS

_TREE = {"n_estimators": None, "max_depth": 3, "n_rows": 500, "epsilon": 8}
_EVOLVED = {"n_estimators": None, "n_generations": 4, "population_size": 6, "max_depth": 3}
ROWS: dict[str, dict[str, Any]] = {
    "horizontal_forest": {"max_depth": 6, "n_estimators": 10},
    "horizontal_forest masked": {"secure_sum": "true"},
    "horizontal_forest blind": {"secure_sum": "true", "coordinator": '"blind"'},
    "horizontal_forest in batches": {"max_depth": 6, "message_limit": 1 << 16},
    "horizontal_forest adaptive": {"binning": '"adaptive"'},
    "horizontal_forest noisy": {"epsilon": 4},
    "horizontal_forest perturbed": {"epsilon": 4, "mechanism": '"perturbed_input"'},
    "extra_trees": {"max_depth": 6},
    "extra_trees masked": {"secure_sum": "true"},
    "extra_trees exchanged": {"thresholds": '"exchanged"'},
    "extra_trees by quantiles": {"binning": '"quantiles"'},
    "extra_trees local": {"label_privacy": '"local"', "epsilon": 2},
    "extra_trees bloom": {"label_privacy": '"local"', "label_scheme": '"bloom"'},
    "extra_trees laplace": {"label_privacy": '"laplace"', "epsilon": 2},
    "private_tree distilled": _TREE | {"method": '"distilled"'},
    "private_tree histograms": _TREE | {"method": '"histograms"'},
    "private_tree save_budget": _TREE | {"method": '"save_budget"'},
    "private_tree propose": _TREE | {"method": '"propose"'},
    "private_tree auto": _TREE,
    "private_forest": {"epsilon": 4},
    "private_boosting": {"n_estimators": None, "n_passes": 1, "max_depth": 2, "epsilon": 4},
    "genetic_tree": _EVOLVED,
    "genetic_tree pooled masked": _EVOLVED | {"binning": '"pooled"', "secure_sum": "true"},
    "genetic_tree some": _EVOLVED | {"participation": 0.5},
    "genetic_tree noisy": _EVOLVED | {"epsilon": 4},
}
COLUMNS: dict[str, dict[str, Any]] = {
    "vertical_forest": {},
    "vertical_forest psi": {"matching": '"psi"'},
    "vertical_forest joined": {"join_parts": "true", "max_depth": "5"},
    "vertical_forest encrypted": {"labels": '"encrypted"', "scheme": '"paillier"'},
    "vertical_forest private": {"label_epsilon": "4"},
    "vertical_boosting": {},
    "vertical_boosting encrypted": {"labels": '"encrypted"', "join_parts": "true"},
}
N_ROWS = 2000  # no example has more


def job_in(folder, case):
    if case in COLUMNS:
        kits(folder, BOTH)
        for name in BOTH:
            write_columns(folder, name)
        return columns_job(folder, protocol=case.split()[0], **COLUMNS[case])
    clinics_in(folder)
    return agreed_job(folder, f'protocol = "{case.split()[0]}"', **ROWS[case])


@pytest.fixture
def seen(monkeypatch):
    """Note how the coordinator and the parties say that they stand."""
    said: dict[str, list[Any]] = {"coordinator": [], "party": []}
    write = RunFolder.write

    def noted(self, status):
        said["coordinator"].append(standing_of(status))
        return write(self, status)

    monkeypatch.setattr(RunFolder, "write", noted)
    monkeypatch.setattr("spinney.deployment.coordinator.process._TELL_EVERY", 0.0)
    monkeypatch.setattr(
        progress, "write_whole", lambda _, data: said["party"].append(json.loads(data))
    )
    return said


@pytest.mark.parametrize("case", [*ROWS, *COLUMNS])
def test_a_run_keeps_to_the_stated_bounds_and_shows_its_progress(tmp_path, case, seen):
    agreed = job_in(tmp_path, case)
    sites = Sites(tmp_path, agreed)
    Run(coordinator_in(tmp_path), agreed, attempt_of(agreed), sites.bytes_to).conduct()
    sites.close()
    cost, report = cost_of(agreed), load_report(tmp_path / "runs" / "run-1")
    assert cost.rounds is not None
    assert cost.bytes is not None
    rounds = status_of(tmp_path).rounds
    assert rounds <= cost.rounds
    # Every masked sum takes two rounds of messages; nodes that draw on could fill many batches.
    if not agreed.is_masked and "batches" not in case:
        assert cost.rounds <= 4 * rounds + 12  # a bound that says something
    for party in agreed.parties:
        moved = report.bytes_up[party] + report.bytes_down[party]
        assert moved <= cost.bytes + cost.bytes_a_row * N_ROWS

    spec, settings = agreed.spec, agreed.protocol_settings()
    steps = spec.steps_at_most(settings)
    levels = [one["level"] for one in seen["party"]]
    assert {one["step"] for one in seen["party"]} == {spec.step}
    assert max(levels) >= 1
    assert max(levels) <= steps
    if case != "private_forest":  # one question is all there is
        shown = [found for line in seen["coordinator"] if (found := re.search(STEP, line))]
        assert shown, seen["coordinator"]
        assert {found["step"] for found in shown} == {"step" if agreed.is_blind else spec.step}
        assert all(1 <= int(found["number"]) <= int(found["of"]) for found in shown)


STEP = r"(?P<step>level|generation|batch|step) (?P<number>\d+) of (?P<of>\d+)"


def test_every_protocol_is_tried():
    elsewhere = {"horizontal_boosting"}  # test_cost_bounds.py
    assert {case.split()[0] for case in (*ROWS, *COLUMNS)} | elsewhere == set(SPECS)
