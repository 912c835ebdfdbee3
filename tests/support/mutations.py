"""Records as damage or another program leaves them: values of any type, at any place."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from analysis.records import derive
from analysis.records.validate import validate
from benchkit.record.record import from_json

ABSENT = object()
"""In place of a value: the key is gone."""
FEW = (ABSENT, None, "text", -1, 1e300, [[]])
STRANGE = (
    *FEW, "", "$\\bad$", "²", 0, 7, 1.5, True, 1e-300, 2**63 - 1, [], {}, [None], ["a", 1],
    [1.0, [2.0]], {"a": None}, {"a": {"b": []}},
)  # fmt: skip
"""Values that a field may hold against all expectation; FEW are one of each kind."""
Path = tuple[str | int, ...]


def paths_of(value: Any, before: Path = ()) -> Iterator[Path]:
    """The path of every value in a record; of a list that of the first value alone."""
    if isinstance(value, dict):
        items: list[tuple[str | int, Any]] = list(value.items())
    elif isinstance(value, list) and value:
        items = [(0, value[0])]
    else:
        return
    for key, inner in items:
        yield (*before, key)
        yield from paths_of(inner, (*before, key))


def mutated(record: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """A copy of a record with another value in one place; as it is where the path leads nowhere."""
    result = copy.deepcopy(record)
    holder: Any = result
    *before, last = path
    try:
        for key in before:
            holder = holder[key]
        if value is ABSENT:
            del holder[last]
        else:
            holder[last] = value
    except (LookupError, TypeError):
        return result
    return result


def as_bytes(record: Any) -> bytes:
    return json.dumps(record).encode()


def poisoned(record: dict[str, Any], text: str, but: tuple[str, ...] = ("status", "suite", "device")) -> dict[str, Any]:
    """A copy of a record with a text behind every text, and in every name, that may be any; it is still a record.

    Values of some keys stay, so that the record is shown as what it is.
    """
    result = copy.deepcopy(record)
    for path in list(paths_of(record)):
        value = result
        for key in path:
            value = value[key]
        if isinstance(value, str) and path[-1] not in but and is_record(changed := mutated(result, path, value + text)):
            result = changed
        if isinstance(value, dict) and is_record(changed := mutated(result, path, value | {f"x{text}": text})):
            result = changed
    for place in ("labels", "details"):
        for case in result["cases"]:
            case[place] |= {text: text, f"y{text}": [text]} if place == "details" else {text: text}
    return result


def is_record(content: dict[str, Any]) -> bool:
    try:
        derive.derive_result(from_json(as_bytes(content)))
        validate(from_json(as_bytes(content)))
    except ValueError:
        return False
    return True
