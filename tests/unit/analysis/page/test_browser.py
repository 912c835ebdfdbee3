"""The page in a real Chromium: drawn without a complaint, filtered, sorted, asked for samples, printed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from analysis.page.render import write_page

from tests.support.browser import browser, missing_browser, wait_for_count
from tests.support.entries.report import ReportData, with_ids
from tests.support.records import grid, make_record, make_rich_record, write_all
from tests.support.reports import harvest, table_in

HOSTILE = '"><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
WIDTHS = (375, 768, 1440)
POINTS = "g.mark-symbol.role-mark path"


def hostile_record(size):
    record = make_record(size, suite="hostile", title=HOSTILE)
    record["cases"] = [case | {"labels": {"way": name}} for case in record["cases"] for name in (HOSTILE, "b")]
    return record


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A folder with a page: all kinds of figures, a failure, hostile names."""
    if why := missing_browser():
        pytest.skip(why)
    failed = make_record(5.0, status="crash")
    failed["error"] |= {"log": "rank_1.log", "message": HOSTILE}
    rich = [make_rich_record(suite) for suite in ("ring_attention", "tp_columnwise", "transformer", "auto_shard")]
    records = [*grid(samples=1200), failed, hostile_record(1.0), hostile_record(2.0), *rich]
    folder = write_all(tmp_path_factory.mktemp("page"), records)
    (folder / "6" / "rank_1.log").write_text(f"{HOSTILE}\nlast words")
    found = harvest([folder])
    write_page(ReportData(with_ids(table_in(folder)), None, found.ranks), folder, found.environments, None)
    return folder


@pytest.fixture(scope="module")
def chromium(report) -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture
def tab(chromium, report) -> Iterator[Any]:
    """The page, drawn; at the end of each test nothing was complained of, and nothing was fetched."""
    complaints, requests = [], []
    found = chromium.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    found.on("console", lambda message: complaints.append(message.text))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("request", lambda request: requests.append(request.url))
    show(found, report)
    yield found
    assert found.evaluate("window.hacked") is None
    found.close()
    assert complaints == []
    assert requests == [(report / "report.html").as_uri()]


def show(tab, report):
    tab.goto((report / "report.html").as_uri())
    tab.wait_for_selector("html[data-ready]", timeout=120_000)


def section_of(tab, name):
    head = tab.get_by_role("heading", name=re.compile(f"^{name}"), level=2)
    return tab.locator("section.suite").filter(has=head)


def choose(section, name, value):
    """Sets a filter."""
    section.locator(f"select[data-column={name}]").select_option(value)


def column(section, name):
    """The numbers of a column of the visible rows."""
    place = section.locator("table.sortable thead th").evaluate_all(
        f"heads => heads.findIndex((head) => head.dataset.column === '{name}')"
    )
    cells = section.locator(f"table.sortable tbody tr:visible > :nth-child({place + 1})")
    return [float(text) for text in cells.evaluate_all("cells => cells.map((cell) => cell.dataset.value)") if text]


@pytest.mark.slow
def test_all_figures_are_drawn_and_follow_filters(tab):
    drawings = tab.locator("section.suite .drawing")
    assert drawings.count() > 10
    assert drawings.locator("svg.marks").count() == drawings.count()
    assert "…" not in drawings.all_inner_texts()
    section = section_of(tab, "allreduce")
    time = section.locator("figure").filter(has_text="allreduce: time")
    assert section.locator("output").inner_text() == "7 of 7 rows"
    wait_for_count(time.locator(POINTS), 6)
    choose(section, "world_size", "4")
    wait_for_count(time.locator(POINTS), 3)
    assert section.locator("output").inner_text() == "3 of 7 rows"
    assert set(column(section, "world_size")) == {4}
    choose(section, "data_size", "10 MiB")
    wait_for_count(time.locator(POINTS), 1)
    assert section.locator("output").inner_text() == "1 of 7 rows"
    time.get_by_text("Numbers of this figure").click()
    wait_for_count(time.locator(".numbers tbody tr"), 1)
    assert time.locator(".numbers tbody tr").inner_text().startswith("gloo on cpu\t4 ranks\t10 MiB\t20 [19.")
    choose(section, "data_size", "5 MiB")
    wait_for_count(section.locator(".drawing.empty"), section.locator(".drawing").count())
    section.get_by_role("button", name="Reset").click()
    wait_for_count(time.locator(POINTS), 6)
    assert section.locator("output").inner_text() == "7 of 7 rows"


