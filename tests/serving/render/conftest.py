"""The fixtures of the tests of all pages."""

from render.html.conftest import browser, show

__all__ = ["browser", "show"]
