"""Between which values do the records lie?"""

from privod.registry import described

QUESTION = described(__name__)
