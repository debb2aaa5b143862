"""The page as text: what it says, and what it never lets through. A browser looks at it too."""

import re

import msgspec
import numpy as np
import pandas as pd
import pytest

from spinney import GeneticTreeClassifier, HorizontalForestClassifier, deal_rows
from spinney.protocols.training import Unfinished
from spinney.report.facts import PartyQuality
from spinney.report.page.markup import Html, tag
from spinney.report.page.packed_trees import level_order, pack_trees
from spinney.report.page.page import page_of
from spinney.report.report import Report
from spinney.report.verdicts import joinings
from spinney.transport.channel import Round

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture
def forest(ward_table, ward_labels):
    y = ward_labels["two classes"]
    site = np.array(["north", "south"])[deal_rows(y, 2, random_state=0)]
    return HorizontalForestClassifier(3, max_depth=4, random_state=0).fit(ward_table, y, party=site)


def test_texts_are_escaped_and_markup_is_not():
    assert tag("p", "<b>", Html("<i>x</i>"), title='"') == (
        '<p title="&quot;">&lt;b&gt;<i>x</i></p>'
    )
    assert tag("option", selected=True, hidden=False, lang=None) == "<option selected></option>"


def test_a_page_has_its_sections_and_needs_no_network(forest):
    page = page_of(forest.report_, forest.model_)
    for words in (
        "Was it worth it?",
        "What left the parties?",
        "The trees",
        "Why?",
        "How it went",
    ):
        assert f"<h2>{words}</h2>" in page
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r"(src|href)=.(https?:|//)", page)
    assert len(page) < 200_000


def test_a_sentence_says_whether_joining_was_worth_it(forest):
    quality = (
        PartyQuality("a", "held-out", 50, {"f1": 0.7, "local_f1": 0.6}, {"gain_f1": (0.02, 0.2)}),
        PartyQuality("b", "held-out", 50, {"f1": 0.5, "local_f1": 0.6}, {"gain_f1": (-0.2, 0.1)}),
    )
    page = page_of(msgspec.structs.replace(forest.report_, quality=quality))
    assert "Joining helped 1 of 2 parties by F1 and hurt 0 (1 no clear difference)." in page
    assert "Overall: no clear difference, on average 0.600 alone and 0.600 together" in page


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ([(0.1, 0.2), (0.1, 0.3)], "helped 2 of 2 parties by F1 and hurt 0. Overall: it helped"),
        ([(-0.2, -0.1), (-0.2, 0.1)], "helped 0 of 2 parties by F1 and hurt 1 (1 no clear"),
        ([(-0.2, -0.1), (-0.3, -0.1)], "and hurt 2. Overall: it hurt, on average 0.600 alone"),
        ([(-0.2, 0.1), None], "(1 no clear difference, 1 too few rows to tell)"),
        ([None, None], "By F1, no party has enough held-out rows to tell whether joining helped"),
    ],
)
def test_a_verdict_says_helped_hurt_or_no_clear_difference(gains, words):
    quality = [
        PartyQuality(
            str(n), "held-out", 50, {"f1": 0.5, "local_f1": 0.6}, {"gain_f1": gain} if gain else {}
        )
        for n, gain in enumerate(gains)
    ]
    (told,) = joinings(quality)
    assert words in told.in_words()


def test_a_report_without_a_comparison_says_what_compares(forest):
    words = "Quality was not compared: no party's own model was scored beside this one"
    assert words.split("'")[1] in page_of(forest.report_)
    text = " ".join(str(forest.report_).split())
    assert f"worth it? {words}" in text
    assert "`spinney simulate` compares them on held-out rows." in text


def test_a_job_that_ended_early_shows_what_there_is():
    report = Report("horizontal_forest", ("a", "b"), 0, 0, 0, (), (), {}, (), {}, ended="b left.")
    page = page_of(report)
    assert "Training stopped early: b left. This report covers the completed rounds." in page
    assert "There is no model, so there are no trees to show." in page
    assert "Quality was not measured: no party has evaluated the model." in page


def test_a_printed_report_of_a_job_that_ended_early_has_no_empty_table(forest):
    ended = msgspec.structs.replace(forest.report_, ended="Lost.", quality=(), n_trees=0)
    lines = str(ended).splitlines()
    assert "2 parties   no tree finished   stopped early in" in lines[0]
    assert lines[2] == "quality      not measured: no party has evaluated the model"


def test_retries_and_lost_parties_are_told(forest):
    assert "No retries." in page_of(forest.report_)
    report = msgspec.structs.replace(forest.report_, attempts=2, dropped=("south",))
    page = page_of(report)
    assert "1 retry: the job started 2 times, and each time resumed after its last" in page
    assert "Lost on the way: south." in page
    level = next(r for r in report.traffic if r.question == "Level")
    fewer = msgspec.structs.replace(level, bytes_up={"north": 9}, bytes_down={"north": 9})
    report = msgspec.structs.replace(forest.report_, traffic=(*forest.report_.traffic, fewer))
    assert "Lost on the way: south." in page_of(report)


