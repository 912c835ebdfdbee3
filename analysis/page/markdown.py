"""Convert the Markdown of a report to HTML with heading levels of the page."""

import html
import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

NUMBER = re.compile(r"[<>]? ?-?\d[\d.,]*(e[+-]?\d+)?( .*)?$")
"""A number, optionally followed by an interval or a rate in brackets."""
RULES = ("backticks", "escape", "heading", "list", "table")
"""Markdown rules in use. Without links, images and HTML, labels stay plain text."""


def as_html(text: str, level: int) -> str:
    """Convert Markdown to HTML.

    Args:
        level: level of the highest heading; 2 turns "# A" into h2, "## B" into h3.
    """
    parser = MarkdownIt("zero").enable(list(RULES))
    tokens = list(adapt_tokens(parser.parse(text), level - 1))
    return str(parser.renderer.render(tokens, parser.options, {}))


def adapt_tokens(tokens: list[Token], deeper: int) -> Iterator[Token]:
    """Yield tokens with lowered headings, and tables with captions in a scrolling frame."""
    heading = ""
    for position, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + deeper)}"
            if token.nesting > 0:
                heading = html.escape(tokens[position + 1].content)
        if token.type == "table_open":
            yield raw_token(
                f'<div class="scroll" role="region" aria-label="{heading}" tabindex="0">'
            )
            align(tokens[position:])
        yield token
        if token.type == "table_open":
            yield raw_token(f'<caption class="hidden">{heading}</caption>')
        if token.type == "table_close":
            yield raw_token("</div>")


def align(tokens: list[Token]) -> None:
    """Mark the column headers of a table, and its numeric columns.

    Args:
        tokens: tokens from the start of the table on.
    """
    end = next(at for at, token in enumerate(tokens) if token.type == "table_close")
    columns: dict[int, list[tuple[Token, str]]] = {}
    column = 0
    for token, inner in pairwise(tokens[: end + 1]):
        if token.type == "tr_open":
            column = 0
        if token.type in ("th_open", "td_open"):
            columns.setdefault(column, []).append((token, inner.content))
            column += 1
    for cells in columns.values():
        (head, _), *body = cells
        head.attrSet("scope", "col")
        texts = [text for _, text in body if text]
        if texts and all(map(NUMBER.match, texts)):
            for token, _ in cells:
                token.attrSet("class", "number")


def raw_token(text: str) -> Token:
    """Return a token that is rendered verbatim."""
    return Token("html_block", "", 0, content=text)
