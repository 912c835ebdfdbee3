"""Files, functions and lines of source trees in numbers, side by side.

python -m perf.source NAME=FOLDER[,FOLDER...] ...
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

WIDE = 100
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def numbers(folders: list[Path]) -> dict[str, str]:
    """What is counted of one source tree, by what it is called in the table."""
    texts = [path.read_text() for folder in folders for path in sorted(folder.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts]
    lines = [line for text in texts for line in text.splitlines()]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = [node for node in nodes if isinstance(node, COMPREHENSIONS)]
    nested = sum(len(list(inner(node))) > 0 for node in found)
    return {
        "files / lines": f"{len(texts)} / {len(lines):,}",
        "file median/p90/max": spread([len(text.splitlines()) for text in texts]),
        "function median/p90/max": spread([(node.end_lineno or 0) - node.lineno + 1 for node in functions]),
        "fully annotated": f"{100 * share(map(is_annotated, functions)):.0f} %",
        "function docstrings": f"{100 * share(ast.get_docstring(node) is not None for node in functions):.0f} %",
        f"lines over {WIDE} columns": f"{100 * share(len(line) > WIDE for line in lines):.1f} %",
        "comprehensions per 1,000 lines (nested)": f"{1000 * len(found) / len(lines):.0f} ({nested})",
        "lambdas / walrus": f"{count(nodes, ast.Lambda)} / {count(nodes, ast.NamedExpr)}",
        "files in the fullest folder": str(max(fullest(folder) for folder in folders)),
    }


def spread(values: list[int]) -> str:
    return f"{np.median(values):.0f}/{np.quantile(values, 0.9):.0f}/{max(values)}"


def share(values) -> float:
    return float(np.mean(list(values)))


def count(nodes: list[ast.AST], kind: type) -> int:
    return sum(isinstance(node, kind) for node in nodes)


def inner(node: ast.AST) -> Iterator[ast.AST]:
    return (other for other in ast.walk(node) if other is not node and isinstance(other, COMPREHENSIONS))


def is_annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    own = [each for each in arguments if each.arg not in ("self", "cls")]
    return function.returns is not None and all(each.annotation for each in own)


def fullest(folder: Path) -> int:
    return max(len(list(path.glob("*.py"))) for path in [folder, *folder.rglob("*")] if path.is_dir())


def main() -> None:
    trees = dict(argument.split("=", 1) for argument in sys.argv[1:])
    table = {name: numbers([Path(folder) for folder in folders.split(",")]) for name, folders in trees.items()}
    print("| | " + " | ".join(table) + " |\n|---|" + "---|" * len(table))
    for row in next(iter(table.values())):
        print(f"| {row} | " + " | ".join(column[row] for column in table.values()) + " |")


if __name__ == "__main__":
    main()
