import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from analysis.__main__ import main
from analysis.baseline import Baseline
from analysis.report import noise, sentences, size_plots
from analysis.report.discover import draw_all
from analysis.report.report import summary_by_config, write_report
from analysis.report.size_charts import show as charts_of
from analysis.report.size_series import comparison_size

from tests.support.cli import ROOT
from tests.support.records import grid, make_record, tabulate_records, write_all

FILES = {
    "combined.csv", "full_results.md", "summary_by_config.md", "analysis.txt", "allreduce_time_vs_datasize.png",
    "allreduce_bandwidth_vs_datasize.png", "allreduce_backend_comparison_100mib.png", "allreduce_speedup.png",
    "per_rank.csv", "per_rank.md", "speedups.csv", "allreduce_share_of_best_vs_datasize.png",
}  # fmt: skip


@pytest.fixture
def two_places(tmp_path):
    """CPU results here, GPU results copied from elsewhere, and a failure."""
    write_all(tmp_path / "cpu", [*grid(), make_record(1000, 2, status="oom")])
    gpu = [
        make_record(size, ranks, 1e-5 * size, backend="nccl", device="cuda") for ranks in (2, 4) for size in (1, 100)
    ]
    return [str(tmp_path / "cpu"), str(write_all(tmp_path / "gpu", gpu))]


def test_report_is_written_in_first_folder(two_places, tmp_path, capsys):
    assert main(two_places) == 0
    assert {path.name for path in (tmp_path / "cpu" / "analysis").iterdir()} == FILES
    for path in (tmp_path / "cpu" / "analysis").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 10_000
    out = capsys.readouterr().out
    assert "nccl" in out
    assert "oom" in out


def test_report_uses_output_dir_and_baseline(two_places, tmp_path):
    assert main([*two_places, "--output-dir", str(tmp_path / "report"), "--baseline", "backend=gloo,device=cpu"]) == 0
    assert {path.name for path in (tmp_path / "report").iterdir()} == FILES


def test_csv_holds_every_row(two_places, tmp_path):
    main(two_places)
    table = pd.read_csv(tmp_path / "cpu" / "analysis" / "combined.csv")
    assert len(table) == 11
    assert table["status"].value_counts().to_dict() == {"ok": 10, "oom": 1}
    assert table["median_s"].notna().sum() == 10


def test_failures_are_apart_from_what_was_not_measured():
    statuses = ("ok", "crash", "unavailable", "running")
    records = [make_record(2**power, status=status) for power, status in enumerate(statuses)]
    records[-1]["error"] = None  # nobody was left to store one
    text = sentences.describe(tabulate_records(records))
    paragraphs = {part.split("\n")[0]: part for part in text.split("\n\n")}
    assert "data_size=2" in paragraphs["Failures"]
    assert "crash" in paragraphs["Failures"]
    assert paragraphs["Failures"].count("\n") == 1
    left = paragraphs["Not measured"]
    assert "unavailable" in left
    assert "running: measured at this moment, or killed" in left
    assert left.count("\n") == 2


def test_failures_alone_give_no_plot(tmp_path):
    write_all(tmp_path, [make_record(status="crash")])
    assert main([str(tmp_path)]) == 0
    assert not list((tmp_path / "analysis").glob("*.png"))
    assert "crash on rank 1: it went crash" in (tmp_path / "analysis" / "analysis.txt").read_text()


def test_chosen_text_is_printed_instead_of_table(two_places, capsys):
    assert main([str(two_places[0]), "--show", "analysis.txt"]) == 0
    out = capsys.readouterr().out
    assert out.startswith((Path(two_places[0]) / "analysis" / "analysis.txt").read_text().strip())
    assert "data_size" not in out.splitlines()[0]
    assert main([str(two_places[0]), "--show", "analysis.md"]) == 0
    assert "--show analysis.md: no such text of this report; it has full_results.md" in capsys.readouterr().err


