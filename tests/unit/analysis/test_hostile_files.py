"""Files that are no records, whatever they are, and parts of a report that fail."""

import json
import os
import shutil

import analysis
import pytest
from analysis.cli import main
from analysis.records import harvest as harvesting
from analysis.records.harvest import harvest
from analysis.suites.collective import table as link
from benchkit.record import files

from tests.support.entries.report import report, sizes, style
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
    write_all(tmp_path / "sweep", [make_record(status="crash")])
    count = lay_hostile_files(tmp_path / "sweep")
    assert main([str(tmp_path)]) == 0
    *named, counted = capsys.readouterr().err.splitlines()
    assert len(named) == count
    assert f"{count} of {count + 1} files" in counted
    for kind in ("pipe", "folder"):
        assert any(f"{tmp_path}/sweep/{kind}/record.json: not a" in line for line in named)


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
    assert f"{count} of {count} files" in err
    assert len(err.splitlines()) == count + 2 - (subcommand == ["import"])


def test_only_first_skipped_files_are_named(tmp_path, capsys, golden):
    for number in range(30):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "record.json").write_text(str(number))
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert sum("/record.json: " in line for line in lines) == harvesting.MOST_LINES
    golden("\n".join(lines[-4:]))


def test_oversized_file_is_not_read(tmp_path, monkeypatch):
    folder = write_all(tmp_path, [make_record(), make_record(2)])
    with (folder / "1" / "record.json").open("ab") as file:
        file.truncate(files.MOST_BYTES + 1)  # a hole that takes no space
    [line] = harvest([folder]).skipped
    assert "1/record.json: 1 GB" in line


def test_named_pipe_is_refused(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    pipe = str(tmp_path / "pipe")
    assert main([pipe]) == 1
    assert main(["profile", pipe]) == 1
    assert main(["plan", "--seq-len", "64", "--speeds", "1,1", "--lut", pipe]) == 2
    assert capsys.readouterr().err.count("regular") == 3


@pytest.mark.parametrize("name", ["records.zip", "records.tar.gz", "RECORDS.TGZ"])
@pytest.mark.parametrize("subcommand", [[], ["import"], ["compare", "."], ["accept"]])
def test_archive_is_refused_in_one_line(tmp_path, capsys, subcommand, name):
    (tmp_path / name).write_bytes(b"PK")
    assert main([*subcommand, str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "unpack" in err) == ("", 1, True)


def test_renamed_copy_is_named_where_there_is_no_record(tmp_path, capsys):
    (tmp_path / "record (1).json").write_text("{}")
    assert main([str(tmp_path)]) == 1
    assert str(tmp_path / "record (1).json") in capsys.readouterr().err
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "record.json").write_text("{}")
    assert main([str(tmp_path)]) == 1
    assert "record (1)" not in capsys.readouterr().err


def test_folder_names_need_no_ascii(tmp_path, capsys):
    write_all(tmp_path / "²", [make_record(status="crash")])
    write_all(tmp_path / os.fsdecode(b"caf\xe9"), [make_record(2, status="crash")])
    assert main([str(tmp_path / os.fsdecode(b"caf\xe9"))]) == 0
    assert "caf\\udce9" in capsys.readouterr().out
    assert len(harvest([tmp_path]).rows) == 2


def test_copied_sweep_counts_once(tmp_path, golden):
    folder = write_all(tmp_path / "sweep", [make_record(), make_record(10)])
    shutil.copytree(folder, tmp_path / "copy")
    found = harvest([folder, tmp_path])
    assert [row["run"] for row in found.rows] == ["sweep", "sweep"]
    told = [*found.remarks()]
    shutil.rmtree(tmp_path / "copy" / "0")
    told += harvest([tmp_path]).remarks()
    golden("\n".join(told))
    simultaneous = write_all(tmp_path / "at once", [make_record(), make_record(seconds=2e-3)])
    assert len(harvest([simultaneous]).rows) == 2


def test_earlier_attempts_are_excluded(tmp_path):
    folder = write_all(tmp_path, [make_record()])
    for number in (1, 2):
        failed = make_record(status="crash", started_at=f"2026-01-01T00:00:0{number}.000+00:00")
        (folder / "0" / f"attempt_{number}.json").write_text(json.dumps(failed))
    found = harvest([tmp_path])
    assert [row["status"] for row in found.rows] == ["ok"]
    assert found.num_files == 1


def test_parts_that_fail_are_left_out(tmp_path, capsys, monkeypatch, golden):
    write_all(tmp_path, grid())
    save = style.save

    def failing(figure, path, formats):
        return save(figure, path, formats) if "speedup" in path.name else [].pop()

    monkeypatch.setattr(style, "save", failing)
    monkeypatch.setattr(sizes, "time_over_size", lambda *given: 1 / 0)
    monkeypatch.setattr(link, "write", lambda table: {}["none"])
    monkeypatch.setattr(report.sentences, "describe", lambda *given: [].pop())
    assert main([str(tmp_path), "--baseline", "world_size=2"]) == 0
    golden(capsys.readouterr().err)
    written = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"combined.csv", "full_results.md", "allreduce_speedup.png"} <= written
    assert not {"analysis.txt", "allreduce_time_vs_datasize.png", "allreduce_bandwidth_vs_datasize.png"} & written


def test_names_stay_inside_folder_and_dollar_signs_are_literal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(style, "DOTS_PER_INCH", 20)
    evil = "../../evil\0" + "x" * 300
    records = [make_record(size, ranks, suite=evil, title=evil) for ranks in (2, 4) for size in (1.0, 10.0)]
    for record in records[:2]:
        record["cases"][0]["labels"] = {"variant of $\\bad$": "$\\frac$"}
    assert main([str(write_all(tmp_path / "here", records))]) == 0
    assert not capsys.readouterr().err
    assert os.listdir(tmp_path) == ["here"]
    names = [path.name for path in (tmp_path / "here" / "report").glob("*evil*.png")]
    assert len(names) >= 2
    assert all(len(name) <= 200 for name in names)


def test_detail_cannot_overwrite_column(tmp_path):
    record = make_rich_record()
    record["cases"][0]["details"] |= {"host": "x", "suite": "x", "reason": "x", "median_s": 7}
    table = analysis.load(write_all(tmp_path, [record]))
    assert set(table["suite"]) == {"collective"}
    assert set(table["host"]) == {"here"}
    assert (table["median_s"] < 1).all()


def test_profile_accepts_zero_duration_steps(tmp_path, capsys):
    events = [
        {"ph": "X", "name": name, "cat": kind, "pid": 1, "tid": 1, "ts": 0, "dur": 0}
        for name, kind in (("step a", "user_annotation"), ("gloo:send", "user_annotation"), ("nccl", "kernel"))
    ]
    events[0]["dur"] = 1000
    (tmp_path / "trace_rank_0.json").write_text(json.dumps({"traceEvents": events}))
    assert main(["profile", str(tmp_path)]) == 0
    assert "Top kernels" in capsys.readouterr().out


def test_deeply_nested_import_is_refused(tmp_path, capsys):
    path = tmp_path / "all_reduce_perf.json"
    for head in ("", '{"nccl_version": 1, "results": '):
        path.write_text(head + "[" * 100_000)
        assert main(["import", str(path)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_mistyped_subcommand_is_answered_with_nearest(capsys, golden):
    assert main(["comapre", "a", "b"]) == main(["nowhere"]) == 2
    golden(capsys.readouterr().err)
