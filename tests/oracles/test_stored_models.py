"""Every kind of training still gives the model that it gave before, byte for byte.

`stored_models.json` holds the SHA-256 of each model. A change that is meant to change models, and
no other, writes it anew: in `tests`, `python -m oracles.test_stored_models --write` also says
whose models changed. Nothing here reaches behind the public names, job files and the seam through
which tests fix noise, so that the code may be moved about freely.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tomllib
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import cache, partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch
from zlib import crc32

import numpy as np
import pytest

from oracles.stored_tables import labels, wards  # type: ignore[import-not-found]
from oracles.stored_trainings import (  # type: ignore[import-not-found]
    EXTRA,
    GENETIC,
    HORIZONTAL,
    PRIVATE,
    VERTICAL,
    Case,
)
from spinney import load_model
from spinney.jobs import rows as row_dealing
from spinney.jobs.rows import hold_back
from spinney.privacy import entropy
from spinney.protocols.verified.tags import SumKeys
from spinney.transport.codec import encode
from spinney.transport.in_process import InProcess

STORED = Path(__file__).with_name("stored_models.json")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


# --- job files -----------------------------------------------------------------------------------


@cache
def command():
    """Return what the installed command calls, wherever it lies."""
    scripts = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    module, function = scripts["spinney"].split(":")
    return getattr(import_module(module), function)


def write_tables(folder):
    """Write the tables that job files name."""
    X = wards().assign(ill=labels("two classes"), cost=labels("amount"))
    X.insert(0, "visit", [f"v{number:03}" for number in range(len(X))])
    X.to_csv(folder / "visits.csv", index=False)
    for name, rows in (
        ("north", slice(0, 90)),
        ("south", slice(90, 150)),
        ("west", slice(150, 240)),
    ):
        X.iloc[rows].to_csv(folder / f"{name}.csv", index=False)
    X.iloc[10:, :4].assign(ill=X["ill"]).to_csv(folder / "bank.csv", index=False)
    X.iloc[:230, [0, 4, 5, 7]][::-1].to_csv(folder / "shop.csv", index=False)


RELEASE = """
[release]
smallest_leaf = 1
threshold_digits = 15
value_digits = 15
exact_counts = true
"""
LEAVES = ("horizontal_forest", "extra_trees", "vertical_forest")


def by_class(table, simulation, number, **_):
    """Hold back rows as private jobs did when these models were stored."""
    return hold_back(table, simulation, number, is_private=False)


def simulated(seed, n_jobs, folder, *, protocol, task, settings, tables):
    write_tables(folder)
    if protocol in LEAVES and "min_samples_leaf" not in settings:
        settings = f"min_samples_leaf = 1\n{settings}"
    text = (
        f"[job]\nname = 'stored'\nprotocol = '{protocol}'\ntask = '{task}'\n"
        f"[settings]\nn_jobs = {n_jobs}\nrandom_state = {seed}\n{settings}\n{tables}"
        f"{RELEASE}"  # a job file's defaults are not those of estimators; see `jobs.careful`
    )
    (folder / "job.toml").write_text(text, encoding="utf-8")
    arguments = ["spinney", "simulate", str(folder / "job.toml"), "--out", str(folder / "run")]
    said = StringIO()
    with (
        patch.object(sys, "argv", arguments),
        patch.object(row_dealing, "hold_back", by_class),
        redirect_stdout(said),
        redirect_stderr(said),
        pytest.raises(SystemExit) as ended,
    ):
        command()()
    assert not ended.value.code, said.getvalue()
    return (folder / "run" / "model.spinney").read_bytes()


def job(protocol, settings, tables, *, task="classification", is_noisy=False):
    """Return the training of a job file."""
    how = {"protocol": protocol, "task": task, "settings": settings, "tables": tables}
    return Case(partial(simulated, **how), is_noisy=is_noisy)


COLUMNS = """
age = { kind = "number", range = [0, 110] }
income = { kind = "number", range = [-1000, 1000] }
visits = { kind = "number", range = [0, 10] }
smokes = { kind = "boolean" }
ward = { kind = "category", values = ["skin", "lung", "knee", "heart", "eye"] }
"""
ONE_TABLE = f"""
[schema]
label = "ill"
classes = ["well", "ill"]
[table]
source = "csv"
path = "visits.csv"
row_id = "visit"
[table.columns]{COLUMNS}
[simulation]
n_parties = 3
skew = 1.0
random_state = 4
"""
AMOUNT_TABLE = ONE_TABLE.replace('classes = ["well", "ill"]', "range = [0, 40]").replace(
    'label = "ill"', 'label = "cost"'
)
OWN_TABLES = f"""
[schema]
label = "ill"
classes = ["well", "ill"]
[schema.columns]{COLUMNS}
[[party]]
name = "north"
source = "csv"
path = "north.csv"
row_id = "visit"
[[party]]
name = "south"
source = "csv"
path = "south.csv"
row_id = "visit"
query = "select * from source where age >= 18"
[[party]]
name = "west"
source = "csv"
path = "west.csv"
row_id = "visit"
[simulation]
held_out = 0.25
"""
BANK_AND_SHOP = """
[schema]
label = "ill"
classes = ["well", "ill"]
[[party]]
name = "bank"
source = "csv"
path = "bank.csv"
row_id = "visit"
columns = ["age", "income", "visits"]
[[party]]
name = "shop"
source = "csv"
path = "shop.csv"
row_id = "visit"
[party.columns]
smokes = { kind = "boolean" }
ward = { kind = "category", values = ["skin", "lung", "knee", "heart", "eye"] }
stay = { kind = "number", range = [0, 64] }
[simulation]
held_out = 0.0
"""
COLUMNS_DEALT = ONE_TABLE.replace("skew = 1.0\n", "")
# The common order of matched rows is secret; without a bootstrap it does not matter.
MATCHED = "n_estimators = 4\nlabel_party = 'bank'\nbootstrap = false\nmatching = "
JOBS: dict[str, Case] = {
    "job: forest, one table": job(
        "horizontal_forest", "n_estimators = 4\nclass_weight = { ill = 2.0 }", ONE_TABLE
    ),
    "job: forest, own tables, masked": job(
        "horizontal_forest", "n_estimators = 4\nmax_depth = 5\nsecure_sum = true", OWN_TABLES
    ),
    "job: forest, amount": job(
        "horizontal_forest",
        "n_estimators = 4\noob_score = true\nbinning = 'ranges'",
        AMOUNT_TABLE,
        task="regression",
    ),
    "job: forest, noisy histograms": job(
        "horizontal_forest",
        "n_estimators = 3\nmax_depth = 3\nmax_cells = 8\nepsilon = 8.0\nsecure_sum = true",
        OWN_TABLES,
        is_noisy=True,
    ),
    "job: extra, exchanged": job(
        "extra_trees", "n_estimators = 4\nthresholds = 'exchanged'", OWN_TABLES
    ),
    "job: extra, randomised labels": job(
        "extra_trees",
        "n_estimators = 3\nmax_depth = 4\nlabel_privacy = 'local'\nepsilon = 2.0",
        OWN_TABLES,
        is_noisy=True,
    ),
    "job: evolved": job(
        "genetic_tree",
        "population_size = 6\nn_generations = 4\nmax_depth = 4\nsecure_sum = true",
        ONE_TABLE,
    ),
    "job: columns, one table": job("vertical_forest", "n_estimators = 4", COLUMNS_DEALT),
    "job: columns, matched by keyed hashes": job(
        "vertical_forest", f"{MATCHED}'keyed_hash'", BANK_AND_SHOP
    ),
    "job: columns, matched by set intersection": job(
        "vertical_forest",
        f"{MATCHED}'psi'\nmax_depth = 4",
        BANK_AND_SHOP,
    ),
    "job: private tree": job(
        "private_tree",
        "epsilon = 8.0\nmax_depth = 3\nmethod = 'histograms'\nsecure_sum = true",
        ONE_TABLE,
        is_noisy=True,
    ),
    "job: private forest": job(
        "private_forest",
        "epsilon = 4.0\nmax_depth = 3\nn_estimators = 5\nsecure_sum = true",
        ONE_TABLE,
        is_noisy=True,
    ),
}

# --- the oracle ----------------------------------------------------------------------------------

CASES: dict[str, Case] = HORIZONTAL | EXTRA | VERTICAL | GENETIC | PRIVATE | JOBS


def own_keys():
    """Return keys of tags from the true randomness: the stored models are older than tags."""
    return SumKeys(os.urandom(32), b"")


def model_of(name, folder, n_jobs=2):
    """Return the bytes of a case's model, with the out-of-bag score where there is one."""
    case, seed = CASES[name], crc32(name.encode())
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Public facts were read from the parties' data")
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
        if case.is_noisy:
            stack.enter_context(patch.object(SumKeys, "fresh", own_keys))
            stack.enter_context(entropy.seeded_for_tests(seed))
        return case.train(seed, 1 if case.is_noisy else n_jobs, folder)


