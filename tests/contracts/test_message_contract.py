"""Every message: it comes back from its bytes, carries no row, and says what it reveals."""

import importlib
import pkgutil
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spinney.protocols
from spinney.errors import StorageError
from spinney.estimators.horizontal_forest import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
)
from spinney.estimators.inputs import dealt_tables, fit_input
from spinney.privacy.ledger import Ledger
from spinney.privacy.release import Exact
from spinney.protocols import (
    explaining,
    extra_trees,
    genetic_tree,
    horizontal_forest,
    matching,
    private_forest,
    private_tree,
    truex_tree,
    vertical_forest,
)
from spinney.protocols.private_settings import PrivacySettings
from spinney.protocols.rosters import KeyAsk, RosterParty, RosterReply, secured_over
from spinney.protocols.secure_sums import secured
from spinney.protocols.vertical_prediction import PredictingParty, join_parts
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts
from spinney.trees.level import Level
from spinney.trees.partition import Partition

for found in pkgutil.iter_modules(spinney.protocols.__path__):
    importlib.import_module(f"spinney.protocols.{found.name}")


def kinds_of(base):
    """Return all questions of Spinney's own protocols."""
    every = {kind for child in base.__subclasses__() for kind in (child, *kinds_of(child))}
    ours = (kind for kind in every if kind.__module__.startswith("spinney.protocols."))
    asked = (kind for kind in ours if not kind.__name__.startswith("_"))  # not what others share
    return sorted(asked, key=lambda kind: kind.__name__)


ASKS = kinds_of(Ask)
REPLIES = sorted({ask.reply_type for ask in ASKS}, key=lambda kind: kind.__name__)
MESSAGES = [*ASKS, *REPLIES]
NAMES = [kind.__name__ for kind in MESSAGES]


PAID = PrivacySettings(job="test", epsilon="10")


# --- one message of every kind, as it was really sent --------------------------------------------


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
    tables = dealt_tables(given_input.table, np.arange(60) % 3)
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
    judges = {name: explaining.Party(table) for name, table in tables.items()}
    explaining.explain(connect(judges), explaining.question_of(grown.model))
    horizontal_forest.train(connect(parties()), replace(plain, binning="adaptive"))
    masked = secured(parties(), connect, horizontal_forest.SUMMED, job="test")
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
    evolve(X, random, connect)
    secured_over(
        connect({name: Enrolled(name, tuple(tables)) for name in tables}), "j", tuple(tables)
    )
    noisy = replace(plain, binning="ranges", bootstrap=False, privacy=PAID)
    horizontal_forest.train(connect(parties(with_ledger=True)), noisy)
    for protocol, asked in private_jobs():
        paying = {n: protocol.Party(t, ledger=Ledger.in_memory(n)) for n, t in tables.items()}
        protocol.train(connect(paying), asked)
    run_vertical(given_input.table, plain, connect)
    for way in matching.MATCHINGS:
        people = {name: matching.MatchingParty([1, 2, 3]) for name in tables}
        matching.match(connect(people), way, lead="0")
    return noted


class Enrolled:
    """A party that agrees on keys with the others; any signature will do."""

    certificate = b"a certificate"

    def __init__(self, name, names):
        self._roster, self._names = RosterParty(name, "j", self), names

    def sign(self, data):
        return data[:8]

    def check(self, name, certificate, signature, data):
        assert name in self._names
        assert (certificate, signature) == (self.certificate, data[:8])

    def answer(self, ask):
        if isinstance(ask, KeyAsk):
            return self._roster.key(ask)
        self._roster.masks(ask, self._names, 2, len(self._names))
        return RosterReply(len(ask.names))


