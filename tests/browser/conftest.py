"""A headless Chromium with its network off."""

import shutil
import time
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


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
        "--host-resolver-rules=MAP * ~NOTFOUND",  # the network is off
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
