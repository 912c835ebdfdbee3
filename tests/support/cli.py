"""Runs benchkit as a user does: in a process of its own, in an empty folder."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = "BENCHKIT_TEST_MARK"
SUITES = "tests.support.faulty"
BROKEN_YAML = """# @package _global_
defaults:
  - /schema/suite@_global_: broken
  - override /measure: quick
  - _self_

suite: broken
"""
PATIENCE_S = 300
"""How long a test waits for what must come; on a busy machine everything takes its time."""


class Cli:
    """Starts `python -m MODULE` in a folder, with a mark in the environment that all its processes inherit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = ROOT / "tests" / "conf"
        self.mark = uuid.uuid4().hex
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            **os.environ,
            MARK: self.mark,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "BENCHKIT_SUITES": SUITES,
            "COLUMNS": "120",  # pytest may have set that of its own terminal
        }
        self.environment.pop("HYDRA_FULL_ERROR", None)

    def start(
        self, *arguments: str, module: str = "benchkit", under: Sequence[str] = (), **variables: str
    ) -> "subprocess.Popen[str]":
        """Starts and returns at once. `under`: a launcher's command line, which ours follows."""
        command = [*under, "-m", module] if "torch.distributed.run" in under else [*under, sys.executable, "-m", module]
        if module == "benchkit":
            command += ["--config-dir", str(self.config)]
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.folder,
            env=self.environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def agents(self, count: int, *arguments: str, **variables: str) -> "list[subprocess.Popen[str]]":
        """Starts as many agents by hand, in the environment that mpirun would give each, on nodes n0, n1, …"""
        return [
            self.start(
                *arguments, OMPI_COMM_WORLD_SIZE=str(count), OMPI_COMM_WORLD_RANK=str(index), PMIX_NAMESPACE=self.mark,
                SLURMD_NODENAME=f"n{index}", **variables,
            )
            for index in range(count)
        ]  # fmt: skip

    def __call__(
        self, *arguments: str, module: str = "benchkit", under: Sequence[str] = (), **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Runs to the end."""
        process = self.start(*arguments, module=module, under=under, **variables)
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate(timeout=PATIENCE_S)
            raise AssertionError(f"no end within {PATIENCE_S} s\n{out}\n{err}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def with_suite(self, python: str, keys: str = "") -> None:
        """Lays down a suite named `broken`, outside the checkout; `keys` are its lines of YAML."""
        (self.folder / "broken.py").write_text(python)
        (self.folder / "conf" / "suite").mkdir(parents=True)
        (self.folder / "conf" / "suite" / "broken.yaml").write_text(BROKEN_YAML + keys)
        self.environment["BENCHKIT_SUITES"] = "broken"
        self.environment["PYTHONPATH"] += f"{os.pathsep}{self.folder}"
        self.config = self.folder / "conf"

    def records(self) -> list[dict[str, Any]]:
        """The records of the latest sweep, in order of the points."""
        paths = sorted((self.folder / "outputs" / "latest").glob("*/record.json"), key=lambda p: int(p.parent.name))
        return [json.loads(path.read_text()) for path in paths]

    def processes(self) -> list[int]:
        """All processes that this object's commands have started, at any depth, and that still live."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                alive = entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    """Waits for a condition; False where it did not come true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def cleaned(cli: Cli) -> Iterator[Cli]:
    yield cli
    for pid in cli.processes():
        os.kill(pid, signal.SIGKILL)


def ends(processes: "list[subprocess.Popen[str]]", timeout: float = PATIENCE_S) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each."""
    told = [process.communicate(timeout=timeout) for process in processes]
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, told, strict=True)]


def begun(cli: Cli, point: int, rank: int = 0) -> bool:
    """Whether a rank of a point has said its first word."""
    log = cli.folder / "outputs" / "latest" / str(point) / f"rank_{rank}.log"
    return log.exists() and bool(log.read_text())
