"""Comparisons with real runs, on the command line."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import PATIENCE_S, Cli, ends, wait_until

SLEEPER = """
import time
from dataclasses import dataclass
from benchkit.api.case import Case
from benchkit.api.keys import key
from benchkit.api.registry import suite
from benchkit.api.keys import RunConfig

@dataclass
class SleeperConfig(RunConfig):
    pause_ms: float = key("what a call takes", above=0)

@suite
def broken(config: SleeperConfig, rank: object) -> list[Case]:
    "A pause."
    return [Case(step=lambda: time.sleep(config.pause_ms / 1e3))]
"""
COMPARE = ("compare", "--config-dir", "conf", "+suite=broken", "world_size=1", "--pairs", "6", "--dir", "outputs/c")


@pytest.fixture
def sleeper(cli: Cli) -> Cli:
    cli.with_suite(SLEEPER, "pause_ms: 2\n")
    return cli


def start(cli: Cli, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    return cli.start(*arguments, module="benchkit.__main__", **variables)


def result_of(cli: Cli) -> dict:
    return json.loads((cli.folder / "outputs" / "c" / "compare_result.json").read_text())


def counted(cli: Cli) -> list[Path]:
    return sorted((cli.folder / "outputs" / "c" / "runs").glob("[0-9]*/run.json"))


ALL = "+suite=allreduce"
WRONG = [
    f"plain {ALL}", f"plain A {ALL}", f"plain env: {ALL}", f"plain env:A {ALL}", f"plain env:1=2 {ALL}",
    f"plain env:OMP_NUM_THREADS=2 {ALL}",
    f"plain set:x {ALL}", f"plain set:=1 {ALL}", f"plain venv:/nope {ALL}", f"plain tree:/nope {ALL}",
    f"plain git:--help {ALL}", "plain plain -m A", "plain plain seed=1", "plain set:seed=1",
    "plain plain hydra.sweep.dir=x", "plain plain launcher=slurm", "plain plain --floor nope", "--resume x plain",
    "--resume x --pairs 9", "--resume x", "plain plain --pairs 5", "plain plain --fail-on x%",
    f"plain set:data_sise=1 {ALL}", f"plain plain {ALL} --dir .",
]  # fmt: skip


def test_wrong_line_is_refused_in_one_line(told, golden, tmp_path):
    (tmp_path / "taken").touch()
    refused = [told("compare", *words.split()) for words in WRONG]
    assert [(code, out, err.count("\n")) for code, out, err in refused] == [(2, "", 1)] * len(WRONG)
    lines = [f"{words}\n    {err}" for words, (_, _, err) in zip(WRONG, refused, strict=True)]
    golden("".join(lines), {r" \([^()]*(No such file|Errno)[^()]*\)": " (WHY)", "benchkit: ": ""})
    assert told("compare", *f"plain plain {ALL}".split(), RANK="1", WORLD_SIZE="2")[0] == 2  # a launcher in doubt
    assert told("compare", "plain", "plain")[0] == 2
    assert told("compare", *f"plain plain {ALL} --statistic max".split())[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_help_names_every_flag_and_kind_of_arm(told, golden):
    code, out, _ = told("compare", "--help")
    assert code == 0
    golden(out)


@pytest.mark.slow
def test_killed_comparison_resumes_and_finds_slower_arm(sleeper):
    process = start(sleeper, *COMPARE, "plain", "set:pause_ms=6")
    assert wait_until(lambda: len(counted(sleeper)) == 3 or process.poll() is not None)
    process.kill()  # the second run of a pair is being made, or about to be
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not sleeper.processes())
    before = {path: path.stat().st_mtime_ns for path in counted(sleeper)}
    (sleeper.folder / "elsewhere").mkdir()
    sleeper.folder = sleeper.folder / "elsewhere"  # the folder of YAML is still that of where it was typed
    again = start(sleeper, "compare", "--resume", "../outputs/c")
    sleeper.folder = sleeper.folder.parent
    [(code, out, err)] = ends([again])
    assert code == 1, out + err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "[round 5, A/A pair] plain" in out
    assert " SLOWER" in out
    assert len(counted(sleeper)) == 14
    [point] = result_of(sleeper)["points"]
    assert (point["word"], point["arm"]) == ("SLOWER", "set:pause_ms=6")
    assert len(point["baseline_s"]) == len(point["candidate_s"]) == 6
    folder = sleeper.folder / "outputs" / "c"
    assert {"compare.md", "junit.xml", "compare.json"} <= {path.name for path in folder.iterdir()}
    plan = json.loads((folder / "compare.json").read_text())
    for number, played in enumerate(plan["order"], 1):
        records = [
            json.loads((folder / "runs" / f"{number:03d}-{role}" / "0" / "record.json").read_text())
            for role in played["roles"]
        ]
        arms = ["plain"] * 2 if played["is_control"] else [plan["arms"][role]["text"] for role in played["roles"]]
        assert [record["comparison"] for record in records] == [
            {"id": plan["id"], "arm": arm, "pair": number, "position": position} for position, arm in enumerate(arms)
        ]
        assert {record["config"]["seed"] for record in records} == {played["seed"]}
        assert records[0]["started_at"] < records[1]["started_at"]


@pytest.mark.slow
def test_stopped_comparison_says_how_to_resume(sleeper):
    process = start(sleeper, *COMPARE, "plain", "plain")
    assert wait_until(lambda: len(counted(sleeper)) == 1 or process.poll() is not None)
    process.terminate()
    [(code, _, err)] = ends([process])
    assert code == 128 + 15
    folder = sleeper.folder / "outputs" / "c"
    assert err.endswith(f" python -m benchkit compare --resume {folder}\n")
    assert wait_until(lambda: not sleeper.processes())


@pytest.mark.slow
def test_tree_without_suite_is_refused(sleeper):
    (sleeper.folder / "empty").mkdir()
    (sleeper.folder / "empty" / "benchkit.py").write_text("raise SystemExit('not this one')")
    [(code, out, err)] = ends([start(sleeper, *COMPARE, "tree:empty", "tree:empty")])
    assert (code, out) == (2, "")
    assert (err.startswith("benchkit: tree:empty: "), err.count("\n")) == (True, 1)


@pytest.mark.slow
def test_agents_compare_together(sleeper):
    launcher = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": sleeper.mark}
    two = [word.replace("world_size=1", "world_size=2") for word in COMPARE]
    agents = [
        start(sleeper, *two, "plain", "set:pause_ms=6", **launcher, OMPI_COMM_WORLD_RANK=str(index),
              SLURMD_NODENAME=f"n{index}")
        for index in range(2)
    ]  # fmt: skip
    (code, out, err), (other_code, other_out, other_err) = ends(agents)
    assert (code, err) == (1, ""), out
    assert (other_code, other_out, other_err) == (1, "", "")
    assert [point["word"] for point in result_of(sleeper)["points"]] == ["SLOWER"]
    record = json.loads((counted(sleeper)[0].parent / "0" / "record.json").read_text())
    assert [agent["host"] for agent in record["agents"]] == ["n0", "n1"]
