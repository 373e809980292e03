"""Sample data to try things on: a made-up hospital.

The domain is written down here from general knowledge of what is measured, with room to spare;
it was not read off the rows. What is made up takes a seed: sample data is no secret.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privod.data.columns import Categorical, Numeric
from privod.data.domain import Domain
from privod.data.table import Table

HOSPITAL = Domain(
    (
        Numeric("age", 0, 120),
        Numeric("heart_rate", 20, 220),
        Numeric("pressure", 40, 260),
        Numeric("temperature", 32, 44),
        Numeric("stay", 0, 60),
        Categorical("ward", ("medicine", "surgery", "cardiology", "children")),
        Categorical("admission", ("planned", "emergency")),
        Categorical("sex", ("female", "male")),
    )
)
"""Stays in a hospital: vital signs at admission, and days until discharge."""

WARD_SHARES = (0.45, 0.3, 0.15, 0.1)
WARD_AGES = ((62, 16), (55, 18), (68, 12), (8, 4))  # mean and deviation, in years
SEPTIC_SHARE = 0.004  # fever, a racing heart, low pressure: outlying in several columns at once
MISREAD_SHARE = 0.002  # one sign read by a loose sensor: outlying in that column alone


def hospital(n_records: int = 20_000, seed: int = 0) -> Table:
    """Made-up stays in a hospital, of which about six in a thousand are outliers."""
    return _hospital(n_records, seed)[0]


def hospital_outliers(n_records: int = 20_000, seed: int = 0) -> NDArray[np.bool_]:
    """Which of the stays that `hospital` makes are outliers: septic, or misread."""
    found = np.zeros(n_records, np.bool_)
    found[_hospital(n_records, seed)[1]] = True
    return found


def _hospital(n_records: int, seed: int) -> tuple[Table, NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    ward = generator.choice(len(WARD_SHARES), n_records, p=WARD_SHARES)
    mean, deviation = np.array(WARD_AGES, dtype=float)[ward].T
    age = generator.normal(mean, deviation)
    emergency = generator.random(n_records) < np.where(ward == 2, 0.6, 0.35)
    heart_rate = generator.normal(78 + 25 * (ward == 3) + 6 * emergency, 9)
    pressure = generator.normal(105 + 0.4 * np.clip(age, 0, 100), 11)
    temperature = generator.normal(36.8 + 0.3 * emergency, 0.35)
    stay = generator.gamma(2.0, 1.5 + 1.2 * emergency)
    n_septic, n_misread = int(n_records * SEPTIC_SHARE), int(n_records * MISREAD_SHARE)
    places = generator.permutation(n_records)[: n_septic + n_misread]
    septic, misread = places[:n_septic], places[n_septic:]
    heart_rate[septic] = generator.uniform(130, 200, n_septic)
    pressure[septic] = generator.uniform(45, 85, n_septic)
    temperature[septic] = generator.uniform(39, 42, n_septic)
    stay[septic] = generator.uniform(10, 55, n_septic)
    heart_rate[misread] = generator.uniform(20, 220, n_misread)
    categories = {
        "ward": ward,
        "admission": emergency.astype(int),
        "sex": generator.integers(0, 2, n_records),
    }
    texts = {
        name: np.array(column.values, dtype=object)[categories[name]]
        for name, column in zip(HOSPITAL.categorical_names, HOSPITAL.categorical(), strict=True)
    }
    numbers = {
        "age": age,
        "heart_rate": heart_rate,
        "pressure": pressure,
        "temperature": temperature,
        "stay": stay,
    }
    return Table(HOSPITAL, {**numbers, **texts}), places
