"""Masked rounds in which parties are asked different things, and sums with two readings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    clinics_in,
)
from hostile.cheats import Run, tables_for, with_opened  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier
from spinney.deployment.questions import DerivedAsk, TermsReply
from spinney.errors import ProtocolError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.rows.setup import NOT_KNOWN, CountsReply, EdgesAsk, FactsAsk, ToldReply
from spinney.protocols.secure_sums.channel import MaskedAsk, SecureSums
from spinney.protocols.secure_sums.roster import exchange_keys
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.messages import StepAsk
from spinney.transport.carried import Carried
from spinney.trees.counts import Counts
from spinney.trees.told import ToldCounts

VICTIM = "north"


class Mixing(VerifiedSums):
    """A coordinator that asks one party for a step, and the others for the one before again.

    If masks cancelled, the sum less that of the step before would be the difference of two replies
    of one party.
    """

    facts: Any = None
    opened_words: Any = None

    def sum(self, ask, *, quorum=None):
        if isinstance(ask, EdgesAsk) and self.opened_words is None:
            self._mix(ask)
        result = super().sum(ask, quorum=quorum)
        if isinstance(ask, FactsAsk):
            self.facts = (ask, result)
        return result

    def _mix(self, ask):
        secure: Any = self._inner
        wire, masks = secure._inner, secure._coordinator
        step = StepAsk(self._number + 1, "sum", self._before).derived(ask)
        old = StepAsk(self._number, "sum", ()).derived(self.facts[0])
        mask = masks.begin_round()
        flat = {}
        for name in secure.parties:
            asked = MaskedAsk(mask, "StepAsk", Carried(step if name == VICTIM else old))
            reply = wire.ask(asked, to=(name,))[name].masked
            words = [np.ascontiguousarray(v).reshape(-1).view(np.uint32) for v in reply.vectors]
            flat[name] = replace(reply, vectors=(np.concatenate(words),))
        n = min(reply.vectors[0].size for reply in flat.values())
        for reply in flat.values():
            masks.add_vector(replace(reply, vectors=(reply.vectors[0][:n].copy(),)))
        masks.end_vectors()
        (self.opened_words,) = masks.sums(signed=False)


def test_parties_that_are_asked_different_things_have_masks_that_do_not_cancel(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, secure_sum="true")
    sites = Sites(tmp_path, agreed)
    channel = Mixing(sites.keyed())
    settings = agreed.protocol_settings()
    agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
    sites.close()
    words = channel.opened_words
    assert words.size > 500
    # Counts of a few hundred rows would be small; what is opened is as good as random.
    assert (words > 1 << 20).mean() > 0.99


@pytest.fixture(scope="module")
def tables():
    random = np.random.default_rng(5)
    X = random.normal(size=(240, 5))
    y = (X[:, 0] + X[:, 1] * random.normal(size=240) > 0).astype(int)
    return tables_for(HorizontalForestClassifier(), X, y)


def settings(**changes):
    facts: dict[str, Any] = {"n_estimators": 4, "max_depth": 4, "min_samples_leaf": 5, "seed": 1}
    return horizontal_forest.Settings(task="classification", criterion="gini", **(facts | changes))


def read_otherwise(ask: LevelAsk, total: CountsReply) -> CountsReply:
    """Return other counts whose packed words are the same: a slot's first cell has no digit."""
    counters = total.counts.counters.astype(np.int32)
    second = int(ask.slots.offset[0, 1])
    counters[second, 0] += 1
    return CountsReply(Counts(counters, total.counts.run_ends))


def test_a_sum_has_one_reading(tables):
    """Tags are of packed words; other counts with the same words are refused."""
    forged = []

    def cheat(_, ask):
        about = ask.about
        if not isinstance(about, LevelAsk) or len(about.levels) != 2:
            return ask

        def other(opened):
            before = kept["ask"]
            total = before.taken_in(opened.results[0])
            found = read_otherwise(before, total)
            words = [before.to_ring(one)[0].copy() for one in (total, found)]
            assert np.array_equal(*words)
            forged.append(found)
            return replace(opened, results=(Carried(before.laid_out(found)),))

        return with_opened(ask, other)

    kept: dict[str, Any] = {}

    class Keeping(VerifiedSums):
        def sum(self, ask, *, quorum=None):
            result = super().sum(ask, quorum=quorum)
            kept["ask"] = ask
            return result

    run = Run("horizontal_forest", tables, settings(), change=cheat, is_masked=True)
    run.channel = Keeping(run.wire)
    with pytest.raises(ProtocolError, match="is not what the parties replied"):
        run.trained()
    assert forged


def test_a_sum_of_another_length_is_refused_before_it_is_read(tables):
    def cheat(_, ask):
        if isinstance(ask.about, LevelAsk) and len(ask.about.levels) == 2:
            return with_opened(ask, shortened)
        return ask

    def shortened(opened):
        few = ToldCounts(np.zeros((3, 2), np.int32), np.array([[3]], np.int32), NOT_KNOWN)
        return replace(opened, results=(Carried(ToldReply(few)),))

    run = Run("horizontal_forest", tables, settings(), change=cheat, is_masked=True)
    with pytest.raises(ProtocolError, match="is not what the parties replied"):
        run.trained()


def test_the_end_of_a_run_does_not_forgive_a_wrong_sum(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path)
    sites = Sites(tmp_path, agreed)
    wire = sites.channel()
    channel = VerifiedSums(sites.keyed(wire))
    agreed.spec.train(channel, agreed.protocol_settings(), n_jobs=1, progress=lambda *_: None)
    (last,) = channel.opened
    junk = replace(last, results=last.results * 2, tags=np.zeros(4, np.uint64))
    for before in ((junk,), (last,)):
        with pytest.raises(ProtocolError, match="answers no further question of the run"):
            wire.ask(DerivedAsk("0" * 64, before, TermsReply.of(agreed.release)), to=(VICTIM,))
    sites.close()


def test_a_job_that_is_run_again_without_a_party_is_not_opened(tmp_path):
    """Facts over three parties and over two of them would differ by the third one's."""
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, "quorum = 2", secure_sum="true", honest=2)
    for run, present in (("run-1", CLINICS), ("run-2", ("north", "st-mary"))):
        sites = Sites(tmp_path, agreed, run=run)
        wire = sites.channel()
        wire._present = present
        honest = agreed.honest_among(len(present))
        keys = exchange_keys(wire, f"{run}/1", present, honest=honest)
        secure = SecureSums(wire, keys)
        secure._present = present
        channel = VerifiedSums(secure)
        how: dict[str, Any] = {"n_jobs": 1, "progress": lambda *_: None}
        if run == "run-1":
            agreed.spec.train(channel, agreed.protocol_settings(), **how)
        else:
            with pytest.raises(ProtocolError, match="already opened for another set of parties"):
                agreed.spec.train(channel, agreed.protocol_settings(), **how)
        sites.close()