def test_figures_have_the_formats_that_are_asked_for(two_places, tmp_path, capsys):
    assert main([*two_places, "--output-dir", str(tmp_path / "r"), "--format", "pdf,svg"]) == 0
    kinds = {path.suffix for path in (tmp_path / "r").iterdir()}
    assert {".pdf", ".svg"} <= kinds
    assert ".png" not in kinds
    drawn = next((tmp_path / "r").glob("*_time_vs_datasize.svg")).read_text()
    assert "on AMD EPYC" in drawn or "on " in drawn  # the hardware, as text
    assert "<text" in drawn
    with pytest.raises(SystemExit):
        main([*two_places, "--format", "jpg"])
    assert "argument --format: jpg: allowed are png, pdf, svg" in capsys.readouterr().err


@pytest.mark.slow
def test_report_ignores_own_files(two_places, capsys):
    main(two_places)
    first = capsys.readouterr().out
    main(two_places)
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/no/such/folder"], 2, "/no/such/folder: no such folder"),
        (["."], 1, "no record.json at or below ."),
    ],
)
def test_missing_input_is_refused(tmp_path, monkeypatch, capsys, arguments, code, said):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    assert said in capsys.readouterr().err


def test_unusable_baseline_is_refused(two_places, capsys):
    assert main([*two_places, "--baseline", "world_size=7"]) == 2
    assert capsys.readouterr().err == "analysis: --baseline world_size=7: no measured row has it\n"


def test_broken_files_are_named(two_places, tmp_path, capsys):
    (tmp_path / "cpu" / "0" / "record.json").write_text("{")
    assert main(two_places) == 0
    assert "passed over" in capsys.readouterr().err


def test_sentences_match_table():
    noisy = make_record(1, 8, 0.01, spread=0.9)
    table = tabulate_records([*grid(), noisy, make_record(7, 2, status="timeout")])
    text = sentences.describe(table)
    assert "8 rows (7 ok, 1 timeout) from here" in text
    assert "fastest" not in text  # the smallest message is no alternative to the largest
    assert "highest bus bandwidth is 1.05 GB/s" in text
    assert "allreduce (world_size=4): 1 MiB to 100 MiB (100 times) takes 100 times as long (2 ms to 200 ms)." in text
    assert "allreduce (data_size=10 MiB): 2 ranks to 4 ranks (2 times) takes 2 times as long" in text
    assert "- Of 7 medians 1 known to more than ±5 % only (the widest to ±14 %): noise.md names them." in text
    details = noise.as_markdown(table[table["status"] == "ok"])
    assert "8 ranks had 0.5 cores each in 1 points" in details
    assert "allreduce (world_size=8, data_size=1 MiB): the median is known to [" in details
    assert "timeout on rank 1: it went timeout" in text


def test_fastest_backend_is_per_size_and_ranks():
    table = tabulate_records([*grid(), *grid(backend="mpi"), make_record(1, 4, 1.99e-3, backend="nccl")])
    told = [line for line in sentences.describe(table).splitlines() if "fastest" in line]
    assert len(told) == 6
    assert (
        "- allreduce (world_size=4, data_size=1 MiB): the fastest of 3 is backend=nccl with 1.99 ms, "
        "1.01 times as fast as backend=gloo, which their intervals do not tell apart."
    ) in told


def test_long_paragraph_is_cut():
    text = sentences.describe(tabulate_records([make_record(size, status="crash") for size in range(1, 51)]))
    assert text.count("it went crash") == sentences.MOST_LINES
    assert "and 30 more like these" in text


def test_plots_have_axis_names_and_units():
    table = tabulate_records([*grid(), *grid(backend="nccl", device="cuda")])
    figures = dict(draw_all(table, Baseline({"world_size": "2"})))
    assert set(figures) == {name for name in FILES if name.endswith(".png")}
    for name, figure in figures.items():
        labels = {axis.get_xlabel() for axis in figure.axes} | {axis.get_ylabel() for axis in figure.axes} - {""}
        assert any("[" in label for label in labels) or name == "allreduce_speedup.png"
        assert all(axis.get_xlabel() for axis in figure.axes)
        assert figure.axes[0].get_legend() is not None


