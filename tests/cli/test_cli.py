"""The command line as a user types it."""

import importlib.util
import os
import re
import subprocess
import sys
from unittest.mock import Mock

import pytest
from benchkit import entry_point, environment
from benchkit.config.hydra_internals import flags_first
from benchkit.errors import ConfigError
from benchkit.sweep import check as command
from benchkit.sweep import dry_run, status

from tests.support.cli import ROOT, Cli
from tests.support.configs import own_suites
from tests.support.entries.rank import main

QUICK = ("measure=quick", "measure.max_iterations=10", "data_size=0.001")


@pytest.fixture(scope="module")
def sweep(module_cli: Cli):
    """The mandated line, `-m` between the overrides, on small sizes."""
    arguments = ("+suite=allreduce", "-m", "data_size=0.001,0.01", "measure=quick", "world_size=2,3")
    return module_cli, module_cli(*arguments)


def test_command_runs_every_point(sweep):
    cli, done = sweep
    assert done.returncode == 0, done.stdout + done.stderr
    points = [(record["world_size"], record["config"]["data_size"], record["status"]) for record in cli.records()]
    assert sorted(points) == [(2, 0.001, "ok"), (2, 0.01, "ok"), (3, 0.001, "ok"), (3, 0.01, "ok")]
    lines = [line for line in done.stdout.splitlines() if re.match(r"^\[\d/4\] all_reduce gloo cpu x", line)]
    assert len(lines) == 4
    assert done.stdout.count(" GB/s  busbw ") == 4
    assert re.search(r"^data_size +world_size +\[ms\]", done.stdout, re.MULTILINE)
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
    lengths = {name: length for name, length in record["phases_s"].items() if name not in ("wait_for_host", "total")}
    assert min(lengths.values()) >= 0
    assert sum(lengths.values()) <= record["phases_s"]["total"]  # no phase is counted twice
    assert record["config"]["measure"]["max_iterations"] == 20
    assert record["overrides"][0] == "+suite=allreduce"
    assert [device["device"] for device in record["rank_devices"]] == ["cpu"] * 3
    assert record["torch_settings"]["float32_matmul_precision"] == "highest"
    assert not any(name.startswith("gpu_") for name in case["disturbance"])


def test_record_keys_match_golden_file(sweep):
    """A key that goes or changes its meaning raises record.SCHEMA_VERSION; then this file changes with it."""
    record = sweep[0].records()[0]
    keys = [*record, *(f"cases.{name}" for name in record["cases"][0])]
    keys += [f"environment.{name}" for name in record["environment"]]
    assert sorted(keys) == (ROOT / "tests" / "golden" / "record_keys.txt").read_text().split()


