"""A wheel built from the checkout works where there is no checkout: conf travels inside."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.cli import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, as pip would lay it into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_wheel_runs_outside_checkout(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    commands = (
        ["benchkit", "+suite=allreduce", "measure=quick", "-m", "data_size=0.001,0.01"],
        ["analysis", "outputs/latest"],
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "outputs" / "latest" / "analysis" / "combined.csv").exists()
    where = subprocess.run(
        [sys.executable, "-c", "from benchkit.config.folders import config_folder; print(config_folder())"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.strip() == str(installed / "benchkit" / "conf")
