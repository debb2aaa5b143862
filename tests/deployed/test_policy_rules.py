"""A party's policy: each rule refuses by its name."""

import msgspec
import pytest

from deployed.handmade import ASKER, agreed_job  # type: ignore[import-not-found]
from spinney.deployment.party.policy import Policy, check_policy
from spinney.errors import PolicyError, SettingError
from spinney.protocols.release_terms import Hardening

POLICIES = {
    "other protocols": (
        Policy(protocols=("other",)),
        "allows: other (rule 'protocols')",
    ),
    "too few parties": (Policy(min_parties=4), "has 3 parties; .* requires 4 (rule 'min_parties')"),
    "open sums": (Policy(secure_sum=True), "requires masked sums (rule 'secure_sum')"),
    "small leaves": (Policy(min_samples_leaf=20), "at least 20 (rule 'min_samples_leaf')"),
    "no noise": (Policy(epsilon_per_job=1.0), "adds no noise; .* (rule 'epsilon_per_job')"),
    "no noise in all": (Policy(epsilon_total=1.0), "adds no noise; .* (rule 'epsilon_total')"),
    "a barred column": (Policy(never=("ward",)), "uses 'ward'; .* (rule 'never')"),
    "a barred label": (Policy(never=("readmitted",)), "uses 'readmitted'; .* (rule 'never')"),
    "a stranger": (Policy(askers=("bob@x.org",)), "allows only other askers (rule 'askers')"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_a_refusal_names_the_rule(tmp_path, case):
    policy, words = POLICIES[case]
    with pytest.raises(PolicyError, match=words.replace("(", r"\(").replace(")", r"\)")):
        check_policy("north", policy, agreed_job(tmp_path), ASKER)
    check_policy("north", Policy(), agreed_job(tmp_path), ASKER)


def test_one_party_is_in_the_singular(tmp_path):
    with pytest.raises(PolicyError, match="has 1 party; the policy of 'north' requires 3 "):
        check_policy("north", Policy(), agreed_job(tmp_path, parties=("north",)), ASKER)


def test_exact_counts_leave_only_where_the_policy_allows(tmp_path):
    job = agreed_job(tmp_path)
    assert job.release == Hardening()  # every deployed job has terms
    exact = msgspec.structs.replace(job, release=Hardening(exact_counts=True))
    words = r"lets exact counts leave with the model; .* rounded counts \(rule 'exact_counts'\)"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", Policy(), exact, ASKER)
    check_policy("north", Policy(exact_counts=True), exact, ASKER)


def test_a_quorum_below_the_policy_is_refused(tmp_path):
    with pytest.raises(PolicyError, match="would continue with 2 parties"):
        check_policy("north", Policy(min_parties=3), agreed_job(tmp_path, "quorum = 2"), ASKER)


def test_epsilon_above_the_policy_is_refused(tmp_path):
    with pytest.raises(PolicyError, match="asks for epsilon=2; the policy of 'north' allows 1 "):
        check_policy("north", Policy(epsilon_per_job=1.0), agreed_job(tmp_path, epsilon=2.0), ASKER)
    check_policy("north", Policy(epsilon_per_job=2.0), agreed_job(tmp_path, epsilon=2.0), ASKER)


TRUSTING = {"noisy_max": "shows the coordinator exact counts"}


@pytest.mark.parametrize("method", TRUSTING)
@pytest.mark.parametrize("rule", ["epsilon_per_job", "epsilon_total"])
def test_an_epsilon_that_does_not_hold_against_the_coordinator_is_refused(tmp_path, method, rule):
    job = 'protocol = "private_tree"'
    settings = {"n_estimators": None, "n_rows": 500, "epsilon": 1.0}
    asked = agreed_job(tmp_path, job, method=f'"{method}"', **settings)
    limit = msgspec.convert({rule: 1.0}, Policy)
    words = rf"{TRUSTING[method]} .*name method='distilled' \(rule 'trust_coordinator'\)"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", limit, asked, ASKER)
    check_policy("north", msgspec.structs.replace(limit, trust_coordinator=True), asked, ASKER)
    for trusting_nobody in ("propose", "auto"):
        asked = agreed_job(tmp_path, job, method=f'"{trusting_nobody}"', **settings)
        check_policy("north", limit, asked, ASKER)


def test_noise_on_labels_alone_is_not_taken_for_noise_on_counts(tmp_path):
    settings = {"label_privacy": '"local"', "epsilon": 1.0}
    asked = agreed_job(tmp_path, 'protocol = "extra_trees"', **settings)
    with pytest.raises(PolicyError, match="adds noise to labels only"):
        check_policy("north", Policy(epsilon_per_job=1.0), asked, ASKER)
    check_policy("north", Policy(epsilon_per_job=1.0, trust_coordinator=True), asked, ASKER)


def test_noise_in_shares_is_masked_whatever_the_job_says(tmp_path):
    settings = {"n_estimators": None, "n_rows": 500, "epsilon": 1.0, "method": '"propose"'}
    asked = agreed_job(tmp_path, 'protocol = "private_tree"', **settings)
    assert asked.given.secure_sum is None
    assert asked.is_masked
    check_policy("north", Policy(secure_sum=True), asked, ASKER)


def test_a_job_of_others_is_not_ours(tmp_path):
    with pytest.raises(PolicyError, match="names other parties"):
        check_policy("south", Policy(), agreed_job(tmp_path), ASKER)


def test_policies_that_cannot_be_kept_are_refused():
    with pytest.raises(SettingError, match="min_parties must be at least 1"):
        Policy(min_parties=0)
    with pytest.raises(SettingError, match="epsilon_total must be a finite number above 0"):
        Policy(epsilon_total=float("inf"))


def test_two_parties_are_enough_only_if_a_party_says_so(tmp_path):
    two = agreed_job(tmp_path, parties=("north", "lakeside"))
    words = r"has 2 parties; .* requires 3 unless its \[policy\] says min_parties = 2 \(rule"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", Policy(), two, ASKER)
    check_policy("north", Policy(min_parties=2), two, ASKER)
    with pytest.raises(PolicyError, match=r"would continue with 2 parties; .* requires 3 unless"):
        check_policy("north", Policy(), agreed_job(tmp_path, "quorum = 2"), ASKER)


def test_a_party_s_terms_are_its_leaves_and_its_counts():
    assert Policy().terms == Hardening(1, 15, 15, exact_counts=False)
    assert Policy(min_samples_leaf=20, exact_counts=True).terms == Hardening(
        20, 15, 15, exact_counts=True
    )
