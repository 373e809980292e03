"""The thin client: a small distribution of its own that asks a server with httpx alone."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import privod_client
from privod import wire
from privod.client import connect
from privod.query.catalog import release_from_json
from privod.questions.histogram.query import Histogram
from tests.running_server import Running, running

CLIENT = Path(__file__).parent.parent / "client"
LARGEST_WHEEL = 100_000  # bytes
LARGEST_ENVIRONMENT = 20_000_000  # bytes, with httpx and all that it needs

PROGRAM = """
import json, sys
from privod_client import BudgetExceeded, connect, question

with connect(sys.argv[1], sys.argv[2]) as curator:
    asked = question("histogram", columns=["sex"], epsilon="0.25")
    price = curator.price(asked, of="patients")
    answer = curator.ask(asked, of="patients")
    try:
        curator.ask(question("histogram", columns=["sex"], epsilon="5000"), of="patients")
        refused = ""
    except BudgetExceeded as problem:
        refused = str(problem)
    told = {
        "price": str(price.charges[0].loss.epsilon),
        "sentence": answer.sentence,
        "release": answer.release,
        "refused": refused,
        "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
    }
    print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("thin")) as server:
        yield server


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy without links, as an sdist holds it; needs no index."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(CLIENT, folder / "client", ignore=shutil.ignore_patterns("*.egg-info", "build"))
    pip = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-index", "--no-deps"]
    built = [*pip, "--no-build-isolation", "--wheel-dir", str(folder), str(folder / "client")]
    subprocess.run(built, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel, and what its metadata ask for and nothing else."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    here = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", vars=here))
    (thin,) = distributions(path=[str(packages)])
    for name in _with_dependencies(thin.requires or []):
        for file in distribution(name).files or ():
            if not file.parts[0].startswith("."):  # a script, outside of the packages
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), packages / file)
    return python


def _with_dependencies(wanted: list[str]) -> set[str]:
    found: set[str] = set()
    while wanted:
        requirement = Requirement(wanted.pop())
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in found:
            found.add(requirement.name)
            wanted += distribution(requirement.name).requires or []
    return found


def test_in_an_empty_environment_it_prices_asks_and_tells_a_refusal(
    python: Path, server: Running, tmp_path: Path
) -> None:
    run = [str(python), "-I", "-c", PROGRAM, server.url, server.token("analyst")]
    shown = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    told = json.loads(shown.stdout)
    release = server.curator.release("patients", Histogram(columns=("sex",), epsilon="0.25"))
    assert told["price"] == "1/4"
    assert told["sentence"] == release.sentence()
    assert release_from_json(told["release"]) == release  # privod reads what the client was sent
    assert "allows epsilon 1000" in told["refused"]
    assert {"httpx", "privod_client"} <= set(told["loaded"])
    assert not {"privod", "numpy", "pyarrow", "scipy", "numba"} & set(told["loaded"])


def test_the_wheel_and_all_it_needs_are_small(wheel: Path, python: Path) -> None:
    assert wheel.stat().st_size <= LARGEST_WHEEL
    installed = (python.parent.parent / "lib").rglob("*")
    assert sum(file.stat().st_size for file in installed if file.is_file()) <= LARGEST_ENVIRONMENT


def test_beside_privod_both_clients_tell_the_same(server: Running) -> None:
    token = server.token("analyst")
    asked = privod_client.question("histogram", columns=("age",), epsilon=Fraction(1, 3), bins=4)
    with connect(server.url, token) as whole, privod_client.connect(server.url, token) as thin:
        answer = thin.ask(asked, of="patients")
        again = whole.ask(Histogram(columns=("age",), epsilon="1/3", bins=4), of="patients")
        assert again.stored
        assert release_from_json(answer.release) == again.release
        assert next(one.key for one in thin.answers("patients")) == answer.key
        assert thin.answer("patients", answer.key).sentence == again.release.sentence()
        assert thin.picture("patients", answer.key).startswith(b"<?xml")
        assert thin.table("patients", answer.key) == again.release.to_csv()
        assert [one.name for one in thin.datasets()] == ["patients"]
        assert thin.visitor().role == "analyst"
        assert "histogram" in [one.name for one in thin.questions()]
        (budget,) = thin.budget("patients")
        (same,) = whole.budget("patients")
        assert budget.left.epsilon == same.left.epsilon
        assert [entry.hash for entry in thin.history("patients")] == [
            entry.hash for entry in whole.history("patients")
        ]
        filed = thin.request("patients", {"name": "add-remove"}, "for a study", "2000")
        assert filed.decision == "open"
        with pytest.raises(privod_client.InvalidParameter, match="epsilon"):
            thin.price(privod_client.question("histogram", columns=["age"], epsilon=-1), "patients")
    with privod_client.connect(server.url, server.token("auditor")) as auditor:
        assert auditor.verify().entries == len(server.curator.history())


def test_what_it_shares_with_the_library_is_the_library_s_own_file() -> None:
    source = Path(privod_client.__file__).parent
    own = {"__init__.py", "client.py"}
    for path in source.rglob("*.py"):
        if str(path.relative_to(source)) not in own:
            assert path.is_symlink(), path
            assert path.resolve().is_relative_to(CLIENT.parent / "src" / "privod")
    for name in wire.__all__:
        if is_dataclass(getattr(wire, name)):
            thin = getattr(privod_client.wire, name)
            assert [each.name for each in fields(thin)] == [
                each.name for each in fields(getattr(wire, name))
            ]
