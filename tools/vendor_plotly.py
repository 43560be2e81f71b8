"""Take another version of the plotly.js bundle into the package, with its licence.

    python tools/vendor_plotly.py 4.1.1

The bundle is fetched by `npm pack` from whatever registry npm is set to; nothing of it is changed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "src" / "sizeup" / "report" / "html" / "vendor"
PACKAGE = "plotly.js-basic-dist-min"
FILES = {"package/plotly-basic.min.js": "plotly-basic.min.js", "package/LICENSE": "LICENSE"}


def main(version: str) -> None:
    """Fetch, check and copy."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{version}"], cwd=folder, check=True)
        [archive] = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as packed:
            for member, name in FILES.items():
                found = packed.extractfile(member)
                if found is None:
                    raise SystemExit(f"{PACKAGE} {version} has no file {member}")
                content = found.read()
                (VENDOR / name).write_bytes(content)
                print(f"{name}: {len(content):,} B, sha256 {hashlib.sha256(content).hexdigest()}")
    print("now run the tests of tests/report/html, and look at the pictures in build/pages")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
