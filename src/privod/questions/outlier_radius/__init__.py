"""At which radius does a wanted share of the records stand apart?"""

from privod.registry import described

QUESTION = described(__name__)
