"""Extra-trees over randomised labels and noisy counts: prices, promises, memory, refusals."""

from dataclasses import replace
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest

from spinney import ExtraTreesClassifier, ExtraTreesRegressor, deal_rows
from spinney.errors import PolicyError, ProtocolError, SchemaError, SettingError, SpinneyWarning
from spinney.privacy.budget import Unit
from spinney.privacy.claims import claims
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged
from spinney.protocols import extra_trees
from spinney.protocols.extra_trees.messages import CutsAsk, RangesAsk
from spinney.protocols.rows.levels import GrowingJob
from spinney.protocols.rows.setup import CountsReply, FactsAsk
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.binning import Binning
from spinney.trees.counts import Counts

SCHEMES = ["randomised_response", "bloom", "unary"]
N = 600
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((N, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
SITE = np.arange(N) % 3


def schema_of(n_classes=2, bounds=(-6.0, 6.0)):
    columns = tuple(Column(f"x{i}", "number", range=bounds) for i in range(4))
    return Schema(columns, Label("y", "class", tuple(range(n_classes))))


def classifier(**changes):
    facts: dict[str, Any] = {
        "n_estimators": 10,
        "max_depth": 6,
        "random_state": 0,
        "schema": schema_of(),
    }
    return ExtraTreesClassifier(**(facts | changes))


def spent(forest, unit):
    privacy = forest.report_.settings["privacy"]
    return {ledger.spent(privacy["job"], unit) for ledger in forest.ledger_.values()}


def claims_of(forest):
    job = forest.report_.settings["privacy"]["job"]
    return [claim for ledger in forest.ledger_.values() for claim in claims(ledger, job)]


def verdicts(forest):
    return {(str(c.unit), c.verdict.value, c.epsilon) for c in claims_of(forest)}


# --- prices and promises -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "price"), [("randomised_response", 2.0), ("unary", 2.0), ("bloom", 8 * log(3))]
)
def test_a_label_costs_its_scheme_s_price_once_and_a_record_is_unprotected(scheme, price):
    forest = classifier(label_privacy="local", label_scheme=scheme).fit(X, Y, party=SITE)
    (epsilon,) = spent(forest, Unit.LABEL)
    assert float(epsilon) == pytest.approx(price)
    for unit in (Unit.RECORD_ADD_REMOVE, Unit.RECORD_REPLACE):
        assert spent(forest, unit) == {0}
        assert {v for u, v, _ in verdicts(forest) if u == unit.value} == {"UNPROTECTED"}
    assert {v for u, v, _ in verdicts(forest) if u == "label"} == {"EPSILON"}
    assert forest.score(X, Y) > 0.8
    assert not forest.report_.quality  # true labels would be needed


def test_more_trees_and_levels_cost_a_label_nothing_more():
    small, large = (
        classifier(label_privacy="local", n_estimators=n, max_depth=d, epsilon=1.5).fit(X, Y)
        for n, d in ((1, 1), (30, 12))
    )
    assert spent(small, Unit.LABEL) == spent(large, Unit.LABEL) == {Fraction(3, 2)}


@pytest.mark.parametrize("secure_sum", [False, True])
def test_noise_on_counts_keeps_to_the_budget(secure_sum):
    forest = classifier(
        label_privacy="laplace", epsilon=8.0, max_depth=3, secure_sum=secure_sum
    ).fit(X, Y, party=SITE)
    assert spent(forest, Unit.RECORD_ADD_REMOVE) == {8}
    found = {e for u, v, e in verdicts(forest) if u == Unit.RECORD_ADD_REMOVE.value}
    assert {e for e in found if e is not None} == {8}
    questions = [entry.question for entry in forest.report_.disclosures]
    assert questions == ["Schema", "Join", "NoisyCuts", "Leaf", "Claims"]
    assert forest.score(X, Y) > 0.6


def test_a_level_of_noisy_counts_is_charged_for_every_tree_and_candidate():
    forest = classifier(
        label_privacy="laplace", epsilon=6.0, max_depth=3, tree_rows="all", max_features=2
    ).fit(X, Y)
    (ledger,) = forest.ledger_.values()
    charges = [e.body for e in ledger.entries() if isinstance(e.body, Charged)]
    levels = [charge for charge in charges if "of level" in charge.what]
    # six for 10 trees; of each three quarters for 3 levels, noise by two candidates
    assert {charge.cost.amount for charge in levels} == {Fraction(6, 10) * Fraction(3, 4) / 3}
    assert {charge.parameters["sensitivity"] for charge in levels} == {"2"}


def test_a_regressor_adds_noise_to_sums_too():
    schema = Schema(schema_of().columns, Label("y", "number", range=(-10.0, 10.0)))
    forest = ExtraTreesRegressor(
        5, max_depth=2, label_privacy="laplace", epsilon=50.0, schema=schema, random_state=0
    ).fit(X, X[:, 0] * 2, party=SITE)
    assert spent(forest, Unit.RECORD_ADD_REMOVE) == {50}
    assert np.isfinite(forest.predict(X)).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_masks_change_nothing(scheme, tmp_path):
    """With the same remembered answers, since fresh ones would differ."""
    how = {"label_privacy": "local", "label_scheme": scheme, "label_memory": tmp_path}
    plain, secret = (
        classifier(**how, secure_sum=secure).fit(X, Y, party=SITE) for secure in (False, True)
    )
    assert plain.model_.to_bytes() == secret.model_.to_bytes()


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_answers_are_remembered_and_paid_for_once(scheme, tmp_path):
    how = {"label_privacy": "local", "label_scheme": scheme, "label_memory": tmp_path}
    first, second = (classifier(**how).fit(X, Y, party=SITE) for _ in range(2))
    assert first.model_.to_bytes() == second.model_.to_bytes()
    assert spent(second, Unit.LABEL) == {0}
    told = [claim.text for claim in claims_of(second) if str(claim.unit) == "label"]
    assert all("labels as they were randomised before" in text for text in told)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        f"{party}.{end}" for party in (0, 1, 2) for end in ("key", "labels")
    ]


