"""Break numerical code at random places: do the planted truth, and the other tests, notice?

    python -m perf.drawn_breakages [--draws 10] [--seed 1]

Each breakage changes one operator, bound or function in a copy of the checkout. Print a row for each: the place, the
change, and the first test of each kind that fails.
"""

import argparse
import ast
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.breakages import copy_checkout
from tests.support.cli import ROOT

MODULES = (
    "benchkit/measure/timer.py", "benchkit/measure/sampler.py", "benchkit/measure/clocks.py",
    "benchkit/statistics/samples.py", "benchkit/statistics/summary.py", "analysis/records/rows.py",
    "analysis/records/metrics.py", "analysis/records/doubts.py", "analysis/table/repetitions.py",
    "analysis/table/variants.py",
)  # fmt: skip
PLANTED = ("tests/truth",)
OTHERS = (
    "tests/unit/measure", "tests/unit/rank", "tests/unit/point", "tests/unit/analysis", "tests/unit/compare",
    "tests/unit/statistics", "tests/unit/test_statistics.py", "tests/suites",
)  # fmt: skip
"""Tests of samples, metrics and output."""
SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "median": "mean", "argmax": "argmin"}


class Breaker(ast.NodeTransformer):
    """Changes the node with a given number, and counts those that it could change."""

    def __init__(self, target: int = -1) -> None:
        self.target, self.count, self.change = target, 0, ""

    def _is_target(self) -> bool:
        self.count += 1
        return self.count - 1 == self.target

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in SWAPPED and self._is_target():
            node.op = self._swap(node, node.op)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if type(node.ops[0]) in SWAPPED and self._is_target():
            node.ops[0] = self._swap(node, node.ops[0])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if name in NAMES and self._is_target():
            before = ast.unparse(node)
            if isinstance(called, ast.Name):
                called.id = NAMES[name]
            else:
                called.attr = NAMES[name]  # type: ignore[attr-defined]
            self.change = f"{before} -> {ast.unparse(node)}"
        return node

    def _swap(self, node: ast.expr, operator: ast.AST) -> ast.AST:
        self.change = f"{ast.unparse(node)}: {type(operator).__name__} -> {SWAPPED[type(operator)].__name__}"
        return SWAPPED[type(operator)]()


def places() -> Iterator[tuple[str, int]]:
    for module in MODULES:
        breaker = Breaker()
        breaker.visit(ast.parse((ROOT / module).read_text()))
        yield from ((module, number) for number in range(breaker.count))


def first_failure(folder: str, tests: tuple[str, ...]) -> str:
    """Return the first test that fails; "" if none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-n", "2", "-m", "not slow and not cluster", *tests]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:FAILED|ERROR) (\S+?)(?:\[|\s|$)", done.stdout, re.MULTILINE)
    return found[1] if found else "" if done.returncode == 0 else "(does not start)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| file | change | planted truth | other tests |\n|---|---|---|---|")
    for module, number in random.Random(given.seed).sample(list(places()), given.draws):
        with tempfile.TemporaryDirectory() as folder:
            copy_checkout(Path(folder))
            breaker = Breaker(number)
            path = Path(folder) / module
            path.write_text(ast.unparse(breaker.visit(ast.parse(path.read_text()))))
            seen = [first_failure(folder, tests) for tests in (PLANTED, OTHERS)]
        change = breaker.change.replace("|", "\\|")[:90]
        print(f"| {module} | `{change}` | {seen[0] or 'no'} | {seen[1] or 'no'} |", flush=True)


if __name__ == "__main__":
    main()
