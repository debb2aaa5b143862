"""Private jobs never refuse by data: what a party's rows hold shows in no message's kind or length.

Real parties run as in the engine, with policies, ledgers and tables of their own; messages are
passed by hand, as bytes, and noted. One row of one party is clean, or holds what the schema does
not allow. With almost no noise the two runs must look alike: the same questions and replies, in the
same order, of the same lengths where lengths are fixed, and no refusal.
"""

import shutil
from typing import Any

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Sites,
    agreed_job,
    kits,
    write_party,
)
from spinney.deployment.job import PROPOSE, agreement_of
from spinney.deployment.party.status import check
from spinney.deployment.questions import ProposalAsk
from spinney.jobs.file import load_job
from spinney.jobs.registry import SPECS
from spinney.protocols.verified.channel import VerifiedSums
from spinney.transport import codec
from spinney.transport.remote.wire import Answer, Envelope

_ALMOST_NO_NOISE = 2000
_NOISY: dict[str, Any] = {"epsilon": _ALMOST_NO_NOISE}
_TREE = _NOISY | {"n_estimators": None, "max_depth": 2, "n_rows": 500}
_FOREST = _NOISY | {"n_estimators": 2, "max_depth": 2, "tree_rows": '"all"', "max_features": "1.0"}
_BOOSTED = _NOISY | {"n_estimators": None, "n_passes": 1, "max_depth": 1, "batch_trees": 3}
_EVOLVED = _NOISY | {"n_generations": 2, "population_size": 4, "max_depth": 2, "n_estimators": None}
_LOCAL: dict[str, Any] = {"epsilon": 30, "n_estimators": 2, "max_depth": 2}
_BLOOM = _LOCAL | {"epsilon": None, "label_privacy": '"local"', "label_scheme": '"bloom"'}
_COLUMNS = {"label_epsilon": 30, "n_estimators": 2, "max_depth": 2, "bootstrap": "false"}
PRIVATE: dict[str, dict[str, Any]] = {  # a protocol, and its settings
    "horizontal_forest": _FOREST,
    "horizontal_forest masked": _FOREST | {"secure_sum": "true"},
    "horizontal_forest perturbed": _FOREST | {"mechanism": '"perturbed_input"'},
    "private_tree distilled": _TREE | {"method": '"distilled"'},
    "private_tree histograms": _TREE | {"method": '"histograms"', "secure_sum": "false"},
    "private_tree save_budget": _TREE | {"method": '"save_budget"'},
    "private_tree propose": _TREE | {"method": '"propose"'},
    "private_tree noisy_max": _TREE | {"method": '"noisy_max"'},
    "private_forest": _NOISY | {"n_estimators": 2},
    "private_boosting": _BOOSTED,
    "extra_trees laplace": _FOREST | {"label_privacy": '"laplace"'},
    "extra_trees local": _LOCAL | {"label_privacy": '"local"'},
    "extra_trees bloom": _BLOOM,
    "genetic_tree": _EVOLVED,
    "genetic_tree masked": _EVOLVED | {"secure_sum": "true"},
    "vertical_forest": {
        "label_epsilon": 30,
        "n_estimators": 2,
        "max_depth": 2,
        "bootstrap": "false",
    },
}
UNPROTECTED_ROWS = (
    "horizontal_forest perturbed", "extra_trees local", "extra_trees bloom", "vertical_forest",
)  # fmt: skip
"""Jobs that promise nothing for a row that is added: the lengths of counts may depend on rows."""
PROPOSED = "private_tree propose"  # replies have a length for each cut proposed, with noise


OUTSIDE = {  # cells of one row that the schema does not allow
    "a class": {"readmitted": "perhaps"},
    "no label": {"readmitted": ""},
    "cells": {"ward": "?", "age": "inf", "stay_days": "1e6", "smokes": "2", "visit": ""},
}


