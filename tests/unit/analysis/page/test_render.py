"""The file of the page: complete, escaped, and refused clearly where libraries are missing."""

import base64
import hashlib
import json
import os
import re
import shlex
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from analysis.cli import main
from analysis.page import render
from analysis.page.content import content_of
from analysis.table.variants import Baseline

from tests.support.entries.report import ReportData, sizes, with_ids
from tests.support.records import grid, make_record, make_rich_record, write_all
from tests.support.reports import harvest, harvested, leave_out_drawing_library, leave_out_plots, table_in

HOSTILE = '"><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">`${1}`</script>'
INLINE = {"a", "b", "code", "span"}
VOID = {"meta", "path", "img", "br", "input", "link"}
UNREAD = {"script", "style", "tbody", "select", "footer", "dialog", "noscript", "nav", "pre"}
"""Elements whose text is not in Page.text."""


class Page(HTMLParser):
    """The elements of a page with their attributes, the text of scripts by their ids, and what it says."""

    def __init__(self, html):
        super().__init__()
        self.html, self.found, self.scripts, self.inside, self.text, self.is_new = html, [], {}, [], [], True
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.found.append((tag, named))
        if tag not in VOID:
            self.inside.append((tag, named))
        self.is_new |= tag not in INLINE
        if named.get("role") == "img" and "aria-label" in named:
            self.text.append(f"    {named['aria-label']}")

    def handle_data(self, data):
        tag, named = self.inside[-1] if self.inside else ("", {})
        if tag == "script":
            self.scripts[named.get("id")] = data
        elif data.strip() and not UNREAD & {each for each, _ in self.inside}:
            self.text += [f"{tag}: "] if self.is_new else []
            self.text[-1] += " ".join(data.split()) + " "
            self.is_new = False

    def handle_endtag(self, tag):
        if tag not in VOID:
            self.inside.pop()

    def __getitem__(self, name):
        """All values of an attribute."""
        return [attributes[name] for _, attributes in self.found if name in attributes]


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch:
        leave_out_drawing_library(patch)
        leave_out_plots(patch)
        yield


