"""Shared fixtures: tiny tables a person can check, and a real database server."""

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # the papers' baselines

# A kernel's first call compiles it, which no deadline foresees; the cores are shared.
settings.register_profile(
    "spinney", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("spinney")

# Ledgers and records wait until the disk has written; memory has written at once.
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30
if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Files that take longest, longest first: begun last, they would keep one worker alone at the end.
# Those that compile the most kernels come before all others: each process of a federation would
# compile them for itself.
LONG = (
    "oracles/test_stored_models.py",
    "contracts/test_estimator_contract.py",
    "deployed/test_every_protocol.py",
    "deployed/test_federation.py",
    "hostile/test_outside_values.py",
    "contracts/test_private_estimator_contract.py",
    "deployed/test_ledger_heads.py",
    "deployed/test_operating.py",
    "oracles/test_deals_equal_pooled.py",
    "deployed/test_contract_kept.py",
    "oracles/test_columns_equal_pooled.py",
    "papers/test_harness.py",
    "statistical/test_noisy_forest_audit.py",
    "unit/audit/test_audit_command.py",
    "hostile/test_vertical_growth.py",
    "deployed/test_coordinator_side.py",
    "deployed/test_cluster.py",
    "oracles/test_dropouts.py",
    "unit/protocols/vertical_forest/test_vertical_resume.py",
    "contracts/test_message_frames.py",
    "deployed/test_served.py",
    "statistical/test_tree_audits.py",
    "papers/test_peers.py",
    "statistical/test_planted_faults.py",
    "deployed/test_columns_deployed.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Begin with the long files; their order is otherwise as it was, and so is that of the rest."""
    here = Path(__file__).parent
    place = {here / name: at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


@pytest.fixture
def ward_table():
    """A table of every kind of column: numbers, a boolean, categories, gaps, zeros, repeats."""
    random = np.random.RandomState(7)
    n = 240
    X = pd.DataFrame(
        {
            "age": random.randint(0, 99, n).astype(np.float64),
            "income": np.round(random.standard_normal(n) * 1000, 2),
            "visits": random.poisson(0.7, n),
            "smokes": random.random_sample(n) < 0.3,
            "ward": pd.Categorical(random.choice(["eye", "heart", "knee", "lung", "skin"], n)),
            "grade": pd.Categorical(random.randint(1, 5, n)),
            "nothing": np.zeros(n),
        }
    )
    X.loc[random.random_sample(n) < 0.2, "age"] = np.nan
    X.loc[random.random_sample(n) < 0.3, "income"] = 0.0
    X.loc[random.random_sample(n) < 0.1, "ward"] = None
    X.iloc[100:130] = X.iloc[0:30].to_numpy()  # the same patients once more
    return X.astype({"visits": np.int64, "smokes": bool, "nothing": np.float64})


@pytest.fixture
def ward_labels(ward_table):
    """Labels for `ward_table`: two classes, three classes, and an amount; all noisy."""
    random = np.random.RandomState(8)
    n = len(ward_table)
    score = (
        ward_table["age"].fillna(50).to_numpy() / 50
        + (ward_table["ward"] == "heart").to_numpy()
        + ward_table["smokes"].to_numpy()
        + random.standard_normal(n)
    )
    score[100:130] = score[0:30]
    return {
        "two classes": np.where(score > 1.5, "ill", "well"),
        "three classes": np.digitize(score, [1.0, 2.0]),
        "amount": np.round(score * 10, 3),
    }


def server_programs():
    """Return the folder of PostgreSQL's server programs, or None."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found:  # which may be a wrapper: then its neighbours are elsewhere
        folders.append(Path(found).resolve().parent)
    return next((folder for folder in folders if (folder / "pg_isready").exists()), None)


@pytest.fixture(scope="module")
def postgres_server(tmp_path_factory):
    """Run a real server on a socket of its own; give its URL."""
    pytest.importorskip("psycopg")
    programs = server_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed")
    home = tmp_path_factory.mktemp("postgres")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        user = {"user": "nobody"}
        shutil.chown(home, "nobody")
        for folder in (home, *home.parents[:3]):
            folder.chmod(0o755)

    def run(*command, tries=1):
        for _ in range(tries):
            done = subprocess.run(command, check=False, capture_output=True, cwd=home, **user)
            if done.returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError(done.stderr)

    run(programs / "initdb", "-D", home / "data", "-U", "me", "-A", "trust", "-N", "-E", "UTF8")
    options = ("-c", "listen_addresses=", "-c", "fsync=off", "-k", home)
    with (home / "log").open("wb") as log:
        command = (programs / "postgres", "-D", home / "data", *options)
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, **user)
    try:
        run(programs / "pg_isready", "-q", "-h", home, "-t", "60", tries=600)
        yield f"postgresql://me@/postgres?host={home}"
    finally:
        server.send_signal(signal.SIGINT)  # open connections are ended
        server.wait()


@pytest.fixture
def tree_explainer():
    """SHAP's own; importing it warns of matplotlib's future, which is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module("shap").TreeExplainer
