"""Who may import whom: the layers of the tree, from its imports. A package that reaches over a wall makes the next
suite harder to write.

    python -m tests.test_walls      the tree in numbers: modules and lines per package, arrows, circles, longest chain
"""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from tests.support.cli import ROOT

LAYERS = (
    ("launch.framing", "launch.module_path", "launch.signals", "launch.topology"),
    ("launch.slowdown", "launch.agents"),
    ("launch.ranks",),
    (
        "benchkit.version",
        "benchkit.siblings",
        "benchkit.ambient",
        "benchkit.errors",
        "benchkit.checkout",
        "benchkit.gpus",
        "benchkit.record",
        "benchkit.statistics",
        "benchkit.streams",
    ),
    ("benchkit.api",),
    ("benchkit.environment", "benchkit.visible_gpus", "benchkit.selftest.floor"),
    ("benchkit.measure", "benchkit.config", "benchkit.selftest.lookup"),
    ("benchkit.rank",),
    ("benchkit.point",),
    ("benchkit.suites",),
    (
        "analysis.records",
        "analysis.text",
        "analysis.output",
        "analysis.columns",
        "analysis.cells",
        "analysis.table",
        "analysis.shown",
        "analysis.terminal",
        "analysis.groups",
        "analysis.repetitions",
    ),
    ("analysis.run_spread", "analysis.baseline", "analysis.fresh_speedup", "analysis.speedup"),
    ("analysis.frames",),
    ("analysis.suites", "analysis.report"),
    ("analysis.commands", "analysis.page"),
    ("benchkit.sweep",),
    ("benchkit.selftest", "benchkit.compare", "benchkit.study"),
    (
        "benchkit.cli",
        "benchkit.questions",
        "benchkit.start",
        "benchkit.__main__",
        "benchkit.console",
        "benchkit.from_python",
    ),
    ("benchkit", "analysis"),
)
"""From the lowest to the highest: a unit imports from lower layers, and from its own where no circle comes of it."""
PACKAGES = ("benchkit", "launch", "analysis")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
HYDRA_IS_KNOWN_BY = (
    "benchkit.config.compose",
    "benchkit.config.hydra_internals",
    "benchkit.config.hydra_overrides",
    "benchkit.sweep.launchers",
    "benchkit.sweep.sweeper",
)
HYDRA_IS_PRIVATE = ("hydra._internal", "hydra.core.hydra_config", "hydra.core.override_parser")
"""Only hydra_internals and hydra_overrides import these; test_hydra_internals.py pins what of them."""
ANALYSIS_MAY_IMPORT = (
    "benchkit.record",
    "benchkit.statistics",
    "benchkit.streams",
    "benchkit.version",
    "benchkit.api.data_sheet",
    "benchkit.api.details",
    "benchkit.api.lut",
    "benchkit.suites.auto_shard.names",
    "benchkit.suites.collective.names",
    "benchkit.suites.compile.names",
    "benchkit.suites.collective.sizes",
    "benchkit.suites.pair_matrix.names",
    "benchkit.suites.pair_matrix.schedule",
    "benchkit.suites.rank_speed.names",
    "benchkit.suites.ring_attention.balancing",
    "benchkit.suites.ring_attention.names",
    "benchkit.suites.ring_attention.splits",
    "benchkit.suites.tensor_parallel.names",
    "benchkit.suites.transformer.names",
)
"""Beside records: modules of arithmetic and names, which analysis shares with what measures."""
HAS_SUITES = ("benchkit.suites", "analysis.suites", "analysis.commands")
"""The folders of suites; a command of analysis is about what certain suites measure. All else is the core."""
KNOWS_A_SUITE = {
    ("benchkit.config.help", "allreduce"): "--help shows command lines that work",
    ("benchkit.selftest.runs", "allreduce"): "real cases are what a selftest repeats",
    ("benchkit.selftest.runs", "matmul_lut"): "real cases are what a selftest repeats",
    ("benchkit.record.versions", "collective"): "records from before the key `title` do not say it themselves",
}
"""By module and name: why the core has the name of a suite, or of one of its YAML."""
READS_A_CLOCK = ("benchkit.suites.collective.check",)
"""A barrier is checked by a rank that is late."""
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


def test_imports_have_no_cycle():
    assert circles(arrows()) == []


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_only_allowed_packages(name):
    path, imported = MODULES[name], packages(MODULES[name])
    if is_in(name, "launch"):
        assert not imported & {"benchkit", "analysis", "hydra", "omegaconf"}
    if is_in(name, "analysis"):
        assert not imported & {"torch", "hydra", "omegaconf", "launch"}
        ours = {other for other in imports_of(path) if is_in(other, "benchkit")}
        assert all(any(is_in(other, allowed) for allowed in ANALYSIS_MAY_IMPORT) for other in ours)
    if is_in(name, "benchkit") and not any(is_in(name, known) for known in HYDRA_IS_KNOWN_BY):
        assert "hydra" not in imported
    if name not in ("benchkit.config.hydra_internals", "benchkit.config.hydra_overrides"):
        assert not [other for other in imports_of(path) if any(is_in(other, part) for part in HYDRA_IS_PRIVATE)]


