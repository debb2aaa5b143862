"""One message of every kind, as it was really sent; for tests of messages."""

import importlib
import pkgutil
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import spinney.protocols
from spinney.deployment.questions import (
    AuditAsk,
    AuditReply,
    DerivedAsk,
    FindingsAsk,
    FindingsReply,
    Judged,
    ModelAsk,
    ModelReply,
    OutcomeAsk,
    OutcomeReply,
    ProposalAsk,
    ProposalReply,
    TermsAsk,
    TermsReply,
    WithdrawAsk,
    WithdrawnReply,
)
from spinney.estimators.horizontal_forest import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
)
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.privacy.ledger import Ledger
from spinney.protocols import (
    explanation as explaining,
)
from spinney.protocols import (
    extra_trees,
    genetic_tree,
    horizontal_boosting,
    horizontal_forest,
    private_boosting,
    private_evaluation,
    private_forest,
    private_tree,
    table_fit,
    vertical_boosting,
    vertical_forest,
)
from spinney.protocols.boosted.settings import Settings
from spinney.protocols.columns import matching
from spinney.protocols.columns.matching_party import MatchingParty
from spinney.protocols.columns.prediction import PredictingParty, join_parts, predict_rows
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.columns.settings import MATCHINGS
from spinney.protocols.private_evaluation.settings import evaluation_settings
from spinney.protocols.release_terms import Hardening
from spinney.protocols.secure_sums.roster import (
    GroupAsk,
    GroupReply,
    KeyAsk,
    RosterParty,
    RosterReply,
    exchange_keys,
)
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.verified.messages import StepAsk
from spinney.protocols.verified.simulated import connect_parties
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask
from spinney.transport.deflated import Deflated
from spinney.transport.in_process import InProcess

for found in pkgutil.walk_packages(spinney.protocols.__path__, "spinney.protocols."):
    importlib.import_module(found.name)


def kinds_of(base):
    """Return all questions of Spinney's own; not what several of them share."""
    every = {kind for child in base.__subclasses__() for kind in (child, *kinds_of(child))}
    # A dataclass with slots is made twice; its module has the second.
    ours: list[Any] = [
        kind
        for kind in every
        if kind.__module__.startswith("spinney.")
        and getattr(sys.modules[kind.__module__], kind.__name__, None) is kind
    ]
    asked = (kind for kind in ours if not (kind.__name__.startswith("_") and kind.__subclasses__()))
    return sorted(asked, key=lambda kind: kind.__name__)


ASKS = kinds_of(Ask)
# A step's reply is of a type made for its question, with the question's own reply in it.
REPLIES = sorted({a.reply_type for a in ASKS if a is not StepAsk}, key=lambda kind: kind.__name__)
MESSAGES = [*ASKS, *REPLIES]
NAMES = [kind.__name__ for kind in MESSAGES]


PAID = PrivacySettings(job="test", epsilon="10")


class Noting:
    """A party that notes one question and one reply of every kind."""

    def __init__(self, party, noted):
        self._party, self._noted = party, noted

    def answer(self, ask):
        reply = self._party.answer(ask)
        self._noted[type(ask)] = codec.encode(ask)
        self._noted[type(reply)] = codec.encode(reply)
        return reply


