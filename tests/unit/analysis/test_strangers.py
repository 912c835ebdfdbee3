"""A folder of records from a stranger: nothing is written or read through it elsewhere, and no text of it steers
a terminal, a spreadsheet or a page."""

import csv
import gzip
import io
import itertools
import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from analysis.cli import main
from analysis.commands.log import log as log_to
from analysis.shared import output
from analysis.shared.text import FORMULA, NUMBER, as_csv, as_text_cell, comment, from_text_cell
from analysis.shared.text_table import table_of
from benchkit.record import files
from benchkit.record.naming import UNPRINTABLE

from tests.support.mutations import poisoned
from tests.support.records import grid, make_record, make_rich_record, write_all
from tests.support.reports import harvest, leave_out_drawing_library, leave_out_plots

SUITES = ("collective", "auto_shard", "ring_attention", "matmul_lut", "tp_columnwise", "transformer")
WRITERS = {
    "report": ["{0}", "--html", "--parquet", "--format", "svg"],
    "compare": ["compare", "{0}", "{1}"],
    "export": ["export", "{0}", "--as", "cs336"],
    "import": ["import", "{0}"],
}
"""The commands that write, by name; {0} and {1} are folders of records."""


def collective(**changes):
    """Records that every command of WRITERS has something to write of."""
    return [
        record | {"suite": "collective", "title": "all_reduce", "config": record["config"] | OF_COLLECTIVE}
        for record in grid(**changes)[:2]
    ]


OF_COLLECTIVE = {"suite": "collective", "collective": "all_reduce"}


@pytest.fixture
def places(tmp_path):
    return [write_all(tmp_path / name, collective()) for name in ("first", "second")]


@pytest.fixture(scope="module", autouse=True)
def _no_drawing_library():
    with pytest.MonkeyPatch.context() as patch:
        leave_out_drawing_library(patch)
        yield


@pytest.fixture
def no_plots(monkeypatch):
    """A report is its texts and tables: plots take most of its time."""
    leave_out_plots(monkeypatch)


def run(command, places, *more):
    return main([*(word.format(*places) for word in WRITERS[command]), *more])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "kind"),
    [*((command, "link") for command in WRITERS), ("report", "dangling"), ("report", "file"), ("import", "pipe")],
)
def test_folder_of_report_that_is_no_folder_is_refused(tmp_path, places, capsys, command, kind):
    elsewhere = tmp_path / "elsewhere"
    if kind == "link":
        elsewhere.mkdir()
        (elsewhere / "combined.csv").write_text("mine")
    if kind in ("link", "dangling"):
        (places[0] / "report").symlink_to(elsewhere)
    else:
        (Path.touch if kind == "file" else os.mkfifo)(places[0] / "report")
    before = contents(tmp_path)
    assert run(command, places) == (1 if command == "report" else 2)
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert contents(tmp_path) == before
    assert elsewhere.exists() == (kind == "link")


@pytest.mark.parametrize("command", ["report", "import"])
def test_folder_that_is_asked_for_may_be_a_link(tmp_path, places, no_plots, command):
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to("real")
    assert run(command, places, "--output-dir", str(tmp_path / "named")) == 0
    assert any((tmp_path / "real").iterdir())


@pytest.mark.parametrize("command", WRITERS)
def test_file_of_report_replaces_a_link_or_a_pipe(tmp_path, places, command):
    assert run(command, places) == 0
    folder, victim = places[0] / "report", tmp_path / "victim"
    names = [path for path in folder.rglob("*") if path.is_file()]
    assert len(names) > (8 if command == "report" else 0)
    victim.write_text("mine")
    for number, path in enumerate(names):
        path.unlink()
        (path.symlink_to, path.hardlink_to, lambda victim, path=path: os.mkfifo(path))[number % 3](victim)
    assert run(command, places) == 0
    assert victim.read_text() == "mine"
    assert all(stat.S_ISREG(path.lstat().st_mode) and path.stat().st_nlink == 1 for path in names)
    assert {path for path in folder.rglob("*") if path.is_file()} == set(names)  # and nothing is left beside them


def test_export_folder_within_the_report_may_be_no_link(tmp_path, places):
    (tmp_path / "elsewhere").mkdir()
    (places[0] / "report").mkdir()
    (places[0] / "report" / "cs336").symlink_to(tmp_path / "elsewhere")
    assert run("export", places) == 2
    assert not any((tmp_path / "elsewhere").iterdir())


