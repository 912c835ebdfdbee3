"""Everything that can happen to a rank, with real processes: the record says what, where and why, and life goes on."""

import re
import signal
import subprocess

import pytest

from tests.support.cli import PATIENCE_S, Cli, wait_until
from tests.support.faulty import FAULTS


@pytest.fixture(scope="module")
def sweep(module_cli: Cli) -> tuple[Cli, "subprocess.CompletedProcess[str]"]:
    """One sweep over all faults, a sound point at its end."""
    faults = ",".join([*FAULTS[1:], "none"])
    done = module_cli("+suite=faulty", "-m", f"fault={faults}", "timeout_s=12", "measure.max_iterations=10")
    return module_cli, done


def record_of(sweep: tuple[Cli, object], fault: str) -> dict:
    return next(record for record in sweep[0].records() if record["config"]["fault"] == fault)


@pytest.mark.parametrize(
    ("fault", "status", "reason", "signal_number"),
    [
        ("build", "error", "deliberate", None),
        ("raise", "error", "deliberate", None),
        ("sigkill", "crash", "SIGKILL", signal.SIGKILL),
        ("segfault", "crash", "SIGSEGV", signal.SIGSEGV),
        ("exit", "crash", "code 3", None),
        ("hang", "timeout", "rank 1 in misbehave", None),
        ("oom", "oom", "can't allocate memory", None),
        ("wrong", "invalid", "element 5", None),
        ("wrong_later", "invalid", "element 5", None),
        ("silent", "invalid", "a wrong result", None),
    ],
)
def test_a_fault_has_its_status_rank_and_reason(sweep, fault, status, reason, signal_number):
    record = record_of(sweep, fault)
    assert record["status"] == status
    assert record["error"]["rank"] == 1
    assert reason in record["error"]["message"]
    assert record["error"]["signal"] == signal_number
    assert record["error"]["host"]
    assert record["finished_at"]


def test_the_next_point_runs_and_is_sound(sweep):
    records = sweep[0].records()
    assert len(records) == len(FAULTS)
    assert records[-1]["status"] == "ok"
    assert [case["status"] for case in records[-1]["cases"]] == ["ok", "ok"]


def test_the_exit_code_is_1_and_no_process_stays(sweep):
    cli, done = sweep
    assert done.returncode == 1
    assert wait_until(lambda: not cli.processes())


def test_a_traceback_is_in_the_record_and_never_on_the_terminal(sweep):
    _, done = sweep
    assert "deliberate" in record_of(sweep, "raise")["error"]["traceback"]
    assert "Traceback" not in done.stdout + done.stderr


def test_a_hang_says_where_each_rank_is(sweep):
    error = record_of(sweep, "hang")["error"]
    assert "rank 0 in" in error["message"]
    assert "distributed" in error["traceback"]


def test_output_of_each_rank_is_in_its_file(sweep):
    folder = sweep[0].folder / "outputs" / "latest" / str(len(FAULTS) - 1)
    assert [(folder / f"rank_{rank}.log").read_text() for rank in (0, 1)] == [
        f"hello from rank {rank} of 2\n" for rank in (0, 1)
    ]


def test_a_wrong_case_leaves_its_sound_neighbour_measured(sweep):
    sound, faulty = record_of(sweep, "wrong")["cases"]
    assert (sound["status"], faulty["status"]) == ("ok", "invalid")
    assert sound["samples_s"]
    assert "samples_s" not in faulty


def test_a_skipped_case_is_a_row_with_its_numbers(sweep):
    record = record_of(sweep, "skip")
    assert record["status"] == "ok"
    assert record["cases"][1]["reason"] == "needs 9.00 GB, 1.00 GB there"


def test_the_table_shows_every_failure(sweep):
    _, done = sweep
    for status in ("error", "crash", "timeout", "oom", "invalid", "skipped", "ok"):
        assert re.search(rf"^{status} ", done.stdout, re.MULTILINE)


def test_ctrl_c_keeps_what_is_measured_and_leaves_nothing_running(cli):
    process = cli.start("+suite=faulty", "-m", "fault=none,hang,none", "timeout_s=600", "measure.max_iterations=10")
    assert wait_until(lambda: len(cli.records()) == 2 and (cli.folder / "outputs/latest/1/rank_1.log").exists())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert [record["status"] for record in cli.records()] == ["ok", "interrupted"]
    assert "interrupted" in out  # the table of what there is
    assert "Traceback" not in out + err
    assert wait_until(lambda: not cli.processes())


@pytest.mark.slow
def test_sigterm_is_recorded_by_name(cli):
    process = cli.start("+suite=faulty", "fault=hang", "timeout_s=600")
    assert wait_until(lambda: len(cli.records()) == 1 and (cli.folder / "outputs/latest/0/rank_1.log").exists())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert cli.records()[0]["error"]["message"] == "stopped by SIGTERM"
    assert wait_until(lambda: not cli.processes())


def test_ranks_die_with_an_agent_that_is_killed(cli):
    process = cli.start("+suite=faulty", "fault=hang", "timeout_s=600")
    assert wait_until(lambda: len(cli.records()) == 1 and (cli.folder / "outputs/latest/0/rank_1.log").exists())
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())
    assert cli.records()[0]["status"] == "running"


STARVED = """
from benchkit.api.case import Case, Rank
from benchkit.api.schema import RunConfig
from benchkit.api.registry import suite


@suite
def broken(config: RunConfig, rank: Rank) -> list[Case]:
    \"\"\"One case that finds too little memory, and one that does not.\"\"\"

    def step() -> None:
        raise MemoryError("no room for 9 GB")

    return [Case(step=step, labels={"size": "large"}), Case(labels={"size": "small"})]
"""
STARVED_YAML = """# @package _global_
defaults:
  - /schema/suite@_global_: broken
  - override /measure: quick
  - _self_

suite: broken
"""


def test_a_case_that_finds_too_little_memory_does_not_take_the_others_with_it(cli):
    cli.with_suite(STARVED, STARVED_YAML)
    done = cli("+suite=broken", "-m", "world_size=1,2")
    assert done.returncode == 1
    assert "OOM: no room for 9 GB" in done.stdout
    alone, together = cli.records()
    assert (alone["status"], alone["error"]["message"]) == ("oom", "no room for 9 GB")
    assert [case["status"] for case in alone["cases"]] == ["oom", "ok"]
    assert len(alone["cases"][1]["samples_s"][0]) == 20
    assert together["status"] == "oom"  # the other rank would wait: the point ends
    assert together["cases"] == []
