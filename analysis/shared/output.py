"""Write the files of analysis: in one folder, under plain names, and never through a link.

A folder of records may come from anyone, and have links where files of a report will be.
"""

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from analysis.shared.text import as_csv, escape_html
from benchkit.errors import ConfigError
from benchkit.record import files

FileContent: TypeAlias = str | bytes | pd.DataFrame
FOLDER, EARLIER = "report", "analysis"
"""Folder of a report in a folder of records. The earlier name is that of a package, which Python
would import from a working folder."""
MOST_LETTERS = 200
"""The longest name of a file; file systems allow 255 bytes."""


def folder_for(place: Path, chosen: Path | None, *below: str) -> Path:
    """Make the folder to write to, and return it.

    Args:
        place: the first folder of records, or record.
        chosen: the folder that the user chose, which may be a link; None for one in `place`,
            which may not.
        below: names of nested folders in the one in `place`.

    Raises:
        OSError: the folder is a link, or cannot be made.
    """
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        return chosen
    folder = place if place.is_dir() else place.parent
    for name in (FOLDER, *below):
        folder = files.make_plain_folder(folder / name)
    return folder


def write(folder: Path, name: str, content: FileContent) -> Path:
    """Write a text, a table as CSV, or bytes, in place of any file of the name; return the path.

    Args:
        name: of the file; it may have text from records.

    Raises:
        OSError: the file cannot be written.
    """
    path = folder / file_name(name)
    if isinstance(content, pd.DataFrame):
        content = as_csv(content)
    elif isinstance(content, str):
        content = (escape_html(content) if path.suffix == ".md" else content).rstrip() + "\n"
    encoded = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    files.write_atomically(path, encoded, durable=False)
    return path


def file_name(name: str) -> str:
    """Return a valid file name: the names in a record may be long and have any characters.

    The file is neither hidden nor an option of `rm *`.
    """
    valid_name = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)
    valid_name = f"_{valid_name}" if valid_name[:1] in ("", ".", "-") else valid_name
    if len(valid_name) > MOST_LETTERS:
        stem, _, kind = valid_name.rpartition(".")
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        valid_name = f"{stem[: MOST_LETTERS - 20]}_{digest}.{kind[:4]}"
    return valid_name


FILE_NAME = "combined.parquet"


def require_pyarrow() -> None:
    if not find_spec("pyarrow"):
        raise ConfigError("--parquet: needs pyarrow; pip install 'benchkit[parquet]'")


def write_parquet(table: pd.DataFrame, folder: Path) -> Path:
    """Write a table with types, such as that of analysis.load; return the path."""
    return write(folder, FILE_NAME, table.to_parquet(engine="pyarrow", index=False))