@pytest.mark.slow
def test_loop_mode_runs_every_reduction(cli):
    done = cli("+suite=allreduce", "reduce_op=sum,avg,min,max,product", "measure=loop", *QUICK[1:], "seed=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [record["cases"][0]["calls_per_sample"] for record in cli.records()] == [20] * 5
    types = "float16,bfloat16,float32,float64,int32,int64"
    done = cli("+suite=allreduce", *QUICK, "measure.mode=loop", "-m", f"dtype={types}", "backend=gloo,nccl")
    statuses = [record["status"] for record in cli.records()]
    assert (statuses.count("ok"), statuses.count("unavailable"), done.returncode) == (6, 6, 0)


@pytest.mark.slow
def test_oversized_buffer_is_skipped(cli):
    assert cli("+suite=allreduce", "data_size=1e9").returncode == 1
    assert [record["status"] for record in cli.records()] == ["skipped"]


ALL = "+suite=allreduce"
COLUMNS = "+suite=tp_columnwise,"
WRONG = {
    "words": [
        ["suite=allreduce"], ["allreduce"], [ALL, "quik"], [ALL, "-m", "data_size=1", "2"], [ALL, "data_size"],
        [ALL, "~backend"], [ALL, "data_size=[1"], [ALL, "on_end='a"], [ALL, "on_end=a;b"], [ALL, "--data_size=10"],
        ["-cn", "sweep/gloo_cpu"], ["--dryrun"], ["--list"], ["comapre", "git:main", "tree:."], ["version"],
        ["resume", "X"], [ALL, "--dry-run", "--package"], ["--cfg", "-m", ALL], [ALL, "on_end=\udcff"],
    ],
    "groups": [
        ["+suite=none"], ["+suite=all_reduce"], ["+suite="], ["+suite=ring"], [ALL, "backend=glo"],
        [ALL, "measure=null"], [ALL, "model=tiny", "model.d_ff=[1]"], ["sweep=none"],
        ["+suite=matmul_lut", "model=tiny"],
    ],
    "keys": [
        [ALL, "größe=1"], [ALL, "data_sizee=1"], [ALL, "+data_sizee=1"],
        [ALL, "measure.max_second=1"], [ALL, "fault=none"], ["data_size=5"], [ALL, "hydra.run.dir=X"],
        [ALL, "hydra.mode=RUN"],
        [ALL, "backend.env={A: b}"], ["sweep=ddlb", "m=4", "implementations.pytorch.ordre=AG_after"],
    ],
    "values": [
        [ALL, "dtype=fp17"], [ALL, "timeout_s='a b'"], [ALL, "-m", "data_size=1,-3"],
        [ALL, "repeat=0"], [ALL, "dtype=int32", "reduce_op=avg"],
        [ALL, "world_size=2.5"], [ALL, "+backend.env.OMP_PLACES=cores"], [ALL, "backend.env=3"],
        ["+suite=matmul_lut", "sizes=512"], ["sweep=rebalance_lut", "sizes=[abc]"],
        [ALL, "measure.calls_per_sample=5"], [ALL, "seed=99999999999999999999"], [ALL, "on_end=${oc.env:NO_TEXT}"],
        [ALL, "data_size=2B"], [ALL, "data_size=" + "9" * 400], [ALL, "+backend.env.NCCL_IB_HCA=mlx5_0,mlx5_1"],
        [ALL, "+backend.env.PYTORCH_CUDA_ALLOC_CONF=backend:native"], [ALL, "+backend.env.LD_PRELOAD=x.so"],
        [ALL, "+backend.env.OMP_NUM_THREADS=7"], [ALL, "+backend.env.MKL_NUM_THREADS=7"],
        [ALL, "+backend.env.WORLD_SIZE=9"], [ALL, "+backend.env.LOCAL_RANK=1"],
        [ALL, "+backend.env.MASTER_ADDR=n0"], [ALL, "+backend.env.BENCHKIT_MEETING_FILE=x"],
        ["+suite=compile", "compiler=default", "start_method=spawn", "+backend.env.TORCHINDUCTOR_CACHE_DIR=x"],
        [ALL, "timeout_s=" + "9" * 400], [ALL, "hardware.slowdown=" + "9" * 400],
    ],
    "sweeps": [
        [ALL, "hydra.sweep.subdir=x", "-m", "seed=1,2"], [ALL, "data_size=1,10", "timeout_s=abc"],
        [COLUMNS + "tp_rowwise", "m=512", "-m"], [COLUMNS + "allreduce", "m=4,8"], ["+suite=glob(tp_*)", "m=512"],
        [ALL, "data_size=range(1,inf)"], [ALL, "data_size=glob(*)"], [ALL, "hydra.sweeper.params=x"],
        [ALL, "measure=[[quick],[fixed]]"],
        [COLUMNS + "tp_rowwise", "implementations.auto=null"], [COLUMNS + "tp_rowwise", "mm=512"],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("device=cuda", "hardware"), ("iters=20", "measure.max_iterations"), ("nranks=2", "world_size"),
        ("warmup=5", "measure.warmup_iterations"), ("size=10", "data_size"), ("hardware=gpu", "cuda"),
    ],
)  # fmt: skip
def test_names_of_other_programs_lead_to_ours(check, typed, ours):
    refusal = check(ALL, typed)
    assert f"mean {ours}?" in refusal


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_line_is_refused_in_one_line(check, tmp_path, monkeypatch, golden, kind):
    monkeypatch.setenv("NO_TEXT", "x\udcff")
    told = []
    for arguments in WRONG[kind]:
        refusal = check(*arguments)
        assert len(refusal.splitlines()) == 1, arguments
        told += [ascii(" ".join(arguments)), f"    {refusal}"]
    golden("\n".join(told), {r"\('utf-8' codec .*\)": "(WHY)", r"available: ([\w.]+, ){9}.*": "available: …"})
    assert not list(tmp_path.iterdir())


def test_line_without_suite_is_answered_with_all(check):
    first, *listed = check().splitlines()
    assert "+suite=NAME" in first
    assert {line.split()[0] for line in listed} >= set(own_suites())


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


@pytest.mark.parametrize("wrong", ["data_size=-3", "hydra.sweep.dir=/dev/null", "on_end=\udcff"])
def test_refused_command_exits_2_and_leaves_nothing(cli, wrong):
    """The fork server starts before the points are checked."""
    done = cli("+suite=allreduce", wrong)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("benchkit: ")
    assert not (cli.folder / "outputs").exists()
    assert cli.processes() == []


def test_mistake_behind_the_checks_is_no_refusal(told, monkeypatch):
    """A wrong command line is refused in a line; a fault of ours shows where it is, and a disk what it lacks."""

    def fails_by(error):
        monkeypatch.setattr(dry_run, "forecasts", Mock(side_effect=error))
        return told("+suite=allreduce", "--dry-run")

    with pytest.raises(ValueError, match="a mistake"):
        fails_by(ValueError("a mistake"))
    assert fails_by(OSError(28, "No space left on device")) == (2, "", "benchkit: [Errno 28] No space left on device\n")


def test_folder_that_is_no_text_is_refused(told, monkeypatch, tmp_path):
    """Manifests, which are JSON, name the folder where a command was typed."""
    place = tmp_path / os.fsdecode(b"\xfe")
    place.mkdir()
    monkeypatch.chdir(place)
    for words in (("+suite=allreduce",), ("compare", "plain", "env:A=1", "+suite=allreduce")):
        assert told(*words) == (2, "", f"benchkit: {tmp_path}/\\udcfe: allowed is text in UTF-8\n")


def test_check_refuses_broken_user_yaml(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "conf" / "measure"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("mode: loop\nmax_iteration: 3\n")
    (folder / "torn.yaml").write_text("mode: [loop\n\t")
    for name, said in (("mine", "max_iteration: "), ("torn", "torn.yaml")):
        with pytest.raises(ConfigError, match=said) as refused:
            command.check(["--config-dir", "conf", "+suite=allreduce", f"measure={name}"])
        assert len(str(refused.value).splitlines()) == 1


def test_run_refuses_folder_with_records(told, tmp_path, golden):
    (tmp_path / "results" / "0").mkdir(parents=True)
    (tmp_path / "results" / "0" / "record.json").write_text("{}")
    code, _, err = told("+suite=allreduce", "hydra.sweep.dir=results", *QUICK)
    assert code == 2
    golden(err)


def test_measuring_needs_torch(told, monkeypatch, golden):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, _, err = told("+suite=allreduce")
    assert code == 2
    golden(err)
    assert ", no torch, Hydra " in told("--version")[1]


@pytest.mark.slow
def test_gpu_smoke_says_what_is_missing(cli):
    done = cli("sweep=gpu_smoke", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    records = cli.records()
    points = len(list((ROOT / "conf" / "smoke").iterdir()))
    assert [record["status"] for record in records] == ["unavailable"] * points
    assert all(re.match(r"needs [12] GPUs? on \S+, 0 visible: \S", record["error"]["message"]) for record in records)
    counts = re.findall(r"^(\d+) points? (?:\(.*\) )?unavailable: ", done.stdout, re.MULTILINE)
    assert sum(map(int, counts)) == points


@pytest.mark.slow
def test_sweep_survives_closed_stdout(cli):
    command = f"{sys.executable} -m benchkit +suite=allreduce {' '.join(QUICK)} measure.mode=loop -m seed=1,2 | head -1"
    done = subprocess.run(command, shell=True, cwd=cli.folder, env=cli.environment, capture_output=True, text=True)
    assert [record["status"] for record in cli.records()] == ["ok"] * 2
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("+suite=a -m x=1,2", "-m +suite=a x=1,2"),
        ("-m +suite=a --multirun", "-m +suite=a"),
        ("+suite=a", "-m +suite=a"),
        ("--cfg job +suite=a", "--cfg job +suite=a"),
        ("--info=config +suite=a", "--info=config +suite=a"),
        ("+suite=a -m hydra.mode=RUN", "+suite=a hydra.mode=RUN"),
        ("+suite=a -cd d=e -m ~x", "-m -cd d=e +suite=a ~x"),
        ("+suite=a --config-dir=d x=1", "-m --config-dir=d +suite=a x=1"),
    ],
)
def test_flags_move_first(given, expected):
    assert flags_first(given.split()) == expected.split()


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ("ok ok", 0), ("ok unavailable skipped", 0), ("", 0), ("ok crash", 1), ("unavailable", 1),
        ("skipped unavailable", 1), ("ok interrupted", 1),
    ],
)  # fmt: skip
def test_exit_code_follows_statuses(statuses, code):
    assert status.exit_code(statuses.split()) == code


