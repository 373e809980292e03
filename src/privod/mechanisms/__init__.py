"""How noise is added: randomness, exact noise, exact coins, exact choices."""

from privod.mechanisms.coins import bernoulli, bernoulli_exp, damped_logistic
from privod.mechanisms.gaussian import DiscreteGaussian
from privod.mechanisms.noise import DiscreteLaplace, Geometric
from privod.mechanisms.randomness import Randomness, secure, seeded
from privod.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, Top
from privod.mechanisms.sparse import count_reaching, distinct

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Geometric",
    "PermuteAndFlip",
    "Randomness",
    "Top",
    "bernoulli",
    "bernoulli_exp",
    "count_reaching",
    "damped_logistic",
    "distinct",
    "secure",
    "seeded",
]
