"""Parties with derivations of their own, and coordinators that do not follow the protocol."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spinney.estimators.inputs import deal_tables, fit_input
from spinney.jobs.registry import spec_of
from spinney.protocols.rows.setup import CountsReply, ToldReply
from spinney.protocols.secure_sums.channel import MaskedAsk, RevealAsk
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.spec import PartySite
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.derivation import OwnDerivation
from spinney.protocols.verified.messages import Opened, StepAsk
from spinney.protocols.verified.party import VerifyingParty
from spinney.protocols.verified.tags import SumKeys
from spinney.transport.carried import Carried
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts
from spinney.trees.told import ToldCounts
from spinney.typing import silent

NAMES = ("a", "b", "c")
Change = Callable[[str, StepAsk], StepAsk]


def tables_for(
    estimator: Any, X: Any, y: Any, *, is_classifier: bool = True, n_parties: int = 3
) -> Any:
    """Return a table for each party; everything public is declared from the rows."""
    given = fit_input(
        estimator,
        X,
        y,
        is_classifier=is_classifier,
        needs_ranges=True,
        schema=None,
        categorical_features="from_dtype",
    )
    party = np.array(NAMES)[np.arange(len(y)) % n_parties]
    return deal_tables(given.table, party)


class Cheating(InProcess):
    """A wire through which a coordinator sends what it likes; every message travels as bytes."""

    change: Change

    def _answer(self, name: str, ask: Ask[Any], sizes: Any) -> Any:
        sent: Ask[Any] = ask
        if isinstance(ask, StepAsk):
            sent = self._changed(name, ask)
        elif isinstance(ask, MaskedAsk):
            step = self._changed(name, ask.question.open(StepAsk))
            sent = replace(ask, question=Carried(step))
        return super()._answer(name, sent, sizes)

    def _changed(self, name: str, ask: StepAsk) -> StepAsk:
        changed = self.change(name, ask)
        return changed.derived(ask.about)  # its own question, to read the reply with


class Run:
    """A job over parties that derive their questions; `change` is what the coordinator alters."""

    def __init__(
        self,
        protocol: str,
        tables: Any,
        settings: Any,
        *,
        change: Change = lambda _, ask: ask,
        is_masked: bool = False,
        keys: SumKeys | None = None,
        sides: dict[str, Any] | None = None,
    ) -> None:
        self.spec, self.settings = spec_of(protocol), settings
        self.derivations: dict[str, OwnDerivation] = {}
        keys = keys or SumKeys.fresh()
        parties: dict[str, Any] = {}
        for name, table in tables.items():
            site = PartySite(name, 1, is_masked=is_masked)
            side = (sides or {}).get(name) or self.spec.party(table, settings, site)
            derivation = OwnDerivation(self._train, tuple(tables), is_masked=is_masked)
            self.derivations[name] = derivation
            parties[name] = VerifyingParty(side, name, keys, derivation, is_masked=is_masked)
        self.parties = dict(parties)

        def connect(given: dict[str, Any]) -> Cheating:
            wire = Cheating(given, through_codec=True)
            wire.change = change
            return wire

        inner: Any = connect(parties)
        if is_masked:
            inner = secure_parties(parties, connect, (StepAsk,), job="hostile")
        self.wire = inner
        self.channel = VerifiedSums(inner)

    def _train(self, channel: Any) -> Any:
        return self.spec.train(channel, self.settings, n_jobs=1, progress=silent)

    def trained(self) -> Any:
        """Train as a coordinator does."""
        try:
            return self._train(self.channel)
        finally:
            self.close()

    def models(self) -> dict[str, bytes]:
        """Return what each party derives when it is told what the last step came to."""
        for party in self.parties.values():
            party.take(self.channel.opened)
        found = {name: own.finished().model for name, own in self.derivations.items()}
        return {name: b"" if model is None else model.to_bytes() for name, model in found.items()}

    def close(self) -> None:
        """End the parties' threads."""
        for derivation in self.derivations.values():
            derivation.close()


def open_sum(secure: Any, ask: Ask[Any], question: Carried, names: Sequence[str]) -> Any:
    """Open the masked replies of some parties to a question, and return the sum."""
    wire, masks = secure._inner, secure._coordinator
    if not masks.rounds_left:
        secure._begin_epoch()
    mask = masks.begin_round(ask.meaning)
    for name in names:
        asked = MaskedAsk(mask, type(ask).__name__, question)
        masks.add_vector(wire.ask(asked, to=(name,))[name].masked)
    unmask = masks.end_vectors()
    for name in names:
        masks.add_shares(wire.ask(RevealAsk(unmask), to=(name,))[name].shares)
    return ask.from_ring(masks.sums())


def with_sum(ask: StepAsk, change: Callable[[Any], Any]) -> StepAsk:
    """Return a step that tells another sum than the parties' one, with the true tag."""
    return with_opened(ask, lambda opened: replace(opened, results=(_changed(opened, change),)))


def with_opened(ask: StepAsk, change: Callable[[Opened], Opened]) -> StepAsk:
    """Return a step that tells something else of the step before."""
    return replace(ask, before=(*ask.before[:-1], change(ask.before[-1])))


def _changed(opened: Opened, change: Callable[[Any], Any]) -> Carried:
    message: Any = opened.results[0]._message
    if isinstance(message, ToldReply):
        told = message.counts
        counters = told._counters.copy()  # type: ignore[union-attr]
        change(counters)
        return Carried(ToldReply(ToldCounts(counters, told._cells, told._held)))
    vectors = tuple(vector.copy() for vector in message.vectors())
    change(vectors[-1])
    if isinstance(message, CountsReply):  # in its own runs
        return Carried(CountsReply(Counts(vectors[0], message.counts.run_ends)))
    return Carried(type(message).of_vectors(vectors))
