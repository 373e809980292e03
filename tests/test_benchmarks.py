"""Every benchmark and every experiment of the papers runs: the smallest run of each script."""

from __future__ import annotations

# slow: left out by `make quick`
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(
    path
    for path in (ROOT / "benchmarks").rglob("[a-z]*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_in_seconds_and_says_its_figures(script: Path, tmp_path: Path) -> None:
    if "PRIVOD_DATA" in script.read_text(encoding="utf-8") and "PRIVOD_DATA" not in os.environ:
        pytest.skip("PRIVOD_DATA is not set")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    if data := os.environ.get("PRIVOD_DATA"):
        environment["PRIVOD_DATA"] = str(Path(data).resolve())
    command = [sys.executable, str(script), "--smoke"]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    tables = sorted(tmp_path.glob("out/papers/*/*.csv"))
    skipped = run.stdout.startswith("skipped: ")
    assert tables or skipped or "\nfigure " in f"\n{run.stdout}"
