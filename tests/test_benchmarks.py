"""Every benchmark and every experiment of the papers runs: the smallest run of each script."""

from __future__ import annotations

# slow: left out by `make quick`
import multiprocessing
import os
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(
    path
    for path in (ROOT / "benchmarks").rglob("[a-z]*.py")
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
)

# Each script gets a process of its own, forked from one that has imported what most of them import.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["matplotlib.pyplot", "pandas", "privod.curator", "privod.estimators", "sklearn.ensemble"]
)


def run_as_a_user_does(script: Path, folder: Path, data: str | None) -> None:
    """What `python script --smoke` does in a folder; what it says goes to two files there."""
    for stream, name in ((1, "said"), (2, "complained")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, stream)
    os.chdir(folder)
    if data is not None:
        os.environ["PRIVOD_DATA"] = data
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    sys.path[:0] = [str(script.parent), str(ROOT)]
    sys.argv = [str(script), "--smoke"]
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_in_seconds_and_says_its_figures(script: Path, tmp_path: Path) -> None:
    data = os.environ.get("PRIVOD_DATA")
    if "PRIVOD_DATA" in script.read_text(encoding="utf-8") and data is None:
        pytest.skip("PRIVOD_DATA is not set")
    resolved = None if data is None else str(Path(data).resolve())
    run = FORKS.Process(target=run_as_a_user_does, args=(script, tmp_path, resolved))
    run.start()
    run.join()
    assert run.exitcode == 0, (tmp_path / "complained").read_text(encoding="utf-8")[-2000:]
    said = (tmp_path / "said").read_text(encoding="utf-8")
    tables = sorted(tmp_path.glob("out/papers/*/*.csv"))
    assert tables or said.startswith("skipped: ") or "\nfigure " in f"\n{said}"
