"""Colours of pages have enough contrast: WCAG 2.2 AA, light and dark, on pages and cards."""

import re

import pytest

from tests.trees import ROOT

CSS = (ROOT / "tasc/report/templates/page.css").read_text()
# The shared style, and the styles of single pages.
STYLES = CSS + "".join(
    style
    for path in sorted(ROOT.rglob("tasc/**/templates/*.html"))
    for style in re.findall(r"<style>(.*?)</style>", path.read_text(), re.DOTALL)
)
TEXT, GRAPHIC = 4.5, 3.0  # minimum contrast, criteria 1.4.3 and 1.4.11
BACKGROUNDS = ("page", "card")
WRITTEN = ("ink", "soft", "accent", "good", "bad")  # colours of text
# The share of the accent behind text in an analysis' context.
(MIXED,) = {int(n) for n in re.findall(r"color-mix\(in srgb, var\(--accent\) (\d+)%", STYLES)}


LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#\w+)", root)) for root in re.findall(r":root \{([^}]*)\}", CSS)
)
THEMES = {"light": LIGHT, "dark": LIGHT | DARK}


def channels(colour: str) -> list[int]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    return [int(digits[i : i + 2], 16) for i in (0, 2, 4)]


def luminance(colour: str) -> float:
    """Relative luminance of #rgb or #rrggbb, by WCAG's definition."""
    parts = [part / 255 for part in channels(colour)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def blend(one: str, other: str, share: float) -> str:
    pairs = zip(channels(one), channels(other), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def test_the_contrast_ratio_follows_the_standard():
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("theme", THEMES)
def test_colours_have_enough_contrast_to_their_background(theme, background):
    colours = THEMES[theme]
    lowest = dict.fromkeys(WRITTEN, TEXT)
    lowest |= {name: GRAPHIC for name in colours if re.fullmatch(r"c\d", name)}
    assert len(lowest) == 11
    found = {name: contrast(colours[name], colours[background]) for name in lowest}
    assert not {name: ratio for name, ratio in found.items() if ratio < lowest[name]}


@pytest.mark.parametrize("theme", THEMES)
def test_text_on_the_colours_of_sources_and_on_a_share_of_the_accent_is_legible(theme):
    colours = THEMES[theme]
    marks = {name: colour for name, colour in colours.items() if re.fullmatch(r"m\d", name)}
    assert len(marks) == 7
    for behind in BACKGROUNDS:
        marks[behind] = blend(colours["accent"], colours[behind], MIXED / 100)
    found = {name: contrast(colours["ink"], colour) for name, colour in marks.items()}
    assert not {name: ratio for name, ratio in found.items() if ratio < TEXT}


def test_no_page_has_a_colour_that_is_not_checked_here():
    written = set(re.findall(r"[{; ]color: ([^;}]*)", STYLES))
    assert written <= {f"var(--{name})" for name in WRITTEN} | {"inherit"}
    behind = set(re.findall(r"background(?:-color)?: ([^;}]*)", STYLES))
    plain = {f"var(--{name})" for name in (*BACKGROUNDS, "c0", *(f"m{n}" for n in range(7)))}
    drawn = {value for value in behind - plain if "gradient(" not in value}
    assert drawn == {f"color-mix(in srgb, var(--accent) {MIXED}%, transparent)"}
    after_roots = re.sub(r":root \{[^}]*\}", "", STYLES)
    assert not re.findall(r"#[0-9a-f]{3,8}\b(?=[ ;}])|rgba?\(|hsl", after_roots)


def test_a_loss_in_a_card_has_the_colour_of_a_loss():
    """A rule for ``.card b`` outweighs the one for ``.bad``."""
    assert re.search(r"\.card b \{[^}]*color: var\(--accent\)", CSS)
    assert re.search(r"\.card b\.bad \{[^}]*color: var\(--bad\)", CSS)
