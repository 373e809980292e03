"""The picture of the README: the private detector beside IsolationForest, on new stays.

python -m scripts.run_benchmark benchmarks/first_picture.py     # and the ROC curves as a PNG
python -m scripts.write_figures --take out/benchmarks           # into the page
"""

from __future__ import annotations

import argparse
from pathlib import Path

from privod.data.examples import HOSPITAL, hospital
from privod.demo.story import race
from privod.estimators import PrivateDetector
from privod.pictures import png

FOLDER = Path("out/benchmarks/first_picture")


def main() -> None:
    """Fit once, score new stays, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    stays = hospital(2_000) if parser.parse_args().smoke else hospital()
    points = stays.numbers(HOSPITAL.numeric_names)
    ran = race(PrivateDetector(epsilon=1).fit(points), stays)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "roc.png").write_bytes(png(ran.draw()))
    private, forest = ran.areas()
    print(f"figure auroc_private {private:.3f}")
    print(f"figure auroc_forest {forest:.3f}")


if __name__ == "__main__":
    main()
