"""The drawing of the trees in a real browser: clicks, keys, search, texts that fit, many trees."""

import json

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from spinney import (
    HorizontalBoostingClassifier,
    HorizontalForestClassifier,
    PrivateTreeClassifier,
    VerticalForestClassifier,
)
from spinney.protocols.model import ForestModel
from spinney.report.report import Report
from spinney.tables.schema import Column, Label, Schema
from spinney.trees.forest import Forest

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def shown(browser):
    return browser.find_elements(By.CSS_SELECTOR, ".tree .node")


def test_clicks_and_keys_open_and_close_nodes(page, opened):
    browser = opened(page)
    before = len(shown(browser))
    root = browser.find_element(By.CSS_SELECTOR, '.node[data-node="0"]')
    root.click()
    assert len(shown(browser)) == 1
    focused = browser.switch_to.active_element
    assert focused.get_attribute("data-node") == "0"
    focused.send_keys(Keys.ARROW_RIGHT)
    assert len(shown(browser)) == before
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("data-node") == "1"
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.switch_to.active_element.get_attribute("data-node") == "0"
    browser.find_element(By.ID, "tree-open").click()
    assert len(shown(browser)) > before
    roles = {node.get_attribute("role") for node in shown(browser)}
    assert roles == {"treeitem"}


def test_a_very_long_question_is_shortened_in_a_few_steps(page, opened):
    """A category of 1,500 values froze the page: a letter was dropped and measured at a time."""
    browser = opened(page)
    n_measured, shown_text, whole = browser.execute_script(
        "let n = 0; const real = pen.measureText.bind(pen);"
        "pen.measureText = (text) => { n += 1; return real(text); };"
        "const cut = clipped('is one of '.repeat(2000), 200); const whole = clipped('ward', 200);"
        "delete pen.measureText;"
        "return [n, cut, whole];"
    )
    assert n_measured < 20
    assert whole == "ward"
    assert shown_text.endswith("…")
    assert 20 < len(shown_text) < 60


def test_zoom_search_text_and_the_next_tree(page, opened, forest):
    browser = opened(page)
    width = browser.execute_script("return document.querySelector('.tree').clientWidth")
    browser.find_element(By.ID, "tree-in").click()
    wider = browser.execute_script("return document.querySelector('.tree').clientWidth")
    assert wider > width
    seek = browser.find_element(By.ID, "tree-seek")
    seek.send_keys("BEDS")
    status = browser.find_element(By.ID, "trees-status").text
    start, end = forest.model_.forest.tree_start[:2]
    n_beds = int((forest.model_.forest.feature[start:end] == 2).sum())
    assert status.startswith(f"{n_beds} node")
    seek.send_keys(Keys.ENTER)
    chosen = browser.switch_to.active_element
    assert "sought" in chosen.get_attribute("class")
    browser.find_element(By.CSS_SELECTOR, "#tree-as-text summary").click()
    text = browser.find_element(By.ID, "tree-text").text
    assert text.count("missing:") == int((forest.model_.forest.feature[start:end] >= 0).sum())
    browser.find_element(By.ID, "tree-after").click()
    assert browser.find_element(By.ID, "tree-number").get_attribute("value") == "2"


def test_following_a_row_marks_its_way_and_explains_it(page, opened):
    browser = opened(page)
    browser.find_element(By.CSS_SELECTOR, "#row-form button").click()
    assert len(browser.find_elements(By.CSS_SELECTOR, ".node.path")) >= 2
    assert "The drawn trees predict" in browser.find_element(By.CSS_SELECTOR, ".answer").text
    assert browser.get_log("browser") == []


def test_texts_stay_in_their_boxes_and_long_names_leave_room_for_the_cut(opened, tmp_path):
    random = np.random.default_rng(0)
    name = "a measured quantity with a name that no box can hold"
    X = pd.DataFrame({name: random.normal(size=80)})
    y = X[name].to_numpy() > 0.25
    forest = HorizontalForestClassifier(1, max_depth=3, random_state=0).fit(X, y)
    forest.report_.to_html(tmp_path / "report.html", forest.model_)
    browser = opened(tmp_path / "report.html")
    cut = f"≤ {forest.model_.forest.threshold[0]:.5g}"
    first = browser.find_element(By.CSS_SELECTOR, '.node[data-node="0"] .first').text
    assert first.startswith("a measured")
    assert first.endswith(f"… {cut}")
    sticking_out = browser.execute_script(
        """return [...document.querySelectorAll(".node")].filter((node) => {
          const [box] = node.getElementsByTagName("rect");
          return [...node.getElementsByTagName("text")].some(
            (text) => text.getBBox().x + text.getBBox().width > box.width.baseVal.value);
        }).length"""
    )
    assert sticking_out == 0


def test_more_classes_than_colours_can_still_be_told_apart(opened, tmp_path):
    y = np.arange(200) % 20
    forest = HorizontalForestClassifier(1, max_depth=3, random_state=0)
    forest.fit(y[:, None].astype(float), y)
    forest.report_.to_html(tmp_path / "report.html", forest.model_)
    browser = opened(tmp_path / "report.html")
    looks = browser.execute_script(
        """return [...document.querySelectorAll("#tree-legend rect")].map((spot) => {
          const found = spot.style.fill;
          const id = found.match(/#(class-\\d+)/)?.[1];
          return id ? document.getElementById(id).innerHTML : found;
        })"""
    )
    assert len(set(looks)) == len(looks) == 20


