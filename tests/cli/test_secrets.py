"""A token is typed wherever text is accepted; then everything that was written is searched for it."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.cli import Cli, ends

TOKEN = "wPz8Q3kV"
SUITE = """
from dataclasses import dataclass
from benchkit.api.case import Case, Rank
from benchkit.api.keys import RunConfig, key
from benchkit.api.registry import suite

@dataclass
class BrokenConfig(RunConfig):
    note: str | None = key("any text")
    key: int = key("named as secrets are, and none", at_least=1)

@suite
def broken(config: BrokenConfig, rank: Rank) -> list[Case]:
    "Adds."
    return [Case(step=lambda: sum(range(1000)))]
"""
KEYS = "key: 1\nnote: see ${oc.env:NOTE}\n"
ENVIRONMENT = {
    name: f"{TOKEN}{name}" for name in (
        "NCCL_AUTH", "NCCL_PASSWD", "NCCL_NET_PWD", "NCCL_PASS", "NCCL_PASSWORD", "NCCL_SECRET", "NCCL_TOKEN",
        "NCCL_API_KEY", "NCCL_APIKEY", "UCX_TLS_PSK", "UCX_COOKIE", "UCX_SESSION", "GLOO_CREDENTIAL", "TORCH_BEARER",
        "MKL_LICENSE", "HOOK", "NOTE",
    )
}  # fmt: skip
IN_YAML = """# @package _global_
hydra:
  sweeper:
    params:
      ++backend.env.FROM_YAML: ${oc.env:HOOK}
      on_end: "'echo ${oc.env:HOOK} > ended; false'"
  job:
    env_set: {A_TOKEN: TOKEN}
backend:
  env: {B_PSK: TOKEN, C: "${ oc.env:HOOK}", D: "${note}"}
