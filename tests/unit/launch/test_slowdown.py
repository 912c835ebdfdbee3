"""Brakes: what they do to a process, and that they let go. No test here says how slow is slow."""

import errno
import gc
import os
import signal
import stat
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from launch import host

from tests.support.cli import wait_until
from tests.support.entries.slowdown import CgroupParent, CpuQuota, DutyCycle, QuotaUnavailable, cgroup, mps
from tests.support.entries.slowdown import cgroup as throttle
from tests.support.entries.slowdown import mps as mps_control
from tests.support.kernel import files_of_kernel


@pytest.fixture
def busy():
    """A process that computes for ever."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def state(pid: int) -> str:
    """R for running, T for stopped, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_duty_cycle_stops_until_release(busy):
    throttle = DutyCycle(busy.pid)
    throttle.apply(4.0)
    assert wait_until(lambda: state(busy.pid) == "T")
    assert wait_until(lambda: state(busy.pid) == "R")
    throttle.apply(2.0)
    assert wait_until(lambda: state(busy.pid) == "T")
    throttle.release()
    assert {state(busy.pid) for _ in range(2000)} == {"R"}
    throttle._helper.stdin.close()
    assert throttle._helper.wait(10) == 0
    throttle._helper.stdout.close()


def test_duty_cycle_ends_with_its_process(busy):
    throttle = DutyCycle(busy.pid)
    throttle.apply(2.0)
    busy.kill()
    busy.wait()
    assert throttle._helper.wait(10) == 0
    with pytest.raises(RuntimeError):
        throttle.apply(2.0)
    throttle._helper.stdin.close()
    throttle._helper.stdout.close()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Control groups of both versions as files: this process is in /job/task of each."""

    def make(version: int) -> Path:
        top = tmp_path / "cgroup"
        inside = top / "job" / "task"
        inside.mkdir(parents=True)
        kind, options, name = ("cgroup", "rw,cpu,cpuacct", "cpu,cpuacct") if version == 1 else ("cgroup2", "rw", "")
        files_of_kernel(
            tmp_path,
            f"3:memory:/elsewhere\n1:{name}:/job/task",
            f"1 1 0:1 / /proc rw - proc proc rw\n2 1 0:2 / /cgroup rw,nosuid - {kind} cgroup {options}",
        )
        monkeypatch.setattr(cgroup, "cgroups_by_version", partial(host.cgroups_by_version, root=tmp_path))
        return inside

    return make


def test_cgroup_v1_uses_own_group(tree):
    inside = tree(1)
    assert cgroup.cgroup_parents()[0] == CgroupParent(inside, 1)


def test_cgroup_v2_needs_delegated_cpu_controller(tree):
    inside = tree(2)
    assert cgroup.cgroup_parents() == []
    (inside.parent / "cgroup.subtree_control").write_text("memory cpu\n")
    assert cgroup.cgroup_parents() == [CgroupParent(inside.parent, 2)]


def mechanism_of_auto(threads: int, factor: float) -> str:
    """What `auto` comes to; ends the process beside this one where that is a duty cycle."""
    made = throttle.make_throttle("auto", threads, factor)
    if isinstance(made, DutyCycle):
        made._helper.stdin.close()
        made._helper.wait(10)
        made._helper.stdout.close()
    return made.mechanism


def refusal(make) -> str:
    with pytest.raises(QuotaUnavailable) as refused:
        make()
    return str(refused.value)


def test_auto_falls_back_where_no_quota_can_be_set(tree, golden, tmp_path, monkeypatch):
    tree(2)
    assert cgroup.find_cgroup_parent(0.5) is None
    reasons = [refusal(lambda: throttle.make_throttle("cgroup", 1, 2.0))]
    assert mechanism_of_auto(1, 2.0) == "duty_cycle"

    def denied(path, text):
        raise PermissionError(errno.EACCES, "Permission denied")

    room = tmp_path / "room"
    room.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(throttle, "find_cgroup_parent", lambda cores: CgroupParent(room, 2))
        patch.setattr(cgroup.Path, "write_text", denied)
        reasons.append(refusal(lambda: throttle.make_throttle("cgroup", 1, 2.0)))
        assert mechanism_of_auto(1, 2.0) == "duty_cycle"
    assert list(room.iterdir()) == []
    golden("\n".join(reasons), {r"benchkit-\d+": "benchkit-PID"})


def test_auto_falls_back_on_refused_quota(tree, golden, monkeypatch):
    tree(1)

    def of_one_core(folder, version, cores):
        if cores and cores > 1:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(cgroup, "write_cpu_quota", of_one_core)
    reasons = [refusal(lambda: throttle.make_throttle("cgroup", 4, 2.0))]
    assert mechanism_of_auto(4, 2.0) == "duty_cycle"
    refused = throttle.make_throttle("cgroup", 4, 8.0)
    reasons.append(refusal(lambda: refused.apply(2.0)))
    golden("\n".join(reasons), {r"benchkit-\d+": "benchkit-PID"})


@pytest.mark.parametrize(
    ("factor", "quota", "period"), [(2.0, 10_000, 10_000), (100.0, 1000, 50_000), (4000.0, 1000, 1_000_000)]
)
def test_quota_is_threads_over_factor(tmp_path, factor, quota, period):
    two = CpuQuota(CgroupParent(tmp_path, 2), threads=2)
    folder = tmp_path / f"benchkit-{os.getpid()}"
    assert host.SLOWED_GROUP.fullmatch(folder.name)  # no limit of somebody else
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())
    two.apply(factor)
    assert (folder / "cpu.max").read_text() == f"{quota} {period}"
    two.release()
    assert (folder / "cpu.max").read_text().startswith("max ")
    one = CpuQuota(CgroupParent(tmp_path, 1), threads=2)
    one.apply(factor)
    assert (folder / "cpu.cfs_quota_us").read_text() == str(quota)
    assert (folder / "cpu.cfs_period_us").read_text() == str(period)
    one.release()
    assert (folder / "cpu.cfs_quota_us").read_text() == "-1"


def test_remove_abandoned_keeps_live_groups(tree):
    inside = tree(1)
    dead = subprocess.Popen(["true"])
    dead.wait()
    for name in (f"benchkit-{dead.pid}", f"benchkit-{os.getpid()}", "somebody"):
        (inside / name).mkdir()
    cgroup.remove_stale_cgroups()
    assert {path.name for path in inside.iterdir()} == {f"benchkit-{os.getpid()}", "somebody"}


CONTROL = """#!/bin/sh
echo "$@ $CUDA_MPS_PIPE_DIRECTORY" >> {log}
echo "$CUDA_VISIBLE_DEVICES/$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" >> {log}.environment
if [ "$1" = -d ]; then {start}; fi
read command
echo "asked $command" >> {log}
case "$command" in
get_server_list) test -e "${{CUDA_MPS_PIPE_DIRECTORY:-{default}}}/running" && echo 4242 ;;
quit*) grep SigBlk /proc/$PPID/status >> {log}; rm "$CUDA_MPS_PIPE_DIRECTORY/running" && echo has quit >> {log} ;;
esac
"""


@pytest.fixture
def control(monkeypatch):
    """Stands in for nvidia-cuda-mps-control; `default` is where a daemon of the system would be."""
    with tempfile.TemporaryDirectory() as short:  # the names of sockets are limited
        yield installer(Path(short), monkeypatch)


def installer(folder, monkeypatch):
    default, log = folder / "default", folder / "log"
    default.mkdir()

    def install(start: str) -> tuple[Path, Path]:
        script = folder / mps_control.CONTROL
        script.write_text(CONTROL.format(log=log, start=start, default=default))
        script.chmod(script.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        return default, log

    return install


WORKS = 'touch "$CUDA_MPS_PIPE_DIRECTORY/running"; exit 0'


def test_daemon_is_started_and_stopped(control):
    _, log = control(WORKS)
    with mps.provide_daemon(True) as shares:
        folder = Path(shares["CUDA_MPS_PIPE_DIRECTORY"])
        assert (folder / "running").exists()
        assert shares["CUDA_MPS_LOG_DIRECTORY"]
    assert not folder.exists()
    *_, asked, blocked, last = log.read_text().splitlines()
    assert (asked, last) == ("asked quit -t 1", "has quit")
    assert int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1  # meanwhile a second Ctrl-C changes nothing


STOPPED = "kill -TERM $PPID; exit 0"


@pytest.mark.parametrize(
    "start",
    [
        f'touch "$CUDA_MPS_PIPE_DIRECTORY/running"; {STOPPED}',
        f'(sleep 0.2; touch "$CUDA_MPS_PIPE_DIRECTORY/running") >/dev/null 2>&1 & {STOPPED}',
    ],
    ids=["stopped", "stopped-early"],
)
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_interrupted_daemon_start_quits_daemon(control, monkeypatch, start):
    """The signal may come while a process is being made, which nothing can wait for then."""
    _, log = control(start)
    monkeypatch.setattr(mps_control, "ANSWER_S", 1.0)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises((KeyboardInterrupt, mps_control.MpsUnavailable)), mps.provide_daemon(True):
            pass
    finally:
        signal.signal(signal.SIGTERM, before)
        gc.collect()
    assert log.read_text().splitlines()[-1] == "has quit"
    assert not list(log.parent.glob(f"{mps_control.PREFIX}*"))


def test_daemon_ends_with_an_agent_that_is_killed(control):
    _, log = control(WORKS)
    agent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from launch.slowdown import mps\nwith mps.provide_daemon(True): print(flush=True); input()",
        ],
        env=os.environ | {"TMPDIR": str(log.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    agent.stdout.readline()
    [folder] = log.parent.glob(f"{mps_control.PREFIX}*")
    assert (folder / "running").exists()
    agent.kill()
    agent.communicate()
    assert wait_until(lambda: not folder.exists())
    assert log.read_text().splitlines()[-1] == "has quit"


def test_daemon_ends_a_client_that_is_to_be_killed(control):
    _, log = control(WORKS)
    with mps.provide_daemon(True) as shares:
        mps_control.terminate_client(77, {**os.environ, **shares})
        assert "asked terminate_client 4242 77" in log.read_text().splitlines()
    mps_control.terminate_client(78, {**os.environ, **shares})
    assert "terminate_client 4242 78" not in log.read_text()  # no daemon answers


def test_running_daemon_is_used(control):
    default, log = control("exit 1")
    (default / "running").touch()
    for gpus, agents_here, expected in (
        ([], 1, {}),
        ([], 2, {}),
        (["GPU-b", "MIG-c"], 1, {"CUDA_VISIBLE_DEVICES": "GPU-b,MIG-c"}),
    ):
        with mps.provide_daemon(True, gpus, agents_here=agents_here) as shares:
            assert shares == expected
    assert (default / "running").exists()
    assert "-d" not in log.read_text()


def test_lack_of_mps_has_reason(control, golden, monkeypatch):
    reasons = []

    def refused(**given):
        with pytest.raises(mps_control.MpsUnavailable) as why, mps.provide_daemon(True, **given):
            pass
        reasons.append(str(why.value))

    monkeypatch.setattr(mps_control, "LISTENS_S", 0.2)
    control("echo an unsupported driver >&2; exit 1")
    refused()
    _, log = control("exit 0")
    refused()
    starts = log.read_text().count("-d ")
    refused(agents_here=2)
    assert log.read_text().count("-d ") == starts
    long = log.parent / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    refused()
    assert list(long.iterdir()) == []
    monkeypatch.setenv("PATH", "")
    refused()
    with mps.provide_daemon(False) as shares:
        assert shares == {}
    golden("\n".join(reasons), {"TMPDIR=/.*/x+": "TMPDIR=LONG"})


def test_daemon_may_keep_its_output_open(control, monkeypatch):
    """As the real one might: a pipe would be read until the daemon ends. It listens a little later."""
    control('(sleep 0.3; touch "$CUDA_MPS_PIPE_DIRECTORY/running"; sleep 8) & exit 0')
    monkeypatch.setattr(mps_control, "ANSWER_S", 5.0)
    with mps.provide_daemon(True) as shares:
        assert Path(shares["CUDA_MPS_PIPE_DIRECTORY"], "running").exists()


@pytest.mark.parametrize(
    ("gpus", "chosen"), [(["GPU-b", "GPU-a"], "GPU-b,GPU-a"), (["MIG-c"], "MIG-c"), (["0", "1"], ""), ([], "")]
)
def test_daemon_and_clients_choose_gpus_by_uuid(control, monkeypatch, gpus, chosen):
    """Without UUIDs the daemon would number visible GPUs differently than its clients do, so it serves all."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
    _, log = control(WORKS)
    with mps.provide_daemon(True, gpus) as shares:
        assert shares.get("CUDA_VISIBLE_DEVICES", "") == chosen
    asked, started, *_ = log.with_name("log.environment").read_text().split()
    assert asked == "2,3/10"  # of a daemon of the system, in the environment of the agent
    assert started == f"{chosen}/"
