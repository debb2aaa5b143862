"""The page in a real browser: opens from disk with no network, on paper, phone and screen."""

import base64
import json

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from typer.testing import CliRunner

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, deal_rows
from spinney.cli.main import app

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


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


def test_names_with_markup_and_in_any_script_are_shown_as_they_are(page, opened, forest):
    browser = opened(page)
    text = browser.find_element(By.TAG_NAME, "body").text
    names = forest.model_.schema.names
    assert names[0].startswith("<img")
    for name in (*names, "<i>south</i>", "<b>ill</b>"):
        assert name in text
    assert browser.find_elements(By.CSS_SELECTOR, "img, i, b") == []


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
    columns = (
        random.normal(50, 15, 20),
        pd.Categorical(random.choice(["</script>", "耳", "eye"], 20)),
        np.where(random.random(20) < 0.5, np.nan, random.integers(0, 9, 20)),
    )
    frame = pd.DataFrame(dict(zip(forest.model_.schema.names, columns, strict=True)))
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
        opened(page)
        browser.find_element(By.CSS_SELECTOR, "#row-form button").click()
        browser.execute_script(
            "document.querySelectorAll('details').forEach((d) => (d.open = true))"
        )
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        cut_off = browser.execute_script(
            """return [...document.querySelectorAll(".wide, figure:not(.side-by-side *)")].filter(
            (one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
        )
        assert cut_off == []
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


def test_no_word_of_a_chart_is_cut_off(opened, tmp_path):
    """A simulation's page has every kind of chart; a number may need all its digits."""
    random = np.random.default_rng(0)
    age, ward = random.normal(50, 15, 3000).round(1), random.choice(["eye", "ear", "knee"], 3000)
    ill = np.where(age + 10 * (ward == "eye") + random.normal(0, 8, 3000) > 52, "yes", "no")
    path = tmp_path / "own.csv"
    pd.DataFrame({"age": age, "ward": ward, "ill": ill}).to_csv(path, index=False)
    given = ["simulate", str(path), "--label", "ill", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    browser = opened(tmp_path / "run" / "report.html")
    outside = """return [...document.querySelectorAll("svg text")].filter(word => {
      const box = word.getBoundingClientRect(), svg = word.ownerSVGElement;
      const room = svg.getBoundingClientRect();
      return !svg.closest(".tree, #tree, #drawing") && box.width && room.width
        && (box.left < room.left - 1 || box.right > room.right + 1);
    }).map(word => word.textContent)"""
    assert browser.execute_script(outside) == []


@pytest.mark.slow(reason="grows 300 trees over 200 columns at 20 parties")
def test_the_page_of_a_large_run_stays_small_and_opens(opened, tmp_path):
    random = np.random.default_rng(0)
    names = [f"a column with a rather long name {number}" for number in range(200)]
    X = pd.DataFrame(random.normal(size=(20_000, 200)), columns=names)
    y = X[names[0]] + X[names[1]] * X[names[2]] + random.normal(size=len(X)) > 0
    model = HorizontalForestClassifier(300, max_depth=14, random_state=0)
    model.fit(X, y, party=deal_rows(y, 20, random_state=0))
    path = tmp_path / "report.html"
    model.report_.to_html(path, model.model_)
    assert path.stat().st_size < 5_000_000
    browser = opened(path)
    took = browser.execute_script("return performance.now()") / 1000
    print(f"{path.stat().st_size / 1e6:.2f} MB, drawn within {took:.2f} s")  # noqa: T201
