"""How far from the records at hand does a new one lie? [Rauch 2021]"""

from privod.registry import described

QUESTION = described(__name__, value="privod.questions.grid_knn.release:NoisyGrid")
