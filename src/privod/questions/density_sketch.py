"""How densely do the records lie around a new one?"""

from privod.questions.registry import Question

__all__ = ["QUESTION"]

QUESTION = Question(
    name="density-sketch-1",
    query="privod.queries.density_sketch.query:DensitySketch",
    picture="privod.pictures.density_sketch:draw",
    games="privod.audit.density_sketch:games",
    exports=("privod.queries.density_sketch.release:NoisySketch",),
    guide="questions/density_sketch.md",
    proof="proofs/density_sketch.md",
)
