"""Every question says what its reply reveals, and every protocol who learns what."""

import importlib
from typing import Any

import pytest

import spinney.protocols
from contracts.sent_messages import ASKS, REPLIES  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier, deal_rows
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
from spinney.protocols.genetic_tree.messages import StructureAsk
from spinney.protocols.rows.setup import EdgesAsk
from spinney.protocols.verified.messages import StepAsk
from spinney.protocols.vertical_boosting import matched as matched_boosting
from spinney.protocols.vertical_forest import matched as matched_forest
from spinney.transport.channel import Ask

WHO_LEARNS_WHAT = {  # the words by which a protocol's docstring tells of each question
    "SchemaAsk": ("horizontal_forest", "each party's schema"),
    "FactsAsk": ("horizontal_forest", "counts of rows, missing values, categories and classes"),
    "EdgesAsk": ("horizontal_forest", "single cells, exactly: those at which bins end"),
    "OwnEdgesAsk": ("horizontal_forest", "of a party that trains alone its bin edges"),
    "LevelAsk": ("horizontal_forest", "the histograms of every node"),
    "TargetsAsk": ("horizontal_boosting", "the sum of targets (regression)"),
    "GradientsAsk": (
        "horizontal_boosting",
        "the histograms of every node that is not derived from its parent and sibling",
    ),
    "CurveAsk": (
        "horizontal_boosting",
        "the loss of each party's training rows after each batch",
    ),
    "ErrorsAsk": ("horizontal_boosting", "its quality counts (a confusion matrix, or error sums)"),
    "RangesAsk": ("extra_trees", "each party's smallest and largest bin in every node"),
    "NoisyCutsAsk": (
        "extra_trees.noisy_coordinator",
        "noisy counts on both sides of every drawn cut",
    ),
    "CutsAsk": ("extra_trees", "how many rows of each class stand on each side of every drawn cut"),
    "AdaptiveAsk": ("horizontal_forest", "each party's own histograms, bin means included"),
    "QualityAsk": ("horizontal_forest", "its quality counts (a confusion matrix, or error sums)"),
    "ExplainAsk": (
        "explanation",
        "summed over parties, a confusion matrix (or four sums of errors)",
    ),
    "PlacesAsk": ("table_fit", "about where numbers lie"),
    "FitAsk": ("table_fit", "how many rows of each class are"),
    "IdsAsk": ("table_fit", "the sum of noisy sketches of the rows' ids"),
    "EvaluationAsk": ("private_evaluation", "histograms of scores by class, with noise"),
    "MeetAsk": (
        "columns.matching",
        "each party's number of ids and their kind",
    ),
    "SecretAsk": ("columns.matching", "letters it cannot open"),
    "TakeAsk": ("columns.matching", "letters it cannot open"),
    "TagsAsk": ("columns.matching", "the tags of all ids"),
    "RequestAsk": (
        "columns.matching",
        "a private set intersection with each of the others",
    ),
    "RespondAsk": ("columns.matching", "which rows it shares with each of the others"),
    "SharedAsk": ("columns.matching", "the size of the intersection"),
    "CommonAsk": ("columns.matching", "which of its own rows all parties share"),
    "HoldingsAsk": ("vertical_forest", "how many rows and columns each party has"),
    "LabelsAsk": ("vertical_forest", "the encoded label of every row"),
    "StartAsk": ("vertical_forest", "the samples"),
    "GainAsk": ("vertical_forest", "each party's best gain in each node"),
    "SplitAsk": ("vertical_forest", "the partitions"),
    "FinishAsk": ("vertical_forest", "that every party has its part"),
    "BoostedLabelsAsk": ("vertical_boosting", "the encoded label of every row"),
    "BoostedStartAsk": ("vertical_boosting", "when a column cannot split a node any more"),
    "BatchAsk": ("vertical_boosting", "the loss of all rows before each batch"),
    "ScoreAsk": ("vertical_boosting", "a confusion matrix, or error sums, from the label party"),
    "SealAsk": ("columns.encrypted_coordinator", "carries ciphertexts"),
    "SumsAsk": ("columns.encrypted_coordinator", "sees counts of rows in cells"),
    "ChooseAsk": ("columns.encrypted_coordinator", "learns the choices"),
    "CutAsk": ("columns.encrypted_coordinator", "which of their cuts were chosen"),
    "LeavesAsk": (
        "columns.prediction",
        "each party's side of every cut that a row may meet",
    ),
    "ValuesAsk": (
        "columns.prediction",
        "answers with predictions, which the coordinator sees",
    ),
    "JudgeAsk": ("vertical_forest", "a confusion matrix, or error sums, from the label party"),
    "PartAsk": ("columns.prediction", "a party that consents gives its whole part away"),
    "JoinAsk": ("accounts.account", "learns that a party joins"),
    "ClaimsAsk": ("accounts.account", "its claims: prices that follow from the job's settings"),
    "NoisyLevelAsk": ("row_forest.noisy_rows", "noisy histograms of every open node"),
    "LeafAsk": ("row_forest.noisy_rows", "noisy counts of every leaf"),
    "BoostingJoinAsk": ("private_boosting", "that it joins"),
    "FirstFactsAsk": ("private_boosting", "the rows in 1,024 equal cells of every number's range"),
    "LeafSumsAsk": ("private_boosting", "the sums of gradients and curvatures in the leaves"),
    "ForestJoinAsk": ("private_forest", "that it joins"),
    "RandomLeavesAsk": ("private_forest", "the noisy class counts of their leaves"),
    "TreeJoinAsk": ("private_tree", "that it joins"),
    "CellsAsk": ("private_tree", "noisy histograms of every open node"),
    "BoundsAsk": ("private_tree", "noisy bounds for every column"),
    "ProposalsAsk": ("private_tree", "each party's own choice of a cut"),
    "SidesAsk": ("private_tree", "noisy counts of both sides of those cuts"),
    "TrustedCellsAsk": ("private_tree", "exact histograms of every open node"),
    "TreeLeavesAsk": ("private_tree", "the noisy class counts of its leaves"),
    "DistilledLeavesAsk": ("private_tree", "the noisy class counts of its leaves"),
    "DepthAsk": ("genetic_tree", "only sums over the active parties of depths, votes and scores"),
    "StructureAsk": ("genetic_tree", "each active party's structure"),
    "VotesAsk": ("genetic_tree", "only sums over the active parties of depths, votes and scores"),
    "ScoresAsk": ("genetic_tree", "only sums over the active parties of depths, votes and scores"),
    "ChoiceAsk": ("genetic_tree", "how many parties keep their own tree"),
    "NoisyJoinAsk": ("genetic_tree.noisy", "that it joins, its claims"),
    "OwnTreeAsk": ("genetic_tree.noisy", "that it has a tree of its own"),
    "ProposalAsk": ("deployment.questions", "whether a party takes part, or the rule"),
    "TermsAsk": ("deployment.questions", "on which terms each party lets the model leave"),
    "AuditAsk": ("deployment.questions", "first learns whether this one passes"),
    "WithdrawAsk": ("deployment.questions", "all are asked to erase what they keep of it"),
    "ModelAsk": ("deployment.questions", "that the party has kept the model"),
    "OutcomeAsk": (
        "deployment.questions",
        "learns the model that all parties have, and its quality",
    ),
    "FindingsAsk": ("deployment.questions", "which columns stand out at which party"),
    "NoisyScoresAsk": ("genetic_tree.noisy", "learns counts with noise"),
    "KeyAsk": ("secure_sums.roster", "the parties' public keys, signatures and certificates"),
    "RosterAsk": ("secure_sums.roster", "the parties' public keys, signatures and certificates"),
    "GroupAsk": ("secure_sums.roster", "parties learn the secret that they share"),
    "StepAsk": ("verified", "every party learns the sums that the coordinator learns"),
    "DerivedAsk": ("deployment.questions", "that the party has kept the model, and its digest"),
    "EpochAsk": ("secure_sums.channel", "each other's public keys"),
    "LettersAsk": ("secure_sums.channel", "fresh keys"),
    "MaskedAsk": ("secure_sums.channel", "learns the sum over the parties that answered"),
    "RevealAsk": ("secure_sums.channel", "who dropped out"),
}


