"""Templates: in a page every value is escaped, and a name that is missing is an error."""

from collections.abc import Callable
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from tasc.visible import visible


def template(package: str, name: str) -> Template:
    """Return a template of ``package``, which may include those that pages share."""
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("tasc.report")])
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_shown
    ).get_template(name)


def plain_template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """Return a template of ``package`` that is not HTML: the caller escapes its values."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def _shown(value: object) -> object:
    """Spell out what would steer; markup, which is a subclass of str, was made here."""
    return visible(value) if type(value) is str else value
