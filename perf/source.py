"""Files, lines and imports of checkouts in numbers, side by side.

python -m perf.source NAME=CHECKOUT ...
"""

import ast
import io
import sys
import tokenize
from pathlib import Path

import numpy as np

PACKAGES = ("benchkit", "launch", "analysis", "hydra_plugins")
IMPORTS = (ast.Import, ast.ImportFrom)


def numbers(root: Path) -> dict[str, str]:
    """What is counted of one checkout, by what it is called in the table."""
    files = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    sources = {module_of(path.relative_to(root)): Source(path.read_text()) for path in files}
    holding = [source for source in sources.values() if source.code]
    code = sum(source.code for source in holding)
    imported = sum(source.imports for source in holding)
    functions = [length for source in holding for length in source.functions]
    arrows = {(name, other) for name, source in sources.items() for other in targets(source.tree, sources) - {name}}
    packages = {(folder_of(a), folder_of(b)) for a, b in arrows}
    packages = {(a, b) for a, b in packages if a != b}
    return {
        "files that hold code": f"{len(holding)}",
        "lines of code": f"{code:,}",
        "lines of docstrings": f"{sum(source.docstrings for source in holding):,}",
        "comments": f"{sum(source.comments for source in holding):,}",
        "imports, share of the code": f"{100 * imported / code:.0f} %",
        "code lines a file, median / p90 / most": spread([source.code for source in holding]),
        "lines a function, median / p90 / most": spread(functions),
        "arrows between files": f"{len(arrows):,}",
        "folders, their arrows": f"{len({name for edge in packages for name in edge})}, {len(packages)}",
        "floors of folders": f"{floors(packages)}",
        "files on a circle": f"{len(on_circle(arrows))}",
    }


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
    trees = dict(argument.split("=", 1) for argument in sys.argv[1:])
    if not trees:
        sys.exit(__doc__)
    table = {name: numbers(Path(root)) for name, root in trees.items()}
    print("| | " + " | ".join(table) + " |\n|---|" + "---|" * len(table))
    for row in next(iter(table.values())):
        print(f"| {row} | " + " | ".join(column[row] for column in table.values()) + " |")


if __name__ == "__main__":
    main()