def page_in(place, baseline=None):
    found = harvest([place])
    parts = ReportData(with_ids(table_in(place)), baseline, found.ranks)
    return Page(render.render(parts, found.environments))


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


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Of one suite with failures, of several suites, and of hostile records, by name."""
    place = tmp_path_factory.mktemp("pages")
    rich = [make_rich_record(suite) for suite in ("transformer", "auto_shard", "ring_attention")]
    ends = [make_record(5.0, status="crash"), make_record(6.0, status="unavailable")]
    hostile = write_all(place / "hostile", hostile_records())
    (hostile / "1" / "rank_1.log").write_text(HOSTILE)
    return {
        "grid": page_of(place / "grid", [*grid(), *ends]), "rich": page_of(place / "rich", rich),
        "hostile": page_in(hostile), "table": table_in(place / "grid"),
    }  # fmt: skip


@pytest.fixture(params=["grid", "rich", "hostile"])
def page(pages, request):
    return pages[request.param]


def test_page_says_what_is_asked_and_found(pages, golden):
    golden("\n".join(pages["grid"].text))


def test_numbers_are_those_of_csv(pages):
    page, table, row, columns, num_compared = pages["grid"], pages["table"], None, [], 0
    columns = page["data-column"][-sum("aria-sort" in attributes for _, attributes in page.found) :]
    for tag, attributes in page.found:
        if tag == "tr" and "id" in attributes:
            row, place = table.iloc[int(attributes["id"][1:])], -1
        elif tag == "td" and row is not None and place < len(columns) - 1:
            place += 1
            if value := attributes.get("data-value"):
                assert float(value) == row[columns[place]]
                num_compared += 1
    assert num_compared > 60
    assert len([tag for tag, attributes in page.found if attributes.get("class") == "spark"]) == len(grid())


def test_hostile_records_add_no_element(pages):
    page = pages["hostile"]
    assert [attributes for tag, attributes in page.found if tag == "img"] == []
    assert len([tag for tag, _ in page.found if tag == "script"]) == 5
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert HOSTILE not in page.html
    names = {row["name"] for row in json.loads(page.scripts["data"])["rows"].values()}
    assert any(HOSTILE in name for name in names)  # it is there, as text


def test_page_refers_to_nothing_outside(page):
    for tag, attributes in page.found:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        assert "style" not in attributes


def test_policy_allows_only_scripts_of_page(page):
    [found] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page.html)
    rules = dict(rule.split(" ", 1) for rule in found.replace("&#39;", "'").split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in found
    for kind, element in (
        ("script-src", '<script type="module">(.*?)</script>'),
        ("style-src", "<style>(.*?)</style>"),
    ):
        texts = re.findall(element, page.html, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
        assert rules[kind] == " ".join(f"'sha256-{each}'" for each in digests)


def test_headings_are_in_order_and_ids_unique(page):
    levels = [int(tag[1]) for tag, _ in page.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = page["id"]
    assert len(ids) == len(set(ids))
    assert set(page["aria-labelledby"]) <= set(ids)
    assert {each[1:] for each in page["href"] if each.startswith("#")} <= set(ids)


@pytest.mark.parametrize(
    "record",
    [make_record(samples=2), make_record(world_size=1), make_record(status="running")],
    ids=["two samples", "one rank", "running"],
)
def test_page_of_little_data(tmp_path, record):
    assert page_of(tmp_path, [record]).html.endswith("</html>")


def test_command_writes_page_beside_report(tmp_path, capsys, monkeypatch, golden):
    """Also in a folder whose name is no text, and where a part of it, or all of it, cannot be made."""
    sweep = write_all(tmp_path / "sweep", [make_record(status="crash")])
    place = sweep.rename(tmp_path / os.fsdecode(b"caf\xe9"))
    assert main([str(place), "--html"]) == 0
    report = place / "report" / "report.html"
    assert "</html>" in report.read_text()
    report.unlink()
    capsys.readouterr()
    monkeypatch.setattr(render, "drawing_library", lambda: 1 / 0)
    assert main([str(place), "--html"]) == 0
    assert not report.exists()
    assert (place / "report" / "combined.csv").exists()
    monkeypatch.setattr(render, "LIBRARIES", ("jinja2", "no_such_library", "nor_this"))
    assert main([str(place), "--html", "--output-dir", str(tmp_path / "r")]) == 2
    assert not (tmp_path / "r").exists()
    golden(capsys.readouterr().err)


def test_part_that_fails_is_left_out_and_baseline_honoured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sizes, "show", lambda table, baseline: 1 / 0)
    page = page_of(tmp_path, [*grid()[:2], *grid(backend="mpi")[:2]], Baseline({"backend": "gloo"}))
    assert "ZeroDivisionError" in capsys.readouterr().err
    titles = [figure["title"] for figure in json.loads(page.scripts["data"])["figures"].values()]
    assert titles == ["allreduce: times as fast as gloo"]


def test_scripts_cannot_end_their_element():
    assert render.escape_script("a</script>b<!--c") == r"a<\/script>b<\!--c"
    assert {path.name for path in render.FOLDER.glob("*.js")} == set(render.SCRIPTS)


def test_backticks_in_sentences_are_code():
    assert render.with_code("run `a<b`") == "run <code>a&lt;b</code>"


def test_page_says_the_command_as_one_types_it_again(tmp_path):
    record = make_record()
    typed = ["benchkit", "+suite=allreduce", "passes=[forward]", "hydra.sweep.dir='/a'", "hydra.sweeper.resume='/a'"]
    record["environment"] |= {"command": typed}
    [command] = content_of(ReportData(with_ids(harvested(tmp_path, record))), []).commands
    assert shlex.split(command) == typed[:3]
    assert command != " ".join(typed[:3])  # brackets are quoted
