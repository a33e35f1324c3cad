"""A headless Chromium to look at pages with."""

import json
import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
]


@contextmanager
def opened(page, profile):
    """Open a file or an address, or skip the test where there is no browser."""
    chromium = shutil.which("chromium")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no browser here: install Debian's chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability(
        "goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"}
    )
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    service = webdriver.ChromeService(driver)
    browser = webdriver.Chrome(options=options, service=service)
    try:
        browser.get(page if isinstance(page, str) else page.as_uri())
        yield browser
    finally:
        browser.quit()


def loaded_from_elsewhere(browser):
    """Addresses beyond the page's own file that the browser was asked for."""
    events = [json.loads(entry["message"]) for entry in browser.get_log("performance")]
    addresses = [
        event["message"]["params"]["request"]["url"]
        for event in events
        if event["message"]["method"] == "Network.requestWillBeSent"
    ]
    assert browser.current_url in addresses, "the log of requests is empty"
    # chrome: is the browser's own first tab, data: is inside the page.
    within = ("chrome:", "data:", "blob:", browser.current_url)
    return [address for address in addresses if not address.startswith(within)]


def drawn(browser, count):
    """Wait until so many figures are drawn and return their boxes."""
    from selenium.webdriver.support.wait import WebDriverWait

    script = """
        return [...document.querySelectorAll(".plotly-graph-div")]
            .filter(div => div.querySelector(".main-svg"))
            .map(div => [div.clientWidth, div.clientHeight]);
    """
    WebDriverWait(browser, 60).until(
        lambda page: len(page.execute_script(script)) == count
    )
    return browser.execute_script(script)
