"""Completes the site: navigation from folders, reference from the code."""

from pathlib import Path
from typing import Any

from analysis.records.columns import METRICS
from benchkit.api.keys import Key, RunConfig, described_keys
from benchkit.api.registry import load_suites
from benchkit.config.help_pages import own_keys

PAGE = "reference.md"
FOLDERS = {"Results": "results", "Decisions": "decisions"}
"""Whose pages are all in the navigation, by its titles."""


def on_config(config: Any) -> Any:
    """Is called by mkdocs at the start; adds the pages of FOLDERS to the navigation."""
    root = Path(config["docs_dir"])
    for title, folder in FOLDERS.items():
        pages = sorted(root.glob(f"{folder}/**/*.md"))
        config["nav"].append({title: [str(page.relative_to(root)) for page in pages]})
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Is called by mkdocs with the text of each page; returns what takes its place."""
    return reference() if page.file.src_uri == PAGE else markdown


def reference() -> str:
    """Returns the keys of each suite and of every run, and the figures of combined.csv."""
    shared = {name: key for name, (key, _) in described_keys(RunConfig).items() if name != "suite"}
    parts = ["# Keys and columns"]
    for suite in load_suites().values():
        parts += [f"## {suite.name}", suite.summary, keys_table(own_keys(suite.config))]
    parts += ["## Keys of every run", keys_table(shared)]
    rows = [f"| `{metric.name}` | {cell(metric.head)} |" for metric in METRICS]
    parts += [
        "## Figures of combined.csv",
        "\n".join(["| column | in print |", "|---|---|", *rows]),
    ]
    return "\n\n".join([*parts, "[The other columns](api.md)."])


def keys_table(keys: dict[str, Key]) -> str:
    rows = [
        f"| `{name}` | {cell(key.doc)} | {cell(key.unit)} | {cell(key.allowed())} |"
        for name, key in keys.items()
    ]
    return "\n".join(["| key | meaning | unit | allowed |", "|---|---|---|---|", *rows])


def cell(text: str) -> str:
    return str(text).replace("|", ", ")
