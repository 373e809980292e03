"""Does every page of the console stand thousands of questions and very long names?

    python benchmarks/soak_console.py [--questions 3000]

A curator is filled with so many answered questions about a data set whose name, columns and
categories are as long as they may be. Then every page in the server's table of routes is opened in
Chromium by each role, light and dark, wide and narrow (`tests/browser/test_many.py`): nothing may
reach beyond the screen, be too pale to read, lack a label, or be found by axe-core where that is
installed. The pictures are in out/screenshots, or where PRIVOD_SCREENSHOTS says. Needs Chromium.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import pytest

TEST = Path(__file__).parent.parent / "tests" / "browser" / "test_many.py"


def main() -> None:
    """Run the test with so many questions; exit as it does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=3000)
    parser.add_argument("--quick", action="store_true", help="120 questions")
    parser.add_argument("--smoke", action="store_true", help="seconds, to see that it runs")
    given = parser.parse_args()
    questions = 2 if given.smoke else 120 if given.quick else given.questions
    few = ["--collect-only"] if given.smoke else []  # tests visit every page, too
    began = time.monotonic()
    os.chdir(TEST.parents[2])
    os.environ["PRIVOD_CONSOLE_QUESTIONS"] = str(questions)
    os.environ.setdefault("PRIVOD_SCREENSHOTS", "out/screenshots")
    failed = pytest.main(["-n", "0", "-rs", str(TEST), *few])
    print(f"figure console_questions {questions}")
    print(f"figure console_seconds {time.monotonic() - began:.3g}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
