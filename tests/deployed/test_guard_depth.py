"""A party refuses other settings than it accepted, however deep a question hides them."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    Sites,
    agreed_job,
    clinics_in,
)
from spinney.deployment.party.guard import Guarded, RunRecord
from spinney.deployment.party.progress import Advance
from spinney.errors import PolicyError
from spinney.protocols.settings import ForestSettings, PrivacySettings
from spinney.protocols.verified.channel import VerifiedSums
from spinney.transport.channel import Ask
from spinney.transport.messages import message

ACCEPTED = PrivacySettings(job="q3", epsilon="1")
SETTINGS = ForestSettings(task="classification", privacy=ACCEPTED)


@message
class NothingReply:
    pass


@message
class DeepAsk(Ask[NothingReply]):
    """What lies below?"""

    inside: Any
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = NothingReply


@dataclass(frozen=True)
class Box:
    inside: Any


class PrivacySettingsLike(PrivacySettings):
    """Of the right type, whatever it is called."""


def boxed(value, depth):
    """Put a value into boxes, tuples and dicts, one in another."""
    for number in range(depth):
        value = (Box(value), (value,), {"": value}, [value])[number % 4]
    return value


class Willing:
    def answer(self, ask):
        del ask
        return NothingReply()


@pytest.fixture
def guarded(tmp_path):
    record = RunRecord(tmp_path / "run")
    advance = Advance(record.folder, "q3", 3)
    return Guarded(Willing(), SETTINGS, "a schema", record, masked=False, advance=advance)


@pytest.mark.parametrize("depth", [0, 1, 5, 7, 20])
@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        (replace(SETTINGS, min_samples_leaf=2), "its settings differ"),
        (PrivacySettings(job="q3", epsilon="9"), "its privacy settings differ"),
        (PrivacySettingsLike(job="q3", epsilon="9"), "its privacy settings differ"),
    ],
)
def test_other_settings_are_refused_however_deep_they_lie(guarded, depth, hidden, words):
    assert guarded.answer(DeepAsk(boxed(SETTINGS, depth))) == NothingReply()
    assert guarded.answer(DeepAsk(boxed(ACCEPTED, depth))) == NothingReply()
    with pytest.raises(PolicyError, match=words):
        guarded.answer(DeepAsk(boxed(hidden, depth)))


def test_something_that_is_only_called_so_is_not_mistaken_for_it(guarded):
    @dataclass(frozen=True)
    class PrivacySettings:
        epsilon: str = "9"

    assert guarded.answer(DeepAsk(PrivacySettings())) == NothingReply()


def test_a_job_s_own_questions_pass(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, epsilon=4)
    sites = Sites(tmp_path, agreed)
    settings = agreed.protocol_settings()
    trained = agreed.spec.train(
        VerifiedSums(sites.keyed()), settings, n_jobs=1, progress=lambda *_: None
    )
    sites.close()
    assert trained.model.forest.n_trees == settings.n_estimators
