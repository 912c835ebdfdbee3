"""What a platform lacks is gone round, or said in one line: the rows of docs/results/platform.md."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.support import refusal
from tests.support.cli import ROOT

PAGE = ROOT / "docs" / "results" / "platform.md"
SWEEP = "+suite=allreduce data_size=0.01 measure=quick world_size=2"
OUTCOMES = {
    "measures": (0, ["ok"]), "error": (1, ["error"]), "unavailable": (1, ["unavailable"]), "exit 1": (1, []),
    "exit 2": (2, []),
}  # fmt: skip
"""Exit code and statuses, by how the last cell of a row begins."""
ROWS = [
    (*re.findall("`([^`]+)`", denied), outcome.strip().partition(":")[0])
    for _, _, _, denied, outcome, _ in (line.split("|") for line in PAGE.read_text().splitlines() if "| `" in line)
]
"""What is denied, what is typed beside the sweep or instead of it, and the outcome."""
GONE_ROUND = [row[0] for row in ROWS if len(row) == 2 and row[1] == "measures" and "=" in row[0]]


def denying(cli, denied: str) -> list[str]:
    """What stands before a command that is denied this; skips the test where it cannot be."""
    kind, _, what = denied.partition(" ")
    if kind == "without":
        module, name = what.split(".")
        (cli.folder / "sitecustomize.py").write_text(f"import {module}\ndel {module}.{name}\n")
        cli.environment["PYTHONPATH"] += f"{os.pathsep}{cli.folder}"
        return []
    if kind == "ulimit":
        return ["sh", "-c", f'{denied}; exec "$@"', "sh"]
    if kind == "hidden":
        under = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none {what} && exec "$@"', "sh"]
        if subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
            pytest.skip("mounts need root")
        return under
    if not refusal.IS_KNOWN:
        pytest.skip("the numbers of system calls are those of x86-64")
    return [sys.executable, refusal.__file__, denied]


def end(cli, denied: str, typed: str = "") -> tuple[int, list[str]]:
    """Exit code and statuses of a command that is denied something."""
    command = typed if typed.startswith(("selftest", "+suite")) else f"{SWEEP} {typed}"
    under = denying(cli, denied)
    done = cli(*command.split(), module="benchkit.__main__", under=under, BENCHKIT_HOST_LOCK=cli.mark)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 0 or done.stdout + done.stderr
    records = sorted(cli.folder.glob("outputs/*-*/*/record.json"))
    return done.returncode, [json.loads(path.read_text())["status"] for path in records]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_row_ends_as_told(cli, row):
    denied, *typed, outcome = row
    assert end(cli, denied, *typed) == OUTCOMES[outcome]


def test_platform_that_lacks_all_that_is_gone_round_measures(cli):
    assert len(GONE_ROUND) > 10
    assert end(cli, ",".join(GONE_ROUND)) == OUTCOMES["measures"]
