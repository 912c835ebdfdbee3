"""The command line as a user types it."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from benchkit import cli as app
from benchkit.cli import config_folder, exit_code, multirun_first, set_per_point
from benchkit.config import compose as composition
from hydra import compose, initialize_config_dir

from tests.support.cli import ROOT, Cli
from tests.support.configs import own_suites

QUICK = ("measure=quick", "measure.max_iterations=10", "data_size=0.001")


@pytest.fixture(scope="module")
def sweep(module_cli: Cli):
    """The mandated line, `-m` between the overrides, on small sizes."""
    arguments = ("+suite=allreduce", "-m", "data_size=0.001,0.01", "measure=quick", "world_size=2,3")
    return module_cli, module_cli(*arguments)


def test_the_mandated_line_runs_every_point(sweep):
    cli, done = sweep
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    points = [(record["world_size"], record["config"]["data_size"], record["status"]) for record in records]
    assert sorted(points) == [(2, 0.001, "ok"), (2, 0.01, "ok"), (3, 0.001, "ok"), (3, 0.01, "ok")]


def test_one_line_per_point_then_the_table_and_the_same_in_a_log(sweep):
    cli, done = sweep
    lines = [line for line in done.stdout.splitlines() if re.match(r"^\[\d/4\] all_reduce gloo cpu x", line)]
    assert len(lines) == 4
    assert done.stdout.count(" GB/s  busbw ") == 4
    assert "busbw [GB/s]" in done.stdout
    assert set(lines) <= set((cli.folder / "outputs/latest/benchkit.log").read_text().splitlines())


def test_a_record_is_complete_in_itself(sweep):
    record = sweep[0].records()[-1]
    case = record["cases"][-1]
    assert len(case["samples_s"]) == record["world_size"] == 3
    [num_samples] = {len(row) for row in case["samples_s"]}
    assert 0 < num_samples <= 20  # or as many as a second holds
    assert {len(row) >= 2 for row in case["warmup_s"]} == {True}
    assert min(min(row) for row in case["start_offsets_s"]) == 0
    assert case["payload_bytes"] == pytest.approx(0.01 * 2**20, abs=4)
    assert case["bus_factor"] == pytest.approx(4 / 3)
    assert set(record["phases_s"]) == {
        "wait_for_host", "spawn", "init", "build", "verify", "measure", "verify_again", "exit", "total"
    }  # fmt: skip
    assert record["config"]["measure"]["max_iterations"] == 20
    assert record["overrides"][0] == "+suite=allreduce"


def test_the_keys_of_a_record_are_what_its_readers_rely_on(sweep):
    """A key that goes or changes its meaning raises record.SCHEMA_VERSION; then this file changes with it."""
    record = sweep[0].records()[0]
    keys = [*record, *(f"cases.{name}" for name in record["cases"][0])]
    keys += [f"environment.{name}" for name in record["environment"]]
    assert sorted(keys) == (ROOT / "tests" / "golden" / "record_keys.txt").read_text().split()


def test_every_reduction_is_verified_and_repeated_as_often_as_asked(cli):
    done = cli("+suite=allreduce", "reduce_op=sum,avg,min,max,product", "measure=loop", *QUICK[1:], "seed=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["cases"][0]["calls_per_sample"] for record in cli.records()] == [20] * 5


def test_dtypes_and_what_is_not_here(cli):
    types = "float16,bfloat16,float32,float64,int32,int64"
    done = cli("+suite=allreduce", *QUICK, "measure.mode=loop", "-m", f"dtype={types}", "backend=gloo,nccl")
    statuses = [record["status"] for record in cli.records()]
    assert statuses.count("ok") == 6
    assert statuses.count("unavailable") == 6
    assert done.returncode == 0
    assert "nccl communicates cuda tensors, not cpu" in done.stdout


def test_too_large_a_buffer_is_skipped_with_the_numbers_and_nothing_measured_is_exit_1(cli):
    done = cli("+suite=allreduce", "data_size=1e9")
    [record] = cli.records()
    assert record["status"] == "skipped"
    assert re.search(r"needs 2 ranks x 2.097e\+06 GB, [\d.]+ GB there", record["error"]["message"])
    assert done.returncode == 1


WRONG = [
    ([], "choose a suite with +suite=NAME", "collective"),
    (["+suite=none"], "suite=none: no such suite", "collective"),
    (["suite=allreduce"], "suite: takes a plus", "+suite=auto_shard|collective|"),
    (["+suite=allreduce", "data_sizee=1"], "data_sizee: no such key", "did you mean data_size?"),
    (["+suite=allreduce", "+data_sizee=1"], "data_sizee: no such key", "did you mean data_size?"),
    (["+suite=allreduce", "measure.max_second=1"], "measure.max_second: no such key", "measure.max_seconds"),
    (["+suite=allreduce", "backend=glo"], "backend=glo: no such backend", "gloo, mpi, nccl, ucc"),
    (["sweep=none"], "sweep=none: no such sweep", "gloo_cpu"),
    (["+suite=allreduce", "data_size=abc"], "data_size=abc: allowed are MiB > 0", "4B"),
    (["+suite=allreduce", "-m", "data_size=1,-3"], "data_size=-3: allowed are MiB > 0", ""),
    (["+suite=allreduce", "data_size=nan"], "data_size=nan: allowed are MiB > 0", ""),
    (["+suite=allreduce", "world_size=0"], "world_size=0: allowed is auto or >= 1", ""),
    (["+suite=allreduce", "world_size=some"], "world_size=some: allowed is auto or >= 1", ""),
    (["+suite=allreduce", "-m", "dtype=float32,float31"], "dtype=float31: allowed is float16|bfloat16", ""),
    (["+suite=allreduce", "dtype=int32", "reduce_op=avg"], "reduce_op=avg: allowed with a floating-point", ""),
    (["+suite=allreduce", "data_size"], "Error parsing override 'data_size'", ""),
    (["+suite=allreduce", "timeout_s=0"], "timeout_s=0.0: allowed is > 0", ""),
    (["+suite=allreduce", "measure=null"], "a group cannot be null here", ""),
    (["+suite=allreduce", "world_size=2.5"], "world_size=2.5: expected int or str", "auto or >= 1"),
    (["+suite=allreduce", "backend.env={A: b}"], "backend.env: takes variables one by one", "+backend.env.NAME=value"),
    (["+suite=allreduce", "fault=none"], "fault: a key of suite faulty, which is not chosen", ""),
    (["data_size=5"], "data_size: a key of suite collective, which is not chosen", ""),
    (["+suite=allreduce", "backend.env=3"], "backend.env=3: expected dict", ""),
    (["+suite=allreduce", "measure.target_rel_ci=x"], "measure.target_rel_ci=x: expected float or null", "> 0 and < 1"),
    (["+suite=allreduce", "measure.calls_per_sample=5"], "measure.calls_per_sample=5: allowed is 1", "mode=loop"),
    (["+suite=allreduce", "hydra.sweep.subdir=x", "-m", "seed=1,2"], "hydra.sweep.subdir: the points", "job.num"),
    (["sweep=ddlb", "m=4", "implementations.pytorch.ordre=AG_after"], "implementations.pytorch.ordre: no such", ""),
    (["+suite=allreduce", "seed=99999999999999999999"], "seed=99999999999999999999: allowed is >= 0", ""),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "said", "allowed"), WRONG, ids=[" ".join(wrong[0]) or "none" for wrong in WRONG])
def test_a_wrong_configuration_is_refused_in_one_line(check, tmp_path, arguments, said, allowed):
    refusal = check(*arguments)
    assert refusal.startswith(said)
    assert allowed in refusal
    first, *listed = refusal.splitlines()
    assert {line.split()[0] for line in listed} >= set([] if arguments else own_suites())
    assert first.endswith(":") == bool(listed) == (not arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["", "data_size=1,10", "--multirun seed=1,2 world_size=2"])
def test_what_is_right_is_not_refused_and_leaves_everything_as_it_was(check, tmp_path, monkeypatch, given):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    before = sys.argv, dict(os.environ)
    assert check("+suite=allreduce", *given.split()) == ""
    assert (sys.argv, dict(os.environ)) == before
    assert not list(tmp_path.iterdir())


def test_a_sweep_over_suites_takes_keys_that_only_they_have(check):
    assert check("sweep=tensor_parallel", "world_size=1", "m=6", "n=2", "k=4") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "choose a suite with +suite=NAME"),
        (["+suite=allreduce", "-m", "data_size=1,-3"], "data_size=-3: allowed are MiB > 0"),
        (["+suite=allreduce", "hydra.sweep.dir=/dev/null"], "[Errno"),
    ],
)
def test_a_refused_command_line_ends_with_2_and_nothing_runs(cli, arguments, said):
    done = cli(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"benchkit: {said}")
    listed = [line.split()[0] for line in done.stderr.splitlines()[1:]]
    assert listed == ([] if arguments else sorted([*own_suites(), "faulty"]))
    assert done.stdout == ""
    assert not (cli.folder / "outputs").exists()


def test_a_folder_that_holds_records_is_not_written_over(cli):
    (cli.folder / "results" / "0").mkdir(parents=True)
    (cli.folder / "results" / "0" / "record.json").write_text("{}")
    again = cli("+suite=allreduce", "hydra.sweep.dir=results", *QUICK)
    assert again.returncode == 2
    assert again.stderr == "benchkit: hydra.sweep.dir=results: holds records already; allowed is a folder without\n"


def test_a_typo_in_a_yaml_of_ones_own_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "conf" / "measure"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("mode: loop\nmax_iteration: 3\n")
    (folder / "torn.yaml").write_text("mode: [loop\n\t")
    for name, said in (("mine", "max_iteration: no such key; did you mean"), ("torn", "torn.yaml")):
        refusal = app.check(["--config-dir", "conf", "+suite=allreduce", f"measure={name}"])
        assert said in refusal
        assert len(refusal.splitlines()) == 1


@pytest.mark.slow
def test_a_reader_that_leaves_early_does_not_end_the_sweep(cli):
    command = f"{sys.executable} -m benchkit +suite=allreduce {' '.join(QUICK)} measure.mode=loop -m seed=1,2 | head -1"
    done = subprocess.run(command, shell=True, cwd=cli.folder, env=cli.environment, capture_output=True, text=True)
    assert [record["status"] for record in cli.records()] == ["ok"] * 2
    assert done.stderr == ""


def readme_commands():
    """Every benchkit command of the README's tables and examples."""
    text = (ROOT / "README.md").read_text()
    found = re.findall(r"python -m benchkit ([^`\n]*(?:suite|sweep)=[^`\n]*)", text)
    return [command for command in dict.fromkeys(found) if "my/conf" not in command]


