"""In which columns do the most outliers show? [Okada 2015]"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(__name__)
