"""The folders of YAML, without Hydra, whose import takes long."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchkit.api.registry import plugin_folders
from launch.host import read_text


def config_folder() -> Path:
    """Return conf/ inside the installed package, or beside the package in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def config_folders(arguments: Sequence[str]) -> list[Path]:
    """Return the folders of YAML: benchkit's, those of third-party suites, and --config-dir."""
    _, config_dir = without_config_dir(arguments)
    return [config_folder(), *plugin_folders(), *([Path(config_dir)] if config_dir else [])]


def without_config_dir(arguments: Iterable[str]) -> tuple[list[str], str]:
    """Return a command line without --config-dir, and its last folder; "" for none."""
    rest, folder = [], ""
    words = iter(arguments)
    for word in words:
        flag, is_set, value = word.partition("=")
        if flag in ("--config-dir", "-cd"):
            folder = value if is_set else next(words, "")
        else:
            rest.append(word)
    return rest, folder


def suite_of(path: Path) -> str:
    """Return the suite that an option of the group `suite` configures.

    An option such as allreduce names the suite's own option first in its defaults.
    """
    match = re.search(r"^defaults:\n  - (\w+)$", read_text(path), re.MULTILINE)
    return match[1] if match else path.stem
