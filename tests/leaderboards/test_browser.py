"""The site in a real Chromium, from file://: sort, filter, open a cell, by mouse and by keyboard, wide and narrow.

Skipped where there is no Chromium; FEDBENCH_CHROMIUM=required (CI) makes that a failure.
"""

from __future__ import annotations

import os
import shutil

import made
import pytest
from nothing_open import nothing_open

from leaderboards.page.build import build
from leaderboards.papers import fed2a

TABLE_3 = {"fmnist": (206_592, 3_413_770), "cifar10": (829_184, 9_574_154), "gtsrb": (209_792, 2_403_499)}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = os.environ.get("FEDBENCH_CHROMIUM") == "required"
CLAIM = "c-fedlga/table-vi/fedlga/fmnist/rho=0.5+tau_max=0.8e+e=5/rounds_to_target"
PAGES = ("index", "fedlga", "fed2a", "fedlc", "fedagg", "claims", "readings", "audit")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    runs = made.table_vi({"fedavg": [114, 116, 118], "fedlga": [59, 60, 61], "scaffold": [70, None, 75]})
    with pytest.MonkeyPatch.context() as patch, nothing_open():
        patch.setattr(fed2a, "layers", lambda: TABLE_3)
        build(folder, runs)
    return folder


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None and not REQUIRED:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    sync_api = (
        pytest.importorskip("playwright.sync_api") if not REQUIRED else __import__("playwright.sync_api").sync_api
    )
    assert CHROMIUM is not None, "FEDBENCH_CHROMIUM=required, and there is no Chromium"
    with sync_api.sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """Any error in the console, any request that is not for a file, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    troubles = []
    opened.on("console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url))
    yield opened
    context.close()
    assert troubles == []


def column(page, table, number):
    return page.locator(f"{table} tbody tr td.cell:nth-of-type({number}) .claimed").all_inner_texts()


@pytest.mark.parametrize("width", [1280, 360])
def test_every_page_opens_without_errors_and_fits_the_screen(page, site, width):
    page.set_viewport_size({"width": width, "height": 800})
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_a_header_sorts_up_and_down(page, site):
    page.goto((site / "fedlga.html").as_uri())
    table = "#t-table-vi"
    button = page.locator(f"{table} thead button", has_text="CIFAR-10").first
    before = column(page, table, 2)
    assert before == ["220", "186", "157", "109", "350", "293", "334", "278", "254", "277", "284", "230"]
    button.click()
    assert column(page, table, 2) == sorted(before, key=int)
    assert page.locator(f"{table} thead th[aria-sort=ascending]").inner_text().startswith("CIFAR-10")
    button.press("Enter")
    assert column(page, table, 2) == sorted(before, key=int, reverse=True)


def test_sorting_goes_by_what_was_measured_where_something_was(page, site):
    page.goto((site / "fedlga.html").as_uri())
    page.locator("#t-table-vi thead button", has_text="FMNIST").click()
    names = page.locator("#t-table-vi tbody tr th:first-child").all_inner_texts()
    measured = page.locator("#t-table-vi tbody tr td.cell:nth-of-type(1)").evaluate_all(
        "c => c.map(x => x.dataset.sort)"
    )
    assert [float(value) for value in measured] == sorted(float(value) for value in measured)
    assert names.index("FedAvg") > names.index("FedLGA")


def test_headers_above_two_levels_sort_their_own_column(page, site):
    page.goto((site / "fedagg.html").as_uri())
    table = "#t-table-iii"
    page.locator(f"{table} thead tr:last-child button").nth(2).click()  # FedAdam, 20 %
    values = [float(text.rstrip(" %")) for text in column(page, table, 3)]
    assert values == sorted(values) and values[0] == 46.58


def test_the_filter_keeps_rows_by_words_and_verdicts(page, site):
    page.goto((site / "fedlga.html").as_uri())
    page.get_by_role("searchbox").fill("scaffold table vi")
    shown = page.locator("table.paper tbody tr:visible")
    assert shown.count() == 1 and "SCAFFOLD" in shown.inner_text()
    assert page.locator("form.filter output").inner_text().startswith("1 of ")
    page.get_by_role("searchbox").fill("")
    for name in page.locator("[name=verdict]").evaluate_all("boxes => boxes.map(b => b.value)"):
        if name != "inconsistent":
            page.locator(f"[name=verdict][value='{name}']").uncheck()
    cells = page.locator("table.paper tbody tr:visible td.cell:not(.off)")
    assert cells.count() == 2
    page.goto((site / "claims.html").as_uri())
    page.get_by_role("searchbox").fill("fedlc image-100 degree-4")
    assert (
        page.locator("table.list tbody tr:visible").count()
        == 2
        == int(page.locator("form.filter output").inner_text().split()[0])
    )


def test_a_cell_opens_its_runs_and_its_command_and_closes_again(page, site):
    page.goto((site / "fedlga.html").as_uri())
    cell = page.locator(f"a[href='#{CLAIM}']")
    cell.click()
    dialog = page.locator("dialog[open]")
    text = dialog.inner_text()
    assert "FedLGA on FMNIST" in text and "60.0 ± 2.5" in text and "reproduced" in text
    assert dialog.locator("tbody tr").count() == 3
    assert "python bench.py algo=fedlga algo.scale=-1 " in dialog.locator("pre").inner_text()
    dialog.get_by_role("button", name="Copy").click()
    page.wait_for_function("['Copied', 'Selected'].includes(document.querySelector('dialog .copy').textContent)")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert cell.evaluate("a => a === document.activeElement")


def test_a_cell_opens_by_keyboard_and_by_address(page, site):
    page.goto((site / "fedlga.html").as_uri())
    page.locator(f"a[href='#{CLAIM}']").focus()
    page.keyboard.press("Enter")
    assert page.locator("dialog[open]").count() == 1
    page.goto((site / "claims.html").as_uri())
    page.get_by_role("searchbox").fill("fedlga 0.8e fmnist fedlga")
    page.locator("table.list tbody tr:visible a").first.click()
    page.wait_for_selector("dialog[open]")
    assert "FedLGA on FMNIST" in page.locator("dialog[open]").inner_text()


def test_everything_that_can_be_clicked_can_be_reached_by_tab(page, site):
    page.goto((site / "index.html").as_uri())
    expected = page.locator("a:visible, button:visible, input:visible").count()
    seen = set()
    for _ in range(expected + 12):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.tagName + document.activeElement.textContent.trim().slice(0, 40)")
        )
    assert {"ASkip to the content", "AFedLGA", "AAudit"} <= seen


def test_the_legend_hides_and_shows_a_line(page, site):
    page.goto((site / "fedlga.html").as_uri())
    board = page.locator(".board").first
    button = board.locator(".legend button").first
    line = board.locator("g[data-series='0']").first
    assert line.is_visible()
    button.click()
    assert not line.is_visible() and button.get_attribute("aria-pressed") == "false"
    button.press("Enter")
    assert line.is_visible()


def test_without_scripts_the_details_can_still_be_read(browser, site):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto((site / "fedlga.html").as_uri() + f"#{CLAIM}")
    assert "python bench.py algo=fedlga" in opened.locator(f"[id='{CLAIM}'] pre").inner_text()
    assert opened.locator(f"[id='{CLAIM}']").is_visible()
    context.close()


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_text_in_cells_has_contrast_in_light_and_dark(browser, site, scheme):
    """WCAG's 4.5 : 1, of the computed colours of badges and cells."""
    context = browser.new_context(color_scheme=scheme)
    opened = context.new_page()
    opened.goto((site / "index.html").as_uri())
    ratios = opened.evaluate(CONTRAST)
    context.close()
    assert len(ratios) == 10
    assert min(ratios) >= 4.5, ratios


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const paint = (colours) => {
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll("tbody .badge")].map((badge) => {
    const behind = getComputedStyle(badge.closest(".scroll")).backgroundColor;
    const style = getComputedStyle(badge);
    const ground = light(paint([behind, style.backgroundColor]));
    const text = light(paint([behind, style.backgroundColor, style.color]));
    return (Math.max(ground, text) + 0.05) / (Math.min(ground, text) + 0.05);
  });
}"""