def test_what_was_asked_at_a_job_that_ended_early_is_told(forest):
    rounds = [
        Round(1, "Facts", "sum", "counts of rows", "none", {"a": 5}, {"a": 9}, 0.1, ("a",)),
    ]
    log = Unfinished("horizontal_forest", ("a", "b"), tuple(rounds), {"privacy": None})
    report = Report.of(log, ended="b does not answer.")
    assert {claim.view for claim in report.privacy} == {"coordinator", "party"}
    page = page_of(report)
    for words in (
        "b does not answer. This report covers",
        "counts of rows",
        "No tree was finished.",
    ):
        assert words in page
    private = Report.of(Unfinished("p", ("a",), tuple(rounds), {"privacy": {"epsilon": "1"}}))
    assert private.privacy == ()  # only ledgers can say


def test_a_thousand_columns_stay_a_page():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(80, 1000)), columns=[f"列 {i}" for i in range(1000)])
    forest = HorizontalForestClassifier(3, max_depth=3, random_state=0)
    page = page_of(forest.fit(X, (X.iloc[:, 7] > 0).to_numpy()).report_, forest.model_)
    assert "980 more columns" in page
    assert len(page.encode()) < 1_000_000


def test_nodes_are_packed_level_by_level(forest):
    trees = forest.model_.forest
    order = level_order(trees, trees.n_trees)
    assert sorted(order.tolist()) == list(range(trees.n_nodes))
    place = np.argsort(order)
    start = trees.tree_start
    for tree in range(trees.n_trees):
        nodes = order[start[tree] : start[tree + 1]]
        splits = [node for node in nodes if trees.feature[node] >= 0]
        for k, node in enumerate(splits):
            assert place[trees.left[node]] == start[tree] + 2 * k + 1
    assert pack_trees(forest.model_).n_drawn == 3


def test_trees_too_many_for_a_page_are_left_out_and_it_says_so(forest, monkeypatch):
    monkeypatch.setattr("spinney.report.page.packed_trees.MOST_BYTES", 100)
    page = page_of(forest.report_, forest.model_)
    assert "The page shows the first 1 of 3 trees, to stay small." in page


def test_a_private_page_shows_noise_and_every_charge(ward_table, ward_labels):
    y = ward_labels["two classes"]
    forest = HorizontalForestClassifier(2, max_depth=2, epsilon=4.0, random_state=0)
    forest.fit(ward_table, y, party=np.arange(len(y)) % 2)
    (first, *_) = forest.report_.budgets
    assert (first.before, first.unit) == ("4", "record, add or remove")
    page = page_of(forest.report_, forest.model_)
    for words in (
        "Every count behind this model carries noise",
        "Each party&#x27;s budget",
        "spent",
    ):
        assert words in page
    assert "Every charge at" in page


def test_personal_trees_stand_side_by_side(ward_table, ward_labels):
    y = ward_labels["two classes"]
    trees = GeneticTreeClassifier(6, n_generations=2, random_state=0)
    site = np.array(["north", "<i>south</i>"])[np.arange(len(y)) % 2]
    trees.fit(ward_table, y, party=site)
    page = page_of(trees.report_, trees.model_)
    side = page[page.index('class="side-by-side"') :]
    assert side.index("<figcaption>north</figcaption>") > 0
    assert "<figcaption>&lt;i&gt;south&lt;/i&gt;</figcaption>" in side
    assert side.count("<pre tabindex=") >= 2


def test_means_and_their_interval_are_of_the_same_parties():
    quality = [
        PartyQuality("a", "held-out", 90, {"f1": 0.7, "local_f1": 0.6}, {"gain_f1": (0.05, 0.2)}),
        PartyQuality("b", "held-out", 90, {"f1": 0.8, "local_f1": 0.6}, {"gain_f1": (0.1, 0.3)}),
        PartyQuality("c", "held-out", 9, {"f1": 0.1, "local_f1": 0.9}),
    ]
    (told,) = joinings(quality)
    assert (told.alone, told.together) == (0.6, 0.75)
    assert told.gain is not None
    assert told.gain[0] < told.together - told.alone < told.gain[1]
    assert (
        "Overall: it helped, on average 0.600 alone and 0.750 together at the 2 parties with "
        "enough rows (mean gain within "
    ) in told.in_words()
    (alone,) = joinings(quality[2:])
    assert (alone.alone, alone.together, alone.gain) == (0.9, 0.1, None)


def test_the_interval_of_a_mean_gain_holds_that_gain_however_lopsided_the_intervals():
    quality = [
        PartyQuality(str(n), "held-out", 90, {"rmse": 9.0, "local_rmse": 1.0},
                     {"gain_rmse": (-8.1, 20.0)})
        for n in range(5)
    ]  # fmt: skip
    (told,) = joinings(quality)
    assert told.gain is not None
    assert told.gain[0] < -8.0 < told.gain[1]
