"""Reports without figures, which take most of the time of a report."""

import pytest

from tests.support.reports import leave_out_plots


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports draw no figures."""
    leave_out_plots(monkeypatch)
