"""The wheel in a fresh environment works in an empty folder: conf travels inside."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.cli import ROOT


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel by pip, and what it needs from this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    built = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([*pip, *built], check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    installed = ["--python", str(folder / "venv"), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *installed], check=True, capture_output=True)
    [site] = folder.glob("venv/lib/python*/site-packages")
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))  # last: pip must not see this checkout's benchkit
    return folder / "venv" / "bin"


@pytest.mark.parametrize(
    ("measure", "analyse"),
    [(["benchkit"], ["benchkit-analysis"]), (["python", "-m", "benchkit"], ["python", "-m", "analysis"])],
)
def test_wheel_works_in_an_empty_folder(commands, tmp_path, measure, analyse):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for (program, *words), arguments in (
        (measure, ["+suite=allreduce", "measure=quick", "-m", "data_size=0.001,0.01"]),
        (analyse, ["outputs/latest"]),
    ):
        done = subprocess.run(
            [commands / program, *words, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "outputs" / "latest" / "report" / "combined.csv").exists()


def test_its_yaml_is_in_the_wheel(commands, tmp_path):
    code = (
        "import benchkit; from benchkit.config.folders import config_folder; print(config_folder(), benchkit.__file__)"
    )
    done = subprocess.run(
        [commands / "python", "-c", code], cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    conf, package = map(Path, done.stdout.split())
    assert conf == package.parent / "conf"
    assert package.is_relative_to(commands.parent)