@pytest.mark.parametrize(
    ("line", "starts"),
    [
        ("+suite=allreduce", True), ("-m +suite=allreduce,transformer", True), ("+suite=allreduce --cfg=job", False),
        ("+suite=allreduce --help", False), ("+suite=allreduce launcher=slurm", False),
        ("compare +suite=allreduce", False), ("+suite=all_reduce", False), ("sweep=gloo_cpu", False),
        ("+suite=allreduce start_method=spawn", False),
    ],
)  # fmt: skip
def test_torch_loads_while_points_are_composed(monkeypatch, line, starts):
    started = []
    monkeypatch.setattr(entry_point, "start_fork_server", started.append)
    entry_point.load_torch(line.split())
    assert bool(started) == starts
    assert all(main.__name__ in preload for preload in started)


def test_torch_loads_before_hydra():
    """Hydra takes a third of a second to import, and torch longer than all else before the first point."""
    program = (
        "import sys\nimport benchkit.entry_point\nprint({'hydra', 'omegaconf', 'numpy', 'torch'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "set()"


ANSWERED = [
    "--help allreduce",
    "--help seed",
    "--help sweep=gloo_cpu",
    "status --help",
    "list -h",
    "help import-config",
]


@pytest.mark.parametrize("line", ANSWERED)
def test_help_is_as_it_was(told, golden, line):
    code, out, _ = told(*line.split())
    assert code == 0
    golden(out)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("--version", r"benchkit \S+, torch \S+, Hydra \S+"),
        ("list", r"  backend +gloo, mpi, nccl, ucc"),
        ("--help sweep", r"  sweep +acceptance, .*"),
        ("help", r"Suites and their keys .*"),
        ("--help data_size", r"A key of collective"),
        ("help study=ddlb", r"python -m benchkit study=ddlb"),
        ("+suite=allreduce,compile -m data_size=1,2 --help", r"\+suite=compile: .*"),
        ("--cfg job hydra.verbose=true -h", r"  \+suite=collective .*"),
        ("help compare", r"  git:REV .*"),
        (f"--config-dir {ROOT}/tests/conf --help smallest_ring_attention", r"  seq_len=256  +tokens .*"),
    ],
)
def test_questions_are_answered_without_a_run(told, line, shown):
    code, out, _ = told(*line.split())
    assert code == 0
    assert any(re.fullmatch(shown, row) for row in out.splitlines())


