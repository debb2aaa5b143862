"""Parties in one process: one set-up of secure sums for every simulation and estimator."""

import re
from pathlib import Path

import pytest

import spinney
from spinney.protocols import horizontal_forest
from spinney.protocols.secure_sums import simulated
from spinney.protocols.secure_sums.channel import SecureSums
from spinney.protocols.settings import PrivacySettings
from spinney.transport.in_process import InProcess

PRIVATE = PrivacySettings(job="j", epsilon="1", in_shares=True)


class Silent:
    def answer(self, ask):
        raise AssertionError(ask)


def connected(**how):
    sides = {name: Silent() for name in "abcde"}
    return simulated.connect_parties(sides, horizontal_forest.SUMMED, **how)


def test_without_masks_the_channel_is_plain():
    assert isinstance(connected(is_masked=False, privacy=PRIVATE), InProcess)


@pytest.mark.parametrize(("privacy", "least"), [(None, None), (PRIVATE, 5)])
def test_a_private_sum_needs_all_its_parties(privacy, least):
    channel = connected(is_masked=True, privacy=privacy)
    assert isinstance(channel, SecureSums)
    assert channel.parties == tuple("abcde")
    if least is None:
        assert channel._settings.min_survivors < 5  # one that leaves is borne
    else:
        assert channel._settings.min_survivors == least


def test_nobody_else_sets_secure_sums_up():
    """Six places did; one of them forgot that a private sum needs all its parties."""
    source = Path(spinney.__file__).parent
    users = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"\bsecure_parties\(|\bKeyPair\.fresh\(\) for", path.read_text())
    ]
    assert users == ["protocols/secure_sums/simulated.py"]
