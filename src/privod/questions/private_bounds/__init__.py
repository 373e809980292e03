"""Between which values do the records lie?"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(__name__)