def test_new_records_are_drawn_and_paid_for_beside_the_old(tmp_path):
    how = {"label_privacy": "local", "label_memory": tmp_path}
    classifier(**how).fit(X[:500], Y[:500])
    more = classifier(**how).fit(X, Y)
    assert spent(more, Unit.LABEL) == {2}
    memory = LabelMemory.open(tmp_path / "all.labels", tmp_path / "all.key")
    (scheme,) = memory._answers
    assert memory.n_known(scheme) == N


def test_a_changed_label_of_a_remembered_record_changes_nothing(tmp_path):
    how = {"label_privacy": "local", "label_memory": tmp_path}
    before = classifier(**how).fit(X, Y)
    changed = Y.copy()
    changed[5] = 1 - changed[5]
    after = classifier(**how).fit(X, changed)
    assert after.model_.to_bytes() == before.model_.to_bytes()


def test_without_a_memory_every_fit_draws_anew():
    one, two = (classifier(label_privacy="local").fit(X, Y) for _ in range(2))
    assert one.model_.to_bytes() != two.model_.to_bytes()


# --- what leaves a party -------------------------------------------------------------------------


def table_of(labels, n_classes=2):
    return MemoryTable(schema_of(n_classes), MatrixColumns(X), labels.astype(np.int32))


def settings_of(**changes):
    facts: dict[str, Any] = {
        "task": "classification",
        "n_estimators": 3,
        "max_depth": 3,
        "bootstrap": False,
        "binning": "magnitudes",
        "thresholds": "public",
        "privacy": PrivacySettings(job="q", mechanism="randomised_labels", epsilon="2"),
    }
    return extra_trees.Settings(**(facts | changes))


