"""A table of text: what is aligned, wrapped and escaped, on terminals and in Markdown."""

import pandas as pd
import pytest
from analysis.shared.text_table import NUMBERS, SENTENCES, TextColumn, TextTable, table_of
from rich.cells import cell_len

LONG = "a reason of many words, one of which is 1234567890123456789012345678901234567890 long"


def test_points_of_numbers_are_in_line():
    lines = table_of(pd.DataFrame({"t": [1.5, 12.25, None, 3.0]})).text().splitlines()[2:]
    assert [line.find(".") for line in lines[:2]] == [2, 2]
    assert lines[2:] == ["", " 3"]


@pytest.mark.parametrize("width", [20, 60, 200])
def test_sentences_fit_and_numbers_are_whole(width):
    columns = [TextColumn("median\n[ms]", ["1.25", "3"], NUMBERS), TextColumn("why", [LONG, ""], SENTENCES)]
    lines = TextTable(columns).fit_width(width).splitlines()
    assert max(map(len, lines)) <= max(width, columns[0].width + columns[1].least_width + 6)
    assert "".join(line[columns[0].width :] for line in lines[3:]).replace(" ", "") == LONG.replace(" ", "")
    assert lines[3].split()[0] == "1.25"


def test_column_of_several_lines_is_as_wide_as_the_widest():
    assert TextColumn("status", ["it went wrong\nand more"]).width == len("it went wrong")
    assert TextTable([TextColumn("a\nb", ["1\n2"]), TextColumn("c", ["3"])]).plain_lines() == ["a", "b  c", "1  3", "2"]


def test_wide_letters_and_bars_keep_rows_of_markdown_equally_wide():
    lines = table_of(pd.DataFrame({"a|b": ["漢字漢字", "`x|y`"], "n": [1, 22]})).markdown().splitlines()
    assert len(set(map(cell_len, lines))) == 1
    assert [line.replace("\\|", "").count("|") for line in lines] == [3] * 4


def test_table_without_rows_has_heads():
    assert table_of(pd.DataFrame({"k": [], "v": []})).text().split() == ["k", "v", "---", "---"]
    assert table_of(pd.DataFrame()).markdown() == ""
