"""Parties and a coordinator of secure sums, for tests."""

from dataclasses import replace

import numpy as np

from spinney.privacy.keys import KeyPair, Roster, SumSettings
from spinney.privacy.masking import SecureSumCoordinator, SecureSumParty
from spinney.transport.codec import decode, encode


class Federation:
    """Parties and a coordinator; every message goes through the codec."""

    def __init__(self, n_parties=5, *, n_rounds=4, absent=(), needs_all=False, **options):
        self.names = tuple(f"p{i}" for i in range(n_parties))
        self.pairs = {name: KeyPair.fresh() for name in self.names}
        roster = Roster.of({name: pair.public for name, pair in self.pairs.items()})
        self.settings = SumSettings.of("job", roster, **options)
        if needs_all:
            every = {"threshold": n_parties, "min_survivors": n_parties}
            self.settings = replace(self.settings, **every, needs_all=True)
        self.parties = {
            name: SecureSumParty(self.settings, name, pair) for name, pair in self.pairs.items()
        }
        self.coordinator = SecureSumCoordinator(self.settings)
        self.replies = {}
        if not needs_all:
            self.begin_epoch(n_rounds, absent)

    def begin_epoch(self, n_rounds=4, absent=()):
        ask = sent(self.coordinator.begin_epoch(n_rounds))
        for name in self.names:
            if name not in absent:
                self.coordinator.add_keys(sent(self.parties[name].make_keys(ask)))
        for name, shares in self.coordinator.end_keys().items():
            sent(self.parties[name].take_shares(sent(shares)))

    def masked(self, vectors, senders=None, bits=(64,)):
        """Begin a round and let the senders mask their vectors; return the ask."""
        ask = sent(self.coordinator.begin_round())
        self.replies = {
            name: sent(self.parties[name].mask(ask, vectors[name], bits))
            for name in (self.names if senders is None else senders)
        }
        for reply in self.replies.values():
            self.coordinator.add_vector(reply)
        return ask

    def opened(self, helpers=None, *, signed=True):
        """End the round with the shares of the helpers."""
        ask = sent(self.coordinator.end_vectors())
        for name in () if self.settings.needs_all else helpers or ask.survivors:
            self.coordinator.add_shares(sent(self.parties[name].unmask(ask)))
        return self.coordinator.sums(signed=signed)

    def zeros(self, size=8):
        return {name: [np.zeros(size, dtype=np.int64)] for name in self.names}


def sent(message):
    return decode(encode(message), type(message))
