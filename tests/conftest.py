"""What all tests share."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import ROOT, Cli, cleaned


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    yield from cleaned(Cli(tmp_path))


@pytest.fixture(scope="module")
def module_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The same for a sweep that several tests look at."""
    yield from cleaned(Cli(tmp_path_factory.mktemp("sweep")))


DEVCLUSTER = ROOT / "launch" / "slurm_devcluster"


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """A Slurm of two nodes: the one that runs here already, or one started for the tests."""
    told = subprocess.run([DEVCLUSTER, "status"], capture_output=True, text=True, check=False)
    if told.returncode not in (0, 3):
        pytest.skip(told.stderr.strip())
    if told.returncode == 3:
        subprocess.run([DEVCLUSTER, "up"], check=True)
    yield
    if told.returncode == 3:
        subprocess.run([DEVCLUSTER, "down"], check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Iterator[None]:
    """Where BENCHKIT_NO_SKIPS is set, "skipped because something is missing here" is a failure."""
    report = yield
    if report.skipped and os.environ.get("BENCHKIT_NO_SKIPS"):
        report.outcome = "failed"
    return report
