"""Parties in one process: one set-up of secure sums for every simulation and estimator."""

import re
from pathlib import Path

import pytest

import spinney
from spinney.protocols.secure_sums.channel import SecureSums
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.simulated import connect_parties
from spinney.transport.in_process import InProcess

PRIVATE = PrivacySettings(job="j", epsilon="1", in_shares=True)


class Silent:
    def answer(self, ask):
        raise AssertionError(ask)


def connected(**how):
    sides = {name: Silent() for name in "abcde"}
    return connect_parties(sides, **how)


def test_sums_are_verified_with_and_without_masks():
    plain = connected(is_masked=False, privacy=PRIVATE)
    assert isinstance(plain, VerifiedSums)
    assert isinstance(plain._inner, InProcess)
    assert isinstance(connect_parties({"a": Silent()}, is_masked=False), InProcess)


@pytest.mark.parametrize("privacy", [None, PRIVATE])
def test_a_masked_sum_needs_all_its_parties(privacy):
    """As a deployed job's does, unless its quorum says otherwise: nobody opens a sum over fewer."""
    channel = connected(is_masked=True, privacy=privacy)._inner
    assert isinstance(channel, SecureSums)
    assert channel.parties == tuple("abcde")
    assert channel._settings.needs_all
    assert channel._settings.min_survivors == 5


def test_nobody_else_sets_secure_sums_up():
    """Six places did; one of them forgot that a private sum needs all its parties."""
    source = Path(spinney.__file__).parent
    users = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"\bsecure_parties\(|\bKeyPair\.fresh\(\) for", path.read_text())
    ]
    assert sorted(users) == [
        "protocols/secure_sums/simulated.py",
        "protocols/verified/simulated.py",
    ]
