"""Colours of the page: legible in light and in dark, and those of the plots."""

import re
from colorsys import rgb_to_hls
from itertools import product

import pytest
from analysis.page.figures import NUM_COLOURS
from analysis.page.render import FOLDER

from tests.support.entries.report import style

TEXT, GRAPHIC = 4.5, 3.0
"""Contrast that WCAG 2 asks for at level AA."""


@pytest.fixture(params=[0, 1], ids=["light", "dark"])
def colours(request):
    """The custom properties of a theme."""
    theme = re.findall(r":root \{(.*?)\}", (FOLDER / "page.css").read_text(), re.DOTALL)[request.param]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", theme))


def rgb(colour):
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def luminance(colour):
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_and_series_are_legible(colours):
    for text, ground in product(("ink", "ink-soft", "accent", "bad"), ("paper", "card", "wash")):
        assert contrast(colours[text], colours[ground]) >= TEXT, (text, ground)
    for number in range(NUM_COLOURS):
        assert contrast(colours[f"series-{number}"], colours["card"]) >= GRAPHIC, number


def test_series_have_colours_of_plots(colours):
    """On dark pages these are lighter. Of pale and of grey colours the hue says little, so these are free."""
    shown = [colours[f"series-{number}"] for number in range(NUM_COLOURS)]
    is_light = luminance(colours["ink"]) < luminance(colours["card"])
    assert not is_light or shown == list(style.COLOURS)
    for number, colour in enumerate(style.COLOURS):
        plotted = rgb_to_hls(*rgb(colour))
        apart = abs(plotted[0] - rgb_to_hls(*rgb(colours[f"series-{number}"]))[0])
        assert min(apart, 1 - apart) < 0.09 or plotted[2] < 0.1, number
