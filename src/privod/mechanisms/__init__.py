"""How an answer is blurred: randomness, exact noise, exact coins, exact choices."""

from privod.mechanisms.noise import DiscreteLaplace, Geometric
from privod.mechanisms.randomness import Randomness, secure, seeded

__all__ = ["DiscreteLaplace", "Geometric", "Randomness", "secure", "seeded"]
