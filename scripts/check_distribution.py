"""Does what we publish work where there is nothing else? Builds it, installs it, runs the demo.

The sdist is built first and the wheel from it, so that a file missing in the sdist is found. The
wheel is installed into an empty environment in a directory of its own, away from the sources.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def built(out: Path) -> Path:
    """Build both files into a folder and return the wheel."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def installed(wheel: Path, directory: Path) -> Path:
    """Install the wheel with what the demo needs into an empty environment; return its scripts."""
    venv.create(directory, with_pip=True)
    scripts = directory / "bin"
    wanted = f"privod[demo] @ {wheel.resolve().as_uri()}"
    subprocess.run([scripts / "python", "-m", "pip", "install", "--quiet", wanted], check=True)
    return scripts


def main() -> None:
    """Build, install, run; any failure ends it."""
    out = ROOT / "dist"
    for old in [*out.glob("privod-*.whl"), *out.glob("privod-*.tar.gz")]:
        old.unlink()
    wheel = built(out)
    with tempfile.TemporaryDirectory() as empty:
        scripts = installed(wheel, Path(empty) / "environment")
        subprocess.run([scripts / "privod", "--version"], check=True, cwd=empty)
        subprocess.run([scripts / "privod", "demo"], check=True, cwd=empty)
        assert (Path(empty) / "out" / "privod-demo.html").is_file()
    print(f"{wheel.name} installs into an empty environment and runs the demo there.")


if __name__ == "__main__":
    main()
