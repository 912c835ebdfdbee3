"""Who may import whom. Rules name folders, so that a file may move within one without a change here."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from benchkit.api.registry import own_modules, suites_in
from benchkit.config.folders import suite_of

from tests.support.cli import ROOT

PACKAGES = ("benchkit", "launch", "analysis")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
TESTS = sorted(path for folder in ("tests", "perf") for path in (ROOT / folder).rglob("*.py"))

PACKAGED = {name.rpartition(".")[0] for name in MODULES if name.count(".") == 2}
"""The folders of the packages."""
FORBIDDEN = {
    "launch": ("benchkit", "analysis", "hydra", "omegaconf"),
    "benchkit": ("analysis",),
    "analysis": ("launch", "torch", "hydra", "omegaconf"),
    "benchkit.suites": ("launch", "analysis", "hydra", "omegaconf", "subprocess", "multiprocessing"),
}
"""By folder: what nothing in it may import."""
FACE = {"benchkit", "benchkit.__main__", "benchkit.cli", "benchkit.python_api", "benchkit.entry_point"}
"""The command line, and what Python imports: it stands above all, and hands in what analysis knows."""
OPEN_TO_ALL = {"launch.trust"}
"""It imports nothing of ours, and whoever reads what another user may have written asks it."""
ONLY_IN = {
    "hydra": r"benchkit\.(config|sweep)\..*",
    "hydra._internal": r".*\.hydra_\w+",
    "hydra.core.hydra_config": r".*\.hydra_\w+",
    "hydra.core.override_parser": r".*\.hydra_\w+",
}
"""By package: the modules that may import it, as a pattern."""
KNOWS_PRIVATE_PARTS = re.compile(r".*\.(\w+_internals|hydra_\w+|fork_server)")
"""The modules that may use private parts of a library; tests of the same names pin what they rely on."""
OPEN_TO_SUITES = ("benchkit.api", "benchkit.errors", "benchkit.statistics")
BUILDS_ON = {"ring_model": "ring_attention", "tp_columnwise": "tensor_parallel", "tp_rowwise": "tensor_parallel"}
"""By suite: the other folder that it imports of; docs/architecture.md says so."""
SHARED = "tensor_parallel"
"""The folder that is no suite."""
KNOWS_A_SUITE = {
    ("benchkit.config", "allreduce"): "--help shows command lines that work",
    ("benchkit.selftest", "allreduce"): "real cases are what a selftest repeats",
    ("benchkit.selftest", "matmul_lut"): "real cases are what a selftest repeats",
}
"""By folder of the core and name of a suite: why it knows that name."""
IS_ABOUT_SUITES = ("benchkit.suites", "analysis.suites", "analysis.acceptance", "analysis.foreign", "analysis.commands")
"""All else is the core. Acceptance, commands of analysis and files of other systems are about certain suites."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


@cache
def imports_of(path: Path, at_load: bool = False) -> frozenset[str]:
    """Every module that a file imports anywhere, for type checkers alone too; or what loading the file imports."""
    found = set()
    for node in loaded(tree_of(path)) if at_load else nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & set(MODULES) or {node.module}
    return frozenset(found)


