"""The folders of YAML, found before Hydra, whose import takes long, reads them."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from launch.topology import read_text


def config_folder() -> Path:
    """Returns conf/ inside the installed package, or beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def config_folders(arguments: Sequence[str]) -> list[Path]:
    """Returns the folder of benchkit's own YAML, and the one that --config-dir adds."""
    folders = [config_folder()]
    words = [part for argument in arguments for part in argument.split("=", 1)]
    for flag, value in itertools.pairwise(words):
        if flag in ("--config-dir", "-cd"):
            folders.append(Path(value))
    return folders


def suite_of(path: Path) -> str:
    """Returns the suite that an option of the group `suite` configures, such as collective.

    An option such as allreduce names the suite's own option first in its defaults.
    """
    found = re.search(r"^defaults:\n  - (\w+)$", read_text(path), re.MULTILINE)
    return found[1] if found else path.stem
