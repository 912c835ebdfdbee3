"""Reads records of this version and of older ones, which it turns into this one.

- Version 1 has `block_iterations`, one length for all blocks of a case, in place of `blocks`.
- Up to version 2 cases refer to each other by `name`: `against` is the name of the baseline, and
  `parts` names the components, whose cases are `bound`. Early records of version 2 lack what agents
  report of their hosts, and know neither `cores_per_rank` nor `launched_by`.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, TypeVar

import msgspec

from benchkit.record.environment import HostReport
from benchkit.record.naming import printable
from benchkit.record.numbers import Count, NumRanks
from benchkit.record.record import SCHEMA_VERSION, Record

Kind = TypeVar("Kind")
READABLE_VERSIONS = (1, 2, SCHEMA_VERSION)
BEGINNING = b'{"schema_version":%d,' % SCHEMA_VERSION
"""Of a record as `Record.to_json` writes it; it spares a pass over the file for its version."""


class Header(msgspec.Struct):
    """The one key that every version has."""

    schema_version: int


class OldCase(msgspec.Struct):
    """What versions 1 and 2 say of a case that version 3 says otherwise.

    The oldest records list `parts`: both in the order of `Components`, or communication alone.
    Labels could be lists, which become text.
    """

    labels: dict[str, Any]
    name: str = ""
    against: str | None = None
    bound: bool | None = None
    parts: dict[str, str] | Annotated[list[str], msgspec.Meta(max_length=2)] | None = None
    block_iterations: Count | None = None


class OldEnvironment(msgspec.Struct):
    """The cores of agent 0's host, and whether its code was changed."""

    available_cores: Count
    git_dirty: bool | None = None


class OldRecord(msgspec.Struct):
    """What must be known of a record of version 1 or 2 to upgrade it."""

    suite: str
    config: dict[str, Any]
    world_size: NumRanks
    environment: OldEnvironment
    cases: list[OldCase]
    agents: list[dict[str, Any]] | None = None


def from_json(content: bytes) -> Record:
    """Returns the record in the content of a file.

    Raises:
        ValueError: the content is no JSON, no record, or of another version; the message says what
            is wrong, and where.
    """
    try:
        version = SCHEMA_VERSION if content.startswith(BEGINNING) else version_of(content)
        if version == SCHEMA_VERSION:
            found = decoded(content, Record)
        else:
            found = msgspec.convert(upgraded(decoded(content, dict[str, Any])), Record)
        _ = found.settings  # its values are part of what is read
        return found
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"not a whole record ({type(error).__name__}: {error})") from None


def decoded(content: bytes, kind: type[Kind]) -> Kind:
    """Returns JSON as an object of a type, all of its text printable.

    Files come from anywhere, and what they say reaches terminals, tables and pages.

    Raises:
        ValueError: it is no JSON, or of another type.
    """
    try:
        found = msgspec.json.decode(content, type=kind)
        if content.isascii() and b"\\" not in content and b"\x7f" not in content:
            return found  # as in most files
        return msgspec.convert(with_printable_text(msgspec.json.decode(content)), kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not readable as JSON ({error})") from None
    except RecursionError:
        raise ValueError("not readable as JSON (nested too deeply)") from None


def with_printable_text(value: Any) -> Any:
    """Returns decoded JSON whose texts are printable; line breaks and tabs stay."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        # Most values are samples, and a call for each of them would take as long as all else.
        return [each if type(each) is float else with_printable_text(each) for each in value]
    if isinstance(value, dict):
        return {printable(name): with_printable_text(each) for name, each in value.items()}
    return value


def version_of(content: bytes) -> int:
    """Returns the version of a record; raises ValueError where it is none, or not readable."""
    try:
        version = decoded(content, Header).schema_version
    except msgspec.ValidationError:
        raise ValueError("not a benchkit record (no schema_version)") from None
    if version not in READABLE_VERSIONS:
        allowed = ", ".join(map(str, READABLE_VERSIONS))
        raise ValueError(f"record version {version}, this benchkit reads {allowed}")
    return version


def upgraded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a record of version 1 or 2 as version 3 has it."""
    old = msgspec.convert(content, OldRecord)
    known = {key: value for key, value in content.items() if value is not None}
    host = of_first_host(content["environment"], old.environment)
    positions = {case.name: position for position, case in enumerate(old.cases) if case.name}
    pairs = zip(content["cases"], old.cases, strict=True)
    return {
        "launched_by": "plain",
        "cores_per_rank": old.environment.available_cores / old.world_size,
        **known,
        "schema_version": SCHEMA_VERSION,
        "title": old.config["collective"] if old.suite == "collective" else old.suite,
        "agents": [host | agent for agent in old.agents or [{}]],
        "cases": [upgraded_case(case, own, positions) for case, own in pairs],
    }


def of_first_host(content: Mapping[str, Any], old: OldEnvironment) -> dict[str, Any]:
    """Returns what agents of early records lack, from agent 0's environment."""
    names = [item.name for item in fields(HostReport)]
    change = {"git_diff_hash": "dirty"} if old.git_dirty else {}
    return change | {name: content[name] for name in names if name in content}


def upgraded_case(
    content: Mapping[str, Any], old: OldCase, positions: Mapping[str, int]
) -> dict[str, Any]:
    """Returns a case as version 3 has it.

    Args:
        content: the case.
        old: what version 3 says otherwise.
        positions: of the cases of its job, by their names.
    """
    computation, communication = names_of_parts(old.parts)
    known = {key: value for key, value in content.items() if value is not None}
    if old.block_iterations and "blocks" not in known:
        num_blocks = len(content["samples_s"][0]) // old.block_iterations
        known["blocks"] = [old.block_iterations] * num_blocks
    return known | {
        "labels": {
            name: value if isinstance(value, str | int | float | None) else str(value)
            for name, value in old.labels.items()
        },
        "baseline": positions.get(old.against or ""),
        "is_component": bool(old.bound),
        "components": {
            "computation": positions.get(computation),
            "communication": positions.get(communication),
        },
    }


def names_of_parts(parts: Mapping[str, str] | list[str] | None) -> tuple[str, str]:
    """Returns the names of a case's components, "" for none."""
    if isinstance(parts, list):
        *computation, communication = parts or [""]
        return (computation[0] if computation else ""), communication
    parts = parts or {}
    return parts.get("computation", ""), parts.get("communication", "")