def digest(model):
    return hashlib.sha256(model).hexdigest()


@cache
def stored():
    return json.loads(STORED.read_text(encoding="utf-8"))


@pytest.fixture
def sent():
    """Every question and reply of a training in this process, and its bytes when it was sent."""
    sent: list[tuple[object, bytes]] = []
    answer = InProcess._answer

    def recorded(self, name, ask, sizes):
        asked = encode(ask)
        reply = answer(self, name, ask, sizes)
        sent.extend(((ask, asked), (reply, encode(reply))))
        return reply

    with patch.object(InProcess, "_answer", recorded):
        yield sent


@pytest.mark.parametrize("name", CASES)
def test_a_training_gives_the_stored_model_and_writes_into_no_message(name, tmp_path, sent):
    assert digest(model_of(name, tmp_path)) == stored()[name]
    assert sent
    assert not {type(message).__name__ for message, before in sent if encode(message) != before}


def test_every_stored_model_has_a_case_and_no_two_are_the_same():
    assert list(stored()) == list(CASES)
    assert len(set(stored().values())) == len(CASES)


@pytest.mark.parametrize(
    "name",
    [
        "forest, two classes",
        "forest, amount",
        "extra, five classes, exchanged",
        "columns, five classes, three parties",
        "evolved, amount",
        "private tree, propose",
        "private forest",
    ],
)
def test_a_stored_model_is_read_and_written_again_unchanged(name, tmp_path):
    model = model_of(name, tmp_path)
    load_model(tmp_path / "saved").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model


