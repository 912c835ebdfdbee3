"""A report: its files, its options, what it says, and its figures of any suite."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from analysis.cli import main
from analysis.shared.text_table import table_of
from analysis.table.variants import Baseline

from tests.support.cli import ROOT
from tests.support.entries.report import MOST_LINES
from tests.support.records import grid, having, make_record, tabulate_records, write_all
from tests.support.reports import describe, leave_out_plots, names_in, plots, written

TEXTS = {
    "combined.csv", "full_results.md", "summary_by_config.md", "analysis.txt", "per_rank.csv", "per_rank.md",
    "speedups.csv",
}  # fmt: skip
PLOTS = {
    "allreduce_time_vs_datasize.png", "allreduce_bandwidth_vs_datasize.png", "allreduce_bandwidth_vs_ranks.png",
    "allreduce_backend_comparison_100mib.png", "allreduce_speedup.png",
}  # fmt: skip


@pytest.fixture
def two_places(tmp_path):
    """CPU results here, GPU results copied from elsewhere, and a failure."""
    write_all(tmp_path / "cpu", [*grid(), make_record(1000, 2, status="oom")])
    gpu = [
        make_record(size, ranks, 1e-5 * size, backend="nccl", device="cuda") for ranks in (2, 4) for size in (1, 100)
    ]
    return [str(tmp_path / "cpu"), str(write_all(tmp_path / "gpu", gpu))]


@pytest.fixture
def no_plots(monkeypatch):
    leave_out_plots(monkeypatch)


@pytest.fixture(scope="module")
def two_backends():
    return tabulate_records([*grid(), *grid(backend="nccl", device="cuda")])


def test_report_is_written_in_first_folder(two_places, tmp_path, capsys, monkeypatch, golden):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(two_places) == 0
    report = tmp_path / "cpu" / "report"
    assert names_in(report) == TEXTS | PLOTS
    for path in report.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 10_000
    table = pd.read_csv(report / "combined.csv")
    assert table["status"].value_counts().to_dict() == {"ok": 10, "oom": 1}
    assert table["median_s"].notna().sum() == 10
    golden(capsys.readouterr().out, {r"in /.*": "in PLACE"})


def test_options_lead_elsewhere_and_choose_baseline_and_text(two_places, tmp_path, no_plots, capsys):
    options = ["--output-dir", str(tmp_path / "r"), "--baseline", "backend=gloo,device=cpu"]
    assert main([*two_places, *options, "--show", "analysis.txt,x.md"]) == 0
    assert names_in(tmp_path / "r") == TEXTS
    assert set(pd.read_csv(tmp_path / "r" / "speedups.csv")["baseline"]) == {"gloo cpu"}
    told = capsys.readouterr()
    assert told.out.startswith((tmp_path / "r" / "analysis.txt").read_text().strip())
    assert told.err.count("x.md") == 1


def test_figures_have_the_formats_that_are_asked_for(tmp_path, capsys):
    folder = write_all(tmp_path, [make_record(), make_record(10)])
    report = written(folder, "--format", "pdf,svg")
    assert {path.suffix for path in report.glob("*_vs_*")} == {".pdf", ".svg"}
    assert "<text" in next(report.glob("*_time_vs_datasize.svg")).read_text()
    with pytest.raises(SystemExit):
        main([str(folder), "--format", "jpg"])
    assert "jpg" in capsys.readouterr().err


def test_report_ignores_own_files(two_places, no_plots, capsys):
    main(two_places)
    first = capsys.readouterr().out
    main(two_places)
    assert capsys.readouterr().out == first


def test_wrong_input_is_one_line(tmp_path, monkeypatch, capsys, golden):
    monkeypatch.chdir(tmp_path)
    assert main(["/no/such/folder"]) == 2
    assert main(["compar"]) == 2
    assert main(["."]) == 1
    write_all(tmp_path, grid())
    assert main([".", "--baseline", "world_size=7"]) == 2
    (tmp_path / "0" / "record.json").write_text('{"suite":')
    assert main([".", "--columns", "suite"]) == 0
    golden(capsys.readouterr().err, {r"JSON \(.*\)": "JSON (WHY)"})


def test_closed_pipe_still_writes_all_files(tmp_path):
    folder = write_all(tmp_path, [make_record(size, status="crash") for size in range(9)])
    command = f"{sys.executable} -m analysis {folder} | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert names_in(folder / "report") == TEXTS - {"per_rank.csv", "per_rank.md", "speedups.csv"}  # and no plot


def test_failures_are_apart_from_what_was_not_measured(golden):
    statuses = ("ok", "crash", "unavailable", "running")
    records = [make_record(2**power, status=status) for power, status in enumerate(statuses)]
    records[-1]["error"] = None  # nobody was left to store one
    golden(describe(tabulate_records(records)))


def test_sentences_match_table(golden):
    noisy = make_record(1, 8, 0.01, spread=0.9)
    golden(describe(tabulate_records([*grid(), noisy, make_record(7, 2, status="timeout")])))


def test_long_paragraph_is_cut():
    text = describe(tabulate_records([make_record(size, status="crash") for size in range(1, 51)]))
    assert text.count("it went crash") == MOST_LINES == 20
    assert "30 more" in text


def test_noise_is_told_on_its_page(tmp_path, no_plots, golden):
    few = [
        make_record(size, 2, 1e-3 * size, backend=name, samples=11) for name in ("gloo", "mpi") for size in (1.0, 4.0)
    ]
    report = written(write_all(tmp_path, [*few, make_record(1, 8, 0.01, spread=0.9)]))
    golden((report / "noise.md").read_text())


def test_summary_has_mean_and_deviation_of_extremes(tmp_path, no_plots, golden):
    records = [make_record(1, 2, 1e-3), make_record(10, 2, 1e-2)]
    slowest = tabulate_records(records).iloc[1]
    text = (written(write_all(tmp_path, records)) / "summary_by_config.md").read_text()
    assert f" {slowest['mean_s'] * 1e3:.4g} ± {slowest['std_s'] * 1e3:.4g} " in text
    golden(text)


def test_summary_of_one_sample_has_no_deviation(tmp_path, no_plots):
    record = make_record(1, 2, 30.59, samples=3)
    for name in ("samples_s", "start_offsets_s"):
        record["cases"][0][name] = [row[:1] for row in record["cases"][0][name]]
    record["cases"][0]["blocks"] = [1]
    text = (written(write_all(tmp_path, [record])) / "summary_by_config.md").read_text()
    assert "nan" not in text
    assert "e+" not in text


def test_large_numbers_are_printed_whole():
    shown = pd.DataFrame({"median [ms]": [30590.0, 7.113, np.nan, 9999.7], "flops": [1.7e12, 1.0, 2.0, 3.0]})
    rows = [row.split() for row in table_of(shown).text().splitlines()[2:]]
    assert rows == [["30590", "1.7e+12"], ["7.113", "1"], ["2"], ["10000", "3"]]


def test_plots_have_names_units_and_panels(two_backends):
    drawn = plots(two_backends, Baseline({"world_size": "2"}))
    assert set(drawn) == PLOTS
    figures = {name: draw() for name, draw in drawn.items()}
    for name, figure in figures.items():
        labels = {axis.get_xlabel() for axis in figure.axes} | {axis.get_ylabel() for axis in figure.axes} - {""}
        assert any("[" in label for label in labels) or name == "allreduce_speedup.png"
        assert all(axis.get_xlabel() for axis in figure.axes)
        assert figure.legends
    figure = figures["allreduce_time_vs_datasize.png"]
    assert [axis.get_title() for axis in figure.axes] == ["gloo on cpu", "nccl on cuda"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["2 ranks", "4 ranks"]
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def on_two_machines(**of_gpus):
    """All-reduce on a laptop and on a GPU machine, which differ in all that a record tells of machines."""
    laptop = {"host": "vm", "cpu": "a processor", "torch": "2.13.0+cpu", "kernel": "6.1"}
    box = {"host": "box", "cpu": "another", "gpus": [{"name": "a GPU"}], "torch": "2.13.0+cu130", "kernel": "5.15"}
    box |= {"cuda": "13.0", "nccl": "2.28.3", "driver": "580.1"}
    gpu = [having(record, **box) for record in grid(backend="nccl", device="cuda")]
    for record in gpu:
        record["config"] |= of_gpus
    return [*(having(record, **laptop) for record in grid()), *gpu]


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_settings_look_alike_on_two_machines():
    drawn = plots(tabulate_records(on_two_machines()))
    over_size, comparison = (
        drawn[f"allreduce_{name}.png"]() for name in ("time_vs_datasize", "backend_comparison_100mib")
    )
    assert legend_of(over_size) == ["2 ranks", "4 ranks"]
    assert [axis.get_title() for axis in over_size.axes] == ["gloo on cpu", "nccl on cuda"]
    colours = [[line.get_color() for line in axis.get_lines() if len(line.get_xdata()) == 3] for axis in over_size.axes]
    assert list(dict.fromkeys(colours[0])) == list(dict.fromkeys(colours[1]))
    assert [label.get_text() for label in comparison.axes[0].get_yticklabels()] == ["2 ranks", "4 ranks"]
    assert set(legend_of(comparison)) == {"gloo on cpu", "nccl on cuda"}


def test_setting_of_one_backend_is_in_its_name():
    figure = plots(tabulate_records(on_two_machines(dtype="bfloat16")))["allreduce_time_vs_datasize.png"]()
    assert [axis.get_title() for axis in figure.axes] == ["gloo on cpu, float32", "nccl on cuda, bfloat16"]
    assert legend_of(figure) == ["2 ranks", "4 ranks"]


def test_machines_with_one_backend_are_told_by_their_host():
    other = [having(record, host="other", torch="2.14.0+cpu", kernel="6.8") for record in grid()]
    figure = plots(tabulate_records([*on_two_machines(), *other]))["allreduce_time_vs_datasize.png"]()
    assert set(legend_of(figure)) == {f"{ranks} ranks, {host}" for ranks in (2, 4) for host in ("box", "other", "vm")}


def test_unknown_suite_gets_plots():
    other = [make_record(size, ranks, suite="broadcast", title="broadcast") for ranks in (3, 6) for size in (1.0, 10.0)]
    assert {name for name in plots(tabulate_records([*grid(), *other])) if name.startswith("broadcast")} == {
        "broadcast_time_vs_datasize.png", "broadcast_bandwidth_vs_datasize.png", "broadcast_bandwidth_vs_ranks.png",
    }  # fmt: skip


def test_backends_are_compared_at_largest_common_or_chosen_size(tmp_path, capsys):
    records = [make_record(size, 2, backend=name) for name in ("gloo", "mpi") for size in (1.0, 4.0)]
    records.append(make_record(16.0, 2))
    assert {name for name in plots(tabulate_records(records)) if "comparison" in name} == {
        "allreduce_backend_comparison_4mib.png"
    }
    folder = write_all(tmp_path, records)
    assert {path.name for path in written(folder, "--compare-at", "1").glob("*comparison*")} == {
        "allreduce_backend_comparison_4mib.png", "allreduce_backend_comparison_1mib.png",
    }  # fmt: skip
    assert capsys.readouterr().err == ""
    assert main([str(folder), "--compare-at", "100"]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_settings_are_no_backends():
    other = [record | {"config": record["config"] | {"dtype": "bfloat16"}} for record in grid()]
    assert not [name for name in plots(tabulate_records([*grid(), *other])) if "comparison" in name]