class Watched(Sites):  # type: ignore[misc]
    """Parties whose answers are noted: to whom, what, whether it is a reply, and how long it is."""

    def bytes_to(self, targets, data):
        envelope = codec.decode(data, Envelope)
        answers = super().bytes_to(targets, data)
        for name, answer in answers.items():
            said = codec.decode(answer, Answer)
            self.heard.append((name, envelope.kind, said.state, said.text, said.kind, len(answer)))
        return answers


def run(folder, agreed, name="run-1"):
    """Return the messages that a coordinator sees in a job."""
    sites = Watched(folder, agreed, name)
    sites.heard = []
    settings = agreed.protocol_settings()
    verified = agreed.is_verified
    try:
        channel = sites.keyed() if verified or agreed.is_masked else sites.channel()
        channel = VerifiedSums(channel) if verified else channel
        agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
    finally:
        sites.close()
    assert {state for _, _, state, *_ in sites.heard} == {"reply"}
    return sites.heard


def changed(line, header, cells):
    """Return a line of a CSV file with other cells."""
    values = dict(zip(header.split(","), line.split(","), strict=True)) | cells
    return ",".join(values.values())


def site(folder, cells=None, n_rows=None):
    """Make three parties; north's first row has other cells, or north has few rows."""
    kits(folder)
    for name in CLINICS:
        own = folder / name / "own.csv"
        own.parent.mkdir(exist_ok=True)
        shutil.copyfile(EXAMPLES / f"{name}.csv", own)
        write_party(folder, name, table='source = "csv"\npath = "own.csv"\nrow_id = "visit"')
    own = folder / "north" / "own.csv"
    header, first, *others = own.read_text().splitlines()
    lines = [header, changed(first, header, cells or {}), *others]
    if n_rows is not None:
        lines = lines[: 1 + n_rows]
    own.write_text("\n".join(lines) + "\n")
    return folder


def job_of(folder, case, kind="train"):
    protocol = case.split()[0]
    return agreed_job(folder, f'protocol = "{protocol}"', kind=kind, **PRIVATE[case])


def by_columns(folder, cells):
    """Make two parties with different columns; the bank holds the labels."""
    names = ("bank", "shop")
    kits(folder, names)
    columns = {
        "bank": 'age = { kind = "number", range = [18, 100] }\nmortgage = { kind = "boolean" }',
        "shop": 'basket = { kind = "number", range = [0, 1000] }',
    }
    for name in names:
        own = folder / name / "own.csv"
        own.parent.mkdir(exist_ok=True)
        header, first, *others = (EXAMPLES / f"{name}.csv").read_text().splitlines()
        if name == "bank":
            first = changed(first, header, cells)
        own.write_text("\n".join([header, first, *others]) + "\n")
        table = 'source = "csv"\npath = "own.csv"\nrow_id = "customer"\n[table.columns]\n'
        write_party(folder, name, table=table + columns[name])
    settings = "\n".join(f"{key} = {value}" for key, value in PRIVATE["vertical_forest"].items())
    path = folder / "job.toml"
    path.write_text(
        '[job]\nname = "q3"\nprotocol = "vertical_forest"\nparties = ["bank", "shop"]\n'
        f'[settings]\nlabel_party = "bank"\nmatching = "keyed_hash"\n{settings}\n'
        '[schema]\nlabel = "left"\nclasses = ["no", "yes"]\n[simulation]\nheld_out = 0.0\n'
    )
    return agreement_of(load_job(path, deployed=True))


def seen(heard, case):
    """Return what a transcript may be compared by."""
    if case in UNPROTECTED_ROWS or case == PROPOSED:
        return [message[:5] for message in heard]
    return heard


def test_every_protocol_with_noise_is_tried():
    without_noise = {"horizontal_boosting", "vertical_boosting"}
    assert {case.split()[0] for case in PRIVATE} == set(SPECS) - without_noise


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """Return a function that gives the transcript of a job over clean rows."""
    known = {}

    def of(case):
        if case not in known:
            folder = site(tmp_path_factory.mktemp("clean"))
            known[case] = run(folder, job_of(folder, case))
        return known[case]

    return of


