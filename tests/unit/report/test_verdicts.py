"""What a report says of personal trees beside joint models."""

import re

import pytest

from spinney.report.facts import PartyQuality
from spinney.report.verdicts import beside_joint


def judged(score, own, tree, forest):
    scores = {score: own, f"joint_tree_{score}": tree, f"joint_forest_{score}": forest}
    return [PartyQuality("a", "held-out", 9, scores), PartyQuality("b", "held-out", 9, {score: 0})]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (judged("f1", 0.5, 0.6, 0.7), r"F1 0\.600 .* forest 0\.700, against 0\.500"),
        (judged("f1", 0.5, 0.6, 0.7), r"may leave, grow a tree or a forest so\.$"),
        (judged("f1", 0.5, 0.4, 0.7), r"may leave, grow a forest so\.$"),
        (judged("f1", 0.5, 0.5, 0.4), r"may leave, neither is better here\.$"),
        (judged("rmse", 5.0, 4.0, 6.0), r"RMSE 4\.000 .* may leave, grow a tree so\.$"),
    ],
)
def test_a_joint_model_is_recommended_where_it_is_better_and_counts_may_leave(found, says):
    assert re.search(says, beside_joint(found))


def test_without_joint_models_nothing_is_said():
    assert beside_joint([PartyQuality("a", "held-out", 9, {"f1": 0.5, "local_f1": 0.4})]) == ""
    assert beside_joint([]) == ""
