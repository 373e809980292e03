"""Private detectors that others make possible, where their packages are installed.

`mst_knn` is the synthetic data of MST [McKenna 2021] by the package mbi, Gaussian noise and zCDP as
ours, and PyOD's k-NN on the rows it makes. `gaussian` is diffprivlib's naive Bayes of one class.
`autoencoder` is a small network that learns by Opacus' noisy gradients and scores records by what
it gets wrong. It takes the number of rows as public.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.privacy.zcdp import rho_of_loss

Floats = NDArray[np.float64]
Ranges = tuple[Floats, Floats]

BINS = 16  # of every column
DELTA = Fraction(1, 10**6)
MOST_MADE = 5000  # synthetic rows
MOST_COLUMNS = 30  # pairs of columns grow by the square
ITERATIONS = 300
EPOCHS, BATCHES, CLIPPED = 30, 10, 1.0  # of the autoencoder; its gradients are clipped to this norm


def gaussian(rows: Floats, asked: Floats, ranges: Ranges, epsilon: str) -> Floats | None:
    """A Gaussian for every column, of noisy means and variances."""
    try:
        from diffprivlib.models import GaussianNB
    except ImportError:
        return None
    model = GaussianNB(epsilon=float(epsilon), bounds=ranges, priors=[1.0])
    model.fit(rows, np.zeros(len(rows), dtype=int))
    return np.asarray(-model._joint_log_likelihood(asked)[:, 0])


def mst_knn(rows: Floats, asked: Floats, ranges: Ranges, epsilon: str) -> Floats | None:
    """k-NN on rows drawn from a tree of noisy pairs of columns; a third of rho for each step."""
    try:
        from mbi import Dataset, Domain, LinearMeasurement, estimation
    except ImportError:
        return None
    from pyod.models.knn import KNN

    n_columns = rows.shape[1]
    if not 2 <= n_columns <= MOST_COLUMNS:
        return None
    rho = float(rho_of_loss(Fraction(epsilon), DELTA)) / 3
    random = np.random.default_rng()
    lows, highs = ranges
    cells = np.clip((rows - lows) / (highs - lows) * BINS, 0, BINS - 1).astype(int)
    names = [f"x{at}" for at in range(n_columns)]
    domain = Domain(names, (BINS,) * n_columns)
    Dataset({name: cells[:, at] for at, name in enumerate(names)}, domain)  # checks the cells

    def noisy(columns: tuple[int, ...], deviation: float) -> Any:
        counts = pair_counts(cells, columns) + random.normal(0, deviation, BINS ** len(columns))
        return LinearMeasurement(counts, tuple(names[at] for at in columns), stddev=deviation)

    deviation = float(np.sqrt(n_columns / (2 * rho)))
    measured = [noisy((at,), deviation) for at in range(n_columns)]
    engine = estimation.MirrorDescent()
    model = engine.estimate(domain, measured, iters=ITERATIONS)
    alone = [np.asarray(model.project((name,)).datavector()) for name in names]
    deviation = float(np.sqrt((n_columns - 1) / (2 * rho)))
    measured += [noisy(edge, deviation) for edge in tree(cells, alone, rho, random)]
    model = engine.estimate(domain, measured, iters=ITERATIONS)
    size = int(np.clip(alone[0].sum(), 100, MOST_MADE))
    drawn = model.synthetic_data(rows=size).to_dict()
    made = np.column_stack([np.asarray(drawn[name]) for name in names])
    made = lows + (made + random.random(made.shape)) * (highs - lows) / BINS
    scales = np.where(made.std(axis=0) > 0, made.std(axis=0), 1)
    return np.asarray(KNN().fit(made / scales).decision_function(asked / scales))


def pair_counts(cells: NDArray[Any], columns: tuple[int, ...]) -> Floats:
    """How many rows lie in each cell of one column or of two."""
    place = np.ravel_multi_index(tuple(cells[:, at] for at in columns), (BINS,) * len(columns))
    return np.bincount(place, minlength=BINS ** len(columns)).astype(np.float64)


def tree(
    cells: NDArray[Any], alone: list[Floats], rho: float, random: np.random.Generator
) -> list[tuple[int, int]]:
    """A spanning tree of pairs that are far from independent, edge by edge [exponential]."""
    n_columns, total = len(alone), max(float(alone[0].sum()), 1.0)
    worth = {
        pair: float(
            np.abs(
                pair_counts(cells, pair) - np.outer(alone[pair[0]], alone[pair[1]]).ravel() / total
            ).sum()
        )
        for pair in combinations(range(n_columns), 2)
    }
    step = np.sqrt(8 * rho / (n_columns - 1))
    part = list(range(n_columns))
    edges: list[tuple[int, int]] = []
    while len(edges) < n_columns - 1:
        left = [pair for pair in worth if part[pair[0]] != part[pair[1]]]
        values = np.array([worth[pair] for pair in left])
        chances = np.exp(step / 2 * (values - values.max()))
        one, other = left[random.choice(len(left), p=chances / chances.sum())]
        edges.append((one, other))
        part = [part[one] if each == part[other] else each for each in part]
    return edges


def autoencoder(rows: Floats, asked: Floats, ranges: Ranges, epsilon: str) -> Floats | None:
    """How far records are from what a network makes of them that was learned with noise."""
    try:
        import torch
        from opacus import PrivacyEngine
    except ImportError:
        return None
    lows, highs = ranges
    known, new = (
        torch.tensor((2 * (part - lows) / (highs - lows) - 1).astype(np.float32))
        for part in (rows, asked)
    )
    n_columns = rows.shape[1]
    middle = max(1, n_columns // 2)
    torch.manual_seed(0)
    network: Any = torch.nn.Sequential(
        torch.nn.Linear(n_columns, middle), torch.nn.Tanh(), torch.nn.Linear(middle, n_columns)
    )
    loader: Any = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(known), batch_size=max(1, len(rows) // BATCHES)
    )
    network, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=network,
        optimizer=torch.optim.Adam(network.parameters(), lr=0.01),
        data_loader=loader,
        target_epsilon=float(epsilon),
        target_delta=float(DELTA),
        epochs=EPOCHS,
        max_grad_norm=CLIPPED,
    )
    for _ in range(EPOCHS):
        for (some,) in loader:
            optimizer.zero_grad()
            ((network(some) - some) ** 2).mean(dim=1).sum().backward()
            optimizer.step()
    with torch.no_grad():
        found = ((network(new) - new) ** 2).mean(dim=1)
    return np.asarray(found.numpy(), dtype=np.float64)


RIVALS = {"MST_kNN": mst_knn, "diffprivlib_GaussianNB": gaussian, "Opacus_AE": autoencoder}


def rivals(rows: Floats, asked: Floats, ranges: Ranges, epsilon: str) -> dict[str, Floats]:
    """The scores of those that can be imported, of one fit each."""
    scores = {name: rival(rows, asked, ranges, epsilon) for name, rival in RIVALS.items()}
    return {name: found for name, found in scores.items() if found is not None}
