"""How are the records spread over these columns?"""

from privod.registry import described

QUESTION = described(__name__, exports=("privod.questions.histogram.query:NoisyCounts",))
