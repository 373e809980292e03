"""A curator with 20,000 made-up hospital stays and tokens, to click through: `make serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from privod.curator import Curator
from privod.data.examples import HOSPITAL, hospital
from privod.privacy import AddRemove, Loss
from privod.server.authentication import create_token

DATASET = "stays"
BUDGET = Loss("10", "1e-5")
MOST_RECORDS = 50_000


@dataclass(frozen=True)
class Sample:
    """A curator ready to be tried, and a token for each role."""

    curator: Curator
    owner: str
    analyst: str
    auditor: str


def sample(directory: Path) -> Sample:
    """Register the sample data in a new directory, open a budget and make the tokens."""
    curator = Curator.open(directory)
    curator.register(DATASET, hospital(), HOSPITAL, most_records=MOST_RECORDS)
    curator.open_budget(DATASET, AddRemove(), BUDGET)
    return Sample(
        curator,
        owner=create_token(curator, "owner", None, "sample owner"),
        analyst=create_token(curator, "analyst", None, "sample analyst"),
        auditor=create_token(curator, "auditor", None, "sample auditor"),
    )
