"""benchkit on emulated GPUs (tests/support/emulator): `make gpu` builds the emulator and runs these tests."""

import contextlib
import os
import uuid
from pathlib import Path

import pytest

from tests.support.cli import ROOT, Cli
from tests.support.emulator.build import environment
from tests.support.hosts import two_hosts

FOLDER = Path(os.environ["BENCHKIT_EMULATOR"])
DRIVER = Path("/dev/nvidiactl")
"""What tells benchkit that there is a driver."""


class Machine(Cli):
    """benchkit's command line on a machine with emulated GPUs."""

    def __init__(self, folder: Path, gpus: int) -> None:
        super().__init__(folder)
        emulated = environment(FOLDER, gpus)
        self.environment |= emulated | {"PYTHONPATH": f"{emulated['PYTHONPATH']}:{ROOT}"}
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")  # torch makes a folder there before it dumps traces


@pytest.fixture(scope="session", autouse=True)
def driver():
    """The device of a driver, for as long as the tests take; root is needed where there is none."""
    made = not DRIVER.exists()
    if made:
        DRIVER.touch()
    yield
    if made:
        with contextlib.suppress(FileNotFoundError):  # another worker was faster
            DRIVER.unlink()


@pytest.fixture
def machine(tmp_path):
    """Makes a machine with some GPUs; nothing of its runs is left at the end."""
    made = []

    def make(gpus: int) -> Machine:
        made.append(Machine(tmp_path, gpus))
        return made[-1]

    yield make
    for each in made:
        assert not each.processes(), "processes are left"


@pytest.fixture
def hosts(tmp_path):
    """The names of two hosts without GPUs of their own: they share those of a machine."""
    with two_hosts(uuid.uuid4().hex) as names:
        yield names
