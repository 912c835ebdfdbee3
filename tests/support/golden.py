"""Texts that are compared with golden files, without what differs from run to run.

A golden file holds the texts of one file of tests (tests/golden/…/test_NAME.ambr). `make golden` writes all anew.
"""

import re
import socket
import tempfile
from pathlib import Path

import syrupy
from syrupy.extensions.amber import AmberSnapshotExtension

from tests.support.cli import ROOT

FOLDER = ROOT / "tests" / "golden"
DATE = r"\d{4}-\d\d-\d\d"
MASKS = {
    re.escape(str(ROOT)): "ROOT",
    rf"{re.escape(tempfile.gettempdir())}/pytest-of-\w+/pytest-\d+/(popen-gw\d+/)?[\w-]+": "TMP",
    rf"\b{re.escape(socket.gethostname())}\b": "HOST",
    rf"\b{DATE}([T_ ]\d\d[:-]\d\d([:-]\d\d(\.\d+)?)?)?": "DATE",
    r"\b(process|pid) \d+": r"\1 PID",
    r"0x[0-9a-f]{6,}": "ADDRESS",
}
"""Patterns that differ from run to run or from machine to machine, and what is compared in their place."""


def masked(text: str, masks: dict[str, str] | None = None) -> str:
    """A text without what differs from run to run; `masks` are further patterns, which come first."""
    for pattern, name in {**(masks or {}), **MASKS}.items():
        text = re.sub(pattern, name, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


class GoldenFiles(AmberSnapshotExtension):
    """A file per file of tests, below tests/golden."""

    @classmethod
    def dirname(cls, *, test_location: syrupy.location.PyTestLocation) -> str:
        return str(FOLDER / Path(test_location.filepath).parent.relative_to(ROOT / "tests"))