@pytest.mark.parametrize("what", OUTSIDE)
@pytest.mark.parametrize("case", [case for case in PRIVATE if case != "vertical_forest"])
def test_a_row_outside_the_schema_shows_in_no_message(case, what, clean, tmp_path):
    folder = site(tmp_path, OUTSIDE[what])
    heard = run(folder, job_of(folder, case))
    assert seen(heard, case) == seen(clean(case), case)


@pytest.mark.parametrize(
    "cells", [{"left": ""}, {"left": "perhaps"}, {"mortgage": "x", "age": "inf"}]
)
def test_a_row_outside_the_schema_shows_in_no_message_of_a_job_over_columns(cells, tmp_path):
    (tmp_path / "clean").mkdir()
    (tmp_path / "odd").mkdir()
    heard = [
        run(folder, by_columns(folder, own))
        for folder, own in ((tmp_path / "clean", {}), (tmp_path / "odd", cells))
    ]
    assert seen(heard[0], "vertical_forest") == seen(heard[1], "vertical_forest")


@pytest.mark.parametrize("case", [case for case in PRIVATE if case not in UNPROTECTED_ROWS])
def test_whether_a_party_has_a_row_at_all_shows_in_no_message(case, tmp_path):
    heard = []
    for n_rows in (0, 1):
        folder = tmp_path / str(n_rows)
        folder.mkdir()
        site(folder, n_rows=n_rows)
        heard.append(run(folder, job_of(folder, case)))
    assert seen(heard[0], case) == seen(heard[1], case)


@pytest.mark.parametrize("n_rows", [0, 3])
@pytest.mark.parametrize("case", [*UNPROTECTED_ROWS[:-1], "genetic_tree"])
def test_a_party_with_few_rows_is_refused_by_no_job(case, n_rows, tmp_path):
    site(tmp_path, n_rows=n_rows)
    run(tmp_path, job_of(tmp_path, case))


def test_a_label_that_changed_between_two_jobs_shows_in_no_message(tmp_path):
    heard = []
    for changes in (False, True):
        folder = tmp_path / str(changes)
        folder.mkdir()
        site(folder)
        agreed = job_of(folder, "extra_trees local")
        run(folder, agreed, "run-1")
        own = folder / "north" / "own.csv"
        header, first, *others = own.read_text().splitlines()
        if changes:
            label = {"yes": "no", "no": "yes"}[first.rsplit(",", 1)[1]]
            first = changed(first, header, {"readmitted": label})
        own.write_text("\n".join([header, first, *others]) + "\n")
        again = msgspec.structs.replace(agreed, name="q4")
        heard.append(run(folder, again, "run-2"))
    assert seen(heard[0], "extra_trees local") == seen(heard[1], "extra_trees local")


def test_party_check_tells_the_party_what_a_private_job_changes(tmp_path):
    site(tmp_path, {"ward": "nowhere", "readmitted": ""})
    job_of(tmp_path, "private_forest")
    found = check(tmp_path / "north" / "party.toml", tmp_path / "job.toml")
    assert found["outside"] == (
        "Column 'ward': 1 cell is not declared and counts as 'other'. "
        "Label 'readmitted': 1 row has no label and is left out."
    )
    assert found["rows"] == 399


@pytest.mark.parametrize("case", ["private_forest", "extra_trees local"])
def test_a_proposal_is_answered_alike_and_the_party_alone_is_told(case, tmp_path, caplog):
    folder = site(tmp_path, {"ward": "nowhere", "readmitted": "perhaps"})
    agreed = job_of(folder, case, PROPOSE)
    sites = Sites(folder, agreed)
    try:
        replies = sites.channel().ask(ProposalAsk(agreed.digest))
    finally:
        sites.close()
    assert {(reply.accepts, reply.reason) for reply in replies.values()} == {(True, "")}
    assert "Job 'q3': Column 'ward': 1 cell is not declared and counts as 'other'." in caplog.text
    assert "Label 'readmitted': 1 row has no label and is" in caplog.text
