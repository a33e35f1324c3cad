"""The page in a browser."""

import csv
import math

import pytest
import torch

from browser import loaded_from_elsewhere, opened
from fullrank.lab import multiset_distance
from fullrank.serve.lab import LabQuestion, experiment, plane_layer
from train.samples import SMILES

PASTED = ["CCO", "c1ccccc1", "nonsense", "CC(=O)O"]


@pytest.fixture(scope="module")
def browser(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    with opened(f"{server.address}/", folder / "profile") as browser:
        browser.downloads = folder
        browser.execute_cdp_cmd(
            "Page.setDownloadBehavior",
            {"behavior": "allow", "downloadPath": str(folder)},
        )
        yield browser


@pytest.fixture
def page(browser, server):
    """The page, freshly loaded."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select
    from selenium.webdriver.support.wait import WebDriverWait

    class Page:
        keys = Keys

        def of(self, selector):
            return browser.find_element(By.CSS_SELECTOR, selector)

        def all(self, selector):
            return browser.find_elements(By.CSS_SELECTOR, selector)

        def until(self, true):
            return WebDriverWait(browser, 60).until(lambda _: true())

        def choose(self, selector, text):
            Select(self.of(selector)).select_by_visible_text(text)

        def status(self, word):
            self.until(lambda: word in self.of("#status").text)

        def run(self, script, *arguments):
            return browser.execute_script(script, *arguments)

        def shown(self, half):
            """The coordinates of one of the stars, the node's first."""
            places = [
                p.get_attribute("transform") for p in self.all(f"#plane .{half} .point")
            ]
            numbers = [p.removeprefix("translate(")[:-1].split() for p in places]
            return [(float(x), -float(y)) for x, y in numbers]

    browser.get(f"{server.address}/")
    found = Page()
    found.until(lambda: found.run("return document.body.dataset.ready"))
    yield found
    assert browser.get_log("browser") == []
    assert loaded_from_elsewhere(browser) == []


def paste(page, texts):
    page.of("#smiles").clear()
    page.of("#smiles").send_keys("\n".join(texts))


def test_pasted_molecules_are_drawn_and_predicted(page, server):
    paste(page, PASTED)
    page.of("button.main").click()
    page.status("3 of 4")
    cards = page.all("#molecules li")
    truth = server.json("/predict", {"smiles": PASTED})["predictions"]
    for card, row in zip(cards, truth, strict=True):
        assert row["smiles"] in card.text
        for number in row["values"].values():
            assert f"{float(f'{number:.4g}'):g}" in card.text
        assert (row["reason"] or "") in card.text
    pictures = "return [...document.querySelectorAll('#molecules img')]"
    page.run("document.querySelector('#molecules').scrollIntoView()")
    widths = f"{pictures}.map(one => one.naturalWidth)"
    page.until(lambda: page.run(widths) == [300, 300, 300])
    assert page.run(f"{pictures}.map(one => one.alt)") == [
        f"Structure of {text}" for text in PASTED if text != "nonsense"
    ]


def test_the_histogram_has_the_training_set_behind_it(page, server):
    paste(page, ["CCO"])
    page.of("#smiles").send_keys(page.keys.CONTROL, page.keys.ENTER)
    page.status("1 of 1")
    assert len(page.all("#histogram .predicted")) == 1
    assert len(page.all("#histogram .training")) > 5
    training = server.json("/models")["models"][0]["outputs"][0]["training"]
    text = page.of("#histogram").get_attribute("aria-label")
    assert f"{training['high']:.4g}" in text
    page.choose("#model", "ring")
    page.of("button.main").click()
    page.until(lambda: "positive" in page.of("#histogram-text").text)
    assert not page.all("#histogram .training")


def test_a_table_is_predicted_and_downloaded(page, browser, tmp_path):
    file = tmp_path / "table.csv"
    rows = [[n, text] for n, text in enumerate(SMILES)]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([["no, really", "molecule"], *rows])
    page.of("#file").send_keys(str(file))
    page.of("#column").send_keys("molecule")
    page.of("button.main").click()
    page.status(f"{len(SMILES)} of {len(SMILES)}")
    assert len(page.all("#molecules li")) == 24
    page.of("#more").click()
    assert len(page.all("#molecules li")) == 48
    page.of("#download").click()
    saved = browser.downloads / "predictions.csv"
    page.until(lambda: saved.exists() and saved.read_text().endswith("\n"))
    with saved.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [row["molecule"] for row in found] == SMILES
    assert [row["no, really"] for row in found] == [str(n) for n, _ in rows]
    assert all(math.isfinite(float(row["predicted_logp"])) for row in found)


def test_atoms_are_coloured_by_contribution(page, server):
    paste(page, ["CCO"])
    page.of("button.main").click()
    page.status("1 of 1")
    page.choose("#output", "weight")
    page.of("#molecules button").click()
    page.until(lambda: "weight" in page.of("#molecules div p").text)
    truth = server.json("/explain", {"smiles": "CCO", "target": "weight"})
    assert f"{truth['value']:.4g}" in page.of("#molecules div p").text
    picture = page.of("#molecules img")
    assert picture.get_attribute("src").startswith("data:image/svg+xml,")
    page.until(lambda: page.run("return arguments[0].naturalWidth", picture) == 300)


def test_what_is_wrong_is_said(page, browser):
    paste(page, [" "])
    page.of("button.main").click()
    page.status("at least one SMILES")
    page.of("#column").send_keys("nowhere")
    page.run(
        "const data = new DataTransfer();"
        "data.items.add(new File(['smiles\\nC\\n'], 'dropped.csv'));"
        "document.dispatchEvent(Object.assign("
        "new DragEvent('drop', {dataTransfer: data, cancelable: true})))"
    )
    page.status("'nowhere'")
    assert page.of("#download").get_attribute("disabled")
    assert all("422" in entry["message"] for entry in browser.get_log("browser"))


def test_everything_has_a_name_and_keys_reach_it(page):
    paste(page, ["CCO"])
    page.of("button.main").click()
    page.status("1 of 1")
    nameless = """
        return [...document.querySelectorAll("input, select, textarea")]
            .filter(one => !one.labels.length).map(one => one.id)
            .concat([...document.querySelectorAll("button")]
                .filter(one => !one.textContent.trim()).map(one => one.outerHTML))
            .concat([...document.querySelectorAll("img")]
                .filter(one => !one.alt).map(one => one.outerHTML))
    """
    assert page.run(nameless) == []
    tab = page.of("#tab-predict")
    tab.send_keys(page.keys.ARROW_RIGHT)
    assert page.run("return document.activeElement.id") == "tab-lab"
    assert page.of("#lab").is_displayed()
    assert not page.of("#predict").is_displayed()
    assert page.of("#tab-lab").get_attribute("aria-selected") == "true"
    page.until(lambda: page.of("#finding").get_attribute("class"))
    assert page.run(nameless) == []


@pytest.mark.parametrize("tab", ["predict", "lab"])
def test_a_phone_is_wide_enough(page, browser, tab):
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        if tab == "predict":
            paste(page, [*PASTED, "C" * 200])
            page.of("button.main").click()
            page.status("4 of 5")
        else:
            page.of("#tab-lab").click()
            page.until(lambda: page.of("#finding").get_attribute("class"))
        assert page.run("return document.documentElement.scrollWidth") <= 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def answered(page):
    page.until(lambda: page.of("#finding").get_attribute("class"))


def output(name, s, re_sum, points):
    """What the layer gives for the node, by running it."""
    layer = plane_layer(name, s, re_sum, 0)
    n = len(points)
    edges = torch.tensor(
        [[*range(1, n), *[0] * (n - 1)], [*[0] * (n - 1), *range(1, n)]]
    )
    return layer(torch.tensor(points, dtype=torch.float64), edges)[0]


def drag(page, browser, point, across, down):
    from selenium.webdriver.common.actions.action_builder import ActionBuilder

    page.run("arguments[0].scrollIntoView({block: 'center'})", point)
    x, y = page.run(
        "const box = arguments[0].getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2].map(Math.round)",
        point,
    )
    actions = ActionBuilder(browser)
    actions.pointer_action.move_to_location(x, y).pointer_down()
    actions.pointer_action.move_to_location(x + across, y + down).pointer_up()
    actions.perform()


def test_a_dragged_point_gets_another_neighbourhood_with_the_same_output(page, browser):
    page.of("#tab-lab").click()
    answered(page)
    before = page.shown("first")
    drag(page, browser, page.all("#plane .first .point")[3], 60, 30)
    answered(page)
    first, second = page.shown("first"), page.shown("second")
    assert first[:3] == before[:3]
    assert first[3] != before[3]
    assert len(second) == 3
    page.all("#plane .first .point")[1].send_keys(page.keys.ARROW_UP)
    answered(page)
    assert page.shown("first")[1][1] == pytest.approx(first[1][1] + 0.1)
    first, second = page.shown("first"), page.shown("second")
    assert multiset_distance(torch.tensor(first[1:]), torch.tensor(second)) > 0.9
    second = [first[0], *second]  # they share the node
    torch.testing.assert_close(
        output("gcn", 1, False, first), output("gcn", 1, False, second)
    )


def test_none_is_shown_where_none_was_found(page):
    page.of("#tab-lab").click()
    answered(page)
    assert page.shown("second")
    page.choose("#layer", "ExpandingConv")
    page.of("#s").clear()
    page.of("#s").send_keys("4")
    page.of("#re-sum").click()
    page.until(lambda: page.of("#finding").get_attribute("class") == "none")
    assert page.shown("second") == []
    answer = experiment(
        LabQuestion(layer="expc", s=4, re_sum=True, points=page.shown("first"))
    )
    assert not answer.found
    # Which points each dimension sums is what the layer does.
    rows = page.all("#sampling tbody tr")
    marks = [
        [mark.text == "●" for mark in row.find_elements("css selector", "td")]
        for row in rows
    ]
    assert marks == answer.sums
    page.all("#sampling button")[0].click()
    out = [i for i, summed in enumerate(answer.sums[0]) if not summed]
    left_out = page.all("#plane .first .left-out")
    assert [int(one.get_attribute("data-index")) for one in left_out] == out
