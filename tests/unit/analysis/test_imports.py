"""`python -m analysis import`: output of nccl-tests and of OSU, real or in their format, beside records."""

import io
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
from analysis.cli import main
from analysis.foreign import formats, nccl_tests, undecorated
from analysis.foreign.timings import ForeignOutput
from analysis.foreign.undecorated import MOST_LETTERS
from analysis.shared import text_table as texts
from perf.foreign_fuzz import COLLECTORS, START, TAGS, TIMES, fuzz

from tests.support.imports import SAMPLES, imported, one, ours
from tests.support.records import make_record, write_all

NCCL_TEXT, NCCL_JSON = SAMPLES / "nccl_tests_all_reduce.txt", SAMPLES / "nccl_tests_all_gather.json"
OSU_TEXT = SAMPLES / "osu_allreduce.txt"


def saved(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def osu(test, *lines, suffix="", columns="# Size       Avg Latency(us)"):
    return "\n".join(["", f"# OSU MPI{suffix} {test} Test v7.4", "# Datatype: MPI_FLOAT.", columns, *lines, ""])


def test_nccl_output_is_taken_as_printed(tmp_path, capsys, golden):
    """As text and as JSON, out of place and in place; an average over processes (-a 1), or of the slowest (-a 3)."""
    table = imported(tmp_path, NCCL_TEXT, NCCL_JSON)
    assert len(table) == 8 + 4
    row = one(table, payload_bytes=16777216, in_place=False)
    assert row.busbw_gb_per_s == pytest.approx(16777216 / 125e-6 / 1e9 * 7 / 8, rel=1e-6)
    golden(capsys.readouterr().out.partition("\nwrote")[0])


def test_negative_time_is_no_result(tmp_path, capsys):
    nccl = saved(tmp_path, "n.txt", re.sub(r" (800\.\d+)", r"-\1", NCCL_TEXT.read_text()))
    assert len(imported(tmp_path, nccl)) == 6
    text = osu("Latency", "8 -1.50", "16 2.50", columns="# Size  Latency (us)")
    assert len(imported(tmp_path, saved(tmp_path, "o.txt", text))) == 1
    assert capsys.readouterr().err.count("1 line(s)") == 2


def test_nccl_json_status_follows_checks(tmp_path):
    text = NCCL_JSON.read_text().replace('"nwrong":0.0', '"nwrong":null', 1).replace('"nwrong":0.0', '"nwrong":7.0', 1)
    table = imported(tmp_path, saved(tmp_path, "a.json", text))
    assert table.status.tolist() == ["unchecked", "invalid", "ok", "ok"]


def test_per_iteration_times_give_median(tmp_path):
    told = '"out_of_place_per_iter":{"skipped_iterations":0,"avg_us":126.0,"p50_us":100.0},"in_place":{"time":128.0'
    text = NCCL_JSON.read_text().replace('"in_place":{"time":128.0', told)
    table = imported(tmp_path, saved(tmp_path, "a.json", text))
    row = one(table[table.estimator.str.startswith("median")])
    assert (row.payload_bytes, row.in_place, row.time_s) == (16777216, False, pytest.approx(100e-6))
    assert row.busbw_gb_per_s == pytest.approx(16777216 / 100e-6 / 1e9 * 7 / 8, rel=1e-6)


def test_ranks_count_one_group(tmp_path):
    text = re.sub("(Rank  [23]) Group  0", r"\1 Group  1", NCCL_TEXT.read_text())
    assert set(imported(tmp_path, saved(tmp_path, "split.txt", text)).world_size) == {2}
    text = NCCL_JSON.read_text().replace('"rank":4,"group":0', '"rank":4,"group":1')
    assert set(imported(tmp_path, saved(tmp_path, "split.json", text)).world_size) == {4}


def test_host_time_is_not_collective_time(tmp_path):
    text = re.sub(r" {3}time ", "cputime ", NCCL_TEXT.read_text())
    table = imported(tmp_path, saved(tmp_path, "cpu.txt", text))
    assert table.time_s.isna().all()
    assert table.algbw_gb_per_s.max() == 169.9
    assert "host's" in table.conversion[0]


OLD = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
# Using devices
#   Rank  0 Pid   7155 on      node0 device  0 [0x07] Tesla V100
#   Rank  1 Pid   7155 on      node0 device  1 [0x08] Tesla V100
#                                                 out-of-place                       in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        131072   float     20.0   52.43   26.21  2e-07     21.0   49.93   24.97    N/A
"""


def test_old_output_infers_collective(tmp_path, capsys):
    for name, text in (("all_gather_perf.log", OLD), ("run.log", "$ ./build/all_gather_perf -g 2\n" + OLD)):
        table = imported(tmp_path, saved(tmp_path, name, text))
        assert (table.collective.tolist(), table.world_size.tolist()) == (["all_gather"] * 2, [2, 2])
        assert set(table.status) == {"unchecked"}  # a deviation is no number of wrong elements
    capsys.readouterr()
    assert main(["import", str(saved(tmp_path, "some.log", OLD))]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_blank_and_extra_columns_keep_alignment(tmp_path):
    lines = NCCL_TEXT.read_text().replace("all_reduce_perf", "sendrecv_perf").replace("     sum  ", "          ")
    stamped = re.sub(r"(?m)(#wrong) $", r"\1           timestamp", lines)
    stamped = re.sub(r"(?m)^( +\d+ .*)$", r"\1  2026-07-10 10:00:00", stamped)
    for text in (lines, stamped):
        row = one(imported(tmp_path, saved(tmp_path, "n.txt", text)), payload_bytes=134217728, in_place=True)
        assert (row.collective, row.time_s, row.busbw_gb_per_s) == ("ring_shift", pytest.approx(790e-6), 254.84)
        assert pd.isna(row.reduce_op)
        assert row.conversion


def test_osu_output_lines_up_with_record(tmp_path, capsys, golden):
    lines = map(str.split, OSU_TEXT.read_text().splitlines())
    printed = {int(cells[0]): float(cells[1]) for cells in lines if cells[:1] and cells[0].isdigit()}
    place = ours(tmp_path / "records", "all_reduce", data_size=65536 / 2**20, seconds=3e-4)
    table = imported(tmp_path, OSU_TEXT, place, "--ranks", 2)
    both = table[table.payload_bytes == 65536]
    assert both.source.tolist() == ["benchkit", "osu"]
    assert both.time_s.tolist() == pytest.approx([3e-4, printed[65536] * 1e-6])
    assert both.algbw_gb_per_s.tolist() == pytest.approx([65536 / time / 1e9 for time in both.time_s])
    assert both.busbw_gb_per_s.tolist() == pytest.approx(both.algbw_gb_per_s.tolist())  # factor 2 (n - 1) / n = 1
    assert (both.reduce_op.tolist(), both.world_size.tolist()) == (["sum"] * 2, [2, 2])
    assert set(table[table.source == "osu"].payload_bytes) == set(printed)
    shown = capsys.readouterr().out.splitlines()
    golden("\n".join(line for line in shown if not line.startswith("all_reduce") or " 65536 " in line))


def test_osu_size_is_scaled_to_payload(tmp_path, capsys, golden):
    names = ("Allgather", "All-to-All Personalized Exchange", "Gather", "Scatter", "Reduce_scatter", "Allreduce")
    paths = [
        saved(tmp_path, f"{name}.txt", osu(f"{name} Latency", "1024    8.00", suffix="-CUDA"))
        for name in (*names, "Broadcast", "Reduce")
    ]
    table = imported(tmp_path, *paths, "--ranks", 4)
    assert table.algbw_gb_per_s.tolist() == pytest.approx((table.payload_bytes / 8e-6 / 1e9).tolist())
    golden(capsys.readouterr().out.partition("\nwrote")[0])


def test_torn_line_is_skipped(tmp_path, capsys):
    text = NCCL_TEXT.read_text()
    torn = text.replace("254.84       0\n", "254.84\n").replace("   19.50    6.72", "node0: NCCL INFO   19.50")
    assert len(imported(tmp_path, saved(tmp_path, "torn.txt", torn))) == 4
    assert "2 line(s)" in capsys.readouterr().err
    osu_torn = OSU_TEXT.read_text().replace("     1000\n", "\n", 1)
    whole, rest = len(imported(tmp_path, OSU_TEXT, "--ranks", 2)), saved(tmp_path, "torn.txt", osu_torn)
    assert len(imported(tmp_path, rest, "--ranks", 2)) == whole - 1
    assert "1 line(s)" in capsys.readouterr().err


@pytest.mark.parametrize("noise", ["", "node0: waiting"])
@pytest.mark.parametrize("first", [[], ["8 1.50"]])
def test_rest_of_a_torn_line_is_no_row(tmp_path, first, noise):
    text = osu("Latency", *first, f"1{noise}", "6 2.50", "32 3.50", columns="# Size  Latency (us)")
    found = formats.read("a.txt", text)
    assert [row.payload_bytes for row in found.rows] == [*([16] * len(first)), 64]
    assert found.skipped


def test_truncated_figure_is_skipped(tmp_path, capsys):
    text = osu("Broadcast Latency", "1024    18.25", "2048    36.50").rstrip("\n")
    for cut in (1, 4):
        table = imported(tmp_path, saved(tmp_path, "cut.txt", text[:-cut]))
        assert table.payload_bytes.tolist() == [1024]
        assert "1 line(s)" in capsys.readouterr().err


def test_half_round_trip_is_doubled(tmp_path):
    text = osu("Latency", "1024    8.00", columns="# Size          Latency (us)").replace("MPI_FLOAT", "MPI_CHAR")
    place = ours(tmp_path / "records", "send_recv", seconds=1e-3)
    table = imported(tmp_path, saved(tmp_path, "osu_latency.txt", text), place)
    row = one(table, source="osu")
    assert (row.collective, row.world_size, row.payload_bytes) == ("send_recv", 2, 2048)
    assert row.time_s == pytest.approx(16e-6)
    assert row.busbw_gb_per_s == pytest.approx(1024 / 8e-6 / 1e9)
    assert "half" in row.conversion


def test_barrier_has_no_payload_or_bandwidth(tmp_path):
    barrier = saved(tmp_path, "b.txt", osu("Barrier Latency", "             1.25", columns="# Avg Latency(us)"))
    row = one(imported(tmp_path, barrier), collective="barrier")
    assert row.time_s == pytest.approx(1.25e-6)
    assert row[["payload_bytes", "algbw_gb_per_s", "busbw_gb_per_s"]].isna().all()
    both = barrier.read_text() + osu("Latency", "8    1.50", columns="# Size          Latency (us)")
    assert [row.collective for row in formats.read("a.txt", both).rows] == ["barrier", "send_recv"]


def test_osu_output_gives_status_and_device(tmp_path):
    columns = "# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations        Validation"
    lines = ("4   1.00   0.90   1.10   1000   Pass", "8   1.00   0.90   1.10   1000   Fail")
    table = imported(tmp_path, saved(tmp_path, "v.txt", osu("Broadcast Latency", *lines, columns=columns)))
    assert table.status.tolist() == ["ok", "invalid"]
    assert set(table.device) == {"cpu"}
    text = osu("Latency", "4   1.00", suffix="-CUDA", columns="# Size          Latency (us)")
    assert (
        imported(tmp_path, saved(tmp_path, "l.txt", text)).device.isna().all()
    )  # -d cuda alone leaves buffers in host memory
    told = text.replace("# Size", "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n# Size")
    assert imported(tmp_path, saved(tmp_path, "l.txt", told)).device.tolist() == ["cuda"]


def test_only_collective_records_are_read(tmp_path, capsys):
    place = ours(tmp_path / "records", "all_gather", world_size=4)
    write_all(tmp_path / "records" / "others", [make_record(2.0)])
    row = one(imported(tmp_path, place), source="benchkit")
    assert (row.collective, row.payload_bytes, row.in_place) == ("all_gather", 2**20, False)
    assert pd.isna(row.reduce_op)
    assert main(["import", str(tmp_path / "records" / "others")]) == 2
    assert "collective" in capsys.readouterr().err


@pytest.mark.parametrize("sample", [NCCL_TEXT, NCCL_JSON, OSU_TEXT], ids=lambda path: path.name)
def test_truncated_file_keeps_whole_rows(tmp_path, sample):
    text = sample.read_text()
    whole = imported(tmp_path, sample, "--ranks", 2)
    known = set(whole.drop(columns="file").astype(str).apply(tuple, axis=1))
    counts = []
    for end in range(len(text) // 20, len(text), len(text) // 13):
        path = saved(tmp_path, sample.name, text[:end])
        code = main(["import", str(path), "--ranks", "2", "--output-dir", str(tmp_path / "out")])
        rows = pd.read_csv(tmp_path / "out" / "imported.csv") if code == 0 else whole[:0]
        assert set(rows.drop(columns="file").astype(str).apply(tuple, axis=1)) <= known if len(rows) else code == 2
        counts.append(len(rows))
    assert counts == sorted(counts)
    assert 0 < counts[-1] <= len(whole)


def test_unknown_rank_count_is_refused(tmp_path, capsys):
    for test, needed in (("Allgather Latency", True), ("Allreduce Latency", True), ("Broadcast Latency", False)):
        path = saved(tmp_path, "o.txt", osu(test, "1024    8.00"))
        assert main(["import", str(path)]) == (2 if needed else 0)
        err = capsys.readouterr().err
        assert ("--ranks" in err, err.count("\n")) == (needed, int(needed))


def test_invalid_file_hides_no_valid_file(tmp_path, capsys, golden):
    told = []
    for name, content in (
        ("a.txt", "hello\n"), ("a.txt", ""), ("a.json", "{}"), ("a_perf.json", '{"nccl_version": 1, "config": 3}'),
        ("all_gather.log", OLD), ("a.txt", osu("Bandwidth", "1   2.0", columns="# Size   Bandwidth (MB/s)")),
        ("a.txt", osu("Allreduce Latency")), ("record.json", "[]"),
    ):  # fmt: skip
        path = saved(tmp_path, name, content)
        assert main(["import", str(path)]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert len(imported(tmp_path, path, NCCL_JSON, code=1)) == 4
        assert capsys.readouterr().err == err
        told.append(err)
    for arguments in (["/no/such"], [str(NCCL_JSON), "--ranks", "1"]):
        assert main(["import", *arguments]) == 2
        told.append(capsys.readouterr().err)
    golden("".join(told), {r"AttributeError: .*\)": "PYTHON)"})


def test_output_defaults_to_first_file_folder(tmp_path, capsys):
    path = Path(shutil.copy(NCCL_JSON, tmp_path))
    assert main(["import", str(path)]) == 0
    assert (tmp_path / "report" / "imported.md").read_text().startswith("| collective")
    assert str(tmp_path / "report" / "imported.csv") in capsys.readouterr().out


def test_decorated_and_torn_files_give_true_rows_or_say_what_is_missing():
    outcomes = Counter()
    assert list(fuzz(400, seed=7, outcomes=outcomes)) == []
    assert outcomes["all rows"] > 100


def through(text, decorate):
    """The text behind what `decorate` makes of each line, of rank 0 and of the time."""
    at = [START + timedelta(seconds=0.7 * line) for line in range(text.count("\n"))]
    return "".join(decorate(line, time) + "\n" for line, time in zip(text.splitlines(), at, strict=True))


@pytest.mark.parametrize("sample", [NCCL_TEXT, OSU_TEXT, SAMPLES / "cs336_allreduce.csv"], ids=lambda path: path.stem)
def test_each_decoration_alone_is_taken_off(sample):
    rows = [asdict(row) for row in formats.read("a.txt", sample.read_text(), 2).rows]
    decorations = [
        *(lambda line, at, tag=tag: tag(0) + line for tag in TAGS),
        *(lambda line, at, time=time: time(at) + line for time in TIMES),
        *(lambda line, at, collect=collect: json.dumps(collect(line, 0, at)) for collect in COLLECTORS),
        lambda line, at: f'time="{at}" level=info msg="{line}"',
        lambda line, at: json.dumps({"log": json.dumps({"message": line, "rank": 0}) + "\n", "stream": "stdout"}),
        lambda line, at: f"{at:%F %T} +0000 kube.pod: " + json.dumps({"log": line, "stream": "stdout"}),
    ]
    for decorate in decorations:
        found = formats.read("a.txt", through(sample.read_text(), decorate), 2)
        assert [asdict(row) for row in found.rows if not found.skipped] == rows, decorate("LINE", START)


def test_answer_of_loki_and_pieces_of_lines_are_read():
    lines = [[str(number), line] for number, line in enumerate(NCCL_TEXT.read_text().splitlines())]
    answer = {
        "data": {"result": [{"stream": {"pod": "a"}, "values": lines}, {"stream": {"pod": "b"}, "values": lines}]}
    }
    assert len(formats.read("a.txt", json.dumps(answer)).rows) == 16
    pieces = through(
        NCCL_TEXT.read_text(), lambda line, at: f"{at:%FT%T}Z 00O {line[:30]}\n{at:%FT%T}Z 00O+{line[30:]}"
    )
    assert len(formats.read("a.txt", pieces).rows) == 8


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_mark_of_an_encoding_is_believed(tmp_path, encoding):
    for sample in (NCCL_TEXT, NCCL_JSON, SAMPLES / "cs336_allreduce.csv"):
        (tmp_path / sample.name).write_bytes(sample.read_text().replace("\n", "\r\n").encode(encoding))
        assert len(imported(tmp_path, tmp_path / sample.name)) == len(imported(tmp_path, sample))


STRANGER = NCCL_TEXT.read_text().replace("all_reduce_perf", "all_reduce_bias_perf")
UNNAMED = "".join(line for line in STRANGER.splitlines(keepends=True) if "_perf" not in line)


@pytest.mark.parametrize("name", ["a.txt", "all_reduce_perf.txt"])
@pytest.mark.parametrize(
    ("text", "rows", "named"),
    [
        (NCCL_TEXT.read_text() + STRANGER, 8, True),
        (STRANGER + NCCL_TEXT.read_text(), 8, True),
        (STRANGER, 0, True),
        ("$ ./build/all_reduce_bias_perf -g 4\n" + UNNAMED, 0, True),
        (NCCL_JSON.read_text().replace("all_gather_perf", "all_reduce_bias_perf"), 0, True),
        (NCCL_TEXT.read_text() + UNNAMED, 8, False),
    ],
    ids=["after", "before", "alone", "by command", "JSON", "without name"],
)
def test_no_table_lends_its_program_to_another(name, text, rows, named):
    found = formats.read(name, text)
    assert [row.collective for row in found.rows[:8]] == ["all_reduce"] * rows
    assert len(found.rows) == rows + 8 * (name != "a.txt" and not named)  # the file's name is a word of the user
    assert any("all_reduce_bias" in line for line in found.skipped) == named
    assert found.skipped or len(found.rows) == 16


def test_tests_at_the_same_time_are_not_told_apart():
    """Two processes write into one file without prefixes."""
    gathers = NCCL_TEXT.read_text().replace("all_reduce_perf", "all_gather_perf")
    mixed = [
        line for pair in zip(NCCL_TEXT.read_text().splitlines(), gathers.splitlines(), strict=True) for line in pair
    ]
    found = formats.read("a.txt", "\n".join([*mixed, ""]))
    assert (found.rows, bool(found.skipped)) == ([], True)
    osus = [OSU_TEXT.read_text().splitlines(), OSU_TEXT.read_text().replace("Allreduce", "Broadcast").splitlines()]
    for first in (0, 8):  # the second begins with the first, or later
        lines = [*osus[0][:first], *(line for pair in zip(osus[0][first:], osus[1], strict=False) for line in pair)]
        found = formats.read("a.txt", "\n".join([*lines, ""]), 2)
        assert {row.collective for row in found.rows} <= {"all_reduce"}
        assert len(found.rows) <= first
        assert found.skipped


@pytest.mark.parametrize(
    ("sample", "old", "new"),
    [
        (NCCL_TEXT, "(us)", "(ms)"),
        (NCCL_TEXT, "(GB/s)", "(Gb/s)"),
        (NCCL_TEXT, "#wrong", "#off"),
        (NCCL_TEXT, "busbw", "bw"),
        (NCCL_TEXT, "-1 ", "0 0 "),
        (OSU_TEXT, "Avg Latency(us)", "Avg Latency(ms)"),
        (OSU_TEXT, "Iterations", "Loops"),
        (OSU_TEXT, "# OSU MPI Allreduce Latency Test v7.4\n", ""),
        (SAMPLES / "param_comms.txt", "AlgBW(GB/s)", "AlgBW(Gb/s)"),
        (SAMPLES / "param_comms.txt", "Time(us)", "Time(ms)"),
    ],
)
def test_table_of_a_form_near_a_known_one_is_named(sample, old, new):
    text = sample.read_text()
    assert old in text
    both = formats.read("a.txt", text.replace(old, new) + NCCL_TEXT.read_text(), 2)
    assert (len(both.rows), bool(both.skipped)) == (8, True)


def test_csv_begins_at_its_heads_and_again_at_others():
    reduces, models = ((SAMPLES / name).read_text() for name in ("cs336_allreduce.csv", "cs336_transformer.csv"))
    models = models.replace("max_time_ms\n", '"max, of trials"\n')
    turned = "".join(",".join(line.split(",")[::-1]) + "\n" for line in reduces.splitlines())
    found = formats.read("a.txt", "loading\n" + reduces + models + turned)
    assert [row.SUITE for row in found.rows] == ["collective"] * 3 + ["transformer"] * 2 + ["collective"] * 3
    times = [row.time_s for row in found.rows]
    assert times[:3] == times[5:]
    assert not found.skipped


def test_cell_of_a_line_of_another_table_is_no_name(tmp_path):
    text = (SAMPLES / "cs336_allreduce.csv").read_text() + "even,8192,2,30.0,40.0,20.0,40.0,50\n"
    found = formats.read("a.csv", text)
    assert (len(found.rows), len(found.skipped)) == (3, 1)


def test_outputs_of_several_tools_in_one_log_are_read():
    found = formats.read("a.log", NCCL_TEXT.read_text() + OSU_TEXT.read_text() + NCCL_TEXT.read_text(), 2)
    assert (len(found.rows), found.skipped) == (8 + 22 + 8, [])


@pytest.mark.parametrize("lost", [1, 4, 6])
def test_lines_of_numbers_below_no_heads_are_told(lost):
    """The log is rotated, or a source lost its prefix."""
    rest = "".join(OSU_TEXT.read_text().splitlines(keepends=True)[lost:])
    found = formats.read("a.log", NCCL_TEXT.read_text() + "\n" + rest, 2)
    told = any("line(s)" in line for line in found.skipped)
    assert (len(found.rows), told) == ((30, False) if lost == 1 else (8, True))
    tagged = "".join(TAG + line for line in NCCL_TEXT.read_text().splitlines(keepends=True))
    found = formats.read("a.log", tagged + rest.replace("# OSU", "# "), 2)
    assert (len(found.rows), any("another prefix" in line for line in found.skipped)) == (8, True)


def test_processes_without_mpi_are_separate_communicators(tmp_path):
    """Each lists its own ranks: a number that repeats is of another communicator."""
    ranks = "".join(line for line in NCCL_TEXT.read_text().splitlines(keepends=True) if line.startswith("#  Rank"))
    start, _, table = NCCL_TEXT.read_text().partition(ranks)
    heads, rows = re.split(r"(?m)^(?= *\d)", table, maxsplit=1)
    for text in (
        start + ranks * 2 + table, start + ranks * 2 + heads * 2 + rows * 2, start + ranks * 2 + (heads + rows) * 2,
    ):  # fmt: skip
        assert set(imported(tmp_path, saved(tmp_path, "a.txt", text)).world_size) == {4}


@pytest.mark.parametrize("cut", ["# ...\n", ""])
def test_ranks_of_a_list_that_is_cut_are_unknown(tmp_path, capsys, cut):
    third = next(line for line in NCCL_TEXT.read_text().splitlines(keepends=True) if line.startswith("#  Rank  2"))
    table = imported(tmp_path, saved(tmp_path, "a.txt", NCCL_TEXT.read_text().replace(third, cut)))
    assert table.world_size.isna().all()
    assert (len(table), "list of devices" in capsys.readouterr().err) == (8, True)


def test_results_of_one_side_alone_are_read(tmp_path):
    lines = [
        "# Collective test starting: all_reduce_perf", "#                   in-place",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong",
        "     1048576        262144     float     sum      -1    100.0   10.49   18.35       0", "",
    ]  # fmt: skip
    row = one(imported(tmp_path, saved(tmp_path, "a.txt", "\n".join(lines))))
    assert (row.in_place, row.payload_bytes, row.time_s) == (True, 2**20, pytest.approx(1e-4))


@pytest.mark.parametrize("name", ["h100_all_reduce_perf.txt", "nccl_alltoall_perf.txt", "all_reduce_perf"])
def test_name_of_a_test_may_have_a_prefix(tmp_path, name):
    lines = [line for line in NCCL_TEXT.read_text().splitlines(keepends=True) if "_perf" not in line]
    table = imported(tmp_path, saved(tmp_path, name, "".join(lines)))
    assert set(table.collective) == {"all_to_all" if "alltoall" in name else "all_reduce"}


def test_bandwidth_that_is_not_size_over_time_is_told(tmp_path):
    old = NCCL_TEXT.read_text().replace("  6.55    9.83", " 52.40   78.64", 1)
    table = imported(tmp_path, saved(tmp_path, "a.txt", old))
    assert table.conversion.str.contains("not S / time").sum() == 1


def test_number_beyond_all_tables_costs_its_row_alone(tmp_path, capsys):
    text = re.sub(r"^( +)8 ", rf"\g<1>{10**19} ", NCCL_TEXT.read_text(), count=1, flags=re.MULTILINE)
    assert len(imported(tmp_path, saved(tmp_path, "a.txt", text))) == 6
    assert "1 line(s)" in capsys.readouterr().err


def test_last_line_of_osu_needs_no_line_break(tmp_path):
    text = osu("Latency", "8 1.50", "16 2.50", columns="# Size  Latency (us)").rstrip("\n")
    assert len(imported(tmp_path, saved(tmp_path, "a.txt", text))) == 2
    assert len(imported(tmp_path, saved(tmp_path, "a.txt", text[:-1]))) == 1


def test_standard_input_and_pipes_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(NCCL_TEXT.read_bytes())))
    assert len(imported(tmp_path, "-")) == 8
    reading, writing = os.pipe()
    os.write(writing, NCCL_TEXT.read_bytes())
    os.close(writing)
    assert len(imported(tmp_path, f"/proc/self/fd/{reading}")) == 8
    os.close(reading)


def test_cell_beyond_all_bounds_is_one_line(tmp_path, capsys):
    path = saved(tmp_path, "a.csv", 'split_type,seq_len\n"' + "a" * 200_000 + '",1\n')
    assert main(["import", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_table_of_cloudai_is_that_of_nccl_tests(tmp_path, capsys):
    table = imported(tmp_path, SAMPLES / "all_reduce_perf_cloudai.csv")
    assert list(table.status) == ["ok", "ok", "ok", "unchecked"]
    assert set(table.world_size) == {8}
    assert list(table.in_place) == [False, True] * 2
    nameless = saved(tmp_path, "report.csv", (SAMPLES / "all_reduce_perf_cloudai.csv").read_text())
    assert main(["import", str(nameless)]) == 2
    assert "all_reduce_perf" in capsys.readouterr().err


def test_results_of_param_are_read_and_others_named(tmp_path, capsys):
    text = (SAMPLES / "param_comms.txt").read_text()
    table = imported(
        tmp_path, saved(tmp_path, "a.txt", text + text.splitlines()[-1].replace("gather", "to_allv") + "\n")
    )
    assert list(table.collective) == ["all_gather", "all_reduce"]
    assert list(table.payload_bytes / table.time_s / 1e9) == pytest.approx(list(table.algbw_gb_per_s), rel=1e-3)
    assert set(table.world_size) == {8}
    assert "all_to_allv" in capsys.readouterr().err


def test_test_that_is_named_at_the_end_alone_is_known(tmp_path):
    """As in RCCL's output; its devices may lack a name, and its errors may be N/A."""
    lines = [line for line in NCCL_TEXT.read_text().splitlines() if "_perf" not in line]
    lines = [line.replace(" NVIDIA", "").replace("      0\n", "    N/A\n") for line in lines]
    text = "\n".join([*lines, "# Collective test concluded: all_gather_perf", ""])
    assert set(imported(tmp_path, saved(tmp_path, "a.txt", text)).collective) == {"all_gather"}


TAG = "[1,0]<stdout>:"


@pytest.mark.parametrize(("letters", "rows"), [(MOST_LETTERS, 8), (MOST_LETTERS + 1, 0)])
def test_what_stands_before_a_head_is_short(tmp_path, letters, rows):
    """A hostile log has a hundred thousand prefixes in a line."""
    lines = ["x" * (letters - 2) + ": " + line for line in NCCL_TEXT.read_text().splitlines()]
    found = formats.read("a.txt", "\n".join([*lines, ""]))
    assert (len(found.rows) if found else 0) == rows


def test_prefixes_of_hostile_lines_are_searched_in_part(monkeypatch):
    searched = []

    class Times:
        def sub(self, mark, text):
            searched.append(len(text))
            return times.sub(mark, text)

        def finditer(self, text, start, end):
            searched.append(end - start)
            return times.finditer(text, start, end)

    times = undecorated.TIME
    monkeypatch.setattr(undecorated, "TIME", Times())
    lines = [TAG + line for line in NCCL_TEXT.read_text().splitlines()]
    text = "\n".join([*lines[:5], TAG * 100_000, *lines[5:], ""])
    assert len(formats.read("a.txt", text).rows) == 8
    assert max(searched) == MOST_LETTERS


@pytest.mark.parametrize(("letters", "rows"), [(10_000, 2), (10_001, 1)])
def test_line_of_too_many_letters_is_no_row(tmp_path, letters, rows):
    text = osu("Latency", "8 1.50", "16".ljust(letters - 5) + "2.50", columns="# Size  Latency (us)")
    assert len(imported(tmp_path, saved(tmp_path, "a.txt", text))) == rows


def test_document_of_one_long_line_is_read(tmp_path):
    assert len(imported(tmp_path, saved(tmp_path, "a.json", json.dumps(json.loads(NCCL_JSON.read_text()))))) == 4
    text = json.dumps({**json.loads(NCCL_JSON.read_text()), "zzz": "x" * 20_000})
    assert len(imported(tmp_path, saved(tmp_path, "a.json", TAG + text))) == 4


class Uncopied(str):
    """A text that is read in place, since a copy per result takes the square of the length."""

    def __getitem__(self, key):
        raise AssertionError("a part was copied")


def test_results_of_a_cut_document_are_read_in_place():
    text = Uncopied('[ {"size": 1}, {"size": 2},\n{"size": 3}, {"si')
    assert [found["size"] for found in nccl_tests.whole_objects(text, 1)] == [1, 2, 3]


def test_ranks_are_counted_once_per_table(monkeypatch):
    counted = []
    monkeypatch.setattr(nccl_tests, "count_ranks", lambda ranks: counted.append(len(ranks)))
    lines = [f"#  Rank {rank} Group  0 Pid 1" for rank in range(50)]
    heads = "#  size  count  type  time  algbw  busbw  #wrong"
    nccl_tests.read(ForeignOutput("all_reduce_perf", "\n".join([*lines, heads, ""])))
    assert counted == [50]


def test_long_tables_are_cut_on_screen_and_in_markdown(tmp_path, capsys):
    sizes = range(1, texts.MOST_ROWS + 2)
    lines = [f"{size} {size}.50" for size in sizes]
    path = saved(tmp_path, "a.txt", osu("Latency", *lines, columns="# Size  Latency (us)"))
    assert len(imported(tmp_path, path)) == len(sizes)
    for shown in (capsys.readouterr().out, (tmp_path / "out" / "imported.md").read_text()):
        assert "send_recv" in shown
        assert shown.count("send_recv") == texts.MOST_ROWS
        assert f"first {texts.MOST_ROWS} of {len(sizes)} rows; imported.csv has all" in shown
