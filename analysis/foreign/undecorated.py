"""Strip the prefixes of launchers and log collectors from lines, and split the lines by source.

The first line of a known output shows the prefix of all lines of its source, such as a rank, a pod
or a log level; only times in it vary. Hence no launcher needs a rule, and no line enters the table
of another source.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

UNSEEN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles
    r"|[\ufeff\x00]"  # marks of encodings
)
CONTINUED = re.compile(r"\r?\n\S+Z [0-9a-f]{2}[OE]\+")
"""Separates the pieces of a line in GitLab logs."""
DAY = (
    r"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d?[-/]\w{2,3}[-/]\d{2,4}|\d{8}|[A-Z]\d{4}"
    r"|(?P<weekday>[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d)"
)
CLOCK = (
    r"\d{1,2}:?\d\d:?\d\d(?:[.,]\d+)?(?: ?[AP]M)?(?:Z| ?[+-]\d\d:?\d\d)?"
    r"(?(weekday)(?: \d{4})?)"
)
TIME = re.compile(
    rf"(?<!\w){DAY}[T :_]{CLOCK}"
    r"|(?<![\w.])\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M\b)?(?![\w:])"
    r"|(?<![\w.-]) *\d+\.\d+(?![\w.])|(?<![\w.-])\d{10,}(?![\w.-])"  # seconds
)
MARK = "\0"
"""Replaces a time in a prefix."""
MOST_LETTERS = 500
"""Greatest length of a prefix."""

MESSAGES = ("log", "message", "msg", "MESSAGE", "line", "textPayload", "body", "@message")
"""Fields with a line in the JSON of log collectors."""
HAS_MESSAGE = re.compile(rf'"(?:{"|".join(MESSAGES)}|values)"\s*:')
WHO = re.compile("rank|host|node|pod|container|worker|replica|task|stream|pid", re.IGNORECASE)
"""Occurs in the names of fields that distinguish sources."""


@dataclass
class OutputSource:
    """The lines of one source, without prefixes.

    Attributes:
        prefix: prefix of its first line.
        is_spaced: whether the prefix ends with a blank.
    """

    prefix: str
    is_spaced: bool = False
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.lines)


Start = Callable[[str], int | None]
"""Returns where a known output begins in a line; None if none does."""


def strip_prefixes(text: str, starts: Sequence[Start]) -> tuple[list[OutputSource], str]:
    """Return the sources in which a known output begins, and the lines of all others.

    Args:
        text: text of one file. Without a known output it is one source.
        starts: detectors of outputs; the first that finds a source counts.
    """
    lines = clean_lines(unwrap_json(text))
    detected = (find_sources(start_of, lines) for start_of in starts)
    sources = next(filter(None, detected), None)
    if sources is None:
        return [OutputSource("", lines=clean_lines(text))], ""
    lengths = sorted(set(map(len, sources)), reverse=True)
    other_lines = []
    for line in lines:
        prefix, rest = split_prefix(line, sources, lengths)
        if prefix is None or not rest:  # truncated within or after its prefix
            other_lines.append(line)
        else:
            sources[prefix].lines.append(rest)
    return list(sources.values()), "".join(other_lines)


def clean_lines(text: str) -> list[str]:
    return CONTINUED.sub("", UNSEEN.sub("", text)).splitlines(keepends=True)


def find_sources(start_of: Start, lines: list[str]) -> dict[str, OutputSource]:
    """Return a source for each prefix before an output, by the prefix with marks for times."""
    sources: dict[str, OutputSource] = {}
    for line in lines:
        start = start_of(line)
        if start is not None and start <= MOST_LETTERS:
            prefix = TIME.sub(MARK, line[:start])
            key = prefix.rstrip()
            sources.setdefault(key, OutputSource(line[:start].strip(), bool(key) and key != prefix))
    return sources


def split_prefix(
    line: str, prefixes: dict[str, OutputSource], lengths: list[int]
) -> tuple[str | None, str]:
    """Split a line into its prefix, with marks for times, and the rest."""
    marked = TIME.sub(MARK, line[:MOST_LETTERS]) if lengths != [0] else ""
    for length in lengths:
        prefix = marked[:length]
        if prefix not in prefixes:
            continue
        times = list(TIME.finditer(line, 0, MOST_LETTERS))[: prefix.count(MARK)]
        rest = line[length + sum(len(time[0]) - len(MARK) for time in times) :]
        if prefixes[prefix].is_spaced and not rest[:1].isspace():
            continue  # only the beginning of another word
        rest = rest.lstrip(" \t")
        if prefix[-1:] in ("'", '"'):
            body = rest.rstrip("\r\n")
            rest = body.removesuffix(prefix[-1]) + rest[len(body) :]
        return prefix, rest
    return None, line


def unwrap_json(text: str) -> str:
    """Return the messages of JSON lines, or of one JSON document, with their source as prefix."""
    if not HAS_MESSAGE.search(text):
        return text
    try:
        return "".join(lines_of(json.loads(text)))
    except (ValueError, RecursionError):
        return "".join(map(unwrap_json_line, text.splitlines(keepends=True)))


def unwrap_json_line(line: str) -> str:
    start = line.find("{")
    if start < 0:
        return line
    try:
        value, _ = json.JSONDecoder().raw_decode(line, start)
        return "".join(line[:start] + message for message in lines_of(value)) or line
    except (ValueError, RecursionError):
        return line


def lines_of(value: Any, who: str = "") -> Iterator[str]:
    """Yield each line of each message in a JSON value, prefixed by the fields of its source."""
    message, inner = None, []
    if isinstance(value, dict):
        who = " ".join([*filter(None, [who]), *names_in(value)])
        message, inner = message_in(value), list(value.values())
    elif isinstance(value, list):
        message, inner = line_in_pair(value), value
    if message is None:
        for each in inner:
            yield from lines_of(each, who)
        return
    for line in message.splitlines():  # may be JSON of a program in a container
        yield from (f"{who} {each}\n" for each in unwrap_json_line(line).splitlines() or [""])


def message_in(fields: dict[str, Any]) -> str | None:
    """Return the message of an entry; journald writes coloured ones as a list of bytes."""
    for value in map(fields.get, MESSAGES):
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(map(is_byte, value)):
            return bytes(value).decode(errors="replace")
    return None


def is_byte(value: Any) -> bool:
    return isinstance(value, int) and value in range(256)


def line_in_pair(pair: list[Any]) -> str | None:
    """Return the line of a pair (time, line), as in responses of Loki."""
    if len(pair) == 2 and all(isinstance(part, str) for part in pair) and pair[0].isdecimal():
        return str(pair[1])
    return None


def names_in(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from names_in(value)
        elif WHO.search(name) and isinstance(value, str | int):
            yield " ".join(str(value).split())
