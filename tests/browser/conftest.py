"""A headless Chromium with its network off, and a page whose names are hard to show."""

import shutil
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from spinney import deal_rows
from spinney.estimators.horizontal_forest import HorizontalForestClassifier
from spinney.protocols.release_terms import Hardening
from spinney.report.door import release

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
MARKUP, WARD = "<img src=x onerror=alert(1)>", "病棟 קומה"


@pytest.fixture(scope="session")
def chromium():
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1100,1000",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the network is off
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(120)
    yield driver
    driver.quit()


@pytest.fixture
def opened(chromium):
    """Open a page from disk and wait until its trees can be looked at."""

    def opening(path) -> Any:
        chromium.get_log("browser")
        chromium.get(f"file://{path}")
        for _ in range(600):
            if chromium.execute_script("return document.documentElement.dataset.ready"):
                return chromium
            time.sleep(0.1)
        raise AssertionError(chromium.get_log("browser"))

    return opening


@pytest.fixture(scope="session")
def forest():
    random = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            MARKUP: random.normal(50, 15, n),
            WARD: pd.Categorical(random.choice(["</script>", "耳", "eye"], n)),
            "beds": random.integers(0, 9, n).astype(float),
        }
    )
    frame.loc[random.random(n) < 0.2, "beds"] = np.nan
    ill = (frame[MARKUP] > 55) ^ (frame[WARD] == "耳")
    y = np.where(ill, "<b>ill</b>", "well")
    site = np.array(["north", "<i>south</i>"])[deal_rows(y, 2, random_state=0)]
    found = HorizontalForestClassifier(4, max_depth=5, random_state=0).fit(frame, y, party=site)
    found.model_ = release(found.model_, Hardening())[0]  # as the page holds it
    return found


@pytest.fixture(scope="session")
def page(forest, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    forest.report_.to_html(path, forest.model_)
    return path
