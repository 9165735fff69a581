"""Templates of pages: every value is escaped, and a name that is missing is an error."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template


def template(package: str, name: str) -> Template:
    """Return a template of ``package``, which may include those that pages share."""
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("tasc")])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name)
