"""A party's limits for an audit: impossible and contradictory ones are refused in words."""

import pytest

from spinney.deployment.party.policy import Policy
from spinney.errors import SettingError
from spinney.report.audit_limits import AuditLimits


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"most_isolated": 1.5}, "most_isolated is a share between 0 and 1; got 1.5"),
        ({"least_group": 0}, "least_group must be at least 1; got 0"),
        ({"most_epsilon": 0}, "most_epsilon must be above 0; got 0"),
        ({"most_tpr_at_1_percent": 0.005}, "is below 0.01, which guessing reaches"),
        ({"most_tpr_at_01_percent": 0.0}, "is below 0.001, which guessing reaches"),
        (
            {"most_tpr_at_01_percent": 0.2, "most_tpr_at_1_percent": 0.1},
            "whoever may raise more false alarms finds at least as many members",
        ),
        (
            {"most_isolated": 0.2, "most_isolated_in_sums": 0.1},
            "the sums hold every count of the model",
        ),
        ({"least_group": 1, "most_isolated": 0}, "lets no row stand alone"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(limits, said):
    with pytest.raises(SettingError, match=said):
        AuditLimits(**limits)


def test_limits_that_contradict_the_policy_are_refused():
    with pytest.raises(SettingError, match="lets runs show more than epsilon_per_job = 1"):
        Policy(epsilon_per_job=1.0, audit=AuditLimits(most_epsilon=2.0))
