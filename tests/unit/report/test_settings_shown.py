"""The settings in a report, and its guarantees after an evaluation."""

import msgspec
import numpy as np
import pytest

from spinney import HorizontalForestClassifier
from spinney.protocols.explanation import ExplainAsk
from spinney.report.page.course import how_it_went
from spinney.report.privacy import PrivacyClaim
from spinney.report.settings import settings_in_words
from spinney.transport.channel import Round

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
MASKED = "masked: single replies are hidden while 2 of 3 parties are honest"


@pytest.fixture
def reports(ward_table, ward_labels):
    """The reports of the same forest, with and without masks."""
    y = ward_labels["two classes"]
    party = np.arange(len(y)) % 3
    found = {}
    for secure_sum in (False, True):
        forest = HorizontalForestClassifier(2, max_depth=2, random_state=0, secure_sum=secure_sum)
        found[secure_sum] = forest.fit(ward_table, y, party=party).report_
    return found


def asked(protection):
    sent = dict.fromkeys(("0", "1", "2"), 100)
    return [Round(1, "Explain", "sum", ExplainAsk.reveals, protection, sent, sent, 0.1, (*sent,))]


def test_the_settings_say_whether_sums_were_masked(reports):
    assert reports[False].settings["secure_sum"] is False
    assert "honest" not in reports[False].settings
    assert reports[True].settings["secure_sum"] is True
    assert reports[True].settings["honest"] == 2
    row = '<th scope="row">secure_sum</th><td data-label="value">true</td>'
    assert row in str(how_it_went(reports[True]))


def test_settings_are_told_in_words():
    given = {
        "max_depth": None,
        "bootstrap": True,
        "class_weight": (1.0, 3.0),
        "seed": 17,
        "privacy": {"job": "q3", "epsilon": "1/10", "in_shares": False, "read_facts": []},
    }
    assert settings_in_words(given) == {
        "max_depth": "not set",
        "bootstrap": "true",
        "class_weight": "1.0, 3.0",
        "seed, made from random_state": "17",
        "privacy": "noise",
        "privacy, job": "q3",
        "privacy, epsilon": "0.1",
        "privacy, in_shares": "false",
    }
    assert settings_in_words({"privacy": None}) == {"privacy": "no noise"}
    of_labels = {"privacy": "noise", "privacy, label_epsilon": "0.5"}
    assert settings_in_words({"privacy": "1/2"}) == of_labels
    assert settings_in_words({"privacy": {"label_epsilon": "1/2"}}) == of_labels


def test_settings_that_a_job_has_no_use_for_are_not_told():
    privacy = {
        "epsilon": "2",
        "mechanism": "noisy_histograms",
        "tree_rows": "all",
        "sample_rate": "1/2",
        "leaf_share": "1/2",
        "label_scheme": "randomised_response",
    }
    tree = {"privacy": privacy, "method": "distilled", "n_bins": 10, "bounds_share": "1/4"}
    assert settings_in_words(tree) == {
        "privacy": "noise",
        "privacy, epsilon": "2",
        "privacy, mechanism": "noisy_histograms",
        "privacy, leaf_share": "0.2",  # of a distilled tree a fifth at most counts its leaves
        "method": "distilled",
    }
    saving = settings_in_words(tree | {"method": "save_budget"})
    assert {"n_bins", "bounds_share"} <= saving.keys()
    forest = settings_in_words({"privacy": privacy | {"tree_rows": "sampled"}})
    assert forest["privacy, sample_rate"] == "0.5"
    labels = settings_in_words({"privacy": privacy | {"mechanism": "randomised_labels"}})
    assert labels["privacy, label_scheme"] == "randomised_response"
    assert "privacy, sample_rate" not in labels


def test_an_evaluation_is_among_the_guarantees(reports):
    report = reports[False]
    told = report.asked(asked("none"))
    assert told.privacy[3:] == report.privacy[3:]  # other parties are not told
    for before, after in zip(report.privacy[1:3], told.privacy[1:3], strict=True):
        assert ExplainAsk.reveals not in before.text
        assert ExplainAsk.reveals in after.text
        assert after.verdict == "UNPROTECTED"
    assert told.privacy[0] == report.privacy[0]  # of readers of the model


def test_a_masked_evaluation_is_hidden_party_by_party(reports):
    told = reports[True].asked(asked(MASKED)).privacy[2].text
    assert f"{ExplainAsk.reveals} ({MASKED})." in told


def test_an_exact_evaluation_ends_the_epsilon_against_the_coordinator(reports):
    def claim(view, against):
        text = f"One record, added or removed, against {against}: epsilon=1. No more."
        return PrivacyClaim(("0",), "record, add or remove", view, "EPSILON", "1", "0", text)

    reader, coordinator = claim("reader", "readers of the model"), claim("coordinator", "the sum")
    report = msgspec.structs.replace(reports[False], privacy=(reader, coordinator))
    assert report.asked([]).privacy == report.privacy
    kept, broken = report.asked(asked("none")).privacy
    assert kept == reader
    assert (broken.verdict, broken.epsilon, broken.delta) == ("UNPROTECTED", None, None)
    assert broken.text == (
        "One record, added or removed, against the sum: UNPROTECTED, as exact numbers after "
        f"training: {ExplainAsk.reveals}. No epsilon holds."
    )
