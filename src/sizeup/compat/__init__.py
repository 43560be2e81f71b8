"""The older tools' own commands and functions, each a thin face over the api."""
