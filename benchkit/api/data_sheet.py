"""Finds a device in a table of data sheets by the words of its name; imports no torch."""

import re
from collections.abc import Mapping
from typing import Any

OTHERS = ("MIG", "Laptop", "Ti", "D", "SUPER", "Max-Q")
"""Words that mark another GPU, or a slice of one, where an entry does not have them."""


def entry_of(table: Mapping[str, Any], device_name: str) -> str:
    """Returns the longest entry whose words are in the name of a device; "" where there is none.

    "A100" is in "NVIDIA A100-SXM4-80GB".
    """
    found = [entry for entry in table if has_words(entry, device_name)]
    best = max(found, key=len, default="")
    for word in OTHERS:
        if has_words(word, device_name) and not has_words(word, best):
            return ""
    return best


def has_words(words: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text) is not None
