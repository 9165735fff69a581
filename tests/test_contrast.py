"""Colours of pages can be told apart: WCAG 2.2 AA, light and dark, on the page and on cards."""

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[1] / "tasc/report/templates/page.css").read_text()
TEXT, GRAPHIC = 4.5, 3.0  # smallest ratios of contrast, criteria 1.4.3 and 1.4.11
BACKGROUNDS = ("page", "card")


def themes() -> dict[str, dict[str, str]]:
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", found)) for found in rooted())
    return {"light": light, "dark": light | dark}


def rooted() -> list[str]:
    return re.findall(r":root \{([^}]*)\}", CSS)


def luminance(colour: str) -> float:
    """Relative luminance of #rgb or #rrggbb, by WCAG's definition."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_ratio_is_that_of_the_standard():
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("theme", themes())
def test_colours_stand_out_from_what_is_behind_them(theme, background):
    colours = themes()[theme]
    lowest = dict.fromkeys(("ink", "soft", "accent", "good", "bad"), TEXT)
    lowest |= {name: GRAPHIC for name in colours if re.fullmatch(r"c\d", name)}
    assert len(lowest) == 11
    found = {name: contrast(colours[name], colours[background]) for name in lowest}
    assert not {name: ratio for name, ratio in found.items() if ratio < lowest[name]}


@pytest.mark.parametrize("theme", themes())
def test_text_on_the_colours_of_sources_is_read(theme):
    colours = themes()[theme]
    marks = [name for name in colours if re.fullmatch(r"m\d", name)]
    assert len(marks) == 7
    found = {name: contrast(colours["ink"], colours[name]) for name in marks}
    assert not {name: ratio for name, ratio in found.items() if ratio < TEXT}
