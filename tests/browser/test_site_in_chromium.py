"""The documentation site in Chromium, as wide as a desktop and as narrow as a telephone."""

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

ROOT = Path(__file__).parents[2]
PAGES = ("", "start/", "is-it-for-you/", "install/", "vertical/", "api/", "deploy/", "project/")
pytestmark = pytest.mark.slow  # builds the site: half a minute


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder / "0.2.0")],
        cwd=ROOT, check=True, capture_output=True, env={**os.environ, "SPINNEY_DOCS_QUICK": "1"},
    )  # fmt: skip
    (folder / "versions.json").write_text(
        '[{"version": "0.2.0", "title": "0.2.0", "aliases": ["latest"]}]'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/0.2.0/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_as_wide_as_the_window(chromium, site, page, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get(site + page)
    wide, window = chromium.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert window == width
    assert wide <= width
    assert chromium.find_element(By.CSS_SELECTOR, "article h1").text


def test_the_site_has_search_versions_a_dark_side_and_copies_code(chromium, site):
    metrics = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get(site + "start/")
    chromium.implicitly_wait(10)
    assert chromium.find_element(By.CSS_SELECTOR, ".md-version__current").text == "0.2.0"
    assert chromium.find_elements(
        By.CSS_SELECTOR, "article .md-code__button, article .md-clipboard"
    )
    chromium.find_element(By.CSS_SELECTOR, "label[for='__palette_1']").click()
    body = chromium.find_element(By.TAG_NAME, "body")
    assert body.get_attribute("data-md-color-scheme") == "slate"
    chromium.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys("epsilon")
    assert chromium.find_element(By.CSS_SELECTOR, ".md-search-result__item").text
    chromium.implicitly_wait(0)
