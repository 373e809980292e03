"""How many outlying records are there? [Okada 2015]"""

from privod.registry import described

QUESTION = described(__name__)