_ON_FLOATS = (
    "extra, labels by Bloom filters",
    "forest, five classes by entropy, skewed",
    "extra, entropy, balanced, bootstrap",
)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names instructions of x86")
def test_another_processor_gives_the_stored_models():
    program = (
        "import sys, warnings; warnings.simplefilter('ignore'); from pathlib import Path\n"
        "from tempfile import TemporaryDirectory\n"
        "from oracles.test_stored_models import digest, model_of\n"
        "with TemporaryDirectory() as folder:\n"
        "    for name in sys.argv[1:]: print(digest(model_of(name, Path(folder))))\n"
    )
    # Other kernels of OpenBLAS, and none of NumPy's wide instructions.
    wide = np.show_config(mode="dicts")["SIMD Extensions"].get("found", ())
    another = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": " ".join(wide)}
    command = (sys.executable, "-W", "ignore", "-c", program, *_ON_FLOATS)
    done = subprocess.run(
        command,
        env=os.environ | another | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [stored()[name] for name in _ON_FLOATS]


def write():
    """Write the digests anew."""
    digests = {}
    for name in CASES:
        with TemporaryDirectory() as folder:
            digests[name] = digest(model_of(name, Path(folder)))
    before = stored() if STORED.exists() else {}
    changed = [name for name, now in digests.items() if before.get(name) != now]
    STORED.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(digests)} models, of which changed: {changed or 'none'}\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("Give --write to store the digests anew.")
    write()
