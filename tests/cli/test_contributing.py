"""The recipes of CONTRIBUTING.md, followed to the letter."""

import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.support.cli import ROOT, Cli
from tests.support.entries.report import draw
from tests.support.recipes import RECIPES, snippet
from tests.support.records import make_record, tabulate_records, write_all

pytestmark = pytest.mark.slow


def follow(cli: Cli, python: str) -> None:
    """Lays the recipe's two files down outside the checkout."""
    (cli.folder / "broadcast.py").write_text(python)
    (cli.folder / "conf" / "suite").mkdir(parents=True)
    (cli.folder / "conf" / "suite" / "broadcast.yaml").write_text(snippet("yaml"))
    cli.environment["BENCHKIT_SUITES"] = "broadcast"
    cli.config = cli.folder / "conf"


def test_recipe_suite_runs_and_is_plotted(cli: Cli):
    follow(cli, snippet("python"))
    done = cli("+suite=broadcast", "measure=quick", "-m", "data_size=0.001,0.01", "world_size=2,3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["status"] for record in cli.records()] == ["ok"] * 4
    assert cli("outputs/latest", module="analysis").returncode == 0
    plots = {path.name for path in (cli.folder / "outputs" / "latest" / "report").glob("*.png")}
    assert {
        "broadcast_time_vs_datasize.png",
        "broadcast_bandwidth_vs_datasize.png",
        "broadcast_bandwidth_vs_ranks.png",
    } <= plots


def test_recipe_suite_detects_wrong_result(cli: Cli):
    follow(cli, snippet("python").replace("dist.broadcast(buffer, src=0)", "dist.barrier()"))
    assert cli("+suite=broadcast", "measure=quick").returncode == 1
    assert cli.records()[0]["status"] == "invalid"
    assert cli.records()[0]["error"]["rank"] == 1


def test_foreign_suite_has_table_plot_resolver_title_and_key(cli: Cli):
    cli.environment["BENCHKIT_SUITES"] = "tests.support.foreign.suite"
    done = cli("+suite=vector_sum", "-m", "remark=first,second", "world_size=1,2")
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert [record["config"]["lengths"] for record in records] == [[1000, 100000]] * 4
    assert [case["labels"] for case in records[0]["cases"]] == [{"length": 1000}, {"length": 100000}]
    ids = [record["point_id"] for record in records]
    assert len(set(ids)) == 2
    assert ids[:2] == ids[2:]
    assert "[1/4] vector sums gloo cpu x1  remark=first" in done.stdout
    assert {record["title"] for record in records} == {"vector sums"}
    assert cli("outputs/latest", module="analysis").returncode == 0
    written = cli.folder / "outputs" / "latest" / "report"
    assert (written / "vector_sum_speedup.png").stat().st_size > 10_000
    assert "2 ranks" in done.stdout.rpartition("[4/4]")[2]
    assert (written / "vector_sum.png").stat().st_size > 10_000
    assert "100000" in (written / "vector_sum.md").read_text()


def test_recipe_table_and_plot_are_made():
    recipe: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", RECIPES, re.DOTALL | re.MULTILINE):
        exec(code, recipe)
    rows = tabulate_records([make_record(size, suite="broadcast") for size in (1, 10)])
    [(name, table)] = recipe["write"](rows).items()
    assert (name, table.count("broadcast")) == ("broadcast.md", 2)
    [(name, chart)] = recipe["show"](rows, None).items()
    assert (name, list(chart.points["x"])) == ("broadcast", [1, 10])
    [axes] = draw.figure_of(chart).axes
    assert list(axes.lines[0].get_xdata()) == [1, 10]
    others = tabulate_records([make_record()])
    assert [recipe["write"](others), recipe["show"](others, None)] == [{}, {}]


def test_recipe_hardware_is_one_file(cli: Cli):
    (cli.folder / "conf" / "hardware").mkdir(parents=True)
    (cli.folder / "conf" / "hardware" / "b200.yaml").write_text(snippet("yaml", indent=""))
    cli.config = cli.folder / "conf"
    done = cli("+suite=allreduce", "hardware=b200", "--cfg", "job", "--package", "hardware")
    assert done.returncode == 0, done.stdout + done.stderr
    found = yaml.safe_load(done.stdout)
    assert (found["device"], found["peak_tflop_per_s"]["B200"]["bfloat16"]) == ("cuda", 2250)
    assert "H200" in found["peak_tflop_per_s"]  # the data sheets of cuda stay


def test_recipe_launcher_is_one_row(tmp_path):
    """A copy of the package has the row; its agents join where they would have refused to measure alone."""
    [row] = re.findall(r"^```\n(    \"ours\".*?)```", RECIPES, re.DOTALL | re.MULTILINE)
    shutil.copytree(ROOT / "launch", tmp_path / "launch")
    launchers = tmp_path / "launch" / "launcher_env.py"
    launchers.write_text(launchers.read_text().replace("LAUNCHERS = {\n", f"LAUNCHERS = {{\n{row}", 1))
    program = "from launch.launcher_env import require_launcher; print(require_launcher())"
    given = {"OURS_RANK": "1", "OURS_SIZE": "4", "OURS_JOB": "7", "OURS_LOCAL_SIZE": "2", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "LaunchContext(launcher='ours', index=1, num_processes=4, job='7', is_one_host=False)"


def test_recipe_column_is_one_row(tmp_path):
    """A copy of the package has the row; its table has the column, with type and values."""
    [row] = re.findall(r"^```\n(.*twice_s.*\n)```", RECIPES, re.MULTILINE)
    shutil.copytree(ROOT / "analysis", tmp_path / "analysis")
    columns = tmp_path / "analysis" / "records" / "columns.py"
    columns.write_text(columns.read_text().replace("\nTIMES = (\n", f"\nTIMES = (\n    {row}", 1))
    write_all(tmp_path / "sweep", [make_record()])
    program = "import analysis; table = analysis.load('sweep'); print(*table['twice_s'] / table['median_s'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0"]
