"""How many records have these values, if they are rare? [Asif 2020]"""

from privod.registry import described

QUESTION = described(__name__, exports=("privod.questions.rare_counts.query:ValueCounts",))
