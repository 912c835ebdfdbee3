"""What is printed or logged is not what is measured: a sweep goes on where none of it can be written."""

import json
import os
import pty
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from analysis.cli import main as analyse
from analysis.commands.options import SUBCOMMANDS
from analysis.records import harvest
from benchkit import cli as app
from benchkit.point.point import new_record
from benchkit.record import files
from benchkit.sweep import launchers, sweeper
from benchkit.sweep import sweep_folder as sweep_folder
from launch.signals import StopRequested

from tests.support.cli import PATIENCE_S, ROOT
from tests.support.records import make_record

CHATTY = """
from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.api.keys import RunConfig

print("\\u00b5 where suites are loaded", flush=True)

@suite
def broken(config: RunConfig, rank: Rank) -> list[Case]:
    "Prints."
    print("\\u00b5 in a rank", flush=True)
    return [Case(step=lambda: sum(range(1000)))]
"""


def line_of(cli, *words):
    return [sys.executable, "-m", "benchkit", "--config-dir", str(cli.config), *words, "hydra.sweep.dir=s"]


def statuses(folder):
    return [json.loads(path.read_text())["status"] for path in sorted(folder.glob("s/*/record.json"))]


def test_sweep_goes_on_where_nothing_can_be_written(cli):
    """Not to its streams and its log, in a locale without the letters that it and its suite print."""
    cli.with_suite(CHATTY)
    (cli.folder / "s" / "benchkit.log").mkdir(parents=True)
    words = line_of(cli, "+suite=broken", "world_size=1", "measure.max_iterations=20", "-m", "seed=1,2")
    command = ["sh", "-c", 'exec "$@" > /dev/full 2>&-', "sh", *words]
    done = subprocess.run(
        command, cwd=cli.folder, env=cli.environment | {"PYTHONIOENCODING": "ascii"}, timeout=PATIENCE_S, check=False
    )
    assert statuses(cli.folder) == ["ok", "ok"]
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_ignored", [True, False], ids=["nohup", "hang-up"])
def test_terminal_closes(cli, is_ignored):
    """benchkit leads the session, so that the hang-up is for it."""
    command = line_of(cli, "+suite=faulty", "measure.max_iterations=20", "-m", "seed=1,2,3,4")
    pid, ours = pty.fork()
    if not pid:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
        os.chdir(cli.folder)
        os.execve(sys.executable, command, cli.environment)
    shown = b""
    while b"[1/4] faulty" not in shown:
        shown += os.read(ours, 4096)
    os.close(ours)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found = statuses(cli.folder)
    assert (code, "crash" in found) == (0 if is_ignored else 128 + signal.SIGHUP, False)
    left = 4 - found.count("ok")
    assert (left == 0) == is_ignored
    said = [line for line in (cli.folder / "s" / "benchkit.log").read_text().splitlines() if "--resume" in line]
    assert [int(line.split()[0]) for line in said] == [left] * bool(left)


def test_point_that_has_ended_is_not_left(monkeypatch, told):
    """The signal comes after its record and before its count."""

    def run_points(points, agents, report):
        first = points[0]
        record = replace(new_record(first, first.provisional_placement()), status="ok")
        first.folder.mkdir()
        files.write(record, first.folder)
        raise StopRequested(signal.SIGHUP)
        yield

    monkeypatch.setattr(launchers, "run_points", run_points)
    monkeypatch.setattr(sweeper, "preload_fork_server", lambda configs: None)
    monkeypatch.setattr(sweeper, "ignore_signals", lambda: None)
    line = ["+suite=allreduce", "-m", "data_size=1,2,3", "on_end='echo $BENCHKIT_LEFT > left'", "hydra.sweep.dir=s"]
    assert told(*line)[0] == 128 + signal.SIGHUP
    assert int(Path("left").read_text()) == 2


@pytest.mark.parametrize("place", ["full", "folder"])
def test_log_that_cannot_be_written_is_said_once(tmp_path, caplog, place):
    path = tmp_path / "s" / "benchkit.log"
    path.parent.mkdir()
    if place == "full":
        path.symlink_to("/dev/full")
    else:
        path.mkdir()
    with sweep_folder.log_to_folder(path.parent):
        for number in range(3):
            sweep_folder.log.warning("line %d", number)
    assert len([message for message in caplog.messages if str(path) in message]) == 1


def test_log_has_letters_that_locale_lacks(tmp_path):
    body = (
        "from pathlib import Path\nfrom benchkit.sweep.sweep_folder import log, log_to_folder\n"
        "with log_to_folder(Path('.')): log.warning('5 \\u00b5s')"
    )
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", body], cwd=tmp_path, env=os.environ | variables, check=True)
    assert (tmp_path / "benchkit.log").read_text(encoding="utf-8") == "5 µs\n"


def test_table_that_cannot_be_made_ends_no_sweep(tmp_path, monkeypatch):
    def full(folders):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(harvest, "harvest", full)
    app.print_table(tmp_path)


@pytest.mark.parametrize(
    ("command", "written", "redirections"),
    [
        ((), "a/report/analysis.txt", "> /dev/full"),
        pytest.param(("compare",), "a/report/compare.md", ">&- 2>&-", marks=pytest.mark.slow),
    ],
)
def test_analysis_speaks_of_records(tmp_path, command, written, redirections):
    for folder in "ab":
        (tmp_path / folder / "0").mkdir(parents=True)
        (tmp_path / folder / "0" / "record.json").write_text(json.dumps(make_record()))
    words = [sys.executable, "-m", "analysis", *command, "a", "b"]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    shell = ["sh", "-c", f'exec "$@" {redirections}', "sh", *words]
    done = subprocess.run(shell, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert (tmp_path / written).exists()


@pytest.mark.parametrize("error", [OSError("full"), RuntimeError("a mistake")])
def test_fault_of_analysis_is_no_verdict(monkeypatch, error):
    """Exit code 1 of `compare` and `accept` says that something is slower."""

    def fails(arguments):
        raise error

    monkeypatch.setitem(SUBCOMMANDS, "compare", (fails, ""))
    assert analyse(["compare", "a", "b"]) == 2


def test_sweep_prints_itself_for_pods_that_vanish(cli):
    """The two lines of docs/kubernetes.md: what on_end prints, kubectl's log gives back."""
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    [on_end] = (line.strip() for line in page.splitlines() if line.startswith("    on_end="))
    [unpack] = (line.strip() for line in page.splitlines() if line.startswith("    kubectl logs"))
    done = cli("+suite=faulty", "-m", "fault=none,raise", "measure=few", "hydra.sweep.dir=outputs/s", on_end)
    (cli.folder / "log").write_text(done.stdout)
    unpack = "mkdir -p results/mine && " + unpack.replace("kubectl logs POD", "cat log")
    subprocess.run(["sh", "-ec", unpack], cwd=cli.folder, check=True)
    for record in (cli.folder / "outputs" / "s").glob("*/record.json"):
        copied = cli.folder / "results" / "mine" / record.parent.name / record.name
        assert copied.read_bytes() == record.read_bytes()
    assert cli("results/mine", module="analysis").returncode == 0
