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


ENDS = {
    "build": ("error", "deliberate", None),
    "raise": ("error", "deliberate", None),
    "sigkill": ("crash", "SIGKILL", signal.SIGKILL),
    "segfault": ("crash", "SIGSEGV", signal.SIGSEGV),
    "exit": ("crash", "code 3", None),
    "hang": ("timeout", "misbehave", None),
    "oom": ("oom", "memory", None),
    "wrong": ("invalid", "element 5", None),
    "wrong_later": ("invalid", "element 5", None),
    "silent": ("invalid", "wrong", None),
}
"""Per fault the status, a word of the reason, and the signal."""


@pytest.mark.parametrize("fault", ENDS)
def test_fault_has_status_rank_and_reason(sweep, fault):
    record = record_of(sweep, fault)
    status, reason, number = ENDS[fault]
    assert (record["status"], record["error"]["rank"], record["error"]["signal"]) == (status, 1, number)
    assert reason in record["error"]["message"]
    assert record["error"]["host"]
    assert record["finished_at"]


def test_broken_connection_is_an_error_of_either_end(sweep):
    record = record_of(sweep, "disconnect")
    assert record["status"] == "error"
    assert "onnection" in record["error"]["message"]


def test_faulty_sweep_exits_1(sweep):
    cli, done = sweep
    records = cli.records()
    assert (len(records), records[-1]["status"], done.returncode) == (len(FAULTS), "ok", 1)
    assert [case["status"] for case in records[-1]["cases"]] == ["ok", "ok"]
    for status in ("error", "crash", "timeout", "oom", "invalid", "skipped"):
        assert re.search(rf"^\d+ (?:point|case)s?[^:]*\s{status}: ", done.stdout, re.MULTILINE)
    assert wait_until(lambda: not cli.processes())


def test_tracebacks_are_only_in_record(sweep):
    assert "deliberate" in record_of(sweep, "raise")["error"]["traceback"]
    assert "distributed" in record_of(sweep, "hang")["error"]["traceback"]
    assert "rank 0 in" in record_of(sweep, "hang")["error"]["message"]  # the stack of each rank
    assert "Traceback" not in sweep[1].stdout + sweep[1].stderr


def test_rank_output_is_in_log_file(sweep):
    folder = sweep[0].folder / "outputs" / "latest" / str(len(FAULTS) - 1)
    assert [(folder / f"rank_{rank}.log").read_text() for rank in (0, 1)] == [
        f"hello from rank {rank} of 2\n" for rank in (0, 1)
    ]


def test_one_case_keeps_the_other(sweep):
    sound, faulty = record_of(sweep, "wrong")["cases"]
    assert (sound["status"], faulty["status"], faulty["samples_s"]) == ("ok", "invalid", [])
    assert sound["samples_s"]
    skipped = record_of(sweep, "skip")
    assert (skipped["status"], skipped["cases"][1]["reason"]) == ("ok", "needs 9.00 GB, 1.00 GB there")


def test_ctrl_c_keeps_measured_points(cli):
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


def test_ranks_end_with_killed_agent(cli):
    process = cli.start("+suite=faulty", "fault=hang", "timeout_s=600")
    assert wait_until(lambda: len(cli.records()) == 1 and (cli.folder / "outputs/latest/0/rank_1.log").exists())
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())
    assert cli.records()[0]["status"] == "running"


STARVED = """
from benchkit.api.case import Case, Rank
from benchkit.api.keys import RunConfig
from benchkit.api.registry import suite


@suite
def broken(config: RunConfig, rank: Rank) -> list[Case]:
    \"\"\"One case that finds too little memory, and one that does not.\"\"\"

    def step() -> None:
        raise MemoryError("no room for 9 GB")

    return [Case(step=step, labels={"size": "large"}), Case(labels={"size": "small"})]
"""


@pytest.mark.slow
def test_oom_case_keeps_other_case(cli):
    cli.with_suite(STARVED)
    done = cli("+suite=broken", "-m", "world_size=1,2")
    assert done.returncode == 1
    assert "OOM" in done.stdout
    alone, together = cli.records()
    assert alone["status"] == "oom"
    assert [case["status"] for case in alone["cases"]] == ["oom", "ok"]
    assert len(alone["cases"][1]["samples_s"][0]) == 20
    assert together["status"] == "oom"  # the other rank would wait: the point ends
    assert together["cases"] == []


UNSTORABLE = """
from benchkit.api.case import Case, Rank, Work
from benchkit.api.keys import RunConfig
from benchkit.api.registry import suite


@suite
def broken(config: RunConfig, rank: Rank) -> list[Case]:
    \"\"\"One case of which a record cannot hold something.\"\"\"
    if config.seed == 1:
        return [Case(details=lambda: {"tokens": {3}})]
    return [Case(work=Work(payload_bytes=0.5))]
"""


@pytest.mark.slow
def test_unstorable_result_is_rank_error(cli):
    cli.with_suite(UNSTORABLE)
    assert cli("+suite=broken", "-m", "seed=1,2", "world_size=1").returncode == 1
    errors = [record["error"] for record in cli.records()]
    assert [(error["rank"], error["type"], error["log"]) for error in errors] == [(0, "TypeError", "rank_0.log")] * 2


@pytest.mark.slow
def test_time_out_keeps_samples(cli):
    cli(
        "+suite=allreduce", "data_size=1KiB", "timeout_s=15", "measure.max_seconds=600",
        f"measure.max_iterations={10**9}", "measure.target_rel_ci=1e-9",
    )  # fmt: skip
    [record] = cli.records()
    assert record["status"] == "timeout"
    ended = [(case["status"], case["stopped_by"], bool(case["samples_s"][0])) for case in record["cases"]]
    assert set(ended) == {("ok", "timeout", True)}
    assert not list((cli.folder / "outputs/latest/0").glob("*so_far*"))
