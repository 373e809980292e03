"""How many outlying records are there? [Okada 2015]"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(__name__)