@pytest.mark.parametrize("command", readme_commands())
def test_every_command_of_the_readme_composes(command):
    """With its first values: what it measures is tested elsewhere."""
    composition.register()
    words = [word for word in shlex.split(command) if word not in ("-m", "…")]
    first = [re.split(r",(?![^\[]*\])", word)[0] for word in words]  # a comma in brackets does not sweep
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        swept = compose("config", first, return_hydra_config=True).hydra.sweeper.params or {}
        suites = [f"{name}={str(values).split(',')[0]}" for name, values in swept.items() if name == "+suite"]
        composition.typed(compose("config", [*first, *suites]))


def test_help_lists_suites_keys_units_and_groups(cli):
    done = cli("--help")
    assert done.returncode == 0
    for text in (
        "+suite=allreduce",
        "data_size",
        "with its unit",
        "timeout_s",
        "gloo, mpi, nccl, ucc",
        "+suite=faulty",
    ):
        assert text in done.stdout


def test_an_extra_suite_that_is_not_there_is_said(cli):
    cli.environment["BENCHKIT_SUITES"] = "no.such.module"
    done = cli("--help")
    assert done.returncode == 2
    assert done.stderr.startswith("benchkit: BENCHKIT_SUITES=no.such.module: no such module")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["+suite=a", "-m", "x=1,2"], ["-m", "+suite=a", "x=1,2"]),
        (["+suite=a", "x=1,2", "--multirun"], ["--multirun", "+suite=a", "x=1,2"]),
        (["-m", "+suite=a"], ["-m", "+suite=a"]),
        (["-m", "+suite=a", "--multirun"], ["-m", "+suite=a"]),
        (["+suite=a"], ["+suite=a"]),
    ],
)
def test_multirun_may_stand_anywhere(given, expected):
    assert multirun_first(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("+suite=tp_rowwise m=4", "+suite=tp_rowwise m=4"),
        ("+suite=tp_rowwise,allreduce m=4", "+suite=tp_rowwise,allreduce m=choice(4)"),
        ("sweep=tensor_parallel m=4 world_size=2", "sweep=tensor_parallel m=choice(4) world_size=2"),
        ("sweep=ddlb m=4,8 n=", "sweep=ddlb m=4,8 n="),
        ("sweep=ddlb implementations.auto=null", "sweep=ddlb implementations.auto=choice(null)"),
        (
            "sweep=ddlb implementations.pipeline.chunks=[2,4]",
            "sweep=ddlb implementations.pipeline.chunks=choice([2,4])",
        ),
        ("sweep=ddlb --cfg job ~m m=]", "sweep=ddlb --cfg job ~m m=]"),
    ],
)
def test_own_keys_are_set_per_point_where_suites_vary(given, expected):
    composition.register()
    assert set_per_point(given.split()) == expected.split()


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["ok", "ok"], 0), (["ok", "unavailable", "skipped"], 0), ([], 0), (["ok", "crash"], 1), (["timeout"], 1),
        (["unavailable"], 1), (["skipped", "unavailable"], 1), (["ok", "interrupted"], 1),
    ],
)  # fmt: skip
def test_exit_codes(statuses, code):
    assert exit_code(statuses) == code


def test_conf_is_beside_the_package_in_a_checkout():
    assert config_folder() == ROOT / "conf"
