"""Texts of all comparisons: ratios, secondary changes, and JUnit XML for a CI."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from analysis.compare.verdicts import FAILED, NOT_COMPARED, SLOWER, UNCLEAR, CaseVerdict
from benchkit.record.naming import ratio_interval
from benchkit.statistics.multiplicity import MetricChange


def ratio_text(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else ""


def interval_text(low: float, high: float) -> str:
    """Format an interval of ratios; one of too few runs is infinite."""
    return ratio_interval(low, high) if low > 0 and math.isfinite(high) else "[too few]"


@dataclass(frozen=True)
class SecondaryChange:
    """A secondary metric of a point that differs, such as p95.

    Attributes:
        is_share: whether the change is a difference of shares; else it is one of logarithms.
    """

    name: str
    arm: str
    figure: str
    is_share: bool
    change: MetricChange


def further_changes(
    changes: Iterable[tuple[SecondaryChange, CaseVerdict | None]],
) -> Iterator[str]:
    """Yield the secondary changes that the verdicts on their points do not imply."""
    for secondary, verdict in changes:
        change, ratio = secondary.change, math.exp(secondary.change.estimate)
        if secondary.is_share:
            size = f"{change.estimate:+.1%} [{change.low:+.1%}, {change.high:+.1%}]"
        elif verdict and verdict.has_interval and verdict.low <= ratio <= verdict.high:
            continue
        else:
            interval = interval_text(math.exp(change.low), math.exp(change.high))
            size = f"{ratio_text(ratio)} times {interval}"
        of_arm = f" of {secondary.arm}" if secondary.arm else ""
        yield f"also {secondary.name}{of_arm}: {secondary.figure} {size}"


def junit(suite: str, points: Sequence[tuple[str, str, str, str]]) -> bytes:
    """Return JUnit XML: SLOWER and FAILED fail; UNCLEAR and NOT_COMPARED are skipped."""
    kinds = {SLOWER: "failure", FAILED: "failure", UNCLEAR: "skipped", NOT_COMPARED: "skipped"}
    results = [kinds.get(word, "") for _, _, word, _ in points]
    root = ElementTree.Element(
        "testsuite",
        name=suite,
        tests=str(len(points)),
        failures=str(results.count("failure")),
        skipped=str(results.count("skipped")),
    )
    for (group, name, _, message), kind in zip(points, results, strict=True):
        texts = {"classname": group, "name": name, "message": message}
        # XML has no control characters.
        shown = {key: "".join(filter(str.isprintable, text)) for key, text in texts.items()}
        message = shown.pop("message")
        case = ElementTree.SubElement(root, "testcase", shown)
        if kind:
            ElementTree.SubElement(case, kind, message=message)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"
