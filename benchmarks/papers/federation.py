"""S3's five parties: rows, ledgers, job after job, over the protocols themselves.

Only masks, which change no number, are left out. After every job each ledger must show epsilon
exactly.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.protocols import private_forest, private_tree
from spinney.protocols.accounts.account import ClaimsAsk, ClaimsReply
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Schema
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Channel

N_PARTIES = 5
TREE = {"min_samples_leaf": 10, "n_bins": 10, "bounds_share": "1/4"}


class Unmasked(Channel):
    """Sums without masks, of whatever leaves the parties: for simulations that only count."""

    def __init__(self, parties: dict[str, Any]) -> None:
        self.parties = tuple(parties)
        self.rounds = []
        self._party = parties

    def ask(self, ask: Any, **_: Any) -> dict[str, Any]:
        if isinstance(ask, ClaimsAsk):  # the ledgers are looked at once, in `_trained`
            return {name: ClaimsReply(()) for name in self.parties}
        return {name: self._party[name].answer(ask) for name in self.parties}

    def sum(self, ask: Any, **_: Any) -> Any:
        replies = (ask.to_ring(party.answer(ask)) for party in self._party.values())
        return ask.from_ring(tuple(map(sum, zip(*replies, strict=True))))


class Federation:
    """Parties with a share of the rows each, and ledgers; they take part in job after job."""

    def __init__(
        self, X: Any, y: Any, schema: Schema, n_parties: int = N_PARTIES, honest: int | None = 0
    ) -> None:
        self._honest = n_parties if honest == 0 else honest  # 0: all, as the paper assumes
        self.n_rows, self.schema, self._n_jobs = len(y), schema, 0
        self._ledger = {f"party {k}": Ledger.in_memory(f"party {k}") for k in range(n_parties)}
        self._party: dict[str, dict[str, Any]] = {"tree": {}, "forest": {}}
        for k, name in enumerate(self._ledger):
            rows = slice(k, None, n_parties)
            held = MemoryTable(schema, MatrixColumns(X[rows]), y[rows].astype(np.int32))
            for kind, protocol in (("tree", private_tree), ("forest", private_forest)):
                self._party[kind][name] = protocol.Party(held, n_jobs=1, ledger=self._ledger[name])

    def tree(
        self, method: str, epsilon: Any, max_depth: int, *, leaf_share: str = "1/2", **more: Any
    ) -> Any:
        """Return a tree's model; but for Algorithm 5, no deeper than n is good for."""
        settings = {"n_rows": self.n_rows, "max_depth": max_depth} | TREE | more
        privacy = self._privacy(epsilon, leaf_share)
        made = private_tree.Settings(privacy=privacy, method=method, **settings)
        return self._trained(private_tree.train, "tree", made)

    def forest(self, epsilon: Any, seed: int, **more: Any) -> Any:
        """Return a forest's model."""
        made = private_forest.Settings(privacy=self._privacy(epsilon, "1/2"), seed=seed, **more)
        return self._trained(private_forest.train, "forest", made)

    def _privacy(self, epsilon: Any, leaf_share: str) -> PrivacySettings:
        self._n_jobs += 1
        return PrivacySettings(
            job=f"job {self._n_jobs}",
            epsilon=str(Fraction(str(epsilon))),
            tree_rows="all",
            leaf_share=leaf_share,
            in_shares=True,
            honest=self._honest,
        )

    def _trained(self, train: Any, kind: str, settings: Any) -> Any:
        training = train(Unmasked(self._party[kind]), settings)
        for ledger in self._ledger.values():
            spent = ledger.spent(settings.privacy.job, Unit.RECORD_ADD_REMOVE)
            assert spent == Fraction(settings.privacy.epsilon), f"{settings} cost {spent}"
        return training.model
