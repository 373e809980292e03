"""How far from what is ordinary here is a new record, and why?"""

from privod.registry import described

QUESTION = described(
    __name__,
    value="privod.questions.detector_profile.release:NoisyProfile",
    exports=("privod.estimators.private:PrivateDetector",),
)