@pytest.mark.slow
def test_head_sorts_by_keyboard(tab):
    section = section_of(tab, "allreduce")
    head = section.get_by_role("columnheader", name="median [ms]")
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").focus()
    tab.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(section, "median_s") == sorted(column(section, "median_s"))
    tab.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(section, "median_s") == sorted(column(section, "median_s"), reverse=True)
    other = section.get_by_role("columnheader", name="data_size")
    other.get_by_role("button").click()
    assert (head.get_attribute("aria-sort"), other.get_attribute("aria-sort")) == ("none", "ascending")
    last = section.locator("table.sortable tbody tr").last
    assert "crash" not in last.inner_text()  # the row has a size, by which it is sorted


@pytest.mark.slow
def test_histogram_and_point_open_samples(tab):
    button = section_of(tab, "allreduce").locator("button.spark").first
    button.focus()
    tab.keyboard.press("Enter")
    dialog = tab.get_by_role("dialog")
    assert "(world_size=2, data_size=1 MiB)" in dialog.get_by_role("heading", level=2).inner_text()
    dialog.locator("#sample-ranks svg").first.wait_for()
    assert dialog.locator(".facts").inner_text().startswith("1,200 samples")
    assert dialog.locator(f"#sample-times {POINTS}").count() == 1200
    assert dialog.locator("#sample-histogram svg").count() == 1
    assert "0: 1 ms, 1: 1 ms" in dialog.locator("#sample-ranks").get_attribute("aria-label")
    tab.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert button.evaluate("button => button === document.activeElement")
    section_of(tab, "allreduce").locator("figure").filter(has_text="allreduce: time").locator(POINTS).first.click()
    assert "allreduce (" in dialog.get_by_role("heading", level=2).inner_text()


@pytest.mark.slow
def test_hostile_names_are_text(tab):
    assert HOSTILE in section_of(tab, "hostile").locator("tbody").inner_text()
    assert f"{HOSTILE}\nlast words" in tab.locator("#failures pre").first.inner_text()
    figure = section_of(tab, "hostile").locator("figure").first
    choose(section_of(tab, "hostile"), "way", HOSTILE)
    wait_for_count(figure.locator(POINTS), 2)
    figure.locator(POINTS).first.hover()
    tab.locator("#vg-tooltip-element.visible").wait_for()
    assert HOSTILE in tab.locator("#vg-tooltip-element").inner_text()
    section_of(tab, "hostile").locator("button.spark").first.click()
    assert HOSTILE in tab.get_by_role("dialog").get_by_role("heading", level=2).inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_page_fits_width(chromium, report, width):
    page = chromium.new_page(viewport={"width": width, "height": 800})
    show(page, report)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    widest = page.locator(".drawing svg").evaluate_all("drawn => Math.max(...drawn.map((each) => each.clientWidth))")
    assert widest <= width
    page.locator("button.spark").first.click()
    page.locator("#sample-ranks svg").first.wait_for()
    assert page.get_by_role("dialog").bounding_box()["width"] <= width
    page.close()


@pytest.mark.slow
def test_dark_page_has_other_colours(chromium, report):
    found = {}
    for scheme in ("light", "dark"):
        page = chromium.new_page(color_scheme=scheme)
        show(page, report)
        fill = page.locator(POINTS).first.evaluate("point => getComputedStyle(point).fill")
        found[scheme] = (page.evaluate("getComputedStyle(document.body).backgroundColor"), fill)
        page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
        other = page.locator(POINTS).first.evaluate("point => getComputedStyle(point).fill")
        assert other != fill  # a figure follows without being drawn again
        page.close()
    assert found["light"] == ("rgb(251, 251, 250)", "rgb(1, 115, 178)")
    assert found["dark"] == ("rgb(20, 23, 26)", "rgb(92, 179, 234)")


@pytest.mark.slow
def test_print_is_light_and_whole(chromium, report):
    page = chromium.new_page(color_scheme="dark")
    show(page, report)
    page.emulate_media(media="print")
    assert not page.locator("form.filters").first.is_visible()
    assert not page.get_by_role("navigation").is_visible()
    assert page.locator(POINTS).first.evaluate("point => getComputedStyle(point).fill") == "rgb(1, 115, 178)"
    frame = page.locator(".scroll.tall").first
    assert frame.evaluate("frame => frame.scrollHeight <= frame.clientHeight + 1")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()


@pytest.mark.slow
def test_readers_find_their_way(tab):
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert tab.get_by_role(role).count() == 1, role
    assert tab.locator("table:not(:has(caption))").count() == 0
    assert tab.locator("th:not([scope])").count() == 0
    assert tab.locator("select").evaluate_all("all => all.filter((each) => !each.labels.length).length") == 0
    names = tab.get_by_role("button").evaluate_all("all => all.map((each) => each.ariaLabel || each.innerText)")
    assert all(names)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    outline = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    assert tab.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
