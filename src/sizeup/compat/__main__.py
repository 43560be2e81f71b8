"""`python -m sizeup.compat` lists the older tools."""

import sys

from sizeup.compat.tools import listing

if __name__ == "__main__":
    sys.stdout.write(listing())
