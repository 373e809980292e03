"""In which columns do the most outliers show? [Okada 2015]"""

from privod.registry import described

QUESTION = described(__name__)
