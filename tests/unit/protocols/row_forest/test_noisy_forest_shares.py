"""A forest with noise on its histograms, in shares under masks."""

from typing import Any

import numpy as np
import pytest

from spinney.errors import (
    InternalError,
    PartyLostError,
    ProtocolError,
)
from spinney.privacy.ledger_store import Charged
from spinney.privacy.release import Noised, OnlyMasked, shares_in
from spinney.protocols import horizontal_forest
from spinney.protocols.accounts.account import JoinAsk
from spinney.protocols.row_forest.messages import NoisyLevelAsk
from spinney.protocols.secure_sums.channel import MaskedAsk, RevealAsk
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.transport.in_process import InProcess
from unit.protocols.row_forest.noisy_forests import (  # type: ignore[import-not-found]
    RECORD,
    Noting,
    job,
    masked,
    parties_of,
    table,
)


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_shares_under_masks_cost_exactly_epsilon(n_parties):
    made, ledgers = parties_of(table(), n_parties)
    channel = masked(made)
    training = horizontal_forest.train(channel, job(in_shares=True))
    for ledger in ledgers.values():
        assert ledger.spent("q", RECORD) == 1
        charged = [e.body for e in ledger.entries() if isinstance(e.body, Charged)]
        assert {c.t_honest for c in charged} == {(n_parties + 1) // 2}
        assert {c.parameters["parties"] for c in charged} == {str(n_parties)}
    totals = [c for c in training.claims if c.unit == "a party's own totals"]
    assert {claim.verdict for claim in totals} == {"HIDDEN"}


def test_a_share_never_leaves_without_a_mask():
    for through_codec in (False, True):
        made, _ = parties_of(table())
        channel = InProcess(made, through_codec=through_codec)
        with pytest.raises(ProtocolError, match="may leave only under a mask"):
            horizontal_forest.train(channel, job(in_shares=True))


def test_own_noise_under_masks_is_fine_too():
    made, ledgers = parties_of(table())
    channel = secure_parties(made, InProcess, horizontal_forest.SUMMED, job="q")
    horizontal_forest.train(channel, job())
    assert [ledger.spent("q", RECORD) for ledger in ledgers.values()] == [1, 1]


class Leaves:
    """A party in a secure sum that stops answering at a level."""

    def __init__(self, party, level):
        self.party, self.level, self.gone = party, level, False

    def answer(self, ask):
        if isinstance(ask, MaskedAsk) and ask.kind == "NoisyLevelAsk":
            question = ask.question.open(NoisyLevelAsk)
            self.gone |= len(question.levels) == self.level
        if self.gone:
            raise PartyLostError("It does not answer.")
        return self.party.answer(ask)


@pytest.mark.parametrize("level", [0, 1])
def test_a_sum_with_a_share_missing_is_opened_by_no_party(level):
    """Whatever the sums' own settings allow: here two of three would be enough for them."""
    made, ledgers = parties_of(table(), 3)
    asked: dict[str, Any] = {}

    def connect(wrapped):
        noting = {name: Noting(party) for name, party in wrapped.items()}
        asked.update({name: party.asked for name, party in noting.items()})
        return InProcess({**noting, "2": Leaves(noting["2"], level)})

    channel = secure_parties(made, connect, horizontal_forest.SUMMED, job="q")
    with pytest.raises(ProtocolError, match="2 of the 3 parties that share the noise") as told:
        horizontal_forest.train(channel, job(in_shares=True, epsilon="400"))
    assert "Nothing was revealed" in told.value.public
    for name in "01":  # none of them revealed a share of that round; the charge stands
        opened = [ask for ask, _ in asked[name] if isinstance(ask, RevealAsk)]
        assert len(opened) == level
        assert ledgers[name].spent("q", RECORD) == 100 * (level + 1)


def test_without_shares_a_party_may_leave_and_the_rest_goes_on():
    made, ledgers = parties_of(table(), 3)

    def connect(wrapped):
        return InProcess({**wrapped, "2": Leaves(wrapped["2"], 1)})

    channel = secure_parties(made, connect, horizontal_forest.SUMMED, job="q")
    training = horizontal_forest.train(channel, job(epsilon="400"))
    assert {claim.party for claim in training.claims} == {"0", "1"}
    assert [ledgers[name].spent("q", RECORD) for name in "012"] == [400, 400, 100]


def test_masks_that_rest_on_more_honest_parties_than_the_noise_are_refused():
    """The claim is against as many curious as the noise allows; masks must hold out as long."""
    made, _ = parties_of(table(), 5)
    channel = secure_parties(made, InProcess, horizontal_forest.SUMMED, job="q", honest=4)
    with pytest.raises(ProtocolError, match="of which 3 must be honest; the masks are for 5 and"):
        horizontal_forest.train(channel, job(in_shares=True))


def test_masks_of_fewer_parties_than_share_the_noise_are_refused():
    made, _ = parties_of(table(), 3)
    asked: list[Any] = []
    made["0"] = Noting(made["0"], asked)
    horizontal_forest.train(masked(made), job(in_shares=True))
    join = next(ask for ask, _ in asked if isinstance(ask, JoinAsk))
    level: Any = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    pair, _ = parties_of(table(), 2)
    for party in pair.values():
        party.answer(join)
    with pytest.raises(ProtocolError, match="3 parties share the noise"):
        secure_parties(pair, InProcess, horizontal_forest.SUMMED, job="q").sum(level)


def test_noise_of_a_partys_own_needs_no_mask():
    with pytest.raises(InternalError, match="need no mask"):
        OnlyMasked(Noised(np.zeros(3, np.int64)))
    assert shares_in("no reply") is None