def doc_of(module):
    """Return the text of a protocol's docstring, or of another module's."""
    place = module if module.startswith("deployment.") else f"protocols.{module}"
    return " ".join((importlib.import_module(f"spinney.{place}").__doc__ or "").split())


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_question_says_what_its_reply_reveals(ask):
    assert isinstance(ask.reveals, str)
    assert ask.reveals
    assert not ask.reveals.endswith(".")  # it stands in a table
    reply: type = ask.reply_type
    assert reply in REPLIES or ask is StepAsk  # its reply differs from step to step
    assert ask.__name__.endswith("Ask")
    assert reply.__name__.endswith("Reply")


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_question_s_docstring_is_the_question(ask):
    first = (ask.__doc__ or "").split("(")[0].strip().splitlines()[0]
    assert "?" in first


@pytest.mark.parametrize("ask", ASKS, ids=[ask.__name__ for ask in ASKS])
def test_a_question_is_told_of_in_its_protocol(ask):
    module, words = WHO_LEARNS_WHAT[ask.__name__]
    assert words in doc_of(module)


PROTOCOLS = (  # each with all the questions that its parties answer
    explaining,
    extra_trees,
    genetic_tree,
    horizontal_boosting,
    horizontal_forest,
    matched_boosting,
    matched_forest,
    private_boosting,
    private_evaluation,
    private_forest,
    private_tree,
    table_fit,
    vertical_boosting,
    vertical_forest,
)
BRIEFLY = {"ClaimsAsk": "its claims", "JoinAsk": "that a party joins"}