def test_names_in_records_lead_nowhere(tmp_path, no_plots):
    """What slowed a rank down and a backend's name are parts of the names of files."""
    evil = "/../../../../evil"
    lut = [make_rich_record("matmul_lut") for _ in range(2)]
    for number, record in enumerate(lut):
        record["started_at"] = f"2026-01-01T00:00:0{number}.000+00:00"
        record["slowdown"]["mechanism"] = f"{number}{evil}"
        record["world_size"] = record["config"]["world_size"] = 1
        for case in record["cases"]:
            case |= {"samples_s": case["samples_s"][:1], "baseline": None, "components": {}, "regions_s": {}}
            case |= {"warmup_s": case["warmup_s"][:1], "start_offsets_s": case["start_offsets_s"][:1], "details": {}}
            case["disturbance"] = {}
        record["slowdown"] |= {"asked": [1], "measured": [1.0]}
    folder = write_all(tmp_path / "a" / "b" / "c", [*lut, *collective(backend=f"x{evil}")])
    for system in ("hetero", "cs336"):
        assert main(["export", str(folder), "--as", system]) == 0
    assert main([str(folder)]) == 0
    written = {path.parent for path in tmp_path.rglob("*evil*") if path.is_file()}
    assert written == {folder / "report", folder / "report" / "hetero", folder / "report" / "cs336"}


def test_part_of_a_file_is_not_written_through_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "guessed")
    (tmp_path / f".a.txt-{os.getpid()}-guessed").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        output.write(tmp_path, "a.txt", "text")
    assert not (tmp_path / "victim").exists()


def test_written_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "usual").touch()
    assert output.write(tmp_path, "a.txt", "text").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize(
    "kind", ["pipe", "/dev/zero", "/proc/self/pagemap", "/dev/tty", "elsewhere/record.json", "huge"]
)
def test_record_that_leads_elsewhere_is_passed_over(tmp_path, kind):
    folder = write_all(tmp_path / "sweep", [make_record(), make_record(2.0)])
    write_all(tmp_path / "elsewhere", [make_record(3.0)])
    path = folder / "1" / "record.json"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(files.MOST_BYTES + 1)
    else:
        path.symlink_to(kind if kind[0] == "/" else tmp_path / "elsewhere" / "0" / "record.json")
    found = harvest([folder])
    assert [row["data_size"] for row in found.rows] == [1.0]
    [line] = found.skipped
    assert (" GB" in line) == (kind == "huge")


def test_link_within_the_folder_counts_once(tmp_path):
    folder = write_all(tmp_path, [make_record()])
    (folder / "1").mkdir()
    (folder / "1" / "record.json").symlink_to("../0/record.json")
    (tmp_path / "named.json").symlink_to(folder / "0" / "record.json")
    assert len(harvest([folder]).rows) == 1
    assert len(harvest([tmp_path / "named.json"]).rows) == 1


def test_trace_that_leads_elsewhere_or_never_ends_is_passed_over(tmp_path, monkeypatch, capsys):
    trace = json.dumps({"traceEvents": []}).encode()
    (tmp_path / "mine").write_bytes(trace)
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "trace_rank_0.json").symlink_to(tmp_path / "mine")
    (tmp_path / "sweep" / "trace_rank_1.json.gz").write_bytes(gzip.compress(b" " * 10**6 + trace))
    monkeypatch.setattr(files, "MOST_BYTES", 10**5)
    assert main(["profile", str(tmp_path / "sweep")]) == 1
    assert capsys.readouterr().err.count("passed over") == 3  # both, and how many


class Tracker:
    place = "nowhere"

    def log_run(self, run, sweep):
        return True

    def log_report(self, folder, sweep):
        self.folder = folder


@pytest.mark.parametrize("name", ["report", "report/secret"])
def test_tracker_gets_no_link(tmp_path, name):
    folder = write_all(tmp_path / "sweep", grid())
    (tmp_path / "mine").mkdir()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(tmp_path / "mine")
    tracker = Tracker()
    with pytest.raises((OSError, ValueError)):
        log_to(folder, harvest([folder]), tracker)
    assert not hasattr(tracker, "folder")