class Overheard(extra_trees.Party):
    """A party whose replies are kept."""

    replies: list[Any]

    def answer(self, ask):
        reply = super().answer(ask)
        self.replies.append((ask, reply))
        return reply


@pytest.mark.parametrize("scheme", SCHEMES)
def test_everything_that_leaves_is_made_from_answers(scheme):
    """Two tables that differ in every label, with the same answers, reply the same bytes."""
    epsilon = None if scheme == "bloom" else "2"
    privacy = PrivacySettings(
        job="q", mechanism="randomised_labels", label_scheme=scheme, epsilon=epsilon
    )
    heard = []
    memory = LabelMemory()
    for labels in (Y, 1 - Y):
        party = Overheard(table_of(labels), ledger=Ledger.in_memory("n"), memory=memory)
        party.replies = []
        extra_trees.train(InProcess({"n": party}), settings_of(privacy=privacy))
        heard.append([reply for ask, reply in party.replies if isinstance(ask, CutsAsk | FactsAsk)])
        answers = memory._answers
        memory = LabelMemory()  # the same answers, now for the other labels
        memory._answers = {k: replace(v, labels=1 - v.labels) for k, v in answers.items()}
    for one, two in zip(*heard, strict=True):
        for a, b in zip(one.vectors(), two.vectors(), strict=True):
            assert np.array_equal(a, b)


def test_a_party_with_a_ledger_answers_nothing_exactly():
    party = extra_trees.Party(table_of(Y), ledger=Ledger.in_memory("n"))
    with pytest.raises(PolicyError, match="answers only with noise; FactsAsk asks for exact"):
        party.answer(FactsAsk(schema_of().digest(), with_leading=False))


def test_a_party_without_a_ledger_joins_no_private_job():
    channel = InProcess({"n": extra_trees.Party(table_of(Y))})
    with pytest.raises(PolicyError, match="this party has no ledger to pay from"):
        extra_trees.train(channel, settings_of())


def test_no_value_is_told_where_cuts_are_public():
    party = extra_trees.Party(table_of(Y))
    edges = (np.zeros(1, np.float32),) * 4
    no_bins = (np.zeros(0, np.uint8),) * 4
    binning = Binning(edges, no_bins, np.zeros(4, np.bool_))
    job = GrowingJob(settings_of(privacy=None), schema_of().digest(), binning, 2, N)
    with pytest.raises(
        ProtocolError, match="draws its cuts in public ranges; no value is revealed"
    ):
        party.answer(RangesAsk(job, (), 0, 1))
    with pytest.raises(ProtocolError, match="brings cuts, but in this job parties draw them"):
        party.answer(CutsAsk(job, (), 0, 1, np.zeros(3, np.uint8)))


# --- exchanged thresholds ------------------------------------------------------------------------


def test_exchanged_thresholds_are_exact_over_parties_and_take_two_rounds_a_level():
    alone = classifier(thresholds="exchanged").fit(X, Y)
    parts = classifier(thresholds="exchanged").fit(X, Y, party=deal_rows(Y, 5, random_state=1))
    assert alone.model_.to_bytes() == parts.model_.to_bytes()
    questions = [round_.question for round_ in parts.report_.traffic]
    assert questions.count("Ranges") == questions.count("Cuts") == parts.report_.depth
    told = {entry.question: entry.statistic for entry in parts.report_.disclosures}
    assert told["Ranges"] == "smallest and largest bins of features in tree nodes"
    assert parts.score(X, Y) > 0.9


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label_privacy": "global"}, "label_privacy must be None or 'local' or 'laplace'"),
        ({"epsilon": 1.0}, "epsilon=1.0 needs label_privacy='local' or 'laplace'"),
        ({"label_memory": "x"}, "label_memory='x' needs label_privacy='local'"),
        ({"label_privacy": "laplace"}, "needs epsilon, the budget of the whole forest"),
        (
            {"label_privacy": "local", "label_scheme": "bloom", "epsilon": 1.0},
            "label_scheme='bloom' has a fixed price, epsilon=8 ln 3=8.788898",
        ),
        (
            {"label_privacy": "local", "label_scheme": "rappor"},
            "label_scheme must be 'randomised_response' or 'bloom' or 'unary'",
        ),
        (
            {"label_privacy": "local", "thresholds": "exchanged"},
            "which belong to real records; no noise hides them",
        ),
        (
            {"label_privacy": "laplace", "epsilon": 1, "thresholds": "exchanged"},
            "Use thresholds='public' in a private job",
        ),
        ({"secure_sum": True, "thresholds": "exchanged"}, "'exchanged' cannot be masked"),
        ({"thresholds": "hidden"}, "thresholds must be 'public' or 'exchanged'"),
        ({"honest": 2}, "honest is the number of parties that must be honest for a secure sum"),
        (
            {"label_privacy": "local", "class_weight": "balanced"},
            "class_weight='balanced' needs true labels",
        ),
        (
            {"label_privacy": "local", "bootstrap": True, "oob_score": True},
            "oob_score=True needs true labels",
        ),
        (
            {"label_privacy": "laplace", "epsilon": 1, "max_depth": None},
            "max_depth=None cannot be used with noise",
        ),
    ],
)
def test_what_cannot_work_is_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        classifier(**changes).fit(X, Y, party=SITE)