def loaded(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs when a module is loaded: not the bodies of functions, nor what only type checkers read."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def is_in(module: str, folder: str) -> bool:
    return module == folder or module.startswith(folder + ".")


def folder_of(module: str) -> str:
    """The folder of a module, two names deep; three for a suite; a module beside the folders is one of its own."""
    names = module.split(".")
    return ".".join(names[: 3 if names[1:2] == ["suites"] else 2])


def arrows() -> set[tuple[str, str]]:
    """Which module imports which of ours."""
    found = {(name, other) for name, path in MODULES.items() for other in imports_of(path) if other in MODULES}
    return {(name, other) for name, other in found if name != other}


def circles(edges: set[tuple[str, str]]) -> list[str]:
    """Names that are on a circle of edges: those that are left when all that lead nowhere are taken away."""
    left = set(edges)
    while True:
        sources, targets = {a for a, _ in left}, {b for _, b in left}
        fewer = {(a, b) for a, b in left if b in sources and a in targets}
        if fewer == left:
            return sorted({name for edge in left for name in edge})
        left = fewer


def test_modules_and_folders_have_an_order():
    """Without a circle there is an order in which each imports only what is below it."""
    assert circles(arrows()) == []
    folders = {(folder_of(a), folder_of(b)) for a, b in arrows()}
    assert circles({(a, b) for a, b in folders if a != b}) == []


def test_packages_have_the_order_of_the_documentation():
    """Each package of the table in docs/architecture.md imports only from those that stand before it."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    _, _, section = page.partition("## One order of packages")
    rows = [line.split("|")[2] for line in section.partition("\n## ")[0].splitlines() if line.count("|") == 3]
    names = re.findall(r"`([\w.]+)`", " ".join(rows))
    places = {name: place for place, name in enumerate(names)}

    def place_of(module: str) -> int:
        names = [name for name in places if module == name or (name in PACKAGED and is_in(module, name))]
        return places[max(names, key=len)]

    assert {folder_of(name) for name in MODULES if name not in PACKAGES} >= set(places) & PACKAGED
    assert [(a, b) for a, b in sorted(arrows()) if place_of(a) < place_of(b)] == []


def test_folders_import_nothing_forbidden():
    found = {
        (name, other)
        for folder, forbidden in FORBIDDEN.items()
        for name, path in MODULES.items()
        if is_in(name, folder) and name not in FACE
        for other in imports_of(path)
        if other.split(".")[0] in forbidden and other not in OPEN_TO_ALL
    }
    assert found == set()


def test_libraries_are_known_in_one_place():
    found = {
        (name, other)
        for name, path in MODULES.items()
        for other in imports_of(path)
        for library, allowed in ONLY_IN.items()
        if is_in(other, library) and not re.fullmatch(allowed, name)
    }
    assert found == set()


def test_suites_see_only_the_api():
    suites = [name for name in MODULES if name.count(".") >= 3 and is_in(name, "benchkit.suites")]
    assert suites
    for name in suites:
        suite = name.split(".")[2]
        own = [f"benchkit.suites.{each}" for each in (suite, BUILDS_ON.get(suite, suite))]
        ours = {other for other in imports_of(MODULES[name]) if other.split(".")[0] in PACKAGES}
        assert [other for other in ours if not any(is_in(other, each) for each in (*own, *OPEN_TO_SUITES))] == [], name
        calls = {ast.unparse(node.func) for node in nodes_of(MODULES[name]) if isinstance(node, ast.Call)}
        assert not calls & {"print", "open", "time.perf_counter", "time.time", "time.monotonic"}, name


def test_the_name_of_a_suite_leads_to_three_places():
    """Beside them there are a folder that suites share, and presets of a suite."""
    options = (ROOT / "conf" / "suite").glob("*.yaml")
    names = {path.stem for path in options if suite_of(path) == path.stem}
    assert suites_in(own_modules()).keys() == names
    for suites in ("benchkit.suites", "analysis.suites"):
        assert {name.split(".")[2] for name in MODULES if is_in(name, suites) and name != suites} == {*names, SHARED}
    assert {name for name in (*names, SHARED) if f"benchkit.suites.{name}.suite" in MODULES} == names


def reached(start: str) -> set[str]:
    """What loading the modules of a package loads, directly or by others of ours."""
    waiting, found = [name for name in MODULES if is_in(name, start)], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imports_of(MODULES[name], at_load=True) if name in MODULES else []
            waiting += [name.rpartition(".")[0]] if name in MODULES and "." in name else []
    return found


def test_analysis_loads_nothing_that_measures():
    """A process shows the same of what it loads; this also sees what no command loads."""
    roots = {name.split(".")[0] for name in reached("analysis") - {"launch", *OPEN_TO_ALL}}
    assert not roots & {"torch", "hydra", "omegaconf", "launch"}


def words_in_code(path: Path) -> set[str]:
    """The words of all identifiers and strings of a file, without docstrings and comments, and without `re.compile`."""
    documentation = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    texts: list[str] = []
    for node in nodes_of(path):
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
    core = [name for name in MODULES if not any(is_in(name, folder) for folder in IS_ABOUT_SUITES)]
    found = {(folder_of(module), word) for module in core for word in words_in_code(MODULES[module]) & names}
    assert found == KNOWS_A_SUITE.keys()


def test_private_parts_of_libraries_stay_in_their_modules():
    private = re.compile(r"\._[a-z]|^torch\.ops\b", re.IGNORECASE)
    found = set()
    for name in MODULES:
        if KNOWS_PRIVATE_PARTS.fullmatch(name):
            continue
        for node in nodes_of(MODULES[name]):
            parts = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
                parts.append(ast.unparse(node))
            found |= {(name, part) for part in parts if private.search(part.replace("self._", ""))}
    assert {(name, part) for name, part in found if part != "os._exit"} == set()


def test_tests_import_only_support():
    found = {(path.relative_to(ROOT), name) for path in TESTS for name in imports_of(path) if is_in(name, "tests")}
    assert [(path, name) for path, name in found if not is_in(name, "tests.support")] == []


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
    known = {*sys.stdlib_module_names, *PACKAGES, "hydra_plugins", "tests", "perf", *declared_packages(*extras)}
    undeclared = {(str(path.relative_to(ROOT)), name) for path in paths for name in packages(path) - known}
    assert undeclared == set()


def output_of(program: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.strip()


def test_analysis_loads_no_torch_and_no_extra():
    """Only a page loads the libraries of the extra `html`; else they may be absent."""
    extra = declared_packages("html") - declared_packages()
    assert extra
    program = (
        f"import sys, analysis.cli\nprint(sorted({ {'torch', 'hydra', 'omegaconf', *extra}!r} & sys.modules.keys()))"
    )
    assert output_of(program) == "[]"


def test_cli_loads_no_torch_or_pandas():
    program = (
        "import sys, benchkit.cli\nfrom benchkit.api.registry import load_suites\nload_suites()\n"
        "print([name for name in ('torch', 'pandas', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    assert output_of(program) == "[]"


def test_agent_loads_no_torch():
    program = (
        "import sys, benchkit.point.point\nfrom benchkit import environment\nfrom launch.agents.group import alone\n"
        "benchkit.point.point.form_group(alone()), environment.read_environment()\n"
        "print('torch' in sys.modules, environment.torch_build()['cuda'])"
    )
    torch_is_loaded, cuda = output_of(program).split()
    if cuda != "None":
        pytest.skip("a build for CUDA is asked for its GPUs")
    assert torch_is_loaded == "False"
