"""`python -m sizeup` does what `sizeup` does."""

from sizeup.cli import main

if __name__ == "__main__":
    main()
