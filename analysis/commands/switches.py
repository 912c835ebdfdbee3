"""Reads which hosts are at which switch, and refuses a table in which a host has no one switch."""

from collections import Counter
from collections.abc import Set
from pathlib import Path

import msgspec
import yaml

EXAMPLE = "allowed is YAML such as `leaf1: [node1, node2]`"


def switches_in(path: Path) -> dict[str, str]:
    """Return the switch of each host, from YAML with the hosts of each switch.

    Raises:
        ValueError: the file holds something else, or a host twice; the message is one line.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        table = msgspec.convert(content, dict[str | int, list[str | int]])
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {EXAMPLE} ({str(error).splitlines()[0]})") from None
    counts = Counter(str(host) for hosts in table.values() for host in hosts)
    if twice := [host for host, count in counts.items() if count > 1]:
        raise ValueError(f"{path}: {', '.join(twice)}: allowed is one switch per host")
    return {str(host): str(name) for name, hosts in table.items() for host in hosts}


def why_incomplete(switches: dict[str, str], hosts: Set[str]) -> str:
    """Return which hosts have no switch, and which names no record has; "" where all have one.

    A table of a whole cluster may be used for a part of it.
    """
    if not (without := sorted(hosts - switches.keys())):
        return ""
    line = f"no switch for {', '.join(without)}"
    if unknown := sorted(switches.keys() - hosts):
        line += f"; no record has {', '.join(unknown)}"
    return line
