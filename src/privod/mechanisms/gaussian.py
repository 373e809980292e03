"""How are many counts at once made noisy? By integers drawn exactly from the discrete Gaussian law.

P(X = k) is proportional to e^(-k^2 / (2 sigma2)) [Canonne, Kamath and Steinke 2020], drawn by table
look-ups and rejection, without a float: docs/proofs/discrete_gaussian.md. The time that a batch of
draws takes depends slightly on the noise drawn, never on the counts it is added to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.arrays import Bools, Floats, Ints
from privod.errors import InvalidParameter
from privod.mechanisms import gaussian_loss
from privod.mechanisms.exact import Enclosure, Uniform, exp_minus
from privod.mechanisms.inversion import InversionTable
from privod.mechanisms.law import Lost, changes_of
from privod.mechanisms.noise import Added, Geometric
from privod.mechanisms.randomness import Randomness
from privod.privacy import Loss, Number, exact, positive

SMALLEST_SIGMA2 = Fraction(1, 10**6)  # a loss rho of half a million: anything smaller is a slip
LARGEST_SIGMA2 = Fraction(2**80)  # noise around a trillion, which still fits 64 bits with ease

BLOCKS_PER_SIGMA = 16  # at least, where a block holds more than one integer; at most twice as many
REACH = 6  # blocks reach this many sigmas: one draw in 10^8 lies beyond
PART_BITS = 8  # whether a member is accepted is tabulated for 256 parts of its block
PREFIX_BITS = 16  # bits of the uniform number that a part's table is asked with
CHANCE_BITS = 31  # binary places of the tabulated chances: a product of two fits 64 bits
SUMMED_TO = 4096  # up to this sigma tails are summed term by term for humans; past it integrated


@dataclass(frozen=True)
class DiscreteGaussian(Added):
    """Integer noise k with probability proportional to e^(-k^2 / (2 sigma2)), exactly.

    Guarantee
    ---------
    Integers whose changes between adjacent data sets have squares that sum to at most
    `squared_sensitivity`, each with its own draw added, lose rho = squared_sensitivity /
    (2 sigma2) in the sense of zero-concentrated differential privacy, and (epsilon, delta) for
    every pair with delta at least `delta(epsilon, squared_sensitivity)`.

    Parameters
    ----------
    sigma2 : number
        The variance of the continuous law of the same formula, between 1/10^6 and 2^80, read as
        an exact fraction.
    """

    sigma2: Fraction

    def __post_init__(self) -> None:
        number = exact(self.sigma2, "sigma2")
        if not SMALLEST_SIGMA2 <= number <= LARGEST_SIGMA2:
            rule = "must lie between 1/10^6 and 2^80"
            raise InvalidParameter("sigma2", rule, float(f"{float(number):.6g}"), "Try 100.")
        object.__setattr__(self, "sigma2", number)

    @classmethod
    def for_loss(
        cls, epsilon: Number, delta: Number, squared_sensitivity: Number
    ) -> DiscreteGaussian:
        """The least noise that is proved to lose at most epsilon and delta."""
        lost = Loss(positive(epsilon, "epsilon"), positive(delta, "delta"))
        changed = positive(squared_sensitivity, "squared_sensitivity")
        if lost.delta >= 1:
            raise InvalidParameter("delta", "must be below 1", delta, "Try 1e-6.")
        sigma2 = gaussian_loss.least_sigma2(lost.epsilon, lost.delta, changed)
        if not SMALLEST_SIGMA2 <= sigma2 <= LARGEST_SIGMA2:
            rule = "must be neither tiny nor huge for Gaussian noise"
            raise InvalidParameter("epsilon", rule, epsilon, "Try 1.")
        return cls(sigma2)

    @classmethod
    def for_rho(cls, rho: Number, squared_sensitivity: Number) -> DiscreteGaussian:
        """The noise that loses exactly `rho`."""
        changed = positive(squared_sensitivity, "squared_sensitivity")
        return cls(changed / (2 * positive(rho, "rho")))

    def rho(self, squared_sensitivity: Number) -> Fraction:
        """The zero-concentrated loss [Canonne, Kamath and Steinke 2020, Theorem 14]."""
        return positive(squared_sensitivity, "squared_sensitivity") / (2 * self.sigma2)

    def delta(self, epsilon: Number, squared_sensitivity: Number) -> Fraction:
        """A delta that the noise keeps at this epsilon; the least one, rounded up."""
        changed = positive(squared_sensitivity, "squared_sensitivity")
        return gaussian_loss.delta(self.sigma2, positive(epsilon, "epsilon"), changed)

    def keeps(self, loss: Loss, squared_sensitivity: Number) -> bool:
        """Whether no more than this is lost, for certain."""
        return self.delta(loss.epsilon, squared_sensitivity) <= loss.delta

    def loss(self, squared_sensitivity: Number, delta: Number) -> Loss:
        """What is lost at this delta; the least epsilon, rounded up to six digits."""
        chance = positive(delta, "delta")
        changed = positive(squared_sensitivity, "squared_sensitivity")
        return Loss(gaussian_loss.epsilon(self.sigma2, chance, changed), chance)

    @property
    def sigma(self) -> float:
        """The square root of `sigma2`, for humans."""
        return math.sqrt(self.sigma2)

    @property
    def deviation(self) -> float:
        """The standard deviation, for humans: hardly below sigma, where that is not tiny."""
        if self.sigma2 > 100:
            return self.sigma
        sizes, law = _law(self.sigma2)
        return math.sqrt(float((law * sizes**2).sum()))

    def tail(self, size: int) -> float:
        """The probability of noise larger than `size` >= 0 in absolute value, for error bars."""
        if size < 0:
            return 1.0
        return 2 * self.reaching(size + 1)

    def reaching(self, threshold: int) -> float:
        """The probability of noise of at least `threshold`, for planning."""
        if threshold <= 0:
            return 1 - self.reaching(1 - threshold)
        if self.sigma > SUMMED_TO:
            return math.erfc((threshold - 0.5) / self.sigma / math.sqrt(2)) / 2
        sizes, law = _law(self.sigma2)
        return float(law[sizes >= threshold][::-1].sum())

    def quantile(self, confidence: float) -> int:
        if not 0 < confidence < 1:
            raise InvalidParameter("confidence", "must lie in (0, 1)", confidence, "Try 0.95.")
        low, high = -1, math.ceil(40 * self.sigma) + 1  # float tails are 0 there
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.tail(middle) <= 1 - confidence else (middle, high)
        return high

    def _draws(self, n: int, bits: Randomness) -> Ints:
        return _sampler(self.sigma2).draw(n, bits)

    def largest_loss(self, seen: Any, other: Any, other_seen: Any) -> Lost:
        changed = sum(each * each for each in changes_of(self, seen, other, other_seen))
        return Lost(rho=changed / (2 * self.sigma2), gaussian=((self.sigma2, changed),))


class _Sampler:
    """Proposes blocks, members of blocks, and rejects; see Theorem 1 of the proof.

    The outcomes of the table are h = 0 .. n_blocks, the last one for all that lies beyond, and
    their complements. Outcome h proposes a size s of h * width .. h * width + width - 1; the
    complement of h proposes -1 - s. The least distance from 0 in either is its `edge`.
    """

    def __init__(self, sigma2: Fraction) -> None:
        self._sigma2 = sigma2
        root = math.isqrt(math.floor(sigma2))
        self._shift = max(0, (root // BLOCKS_PER_SIGMA).bit_length() - 1)
        self._width = 1 << self._shift
        self._n_blocks = max(1, math.ceil(REACH * (root + 1) / self._width))
        plain = np.arange(self._n_blocks + 1, dtype=np.int16)
        self._table = InversionTable(self._thresholds, np.concatenate([plain, ~plain]))
        self._part_bits = min(PART_BITS, self._shift)
        if self._shift:
            self._sure, self._possible = self._chances()

    def draw(self, n: int, randomness: Randomness) -> Ints:
        drawn, accepted = self._propose(n, randomness)
        rejected = np.flatnonzero(~accepted)
        while rejected.size:
            again, accepted = self._propose(rejected.size, randomness)
            drawn[rejected] = again
            rejected = rejected[~accepted]
        return drawn

    def _propose(self, n: int, randomness: Randomness) -> tuple[Ints, Bools]:
        """Propose `n` draws, and say which of them are accepted."""
        code = self._table.draw(n, randomness)
        drawn = code.astype(np.int64)
        accepted = np.ones(n, dtype=np.bool_)
        if self._shift:
            offsets = self._offsets(n, randomness)
            drawn = (drawn << self._shift) ^ offsets  # a complement takes the offset's along
            drawn[code < 0] ^= self._width - 1
            accepted = self._accept(code, offsets, randomness)
        beyond = np.flatnonzero((code == self._n_blocks) | (code == ~self._n_blocks))
        for place in beyond:
            drawn[place], accepted[place] = self._propose_beyond(code[place] < 0, randomness)
        return drawn, accepted

    def _offsets(self, n: int, randomness: Randomness) -> Ints:
        """Even draws below the width of a block."""
        if self._shift <= 16:
            return (randomness.halfwords(n) >> np.uint16(16 - self._shift)).astype(np.int64)
        return (randomness.words(n) >> np.uint64(64 - self._shift)).astype(np.int64)

    def _accept(self, code: NDArray[np.int16], offsets: Ints, randomness: Randomness) -> Bools:
        """Flip a coin of probability e^(-(2 edge offset + offset^2) / (2 sigma2)) for each."""
        prefixes = randomness.halfwords(code.size)
        places = (code.astype(np.int64) + (self._n_blocks + 1)) << self._part_bits
        places += offsets >> (self._shift - self._part_bits)
        accepted = prefixes < self._sure.take(places)
        unsure = np.flatnonzero(~accepted)
        unsure = unsure[prefixes[unsure] < self._possible.take(places[unsure])]
        for place in unsure:
            edge, offset = self._edge(int(code[place])), int(offsets[place])
            gap = offset * (2 * edge + offset) / (2 * self._sigma2)
            uniform = Uniform(randomness, int(prefixes[place]), PREFIX_BITS)
            accepted[place] = uniform.is_below(lambda p, gap=gap: exp_minus(gap, p))  # type: ignore[misc]
        return accepted

    def _propose_beyond(self, complement: bool, randomness: Randomness) -> tuple[int, bool]:
        """Past the last block: its edge plus a geometric number."""
        edge = self._edge(~self._n_blocks if complement else self._n_blocks)
        size = edge + int(Geometric(self._sigma2 / edge).draw(1, randomness)[0])
        gap = Fraction((size - edge) ** 2) / (2 * self._sigma2)
        accepted = Uniform(randomness).is_below(lambda p: exp_minus(gap, p))
        return (-size if complement else size), accepted

    def _edge(self, code: int) -> int:
        """The least distance from 0 in the block of a code."""
        return code * self._width if code >= 0 else ~code * self._width + 1

    def _thresholds(self, precision: int) -> list[Enclosure]:
        """The proposals: width e^(-edge^2 / (2 sigma2)) a block, beyond a geometric series."""
        working = precision + 2 * (self._n_blocks + 1).bit_length() + 8
        one = Enclosure(1 << working, 1 << working, working)
        beyond = [
            _weight(self._sigma2, edge, working) / (one - exp_minus(edge / self._sigma2, working))
            for edge in (self._edge(self._n_blocks), self._edge(~self._n_blocks))
        ]
        sums = []
        total = Enclosure(0, 0, working)
        for side in (0, 1):
            for block in range(self._n_blocks):
                edge = self._edge(~block if side else block)
                total = total + _weight(self._sigma2, edge, working).times(self._width)
                sums.append(total)
            total = total + beyond[side]
            sums.append(total)
        return [(part / total).rounded(precision) for part in sums[:-1]]

    def _chances(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """For each part of each block: 16-bit numbers that surely accept, and that may.

        Chances fall along a block, so those of the last and of the first member of a part enclose
        all others. Fixed-point numbers, every product rounded outward; codes in ascending order.
        """
        step = self._width >> self._part_bits
        codes = range(~self._n_blocks, self._n_blocks + 1)
        places = range((1 << self._part_bits) + 1)
        ratios = [exp_minus(self._edge(c) * step / self._sigma2, CHANCE_BITS) for c in codes]
        squares = [exp_minus((i * step) ** 2 / (2 * self._sigma2), CHANCE_BITS) for i in places]
        ratio_low = np.array([ratio.low for ratio in ratios], dtype=np.int64)
        ratio_high = np.array([ratio.high for ratio in ratios], dtype=np.int64)
        low = np.full(len(ratios), 1 << CHANCE_BITS, dtype=np.int64)
        high = low.copy()
        sure = np.empty((len(ratios), len(squares)), dtype=np.int64)
        possible = np.empty_like(sure)
        drop = CHANCE_BITS - PREFIX_BITS
        for place, square in enumerate(squares):
            sure[:, place] = (low * square.low >> CHANCE_BITS) >> drop
            most = -(-high * square.high >> CHANCE_BITS)
            possible[:, place] = -(-most >> drop)
            low = low * ratio_low >> CHANCE_BITS
            high = -(-high * ratio_high >> CHANCE_BITS)
        last = sure[:, :-1] if step == 1 else sure[:, 1:]  # a part of one member ends where it is
        first = possible[:, :-1]
        return last.reshape(-1).astype(np.int32), first.reshape(-1).astype(np.int32)


@lru_cache(maxsize=64)
def _sampler(sigma2: Fraction) -> _Sampler:
    return _Sampler(sigma2)


def _weight(sigma2: Fraction, value: int, precision: int) -> Enclosure:
    return exp_minus(value * value / (2 * sigma2), precision)


@lru_cache(maxsize=64)
def _law(sigma2: Fraction) -> tuple[Floats, Floats]:
    """Sizes and probabilities in floats, for humans."""
    reach = math.ceil(40 * math.sqrt(sigma2)) + 1
    sizes = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(sizes**2) / (2 * float(sigma2)))
    return sizes, weights / weights.sum()
