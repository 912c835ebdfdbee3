"""More that can happen to a sweep, beyond one of each kind."""

import os
import shutil
import signal
import subprocess

import pytest

from tests.support.cli import PATIENCE_S, wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_all_processes_interrupts_run(cli, number):
    """As Slurm sends it: to ranks and fork server as well, and to them first."""
    process = cli.start("+suite=faulty", "fault=hang", "timeout_s=600")
    assert wait_until(lambda: len(cli.records()) == 1 and (cli.folder / "outputs/latest/0/rank_1.log").exists())
    others = [pid for pid in cli.processes() if pid != process.pid]
    assert len(others) >= 3
    for pid in others:
        os.kill(pid, number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE_S)
    assert cli.records()[0]["status"] == "interrupted"
    assert wait_until(lambda: not cli.processes())


def test_concurrent_sweeps_use_own_folders(cli):
    processes = [cli.start("+suite=faulty", "measure.max_iterations=10") for _ in range(2)]
    assert [process.wait(timeout=PATIENCE_S) for process in processes] == [0, 0]
    for process in processes:
        process.communicate()
    assert len([path for path in (cli.folder / "outputs").iterdir() if not path.is_symlink()]) == 2
    assert os.path.islink(cli.folder / "outputs" / "latest")


def test_ctrl_c_ends_sweep_without_folder(cli):
    process = cli.start("+suite=faulty", "-m", "fault=hang,none", "timeout_s=600")
    assert wait_until(lambda: (cli.folder / "outputs/latest/0/rank_1.log").exists())
    shutil.rmtree((cli.folder / "outputs" / "latest").resolve())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert wait_until(lambda: not cli.processes())