def test_a_vertical_page_says_who_asks_each_question(opened, tmp_path):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(80, 3)), columns=["age", "income", "visits"])
    parties = {"bank": ["age", "income"], "<b>shop</b>": ["visits"]}
    forest = VerticalForestClassifier(
        2, max_depth=3, column_party=parties, label_party="bank", random_state=0
    )
    forest.fit(X, (X["age"] + X["visits"] > 0).astype(int))
    forest.report_.to_html(tmp_path / "report.html", forest.model_)
    browser = opened(tmp_path / "report.html")
    told = [node.get_attribute("aria-label") for node in shown(browser)]
    for text in told:
        asks_shop, asks_bank = "visits ≤" in text, "age ≤" in text or "income ≤" in text
        assert ("asked by <b>shop</b>" in text) == asks_shop
        assert ("asked by bank" in text) == asks_bank
    assert browser.find_elements(By.CSS_SELECTOR, "b") == []
    assert "Who owns which splits" in browser.find_element(By.ID, "main").text
    assert browser.get_log("browser") == []


def test_a_private_page_shows_the_noise_on_every_count(opened, tmp_path):
    random = np.random.default_rng(0)
    X = random.uniform(size=(400, 2))
    tree = PrivateTreeClassifier(8.0, max_depth=2)
    tree.fit(X, (X[:, 0] > 0.5).astype(int))
    tree.report_.to_html(tmp_path / "report.html", tree.model_)
    browser = opened(tmp_path / "report.html")
    told = [node.get_attribute("aria-label") for node in shown(browser)]
    assert told
    assert all("counts ± " in text for text in told)
    assert browser.get_log("browser") == []


def complete_forest(n_trees, depth, n_columns):
    """Return a forest of whole trees with cuts that are all different: the hardest to pack."""
    random = np.random.default_rng(0)
    n = 2 ** (depth + 1) - 1
    node = np.arange(n)
    is_leaf = node >= 2**depth - 1
    left = np.where(is_leaf, node, 2 * node + 1)
    start = np.arange(n_trees + 1) * n
    feature = random.integers(0, n_columns, n_trees * n).astype(np.int32)
    feature[np.tile(is_leaf, n_trees)] = -1
    share = random.random(n_trees * n)
    counts = random.integers(1, 400, (n_trees * n, 2))
    return Forest(
        start.astype(np.int64),
        feature,
        random.normal(size=n_trees * n).astype(np.float32),
        (np.tile(left, n_trees) + np.repeat(start[:-1], n)).astype(np.uint32),
        random.random(n_trees * n) < 0.5,
        np.full(n_trees * n, -1, np.int32),
        np.zeros((0, 4), np.uint64),
        counts.astype(np.int64),
        np.where(feature < 0, 0.0, 1.0),
        np.stack([1 - share, share], axis=1),
    )


def page_of_a_complete_forest(path, n_columns):
    forest = complete_forest(100, 12, n_columns)
    columns = tuple(Column(f"measured quantity {i}", "number") for i in range(n_columns))
    schema = Schema(columns, Label("y", "class", ("no", "yes")))
    bins = (np.zeros(0, np.uint8),) * n_columns
    model = ForestModel("horizontal_forest", schema, forest, bins)
    model.check("made up")
    report = Report("horizontal_forest", ("a",), 100, 12, forest.n_nodes, (), (), {}, (), {})
    report.to_html(path, model)
    return path


def test_of_a_thousand_columns_the_hardest_trees_are_drawn_in_part(tmp_path):
    path = page_of_a_complete_forest(tmp_path / "report.html", 1000)
    assert 4_500_000 < path.stat().st_size < 5_000_000
    assert "The page shows the first 8" in path.read_text(encoding="utf-8")


def test_a_hundred_trees_of_depth_twelve_are_small_and_soon_there(opened, tmp_path):
    path = page_of_a_complete_forest(tmp_path / "report.html", 20)
    assert path.stat().st_size < 5_000_000
    browser = opened(path)
    head = json.loads(
        browser.execute_script("return document.getElementById('trees-head').textContent")
    )
    assert head["n_trees"] == 100
    browser.find_element(By.ID, "tree-open").click()
    assert len(shown(browser)) == 31
    assert browser.get_log("browser") == []


def test_a_leaf_of_boosted_trees_begins_with_what_it_adds(opened, tmp_path):
    random = np.random.default_rng(0)
    X = pd.DataFrame({"age": random.normal(50, 15, 300), "beds": random.integers(0, 9, 300)})
    model = HorizontalBoostingClassifier(max_iter=4, batch_trees=2, max_depth=2, random_state=0)
    model.fit(X, (X["age"] > 50).to_numpy(), party=random.integers(0, 2, 300))
    model.report_.to_html(tmp_path / "report.html", model.model_)
    browser = opened(tmp_path / "report.html")
    leaves = browser.find_elements(By.CSS_SELECTOR, ".tree .node .first")
    texts = [leaf.get_attribute("textContent") for leaf in leaves]
    assert any(text.startswith("+") for text in texts)
    assert any(text.startswith("-") for text in texts)
    captions = [c.text for c in browser.find_elements(By.TAG_NAME, "figcaption")]
    assert "Mean loss of each party's training rows" in captions