def test_panels_split_by_backend_and_device():
    table = tabulate_records([*grid(), *grid(backend="nccl", device="cuda")])
    figure = dict(draw_all(table, Baseline({"world_size": "2"})))["allreduce_time_vs_datasize.png"]
    assert [axis.get_title() for axis in figure.axes] == ["gloo on cpu", "nccl on cuda"]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["2 ranks", "4 ranks"]
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def test_unknown_suite_gets_plots():
    other = [make_record(size, ranks, suite="broadcast", title="broadcast") for ranks in (3, 6) for size in (1.0, 10.0)]
    figures = dict(draw_all(tabulate_records([*grid(), *other]), None))
    assert {name for name in figures if name.startswith("broadcast")} == {
        "broadcast_time_vs_datasize.png", "broadcast_bandwidth_vs_datasize.png", "broadcast_speedup.png",
        "broadcast_share_of_best_vs_datasize.png",
    }  # fmt: skip


def test_share_is_of_best_size_of_same_series():
    """2 ranks at 1, 2 and 1 GB/s; 4 ranks were measured at one size, of which no share is drawn."""
    records = [make_record(size, 2, size * 2**20 / rate / 1e9) for size, rate in ((1, 1), (10, 2), (100, 1))]
    table = tabulate_records([*records, make_record(10, 4)])
    figure = dict(draw_all(table, None))["allreduce_share_of_best_vs_datasize.png"]
    [axis] = figure.axes
    [line] = axis.containers
    assert line[0].get_ydata() == pytest.approx([50, 100, 50], rel=0.02)
    assert line.get_label().startswith("2 ranks\n100 % = ")
    assert line.get_label().endswith(" GB/s at 10 MiB")
    chart = charts_of(table, None)["allreduce_share_of_best_vs_datasize"]
    assert list(chart.points["value"]) == pytest.approx(list(line[0].get_ydata()))


def test_one_size_has_no_share():
    drawn = dict(draw_all(tabulate_records([make_record(10, 2), make_record(10, 4)]), None))
    assert "allreduce_bandwidth_vs_datasize.png" in drawn
    assert "allreduce_share_of_best_vs_datasize.png" not in drawn


def test_closed_pipe_still_writes_all_files(two_places, tmp_path):
    command = f"{sys.executable} -m analysis {' '.join(two_places)} | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert {path.name for path in (tmp_path / "cpu" / "analysis").iterdir()} == FILES


def test_comparison_uses_largest_common_size():
    rows = pd.DataFrame({"data_size": [1, 10, 100, 1, 10], "place": ["a", "a", "a", "b", "b"]})
    assert comparison_size(rows) == 10


def test_summary_has_mean_and_deviation_of_extremes():
    text = summary_by_config(tabulate_records([make_record(1, 2, 1e-3), make_record(10, 2, 1e-2)]))
    slowest = tabulate_records([make_record(10, 2, 1e-2)]).iloc[0]
    assert "fastest: mean ± std [ms]" in text
    assert f" {slowest['mean_s'] * 1e3:.4g} ± {slowest['std_s'] * 1e3:.4g} " in text


def test_backends_are_compared_at_chosen_size(tmp_path, capsys):
    records = [make_record(size, 2, backend=name) for name in ("gloo", "mpi") for size in (1.0, 4.0)]
    table = tabulate_records(records)
    names = {path.name for path in write_report(table, tmp_path, compare_at=1)}
    assert {"allreduce_backend_comparison_1mib.png", "allreduce_backend_comparison_4mib.png"} <= names
    list(write_report(table, tmp_path / "none", compare_at=100))
    assert capsys.readouterr().err == "analysis: --compare-at 100: no such data_size was measured\n"


def test_report_works_without_intervals(tmp_path, capsys):
    few = [
        make_record(size, 2, 1e-3 * size, backend=name, samples=11) for name in ("gloo", "mpi") for size in (1.0, 4.0)
    ]
    assert main([str(write_all(tmp_path, few))]) == 0
    text = (tmp_path / "analysis" / "analysis.txt").read_text()
    assert "without an interval of both, that may be chance" in text
    details = (tmp_path / "analysis" / "noise.md").read_text()
    assert "no interval, too few independent samples; raise measure.max_iterations." in details
    assert "too few" in capsys.readouterr().out


def test_backends_are_compared_where_there_are_several():
    name = "allreduce_backend_comparison_100mib.png"
    of_another_dtype = [record | {"config": record["config"] | {"dtype": "bfloat16"}} for record in grid()]
    assert name not in size_plots.draw(tabulate_records([*grid(), *of_another_dtype]), None)
    assert name in size_plots.draw(tabulate_records([*grid(), *grid(backend="ucc")]), None)
