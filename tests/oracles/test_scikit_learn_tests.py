"""scikit-learn's own tests of forests, run against ours: each passes or is a stated difference."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

STATED = json.loads(Path(__file__).with_name("stated_differences.json").read_text("utf-8"))
LEAST_PASSED = 160


@pytest.mark.slow(reason="it runs the 332 tests of scikit-learn's forests: about two minutes")
@pytest.mark.skipif(
    sklearn.__version__ != STATED["scikit-learn"], reason="the list is of another scikit-learn"
)
def test_every_test_of_scikit_learn_passes_or_is_a_stated_difference(tmp_path):
    found = tmp_path / "found.json"
    here = Path(__file__).parent
    paths = [str(here), str(here.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    command = (
        "-m", "pytest", "-q", "-p", "our_forests", "-p", "no:cacheprovider", "-p", "no:randomly",
        "-c", os.devnull, "--rootdir", str(tmp_path), "--tb=line", "-n0",
        "--pyargs", "sklearn.ensemble.tests.test_forest",
    )  # fmt: skip
    subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=os.environ | {"FOUND": str(found), "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
        capture_output=True,
    )
    outcomes = json.loads(found.read_text("utf-8"))
    failed = {name for name, one in outcomes.items() if one["outcome"] == "failed"}
    stated = {name for names in STATED["differences"].values() for name in names}
    assert len(outcomes) - len(failed) >= LEAST_PASSED
    by_chance = {name for names in STATED["chance"].values() for name in names}
    assert failed - stated - by_chance == set()
    assert stated - failed == set(), "these pass now: take them off the list"
