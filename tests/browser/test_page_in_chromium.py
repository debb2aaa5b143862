"""The page in a real browser: opens from disk, draws, answers clicks and keys; no network."""

import base64
import json

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from spinney import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    PrivateTreeClassifier,
    VerticalForestClassifier,
    deal_rows,
)
from spinney.protocols.model import ForestModel
from spinney.report.report import Report
from spinney.tables.schema import Column, Label, Schema
from spinney.trees.forest import Forest

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
MARKUP = "<img src=x onerror=alert(1)>"
NAMES = {"age": MARKUP, "ward": "病棟 קומה"}


@pytest.fixture(scope="module")
def forest():
    random = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            MARKUP: random.normal(50, 15, n),
            NAMES["ward"]: pd.Categorical(random.choice(["</script>", "耳", "eye"], n)),
            "beds": random.integers(0, 9, n).astype(float),
        }
    )
    frame.loc[random.random(n) < 0.2, "beds"] = np.nan
    ill = (frame[MARKUP] > 55) ^ (frame[NAMES["ward"]] == "耳")
    y = np.where(ill, "<b>ill</b>", "well")
    site = np.array(["north", "<i>south</i>"])[deal_rows(y, 2, random_state=0)]
    return HorizontalForestClassifier(4, max_depth=5, random_state=0).fit(frame, y, party=site)


@pytest.fixture(scope="module")
def page(forest, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    forest.report_.to_html(path, forest.model_)
    return path


def shown(browser):
    return browser.find_elements(By.CSS_SELECTOR, ".tree .node")


def test_it_loads_from_disk_without_an_error_and_asks_no_network(page, opened):
    browser = opened(page)
    assert browser.get_log("browser") == []
    asked = [
        message["params"]["request"]["url"]
        for line in browser.get_log("performance")
        if (message := json.loads(line["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in asked} <= {"file", "data", "chrome", "about"}


def test_names_with_markup_and_in_any_script_are_shown_as_they_are(page, opened):
    browser = opened(page)
    text = browser.find_element(By.TAG_NAME, "body").text
    for name in (MARKUP, NAMES["ward"], "<i>south</i>", "<b>ill</b>"):
        assert name in text
    assert browser.find_elements(By.CSS_SELECTOR, "img, i, b") == []


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


def ask(browser, row, output):
    """Return what the page's script says of a row: its prediction and SHAP values."""
    script = """
    const done = arguments[arguments.length - 1];
    const head = JSON.parse(document.getElementById("trees-head").textContent);
    Forest.read(head, document.getElementById("trees-data").textContent).then((forest) => {
      const { base, phi } = contributions(forest, arguments[0], arguments[1]);
      done([forest.predicted(arguments[0]), base, Array.from(phi)]);
    });
    """
    return browser.execute_async_script(script, row, output)


def test_the_page_predicts_as_the_model_does(page, opened, forest):
    browser = opened(page)
    random = np.random.default_rng(1)
    rows = forest.model_.schema.columns
    frame = pd.DataFrame(
        {
            MARKUP: random.normal(50, 15, 20),
            NAMES["ward"]: pd.Categorical(random.choice(["</script>", "耳", "eye"], 20)),
            "beds": np.where(random.random(20) < 0.5, np.nan, random.integers(0, 9, 20)),
        }
    )
    assert [column.name for column in rows] == list(frame.columns)
    expected = forest.predict_proba(frame)
    for row, shares in zip(forest.encoded(frame), expected, strict=True):
        plain = [None if np.isnan(x) else float(x) for x in row]
        predicted, base, phi = ask(browser, plain, 1)
        assert np.allclose(predicted, shares, atol=2e-5)
        assert base + sum(phi) == pytest.approx(shares[1], abs=1e-4)


def test_its_shap_values_are_those_of_shap_on_the_exported_model(opened, tmp_path, tree_explainer):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4)).round(3)
    y = X[:, 0] * 2 + np.abs(X[:, 1]) + X[:, 0] * X[:, 2]
    forest = HorizontalForestRegressor(5, max_depth=5, random_state=0).fit(X, y)
    forest.report_.to_html(tmp_path / "report.html", forest.model_)
    explainer = tree_explainer(forest.to_sklearn())
    browser = opened(tmp_path / "report.html")
    for row, expected in zip(X[:10], explainer.shap_values(X[:10]), strict=True):
        _, base, phi = ask(browser, row.tolist(), 0)
        assert np.allclose(phi, expected, atol=1e-4)
        assert base == pytest.approx(float(np.ravel(explainer.expected_value)[0]), abs=1e-4)


def test_following_a_row_marks_its_way_and_explains_it(page, opened):
    browser = opened(page)
    browser.find_element(By.CSS_SELECTOR, "#row-form button").click()
    assert len(browser.find_elements(By.CSS_SELECTOR, ".node.path")) >= 2
    assert "The drawn trees say" in browser.find_element(By.CSS_SELECTOR, ".answer").text
    assert browser.get_log("browser") == []


def media(browser, kind, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def colour_of_paper(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_it_is_light_or_dark_as_the_reader_is_and_prints_on_white(page, opened):
    browser = opened(page)
    try:
        media(browser, "screen", "light")
        assert colour_of_paper(browser) == "rgb(255, 255, 255)"
        media(browser, "screen", "dark")
        assert colour_of_paper(browser) == "rgb(13, 17, 23)"
        media(browser, "print", "dark")
        assert colour_of_paper(browser) == "rgb(255, 255, 255)"
        gone = browser.find_elements(By.CSS_SELECTOR, ".on-screen, nav, .controls")
        assert gone
        assert not any(one.is_displayed() for one in gone)
        printed = browser.execute_cdp_cmd("Page.printToPDF", {})
        assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    finally:
        media(browser, "", "light")


def test_on_a_phone_nothing_is_wider_than_the_screen(page, opened):
    browser = opened(page)
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        browser.refresh()
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_screen_reader_finds_headings_landmarks_and_names(page, opened):
    browser = opened(page)
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert len(browser.find_elements(By.TAG_NAME, landmark)) == 1
    nameless = browser.execute_script(
        """return [...document.querySelectorAll("input, select, button, svg[role]")].filter(
        (one) => !(one.labels?.length || one.textContent.trim() || one.ariaLabel)).length"""
    )
    assert nameless == 0
    for table in browser.find_elements(By.TAG_NAME, "table"):
        assert table.find_elements(By.TAG_NAME, "caption")
        assert table.find_elements(By.CSS_SELECTOR, "th[scope]")
    skip = browser.find_element(By.CSS_SELECTOR, "a.skip")
    assert skip.get_attribute("href").endswith("#main")


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


def test_a_hundred_trees_of_depth_twelve_are_small_and_soon_there(opened, tmp_path):
    forest = complete_forest(100, 12, 20)
    schema = Schema(
        tuple(Column(f"c{i}", "number") for i in range(20)), Label("y", "class", ("no", "yes"))
    )
    model = ForestModel("horizontal_forest", schema, forest, (np.zeros(0, np.uint8),) * 20)
    model.check("made up")
    report = Report("horizontal_forest", ("a",), 100, 12, forest.n_nodes, (), (), {}, (), {})
    path = tmp_path / "report.html"
    report.to_html(path, model)
    assert path.stat().st_size < 5_000_000
    browser = opened(path)
    head = json.loads(
        browser.execute_script("return document.getElementById('trees-head').textContent")
    )
    assert head["n_trees"] == 100
    browser.find_element(By.ID, "tree-open").click()
    assert len(shown(browser)) == 31
    assert browser.get_log("browser") == []
