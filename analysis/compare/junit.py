"""A comparison as JUnit XML, for a CI."""

from collections.abc import Sequence
from xml.etree import ElementTree

from analysis.compare.verdicts import FAILED, NOT_COMPARED, SLOWER, UNCLEAR


def junit(suite: str, points: Sequence[tuple[str, str, str, str]]) -> bytes:
    """Return JUnit XML: SLOWER and FAILED fail; UNCLEAR and NOT_COMPARED are skipped."""
    kinds = {SLOWER: "failure", FAILED: "failure", UNCLEAR: "skipped", NOT_COMPARED: "skipped"}
    found = [kinds.get(word, "") for _, _, word, _ in points]
    root = ElementTree.Element(
        "testsuite",
        name=suite,
        tests=str(len(points)),
        failures=str(found.count("failure")),
        skipped=str(found.count("skipped")),
    )
    for (group, name, _, message), kind in zip(points, found, strict=True):
        texts = {"classname": group, "name": name, "message": message}
        # XML has no control characters.
        shown = {key: "".join(filter(str.isprintable, text)) for key, text in texts.items()}
        message = shown.pop("message")
        case = ElementTree.SubElement(root, "testcase", shown)
        if kind:
            ElementTree.SubElement(case, kind, message=message)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"
