"""How many records are outlying, those near the line counted in part?"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(__name__)
