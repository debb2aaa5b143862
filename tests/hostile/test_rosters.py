"""Rosters that differ from party to party: they share no secret, and no sum is opened."""

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    clinics_in,
)
from spinney.errors import ProtocolError
from spinney.protocols.secure_sums.roster import GroupAsk, KeyAsk, RosterAsk

FIRST, SECOND, THIRD = sorted(CLINICS)


@pytest.mark.parametrize("is_masked", ["true", "false"])
@pytest.mark.parametrize("told_less", [FIRST, SECOND])
def test_parties_with_different_rosters_share_no_secret(tmp_path, told_less, is_masked):
    """One is told of two parties, the others of three: a sum of two would pass for one of three."""
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, "quorum = 2", secure_sum=is_masked)
    sites = Sites(tmp_path, agreed)
    wire = sites.channel()
    keys = wire.ask(KeyAsk("run-1/1"))
    replies = {}
    for name in CLINICS:
        names = (FIRST, SECOND) if name == told_less else (FIRST, SECOND, THIRD)
        known = tuple(keys[other] for other in names)
        least = len(names)
        ask = RosterAsk("run-1/1", names, known, (least + 1) // 2, least, least)
        replies[name] = wire.ask(ask, to=(name,))[name]
    others = [name for name in (FIRST, SECOND) if name != told_less]
    letters = GroupAsk("run-1/1", replies[FIRST].letters)
    with pytest.raises(ProtocolError, match=f"letter from party '{FIRST}' cannot be opened"):
        wire.ask(letters, to=(others[0] if told_less == FIRST else told_less,))
    sites.close()
