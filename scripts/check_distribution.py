"""Does what we publish work where there is nothing else? Builds it, installs it, runs the demo.

Both distributions, the library and the thin client: the sdist is built first and the wheel from it,
so that a file missing in the sdist is found. Each wheel is installed into an empty environment in a
directory of its own, away from the sources; the thin client also beside the library. What the
library then runs with is listed as a software bill of materials (CycloneDX).

    python -m scripts.check_distribution               # and says what is missing to publish it
    python -m scripts.check_distribution --release     # fails at once if anything is
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from setup import project_urls

__all__ = ["missing"]

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "client"
KINDS = (".whl", ".tar.gz", ".cdx.json")
LARGEST_CLIENT = 20_000_000  # bytes on disk of the thin client with all that it needs


def missing(root: Path = ROOT) -> list[str]:
    """What a release needs and does not have."""
    found = []
    if not project_urls(root):
        found.append("project.urls: the repository's origin has no public address (setup.py)")
    version = re.search(r'__version__ = "(.+)"', (root / "src/privod/version.py").read_text())
    assert version is not None
    released = rf"^## \[{re.escape(version[1])}\] - (\d{{4}}-\d\d-\d\d)$"
    date = re.search(released, (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if date is None:
        found.append(f"CHANGELOG.md: no date beside {version[1]}")
    cited = (root / "CITATION.cff").read_text().splitlines()
    wanted = (f"version: {version[1]}", f"date-released: {date[1] if date else '...'}")
    return [*found, *(f"CITATION.cff: no line `{line}`" for line in wanted if line not in cited)]


def built(source: Path, out: Path) -> Path:
    """Build both files of a distribution into a folder and return the wheel."""
    with tempfile.TemporaryDirectory() as empty:
        build = [sys.executable, "-m", "build", "--outdir", empty, str(source)]
        subprocess.run(build, check=True)
        for file in sorted(Path(empty).iterdir()):
            shutil.copy(file, out)
        (wheel,) = Path(empty).glob("*.whl")
        return out / wheel.name


def environment(directory: Path, wanted: str) -> Path:
    """Install what is wanted into an empty environment; return its scripts."""
    venv.create(directory)
    scripts = directory / "bin"
    install(scripts, wanted)
    return scripts


def install(scripts: Path, wanted: str) -> None:
    """Install into an environment that has no pip of its own."""
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(scripts / "python"), "install"]
    subprocess.run([*pip, "--quiet", wanted], check=True)


def bill_of_materials(scripts: Path, to: Path) -> None:
    """List what an environment holds, in CycloneDX's JSON."""
    python, form = str(scripts / "python"), ["--of", "JSON", "--output-reproducible"]
    listing = [sys.executable, "-m", "cyclonedx_py", "environment", *form, "-o", str(to), python]
    subprocess.run(listing, check=True)
    found = {component["name"] for component in json.loads(to.read_text())["components"]}
    assert {"privod", "numpy", "pyarrow"} <= found, f"the bill of materials lacks some of {found}"
    print(f"{to.name} lists {len(found)} components.")


def size(directory: Path) -> int:
    """How many bytes the packages of an environment take, compiled files left out."""
    files = [file for file in (directory / "lib").rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files if "__pycache__" not in file.parts)


def main() -> None:
    """Build, install, run; any failure ends it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--release", action="store_true", help="fail if it cannot be published")
    lacking = [f"Missing to publish it: {what}." for what in missing()]
    if parser.parse_args().release and lacking:
        raise SystemExit("\n".join(lacking))
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    for old in [file for kind in KINDS for file in out.glob(f"privod*{kind}")]:
        old.unlink()
    library, client = built(ROOT, out), built(CLIENT, out)
    with tempfile.TemporaryDirectory() as empty:
        scripts = environment(Path(empty) / "client", str(client))
        code = "import privod_client, sys; assert 'numpy' not in sys.modules"
        subprocess.run([scripts / "python", "-I", "-c", code], check=True, cwd=empty)
        taken = size(Path(empty) / "client")
        assert taken <= LARGEST_CLIENT, f"the thin client takes {taken} bytes"
        print(f"{client.name}: {client.stat().st_size} bytes, installed {taken / 1e6:.1f} MB.")
        wanted = f"privod[demo] @ {library.resolve().as_uri()}"
        scripts = environment(Path(empty) / "library", wanted)
        bill_of_materials(scripts, out / f"{'-'.join(library.name.split('-')[:2])}.cdx.json")
        subprocess.run([scripts / "privod", "--version"], check=True, cwd=empty)
        subprocess.run([scripts / "privod", "demo"], check=True, cwd=empty)
        assert (Path(empty) / "out" / "privod-demo.html").is_file()
        install(scripts, str(client))
        code = "import privod as p, privod_client as c; assert p.__version__ == c.__version__"
        subprocess.run([scripts / "python", "-I", "-c", code], check=True, cwd=empty)
    print(f"{library.name} installs into an empty environment and runs the demo there.")
    print(*lacking, sep="\n")


if __name__ == "__main__":
    main()
