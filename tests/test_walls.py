"""Who may import whom. A package that reaches over a wall makes the next suite harder to write."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT

FILES = sorted(path for package in ("benchkit", "launch", "analysis") for path in (ROOT / package).rglob("*.py"))
HYDRA_MAY_BE_KNOWN_BY = {"app.py", "composition.py", "launchers.py", "points.py", "submit.py", "sweep.py"}
PURE = ("balancing", "estimators", "intervals", "lut", "modes", "splits", "statistics", "models.collectives.sizes")
"""Modules of arithmetic and names, which analysis shares with what measures."""
ANALYSIS_MAY_IMPORT = tuple(f"benchkit.{name}" for name in ("record", *PURE))
SUITES_MAY_IMPORT = {"case", "config", "errors", "lut", "models", "registry", "verification"}


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports anywhere, as "package.module"."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_reaches_over_a_wall(path):
    package, imported = path.relative_to(ROOT).parts[0], packages(path)
    if package == "launch":
        assert not imported & {"benchkit", "analysis", "hydra", "omegaconf"}
    if package == "analysis":
        assert not imported & {"torch", "hydra", "omegaconf", "launch"}
        ours = {name for name in imports_of(path) if name.startswith("benchkit.")}
        assert all(name.startswith(ANALYSIS_MAY_IMPORT) for name in ours)
    if package == "benchkit" and path.name not in HYDRA_MAY_BE_KNOWN_BY:
        assert "hydra" not in imported


@pytest.mark.parametrize("path", sorted((ROOT / "benchkit" / "suites").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_a_suite_times_prints_and_starts_nothing(path):
    ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("benchkit.")}
    assert ours <= SUITES_MAY_IMPORT
    assert not packages(path) & {"time", "subprocess", "multiprocessing", "hydra", "omegaconf", "launch", "analysis"}
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open"}


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_import_from_support_and_never_from_each_other(path):
    ours = {name for name in imports_of(path) if name.startswith("tests.")}
    allowed = ("tests.support", *(["tests.perf"] if path.parent.name == "perf" else []))
    assert all(name.startswith(allowed) for name in ours)


def test_the_command_line_is_understood_without_torch_or_pandas():
    program = (
        "import sys, benchkit.cli\nfrom benchkit.api.registry import load_suites\nload_suites()\n"
        "print([name for name in ('torch', 'pandas', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_an_agent_prepares_a_point_without_torch():
    program = (
        "import sys, benchkit.point.run\nfrom benchkit import crew, environment\n"
        "crew.crew(), environment.describe()\nprint('torch' in sys.modules, environment.torch_build()['cuda'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    if done.stdout.split()[1] != "None":
        pytest.skip("a build for CUDA is asked for its GPUs")
    assert done.stdout.split()[0] == "False"


def test_rooms_keep_to_their_size():
    """Files of at most 200 lines and functions of at most 40, as in the code bases we admire."""
    for path in FILES:
        text = path.read_text()
        assert len(text.splitlines()) <= 200, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 40, f"{path}:{node.name}"
