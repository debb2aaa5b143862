"""Every message: it carries no row, and nothing exact that it does not name."""

from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from msgspec import UnsetType

from contracts.sent_messages import MESSAGES, NAMES  # type: ignore[import-not-found]
from spinney.estimators.horizontal_forest import (
    HorizontalForestClassifier,
)
from spinney.estimators.inputs import fit_input
from spinney.privacy.release import Exact
from spinney.protocols import (
    horizontal_forest,
)
from spinney.transport import codec
from spinney.transport.carried import Carried
from spinney.transport.deflated import Deflated
from spinney.transport.in_process import InProcess
from spinney.trees.batch import GrownBatch
from spinney.trees.counts import Counts
from spinney.trees.level import Level
from spinney.trees.partition import Partition

PLAIN = {int, float, str, bool, bytes, NoneType, UnsetType}
# Carried: another message of these, in its frame
PACKED = {Counts, Level, Partition, Carried, GrownBatch}
ARRAYS = {
    # counts of rows, and sums of fixed-point targets
    ("FactsReply", "n_rows"): np.int64,
    ("FactsReply", "classes"): np.int64,
    ("FactsReply", "missing"): np.int64,
    ("FactsReply", "categories"): np.int64,
    ("OwnEdgesReply", "ends"): np.int64,  # bin edges of a party that trains alone
    ("OwnEdgesReply", "bits"): np.int64,
    ("QualityReply", "counts"): np.int64,
    ("FitReply", "counts"): np.int64,
    ("IdsReply", "cells"): np.int64,
    ("ExplainReply", "judged"): np.int64,
    ("ExplainReply", "dependence"): np.int64,
    ("AdaptiveHistograms", "moments"): np.int64,
    # sums of scores, weighed by rows; and which column each node of a party's tree asks about
    ("TotalsReply", "sums"): np.int64,
    ("StructureReply", "genes"): np.int16,
    # the same with noise
    ("NoisyReply", "counters"): np.int64,
    ("BoostedSoFar", "facts"): np.int64,
    ("BoostedSoFar", "values"): np.int64,
    ("BoostedSoFar", "curves"): np.int64,
    ("BoostedSoFar", "columns"): np.int64,  # that trees divide: drawn by scores from noisy sums
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
    ("BoostedLabelsReply", "target"): np.integer,
    ("BoostedStartAsk", "target"): np.integer,
    # over columns: how many rows trees have drawn, gains, sides of cuts, and what leaves they name
    ("StartReply", "sizes"): np.int64,
    ("StartReply", "exhausted"): np.bool_,
    ("GainReply", "gain"): np.float64,
    ("SumsReply", "cells"): np.int32,
    # in which direction columns may change the prediction: only with monotonic_cst
    ("SumsReply", "turns"): np.int8,
    ("SplitReply", "turns"): np.int8,
    ("ChooseReply", "turns"): np.int8,
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
    # a tag, and the sum of all parties' tags
    ("Opened", "tags"): np.uint64,
    # uniform words under masks
    ("MaskReply", "vectors"): np.unsignedinteger,
    # the coordinator's own: cut points, bins and weights that everybody may know
    ("Refinement", "prefixes"): np.uint32,
    ("LevelAsk", "held"): np.int64,
    ("Refinement", "bits"): np.uint8,  # of sums that the coordinator knows
    ("CutsAsk", "cuts"): np.uint8,
    ("Binning", "edges"): np.float32,
    ("Binning", "bin_of_category"): np.uint8,
    ("Binning", "has_missing"): np.bool_,
    ("QualityAsk", "class_weight"): np.float64,
    ("FitAsk", "edges"): np.float32,
    ("PlacesAsk", "edges"): np.float32,
    ("ExplainAsk", "model"): np.uint8,
    ("ExplainAsk", "shuffled"): np.int64,
    ("ExplainAsk", "tree_counts"): np.int64,
    ("ExplainAsk", "point_column"): np.int64,
    ("ExplainAsk", "point_value"): np.float32,
    ("TreeSoFar", "asked"): np.int64,
    ("ScoresAsk", "genes"): np.int16,
    ("NoisyScoresAsk", "genes"): np.int16,
    ("OwnTreeAsk", "genes"): np.int16,
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
    ("Refinement", "held"): np.int64,
    ("TargetsReply", "sums"): np.int64,
    ("GradientsReply", "losses"): np.int64,
    ("GradientsAsk", "widths"): np.uint8,  # bits that sums take, from sums that were told
    ("CurveReply", "losses"): np.int64,
    ("BatchReply", "losses"): np.int64,
    ("FinishAsk", "numbers"): np.int64,
    ("Ownership", "tree_start"): np.int64,
    ("Ownership", "left"): np.uint32,
    ("Ownership", "owner"): np.int16,
    ("Ownership", "depths"): np.int64,
}
OPAQUE = {  # bytes: keys, sealed letters, shares, a question in its own frame, a consented part
    ("PartReply", "data"),
    ("ModelAsk", "model"),
    ("AuditAsk", "model"),
    ("OutcomeReply", "model"),
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
    ("KeysReply", "sealed_pairs"),
    ("KeysReply", "self_checks"),
    ("KeysReply", "letters"),
    ("EvaluationAsk", "models"),  # checked like files
    ("SharesAsk", "letters"),
    ("UnmaskReply", "shares"),
    ("UnmaskReply", "pair_checks"),
    ("KeyReply", "public"),
    ("KeyReply", "signature"),
    ("KeyReply", "certificate"),
    ("RosterReply", "letters"),
    ("GroupAsk", "letters"),
    ("Signed", "signature"),
    ("Signed", "certificate"),
    ("SplitReply", "seal"),
    ("ChooseReply", "seal"),
}


def parts_of(kind, path=()):
    """Give (dataclass name, field, leaf type) of everything a message holds, however deep."""
    hints = get_type_hints(kind)
    for field in fields(kind):
        yield from leaves_of(hints[field.name], kind.__name__, field.name, path)


def leaves_of(hint, owner, name, path):
    alias = getattr(get_origin(hint), "__value__", None)
    if alias is not None:  # from NumPy 2.5 on, NDArray is an alias
        hint = alias[get_args(hint)]
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
        elif leaf in (bytes, Deflated):
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


def test_the_question_types_hold_no_any():
    for kind in MESSAGES:
        for _, _, leaf in parts_of(kind):
            assert leaf is not Any
