"""The file of the page: complete, escaped, and refused clearly where libraries are missing."""

import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from analysis.__main__ import main
from analysis.baseline import Baseline
from analysis.page import render
from analysis.page.pictures import pictures_of
from analysis.page.render import FOLDER, SCRIPTS, inlined, policy, with_code
from analysis.records.harvest import harvest
from analysis.table import combine

from tests.support.records import grid, make_record, make_rich_record, tabulate_records, write_all

HOSTILE = '"><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">`${1}`</script>'


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of scripts by their ids."""

    def __init__(self, html):
        super().__init__()
        self.found, self.scripts, self.inside = [], {}, None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.inside = dict(attributes).get("id") if tag == "script" else None

    def handle_data(self, data):
        if self.inside:
            self.scripts[self.inside] = data

    def handle_endtag(self, tag):
        self.inside = None


@pytest.fixture(autouse=True)
def _without_drawing_library(monkeypatch):
    """Bundling it takes seconds; only a browser needs it."""
    monkeypatch.setattr(render, "drawing_library", lambda: "window.vegaEmbed = null;")


def page_in(place, baseline=None):
    found = harvest([place])
    return render.render(combine(found.rows), baseline, found.ranks, found.environments)


def page_of(folder, records, baseline=None):
    return page_in(write_all(folder, records), baseline)


def hostile_records():
    """Labels, titles, errors and warnings that would run a script if they were not escaped."""
    record = make_record(1.0, title=HOSTILE, warnings=[HOSTILE])
    record["cases"] = [case | {"labels": {"way": name}} for case in record["cases"] for name in (HOSTILE, "b")]
    failed = make_record(2.0, title=HOSTILE, status="crash", warnings=[])
    failed["error"] |= {"message": HOSTILE, "log": "rank_1.log", "traceback": HOSTILE, "host": HOSTILE}
    for each in (record, failed):
        each["agents"] = [{"host": HOSTILE, "cpu": HOSTILE, "available_cores": 4}]
        each["environment"] |= {"command": ["__main__.py", HOSTILE]}
        each["config"] |= {"dtype": HOSTILE}
    return [record, failed]


@pytest.fixture
def hostile(tmp_path):
    place = write_all(tmp_path, hostile_records())
    (place / "1" / "rank_1.log").write_text(HOSTILE)
    return page_in(place)


def test_hostile_records_add_no_element(hostile):
    page = Page(hostile)
    assert [attributes for tag, attributes in page.found if tag == "img"] == []
    assert len([tag for tag, _ in page.found if tag == "script"]) == 5
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert HOSTILE not in hostile
    names = {row["name"] for row in json.loads(page.scripts["data"])["rows"].values()}
    assert any(HOSTILE in name for name in names)  # it is there, as text


def test_page_refers_to_nothing_outside(tmp_path):
    page = Page(page_of(tmp_path, grid()))
    for tag, attributes in page.found:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        assert "style" not in attributes


def test_policy_allows_only_scripts_of_page(tmp_path):
    html = page_of(tmp_path, grid())
    [found] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    rules = dict(rule.split(" ", 1) for rule in found.replace("&#39;", "'").split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in found
    scripts = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert rules["script-src"] == " ".join(f"'sha256-{each}'" for each in digests)
    [style] = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    assert rules["style-src"] == policy([], style).split("style-src ")[1].split(";")[0]


def test_headings_are_in_order(tmp_path):
    for records in (grid(), [make_rich_record(suite) for suite in ("transformer", "auto_shard", "ring_attention")]):
        page = Page(page_of(tmp_path / records[0]["suite"], records))
        levels = [int(tag[1]) for tag, _ in page.found if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_ids_are_unique_and_labels_lead_to_them(tmp_path):
    records = [*grid(), make_record(status="crash"), make_rich_record("ring_attention")]
    page = Page(page_of(tmp_path, records))
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.found:
        assert attributes.get("aria-labelledby", ids[0]) in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids


@pytest.mark.parametrize(
    "records",
    [
        [make_record(status="crash")],
        [make_record(samples=2)],
        [make_record(world_size=1)],
        [make_record(status="running")],
    ],
    ids=["failure", "two samples", "one rank", "running"],
)
def test_page_of_little_data(tmp_path, records):
    assert "<h1>How long does allreduce take?</h1>" in page_of(tmp_path, records)


def test_page_has_verdict_before_suites(tmp_path):
    html = page_of(tmp_path, grid())
    assert html.index("The highest bus bandwidth is 1.05 GB/s") < html.index('class="suite"')
    assert html.index('class="suite"') < html.index('id="environment"')


def test_missing_library_is_one_line(tmp_path, capsys, monkeypatch):
    place = write_all(tmp_path, grid())
    monkeypatch.setattr(render, "LIBRARIES", ("jinja2", "no_such_library", "nor_this"))
    assert main([str(place), "--html"]) == 2
    line = "analysis: --html: needs no_such_library, nor_this; pip install 'benchkit[html]'\n"
    assert capsys.readouterr().err == line
    assert not (place / "analysis").exists()


def test_command_writes_page_beside_report(tmp_path, capsys):
    place = write_all(tmp_path, [make_record(status="crash")])
    assert main([str(place), "--html"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {place}/analysis/report.html"
    assert main([str(place), "--html", "--output-dir", str(tmp_path / "there")]) == 0
    assert (tmp_path / "there" / "report.html").exists()


def test_page_that_fails_leaves_report(tmp_path, capsys, monkeypatch):
    place = write_all(tmp_path, [make_record(status="crash")])
    monkeypatch.setattr(render, "drawing_library", lambda: 1 / 0)
    assert main([str(place), "--html"]) == 0
    assert "left out page: ZeroDivisionError" in capsys.readouterr().err
    assert (place / "analysis" / "combined.csv").exists()


def test_part_that_fails_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("analysis.report.size_charts.show", lambda table, baseline: 1 / 0)
    html = page_of(tmp_path, grid())
    assert "left out figures of report.size_charts: ZeroDivisionError" in capsys.readouterr().err
    assert "allreduce on gloo: speedup over world_size=2" in html


def test_page_honours_baseline(tmp_path):
    html = page_of(tmp_path, [*grid(), *grid(backend="mpi")], Baseline({"backend": "gloo"}))
    assert "allreduce: speedup over backend=gloo" in html


def test_undecodable_folder_does_not_stop_page(tmp_path):
    sweep = write_all(tmp_path / "sweep", hostile_records())
    place = sweep.rename(tmp_path / os.fsdecode(b"caf\xe9"))
    assert main([str(place), "--html"]) == 0
    assert "</html>" in (place / "analysis" / render.FILE_NAME).read_text()


def test_scripts_cannot_end_their_element():
    assert inlined("a</script>b<!--c") == r"a<\/script>b<\!--c"
    assert {path.name for path in FOLDER.glob("*.js")} == set(SCRIPTS)


def test_backticks_in_sentences_are_code():
    assert with_code("run `a<b`") == "run <code>a&lt;b</code>"


def test_plots_of_suites_without_charts_are_pictures(monkeypatch):
    monkeypatch.setenv("BENCHKIT_SUITES", "tests.support.foreign.suite")
    record = make_record(suite="vector_sum", title="vector_sum")
    record["cases"] = [case | {"labels": {"length": size}} for case in record["cases"] for size in (10, 100)]
    pictures = list(pictures_of(tabulate_records([record]), None))
    assert [picture.data[:26] for picture in pictures] == ["data:image/svg+xml;base64,"]
    assert list(pictures_of(tabulate_records(grid()), None)) == []
