"""Does the noise of a profile that came from outside keep the promise that stands beside it?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privod.mechanisms.merged import MergedNoise
from privod.privacy import Guarantee, Loss
from privod.privacy.zcdp import rho_of_loss
from privod.query.count_query import COUNTS_CHANGED
from privod.query.moments import products_change, squared_products_change
from privod.questions.detector_profile.layout import Layout


@dataclass(frozen=True)
class Noises:
    """The noise of the number of records, of the cells, of the products and of the scores."""

    total: MergedNoise
    counts: MergedNoise
    products: MergedNoise | None
    scores: MergedNoise | None

    def keep(self, promise: Guarantee, search_loss: Fraction, layout: Layout) -> bool:
        """Whether this noise, and what finding ranges and units cost, have exactly this loss."""
        changed = COUNTS_CHANGED[promise.adjacency]
        cells = changed * len(layout.columns)
        parts = [(self.total, 1, 1), (self.counts, cells, cells)]
        if self.products is not None:
            absolute = changed * products_change(len(layout.numeric))
            parts.append((self.products, absolute, changed * squared_products_change()))
        if self.scores is not None:
            parts.append((self.scores, changed, changed))
        return search_loss >= 0 and _kept(promise.loss, search_loss, parts)


def _kept(loss: Loss, spent: Fraction, parts: list[tuple[MergedNoise, int, int]]) -> bool:
    """Whether the least noisy draws, and what finding ranges and units cost, keep the promise.

    In a merge a later batch, with cells given, does not pay for the ranges.
    """
    merged = parts[0][0].n_draws > 1
    lost = Fraction(0) if merged else spent
    for noise, absolute, squared in parts:
        mixed = noise.gaussian and noise.parts
        if bool(loss.delta) != bool(noise.gaussian) or mixed:
            return False
        gaussian = noise.gaussian
        lost += squared / (2 * gaussian[0][0]) if gaussian else absolute / noise.least_scale
    if loss.delta:
        return lost <= rho_of_loss(loss.epsilon, loss.delta)
    return lost <= loss.epsilon if merged else lost == loss.epsilon