EVIL = "\x1b]0;x\x07\x1b[31m\x9b2J\u202e\u2066\x7f\r"
EVENTS = [
    {"ph": "X", "name": name, "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 0, "dur": 1000}
    for name in (f"step {EVIL}", f"region {EVIL}")
]
BREAKS = "\n| a | b |\n\n# Head\n\n</table><script>1</script>`|\\|"


@pytest.fixture(scope="module")
def poisoned_folder(tmp_path_factory):
    """Records whose every text is hostile, traces and folders of such names."""
    records = []
    for suite in ("collective", "tp_columnwise", "transformer", "pair_matrix"):
        records.append(poisoned(make_rich_record(suite), EVIL + BREAKS))
        failed = make_record(status="crash", suite=suite)
        failed["error"] |= {"traceback": "a", "host": "b", "log": "c", "type": "d"}
        records.append(poisoned(failed, EVIL))
    records.append(poisoned(make_rich_record(), EVIL, but=()))  # of no suite and no status that there is
    for number, record in enumerate(records):
        record["started_at"] = f"2026-01-01T00:00:{number:02}.000+00:00"
    folder = write_all(tmp_path_factory.mktemp("poisoned") / "sweep", records)
    write_all(folder / f"y{EVIL}", [make_record(7.0)])
    for name in ("0", f"z{EVIL}"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "trace_rank_0.json").write_text(json.dumps({"traceEvents": EVENTS}))
    (folder / f"z{EVIL}" / "record.json").write_text('{"schema_version": 3, "suite\\u001b[1m": "\\u001b[2m"}')
    return folder


COMMANDS = [
    ["{0}", "--html", "--parquet", "--show", "analysis.txt,full_results.md,noise.md"],
    ["{0}", "--columns", "host,title,reason,status,suite,backend_env"],
    ["{0}", "--baseline", "host=\x1b[1m"],
    ["{0}", "--where", "host=\x1b[1m"],
    ["accept", "{0}"],
    ["compare", "{0}", "{0}"],
    ["predict", "{0}", "--world-size", "8"],
    ["export", "{0}", "--as", "ddlb"],
    ["export", "{0}", "--as", "hetero"],
    ["export", "{0}", "--as", "cs336"],
    ["import", "{0}"],
    ["profile", "{0}"],
    ["\x1b[1m"],
]


def test_no_text_of_a_record_steers_a_terminal_or_leaves_its_cell(poisoned_folder, no_plots, capsys):
    for words in COMMANDS:
        main([word.format(poisoned_folder) for word in words])
        shown = "".join(capsys.readouterr())
        assert shown, words
        assert not set(UNPRINTABLE.findall(shown)) - {"\n", "\t"}, words
        assert "Traceback" not in shown, words
    for path in (poisoned_folder / "report").rglob("*"):
        if path.suffix in (".csv", ".md", ".txt", ".html", ".json"):
            assert not set(UNPRINTABLE.findall(path.read_text())) - {"\n", "\t"}, path.name
    tables = 0
    for path in (poisoned_folder / "report").glob("*.md"):
        text = path.read_text()
        assert not re.search("<[a-zA-Z/!?]", text), path.name
        widths = [
            [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in part.splitlines()]
            for part in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        ]
        assert all(len(set(each)) == 1 for each in widths), path.name
        tables += len(widths)
        assert "# Head" not in text.splitlines(), path.name
    assert tables > 3


LINKS = [
    ("[a](http://e.x) ![a](/x)", "[a]&#40;http&#58;//e.x) ![a]&#40;/x)"),
    ("[a]: /x <img src=x> <!-- 1 < 2", "[a]&#58; /x &#60;img src=x> &#60;!-- 1 < 2"),
    ("https://e.x _www.e.x WWW.e.x a: b.c", "https&#58;//e.x _www&#46;e.x WWW&#46;e.x a: b.c"),
]


@pytest.mark.parametrize(("text", "expected"), LINKS)
def test_names_are_no_links_in_markdown(tmp_path, text, expected):
    """As cmark-gfm reads it, which makes links of addresses by itself."""
    assert output.write(tmp_path, "a.md", text).read_text() == f"{expected}\n"


@pytest.mark.parametrize("name", ["-rf", "--help", ".-rf", "-.x", "=a", " -a", "\u00e9-a", "../-a", "a"])
def test_names_of_files_are_neither_hidden_nor_options(tmp_path, name):
    path = output.write(tmp_path, f"{name}.txt", "x")
    assert path.parent == tmp_path
    assert path.name[0] not in ".-"
    assert path.suffix == ".txt"


def test_page_shows_cells_of_tables_as_they_are():
    markdown = pytest.importorskip("analysis.page.markdown")
    shown = []

    class Reader(HTMLParser):
        def handle_data(self, data):
            shown.append(data)

    cell = r"a|b\|c`d\`<script>"
    Reader().feed(markdown.as_html(table_of(pd.DataFrame({cell: [cell]})).markdown(), 3))
    assert [text for text in shown if text.strip()] == [cell, cell]


def test_no_cell_of_csv_is_a_formula(tmp_path, no_plots):
    starts = ("=", "+", "-", "@", "\t=", "＝", "a;=", "a\t=", "a;  =", 'a;"=', "a\n=", "'=;=", '"=', ";\t@")
    records = [make_rich_record(suite) for suite, _ in zip(itertools.cycle(SUITES), starts, strict=False)]
    for record, start in zip(records, starts, strict=True):
        formula = f"{start}HYPERLINK(1,2)"
        record |= {"title": formula, "warnings": [formula], "launched_by": formula}
        record["agents"][0] |= {"host": formula, "cpu": f"a,{formula}"}
        for case in record["cases"]:
            case["labels"] |= {formula: formula}
            case["details"] |= {"peak_from": formula}
    folder = write_all(tmp_path, [*records, make_record(status="crash", error={"message": formula})])
    assert main([str(folder)]) == 0
    for system in ("ddlb", "hetero", "cs336"):
        main(["export", str(folder), "--as", system])
    main(["import", str(folder)])
    assert main(["compare", str(folder), str(folder), "--output-dir", str(folder / "report")]) in (0, 3)
    tables = list((folder / "report").rglob("*.csv"))
    assert len(tables) > 6
    for path, delimiter in itertools.product(tables, ",;\t"):
        for row in csv.reader(path.read_text().splitlines(), delimiter=delimiter):
            assert not [cell for cell in row if is_formula(cell.strip(" "))], (path.name, delimiter)


def is_formula(cell):
    return FORMULA.match(cell) and cell[0] != "'" and not NUMBER.fullmatch(cell)


def test_numbers_of_csv_stay_numbers():
    table = pd.DataFrame({"a": [-1.5, 2.0], "b": ["-3", "+1e-9"], "c": [None, -4]})
    assert as_csv(table) == table.to_csv(index=False)


@pytest.mark.parametrize("text", ["=1", "'=1", "''@a", "-", "-5", "a=1", "'a", "", "＝1"])
def test_cells_of_csv_are_read_back_as_they_were(text):
    [_, [cell]] = csv.reader(as_csv(pd.DataFrame({"a": [text], "b": [""]})[["a"]]).splitlines() or [["a"], [""]])
    assert from_text_cell(cell) == text


def test_texts_of_five_letters_are_cells_of_text():
    """Wherever a program splits the line, and back again."""
    for letters in itertools.product("a='\";\t\n ", repeat=5):
        text = "".join(letters)
        cell = as_text_cell(text)
        assert from_text_cell(cell) == text
        line = io.StringIO(newline="")
        csv.writer(line).writerow(["x", cell, "y"])
        remark = comment(f"a: {text}, {text}").rstrip("\n")
        for delimiter, content in itertools.product(",;\t", (line.getvalue(), remark)):
            rows = csv.reader(content.splitlines(keepends=True), delimiter=delimiter)
            assert not [part for row in rows for part in row if is_formula(part.strip(" "))], text


def test_import_of_our_export_is_right(tmp_path, capsys):
    """An implementation's name may begin with a sign; the importer finds it as it was."""
    record = make_rich_record("tp_columnwise")
    record["cases"][0]["labels"]["implementation"] = "@mine"
    folder = write_all(tmp_path, [record])
    assert main(["export", str(folder), "--as", "ddlb"]) == 0
    exported = folder / "report" / "ddlb" / "ddlb_tp_columnwise.csv"
    assert "'@mine" in exported.read_text()
    assert main(["import", str(exported), "--output-dir", str(tmp_path / "read")]) == 0
    rows = list(csv.DictReader((tmp_path / "read" / "imported.csv").read_text().splitlines()))
    assert any(row["implementation"].startswith("'@mine") for row in rows)
    assert not any(row["implementation"].startswith("''") for row in rows)
