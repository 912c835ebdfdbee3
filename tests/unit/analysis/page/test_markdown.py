"""A report's Markdown as HTML."""

from html.parser import HTMLParser

import pytest
from analysis.page.markdown import as_html

ALLOWED = {"p", "h3", "ul", "li", "div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
TABLE = "## B\n\n| name | time [ms] | note |\n|---|---|---|\n| a | 1.5 | - |\n| b | 1.2e+04 [1, 2] | x |\n"


class Tags(HTMLParser):
    """Collects the elements of a page, and their attributes."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_table_has_headings_of_page_caption_scopes_and_frame():
    html = as_html(f"# A\n\nrun `make`\n\n{TABLE}", 3)
    assert [f"<h{level}>" in html for level in range(1, 7)] == [False, False, True, True, False, False]
    assert "<p>run <code>make</code></p>" in html
    assert '<caption class="hidden">B</caption>' in html
    assert html.count('scope="col"') == 3
    assert html.count('class="number"') == 3  # the head and two cells
    assert "style=" not in html  # which the policy of the page forbids
    [frame] = [attributes for tag, attributes in Tags(html).found if tag == "div"]
    assert frame == {"class": "scroll", "role": "region", "aria-label": "B", "tabindex": "0"}


@pytest.mark.parametrize("frame", ["{}", "# {}", "- {}", "# {}\n\n| {} | b |\n|---|---|\n| {} | 1 |"])
def test_labels_are_only_text(frame):
    for text in (
        "<script>alert(1)</script>", "[a](javascript:alert(1))", "![a](http://there/x.png)",
        "<img src=x onerror=alert(1)>", "<http://there>", '" onmouseover="alert(1)',
    ):  # fmt: skip
        found = Tags(as_html(frame.replace("{}", text), 3)).found
        assert {tag for tag, _ in found} <= ALLOWED
        allowed = {"class", "scope", "role", "aria-label", "tabindex"}
        assert not [name for _, attributes in found for name in attributes.keys() - allowed]
