"""Files, lines, imports and names of checkouts in numbers, side by side.

python -m perf.source NAME=CHECKOUT ... [--names]

--names lists the class names that several classes have, the functions that are bare participles, and the imports from
benchkit into analysis, instead of counting them.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PACKAGES = ("benchkit", "launch", "analysis", "hydra_plugins")
IMPORTS = (ast.Import, ast.ImportFrom)
SUITES = ("benchkit.suites", "analysis.suites", "analysis.acceptance")
CONVERTERS = (
    "analysis.foreign",
    "benchkit.config.ddlb",
    "benchkit.ddlb",
    "analysis.commands.export",
    "analysis.commands.import_results",
)
"""What reads and writes the files of other systems."""
FACE = {f"benchkit.{name}" for name in ("cli", "__main__", "start", "entry_point", "console", "python_api")} | {
    "benchkit"
}
"""The modules of benchkit by which a user enters; these may import analysis."""
PARTICIPLE = re.compile(
    "(?!(embed|exceed|feed|heed|need|proceed|seed|shed|speed|succeed)$)[a-z]+ed|begun|born|bound|built|caught|chosen|done|"
    "drawn|found|given|heard|held|hidden|kept|known|left|lost|made|meant|met|put|said|seen|sent|shown|sought|spent|spoken|"
    "taken|taught|told|torn|worn|written"
)
VAGUE_LOCALS = ("found", "each", "own")


def read_sources(root: Path) -> "dict[str, Source]":
    """The files of a checkout by module."""
    files = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    return {module_of(path.relative_to(root)): Source(path.read_text()) for path in files}


def numbers(root: Path) -> dict[str, str]:
    """What is counted of one checkout, by what it is called in the table."""
    sources = read_sources(root)
    holding = [source for source in sources.values() if source.code]
    code = sum(source.code for source in holding)
    imported = sum(source.imports for source in holding)
    functions = [length for source in holding for length in source.functions]
    arrows = {(name, other) for name, source in sources.items() for other in targets(source.tree, sources) - {name}}
    packages = {(folder_of(a), folder_of(b)) for a, b in arrows}
    packages = {(a, b) for a, b in packages if a != b}
    in_suites, in_converters = (
        sum(source.code for name, source in sources.items() if is_below(name, part)) for part in (SUITES, CONVERTERS)
    )
    upward = imports_of_analysis(sources)
    return {
        "files that hold code": f"{len(holding)}",
        "lines of code": f"{code:,}",
        "of the platform / of suites / of converters": f"{code - in_suites - in_converters:,} / {in_suites:,} / "
        f"{in_converters:,}",
        "lines of docstrings": f"{sum(source.docstrings for source in holding):,}",
        "comments": f"{sum(source.comments for source in holding):,}",
        "imports, share of the code": f"{100 * imported / code:.0f} %",
        "code lines a file, median / p90 / most": spread([source.code for source in holding]),
        "lines a function, median / p90 / most": spread(functions),
        "arrows between files": f"{len(arrows):,}",
        "folders, their arrows": f"{len({name for edge in packages for name in edge})}, {len(packages)}",
        "floors of folders": f"{floors(packages)}",
        "files on a circle": f"{len(on_circle(arrows))}",
        "imports from benchkit into analysis, outside of its face": f"{len(upward)}, "
        f"{sum(name not in FACE for name, _ in upward)}",
        "class names of several classes": f"{len(repeated_class_names(root))}",
        "functions that are a bare participle": f"{sum(1 for _ in bare_participles(sources))}",
        f"locals called {', '.join(VAGUE_LOCALS)}": ", ".join(
            f"{sum(source.locals.count(name) for source in sources.values())}" for name in VAGUE_LOCALS
        ),
    }


def is_below(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def imports_of_analysis(sources: "dict[str, Source]") -> list[tuple[str, str]]:
    """The imports from files of benchkit into files of analysis, also within functions."""
    below = [name for name in sources if is_below(name, ("benchkit",))]
    return [
        (name, other)
        for name in below
        for other in sorted(targets(sources[name].tree, sources))
        if is_below(other, ("analysis",))
    ]


def repeated_class_names(root: Path) -> dict[str, list[str]]:
    """The class names that several classes of a checkout have, and the modules where they are."""
    modules: dict[str, list[str]] = {}
    for module, source in read_sources(root).items():
        for name in source.classes:
            modules.setdefault(name, []).append(module)
    return {name: found for name, found in sorted(modules.items()) if len(found) > 1}


def bare_participles(sources: "dict[str, Source]") -> Iterator[tuple[str, str]]:
    """Modules and functions, or methods that are no properties, whose whole name is a PARTICIPLE."""
    for module, source in sources.items():
        for name in source.called:
            if PARTICIPLE.fullmatch(name.strip("_")):
                yield module, name


def names(root: Path) -> Iterator[str]:
    """Yield a line for each name, or import, that `numbers` only counts."""
    sources = read_sources(root)
    for name, modules in repeated_class_names(root).items():
        yield f"class {name}: {', '.join(modules)}"
    for module, name in bare_participles(sources):
        yield f"participle {name}: {module}"
    for module, other in imports_of_analysis(sources):
        yield f"import {'of the face ' if module in FACE else ''}{module} -> {other}"


class Source:
    """One file, counted. Code is what is neither blank, nor a docstring, nor a comment alone."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        nodes = list(ast.walk(self.tree))
        kinds = list(tokenize.generate_tokens(io.StringIO(text).readline))
        documented = {
            line
            for node in nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        skipped = (
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        )
        lines = {
            line for token in kinds if token.type not in skipped for line in range(token.start[0], token.end[0] + 1)
        }
        self.code = len(lines - documented)
        self.docstrings = len(documented)
        self.comments = sum(token.type == tokenize.COMMENT for token in kinds)
        self.imports = sum((node.end_lineno or 0) - node.lineno + 1 for node in nodes if isinstance(node, IMPORTS))
        self.functions = [
            (node.end_lineno or 0) - node.lineno + 1 for node in nodes if isinstance(node, ast.FunctionDef)
        ]
        self.classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
        self.called = [node.name for node in nodes if isinstance(node, ast.FunctionDef) and not is_property(node)]
        self.locals = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def folder_of(module: str) -> str:
    names = module.split(".")
    return ".".join(names[: 3 if names[1:2] == ["suites"] else 2])


def targets(tree: ast.Module, known: dict[str, Source]) -> set[str]:
    """The modules of ours that a file imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & known.keys() or {node.module} & known.keys()
    return found


def floors(edges: set[tuple[str, str]]) -> int:
    """Folders on the longest way down; of a graph without circles."""
    below: dict[str, set[str]] = {}
    for name, other in edges:
        below.setdefault(name, set()).add(other)

    def height(name: str) -> int:
        return 1 + max((height(other) for other in below.get(name, ())), default=0)

    return max(map(height, below))


def on_circle(edges: set[tuple[str, str]]) -> set[str]:
    while True:
        sources, ends = {a for a, _ in edges}, {b for _, b in edges}
        fewer = {(a, b) for a, b in edges if b in sources and a in ends}
        if fewer == edges:
            return {name for edge in edges for name in edge}
        edges = fewer


def spread(values: list[int]) -> str:
    return f"{np.median(values):.0f} / {np.quantile(values, 0.9):.0f} / {max(values)}"


def main() -> None:
    trees = dict(argument.split("=", 1) for argument in sys.argv[1:] if argument != "--names")
    if not trees:
        sys.exit(__doc__)
    if "--names" in sys.argv:
        for name, root in trees.items():
            print(f"{name}:", *names(Path(root)), sep="\n  ")
        return
    table = {name: numbers(Path(root)) for name, root in trees.items()}
    print("| | " + " | ".join(table) + " |\n|---|" + "---|" * len(table))
    for row in next(iter(table.values())):
        print(f"| {row} | " + " | ".join(column[row] for column in table.values()) + " |")


if __name__ == "__main__":
    main()