def evolve(X, random, connect):
    """Run a job of evolved trees, for numbers, and one of Truex's tree."""
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
        for name, table in dealt_tables(amounts.table, np.arange(60) % 3).items()
    }
    small: dict[str, Any] = {"population_size": 4, "n_generations": 2, "binning": "pooled"}
    genetic_tree.train(connect(sides), genetic_tree.Settings(task="regression", **small))
    two = fit_input(HorizontalForestClassifier(), X, np.arange(60) % 2, is_classifier=True, **how)
    sides = {
        name: genetic_tree.Party(table, name, ledger=Ledger.in_memory(name), only_noise=True)
        for name, table in dealt_tables(two.table, np.arange(60) % 3).items()
    }
    privacy = PrivacySettings(job="evolved", epsilon="10")
    small = {"population_size": 4, "n_generations": 2, "max_depth": 3, "privacy": privacy}
    genetic_tree.train(connect(sides), genetic_tree.Settings(task="classification", **small))
    kinds = fit_input(
        HorizontalForestClassifier(), X[["kind"]], np.arange(60) % 2, is_classifier=True, **how
    )
    sides = {
        name: truex_tree.Party(table, Ledger.in_memory(name))
        for name, table in dealt_tables(kinds.table, np.arange(60) % 3).items()
    }
    privacy = PrivacySettings(job="truex", epsilon="10")
    truex_tree.train(connect(sides), truex_tree.Settings(privacy=privacy, max_depth=1))


def private_jobs():
    """Give jobs in which private trees and forests ask all their questions."""
    yield private_forest, private_forest.Settings(privacy=PAID, n_estimators=2, max_depth=2)
    for method in ("histograms", "save_budget", "propose", "noisy_max"):
        yield private_tree, private_tree.Settings(privacy=PAID, method=method, max_depth=2)


def run_vertical(table, forest, connect):
    """Grow a forest over two parties' columns, predict by it, join its parts."""
    number, kind = table.schema.columns
    values = table.columns.values(slice(None))
    sides = {
        "number": vertical_forest.Party(
            Holding(60, (number,), VectorColumns((values[0],)), table.schema.label, table.target)
        ),
        "kind": vertical_forest.Party(Holding(60, (kind,), VectorColumns((values[1],)))),
    }
    settings = vertical_forest.Settings(forest=forest)
    training = vertical_forest.train(connect(sides), settings)
    predicting = {
        name: PredictingParty(
            side.finished_model, VectorColumns((values[place],)), 60, consents=True
        )
        for place, (name, side) in enumerate(sides.items())
    }
    training.roles.predict(connect(predicting))
    hidden = vertical_forest.Settings(forest=forest, labels="encrypted", scheme="paillier")
    vertical_forest.train(connect(sides), hidden)
    join_parts(connect(predicting))


