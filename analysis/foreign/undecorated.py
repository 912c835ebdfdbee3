"""Strip what launchers and collectors put before lines, and tell the lines of each source apart."""

import re

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TIME = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s"  # CI, kubectl
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s"
    r"|\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}(?=[<\[])"  # mpirun --timestamp-output
    r"|std(?:out|err) [FP] "  # containers
)
SOURCE = re.compile(
    r"\[\d+,\d+\](?:\[[^\]]*\])?<std(?:out|err)>:\s?"  # mpirun --tag-output
    r"|\s*\d+:\s"  # srun --label
    r"|\[(?:rank|default)?\d+\](?::\s?|\s)"  # mpiexec -l, torchrun --tee
    r"|\[pod/[^\]]+\]\s"  # kubectl logs --prefix
    r"|\([A-Za-z_]+ (?:pid|ip)=[^)]*\)\s"  # Ray, SkyPilot
    r"|[A-Za-z][\w.-]*\s+\|\s"  # docker compose
    r"|[A-Za-z][\w.-]*: (?=\s*(?:#|\d+\s))"  # pdsh
)

MOST_PREFIXES = 8
"""Of a line. Each that is stripped copies the rest, which a hostile line has many of."""


def undecorated(text: str) -> list[str]:
    """Return what each source printed, such as a rank; a text without prefixes is of one source."""
    by_source: dict[str, list[str]] = {}
    for line in text.splitlines(keepends=True):
        source, rest = split(COLOURS.sub("", line))
        if not rest:  # cut off within a prefix: what follows it is missing
            source, rest = line, line
        by_source.setdefault(source, []).append(rest)
    return ["".join(lines) for lines in by_source.values()] or [""]


def split(line: str) -> tuple[str, str]:
    """Split a line into the source that its prefixes name, without times, and the rest."""
    source = ""
    for _ in range(MOST_PREFIXES):
        if found := TIME.match(line):
            line = line[found.end() :]
        elif found := SOURCE.match(line):
            source += found[0].strip()
            line = line[found.end() :]
        else:
            break
    return source, line
