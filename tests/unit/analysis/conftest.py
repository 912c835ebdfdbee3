"""Reports without figures, which take most of the time of a report."""

import pytest

from tests.support.entries.report import report


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports draw no figures."""
    monkeypatch.setattr(report, "draw_all", lambda *given: iter(()))