def untold(protocol, asks):
    """Return the questions of which a protocol's docstring neither tells nor says who does."""
    text = doc_of(protocol.__name__.removeprefix("spinney.protocols."))
    told = {ask.__name__: WHO_LEARNS_WHAT.get(ask.__name__) for ask in asks}
    return [
        name
        for name, known in told.items()
        if known is None
        or not (known[1] in text or f"`{known[0]}`" in text or BRIEFLY.get(name, "?!") in text)
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_a_protocol_tells_of_every_question_that_its_parties_answer(protocol):
    asks = protocol.ASKS if hasattr(protocol, "ASKS") else protocol.SUMMED
    assert not untold(protocol, asks)


def test_every_protocol_with_questions_is_looked_at():
    asking = {m for m in vars(spinney.protocols).values() if hasattr(m, "SUMMED")}
    assert asking <= {*PROTOCOLS}
    assert len(asking) > 5


def test_a_question_that_a_protocol_does_not_tell_of_is_found():
    class PeekAsk(Ask[Any]):
        """May I see a row?"""

    assert untold(private_tree, (*private_tree.ASKS, PeekAsk)) == ["PeekAsk"]
    assert untold(private_forest, (*private_forest.ASKS, StructureAsk)) == ["StructureAsk"]
    assert untold(private_tree, (EdgesAsk,)) == ["EdgesAsk"]


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_it_is_said_that_edges_come_from_exact_cells(ward_table, ward_labels):
    """In the disclosure record, and in the protocol's table; parties get round numbers."""
    forest = HorizontalForestClassifier(2, max_depth=2, random_state=0)
    labels = ward_labels["two classes"]
    forest.fit(ward_table, labels, party=deal_rows(labels, 2, random_state=0))
    said = {row.question: row.statistic for row in forest.report_.disclosures}
    assert "the cells at which bins end, exactly" in said["Edges"]
    assert "over bins that all parties know" in said["Level"]
    text = " ".join((importlib.import_module(horizontal_forest.__name__).__doc__ or "").split())
    assert "| parties | the same sums, from which they derive the forest and check it" in text
    assert "all bin edges: the roundest number between two cells" in text


SHARED = "rows.setup"  # its questions are told of in the protocols that ask them


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
        "secure_sums.channel",
        "row_forest.noisy_rows",
        "private_tree",
        "private_forest",
        "private_boosting",
        "vertical_forest",
        "vertical_boosting",
        "columns.encrypted_coordinator",
        "columns.prediction",
        "columns.matching",
        "columns.matched",
        "genetic_tree",
    ],
)
def test_a_protocol_says_how_many_rounds_and_bytes_it_takes(module):
    text = importlib.import_module(f"spinney.protocols.{module}").__doc__ or ""
    assert "**Rounds and bytes.**" in text
