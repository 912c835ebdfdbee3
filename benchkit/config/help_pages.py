"""The text of --help, and the lists in it, made from the schemas and the folders of YAML."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from benchkit.api.keys import Key, RunConfig, described_keys
from benchkit.api.registry import load_suites
from benchkit.config.folders import suite_of

HOW_TO_START = (
    "nothing to run; for example: python -m benchkit +suite=allreduce data_size=1; "
    "`python -m benchkit --help` lists suites, keys and commands"
)
"""Message for an empty command line."""
HELP = """benchkit: distributed deep-learning benchmarks from one command

  python -m benchkit +suite=allreduce data_size=100                one point
  python -m benchkit +suite=allreduce -m data_size=1,10,100,1000   a sweep: commas where values vary
  python -m benchkit +suite=allreduce 'data_size=[1,10,100]'       one point of three cases
  python -m benchkit sweep=gloo_cpu                                a sweep by name
  python -m benchkit study=cs336_allreduce                         sweeps and their report
  benchkit-analysis outputs/latest                                 tables, plots and text of it
  python -m benchkit selftest                                      what this machine can tell
  python -m benchkit compare ARM ARM …                             is one faster? (compare --help)
  python -m benchkit --help allreduce                              a suite, its keys and its values
  python -m benchkit +suite=allreduce data_size=100 --dry-run      what it would do, without running
  python -m benchkit status outputs/latest                         how far a sweep is
  python -m benchkit import-config ddlb.json                       the command for a file of DDLB
  python -m benchkit list                                          suites, sweeps, studies, …

Suites and their keys (key=value)
{suites}

Keys of every run
{shared}

Groups, one option each (group=option; +suite=option)
{groups}

Flags such as --config-dir DIR (more YAML, of your own) come before the overrides; \
--cfg job prints the composed
configuration; --hydra-help lists all flags. Exit code: 0 all is well, \
1 a point failed or none was measured,
2 the configuration is wrong, 128 + N ended by signal N (130: Ctrl-C)."""


def suite_list() -> str:
    """Return one line per suite: its name, what it measures, its keys with their units."""
    lines = []
    width = max(map(len, load_suites()))
    for suite in load_suites().values():
        names = [
            f"{name} [{key.unit}]" if key.unit else name
            for name, key in own_keys(suite.config).items()
        ]
        lines.append(f"  {suite.name:<{width}} {suite.summary} Keys: {', '.join(names)}")
    return "\n".join(lines)


def own_keys(schema: type[RunConfig]) -> dict[str, Key]:
    shared = described_keys(RunConfig)
    return {name: key for name, (key, _) in described_keys(schema).items() if name not in shared}


def keys_of_suites() -> set[str]:
    """Return the keys that only some suites have, without the part after the first dot."""
    return {
        name.split(".")[0] for suite in load_suites().values() for name in own_keys(suite.config)
    }


def key_rows(keys: Mapping[str, Key], values: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a line per key: its name and value, what it means, what is allowed or its unit."""
    lines = []
    for name, key in keys.items():
        head = f"{name}={values[name]}" if name in values else name
        allowed = f"  [{limits}]" if (limits := key.allowed() or key.unit) else ""
        lines.append(f"  {head:<27} {key.doc}{allowed}")
    return "\n".join(lines)


def help_text(folders: Iterable[Path]) -> str:
    suites = [
        f"  +suite={suite.name}   {suite.summary}\n{key_rows(own_keys(suite.config))}"
        for suite in load_suites().values()
    ]
    shared = {name: key for name, (key, _) in described_keys(RunConfig).items() if name != "suite"}
    return HELP.format(
        suites="\n\n".join(suites),
        shared=key_rows(shared),
        groups=format_options(options_in(folders)),
    )


def options_in(folders: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the files of YAML of each group, sorted by their names, which are its options."""
    paths: dict[str, dict[str, Path]] = {}
    for folder in folders:
        for path in folder.glob("*/*.yaml"):
            paths.setdefault(path.parent.name, {})[path.stem] = path
    return {group: [paths[group][name] for name in sorted(paths[group])] for group in sorted(paths)}


def format_options(options: Mapping[str, Sequence[Path]]) -> str:
    names = {group: [path.stem for path in paths] for group, paths in options.items()}
    if "suite" in options:
        names["suite"] = [format_suite_option(path) for path in options["suite"]]
    return "\n".join(f"  {group:<27} {', '.join(names[group])}" for group in options)


def format_suite_option(path: Path) -> str:
    """Format "collective", and "allreduce (preset of collective)"."""
    suite = suite_of(path)
    return suite if suite == path.stem else f"{path.stem} (preset of {suite})"


def option_help(group: str, path: Path) -> str:
    text = path.read_text(encoding="utf-8").removeprefix("# @package _global_\n")
    return f"{group}={path.stem}\n\n{text.strip()}"


def suite_help(path: Path, values: Mapping[str, str]) -> str:
    """Return the help on one option of the group `suite`: its YAML's comment, keys and values."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
    about = [line for line in comment if not line.startswith("@package")]
    examples = [f"  {line}" for line in about if line.startswith("python -m")]
    sentences = [line for line in about if not line.startswith("python -m")]
    suite = load_suites()[values["suite"]]
    parts = [
        f"+suite={path.stem}: {suite.summary}",
        "\n".join(sentences),
        "\n".join(examples),
        "Keys, with the values that they have if they are not typed\n"
        + key_rows(own_keys(suite.config), values),
        "`python -m benchkit --help` lists the keys of every run.",
    ]
    return "\n\n".join(filter(None, parts))
