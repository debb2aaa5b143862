"""All sums of a job are over the same parties, so that none can be subtracted from another."""

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    clinics_in,
)
from hostile.cheats import open_sum  # type: ignore[import-not-found]
from spinney.deployment.party.keyed import KeyedSide
from spinney.errors import ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.privacy.masking import UnmaskAsk
from spinney.protocols.secure_sums.channel import RevealAsk
from spinney.protocols.verified.channel import VerifiedSums
from spinney.transport.carried import Carried

FOUR = (*CLINICS, "harbour")
REST = ("harbour", "lakeside", "north")
SAID = "already opened for another set of parties"


class SayingThatOneLeft(VerifiedSums):
    """A coordinator that says at every step that a party has left, and then asks as it should."""

    refused: dict[str, str]
    _inner: Any

    def sum(self, ask, *, quorum=None):
        number, step = self._number, self._step("sum", ask)
        self._number = number
        if self.refused or type(ask).__name__ != "FactsAsk":
            with pytest.raises(ProtocolError) as refused:
                open_sum(self._inner, step, Carried(step), REST)
            self.refused[f"{ask.called()} {ask.step}"] = str(refused.value)
            self._inner._coordinator._history[-1] = 0  # that round was never opened
        return super().sum(ask, quorum=quorum)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A masked forest over four parties, of which a sum may lack one, in its middle."""
    folder = tmp_path_factory.mktemp("four")
    clinics_in(folder, FOUR)
    agreed = agreed_job(folder, "quorum = 3", FOUR, secure_sum="true", honest=3)
    sites = Sites(folder, agreed)
    secure = sites.keyed(honest=3, min_survivors=3)
    channel = SayingThatOneLeft(secure)
    channel.refused = {}
    settings: Any = agreed.protocol_settings()
    training = agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
    yield secure, channel.refused, training
    sites.close()


def test_no_sum_is_opened_without_a_party_that_was_in_an_earlier_one(grown):
    """What a node held with a party, less what its children hold without it, is its histogram."""
    _, refused, training = grown
    assert {"Level 0", "Level 1", "Level 2", "Quality None"} <= set(refused)
    assert all(SAID in said and "Wait until all are back" in said for said in refused.values())
    assert training.model.forest.n_trees > 0  # with all of them it goes on


def test_no_round_is_opened_for_fewer(grown):
    channel = grown[0]
    epoch = channel._coordinator._book.ask
    for number, bits in enumerate(channel._coordinator._history, start=1):
        if bits and number >= epoch.first_round:
            fewer = UnmaskAsk("run-1/1", epoch.epoch, number, REST, ("st-mary",))
            with pytest.raises(ProtocolError, match=SAID):
                channel._inner.ask(RevealAsk(fewer), to=("north",))


@pytest.mark.parametrize("others", ["a,b", "a,b,c,d"])  # one more: the children show its rows
def test_a_job_has_one_set_of_parties_though_its_records_are_put_back(tmp_path, others):
    """Sums are opened for those of the first one, which stands in the ledger."""
    with closing(Ledger.open(tmp_path / "ledger.db", "north")) as ledger:
        for survivors, is_opened in (("a,b,c", True), (others, False), ("a,b,c", True)):
            side: Any = KeyedSide.__new__(KeyedSide)  # as after a restart without any file
            side._agreed = SimpleNamespace(digest="of the job")
            side._memory = lambda: ledger
            assert side._are_those_of_earlier_sums(survivors) is is_opened
        side._agreed = SimpleNamespace(digest="of another job")
        assert side._are_those_of_earlier_sums(others)
