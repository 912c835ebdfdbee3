"""Prints the oldest versions that pyproject.toml allows, as constraints of pip; `make oldest` tests with them.

torch is that of constraints.txt: its older builds for CPUs are in no package index of Python.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND = re.compile(r'"([\w.-]+)>=([\w.]+)')


def main() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = text[text.index("dependencies = [") : text.index("dev = [")]
    needed += "".join(line for line in text.splitlines() if line.startswith(("html = ", "parquet = ")))
    oldest = dict(BOUND.findall(needed)) | {"torch": pinned("torch")}
    print("\n".join(f"{name}=={version}" for name, version in oldest.items()))


def pinned(name: str) -> str:
    found = re.search(rf"^{name}==([\w.]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    assert found
    return found[1]


if __name__ == "__main__":
    main()
