"""Boosting over columns on real processes, labels encrypted: each side is killed and goes on."""

import json

import pytest

from deployed import by_columns  # type: ignore[import-not-found]
from deployed.interrupting import ended, in_round  # type: ignore[import-not-found]
from deployed.loopback import Federation  # type: ignore[import-not-found]
from deployed.one_process import models_of  # type: ignore[import-not-found]
from spinney.deployment.job import agreement_of
from spinney.jobs.file import load_job

pytestmark = pytest.mark.slow
IN_THE_SECOND_TREE = 24  # finished rounds: a tree of three levels has ten, after those that match


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    limits = "patience_seconds = 40\nsilence_seconds = 12\nreply_seconds = 5"
    with Federation(tmp_path_factory.mktemp("killed"), limits=limits).up() as made:
        by_columns.write_parties(made)
        yield made


def write_job(federation, name):
    path = by_columns.write_job(federation, name)
    settings = {
        "max_iter": 3, "batch_trees": 1, "max_depth": 3, "label_party": by_columns.LABEL_PARTY,
        "matching": "keyed_hash", "labels": "encrypted",
    }  # fmt: skip
    head, rest = path.read_text().split("[settings]")
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    schema = rest.split("[schema]")[1]
    head = head.replace("vertical_forest", "vertical_boosting")
    path.write_text(f"{head}[settings]\n{lines}\n[schema]{schema}")
    return path


@pytest.mark.parametrize("who", ["st-mary", "lakeside", "coordinator"])
def test_a_side_that_is_killed_comes_back_and_the_trees_are_those_of_one_process(federation, who):
    """The label party loses its key from memory, another its ciphertexts, the coordinator all."""
    path = write_job(federation, f"killed-{who}")
    run = federation.job("start", str(path)).stdout.strip()
    bystander = "north" if who == "lakeside" else "lakeside"
    with in_round(federation, run, IN_THE_SECOND_TREE, bystander):
        federation.kill(who)
    federation.start(who)
    status = ended(federation, run)
    assert status["state"] == "finished", status
    assert status["attempt"] > 1
    models = models_of(federation.root, agreement_of(load_job(path, deployed=True)))
    for name in federation.parties:
        kept = federation.root / name / "records" / "runs" / run / "part.spinney"
        assert kept.read_bytes() == models[name]
