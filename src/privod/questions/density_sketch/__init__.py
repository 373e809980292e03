"""How densely do the records lie around a new one?"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(
    __name__,
    value="privod.questions.density_sketch.release:NoisySketch",
)
