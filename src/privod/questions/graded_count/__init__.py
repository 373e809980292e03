"""How many records are outlying, those near the line counted in part?"""

from privod.registry import described

QUESTION = described(__name__)