def test_every_kind_of_message_was_sent():
    assert set(sent_messages()) == set(MESSAGES)


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_message_comes_back_from_its_bytes(kind):
    found = codec.decode(sent_messages()[kind], kind)
    assert isinstance(found, kind)
    assert codec.encode(found) == sent_messages()[kind]
    assert codec.encoded_size(found) == len(sent_messages()[kind])


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_frame_cut_anywhere_is_refused(kind):
    data = sent_messages()[kind]
    step = max(1, len(data) // 200)
    for length in [*range(0, len(data), step), len(data) - 1]:
        with pytest.raises(StorageError):
            codec.decode(data[:length], kind)
    with pytest.raises(StorageError):
        codec.decode(data + b"\0", kind)


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_message_is_not_taken_for_another(kind):
    for other in MESSAGES:
        if other is not kind:
            with pytest.raises(StorageError, match="got a message of another kind"):
                codec.decode(sent_messages()[kind], other)


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_frame_is_a_message_or_refused_and_never_anything_else(kind, data):
    damaged = bytearray(sent_messages()[kind])
    n_head = 9 + int.from_bytes(damaged[5:9], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        most = data.draw(st.sampled_from([n_head, len(damaged)]))  # half of them in the head
        place = data.draw(st.integers(5, max(5, most - 1))) % len(damaged)
        match data.draw(st.sampled_from(["set", "insert", "delete"])):
            case "set":
                damaged[place] = data.draw(st.integers(0, 255))
            case "insert":
                damaged.insert(place, data.draw(st.integers(0, 255)))
            case "delete":
                del damaged[place]
    try:
        found = codec.decode(bytes(damaged), kind)
    except StorageError:
        return
    assert isinstance(found, kind)


# --- what messages may carry ---------------------------------------------------------------------

PLAIN = {int, float, str, bool, bytes, NoneType}
PACKED = {Counts, Level, Partition}
ARRAYS = {
    # counts of rows, and sums of fixed-point targets
    ("FactsReply", "n_rows"): np.int64,
    ("FactsReply", "classes"): np.int64,
    ("FactsReply", "missing"): np.int64,
    ("FactsReply", "categories"): np.int64,
    ("QualityReply", "counts"): np.int64,
    ("ExplainReply", "judged"): np.int64,
    ("ExplainReply", "dependence"): np.int64,
    ("AdaptiveHistograms", "moments"): np.int64,
    # sums of scores, weighed by rows; and which column each node of a party's tree asks about
    ("TotalsReply", "sums"): np.int64,
    ("StructureReply", "genes"): np.int16,
    # the same with noise
    ("NoisyReply", "counters"): np.int64,
    ("ProposalsReply", "cuts"): np.int64,
    # exact counts, for a coordinator that is trusted with them: method="noisy_max" only
    ("TrustedReply", "counters"): np.int64,
    # bins of single rows: declared in "who learns what", and only with thresholds="exchanged"
    ("Ranges", "low"): np.uint8,
    ("Ranges", "high"): np.uint8,
    # means of bins: declared in "who learns what", and only with binning="adaptive"
    ("AdaptiveHistograms", "means"): np.float64,
    # labels as numbers: declared in "who learns what", and only with labels="shared"
    ("LabelsReply", "target"): np.integer,
    ("StartAsk", "target"): np.integer,
    # over columns: how many rows trees have drawn, gains, sides of cuts, and what leaves they name
    ("StartReply", "sizes"): np.int64,
    ("StartReply", "exhausted"): np.bool_,
    ("GainReply", "gain"): np.float64,
    ("SumsReply", "cells"): np.int32,
    # keyed hashes of row ids
    ("TagsReply", "tags"): np.uint8,
    ("SharedReply", "tags"): np.uint8,
    ("CommonAsk", "tags"): np.uint8,
    # over columns, with encrypted labels
    ("SumsReply", "is_category"): np.bool_,
    ("SumsReply", "has_missing"): np.bool_,
    ("ChooseReply", "winner"): np.int16,
    ("ChooseReply", "slot"): np.int16,
    ("ChooseReply", "cut"): np.uint8,
    ("ChooseReply", "missing_left"): np.bool_,
    ("ChooseReply", "bin_set"): np.uint64,
    ("ChooseReply", "child_open"): np.bool_,
    ("GainReply", "slot"): np.int16,
    ("SplitReply", "sides"): np.uint8,
    ("SplitReply", "child_open"): np.bool_,
    ("SplitReply", "exhausted"): np.bool_,
    ("LeafSets", "bits"): np.uint8,
    ("LeafSets", "ends"): np.int64,
    ("ValuesReply", "values"): np.float64,
    ("Named", "leaves"): np.uint32,
    # uniform words under masks
    ("MaskReply", "vectors"): np.unsignedinteger,
    # the coordinator's own: cut points, bins and weights that everybody may know
    ("Refinement", "prefixes"): np.uint32,
    ("CutsAsk", "cuts"): np.uint8,
    ("Binning", "edges"): np.float32,
    ("Binning", "bin_of_category"): np.uint8,
    ("Binning", "has_missing"): np.bool_,
    ("QualityAsk", "class_weight"): np.float64,
    ("ExplainAsk", "model"): np.uint8,
    ("ExplainAsk", "shuffled"): np.int64,
    ("ExplainAsk", "tree_counts"): np.int64,
    ("ExplainAsk", "point_column"): np.int64,
    ("ExplainAsk", "point_value"): np.float32,
    ("TreeSoFar", "asked"): np.int64,
    ("ScoresAsk", "genes"): np.int16,
    ("NoisyScoresAsk", "genes"): np.int16,
    ("ChoiceAsk", "genes"): np.int16,
    ("Nodes", "feature"): np.int32,
    ("Nodes", "cut"): np.int32,
    ("Nodes", "left"): np.int32,
    ("CellsAsk", "columns"): np.bool_,
    ("SidesAsk", "cuts"): np.int64,
    ("Offered", "n_slots"): np.uint16,
    ("Offered", "column"): np.uint16,
    ("Offered", "phase"): np.uint8,
    ("SplitAsk", "node"): np.int64,
    ("Foreign", "n_slots"): np.uint16,
    ("Foreign", "place"): np.int32,
    ("ChooseAsk", "place"): np.int32,
    ("CutAsk", "node"): np.int64,
    ("CutAsk", "slot"): np.int16,
    ("CutAsk", "cut"): np.uint8,
    ("CutAsk", "missing_left"): np.bool_,
    ("CutAsk", "bin_set"): np.uint64,
    ("FinishAsk", "numbers"): np.int64,
    ("Ownership", "tree_start"): np.int64,
    ("Ownership", "left"): np.uint32,
    ("Ownership", "owner"): np.int16,
    ("Ownership", "depths"): np.int64,
}
OPAQUE = {  # bytes: keys, sealed letters, shares, a question in its own frame, a consented part
    ("PartReply", "data"),
    ("MeetReply", "public_key"),
    ("SecretReply", "letters"),
    ("SecretAsk", "public_keys"),
    ("TakeAsk", "public_key"),
    ("TakeAsk", "letter"),
    ("RequestReply", "data"),
    ("RespondReply", "setup"),
    ("RespondReply", "response"),
    ("RespondAsk", "request"),
    ("Sealed", "public_key"),
    ("Sealed", "planes"),
    ("SumsReply", "sums"),
    ("KeysReply", "public_key"),
    ("KeysReply", "pair_keys"),
    ("KeysReply", "self_checks"),
    ("KeysReply", "letters"),
    ("SharesAsk", "pair_keys"),
    ("SharesAsk", "letters"),
    ("UnmaskReply", "shares"),
    ("MaskedAsk", "question"),
    ("KeyReply", "public"),
    ("KeyReply", "signature"),
    ("KeyReply", "certificate"),
}


def parts_of(kind, path=()):
    """Give (dataclass name, field, leaf type) of everything a message holds, however deep."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        yield from leaves_of(hints[field.name], kind.__name__, field.name, path)


def leaves_of(hint, owner, name, path):
    if is_dataclass(hint):
        assert hint not in path, "a message must not nest in itself"
        yield from parts_of(hint, (*path, hint))
    elif get_origin(hint) is np.ndarray:
        yield owner, name, ("array", get_args(get_args(hint)[1])[0])
    elif get_origin(hint) is Literal:
        yield owner, name, str
    elif get_args(hint):
        for argument in get_args(hint):
            if argument is not Ellipsis:
                yield from leaves_of(argument, owner, name, path)
    else:
        yield owner, name, hint


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_no_message_carries_rows(kind):
    """Whoever adds a field to a message must say here what it is, and to "who learns what"."""
    for owner, name, leaf in parts_of(kind):
        if isinstance(leaf, tuple):
            assert ARRAYS.get((owner, name)) is leaf[1], f"{owner}.{name} carries an array"
        elif leaf is bytes:
            assert (owner, name) in OPAQUE, f"{owner}.{name} carries bytes"
        else:
            assert leaf in PLAIN | PACKED, f"{owner}.{name} carries a {leaf}"


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_no_message_carries_an_exact_release(kind):
    for _, _, leaf in parts_of(kind):
        assert not (isinstance(leaf, type) and issubclass(leaf, Exact))


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_message_is_frozen(kind):
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    assert parameters is not None
    assert parameters.frozen


def test_no_value_of_the_table_is_in_a_reply():
    """A canary in the data: a value that no edge, mean or category can be."""
    canary = np.float32(1234567.875)
    X = np.r_[np.linspace(0, 1, 49), canary].astype(np.float32)[:, None]
    given_input = fit_input(
        HorizontalForestClassifier(),
        X,
        np.arange(50) % 2,
        is_classifier=True,
        needs_ranges=False,
        schema=None,
        categorical_features=None,
    )
    replies: list[bytes] = []

    class Overheard(horizontal_forest.Party):
        def answer(self, ask):
            reply = super().answer(ask)
            replies.append(codec.encode(reply))
            return reply

    job = horizontal_forest.Settings(task="classification", n_estimators=3, max_bins=8)
    horizontal_forest.train(InProcess({"all": Overheard(given_input.table)}), job)
    assert len(replies) > 5
    for width in (np.float32, np.float64):
        for order in ("<", ">"):
            needle = np.array(canary, np.dtype(width).newbyteorder(order)).tobytes()
            assert not any(needle in reply for reply in replies)


# --- what questions say of themselves ------------------------------------------------------------

WHO_LEARNS_WHAT = {  # the words by which a protocol's docstring tells of each question
    "SchemaAsk": ("horizontal_forest", "each party's schema"),
    "FactsAsk": ("horizontal_forest", "counts of rows, missing values, categories and classes"),
    "EdgesAsk": ("horizontal_forest", "single cells, exactly: those at which bins end"),
    "LevelAsk": ("horizontal_forest", "the histograms of every node"),
    "RangesAsk": ("extra_trees", "each party's smallest and largest bin in every node"),
    "NoisyCutsAsk": ("noisy_cuts", "noisy counts on both sides of every drawn cut"),
    "CutsAsk": ("extra_trees", "how many rows of each class stand on each side of every drawn cut"),
    "AdaptiveAsk": ("horizontal_forest", "each party's own histograms, bin means included"),
    "QualityAsk": ("horizontal_forest", "its quality counts (a confusion matrix, or error sums)"),
    "ExplainAsk": (
        "explaining",
        "summed over parties, a confusion matrix (or four sums of errors)",
    ),
    "MeetAsk": ("matching", "each party's number of ids and of which kind they are"),
    "SecretAsk": ("matching", "letters it cannot open"),
    "TakeAsk": ("matching", "letters it cannot open"),
    "TagsAsk": ("matching", "the tags of all ids"),
    "RequestAsk": ("matching", "a private set intersection with each of the others"),
    "RespondAsk": ("matching", "which rows it shares with each of the others"),
    "SharedAsk": ("matching", "the size of the intersection"),
    "CommonAsk": ("matching", "which of its own rows all parties share"),
    "HoldingsAsk": ("vertical_forest", "how many rows and columns each party has"),
    "LabelsAsk": ("vertical_forest", "the encoded label of every row"),
    "StartAsk": ("vertical_forest", "the samples"),
    "GainAsk": ("vertical_forest", "each party's best gain in each node"),
    "SplitAsk": ("vertical_forest", "the partitions"),
    "FinishAsk": ("vertical_forest", "that every party has its part"),
    "SealAsk": ("vertical_sums", "carries ciphertexts"),
    "SumsAsk": ("vertical_sums", "sees counts of rows in cells"),
    "ChooseAsk": ("vertical_sums", "learns the choices"),
    "CutAsk": ("vertical_sums", "which of their cuts were chosen"),
    "LeavesAsk": ("vertical_prediction", "each party's side of every cut that a row may meet"),
    "ValuesAsk": ("vertical_prediction", "answers with predictions, which the coordinator sees"),
    "JudgeAsk": ("vertical_forest", "a confusion matrix, or error sums, from the label party"),
    "PartAsk": ("vertical_prediction", "a party that consents gives its whole part away"),
    "JoinAsk": ("paying", "learns that a party joins"),
    "ClaimsAsk": ("paying", "its claims: prices that follow from the job's settings"),
    "NoisyLevelAsk": ("noisy_histograms", "noisy histograms of every open node"),
    "LeafAsk": ("noisy_histograms", "noisy counts of every leaf"),
    "ForestJoinAsk": ("private_forest", "that it joins"),
    "RandomLeavesAsk": ("private_forest", "the noisy class counts of their leaves"),
    "TreeJoinAsk": ("private_tree", "that it joins"),
    "CellsAsk": ("private_tree", "noisy histograms of every open node"),
    "BoundsAsk": ("private_tree", "noisy bounds for every column"),
    "ProposalsAsk": ("private_tree", "each party's own choice of a cut"),
    "SidesAsk": ("private_tree", "noisy counts of both sides of those cuts"),
    "TrustedCellsAsk": ("private_tree", "exact histograms of every open node"),
    "TreeLeavesAsk": ("private_tree", "the noisy class counts of its leaves"),
    "DepthAsk": ("genetic_tree", "of depths, votes and scores only sums over the active parties"),
    "StructureAsk": ("genetic_tree", "each active party's structure"),
    "VotesAsk": ("genetic_tree", "of depths, votes and scores only sums over the active parties"),
    "ScoresAsk": ("genetic_tree", "of depths, votes and scores only sums over the active parties"),
    "ChoiceAsk": ("genetic_tree", "how many parties keep their own tree"),
    "NoisyJoinAsk": ("noisy_evolution", "learns that a party joins"),
    "NoisyScoresAsk": ("noisy_evolution", "learns counts with noise"),
    "TruexJoinAsk": ("truex_tree", "that a party joins"),
    "TruexAsk": ("truex_tree", "noisy counts of the rows of open nodes by cell and class"),
    "KeyAsk": ("rosters", "the parties' public keys, signatures and certificates"),
    "RosterAsk": ("rosters", "the parties' public keys, signatures and certificates"),
    "EpochAsk": ("secure_sums", "each other's public keys"),
    "LettersAsk": ("secure_sums", "fresh keys"),
    "MaskedAsk": ("secure_sums", "learns the sum over the parties that answered"),
    "RevealAsk": ("secure_sums", "who dropped out"),
}


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_question_says_what_its_reply_reveals(ask):
    assert isinstance(ask.reveals, str)
    assert ask.reveals
    assert not ask.reveals.endswith(".")  # it stands in a table
    reply: type = ask.reply_type
    assert reply in REPLIES
    assert ask.__name__.endswith("Ask")
    assert reply.__name__.endswith("Reply")


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_question_s_docstring_is_the_question(ask):
    first = (ask.__doc__ or "").split("(")[0].strip().splitlines()[0]
    assert "?" in first


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_question_is_told_of_in_its_protocol(ask):
    module, words = WHO_LEARNS_WHAT[ask.__name__]
    text = importlib.import_module(f"spinney.protocols.{module}").__doc__ or ""
    assert " ".join(words.split()) in " ".join(text.split())


def test_it_is_said_that_edges_come_from_exact_cells(ward_table, ward_labels):
    """In the disclosure record, and in the protocol's table; parties get round numbers."""
    forest = HorizontalForestClassifier(2, max_depth=2, random_state=0)
    forest.fit(ward_table, ward_labels["two classes"])
    said = {row.question: row.statistic for row in forest.report_.disclosures}
    assert "the cells at which bins end, exactly" in said["Edges"]
    assert "over bins that all parties know" in said["Level"]
    text = " ".join((importlib.import_module(horizontal_forest.__name__).__doc__ or "").split())
    assert "| parties | the forest as it grows, and all bin edges: the roundest number" in text


SHARED = "setup"  # its questions are told of in the protocols that ask them


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_file_that_asks_says_who_learns_what(ask):
    if ask.__module__ != f"spinney.protocols.{SHARED}":
        text = importlib.import_module(ask.__module__).__doc__ or ""
        assert "**Who learns what.**" in text


@pytest.mark.parametrize(
    "module",
    [
        "horizontal_forest",
        "extra_trees",
        "secure_sums",
        "noisy_histograms",
        "private_tree",
        "private_forest",
        "vertical_forest",
        "vertical_sums",
        "vertical_prediction",
        "matching",
        "matched_forest",
    ],
)
def test_a_protocol_says_how_many_rounds_and_bytes_it_takes(module):
    text = importlib.import_module(f"spinney.protocols.{module}").__doc__ or ""
    assert "**Rounds and bytes.**" in text


def test_the_question_types_hold_no_any():
    for kind in MESSAGES:
        for _, _, leaf in parts_of(kind):
            assert leaf is not Any