def test_help_on_unknown_word_is_refused(told, golden):
    lines = ["--help all_reduce", "--help nonsense", "--help sweep=gloo", "--help comapre", "list sweeps"]
    refused = [told(*line.split()) for line in lines]
    assert [(code, err.count("\n")) for code, _, err in refused] == [(2, 1)] * len(lines)
    golden("".join(err for _, _, err in refused))


def test_line_without_words_is_told_how_to_start(told, golden):
    code, out, err = told()
    assert (code, out, err.count("\n")) == (2, "", 1)
    golden(err)


@pytest.mark.parametrize("names", ["../x", ".", "a.", ".a", "a b", "/x", "broken.py:x", "no.such.module"])
@pytest.mark.parametrize("line", ["--help", "+suite=allreduce", "list"])
def test_suites_that_are_no_modules_are_refused_in_one_line(told, names, line):
    code, out, err = told(line, BENCHKIT_SUITES=f"tests.support.faulty,{names}")
    if line != "list":
        assert (code, out, err.count("\n"), names in err) == (2, "", 1, True)
    assert "Traceback" not in err


@pytest.mark.parametrize("group", ["launcher", "sweeper"])
@pytest.mark.parametrize("target", ["subprocess.check_output", "hydra_plugins.nope.X", "hydra_plugins", "5", "null"])
def test_what_is_no_launcher_or_sweeper_is_refused_in_one_line(told, tmp_path, group, target):
    folder = tmp_path / "conf" / "hydra" / group
    folder.mkdir(parents=True)
    (folder / "evil.yaml").write_text(f"_target_: {target}\n")
    code, out, err = told("--config-dir", "conf", "+suite=allreduce", f"hydra/{group}=evil")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_help_needs_no_torch(told, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find(name, *rest))
    monkeypatch.setattr(environment, "torch_build", Mock(side_effect=ModuleNotFoundError("torch")))
    environment.visible_gpus.cache_clear()
    try:
        code, out, err = told("--help", "allreduce")
    finally:
        environment.visible_gpus.cache_clear()
    assert (code, out.startswith("+suite=allreduce: "), err) == (0, True, "")


@pytest.mark.parametrize("suite", sorted(path.stem for path in (ROOT / "conf" / "suite").glob("*.yaml")))
def test_each_suite_has_help(told, suite):
    _, text, _ = told("--help", f"suite={suite}")
    assert text.startswith(f"+suite={suite}: ")
    rows = text.partition("\nKeys, with the values that they have if they are not typed\n")[2].split("\n\n")[0]
    assert all(re.match(r"  [\w.]+=\S", row) for row in rows.splitlines())
    assert "python -m benchkit +suite=" in text


def test_help_lists_suites_of_user_and_refuses_missing_ones(cli):
    done = cli("--help")
    assert done.returncode == 0
    assert "+suite=faulty" in done.stdout
    cli.environment["BENCHKIT_SUITES"] = "no.such.module"
    done = cli("--help")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "BENCHKIT_SUITES=no.such.module" in done.stderr


def test_check_complains_of_what_was_typed_only(check):
    complaint = check("+suite=allreduce", "model.d_ff=1")
    assert "model.d_ff=1" in complaint
    assert "hydra" not in complaint
