"""Every benchmark and every experiment of the papers runs: the smallest run of each script."""

from __future__ import annotations

# slow: left out by `make quick`
import os
import runpy
import sys
from pathlib import Path

import pytest

from tests.forked import Forked

ROOT = Path(__file__).parent.parent
ELSEWHERE = {"soak_spark"}  # tests/test_spark.py, which has a session already
SCRIPTS = sorted(
    path
    for path in (ROOT / "benchmarks").rglob("[a-z]*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8") and path.stem not in ELSEWHERE
)


def run_smoke(script: Path, folder: Path) -> None:
    """What `python script --smoke` does in a folder; scripts find the project's root themselves."""
    os.chdir(folder)
    others = [path for path in sys.path if Path(path).resolve() != ROOT]
    sys.path[:] = [str(script.parent), *others]
    sys.argv = [str(script), "--smoke"]
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_in_seconds_and_says_its_figures(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.environ.get("PRIVOD_DATA")
    if data is not None:
        monkeypatch.setenv("PRIVOD_DATA", str(Path(data).resolve()))
    elif "PRIVOD_DATA" in script.read_text(encoding="utf-8"):
        pytest.skip("PRIVOD_DATA is not set")
    run = Forked(tmp_path, run_smoke, script, tmp_path)
    said, problem = run.communicate()
    assert run.returncode == 0, problem[-2000:]
    tables = sorted(tmp_path.glob("out/papers/*/*.csv"))
    assert tables or said.startswith("skipped: ") or "\nfigure " in f"\n{said}"
