"""The page of a real sweep."""

import pytest


@pytest.mark.slow
def test_sweep_ends_with_its_page(cli):
    done = cli("+suite=faulty", "-m", "measure=quick", "fault=none,raise", "report=html")
    assert done.returncode == 1
    html = (cli.folder / "outputs" / "latest" / "report" / "report.html").read_text()
    assert all(words in html for words in ("1 failed", "rank_1.log", "python -m benchkit"))
