"""Files that are no records, whatever they are, and parts of a report that fail."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from analysis.__main__ import main
from analysis.output import file_name
from analysis.records import harvest as harvesting
from analysis.records.harvest import harvest
from analysis.report import size_plots, style
from analysis.suites.collective import table as link
from benchkit.record import files
from benchkit.record.files import by_number

from tests.support.records import grid, make_record, make_rich_record, write_all


def lay_hostile_files(folder):
    """One of each kind, none of which is a record."""
    for name in ("loop", "dangling", "pipe", "empty", "text", "deep", "nan", "number", "list", "folder"):
        (folder / name).mkdir(parents=True)
    (folder / "loop" / "record.json").symlink_to("record.json")
    (folder / "dangling" / "record.json").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe" / "record.json")
    (folder / "empty" / "record.json").touch()
    (folder / "text" / "record.json").write_bytes(b"\xff\x00 no JSON")
    (folder / "deep" / "record.json").write_text("[" * 100_000)
    (folder / "nan" / "record.json").write_text(json.dumps(make_record() | {"world_size": float("nan")}))
    (folder / "number" / "record.json").write_text("9" * 5000)
    (folder / "list" / "record.json").write_text("[]")
    (folder / "folder" / "record.json").mkdir()
    return 10


def test_hostile_files_are_named_and_counted(tmp_path, capsys):
    write_all(tmp_path / "sweep", [make_record()])
    count = lay_hostile_files(tmp_path / "sweep")
    assert main([str(tmp_path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == count + 1
    assert lines[-1] == f"analysis: {count} of {count + 1} files passed over"
    for kind in ("pipe", "folder"):
        assert f"analysis: passed over {tmp_path}/sweep/{kind}/record.json: not a regular file" in lines


@pytest.mark.parametrize(
    ("subcommand", "code"),
    [([], 1), (["predict", "--world-size", "8"], 1), (["import"], 2), (["profile"], 1)],
)
def test_hostile_files_alone_give_error_code(tmp_path, capsys, subcommand, code):
    count = lay_hostile_files(tmp_path)
    for name in os.listdir(tmp_path):
        (tmp_path / name / "record.json").rename(tmp_path / name / "trace_rank_0_record.json")
    assert main([*subcommand, str(tmp_path)]) == code
    err = capsys.readouterr().err
    assert f"{count} of {count} files passed over" in err
    assert len(err.splitlines()) == count + 2 - (subcommand == ["import"])


def test_only_first_skipped_files_are_named(tmp_path, capsys):
    for number in range(30):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "record.json").write_text(str(number))
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "not a benchkit record" in line]) == harvesting.MOST_LINES
    assert lines[-3:-1] == ["analysis: passed over 10 more", "analysis: 30 of 30 files passed over"]
    assert "no readable record.json at or below" in lines[-1]


def test_oversized_file_is_not_read(tmp_path, monkeypatch):
    folder = write_all(tmp_path, [make_record(), make_record(2)])
    with (folder / "1" / "record.json").open("ab") as file:
        file.truncate(files.MOST_BYTES + 1)  # a hole that takes no space
    [line] = harvest([folder]).passed_over
    assert line.endswith("1/record.json: 1 GB; files of at most 1 GB are read")


def test_named_pipe_is_refused(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    (pipe := str(tmp_path / "pipe"))
    assert main([pipe]) == 1
    assert main(["import", pipe]) == 2
    assert main(["profile", pipe]) == 1
    assert main(["plan", "--seq-len", "64", "--speeds", "1,1", "--lut", pipe]) == 2
    assert capsys.readouterr().err.count("not a regular file") == 4


def test_non_decimal_folder_names_are_sorted(tmp_path):
    write_all(tmp_path / "²", [make_record()])
    assert len(harvest([tmp_path]).rows) == 1
    assert by_number(Path("²")) == [(-1, "²")]


def test_undecodable_folder_name_is_reported(tmp_path, capsys):
    place = write_all(tmp_path / os.fsdecode(b"caf\xe9"), grid())
    assert main([str(place)]) == 0
    assert "caf\\udce9" in capsys.readouterr().out
    assert (place / "analysis" / "combined.csv").exists()


def test_copied_sweep_counts_once(tmp_path, capsys):
    folder = write_all(tmp_path / "sweep", [make_record(), make_record(10)])
    shutil.copytree(folder, tmp_path / "copy")
    found = harvest([folder, tmp_path])
    assert [row["run"] for row in found.rows] == ["sweep", "sweep"]
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().err == "analysis: 2 records are copies of others and are counted once\n"
    shutil.rmtree(tmp_path / "copy" / "0")
    assert [*harvest([tmp_path]).remarks()] == ["1 record is a copy of another and is counted once"]


def test_simultaneous_jobs_are_not_copies(tmp_path):
    place = write_all(tmp_path, [make_record(), make_record(seconds=2e-3)])
    assert len(harvest([place]).rows) == 2


def test_earlier_attempts_are_excluded(tmp_path):
    folder = write_all(tmp_path, [make_record()])
    for number in (1, 2):
        failed = make_record(status="crash", started_at=f"2026-01-01T00:00:0{number}.000+00:00")
        (folder / "0" / f"attempt_{number}.json").write_text(json.dumps(failed))
    found = harvest([tmp_path])
    assert [row["status"] for row in found.rows] == ["ok"]
    assert found.num_files == 1


def test_failed_plot_is_left_out(tmp_path, capsys, monkeypatch):
    write_all(tmp_path, grid())
    monkeypatch.setattr(size_plots, "time_over_size", lambda *given: 1 / 0)
    assert main([str(tmp_path)]) == 0
    line = "analysis: left out plot allreduce_time_vs_datasize.png: ZeroDivisionError: division by zero\n"
    assert capsys.readouterr().err == line
    written = {path.name for path in (tmp_path / "analysis").glob("*.png")}
    assert "allreduce_bandwidth_vs_datasize.png" in written
    assert "allreduce_time_vs_datasize.png" not in written


def test_failed_figure_and_table_are_left_out(tmp_path, capsys, monkeypatch):
    write_all(tmp_path, grid())
    save = style.save

    def failing(figure, path, formats):
        return save(figure, path, formats) if "speedup" in path.name else [].pop()

    monkeypatch.setattr(style, "save", failing)
    monkeypatch.setattr(link, "write", lambda table: {}["none"])
    monkeypatch.setattr("analysis.report.sentences.describe", lambda table, baseline: [].pop())
    assert main([str(tmp_path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert "analysis: left out tables of collective.table: KeyError: 'none'" in lines
    assert "analysis: left out analysis.txt: IndexError: pop from empty list" in lines
    assert len(lines) == 5
    written = {path.name for path in (tmp_path / "analysis").iterdir()}
    assert {"combined.csv", "full_results.md", "allreduce_speedup.png"} <= written


def test_dollar_sign_in_label_is_literal(tmp_path, capsys):
    records = grid()
    for record in records:
        record["cases"][0]["labels"] = {"variant of $\\bad$": "$\\frac$"}
    records += [make_record(size, ranks) for ranks in (2, 4) for size in (1.0, 10.0)]
    assert main([str(write_all(tmp_path, records))]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "analysis" / "allreduce_time_vs_datasize.png").stat().st_size > 10_000


def test_file_names_stay_inside_folder(tmp_path, capsys):
    evil = "../../evil\0" + "x" * 300
    records = [record | {"suite": evil, "title": evil} for record in grid()]
    assert main([str(write_all(tmp_path / "here", records))]) == 0
    assert not capsys.readouterr().err
    assert os.listdir(tmp_path) == ["here"]
    names = [path.name for path in (tmp_path / "here" / "analysis").glob("*evil*")]
    assert len(names) >= 3
    assert all(len(name) <= 200 for name in names)
    assert file_name("a/a b.json") == "a-a-b.json"
    assert file_name("allreduce_time_vs_datasize.png") == "allreduce_time_vs_datasize.png"


def test_detail_cannot_overwrite_column(tmp_path):
    record = make_rich_record()
    record["cases"][0]["details"] |= {"host": "x", "suite": "x", "reason": "x", "median_s": 7}
    assert main([str(write_all(tmp_path, [record]))]) == 0
    table = pd.read_csv(tmp_path / "analysis" / "combined.csv")
    assert set(table["suite"]) == {"collective"}
    assert set(table["host"]) == {"here"}


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"{}")[:10] + b"\xff" * 20,
        gzip.compress(b"[" * 10_000),
        gzip.compress(b'{"traceEvents": [], "distributedInfo": {"rank": []}}'),
        gzip.compress(b'{"traceEvents": 7}'),
    ],
    ids=["damaged", "deep", "rank", "number"],
)
def test_broken_trace_is_named(tmp_path, capsys, content):
    (tmp_path / "trace_rank_0.json.gz").write_bytes(content)
    assert main(["profile", str(tmp_path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "trace_rank_0.json.gz: not a trace of torch.profiler" in lines[0]


def test_profile_accepts_zero_duration_steps(tmp_path, capsys):
    events = [
        {"ph": "X", "name": name, "cat": kind, "pid": 1, "tid": 1, "ts": 0, "dur": 0}
        for name, kind in (("step a", "user_annotation"), ("gloo:send", "user_annotation"), ("nccl", "kernel"))
    ]
    events[0]["dur"] = 1000
    (tmp_path / "trace_rank_0.json").write_text(json.dumps({"traceEvents": events}))
    assert main(["profile", str(tmp_path)]) == 0
    assert "Top kernels" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["[" * 100_000, '{"nccl_version": 1, "results": ' + "[" * 100_000])
def test_deeply_nested_import_is_refused(tmp_path, capsys, text):
    (tmp_path / "all_reduce_perf.json").write_text(text)
    assert main(["import", str(tmp_path / "all_reduce_perf.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
