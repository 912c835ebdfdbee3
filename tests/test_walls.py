"""Who may import whom: the layers of the tree, from its imports. A package that reaches over a wall makes the next
suite harder to write.

    python -m tests.test_walls      the tree in numbers: modules and lines per package, arrows, circles, longest chain
"""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.cli import ROOT

LAYERS = (
    ("launch.framing", "launch.signals", "launch.topology"),
    ("launch.slowdown", "launch.agents"),
    ("launch.ranks",),
    ("benchkit", "benchkit.errors", "benchkit.checkout", "benchkit.record", "benchkit.statistics"),
    ("benchkit.api",),
    ("benchkit.environment", "benchkit.suites"),
    ("benchkit.measure", "benchkit.config"),
    ("benchkit.rank",),
    ("benchkit.point",),
    ("analysis.records", "analysis.text", "analysis.table", "analysis.groups", "analysis.repetitions"),
    ("analysis.run_spread", "analysis.baseline", "analysis.speedup"),
    ("analysis.suites", "analysis.report"),
    ("analysis.commands",),
    ("benchkit.sweep",),
    ("benchkit.cli", "benchkit.__main__"),
)
"""From the lowest to the highest: a unit imports from lower layers, and from its own where no circle comes of it."""
PACKAGES = ("benchkit", "launch", "analysis")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
HYDRA_IS_KNOWN_BY = (
    "benchkit.cli",
    "benchkit.config.compose",
    "benchkit.config.point_composer",
    "benchkit.sweep.launchers",
    "benchkit.sweep.sweeper",
)
ANALYSIS_MAY_IMPORT = (
    "benchkit.record",
    "benchkit.statistics",
    "benchkit.api.lut",
    "benchkit.suites.collective.sizes",
    "benchkit.suites.ring_attention.balancing",
    "benchkit.suites.ring_attention.splits",
)
"""Beside records: modules of arithmetic and names, which analysis shares with what measures."""
READS_A_CLOCK = ("benchkit.suites.collective.cases",)
"""Asynchronous calls tell when they return."""
SUITES_MAY_IMPORT = ("benchkit.api", "benchkit.errors", "benchkit.statistics.estimators")


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Every module that a file imports anywhere, for type checkers alone too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & set(MODULES) or {node.module}
    return frozenset(found)


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def unit_of(module: str) -> str:
    """The package or module of LAYERS that a module belongs to."""
    units = [unit for layer in LAYERS for unit in layer]
    return max((unit for unit in units if is_in(module, unit)), key=len, default=module)


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def arrows() -> list[tuple[str, str]]:
    """Which module imports which of ours."""
    found = {(name, other) for name, path in MODULES.items() for other in imports_of(path) if other in MODULES}
    return sorted((name, other) for name, other in found if name != other)


def circles(edges: list[tuple[str, str]]) -> list[str]:
    """Names that are on a circle of edges: those that are left when all that lead nowhere are taken away."""
    left = set(edges)
    while True:
        sources, targets = {a for a, _ in left}, {b for _, b in left}
        fewer = {(a, b) for a, b in left if b in sources and a in targets}
        if fewer == left:
            return sorted({name for edge in left for name in edge})
        left = fewer


def longest_chain(edges: list[tuple[str, str]]) -> int:
    """Nodes on the longest path of a graph without circles."""

    @cache
    def depth(name: str) -> int:
        return 1 + max((depth(b) for a, b in edges if a == name), default=0)

    return max(depth(name) for edge in edges for name in edge)


def level_of(module: str) -> int:
    unit = unit_of(module)
    return next((level for level, layer in enumerate(LAYERS) if unit in layer), len(LAYERS))


def test_no_import_runs_upward():
    assert [(a, b) for a, b in arrows() if level_of(b) > level_of(a)] == []


def test_no_modules_import_each_other():
    assert circles(arrows()) == []


@pytest.mark.parametrize("name", MODULES)
def test_module_keeps_to_its_walls(name):
    path, imported = MODULES[name], packages(MODULES[name])
    if is_in(name, "launch"):
        assert not imported & {"benchkit", "analysis", "hydra", "omegaconf"}
    if is_in(name, "analysis"):
        assert not imported & {"torch", "hydra", "omegaconf", "launch"}
        ours = {other for other in imports_of(path) if is_in(other, "benchkit")}
        assert all(any(is_in(other, allowed) for allowed in ANALYSIS_MAY_IMPORT) for other in ours)
    if is_in(name, "benchkit") and not any(is_in(name, known) for known in HYDRA_IS_KNOWN_BY):
        assert "hydra" not in imported


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") >= 3 and is_in(name, "benchkit.suites")])
def test_suite_imports_the_api_and_itself(name):
    own = ".".join(name.split(".")[:3])
    path = MODULES[name]
    ours = {other for other in imports_of(path) if other.split(".")[0] in PACKAGES}
    assert all(any(is_in(other, allowed) for allowed in (own, *SUITES_MAY_IMPORT)) for other in ours)
    assert not packages(path) & {"subprocess", "multiprocessing", "hydra", "omegaconf"}
    assert name in READS_A_CLOCK or "time" not in packages(path)
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open"}


def output_of(program: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.strip()


def test_analysis_loads_no_torch():
    program = (
        "import sys\nfrom analysis.report import discover\nlist(discover.modules_with('write'))\n"
        "print([name for name in ('torch', 'hydra', 'omegaconf') if name in sys.modules])"
    )
    assert output_of(program) == "[]"


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
    assert output_of(program) == "[]"


def test_an_agent_prepares_a_point_without_torch():
    program = (
        "import sys, benchkit.point.run\nfrom benchkit import environment\nfrom benchkit.point import agents\n"
        "agents.current_agents(), environment.describe()\n"
        "print('torch' in sys.modules, environment.torch_build()['cuda'])"
    )
    torch_is_loaded, cuda = output_of(program).split()
    if cuda != "None":
        pytest.skip("a build for CUDA is asked for its GPUs")
    assert torch_is_loaded == "False"


def test_files_and_functions_keep_to_their_size():
    """Files of at most 200 lines and functions of at most 40, as in the code bases we admire."""
    for path in FILES:
        text = path.read_text()
        assert len(text.splitlines()) <= 200, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 40, f"{path}:{node.name}"


def main() -> None:
    edges = arrows()
    units = sorted({(unit_of(a), unit_of(b)) for a, b in edges if unit_of(a) != unit_of(b)})
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for name, path in MODULES.items():
        lines[unit_of(name)] += len(path.read_text().splitlines())
        files[unit_of(name)] += 1
    for unit in lines:
        print(f"{unit:<28} {files[unit]:>3} modules {lines[unit]:>6} lines")
    upward = sum(level_of(b) > level_of(a) for a, b in edges)
    print(f"{len(units)} arrows between {len(lines)} units, {len(edges)} between modules")
    print(f"upward: {upward}   on circles: {len(circles(edges))}   longest chain of units: {longest_chain(units)}")


if __name__ == "__main__":
    main()
