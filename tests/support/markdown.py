"""Reads the tables of a Markdown report back."""

import re


def section(text, title):
    """The tables of a section by heading, each a list of rows by column."""
    [body] = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    found = {}
    for part in re.split(r"^### ", "\n" + body, flags=re.MULTILINE):
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("|")]
        if lines:
            heading = part.splitlines()[0].strip()
            found[heading] = [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    return found
