"""The fixtures of the tests of all commands."""

from cli.conftest import keywords, run

__all__ = ["keywords", "run"]
