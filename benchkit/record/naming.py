"""Format sizes, settings and labels as text, for agents and for reports."""

import numbers
import re
from collections.abc import Iterable, Mapping
from typing import Any

from benchkit.statistics import LATENCY

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, direction marks, hidden line separators, and what is not a character."""
OF_RESUME = re.compile(r"hydra\.(sweeper\.(resume|retry|force)|sweep\.dir='/.*')")
"""An override added by Resume.as_overrides() of benchkit.sweep.resume."""


def drop_resume_settings(arguments: Iterable[str]) -> list[str]:
    """Return the arguments of a sweep without those that --resume added."""
    return [argument for argument in arguments if not OF_RESUME.match(argument)]


def escape_unprintable(text: str, keep: str = "\n\t") -> str:
    r"""Escape unprintable characters: "\x1b[31m", "\u202e", "\udce9".

    Args:
        text: untrusted text.
        keep: characters that are kept; "" for a text of one line.
    """
    if text.isprintable():  # nearly always; the search takes ten times as long
        return text

    def shown(match: "re.Match[str]") -> str:
        letter = match[0]
        return letter if letter in keep else letter.encode("unicode_escape").decode()

    return UNPRINTABLE.sub(shown, text)


def escape_markdown(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return re.sub(r"[\\|`]", r"\\\g<0>", text)


def format_bytes(num_bytes: float) -> str:
    """Format a size in bytes with a suitable unit: "4 B", "1 KiB", "16 MiB"."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.4g} {unit}"
    return f"{num_bytes:.4g} B"


def format_label(column: str, value: Any) -> str:
    """Format a setting or a label; a data_size is in MiB."""
    if column == "data_size" and isinstance(value, numbers.Real):
        return format_bytes(float(value) * 2**20)
    return f"{value:g}" if isinstance(value, float) else str(value)


def oversubscription(jobs: Iterable[tuple[int, str, int]]) -> str:
    """Format which ranks have more threads than cores: "oversubscribed: 4, 6 ranks on 2 cores".

    Args:
        jobs: (number of ranks, their cores in words, threads per rank) of each job.
    """
    ranks_on: dict[str, list[int]] = {}
    for ranks, cores, threads in sorted(set(jobs)):
        suffix = f", {threads} threads each" if threads > 1 else ""
        ranks_on.setdefault(f"{cores}{suffix}", []).append(ranks)
    parts = (
        f"{', '.join(map(str, ranks))} rank{'s' * (ranks != [1])} on {cores}"
        for cores, ranks in ranks_on.items()
    )
    return f"oversubscribed: {'; '.join(parts)}"


def depends_on_time(labels: Mapping[str, object]) -> bool:
    """Return whether a suite has a case with these labels only if time allows.

    These are the latency of a short call, and a round of pairs that fits in the time limit.
    """
    return labels.get("timing") == LATENCY or "round" in labels


def format_seconds(seconds: float) -> str:
    """Format seconds with a suitable unit: "45.5 ms"."""
    unit, factor = time_unit(seconds)
    return f"{float(f'{seconds * factor:.4g}'):g} {unit}"


def format_duration(seconds: float) -> str:
    """Format a waiting time: "4.2 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the suitable unit of a time, and its number per second."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 - 1e-9:
            return unit, factor
    return "ns", 1e9


def percent(share: float) -> str:
    """Format a share in percent: "0.42 %", "4 %", "618 %"."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def ratio_interval(low: float, high: float) -> str:
    """Format the interval of a ratio around 1: "[0.950, 1.050]"."""
    return f"[{low:.3f}, {high:.3f}]"


def plus_minus(share: float) -> str:
    """Format the difference of two runs: "± 12 %", or "a factor of 9.7" above 2."""
    if share <= 1:
        return f"± {percent(share)}"
    return f"a factor of {1 + share:.{0 if share >= 9.5 else 1}f}"