""".replace("TOKEN}", f"{TOKEN}}}").replace("TOKEN,", f"{TOKEN},")
MEASURED = ("+suite=broken", "world_size=1", "measure.max_iterations=20")
TYPED = f"+backend.env.MY_API_TOKEN='{TOKEN} b'"
LINE = (*MEASURED, TYPED, "hydra.sweep.dir=outputs/s")
AT_END = "on_end='echo {} > ended; curl -H \"Authorization: Bearer {}\" --user me:{} https://{}@127.0.0.1:1/'"


@pytest.fixture
def cli_with_keys(cli: Cli) -> Cli:
    cli.with_suite(SUITE, KEYS)
    (cli.config / "sweep").mkdir()
    (cli.config / "sweep" / "hidden.yaml").write_text(IN_YAML)
    (cli.config / "study").mkdir()
    words = " ".join(MEASURED)
    (cli.config / "study" / "both.yaml").write_text(
        f"parameters: {{password: ''}}\nsteps:\n  one: benchkit {words} +backend.env.P_PASS={{password}}\n"
        "  page: analysis {out}/one --html\n"
    )
    cli.environment |= ENVIRONMENT
    return cli


def leaks(folder: Path) -> list[str]:
    """Files that hold the token, or have it in their names."""
    assert any(folder.rglob("record.json"))
    every = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in every if TOKEN in str(path) or TOKEN.encode() in path.read_bytes())


def record(cli: Cli, place: str = "s/0") -> dict:
    return json.loads((cli.folder / "outputs" / place / "record.json").read_text())


def test_sweep_writes_no_secret(cli_with_keys):
    cli = cli_with_keys
    named = "hydra.sweep.subdir=p_${hydra.job.override_dirname}"
    typed = AT_END.format("x", *[TOKEN] * 3)
    done = cli(*LINE, typed, named, "report=html", "key=1,2", "-m")
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    pages = cli(str(cli.folder / "outputs" / "s"), "--html", module="analysis")
    assert pages.returncode == 0, pages.stderr
    assert leaks(cli.folder / "outputs") == []
    found = [json.loads(path.read_text()) for path in sorted((cli.folder / "outputs/s").rglob("record.json"))]
    assert [each["config"]["key"] for each in found] == [1, 2]
    assert [each["status"] for each in found] == ["ok", "ok"]
    assert (cli.folder / "ended").read_text() == "x\n"


def test_record_has_what_was_typed_in_place_of_the_environment(cli_with_keys):
    cli = cli_with_keys
    done = cli(
        *LINE[:-1], "sweep=hidden", "hydra.sweep.dir=outputs/s", "key='${oc.decode:${oc.env:NUMBER}}'", NUMBER="3"
    )
    assert done.returncode == 0, done.stderr
    assert leaks(cli.folder / "outputs") == []
    assert (cli.folder / "ended").read_text() == f"{ENVIRONMENT['HOOK']}\n"  # the command itself had the value
    config = record(cli)["config"]
    assert config["key"] == 3
    assert config["note"] == "see ${oc.env:NOTE}"
    assert config["on_end"] == "echo ${oc.env:HOOK} > ended; false"
    assert config["backend"]["env"] == {
        "B_PSK": "…", "C": "${ oc.env:HOOK}", "D": "${note}", "FROM_YAML": "${oc.env:HOOK}", "MY_API_TOKEN": "…",
    }  # fmt: skip


@pytest.mark.parametrize("values", ["choice(a,b)", "a,b", "'a','b'"])
def test_secret_has_one_value_in_a_sweep(cli_with_keys, values):
    """Else its records would pass for runs of one point."""
    refused = cli_with_keys(*LINE, f"+backend.env.B_TOKEN={values}", "-m", "--dry-run")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "B_TOKEN" in refused.stderr


@pytest.mark.slow
def test_submitted_jobs_write_no_secret_elsewhere(cli_with_keys):
    cli = cli_with_keys
    done = cli(*LINE, "launcher=submitit_local", "on_end='echo --token ${oc.env:HOOK} > ended'")
    assert done.returncode == 0, done.stderr
    found = leaks(cli.folder / "outputs")
    assert found
    assert all("/.submitit/" in path for path in found)
    assert TOKEN in (cli.folder / "ended").read_text()


@pytest.mark.slow
def test_agents_compare_secrets_and_show_none(cli_with_keys):
    cli = cli_with_keys
    words = [*MEASURED[:1], "world_size=2", MEASURED[-1], "hydra.sweep.dir=outputs/s"]
    variables = {
        "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": cli.mark, "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    }  # fmt: skip
    for other, code in (("2", 2), ("1", 0)):
        agents = [
            cli.start(*words, f"+backend.env.A_TOKEN={TOKEN}{number}", OMPI_COMM_WORLD_RANK=rank, **variables)
            for rank, number in (("0", "1"), ("1", other))
        ]
        told = ends(agents)
        assert [each[0] for each in told] == [code, code], told
        assert not [each for each in told if TOKEN in each[1] + each[2]]
    assert leaks(cli.folder / "outputs") == []


@pytest.mark.slow
def test_resumed_sweep_asks_for_what_it_does_not_have(cli_with_keys):
    cli = cli_with_keys
    cli(*LINE, "key=1,2", "-m")
    first = record(cli)
    (cli.folder / "outputs/s/1/record.json").unlink()
    refused = cli("--resume", "outputs/s")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "MY_API_TOKEN=…" in refused.stderr
    done = cli("--resume", "outputs/s", TYPED)
    assert done.returncode == 0, done.stderr
    assert record(cli)["started_at"] == first["started_at"]
    assert record(cli, "s/1")["status"] == "ok"
    (cli.folder / "outputs/s/sweep.json").unlink()  # its points are known by their records
    (cli.folder / "outputs/s/1/record.json").unlink()
    assert cli("--resume", "outputs/s", *LINE, "key=1,2", "-m").returncode == 0
    assert sorted(path.parent.name for path in (cli.folder / "outputs/s").glob("*/record.json")) == ["0", "1"]
    assert leaks(cli.folder / "outputs") == []


@pytest.mark.slow
def test_comparison_writes_no_secret(cli_with_keys):
    cli = cli_with_keys
    arms = f"env:NCCL_TOKEN={TOKEN},NCCL_X=1", f"set:+backend.env.O_PSK={TOKEN},key=2"
    words = [*MEASURED, TYPED, "--pairs", "6", "--dir", "outputs/c"]
    done = cli("compare", "--config-dir", "conf", *arms, *words, module="benchkit.__main__")
    assert done.returncode in (0, 1, 3), done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert leaks(cli.folder / "outputs") == []
    (cli.folder / "outputs/c/runs/001-0/run.json").unlink()
    refused = cli("compare", "--resume", "outputs/c", arms[0], module="benchkit.__main__")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    done = cli("compare", "--resume", "outputs/c", *arms, TYPED, module="benchkit.__main__")
    assert done.returncode in (0, 1, 3), done.stderr
    assert record(cli, "c/runs/001-0/0")["config"]["backend"]["env"] == {"MY_API_TOKEN": "…"}
    assert leaks(cli.folder / "outputs") == []


@pytest.mark.slow
def test_study_writes_no_secret(cli_with_keys):
    cli = cli_with_keys
    done = cli("study=both", f"password={TOKEN}", TYPED)
    assert done.returncode == 0, done.stderr
    assert leaks(cli.folder / "outputs") == []
    assert TOKEN not in done.stdout + done.stderr
    [folder] = (path.parent for path in (cli.folder / "outputs").glob("*_both/study.json"))
    refused = cli("--resume", str(folder))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert cli("--resume", str(folder), f"password={TOKEN}", TYPED).returncode == 0


SWEPT = """# @package _global_
hydra:
  sweeper:
    params:
      +backend.env.NCCL_ALGO: ${oc.env:ALGOS}
      on_end: ${oc.env:COMMAND}
      measure.max_iterations: ${oc.env:NUMBER}
