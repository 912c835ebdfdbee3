"""`benchkit.run` as a script or a notebook calls it: from any thread, and stopped by Ctrl-C."""

import re
import signal
import subprocess
import sys

import pytest

from tests.support.cli import ROOT, Cli, begun, wait_until

THREAD = """
import threading, benchkit
def measure():
    for ending in ({"data_size": [0.001, 0.002]}, {"datasize": 1}):
        try:
            print(benchkit.run(suite="allreduce", measure="quick", progress=True, **ending)["status"].unique().tolist())
        except benchkit.ConfigError as error:
            print(error)
thread = threading.Thread(target=measure)
thread.start()
thread.join()
"""
INTERRUPTED = """
import benchkit
try:
    benchkit.run(suite="faulty", fault="hang", world_size=2, arguments=["--config-dir", CONFIG], out="outputs/latest")
except KeyboardInterrupt as error:
    print(error)
"""


def python(cli: Cli, program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=cli.folder, env=cli.environment, text=True, stdout=subprocess.PIPE
    )


@pytest.mark.slow
def test_example_of_page_runs(cli: Cli):
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL)
    assert found
    process = python(cli, found[1])
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert re.fullmatch(r"0\.01 MiB: [\d.e+-]+ ms, [\d.e+-]+ GB/s\n0\.1 MiB: [\d.e+-]+ ms, [\d.e+-]+ GB/s\n", out), out


@pytest.mark.slow
def test_sweep_runs_in_thread_without_main_guard(cli: Cli):
    out, _ = python(cli, THREAD).communicate(timeout=300)
    assert "[1/2] all_reduce gloo cpu x2" in out
    assert [line.split(":")[0] for line in out.splitlines()[-2:]] == ["['ok']", "datasize"]


@pytest.mark.slow
def test_interrupt_stops_sweep_and_says_how_to_go_on(cli: Cli):
    process = python(cli, INTERRUPTED.replace("CONFIG", repr(str(cli.config))))
    assert wait_until(lambda: begun(cli, 0))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert out.strip().endswith(f"benchkit.run(resume='{cli.folder}/outputs/latest')")
    assert cli.records()[0]["status"] == "interrupted"
    assert wait_until(lambda: not cli.processes())
