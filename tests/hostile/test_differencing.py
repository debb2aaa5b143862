"""What was opened once for some nodes is never opened for other parties."""

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    clinics_in,
)
from spinney.deployment.party.guard import RunRecord
from spinney.deployment.party.keyed import KeyedSide
from spinney.errors import ProtocolError
from spinney.privacy.masking import UnmaskAsk
from spinney.protocols.secure_sums.channel import RevealAsk
from spinney.protocols.verified.channel import VerifiedSums

FOUR = (*CLINICS, "harbour")
REST = ("harbour", "lakeside", "north")


@pytest.fixture
def grown(tmp_path):
    """A masked forest over four parties, of which a sum may lack one, in its middle."""
    clinics_in(tmp_path, FOUR)
    agreed = agreed_job(tmp_path, "quorum = 3", FOUR, secure_sum="true", honest=3)
    sites = Sites(tmp_path, agreed)
    channel = sites.keyed(honest=3, min_survivors=3)
    settings = agreed.protocol_settings()
    agreed.spec.train(VerifiedSums(channel), settings, n_jobs=1, progress=lambda *_: None)
    yield tmp_path, channel
    sites.close()


def test_every_round_was_opened_for_the_nodes_it_is_about(grown):
    folder, _ = grown
    (job,) = (folder / "north" / "records" / "jobs").iterdir()
    opened = RunRecord(job).known("nodes ")
    everybody = ",".join(sorted(FOUR))
    assert set(opened.values()) == {everybody}
    assert any(name.startswith("Level 2 0-") for name in opened)
    assert any(name.startswith("Facts None ") for name in opened)


def test_no_round_is_opened_for_fewer(grown):
    _, channel = grown
    epoch = channel._coordinator._book.ask
    for number in range(epoch.first_round, len(channel._coordinator._history) + 1):
        fewer = UnmaskAsk("run-1/1", epoch.epoch, number, REST, ("st-mary",))
        with pytest.raises(ProtocolError, match="already opened for another set of parties"):
            channel._inner.ask(RevealAsk(fewer), to=("north",))


@pytest.mark.parametrize(
    ("nodes", "survivors", "is_refused"),
    [
        (("Level 2", 0, 10), "a,b,c", False),  # once more, for the same
        (("Level 2", 0, 10), "a,b", True),
        (("Level 2", 9, 12), "a,b", True),  # one node of it
        (("Level 2", 10, 12), "a,b", False),  # other nodes, after c has left
        (("Level 3", 0, 10), "a,b", False),  # another level
        (("Facts None", 0, 1 << 62), "a,b", True),
    ],
)
def test_nodes_are_compared_and_not_words(tmp_path, nodes, survivors, is_refused):
    record = RunRecord(tmp_path)
    record.settle("nodes Level 2 0-10", "a,b,c")
    record.settle(f"nodes Facts None 0-{1 << 62}", "a,b,c")
    side = KeyedSide.__new__(KeyedSide)
    side._of_job, side._nodes = record, {1: nodes}
    assert side._was_opened_for_others(1, survivors) is is_refused
