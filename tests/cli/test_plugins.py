"""Suites that installed packages bring by an entry point."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT, Cli
from tests.support.recipes import snippet

SOUND = {"vector_sum": "theirs.vector_sum.suite"}


def install(cli: Cli, points: dict[str, str], name: str = "their-package") -> Path:
    """Lays down a package with the suite vector_sum as a wheel is unpacked, and its entry points."""
    site = cli.folder / "site"
    shutil.copytree(ROOT / "tests" / "support" / "foreign", site / "theirs" / "vector_sum", dirs_exist_ok=True)
    (site / "theirs" / "failing.py").write_text("raise RuntimeError('no licence\\nfor this host')\n")
    info = site / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    lines = [f"{key} = {value}" for key, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[benchkit.suites]", *lines, ""]))
    cli.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(site)])
    return site


def test_installed_suite_is_listed_measured_and_shown(cli: Cli, golden):
    install(cli, SOUND)
    listed = cli("--help", "suite").stdout
    assert "vector_sum" in listed
    assert "allreduce (preset of collective)" in listed
    done = cli("+suite=vector_sum", "-m", "world_size=1,2")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert [record["config"]["lengths"] for record in cli.records()] == [[1000, 100000]] * 2
    assert cli("outputs/latest", module="analysis").returncode == 0
    report = cli.folder / "outputs" / "latest" / "report"
    assert "100000" in (report / "vector_sum.md").read_text()
    assert (report / "vector_sum.png").exists()
    (cli.folder / "site" / "theirs" / "vector_sum" / "suite.py").write_text("import absent")
    done = cli("outputs/latest", module="analysis")
    assert done.returncode == 0
    golden(done.stderr)


BROKEN = {
    "absent": "theirs.absent",
    "failing": "theirs.failing",
    "misnamed": "theirs.vector_sum.suite",
    "collective": "theirs.vector_sum.suite",
}


def test_broken_plugins_leave_others_alone(cli: Cli, golden):
    install(cli, SOUND | BROKEN)
    done = cli("+suite=vector_sum", "--dry-run")
    assert done.returncode == 0
    golden(done.stderr)
    assert "all_reduce" in cli("+suite=collective", "--dry-run").stdout  # it is benchkit's


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "collective"])
def test_broken_plugin_that_is_asked_for_says_why(cli: Cli, name, golden):
    install(cli, {name: BROKEN[name]})
    done = cli(f"+suite={name}", "--dry-run")
    assert done.returncode == 2
    golden(done.stderr)


def test_no_package_wins_a_name_that_two_have(cli: Cli, golden):
    install(cli, SOUND)
    install(cli, SOUND, "another")
    done = cli("+suite=vector_sum", "--dry-run")
    assert done.returncode == 2
    golden(done.stderr)
    assert cli("+suite=vector_sum", "--dry-run", BENCHKIT_SUITES="theirs.vector_sum.suite").returncode == 0


@pytest.mark.slow
def test_recipe_package_is_built_installed_and_measured(cli: Cli):
    """The folder of CONTRIBUTING.md as a wheel, which pip installs."""
    source, site = cli.folder / "source", cli.folder / "site"
    package = source / "my_package" / "broadcast"
    (package / "conf" / "suite").mkdir(parents=True)
    (package / "suite.py").write_text(snippet("python"))
    (package / "conf" / "suite" / "broadcast.yaml").write_text(snippet("yaml"))
    (source / "pyproject.toml").write_text(snippet("toml", indent=""))
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    given = ["install", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(site), str(source)]
    subprocess.run([*pip, *given], check=True, capture_output=True)
    cli.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(site)])
    done = cli("+suite=broadcast", "measure=quick")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert re.search("^broadcast ", done.stdout, re.MULTILINE)
