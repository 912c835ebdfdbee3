"""A repository as docs/ci.md describes it: the page's own files and command, and a kernel to measure."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.cli import ROOT

PAGE = (ROOT / "docs" / "ci.md").read_text()
WORKFLOW = ".github/workflows/speed.yaml"
KERNEL = '''"""The code under test."""

import time


def step(matrix):
    """{remark}"""
    for _ in range({rounds}):
        {body}
'''
PRODUCT, PAUSE = "matrix @ matrix", "time.sleep(1e-3)"
"""What a step does over and over; a pause takes as long whatever else runs on the machine."""


def files() -> dict[str, str]:
    """The files that the page shows, by path."""
    found = re.findall(r"^`([\w./-]+)`[^\n]*:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return dict(found)


def command() -> str:
    """The shell of the workflow's step."""
    _, script = files()[WORKFLOW].split("        run: |\n")
    lines = script.splitlines()
    own = lines[: next(number for number, line in enumerate(lines) if not line.startswith(" " * 10))]
    return "\n".join(line[10:] for line in own)


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", *identity, *words], check=True, capture_output=True, cwd=folder)


def commit(folder: Path, remark: str, rounds: int, body: str) -> None:
    (folder / "product.py").write_text(KERNEL.format(remark=remark, rounds=rounds, body=body))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", remark)


def make_repository(folder: Path, slower_rounds: int, rounds: int = 20, body: str = PRODUCT) -> Path:
    """Makes branches of the same speed and of a slower one; origin/main is what they come from."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".gitignore").write_text("outputs/\n__pycache__/\n")
    commit(folder, "Begin", rounds, body)
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    for branch, count in (("same", rounds), ("slower", slower_rounds)):
        git(folder, "checkout", "--quiet", "-b", branch, "main")
        commit(folder, f"Change what is {branch}", count, body)
    return folder


def run_gate(folder: Path, branch: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """Runs the workflow's command on a branch.

    Args:
        folder: the repository.
        branch: of the pull request.
        changes: texts of the command that others take the place of, by name of the flag.
    """
    git(folder, "checkout", "--quiet", branch)
    script = command().replace("python -m", f"{sys.executable} -m")
    for flag, value in changes.items():
        script = re.sub(rf"--{flag.replace('_', '-')} \S+", f"--{flag.replace('_', '-')} {value}", script)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    own = {
        "BENCHKIT_SUITES": "speed.kernel",
        "GITHUB_STEP_SUMMARY": str(folder / "outputs" / f"{branch}.md"),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    (folder / "outputs").mkdir(exist_ok=True)
    return subprocess.run(
        ["bash", "-e", "-c", script.replace("outputs/compare", f"outputs/compare_{branch}")],
        cwd=folder, env=os.environ | own, capture_output=True, text=True, check=False,
    )  # fmt: skip
