"""A party's budget: a job that the ledger would refuse is refused before it starts."""

from typing import Any

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    agreed_job,
    clinics_in,
    write_party,
)
from spinney.cli.main import app
from spinney.deployment.costs import cost_of
from spinney.deployment.job import EVALUATE, Agreed
from spinney.deployment.party.budget import check_budget, left_per_unit
from spinney.deployment.party.config import load_party
from spinney.deployment.party.policy import Policy, check_policy
from spinney.deployment.party.status import status
from spinney.deployment.party.tables import open_ledger, open_table
from spinney.deployment.text import party_page
from spinney.errors import LedgerError, PolicyError, SettingError, SpinneyError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Question
from spinney.tables.holding import Holding
from spinney.tables.schema import Label

FOREST = {"epsilon": 1.0, "n_estimators": 5}
PAID_PER_RECORD: dict[str, dict[str, Any]] = {
    "horizontal_forest": FOREST,
    "extra_trees": FOREST | {"label_privacy": '"laplace"'},
    "private_forest": FOREST,
    "private_tree": {"epsilon": 1.0, "n_estimators": None, "n_rows": 500, "method": '"propose"'},
}


@pytest.fixture
def clinics(tmp_path):
    return clinics_in(tmp_path)


def job_of(folder, protocol, **settings):
    return agreed_job(folder, f'protocol = "{protocol}"', **settings)


def checked(folder, job, policy):
    party = load_party(write_party(folder, "north", policy=policy))
    check_budget(party, job, open_table(party, job))
    return party


def pay(party, job):
    """Charge everything that a job may spend to the party's ledger, as a run would."""
    n_parties, data = len(job.parties), party.ledger.data
    table = open_table(party, job)
    charges = job.spec.charges(table, job.protocol_settings(), n_parties, data)
    ledger = open_ledger(party)
    ledger.open_job(charges.terms)
    ledger.reserve(Question.of(charges.terms.name, 0, b""), charges.spends)
    ledger.close()


@pytest.mark.parametrize("protocol", PAID_PER_RECORD)
def test_a_job_that_the_ledger_would_refuse_is_refused_before_it_starts(clinics, protocol):
    job = job_of(clinics, protocol, **PAID_PER_RECORD[protocol])
    words = (
        r"Job 'q3' would cost epsilon=2 for a record replaced by another \(twice what a record "
        r"added or removed costs\); the policy of 'north' allows less for the rest of the data "
        r"set's life \(rule 'epsilon_total'\)\. Lower the job's epsilon, or .* raise epsilon_total"
    )
    with pytest.raises(PolicyError, match=words) as refused:
        checked(clinics, job, "epsilon_total = 1.5")
    assert refused.value.local == "Left: epsilon=1.5."
    assert "1.5" not in refused.value.public  # what other jobs have spent stays at home
    pay(checked(clinics, job, "epsilon_total = 2.0"), job)


def test_a_label_that_is_randomised_costs_once(clinics):
    settings = FOREST | {"label_privacy": '"local"'}
    job = job_of(clinics, "extra_trees", **settings)
    pay(checked(clinics, job, "epsilon_total = 1.0"), job)
    later = msgspec.structs.replace(job, name="q4")
    with pytest.raises(PolicyError, match="would cost epsilon=1 for a record's label; the policy"):
        checked(clinics, later, "epsilon_total = 1.0")


def test_only_the_party_with_the_labels_pays_for_them(tmp_path):
    settings = msgspec.json.encode(
        {"label_party": "bank", "label_epsilon": 1.0, "matching": "keyed_hash"}
    )
    job = Agreed.of_bytes(
        b'{"kind":"train","name":"q3","protocol":"vertical_forest","task":"classification",'
        b'"parties":["bank","shop"],"quorum":2,"settings":' + settings + b',"schema":'
        b'{"label":"left","classes":["no","yes"]},"held_out":0.0,"held_out_seed":0}'
    )
    label, target = Label("left", "class", ("no", "yes")), np.zeros(4, np.int64)
    policy = "epsilon_total = 0.5"
    bank = load_party(write_party(tmp_path, "bank", policy=policy))
    with pytest.raises(PolicyError, match="would cost epsilon=1 for a record's label; the policy"):
        check_budget(bank, job, Holding(4, label=label, target=target))
    shop = load_party(write_party(tmp_path, "shop", policy=policy))
    check_budget(shop, job, Holding(4))


def test_the_number_of_rows_has_a_price_too(clinics):
    settings = {"n_estimators": None, "size_epsilon": 1.0}
    job = job_of(clinics, "genetic_tree", **settings)
    with pytest.raises(PolicyError, match="would cost epsilon=2 for a record replaced by another"):
        checked(clinics, job, "epsilon_total = 1.5")


def test_a_search_in_zcdp_is_refused_beside_a_lifetime_in_epsilon(clinics):
    job = job_of(clinics, "genetic_tree", n_estimators=None, epsilon=1.0)
    with pytest.raises(SettingError, match="counts in zCDP, which has no cost in pure epsilon"):
        checked(clinics, job, "epsilon_total = 5.0")
    checked(clinics, job, "")


