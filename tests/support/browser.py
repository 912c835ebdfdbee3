"""A headless Chromium, where there is one."""

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def chromium_path() -> str:
    """The program; "" where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), "")


def missing_browser() -> str:
    """Why no page can be opened here; "" where it can."""
    if not chromium_path():
        return "no Chromium here (apt-get install chromium)"
    return "" if importlib.util.find_spec("playwright") else "no playwright here (pip install '.[dev]')"


def wait_for_count(locator: Any, count: int) -> None:
    """Waits until so many elements are there; fails where they do not come."""
    from playwright.sync_api import expect

    expect(locator).to_have_count(count, timeout=30_000)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """The installed Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        yield chromium
        chromium.close()
