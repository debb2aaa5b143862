"""How the model of a run leaves, at the coordinator: on the strictest terms of the parties.

When an attempt begins, the coordinator asks every party on which terms the model may leave. At the
end it takes the strictest of them and of the job's own, and hands out the model on those. Where
parties derive the model themselves, it says on which terms, and each party hardens its own. The
terms of a party that has left still count, because its rows were counted. Parties that audit what
leaves (`[policy.audit]`) are asked first. The model is handed out, to anybody, only when all audits
passed; if one does not pass, every party erases what it keeps of the model.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from spinney.deployment.evaluation import digest_of
from spinney.deployment.job import Agreed
from spinney.deployment.questions import (
    AuditAsk,
    AuditReply,
    DerivedAsk,
    ModelAsk,
    ModelReply,
    TermsAsk,
    TermsReply,
    WithdrawAsk,
)
from spinney.errors import PolicyError, ProtocolError, UnauditedError
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.protocols.verified.messages import Opened
from spinney.report.door import release
from spinney.report.report import Report
from spinney.transport.channel import Ask, Channel, Reply, Round


class HandOut:
    """The hand-out of one run's model.

    Parameters
    ----------
    agreed
        The job.
    present
        The parties that are in this attempt; they are handed the model.
    before
        The terms that parties stated in earlier attempts.
    """

    def __init__(
        self, agreed: Agreed, present: tuple[str, ...], before: Mapping[str, Hardening]
    ) -> None:
        self._agreed = agreed
        self._present = present
        self._terms = dict(before)
        self._auditing: tuple[str, ...] = ()
        self._wire: Channel | None = None  # a journal would repeat what an audit came to before
        self._rounds: list[Round] = []
        self._done: tuple[str, ...] = ()  # to the model, here

    def learn_terms(self, channel: Channel) -> dict[str, Hardening]:
        """Ask the parties on which terms the model may leave; return all that were ever stated."""
        self._wire = channel
        replies = self._ask(channel, TermsAsk())
        self._terms |= {name: reply.terms for name, reply in replies.items()}
        self._auditing = tuple(name for name, reply in replies.items() if reply.audits)
        return self._terms

    def hand_out(
        self, channel: Channel, model: ForestModel, before: tuple[Opened, ...]
    ) -> tuple[ForestModel, str]:
        """Hand out a model that the coordinator has; return the released model and its digest."""
        leaving, self._done = release(model, self._strictest())
        released = leaving.to_bytes()
        if self._agreed.is_verified:
            kept = self.hand_out_derived(channel, digest_of(model.to_bytes()), before)
        else:
            terms = TermsReply.of(self._strictest())
            self._await_audits(AuditAsk("", (), terms, released))
            kept = _one_of(self._ask(channel, ModelAsk(released)))
        if kept != digest_of(released):
            raise ProtocolError("The parties keep another released model. Nothing was kept here.")
        return leaving, kept

    def hand_out_derived(self, channel: Channel, digest: str, before: tuple[Opened, ...]) -> str:
        """Let the parties harden what they derived; return the digest of the released model."""
        terms = TermsReply.of(self._strictest())
        self._await_audits(AuditAsk(digest, before, terms, b""))
        return _one_of(self._ask(channel, DerivedAsk(digest, before, terms)))

    def _await_audits(self, ask: AuditAsk) -> None:
        """Raise unless the model passes every audit; if it fails one, nobody keeps it."""
        if self._wire is None or not self._auditing:
            return
        replies = self._ask(self._wire, ask, self._auditing)
        refused = {name: reply for name, reply in replies.items() if reply.refused}
        if refused:
            self._ask(self._wire, WithdrawAsk())
            raise PolicyError(f"{_by_party(refused)} No party keeps the model.")
        waiting = {name: reply for name, reply in replies.items() if reply.waits}
        if waiting:
            raise UnauditedError(_by_party(waiting))

    def told_in(self, report: Report, model: ForestModel) -> Report:
        """Return the report with how `model` left: on which terms, and by which questions."""
        told = msgspec.structs.replace(report.asked(self._rounds), release=self._strictest())
        return told.hardened_by(self._done, model) if self._done else told

    def _ask(
        self, channel: Channel, ask: Ask[Reply], to: tuple[str, ...] | None = None
    ) -> dict[str, Reply]:
        replies = channel.ask(ask, to=self._present if to is None else to)
        self._rounds.append(replace(channel.rounds[-1], number=len(self._rounds) + 1))
        return replies

    def _strictest(self) -> Hardening:
        """Return the strictest of the parties' terms and the job's."""
        return self._agreed.release.with_all(self._terms.values())


def _by_party(replies: Mapping[str, AuditReply]) -> str:
    return " ".join(f"Party {name!r}: {reply.reason}" for name, reply in replies.items())


def _one_of(replies: dict[str, ModelReply]) -> str:
    """Return the digest of the released model; raise if parties have different models."""
    found = {(reply.digest, reply.kept) for reply in replies.values()}
    if len(found) > 1:
        raise ProtocolError("The parties derived different models. Nothing was kept here.")
    ((_, kept),) = found
    return kept