@pytest.mark.parametrize("name", [name for name in MODULES if name.count(".") >= 3 and is_in(name, "benchkit.suites")])
def test_suite_imports_only_api_and_itself(name):
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


def vocabulary(suite: str) -> set[str]:
    """The texts that the names of a suite stand for."""
    names = vars(importlib.import_module(f"benchkit.suites.{suite}.names"))
    return {str(text) for name, text in names.items() if name.isupper() and isinstance(text, str)}


def texts_of(node: ast.expr) -> set[str]:
    """The text of an expression, or of each item of a display."""
    nodes = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {one.value for one in nodes if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def texts_read(path: Path) -> set[str]:
    """What a module compares with, reads in brackets, or hands to get()."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            found = found.union(*map(texts_of, (node.left, *node.comparators)))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            found |= texts_of(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found |= texts_of(node.args[0])
    return found


@pytest.mark.parametrize("suite", [path.parent.name for path in FILES if path.name == "names.py"])
def test_analysis_uses_names_of_suite(suite):
    names = vocabulary(suite)
    assert names
    for module, path in MODULES.items():
        if is_in(module, f"analysis.suites.{suite}"):
            assert not names & texts_read(path), path


def words_in_code(path: Path) -> set[str]:
    """The words of all identifiers and strings of a file, without docstrings and comments, and without `re.compile`."""
    tree = ast.parse(path.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts: list[str] = []
    for node in ast.walk(tree):
        if id(node) not in documentation and not makes_pattern(node):
            texts += [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
    return {word for text in texts for word in re.findall(r"\w+", text)}


def makes_pattern(node: ast.AST) -> bool:
    """Whether this is `re.compile`."""
    return isinstance(node, ast.Attribute) and node.attr == "compile" and ast.unparse(node.value) == "re"


def test_core_names_no_suite():
    """A suite brings what it needs through benchkit.api, so that another one can do the same without a change here."""
    folders = {path.parent.name for path in (ROOT / "benchkit" / "suites").glob("*/suite.py")}
    names = folders | {path.stem for path in (ROOT / "conf" / "suite").glob("*.yaml")}
    core = [name for name in MODULES if not any(is_in(name, folder) for folder in HAS_SUITES)]
    found = {(module, word) for module in core for word in words_in_code(MODULES[module]) & names}
    assert found == KNOWS_A_SUITE.keys()


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


CHANGES = (
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
    "reverse", "set", "setdefault", "sort", "update",
)  # fmt: skip
"""Methods that change an object."""


def changed_by(node: ast.AST) -> ast.expr | None:
    """What a node changes, or sets beside plain names."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node if isinstance(node, ast.Attribute) else node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return node.func.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
        return node.args[0]
    return None


def process_wide_state(module: str, text: str) -> set[str]:
    """What outlives a call and is not handed over: functions that cache, and what functions change outside themselves.

    A change is known by its form: a `global` statement; or an item or an attribute that is set, `next`, or a method of
    CHANGES, of a name that is not the function's own. A change by way of another name or of a call is not seen.
    """
    tree, found, modules, origin = ast.parse(text), set(), {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in tree.body + [each for owner in classes for each in owner.body]:
        if not isinstance(node, ast.FunctionDef):
            continue
        if any(ast.unparse(each).split("(")[0].endswith("cache") for each in node.decorator_list):
            found.add(f"{module}.{node.name}")
        nodes = list(ast.walk(node))
        own = {each.arg for each in nodes if isinstance(each, ast.arg)}
        own |= {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        rebound = {name for each in nodes if isinstance(each, ast.Global) for name in each.names}
        found |= {f"{module}.{name}" for name in rebound}
        for changed in filter(None, map(changed_by, nodes)):
            name, _, rest = ast.unparse(changed).partition(".")
            if name.isidentifier() and name not in own - rebound and (rest or name not in modules):
                whole = modules.get(name) or origin.get(name) or f"{module}.{name}"
                found.add(f"{whole}.{rest}" if rest else whole)
    return found


def documented_state() -> set[str]:
    """The names in the table of docs/architecture.md."""
    _, section = (ROOT / "docs" / "architecture.md").read_text().split("## Process-wide state\n")
    rows = [line.split("|")[1] for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]
    return set(re.findall("`(.+?)`", " ".join(rows)))


def test_process_wide_state_is_documented():
    found = set().union(*(process_wide_state(name, path.read_text()) for name, path in MODULES.items()))
    advice = "hand the value over; where that cannot be, name it with the reason in docs/architecture.md"
    assert found - documented_state() == set(), advice
    assert documented_state() - found == set(), "no longer there: take it out of docs/architecture.md"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A = []\ndef f(x): A.append(x)", {"m.A"}),
        ("A = {}\nclass C:\n    def f(self, x): A[x] = 1", {"m.A"}),
        ("A = {}\ndef f():\n    def g(): del A[1]\n    return g", {"m.A"}),
        ("A = 0\ndef f():\n    global A\n    A += 1", {"m.A"}),
        ("A = count()\ndef f(): return next(A)", {"m.A"}),
        ("A = ContextVar('a')\ndef f(): A.set(1)", {"m.A"}),
        ("class C:\n    a = 1\ndef f(): C.a = 2", {"m.C.a"}),
        ("from n import A\ndef f(): A.update(b=1)", {"n.A"}),
        ("import os\ndef f(): os.environ['B'] = ''", {"os.environ"}),
        ("@functools.cache\ndef f(): pass", {"m.f"}),
        ("class C:\n    @lru_cache(maxsize=1)\n    def f(self): pass", {"m.f"}),
        ("A = []\ndef f(A): A.append(1)", set()),
        ("A = {}\ndef f():\n    A = {}\n    A[1] = 2", set()),
        ("A = {1: 2}\nA[3] = 4\ndef f(): return A[1]", set()),
        ("import numpy as np\ndef f(x): return np.add(x, 1)", set()),
        ("class C:\n    def f(self): self.a = []; self.a.append(1)", set()),
    ],
)
def test_process_wide_state_is_detected(text, found):
    assert process_wide_state("m", text) == found


PRIVATE_PARTS = {
    "benchkit.api.compiler_internals": "torch",
    "benchkit.api.torch_internals": "torch",
    "benchkit.config.hydra_internals": "hydra",
    "benchkit.config.hydra_overrides": "hydra",
    "launch.ranks.fork_server": "multiprocessing",
}
"""The modules that know the private parts of a library."""


@pytest.mark.parametrize("name", sorted(set(MODULES) - set(PRIVATE_PARTS)))
def test_private_apis_stay_in_internals_modules(name):
    private = re.compile(r"\._[a-z]|^torch\.ops\b", re.IGNORECASE)
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        parts = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            parts.append(ast.unparse(node))
        for part in set(parts) - {"os._exit"}:
            assert not private.search(part.replace("self._", "")), f"{part}: move it to one of {sorted(PRIVATE_PARTS)}"


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tests_import_only_support(path):
    ours = {name for name in imports_of(path) if name.startswith("tests.")}
    allowed = ("tests.support", *(["perf"] if path.parent.name == "perf" else []))
    assert all(name.startswith(allowed) for name in ours)


def declared_packages(*extras: str) -> set[str]:
    """The import names of what pyproject.toml depends on, with some of its extras."""
    wanted = set()
    for line in requires("benchkit") or ():
        requirement, _, marker = line.partition(";")
        if "extra ==" not in marker or any(f'"{extra}"' in marker.replace("'", '"') for extra in extras):
            wanted.add(canonical(re.split(r"[\s<>=!~\[]", requirement, maxsplit=1)[0]))
    return {name for name, found in packages_distributions().items() if wanted & set(map(canonical, found))}


def canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


PAGE = [path for path in FILES if path.parent == ROOT / "analysis" / "page"]
OF_ANALYSIS = [path for path in FILES if ROOT / "analysis" in path.parents and path not in PAGE]
MEASURES = [path for path in FILES if ROOT / "analysis" not in path.parents]


@pytest.mark.parametrize(
    ("paths", "extras"),
    [(OF_ANALYSIS, ()), (MEASURES, ("torch",)), (PAGE, ("html",)), (TESTS, ("torch", "dev", "html"))],
    ids=["analysis", "measures", "page", "tests"],
)
def test_imports_are_declared_dependencies(paths, extras):
    """What an environment happens to hold beside them is missing in the next one."""
    known = {*sys.stdlib_module_names, *PACKAGES, "hydra_plugins", "tests", *declared_packages(*extras)}
    undeclared = {(str(path.relative_to(ROOT)), name) for path in paths for name in packages(path) - known}
    assert undeclared == set()


def test_analysis_needs_no_extra():
    """Only a page loads the libraries of the extra `html`; else they may be absent."""
    extra = declared_packages("html") - declared_packages()
    program = f"import sys, analysis.__main__\nprint(sorted({extra!r} & sys.modules.keys()))"
    assert extra
    assert output_of(program) == "[]"


def test_cli_loads_no_torch_or_pandas():
    program = (
        "import sys, benchkit.cli\nfrom benchkit.api.registry import load_suites\nload_suites()\n"
        "print([name for name in ('torch', 'pandas', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    assert output_of(program) == "[]"


def test_agent_loads_no_torch():
    program = (
        "import sys, benchkit.point.run\nfrom benchkit import environment\nfrom launch.agents.group import alone\n"
        "benchkit.point.run.form_group(alone()), environment.describe()\n"
        "print('torch' in sys.modules, environment.torch_build()['cuda'])"
    )
    torch_is_loaded, cuda = output_of(program).split()
    if cuda != "None":
        pytest.skip("a build for CUDA is asked for its GPUs")
    assert torch_is_loaded == "False"


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
