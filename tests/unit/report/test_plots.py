"""Pictures of a report: what they show, and what they say where there is nothing to show."""

import sys

import msgspec
import numpy as np
import pytest
from matplotlib import pyplot as plt

from spinney import HorizontalForestClassifier, deal_rows, load_report
from spinney.errors import MissingExtraError, SettingError
from spinney.report.facts import PartyQuality

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture(autouse=True)
def _headless():
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture
def forest(ward_table, ward_labels):
    y = ward_labels["two classes"]
    party = deal_rows(y, 2, random_state=0)
    return HorizontalForestClassifier(3, max_depth=4, random_state=0).fit(ward_table, y, party)


def test_gain_shows_a_mark_for_each_party_and_model(forest):
    quality = tuple(
        PartyQuality(p, "held-out", 9, {"f1": 0.7, "local_f1": 0.6}, {"f1": (0.6, 0.8)})
        for p in ("a", "$b")
    )
    axes = msgspec.structs.replace(forest.report_, quality=quality).plot_gain()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "$b"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["alone", "together"]
    assert axes.get_xlabel() == "F1"


def test_importances_and_trees_are_drawn(forest, ward_table):
    axes = forest.report_.plot_importances()
    assert {t.get_text() for t in axes.get_yticklabels()} == set(ward_table.columns)


def test_a_tree_is_drawn_without_texts_over_each_other(forest):
    drawn = forest.report_.plot_tree(0)
    drawn.figure.canvas.draw()
    told = [text.get_text() for text in drawn.texts]
    n_splits = sum(words.endswith(("?", "…")) for words in told)  # long ones are cut
    assert n_splits > 3
    assert told.count("yes") == told.count("no") == n_splits
    boxes = [t.get_bbox_patch() for t in drawn.texts if t.get_text() not in {"yes", "no"}]
    places = [box.get_window_extent() for box in boxes]
    for number, place in enumerate(places):
        assert drawn.figure.bbox.x0 <= place.x0 <= place.x1 <= drawn.figure.bbox.x1
        assert not any(place.overlaps(other) for other in places[number + 1 :])


def test_a_budget_is_drawn_where_noise_was_paid_for(forest, ward_table, ward_labels):
    with pytest.raises(SettingError, match="no budget to plot: the job spent no privacy budget"):
        forest.report_.plot_budget()
    private = HorizontalForestClassifier(2, max_depth=2, epsilon=3.0, random_state=0)
    private.fit(ward_table, ward_labels["two classes"])
    axes = private.report_.plot_budget()
    spent, left = (bars[0].get_width() for bars in axes.containers)
    assert spent + left == pytest.approx(3.0)
    elsewhere = msgspec.structs.replace(private.report_, budgets=())
    with pytest.raises(SettingError, match=r"ledgers are not available here\. Each party"):
        elsewhere.plot_budget()


def test_what_cannot_be_drawn_is_told(forest, tmp_path, monkeypatch):
    forest.report_.save(tmp_path / "report.json")
    loaded = load_report(tmp_path)
    with pytest.raises(SettingError, match="This report was loaded without its model"):
        loaded.plot_tree(0)
    assert loaded.plot_tree(0, model=forest.model_).texts
    with pytest.raises(SettingError, match="tree must be between 0 and 2; got 3"):
        forest.report_.plot_tree(3)
    empty = msgspec.structs.replace(forest.report_, quality=(), importances=())
    with pytest.raises(SettingError, match="no scores to plot"):
        empty.plot_gain()
    with pytest.raises(SettingError, match="no importances to plot"):
        empty.plot_importances()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'spinney-trees\[plot\]'"):
        forest.report_.plot_gain()


def test_a_notebook_shows_the_report_without_markup_from_tables(forest):
    report = msgspec.structs.replace(forest.report_, parties=("<script>alert(1)</script>",))
    shown = report._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script" not in shown
    assert "What left" not in shown
    assert "Every kind of statistic that left a party" in shown
    assert np.char.count(shown, "<table>") >= 2
