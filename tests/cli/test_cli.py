"""The command line as a user types it."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from benchkit import cli as app
from benchkit import questions, start
from benchkit.cli import exit_code
from benchkit.compare import command as compare_command
from benchkit.config import compose as composition
from benchkit.config import vocabulary
from benchkit.config.folders import config_folder
from benchkit.config.hydra_internals import flags_first
from hydra import compose, initialize_config_dir

from tests.support.cli import ROOT, Cli
from tests.support.configs import own_suites

QUICK = ("measure=quick", "measure.max_iterations=10", "data_size=0.001")


@pytest.fixture(scope="module")
def sweep(module_cli: Cli):
    """The mandated line, `-m` between the overrides, on small sizes."""
    arguments = ("+suite=allreduce", "-m", "data_size=0.001,0.01", "measure=quick", "world_size=2,3")
    return module_cli, module_cli(*arguments)


def test_command_runs_every_point(sweep):
    cli, done = sweep
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    points = [(record["world_size"], record["config"]["data_size"], record["status"]) for record in records]
    assert sorted(points) == [(2, 0.001, "ok"), (2, 0.01, "ok"), (3, 0.001, "ok"), (3, 0.01, "ok")]


def test_output_has_point_lines_and_table(sweep):
    cli, done = sweep
    lines = [line for line in done.stdout.splitlines() if re.match(r"^\[\d/4\] all_reduce gloo cpu x", line)]
    assert len(lines) == 4
    assert done.stdout.count(" GB/s  busbw ") == 4
    assert re.search(r"^world_size +data_size +timing +95 % interval +\[GB/s\]", done.stdout, re.MULTILINE)
    assert set(lines) <= set((cli.folder / "outputs/latest/benchkit.log").read_text().splitlines())


def test_record_is_complete(sweep):
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


def test_record_keys_match_golden_file(sweep):
    """A key that goes or changes its meaning raises record.SCHEMA_VERSION; then this file changes with it."""
    record = sweep[0].records()[0]
    keys = [*record, *(f"cases.{name}" for name in record["cases"][0])]
    keys += [f"environment.{name}" for name in record["environment"]]
    assert sorted(keys) == (ROOT / "tests" / "golden" / "record_keys.txt").read_text().split()


def test_record_has_device_of_each_rank(sweep):
    record = sweep[0].records()[0]
    assert [device["device"] for device in record["rank_devices"]] == ["cpu"] * record["world_size"]
    assert record["torch_settings"]["float32_matmul_precision"] == "highest"
    assert not any(name.startswith("gpu_") for name in record["cases"][0]["disturbance"])


@pytest.mark.slow
def test_loop_mode_runs_every_reduction(cli):
    done = cli("+suite=allreduce", "reduce_op=sum,avg,min,max,product", "measure=loop", *QUICK[1:], "seed=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["cases"][0]["calls_per_sample"] for record in cli.records()] == [20] * 5


@pytest.mark.slow
def test_dtypes_run_and_nccl_is_unavailable(cli):
    types = "float16,bfloat16,float32,float64,int32,int64"
    done = cli("+suite=allreduce", *QUICK, "measure.mode=loop", "-m", f"dtype={types}", "backend=gloo,nccl")
    statuses = [record["status"] for record in cli.records()]
    assert statuses.count("ok") == 6
    assert statuses.count("unavailable") == 6
    assert done.returncode == 0
    assert "nccl communicates cuda tensors, not cpu" in done.stdout


def test_oversized_buffer_is_skipped(cli):
    done = cli("+suite=allreduce", "data_size=1e9")
    [record] = cli.records()
    assert record["status"] == "skipped"
    assert re.search(r"needs 2 ranks x 2.097e\+06 GB, [\d.]+ GB there", record["error"]["message"])
    assert done.returncode == 1


WRONG = [
    ([], "choose a suite with +suite=NAME", "collective"),
    (["+suite=none"], "suite=none: no such suite", "collective"),
    (["suite=allreduce"], "suite=allreduce: suite takes a plus: +suite=allreduce", ""),
    (["+suite=all_reduce"], "suite=all_reduce: no such suite; did you mean allreduce?", "available: allreduce,"),
    (["allreduce"], "allreduce: allowed is key=value; did you mean +suite=allreduce?", ""),
    (["+suite=allreduce", "quik"], "quik: allowed is key=value; did you mean measure=quick?", ""),
    (["+suite=allreduce", "-m", "data_size=1", "2"], "2: allowed is key=value", "no spaces: data_size=1,2"),
    (["+suite=allreduce", "data_size=[1"], "data_size=[1: [ and ] do not match", ""),
    (["+suite=allreduce", "on_end='a"], "on_end='a: a quote is not closed", ""),
    (["+suite=allreduce", "on_end=a;b"], "on_end=a;b: a value with special characters", "\"on_end='a;b'\""),
    (["+suite=auto_shard", "-m", "devices=1,2"], "devices=1: expected a list: devices=[1,2]", ""),
    (["+suite=allreduce", "~backend"], "~backend: it cannot be taken away; choose one of its options, backend=…", ""),
    (["+suite=allreduce", "--data_size=10"], "--data_size=10: overrides have no dashes: data_size=10", ""),
    (["+suite=allreduce", "--data_size", "10"], "--data_size: overrides have no dashes: data_size=…", ""),
    (["-cn", "sweep/gloo_cpu"], "-cn: no such flag; allowed are --config-dir,", "--dry-run, --resume, --retry, "),
    (["--dryrun"], "--dryrun: no such flag; did you mean --dry-run?", ""),
    (["--list"], "--list: no such flag; did you mean `python -m benchkit list`?", ""),
    (["comapre", "git:main", "tree:."], "comapre: allowed is key=value; did you mean `python -m benchkit compare`", ""),
    (["selftset"], "selftset: allowed is key=value; did you mean `python -m benchkit selftest`?", ""),
    (["statsu"], "statsu: allowed is key=value; did you mean `python -m benchkit status`?", ""),
    (["version"], "version: allowed is key=value; did you mean --version?", ""),
    (["resume", "X"], "resume: allowed is key=value; did you mean --resume?", ""),
    (["datasize"], "datasize: allowed is key=value; did you mean data_size=…?", ""),
    (["stduy=ddlb"], "stduy: no such key; did you mean study?", ""),
    (["+siute=allreduce"], "siute: no such key; did you mean suite?", ""),
    (["+suite="], "suite=: no such suite; available: allreduce, ", ""),
    (["+suite=allreduce", "backend="], "backend=: no such backend; available: gloo, ", ""),
    (["+suite=allreduce", "größe=1"], "größe: no such key; ", ""),
    (["+suite=allreduce", "data-size=1"], "data-size: no such key; did you mean data_size?", ""),
    (["+suite=allreduce", "dtype=fp17"], "dtype=fp17: allowed is float16|", "(short: fp16, half, bf16, "),
    (["+suite=ring"], "suite=ring: no such suite; did you mean ring_attention or ring_model or ", "available: "),
    (["+suite=allreduce", "hydra.run.dir=X"], "hydra.run.dir=X: every run is a sweep; type hydra.sweep.dir=X", ""),
    (["+suite=allreduce", "timeout_s='a b'"], "timeout_s='a b': expected float", ""),
    (["+suite=allreduce", "data_sizee=1"], "data_sizee: no such key", "did you mean data_size?"),
    (["+suite=allreduce", "+data_sizee=1"], "data_sizee: no such key", "did you mean data_size?"),
    (["+suite=allreduce", "measure.max_second=1"], "measure.max_second: no such key", "measure.max_seconds"),
    (["+suite=allreduce", "backend=glo"], "backend=glo: no such backend", "gloo, mpi, nccl, ucc"),
    (["sweep=none"], "sweep=none: no such sweep", "gloo_cpu"),
    (["+suite=allreduce", "data_size=abc"], "data_size=abc: allowed are MiB > 0", "4B"),
    (["+suite=allreduce", "-m", "data_size=1,-3"], "data_size=-3: allowed are MiB > 0", ""),
    (["+suite=allreduce", "data_size=nan"], "data_size=nan: allowed are MiB > 0", ""),
    (["+suite=allreduce", "world_size=0"], "world_size=0: allowed is auto or >= 1", ""),
    (["+suite=allreduce", "repeat=0"], "repeat=0: allowed is >= 1 and < 10000", "fresh processes"),
    (["+suite=allreduce", "world_size=some"], "world_size=some: allowed is auto or >= 1", ""),
    (["+suite=allreduce", "-m", "dtype=float32,float31"], "dtype=float31: allowed is float16|bfloat16", ""),
    (["+suite=allreduce", "dtype=int32", "reduce_op=avg"], "reduce_op=avg: allowed with a floating-point", ""),
    (["+suite=allreduce", "data_size"], "data_size: allowed is key=value; did you mean data_size=…?", ""),
    (["+suite=allreduce", "timeout_s=0"], "timeout_s=0.0: allowed is > 0", ""),
    (["+suite=allreduce", "report=pdf"], "report=pdf: allowed is html", ""),
    (["+suite=allreduce", "measure=null"], "a group cannot be null here", ""),
    (["+suite=allreduce", "world_size=2.5"], "world_size=2.5: expected int or str", "auto or >= 1"),
    (["+suite=allreduce", "backend.env={A: b}"], "backend.env: takes variables one by one", "+backend.env.NAME=value"),
    (["+suite=allreduce", "+backend.env.OMP_PLACES=cores"], "backend.env.OMP_PLACES=cores: allowed with", "=spawn"),
    (["+suite=allreduce", "fault=none"], "fault: a key of suite faulty, which is not chosen", ""),
    (["data_size=5"], "data_size: a key of suite collective, which is not chosen", ""),
    (["+suite=allreduce", "backend.env=3"], "backend.env=3: expected dict", ""),
    (["+suite=allreduce", "measure.target_rel_ci=x"], "measure.target_rel_ci=x: expected float or null", "> 0 and < 1"),
    (["+suite=matmul_lut", "sizes=512"], "sizes=512: expected a list: sizes=[512]", "(rows and columns of"),
    (["sweep=rebalance_lut", "sizes=[abc]"], "sizes=[abc]: expected a list of int", ">= 1"),
    (["+suite=allreduce", "measure.calls_per_sample=5"], "measure.calls_per_sample=5: allowed is 1", "mode=loop"),
    (["+suite=allreduce", "hydra.sweep.subdir=x", "-m", "seed=1,2"], "hydra.sweep.subdir: the points", "job.num"),
    (["sweep=ddlb", "m=4", "implementations.pytorch.ordre=AG_after"], "implementations.pytorch.ordre: no such", ""),
    (["+suite=tp_columnwise,tp_rowwise", "m=512", "-m"], "m=512: a suite's own key", "per command, or m=choice(512)"),
    (["+suite=tp_columnwise,allreduce", "m=512"], "m=512: a suite's own key", "(+suite=tp_columnwise,allreduce)"),
    (["+suite=tp_columnwise,tp_rowwise", "implementations.auto=null"], "implementations.auto=null: a", "choice(null)"),
    (["+suite=glob(tp_*)", "m=512"], "m=512: a suite's own key", "(+suite=glob(tp_*))"),
    (["+suite=tp_columnwise,tp_rowwise", "mm=512"], "mm: no such key", ""),
    (["+suite=tp_columnwise,allreduce", "m=4,8"], "m: a key of suite tp_columnwise and tp_rowwise, which is not", ""),
    (["+suite=allreduce", "data_size=1,10", "timeout_s=abc"], "timeout_s=abc: expected float", ""),
    (["+suite=allreduce", "seed=99999999999999999999"], "seed=99999999999999999999: allowed is >= 0", ""),
    (["+suite=allreduce", "on_end=\udcff"], "on_end=\\udcff: allowed is text in UTF-8", ""),
    (["+suite=allreduce", "hydra.sweep.dir='\udcff'"], "hydra.sweep.dir='\\udcff': allowed is text", "UTF-8"),
    (["+suite=allreduce", "on_end=${oc.env:NO_TEXT}"], "on_end='x\\udcff': a record cannot hold it ('utf-8'", ""),
    (["+suite=allreduce", "+backend.env.A=${oc.env:NO_TEXT}"], "backend.env={'A': 'x\\udcff'}: a record cannot", ""),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "said", "allowed"), WRONG, ids=[" ".join(wrong[0]) or "none" for wrong in WRONG])
def test_check_refuses_wrong_configuration(check, tmp_path, monkeypatch, arguments, said, allowed):
    monkeypatch.setenv("NO_TEXT", "x\udcff")
    refusal = check(*arguments)
    assert refusal.startswith(said)
    assert allowed in refusal
    first, *listed = refusal.splitlines()
    assert {line.split()[0] for line in listed} >= set([] if arguments else own_suites())
    assert first.endswith(":") == bool(listed) == (not arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "given",
    ["", "data_size=1,10", "--multirun seed=1,2 world_size=2", "+backend.env.OMP_PLACES=cores start_method=spawn"],
)
def test_check_accepts_without_side_effects(check, tmp_path, monkeypatch, given):
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    before = sys.argv, dict(os.environ)
    assert check("+suite=allreduce", *given.split()) == ""
    assert (sys.argv, dict(os.environ)) == before
    assert not list(tmp_path.iterdir())


def test_check_accepts_swept_suite_keys(check):
    assert check("+suite=tp_columnwise,tp_rowwise", "world_size=1", "m=choice(6)", "k=4,8") == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "choose a suite with +suite=NAME"),
        (["+suite=allreduce", "-m", "data_size=1,-3"], "data_size=-3: allowed are MiB > 0"),
        (["+suite=allreduce", "hydra.sweep.dir=/dev/null"], "[Errno"),
        (["+suite=allreduce", "on_end=\udcff"], "on_end=\\udcff: allowed is text in UTF-8\n"),
    ],
)
def test_refused_command_exits_2(cli, arguments, said):
    done = cli(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"benchkit: {said}")
    listed = [line.split()[0] for line in done.stderr.splitlines()[1:]]
    assert listed == ([] if arguments else sorted([*own_suites(), "faulty"]))
    assert done.stdout == ""
    assert not (cli.folder / "outputs").exists()


def test_run_refuses_folder_with_records(cli):
    (cli.folder / "results" / "0").mkdir(parents=True)
    (cli.folder / "results" / "0" / "record.json").write_text("{}")
    again = cli("+suite=allreduce", "hydra.sweep.dir=results", *QUICK)
    assert again.returncode == 2
    assert again.stderr == "benchkit: hydra.sweep.dir=results: holds records already; allowed is a folder without\n"


def test_check_refuses_broken_user_yaml(tmp_path, monkeypatch):
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
def test_gpu_smoke_says_what_is_missing(cli):
    done = cli("sweep=gpu_smoke", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert all(" no GPU is used: " in line for line in done.stderr.splitlines())  # where there is a driver
    records = cli.records()
    assert [record["status"] for record in records] == ["unavailable"] * 18
    advice = r"needs [12] GPUs? on \S+, 0 visible: (torch \S+ lacks CUDA, install a CUDA build|\S.*)"
    assert all(re.fullmatch(advice, record["error"]["message"]) for record in records)
    table = [line for line in done.stdout.splitlines() if "unavailable (" in line]
    assert len(table) == 18


@pytest.mark.slow
def test_sweep_survives_closed_stdout(cli):
    command = f"{sys.executable} -m benchkit +suite=allreduce {' '.join(QUICK)} measure.mode=loop -m seed=1,2 | head -1"
    done = subprocess.run(command, shell=True, cwd=cli.folder, env=cli.environment, capture_output=True, text=True)
    assert [record["status"] for record in cli.records()] == ["ok"] * 2
    assert done.stderr == ""


def documented_commands():
    """Every benchkit command of the README and of the guides, without comments."""
    paths = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "suites").glob("*.md")]
    text = "\n".join(path.read_text() for path in sorted(paths))
    text = text.replace("\\\n", " ")
    found = re.findall(r"python -m benchkit ([^`\n#]*(?:suite|sweep)=[^`\n#]*)", text)
    commands = dict.fromkeys(command.strip() for command in found)
    return [command for command in commands if not re.search(r"--config-dir|SUITE|NAME|ARM", command)]


@pytest.mark.parametrize("command", documented_commands())
def test_documented_command_composes(command):
    """With its first values: what it measures is tested elsewhere."""
    composition.register()
    words = [word for word in shlex.split(command) if word not in ("-m", "…", "--dry-run")]
    if words[0] == "compare":
        words = compare_command.parse(words[1:]).overrides
    first = [re.split(r",(?![^\[]*\])", word)[0] for word in words]  # a comma in brackets does not sweep
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        swept = compose("config", first, return_hydra_config=True).hydra.sweeper.params or {}
        first += [f"{name}={values.split(',')[0]}" for name, values in swept.items() if name.startswith("+")]
        composition.typed(compose("config", first))


def test_help_lists_suites_and_keys(cli):
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


def test_missing_extra_suite_is_refused(cli):
    cli.environment["BENCHKIT_SUITES"] = "no.such.module"
    done = cli("--help")
    assert done.returncode == 2
    assert done.stderr.startswith("benchkit: BENCHKIT_SUITES=no.such.module: no such module")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["+suite=a", "-m", "x=1,2"], ["-m", "+suite=a", "x=1,2"]),
        (["+suite=a", "x=1,2", "--multirun"], ["-m", "+suite=a", "x=1,2"]),
        (["-m", "+suite=a"], ["-m", "+suite=a"]),
        (["-m", "+suite=a", "--multirun"], ["-m", "+suite=a"]),
        (["+suite=a"], ["-m", "+suite=a"]),
        (["--cfg", "job", "+suite=a"], ["--cfg", "job", "+suite=a"]),
        (["--info=config", "+suite=a"], ["--info=config", "+suite=a"]),
        (["+suite=a", "-m", "hydra.mode=RUN"], ["+suite=a", "hydra.mode=RUN"]),
        (["+suite=a", "--config-dir", "d", "x=1"], ["-m", "--config-dir", "d", "+suite=a", "x=1"]),
        (["+suite=a", "-cd", "d=e", "-m", "~x"], ["-m", "-cd", "d=e", "+suite=a", "~x"]),
        (["+suite=a", "--config-dir=d", "x=1"], ["-m", "--config-dir=d", "+suite=a", "x=1"]),
    ],
)
def test_flags_move_first(given, expected):
    assert flags_first(given) == expected


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["ok", "ok"], 0), (["ok", "unavailable", "skipped"], 0), ([], 0), (["ok", "crash"], 1), (["timeout"], 1),
        (["unavailable"], 1), (["skipped", "unavailable"], 1), (["ok", "interrupted"], 1),
    ],
)  # fmt: skip
def test_exit_code_follows_statuses(statuses, code):
    assert exit_code(statuses) == code


def test_checkout_finds_conf_folder():
    assert config_folder() == ROOT / "conf"


def test_refused_line_leaves_no_process(cli):
    """The fork server starts before the points are checked."""
    assert cli("+suite=allreduce", "data_size=-1").returncode == 2
    assert cli.processes() == []


@pytest.mark.parametrize(
    ("arguments", "starts"),
    [
        (["+suite=allreduce"], True),
        (["-m", "+suite=allreduce,transformer"], True),
        (["+suite=allreduce", "--cfg", "job"], False),
        (["+suite=allreduce", "--cfg=job"], False),
        (["+suite=allreduce", "--help"], False),
        (["+suite=allreduce", "launcher=slurm"], False),
        (["compare", "+suite=allreduce"], False),
        (["+suite=all_reduce"], False),
        (["sweep=gloo_cpu"], False),
    ],
)
def test_torch_loads_while_points_are_composed(monkeypatch, arguments, starts):
    started = []
    monkeypatch.setattr(start, "start_fork_server", started.append)
    start.load_torch(arguments)
    assert bool(started) == starts
    assert all("benchkit.rank.main" in preload for preload in started)


def test_torch_loads_before_hydra():
    """Hydra takes a third of a second to import, and torch longer than all else before the first point."""
    program = "import sys\nimport benchkit.start\nprint({'hydra', 'omegaconf', 'numpy', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--version"], "benchkit 0.1.0, torch "),
        (["list"], "  backend                     gloo, mpi, nccl, ucc"),
        (["--help", "allreduce"], "+suite=allreduce: Time and bandwidth of a collective"),
        (["help"], "benchkit: distributed deep-learning benchmarks from one command"),
        (["-V"], "benchkit 0.1.0, torch "),
        (["list", "sweep"], "  sweep                       acceptance, "),
        (["--help", "sweep=gloo_cpu"], "sweep=gloo_cpu\n\n# python -m benchkit sweep=gloo_cpu"),
        (["--help", "slurm"], "launcher=slurm\n\n# "),
        (["help", "study=ddlb"], "python -m benchkit study=ddlb"),
        (["--help", "data_size"], "A key of collective\n  data_size "),
        (
            ["--help", "dtype"],
            "A key of collective\n  dtype                       element type  [float16|bfloat16|float32|float64|int32",
        ),
        (["--help", "seed"], "A key of every suite\n  seed "),
        (["--help", "sweep"], "  sweep                       acceptance, "),
        (["+suite=allreduce", "-m", "data_size=1,2", "--help"], "+suite=allreduce: Time and bandwidth"),
        (["+suite=allreduce,compile", "--help"], "\n\n+suite=compile: "),
        (["--cfg", "job", "hydra.verbose=true", "-h"], "benchkit: distributed deep-learning"),
        (["status", "--help"], "python -m benchkit status [DIR]"),
        (["--help", "status"], "python -m benchkit status [DIR]"),
        (["list", "-h"], "python -m benchkit list [GROUP …]"),
        (["import-config", "--help"], "python -m benchkit import-config FILE.json"),
        (["help", "compare"], "python -m benchkit compare ARM ARM"),
    ],
)
def test_questions_are_answered_without_a_run(monkeypatch, capsys, arguments, shown):
    monkeypatch.setattr(sys, "argv", ["benchkit", *arguments])
    assert app.main() == 0
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--help", "all_reduce"],
            "--help all_reduce: no such suite, option, key or command; did you mean +suite=allr",
        ),
        (["--help", "ring"], "did you mean +suite=ring_attention or +suite=ring_model or "),
        (["--help", "nonsense"], "--help nonsense: no such suite, option, key or command; see --help"),
        (["--help", "sweep=gloo"], "--help sweep=gloo: no such sweep; did you mean "),
        (["--help", "comapre"], "did you mean `python -m benchkit compare`?"),
        (["list", "sweeps"], "list sweeps: no such group; allowed are acceptance, backend, "),
    ],
)
def test_help_on_unknown_word_is_refused(monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(sys, "argv", ["benchkit", *arguments])
    assert app.main() == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("benchkit: ")
    assert said in line


def test_commands_in_hints_exist():
    assert {*app.COMMANDS, "help"} == set(vocabulary.COMMANDS)


@pytest.mark.parametrize("path", sorted((ROOT / "conf" / "suite").glob("*.yaml")), ids=lambda path: path.stem)
def test_each_suite_has_help(path):
    text = questions.text_on("suite", path, [config_folder()])
    assert text.startswith(f"+suite={path.stem}: ")
    rows = text.partition("\nKeys, with the values that they have if they are not typed\n")[2].split("\n\n")[0]
    assert all(re.match(r"  [\w.]+=\S", row) for row in rows.splitlines())
    assert "python -m benchkit +suite=" in text


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help", "allreduce"], r"  data_size=1  +size S of nccl-tests.*\[MiB\]"),
        (["--config-dir", str(ROOT / "tests/conf"), "--help", "smallest_ring_attention"], r"  seq_len=256  +tokens .*"),
    ],
)
def test_help_shows_values_that_are_not_typed(monkeypatch, capsys, arguments, shown):
    monkeypatch.setattr(sys, "argv", ["benchkit", *arguments])
    assert app.main() == 0
    assert any(re.fullmatch(shown, row) for row in capsys.readouterr().out.splitlines())


def test_measuring_without_torch_is_refused_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(questions, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["benchkit", "+suite=allreduce"])
    assert app.main() == 2
    assert capsys.readouterr().err == (
        "benchkit: torch is not installed; pip install 'benchkit[torch]', or a build of it\n"
    )
    monkeypatch.setattr("sys.argv", ["benchkit", "--version"])
    assert app.main() == 0
    assert ", no torch, Hydra " in capsys.readouterr().out
