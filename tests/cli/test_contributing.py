"""The recipe for a suite in CONTRIBUTING.md, followed to the letter: one Python file, one YAML, and nothing else."""

import re
import textwrap

import pytest

from tests.support.cli import ROOT, Cli


def snippet(language: str) -> str:
    """The first block of a language in CONTRIBUTING.md."""
    found = re.search(rf"   ```{language}\n(.*?)   ```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert found
    return textwrap.dedent(found[1])


def follow(cli: Cli, python: str) -> None:
    """Lays the recipe's two files down outside the checkout."""
    (cli.folder / "broadcast.py").write_text(python)
    (cli.folder / "conf" / "suite").mkdir(parents=True)
    (cli.folder / "conf" / "suite" / "broadcast.yaml").write_text(snippet("yaml"))
    cli.environment["BENCHKIT_SUITES"] = "broadcast"
    cli.config = cli.folder / "conf"


def test_the_suite_of_the_recipe_runs_is_verified_and_has_its_plots(cli: Cli):
    follow(cli, snippet("python"))
    done = cli("+suite=broadcast", "measure=quick", "-m", "data_size=0.001,0.01", "world_size=2,3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["status"] for record in cli.records()] == ["ok"] * 4
    assert cli("outputs/latest", module="analysis").returncode == 0
    plots = {path.name for path in (cli.folder / "outputs" / "latest" / "analysis").glob("*.png")}
    assert {"broadcast_time_vs_datasize.png", "broadcast_bandwidth_vs_datasize.png", "broadcast_speedup.png"} <= plots


@pytest.mark.slow
def test_what_the_recipe_verifies_would_be_seen_wrong(cli: Cli):
    follow(cli, snippet("python").replace("dist.broadcast(buffer, src=0)", "dist.barrier()"))
    assert cli("+suite=broadcast", "measure=quick").returncode == 1
    assert cli.records()[0]["status"] == "invalid"
    assert cli.records()[0]["error"]["rank"] == 1


def test_foreign_suite_has_its_own_table_and_plot(cli: Cli):
    cli.environment["BENCHKIT_SUITES"] = "tests.support.foreign.suite"
    done = cli("+suite=vector_sum", "world_size=1")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert [case["labels"] for case in record["cases"]] == [{"length": 1000}, {"length": 100000}]
    assert cli("outputs/latest", module="analysis").returncode == 0
    written = cli.folder / "outputs" / "latest" / "analysis"
    assert (written / "vector_sum.png").stat().st_size > 10_000
    table = (written / "vector_sum.md").read_text()
    assert table.count("\n") == 4
    assert "100000" in table