"""


@pytest.mark.parametrize(("algorithms", "num_points"), [("Ring,Tree", 2), ("Ring", 1), ("'Ring,Tree'", 1)])
def test_values_of_a_sweep_may_come_from_the_environment(cli_with_keys, algorithms, num_points):
    cli = cli_with_keys
    (cli.config / "sweep" / "swept.yaml").write_text(SWEPT)
    named = "hydra.sweep.subdir='${hydra.job.num}_${hydra.job.override_dirname}'"
    variables = {"ALGOS": algorithms, "COMMAND": f"'echo {TOKEN}, b > ended'", "NUMBER": "20"}
    done = cli(*MEASURED[:2], "sweep=swept", named, "hydra.sweep.dir=outputs/s", **variables)
    assert done.returncode == 0, done.stderr
    found = [json.loads(path.read_text()) for path in sorted((cli.folder / "outputs/s").rglob("record.json"))]
    written = algorithms.split(",") if num_points > 1 else ["${oc.env:ALGOS}"]
    assert [each["config"]["backend"]["env"]["NCCL_ALGO"] for each in found] == written
    assert [each["config"]["on_end"] for each in found] == ["${oc.env:COMMAND}"] * num_points
    assert all("measure.max_iterations=20" in each["overrides"] for each in found)
    assert (cli.folder / "ended").read_text() == f"{TOKEN}, b\n"
    assert leaks(cli.folder / "outputs") == []


def test_settings_are_written_where_a_default_in_them_is_a_secret(cli_with_keys):
    cli = cli_with_keys
    done = cli(*LINE, f"on_end='echo ${{oc.env:NONE,--token {TOKEN} y}}'", f"+hydra.job.env_set.A_PASS={'1' * 9}")
    assert done.returncode == 0, done.stderr
    assert leaks(cli.folder / "outputs") == []
    settings = yaml.safe_load((cli.folder / "outputs/s/multirun.yaml").read_text())
    assert settings["on_end"] == "echo ${oc.env:NONE,--token … y}"
    assert settings["hydra"]["job"]["env_set"] == {"A_PASS": "…"}