@cache
def sent_messages():
    """Run small jobs (plain, masked, adaptive, extra, noisy) and return a frame of every kind."""
    random = np.random.RandomState(0)
    X = pd.DataFrame(
        {
            "x": np.where(random.random_sample(60) < 0.2, np.nan, random.standard_normal(60)),
            "kind": pd.Categorical(random.choice(["a", "b", "c"], 60)),
        }
    )
    given_input = fit_input(
        HorizontalForestClassifier(),
        X,
        random.randint(0, 3, 60),
        is_classifier=True,
        needs_ranges=True,
        schema=None,
        categorical_features="from_dtype",
    )
    tables = deal_tables(given_input.table, np.arange(60) % 3)
    noted: dict[type, bytes] = {}

    def connect(parties):
        return InProcess(
            {name: Noting(party, noted) for name, party in parties.items()}, through_codec=True
        )

    def parties(*, with_ledger=False) -> dict[str, Answering]:
        return {
            name: horizontal_forest.Party(
                table, ledger=Ledger.in_memory(name) if with_ledger else None
            )
            for name, table in tables.items()
        }

    plain = horizontal_forest.Settings(
        task="classification", n_estimators=3, max_depth=3, max_bins=16
    )
    grown = horizontal_forest.train(connect(parties()), plain)
    alone = dict(list(parties().items())[:1])
    horizontal_forest.train(connect(alone), plain)
    judges = {name: explaining.Party(table) for name, table in tables.items()}
    explaining.explain(connect(judges), explaining.question_of(grown.model))
    comparing = {name: table_fit.Party(table, bytes(32)) for name, table in tables.items()}
    told = table_fit.ask_sums(connect(comparing))
    next(iter(comparing.values())).compare(told, len(comparing))
    evaluators = {
        n: private_evaluation.Party(t, Ledger.in_memory(n), n_parties=3) for n, t in tables.items()
    }
    digest = private_evaluation.digest_of(grown.model.to_bytes())
    asked = evaluation_settings("judged", (digest,), "classification", 10, in_shares=False)
    private_evaluation.evaluate(connect(evaluators), (grown.model,), asked, "training")
    horizontal_forest.train(connect(parties()), replace(plain, binning="adaptive"))
    masked = secure_parties(parties(), connect, horizontal_forest.SUMMED, job="test")
    horizontal_forest.train(masked, plain)
    extra = replace(plain, bootstrap=False, binning="magnitudes", thresholds="public")
    sides = {name: extra_trees.Party(table) for name, table in tables.items()}
    extra_trees.train(connect(sides), extra)
    extra_trees.train(connect(sides), replace(extra, thresholds="exchanged"))
    with_ledgers: dict[str, Answering] = {
        name: extra_trees.Party(table, ledger=Ledger.in_memory(name))
        for name, table in tables.items()
    }
    extra_trees.train(connect(with_ledgers), replace(extra, binning="ranges", privacy=PAID))
    boost(X, tables, random, connect)
    evolve(X, random, connect)
    exchange_keys(
        connect({name: Enrolled(name, tuple(tables)) for name in tables}), "j", tuple(tables)
    )
    verified: Any = connect_parties(parties(), is_masked=False, connect=connect)
    horizontal_forest.train(verified, plain)
    noisy = replace(plain, binning="ranges", bootstrap=False, privacy=PAID)
    horizontal_forest.train(connect(parties(with_ledger=True)), noisy)
    for protocol, asked in private_jobs():
        paying = {n: protocol.Party(t, ledger=Ledger.in_memory(n)) for n, t in tables.items()}
        protocol.train(connect(paying), asked)
    run_vertical(given_input.table, plain, connect)
    for way in MATCHINGS:
        seats = seats_in_one_process(tuple(tables), "0")
        people = {name: MatchingParty([1, 2, 3], seat, way) for name, seat in seats.items()}
        matching.match(connect(people), way, lead="0")
    site = connect({"0": Willing()})
    site.ask(ProposalAsk("a digest"))
    site.ask(ModelAsk(grown.model.to_bytes()))
    terms = site.ask(TermsAsk())["0"]
    site.ask(AuditAsk("a digest", verified.opened, terms, grown.model.to_bytes()))
    site.ask(WithdrawAsk())
    site.ask(DerivedAsk("a digest", verified.opened, terms))
    site.ask(OutcomeAsk(with_model=True))
    site.ask(FindingsAsk(verified.opened))
    return noted


class Willing:
    """A party that takes part in any job, and keeps any model."""

    def answer(self, ask):
        if isinstance(ask, OutcomeAsk):
            judged = Judged("all parties", "training", 60, (("accuracy", 0.5),))
            return OutcomeReply(Deflated(b"a model"), (("Facts", "counts"),), (judged,), 0.5, ())
        if isinstance(ask, FindingsAsk):
            return FindingsReply(
                (table_fit.Standout("age", 0.5, "another unit?"),),
                table_fit.IdsElsewhere(12, 4, ""),
            )
        if isinstance(ask, AuditAsk):
            return AuditReply(waits=False, refused=True, reason="the smallest leaf is too small")
        if isinstance(ask, WithdrawAsk):
            return WithdrawnReply()
        if isinstance(ask, TermsAsk):
            return TermsReply.of(Hardening())
        return (
            ModelReply("a digest", "a digest")
            if isinstance(ask, ModelAsk | DerivedAsk)
            else ProposalReply(True, "")
        )


class Enrolled:
    """A party that agrees on keys with the others; any signature will do."""

    certificate = b"a certificate"

    def __init__(self, name, names):
        self._roster, self._names = RosterParty(name, "j", self), names
        self._settings: Any = None

    def sign(self, data):
        return data[:8]

    def check(self, name, certificate, signature, data):
        assert name in self._names
        assert (certificate, signature) == (self.certificate, data[:8])

    def answer(self, ask):
        if isinstance(ask, KeyAsk):
            return self._roster.key(ask)
        if isinstance(ask, GroupAsk):
            self._roster.secret(self._settings, ask)
            return GroupReply(len(self._names))
        self._settings = self._roster.take(ask, self._names, 2, len(self._names))
        return RosterReply(len(ask.names), self._roster.letters(self._settings))


