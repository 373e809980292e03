"""Below which values do these shares of the records lie?"""

from privod.registry import described

QUESTION = described(__name__, exports=("privod.questions.quantiles.query:NoisyQuantiles",))
