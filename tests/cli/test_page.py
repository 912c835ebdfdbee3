"""The page of a real sweep."""

import pytest


@pytest.mark.slow
def test_sweep_ends_with_its_page(cli):
    done = cli("+suite=faulty", "-m", "measure=quick", "fault=none,raise", "report=html")
    assert done.returncode == 1
    assert "page: outputs/" in done.stderr + done.stdout
    html = (cli.folder / "outputs" / "latest" / "analysis" / "report.html").read_text()
    assert "1 failed" in html
    assert "End of rank_1.log" in html
    assert "python -m benchkit" in html