def boost(X, tables, random, connect):
    """Boost trees, for classes and for numbers."""
    small: dict[str, Any] = {"max_iter": 2, "batch_trees": 1, "max_depth": 2, "min_samples_leaf": 2}
    amounts = fit_input(
        HorizontalForestRegressor(),
        X,
        random.standard_normal(60),
        is_classifier=False,
        needs_ranges=True,
        schema=None,
        categorical_features="from_dtype",
    )
    numbers = deal_tables(amounts.table, np.arange(60) % 3)
    jobs = (
        (tables, horizontal_boosting.Settings(task="classification", loss="log_loss", **small)),
        (numbers, horizontal_boosting.Settings(task="regression", loss="squared_error", **small)),
    )
    for dealt, settings in jobs:
        sides = {name: horizontal_boosting.Party(table) for name, table in dealt.items()}
        horizontal_boosting.train(connect(sides), settings)


def evolve(X, random, connect):
    """Run jobs of evolved trees: for numbers, and one with noise."""
    how: dict[str, Any] = {
        "needs_ranges": True,
        "schema": None,
        "categorical_features": "from_dtype",
    }
    amounts = fit_input(
        HorizontalForestRegressor(), X, random.standard_normal(60), is_classifier=False, **how
    )
    sides: dict[str, Any] = {
        name: genetic_tree.Party(table, name)
        for name, table in deal_tables(amounts.table, np.arange(60) % 3).items()
    }
    small: dict[str, Any] = {"population_size": 4, "n_generations": 2, "binning": "pooled"}
    genetic_tree.train(connect(sides), genetic_tree.Settings(task="regression", **small))
    two = fit_input(HorizontalForestClassifier(), X, np.arange(60) % 2, is_classifier=True, **how)
    sides = {
        name: genetic_tree.Party(table, name, ledger=Ledger.in_memory(name), only_noise=True)
        for name, table in deal_tables(two.table, np.arange(60) % 3).items()
    }
    privacy = PrivacySettings(job="evolved", epsilon="10")
    small = {"population_size": 4, "n_generations": 2, "max_depth": 3, "privacy": privacy}
    genetic_tree.train(connect(sides), genetic_tree.Settings(task="classification", **small))


def private_jobs():
    """Give jobs in which private trees and forests ask all their questions."""
    yield private_forest, private_forest.Settings(privacy=PAID, n_estimators=2, max_depth=2)
    yield (
        private_boosting,
        private_boosting.Settings(privacy=PAID, task="classification", n_passes=1, max_depth=1),
    )
    for method in ("distilled", "histograms", "save_budget", "propose", "noisy_max"):
        yield private_tree, private_tree.Settings(privacy=PAID, method=method, max_depth=2)


TWO_TREES = Settings(
    task="classification", loss="log_loss", max_iter=2, max_depth=2, min_samples_leaf=3
)


def run_vertical(table, forest, connect):
    """Grow a forest over two parties' columns, predict by it, join its parts."""
    number, kind = table.schema.columns
    values = table.columns.values(slice(None))
    label, target = table.schema.label, table.target
    held = {
        "number": Holding(60, (number,), VectorColumns((values[0],)), label, target),
        "kind": Holding(60, (kind,), VectorColumns((values[1],))),
    }
    seats = seats_in_one_process(tuple(held), "number")

    def run():
        return {name: vertical_forest.Party(one, seat=seats[name]) for name, one in held.items()}

    for labels in ("shared", "encrypted"):
        sides = {n: vertical_boosting.Party(one, seat=seats[n]) for n, one in held.items()}
        boosted = vertical_boosting.VerticalSettings(boosting=TWO_TREES, labels=labels)
        vertical_boosting.train(connect(sides), boosted)
    settings, sides = vertical_forest.Settings(forest=forest), run()
    training = vertical_forest.train(connect(sides), settings)
    predicting = {
        name: PredictingParty(
            side.finished_model, VectorColumns((values[place],)), 60, consents=True
        )
        for place, (name, side) in enumerate(sides.items())
    }
    predict_rows(training.roles, connect(predicting))
    hidden = vertical_forest.Settings(forest=forest, labels="encrypted", scheme="paillier")
    vertical_forest.train(connect(run()), hidden)
    join_parts(connect(predicting))