def test_a_regressor_has_no_classes_to_randomise():
    schema = Schema(schema_of().columns, Label("y", "number", range=(-6.0, 6.0)))
    with pytest.raises(SettingError, match="randomises classes, but a regressor has none"):
        ExtraTreesRegressor(label_privacy="local", schema=schema).fit(X, X[:, 0])


def test_more_classes_than_bloom_filters_tell_apart_are_refused():
    many = np.arange(N) % 40
    forest = classifier(label_privacy="local", label_scheme="bloom", schema=schema_of(40))
    with pytest.raises(
        SettingError, match=r"cannot distinguish 40 classes\. Use label_scheme='una"
    ):
        forest.fit(X, many)


def test_a_label_that_was_never_declared_is_drawn_if_labels_are_randomised():
    with pytest.warns(SpinneyWarning, match="1 row has no label and is given a class at random"):
        forest = classifier(label_privacy="local").fit(X, np.where(np.arange(N) == 7, 5, Y))
    assert forest.classes_.tolist() == [0, 1]


def test_a_label_that_was_never_declared_is_refused_without_noise():
    with pytest.raises(SchemaError) as caught:
        classifier(label_privacy=None).fit(X, np.where(np.arange(N) == 7, 5, Y))
    assert caught.value.public == (
        "The label 'y' holds a class that the schema does not name. It names: 0, 1. Add the class "
        "to the schema, or leave those rows out."
    )
    assert caught.value.local == "Not named: 5."  # a label stays at its party


@pytest.mark.parametrize("scheme", ["bloom", "unary"])
def test_more_bits_than_rows_are_refused(scheme):
    class Lying(extra_trees.Party):
        def answer(self, ask):
            reply = super().answer(ask)
            if not isinstance(ask, CutsAsk):
                return reply
            counters = reply.counts.counters.copy()
            counters[:, 1:] = 2 * counters[:, :1]
            return CountsReply(Counts(counters, reply.counts.run_ends))

    epsilon = None if scheme == "bloom" else "2"
    privacy = PrivacySettings(
        job="q", mechanism="randomised_labels", label_scheme=scheme, epsilon=epsilon
    )
    channel = InProcess({"liar": Lying(table_of(Y), ledger=Ledger.in_memory("n"))})
    with pytest.raises(ProtocolError, match="The parties' sums are impossible: they are too large"):
        extra_trees.train(channel, settings_of(privacy=privacy, binning="ranges", n_estimators=1))


def test_a_range_that_is_not_declared_is_refused():
    with pytest.raises(SettingError, match="does not declare the range of 'x0'"):
        classifier(label_privacy="local", schema=schema_of(bounds=None)).fit(X, Y)
