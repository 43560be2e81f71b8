"""Replaces the plotly.js bundle, its license and its SBOM in the package by another version.

    python tools/vendor_plotly.py 4.1.1

`npm pack` downloads the bundle from the configured registry; the files are not changed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "src" / "sizeup" / "render" / "html" / "vendor"
PACKAGE = "plotly.js-basic-dist-min"
FILES = {"package/plotly-basic.min.js": "plotly-basic.min.js", "package/LICENSE": "LICENSE"}
SBOM = "plotly.cdx.json"


def sbom(version: str, bundle: bytes) -> str:
    """The CycloneDX list of what is vendored: the bundle, with its version and digest."""
    component = {
        "type": "library",
        "bom-ref": f"pkg:npm/{PACKAGE}@{version}",
        "name": PACKAGE,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(bundle).hexdigest()}],
        "licenses": [{"license": {"id": "MIT"}}],
        "purl": f"pkg:npm/{PACKAGE}@{version}",
    }
    content = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": [component]}
    return json.dumps(content, indent=2) + "\n"


def main(version: str) -> None:
    """Downloads the bundle and copies its files."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{version}"], cwd=folder, check=True)
        [archive] = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as packed:
            for member, name in FILES.items():
                file = packed.extractfile(member)
                if file is None:
                    raise SystemExit(f"{PACKAGE} {version} has no file {member}")
                content = file.read()
                (VENDOR / name).write_bytes(content)
                print(f"{name}: {len(content):,} B, sha256 {hashlib.sha256(content).hexdigest()}")
    bundle = (VENDOR / "plotly-basic.min.js").read_bytes()
    (VENDOR / SBOM).write_text(sbom(version, bundle), "utf-8")
    print("now run the tests of the HTML report, and look at the images in build/pages")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
