"""Colours of the page: legible in light and in dark, and those of the plots."""

import re
from colorsys import rgb_to_hls

import pytest
import seaborn as sns
from analysis.page.render import FOLDER
from analysis.page.specs import NUM_COLOURS

CSS = (FOLDER / "page.css").read_text()
TEXT, GRAPHIC = 4.5, 3.0
"""Contrast that WCAG 2 asks for at level AA."""


def colours(theme):
    """The custom properties of a theme."""
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)[:2]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if theme == "light" else dark))


def rgb(colour):
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def luminance(colour):
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("text", ["ink", "ink-soft", "accent", "bad"])
@pytest.mark.parametrize("ground", ["paper", "card", "wash"])
def test_text_is_legible(theme, text, ground):
    found = colours(theme)
    assert contrast(found[text], found[ground]) >= TEXT


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("number", range(NUM_COLOURS))
def test_series_are_legible(theme, number):
    found = colours(theme)
    assert contrast(found[f"series-{number}"], found["card"]) >= GRAPHIC


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("number", range(NUM_COLOURS))
def test_series_have_hues_of_plots(theme, number):
    """Of pale and of grey colours the hue says little, so these are free."""
    plotted = rgb_to_hls(*sns.color_palette("colorblind")[number])
    shown = rgb_to_hls(*rgb(colours(theme)[f"series-{number}"]))
    apart = abs(plotted[0] - shown[0])
    assert min(apart, 1 - apart) < 0.09 or plotted[2] < 0.1
