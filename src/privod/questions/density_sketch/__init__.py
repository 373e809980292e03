"""How densely do the records lie around a new one?"""

from privod.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="density-sketch-1",
    query="privod.questions.density_sketch.query:DensitySketch",
    picture="privod.questions.density_sketch.picture:draw",
    games="privod.questions.density_sketch.audit:games",
    value="privod.questions.density_sketch.release:NoisySketch",
    guide="questions/density_sketch.md",
    proof="proofs/density_sketch.md",
)
