"""Runs the command line for `python -m sizeup`."""

from sizeup.cli import main

if __name__ == "__main__":
    main()