def test_a_job_with_delta_needs_a_lifetime_with_delta(clinics):
    small = {"n_estimators": None, "n_passes": 1, "max_depth": 2}
    job = job_of(clinics, "private_boosting", epsilon=1.0, delta=1e-6, **small)
    with pytest.raises(SettingError, match="counts in Gaussian noise, which has no cost in pure"):
        checked(clinics, job, "epsilon_total = 5.0")
    pay(checked(clinics, job, "epsilon_total = 5.0\ndelta_total = 1e-6"), job)
    later = msgspec.structs.replace(job, name="q4")
    with pytest.raises(PolicyError, match=r"would cost rho=0\.112058 for a record replaced by"):
        checked(clinics, later, "epsilon_total = 2.5\ndelta_total = 1e-6")


def test_a_delta_of_no_epsilon_is_refused(clinics):
    job = job_of(clinics, "private_forest", **FOREST)
    with pytest.raises(SpinneyError, match="Give epsilon_total too, or drop it"):
        checked(clinics, job, "delta_total = 1e-6")


def test_earlier_jobs_count_and_a_job_that_has_begun_may_continue(clinics):
    job = job_of(clinics, "private_forest", **FOREST)
    pay(checked(clinics, job, "epsilon_total = 3.0"), job)
    checked(clinics, job, "epsilon_total = 3.0")  # the same job: its replies are stored
    with pytest.raises(PolicyError, match="would cost epsilon=2") as refused:
        checked(clinics, msgspec.structs.replace(job, name="q4"), "epsilon_total = 3.0")
    assert refused.value.local == "Left: epsilon=1."
    other = job_of(clinics, "private_forest", **(FOREST | {"epsilon": 0.5}))
    with pytest.raises(LedgerError, match="Job 'q3' was opened on other terms"):
        checked(clinics, other, "epsilon_total = 3.0")


def test_a_check_writes_nothing(clinics):
    job = job_of(clinics, "private_forest", **FOREST)
    party = checked(clinics, job, "epsilon_total = 3.0")
    assert not (party.folder / party.ledger.path).exists()
    pay(party, job)
    before = (party.folder / party.ledger.path).read_bytes()
    checked(clinics, job, "epsilon_total = 2.5")
    assert (party.folder / party.ledger.path).read_bytes() == before


def test_jobs_that_charge_nothing_need_no_budget(clinics):
    exact = job_of(clinics, "horizontal_forest")
    checked(clinics, exact, "epsilon_total = 0.1")
    judged = msgspec.structs.replace(
        job_of(clinics, "private_forest", **FOREST), kind=EVALUATE, model="0" * 64
    )
    checked(clinics, judged, "epsilon_total = 0.1")


def test_the_status_shows_what_is_left_for_every_unit(clinics):
    job = job_of(clinics, "private_forest", **FOREST)
    path = write_party(clinics, "north", policy="epsilon_total = 3.0")
    assert status(path)[0]["budget"] == "epsilon 3 left"  # the ledger does not know it yet
    party = load_party(path)
    pay(party, job)
    assert left_per_unit(party) == {
        Unit.RECORD_ADD_REMOVE: 2,
        Unit.RECORD_REPLACE: 1,
        Unit.LABEL: 1,
    }
    text = party_page(*status(path))
    (first, second, third) = text.split("budget:")[1].splitlines()[:3]
    assert first.strip() == "epsilon 2 left for a record added or removed"
    assert second == " " * (len("budget:") + first.index("e")) + second.strip()  # in one column
    assert second.strip() == "epsilon 1 left for a record replaced by another"
    assert third.strip() == "epsilon 1 left for a record's label"


def test_a_ledger_without_a_limit_says_so(clinics):
    path = write_party(clinics, "north")
    assert "budget" not in status(path)[0]
    Ledger.open(clinics / "north" / "ledger.db", "north").close()
    assert party_page(*status(path)).split("budget:")[1].splitlines()[0].strip() == "no limit"


def test_party_check_asks_the_ledger(clinics):
    job_of(clinics, "private_forest", **FOREST)
    path = write_party(clinics, "north", policy="epsilon_per_job = 1.0\nepsilon_total = 1.5")
    asked = ["party", "check", str(path), "--job", str(clinics / "job.toml")]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == PolicyError.exit_code
    assert "(rule 'epsilon_total')" in said.stderr
    assert said.stderr.rstrip().endswith("Left: epsilon=1.5.")
    write_party(clinics, "north", policy="epsilon_per_job = 1.0\nepsilon_total = 2.0")
    assert CliRunner().invoke(app, asked).exit_code == 0


def test_party_check_says_how_many_rows_are_held_back(clinics):
    agreed_job(clinics, held_out=0.2)
    path = write_party(clinics, "north")
    asked = ["party", "check", str(path), "--job", str(clinics / "job.toml")]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == 0, said.stderr
    assert "rows:                320\n" in said.stdout
    assert "80 rows are held back to score the model, as the job's held_out says" in said.stdout


def test_an_epsilon_per_count_is_noise_without_a_total(tmp_path):
    settings = {"epsilon_per_count": 0.1, "tree_rows": '"all"', "bootstrap": "false"}
    job = agreed_job(tmp_path, **settings)
    words = "gives epsilon_per_count, which sets no epsilon for the whole job; .* at most"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", Policy(epsilon_per_job=1.0), job, ASKER)
    assert str(cost_of(job)).startswith("epsilon 0.1 per count; at most ")
    assert str(cost_of(agreed_job(tmp_path))).startswith("no noise; at most ")
