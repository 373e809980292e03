"""A question of another package is everywhere that ours are, once that package is installed.

The package is made here: five small modules and the metadata that an installer writes, on the path
of a fresh interpreter. No file of privod changes.
"""

from __future__ import annotations

# slow: left out by `make quick`
import os
import subprocess
import sys
from pathlib import Path

import pytest

from privod.errors import AlreadyExists, NotFound
from privod.registry import Question, question, questions, register

ROOT = Path(__file__).parent.parent

QUERY = '''
"""How many records are there?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from privod.mechanisms import DiscreteLaplace
from privod.privacy import AddRemove, Guarantee, positive
from privod.query.query import Query


@dataclass(frozen=True, kw_only=True)
class RowCount(Query[int]):
    """How many records are there?

    Guarantee
    ---------
    Every record is protected.

    Parameters
    ----------
    epsilon : number
        The privacy loss, greater than 0.
    """

    name: ClassVar[str] = "row-count"
    question: ClassVar[str] = "How many records are there?"

    epsilon: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

    @property
    def noise(self):
        return DiscreteLaplace.for_loss(Fraction(self.epsilon), 1)

    def guarantee(self):
        return Guarantee(self.noise.loss(1), AddRemove())

    def check(self, domain):
        pass

    def answer(self, table, randomness):
        noisy = self.noise.add_to(np.array([len(table)]), randomness)
        return self.release(int(noisy[0]), randomness)

    def sentence(self, value):
        return f"There are about {value} records."

    def value_to_json(self, value):
        return value

    def value_from_json(self, data):
        return int(data)

    @classmethod
    def examples(cls, domain):
        return (cls(epsilon="0.5"),)
'''

PICTURE = '''
"""One bar."""

from privod.pictures.canvas import blank


def draw(release):
    figure, axes = blank("Records")
    axes.bar(["records"], [release.value])
    return figure
'''

CASES = '''
"""One record against none."""

import numpy as np

from counting_rows.query import RowCount
from privod.audit import WorstCase
from privod.data import Domain, Numeric, Table

DOMAIN = Domain((Numeric("x", 0, 1),))


def worst_cases():
    one, none = (Table(DOMAIN, {"x": np.full(size, 0.5)}) for size in (1, 0))
    return (WorstCase(RowCount(epsilon="0.8"), one, none),)
'''

DESCRIPTION = '''
"""What privod is told."""

from privod.registry import Question

QUESTION = Question(
    name="row-count",
    query="counting_rows.query:RowCount",
    picture="counting_rows.picture:draw",
    worst_cases="counting_rows.cases:worst_cases",
)
'''

ENTRY_POINTS = "[privod.questions]\nrow-count = counting_rows.description:QUESTION\n"

EVERYWHERE = """
import json, os, sys
from pathlib import Path
from typer.testing import CliRunner

from privod import RowCount
import privod
assert "RowCount" in privod.__all__ and "RowCount" in dir(privod)

from privod.query.catalog import QUERIES, query_from_json
assert QUERIES["row-count"] is RowCount
assert query_from_json({"name": "row-count", "epsilon": "1/2"}) == RowCount(epsilon="0.5")

from privod.cli import app
from tests.running_server import running

def shell(*arguments):
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exception is None, (arguments, result.exception)
    return json.loads(result.stdout)

assert "row-count" in [one["name"] for one in shell("questions")]
assert shell("questions", "row-count")["parameters"][0]["name"] == "epsilon"
assert all(one["holds"] for one in shell("audit", "row-count", "--pairs", "200"))

place = Path(sys.argv[1])
with running(place) as server:
    at = ("--at", str(place))
    price = shell("price", "patients", "row-count", "epsilon=0.5", *at)
    assert price["charges"][0]["loss"]["epsilon"] == "1/2"
    answer = shell("ask", "patients", "row-count", "epsilon=0.5", *at)
    assert answer["release"]["query"]["name"] == "row-count"
    with server.browser(server.token("analyst")) as browser:
        listed = browser.get("/data/patients/ask")
        assert "How many records are there?" in listed.text
        form = browser.get("/data/patients/ask/row-count")
        assert form.status_code == 200 and 'name="epsilon"' in form.text
        shown = browser.get(f"/data/patients/answers/{answer['key']}")
        assert answer["sentence"] in shown.text
        picture = browser.get(f"/data/patients/answers/{answer['key']}.svg")
        assert picture.status_code == 200 and b"<svg" in picture.content
    with server.api(server.token("analyst")) as api:
        assert "row-count" in [one["name"] for one in api.get("/questions").json()]
    assert server.curator.verify().questions == 1

from privod.demo import catalog
# The demo asks about all that the catalog lists; the slow ones are left out of the catalog here.
catalog.QUERIES = {n: k for n, k in QUERIES.items() if n.startswith(("row", "histogram"))}
steps = catalog.run(place / "demo").steps
assert "How many records are there?" in [step.question for step in steps]
print("everywhere")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which a package with a question of its own is installed."""
    site = tmp_path_factory.mktemp("site")
    package, metadata = site / "counting_rows", site / "counting_rows-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text("")
    for name, text in (
        ("query", QUERY),
        ("picture", PICTURE),
        ("cases", CASES),
        ("description", DESCRIPTION),
    ):
        (package / f"{name}.py").write_text(text.lstrip())
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: counting-rows\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join([str(site), str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path}


def ran(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_question_of_another_package_is_everywhere(
    installed: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", EVERYWHERE, str(tmp_path / "curator")]
    assert "everywhere" in ran(command, installed)


def test_a_question_of_another_package_is_held_to_the_contract(installed: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pytest", "tests/contracts.py", "-k", "row-count"]
    told = ran([*command, "-q", "-p", "no:cacheprovider"], installed)
    passed = int(told.split(" passed")[0].split()[-1]) if " passed" in told else told.count(".")
    assert passed >= 10


def test_the_same_package_with_a_name_that_is_taken_is_refused(
    installed: dict[str, str], tmp_path: Path
) -> None:
    second = tmp_path / "other-1.0.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (second / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.pathsep.join([str(tmp_path), installed["PYTHONPATH"]])
    command = [sys.executable, "-c", "from privod.registry import questions; questions()"]
    done = subprocess.run(
        command,
        env={**installed, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Two packages bring a question 'row-count'" in done.stderr


def test_a_name_cannot_be_registered_for_something_else() -> None:
    other = Question(name="histogram", query="a:B", picture="a:draw")
    with pytest.raises(AlreadyExists, match="histogram"):
        register(other)
    register(questions()["histogram"])  # the same again is nothing new
    with pytest.raises(NotFound, match="There is no question"):
        question("nothing")


def test_a_question_of_ours_has_one_name() -> None:
    for name, one in questions().items():
        stem = name.replace("-", "_")
        kind = "".join(word.capitalize() for word in stem.split("_"))
        assert one.query.endswith(f":{kind}"), "its class"
        assert (ROOT / "src" / "privod" / "questions" / stem / "__init__.py").is_file(), (
            "its folder"
        )
        assert (one.guide, one.proof) == (f"questions/{stem}.md", f"proofs/{stem}.md"), "its pages"
