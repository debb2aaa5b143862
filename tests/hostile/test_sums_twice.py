"""Sums that a coordinator opens twice, for too few parties, or reads though it is blind."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
)
from hostile.cheats import open_sum  # type: ignore[import-not-found]
from spinney.deployment.coordinator.process import Run
from spinney.deployment.evaluation import digest_of
from spinney.deployment.job import EVALUATE
from spinney.deployment.questions import DerivedAsk, TermsReply
from spinney.errors import ProtocolError
from spinney.protocols.explanation import ExplainAsk, question_of
from spinney.protocols.genetic_tree.messages import DepthAsk
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.tags import SumKeys
from spinney.report.file_names import MODEL
from spinney.transport import codec
from spinney.transport.carried import Carried
from spinney.typing import silent

FOUR = (*CLINICS, "harbour")
TERMS = TermsReply.of(Hardening())
REST = ("harbour", "lakeside", "north")


def train(job, channel):
    return job.spec.train(channel, job.protocol_settings(), n_jobs=1, progress=silent)


@pytest.mark.parametrize("n_parties", [2, 3, 4, 8])
def test_the_masks_of_a_blind_sum_hide_its_low_bits_too(n_parties):
    """With one mask for all, the sum of an even number of parties shows its last bits."""
    keys, names = SumKeys.fresh(), [f"party {i}" for i in range(n_parties)]
    total = np.zeros(2000, np.uint64)
    for name in names:
        own = np.zeros(2000, np.uint64)
        keys.hide(3, b"story", name, [own])
        total += own
    ones = (total & np.uint64(1)).sum()
    assert 800 < ones < 1200
    (shown,) = keys.show(3, b"story", [total], names)
    assert not shown.any()


def with_one_field_more(ask):
    """Return a message that decodes to the same question and has other bytes."""
    name, fields, blobs = codec._parts(codec.encode(ask))
    more = msgspec.msgpack.encode(msgspec.msgpack.decode(fields) | {"zz": 1})
    head = msgspec.msgpack.encode([name, msgspec.Raw(more), [len(blob) for blob in blobs]])
    data = b"".join([codec._FRAME.pack(b"SPNY", 1, len(head)), head, *map(bytes, blobs)])
    assert codec.encode(codec.decode(data, ExplainAsk)) == codec.encode(ask) != data
    return data


def evaluation_of(folder):
    clinics_in(folder, FOUR)
    job = agreed_job(folder, "quorum = 3", FOUR, secure_sum="true", honest=3)
    sites = Sites(folder, job)
    Run(coordinator_in(folder), job, attempt_of(job), sites.bytes_to).conduct()
    sites.close()
    model = (folder / "north" / "records" / "runs" / "run-1" / MODEL).read_bytes()
    judged = msgspec.structs.replace(
        job, kind=EVALUATE, name="q3-evaluation", model=digest_of(model)
    )
    return judged, question_of(ForestModel.from_bytes(model, name="the model"))


def test_a_masked_evaluation_is_opened_for_one_set_of_parties(tmp_path):
    """Neither with other bytes of the same question nor in another run of the same job."""
    job, ask = evaluation_of(tmp_path)
    sites = Sites(tmp_path, job, run="first")
    secure = sites.keyed(honest=3, min_survivors=3)
    open_sum(secure, ask, Carried(ask), FOUR)
    said = "already opened for another set of parties"
    with pytest.raises(ProtocolError, match=said):
        open_sum(secure, ask, Carried(data=with_one_field_more(ask)), REST)
    sites.close()
    sites = Sites(tmp_path, job, run="second")
    with pytest.raises(ProtocolError, match=said):
        open_sum(sites.keyed(honest=3, min_survivors=3), ask, Carried(ask), REST)
    sites.close()


class LeavingOut(VerifiedSums):
    """A coordinator that says that one of two active parties has left."""

    def sum(self, ask, *, quorum=None):
        if isinstance(ask, DepthAsk):
            return super().sum(ask, quorum=quorum)
        step: Any = self._step("sum", ask)
        names = [name for name in FOUR if name != ask.active[1]]
        return open_sum(self._inner, step, Carried(step), names)


def test_a_masked_sum_over_active_parties_is_not_opened_without_one_of_them(tmp_path):
    clinics_in(tmp_path, FOUR)
    job = agreed_job(
        tmp_path, 'protocol = "genetic_tree"\nquorum = 3', FOUR, n_estimators="None",
        max_depth="2", n_generations="3", participation="0.5", secure_sum="true", honest=3,
    )  # fmt: skip
    sites = Sites(tmp_path, job)
    said = "has left, and the sum of the others would show theirs"
    with pytest.raises(ProtocolError, match=said):
        train(job, LeavingOut(sites.keyed(honest=3, min_survivors=3)))
    sites.close()


@pytest.mark.parametrize("answered", [(), ("stranger",), (*CLINICS, "stranger"), CLINICS[:1] * 3])
def test_a_step_that_nobody_or_a_stranger_answered_is_refused_each_time(tmp_path, answered):
    """The party's own derivation failed on it, and its next question waited for ever."""
    clinics_in(tmp_path)
    job = agreed_job(tmp_path)
    sites = Sites(tmp_path, job)
    channel = VerifiedSums(sites.keyed())
    model: Any = train(job, channel).model
    (last,) = channel.opened
    told = DerivedAsk(digest_of(model.to_bytes()), (replace(last, answered=answered),), TERMS)
    side = next(side for side in sites.sides if side._name == CLINICS[0])
    for _ in range(2):
        with pytest.raises(
            ProtocolError, match=r"leaves out too many|not what the parties replied"
        ):
            side.answer(told)
    sites.close()
