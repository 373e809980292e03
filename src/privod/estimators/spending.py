"""What do all the fits lose together, and what leaks around them? Pipelines and searches.

A detector promises for its own fit. A search fits again and again on the same rows, and each fit
pays; a transformer that was fitted to the rows tells of them with no promise at all. Fits of this
process are added up here; the fits of a search, in whatever processes, by `search_loss`.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags

from privod.errors import InvalidParameter, NoPromise
from privod.ledger.acts import ChargeAhead
from privod.privacy import Guarantee, Loss, Replace

SEARCHES = "sklearn.model_selection"
SPLITS = ("KFold", "RepeatedKFold", "ShuffleSplit", "TimeSeriesSplit")  # by places and draws alone
ENSEMBLES = ("sklearn.ensemble", "sklearn.feature_selection", "pyod.models", "combo.models")


class PrivacyWarning(UserWarning):
    """The promise of a detector does not cover what is done around it."""


@dataclass(frozen=True)
class Spending:
    """How many fits there were, and what they promise together, as if all were on one data set.

    Each batch of `partial_fit` counts as a fit. Nothing fitted, nothing lost: then no guarantee.
    There is none either where nothing `bounded` what a fit lost: in an ensemble, or in folds that
    may follow what rows say.
    """

    fits: int = 0
    guarantee: Guarantee | None = None
    bounded: bool = True


class _Meter:
    """A spending that grows."""

    def __init__(self) -> None:
        self.total = Spending()


_mutex = threading.Lock()
_process = _Meter()
_meters: list[_Meter] = [_process]
_charged: list[tuple[Charged, str, str]] = []


@contextmanager
def _among(known: list[Any], one: Any) -> Iterator[None]:
    """Let all fits inside, of all threads, find it there."""
    with _mutex:
        known.append(one)
    try:
        yield
    finally:
        with _mutex:
            known.remove(one)


def spent() -> Spending:
    """What all fits of this process so far lose together."""
    return _process.total


@contextmanager
def spending() -> Iterator[_Meter]:
    """Add up the fits inside, of all threads: `with spending() as meter: ...; meter.total`."""
    meter = _Meter()
    with _among(_meters, meter):
        yield meter


class Charged(Protocol):
    """A curator that can be charged for what is about to be revealed elsewhere."""

    def do(self, act: ChargeAhead) -> Any:
        """Charge durably, or refuse."""


def charged_to(
    curator: Charged, data_set: str, reason: str = "a fit"
) -> AbstractContextManager[None]:
    """Charge every fit inside to the budgets of a data set, before it looks at the rows.

    So fits and questions about the same people have one count. A fit that the budgets cannot pay
    is refused and changes nothing; what was charged is never given back. Holds for fits in all
    threads of this process meanwhile, not for those that a search starts in other processes.

    Fits of cross-validation are charged under Replace: a record more or less moves others from
    fold to fold, so an AddRemove budget refuses them. Folds that may follow what rows say are
    refused: all but those of KFold, ShuffleSplit, RepeatedKFold and TimeSeriesSplit, and all that
    are fitted in other threads. So are fits of an ensemble to samples of the rows. Folds that you
    cut yourself, outside of scikit-learn, are not noticed: charge them under Replace, too.

    >>> with charged_to(curator, "patients"):  # doctest: +SKIP
    ...     PrivateDetector(epsilon=0.5, bounds=(0, 1)).fit(rows)
    """
    return _among(_charged, (curator, data_set, reason))


def charge(guarantee: Guarantee) -> None:
    """State what a fit loses, before it looks at rows: to every ledger and every meter alike.

    Within cross-validation that is a loss under Replace.
    """
    modules = _callers()
    folds = _are_folds(modules)
    stated = guarantee.under(Replace()) if folds else guarantee
    with _mutex:
        sinks = tuple(_charged)
    told, sampled = not folds or _cut_by_place(), any(map(_is_ensemble, modules))
    if sinks and not told:
        raise NoPromise(
            "These folds may follow what rows say, and then one row moves others: nothing bounds"
            " what their fits lose. Take KFold or ShuffleSplit, in one thread."
        )
    if sinks and sampled:
        raise NoPromise(
            "An ensemble fits samples of the rows, and a row may be in one several times: nothing"
            " bounds what its fits lose. Fit the detector by itself, or outside charged_to."
        )
    for curator, data_set, reason in sinks:
        curator.do(ChargeAhead(data_set, stated, reason))
    with _mutex:
        for meter in _meters:
            before = meter.total
            bounded = before.bounded and told and not sampled
            lost = stated if before.guarantee is None else before.guarantee + stated
            meter.total = Spending(before.fits + 1, lost if bounded else None, bounded)


def search_loss(search: Any) -> Guarantee:
    """What the fits of a fitted GridSearchCV or RandomizedSearchCV lose together, under Replace.

    Every setting is fitted once for each split, and the best one once more. The loss is stated
    under Replace, since a record more or less would move the borders of the folds and so other
    records from fold to fold; so would another label or group. Searches are refused but for those
    with a number of folds, KFold, ShuffleSplit, RepeatedKFold and TimeSeriesSplit. Not covered: the
    test scores by which settings are compared, and so the setting chosen; they are computed from
    the rows themselves, without noise.
    """
    try:
        settings, splits = search.cv_results_["params"], int(search.n_splits_)
        cut_by = search.cv
        again = [search.best_params_] if search.refit else []
    except AttributeError:
        way_out = "Give a fitted GridSearchCV."
        raise InvalidParameter("search", "must be a search", type(search), way_out) from None
    if not (isinstance(cut_by, int | None) or _cuts_by_place(cut_by)):
        rule = "must not split rows by what they say"
        way_out = "Take KFold or ShuffleSplit."
        raise InvalidParameter("search", rule, type(cut_by).__name__, way_out)
    fits = [setting for setting in settings for _ in range(splits)] + again
    losses = [_promised(clone(search.estimator).set_params(**setting)) for setting in fits]
    return Guarantee(sum(losses, Loss(0)), Replace())


def _promised(estimator: Any) -> Loss:
    """What one fit of a detector, or of a pipeline that ends in one, will lose under Replace."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not hasattr(last, "promised"):
        rule = "must search over a private detector, or a pipeline that ends in one"
        raise InvalidParameter("search", rule, type(last).__name__, "Search over one.")
    guarantee: Guarantee = last.promised()
    return guarantee.under(Replace()).loss


def _frames() -> Iterator[FrameType]:
    """The functions that are being run in this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _callers() -> list[str]:
    """Their modules."""
    return list(map(_module_of, _frames()))


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _cut_by_place() -> bool:
    """Whether the folds that are being fitted are known not to follow what rows say."""
    searches = [frame for frame in _frames() if _module_of(frame).startswith(SEARCHES)]
    held = [one for frame in searches for one in frame.f_locals.values()]
    cuts = [one for one in held if hasattr(type(one), "get_n_splits")]
    if not cuts:  # a search that has chosen fits all rows
        return any(hasattr(frame.f_locals.get("self"), "best_index_") for frame in searches)
    return all(map(_cuts_by_place, cuts))


def _cuts_by_place(cut: object) -> bool:
    return type(cut).__module__.startswith(SEARCHES) and type(cut).__name__ in SPLITS


def _are_folds(modules: list[str]) -> bool:
    return any(module.startswith(SEARCHES) for module in modules)


def warn_of_callers(detector: object) -> None:
    """Warn if others fit this detector, whose promise is not theirs."""
    fitted = [detector]  # and what it is a part of, a PyOD face for instance
    for frame in _frames():
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline) and any(caller._final_estimator is one for one in fitted):
            _warn_of(caller)
        fitted.append(caller)
    modules = _callers()
    if _are_folds(modules):
        warnings.warn(
            "Cross-validation fits a detector to the same rows several times, and every fit loses"
            " its epsilon again: search_loss(search) or spent().guarantee say how much in all, for"
            " folds that do not follow what rows say, such as KFold's. The test scores are computed"
            " from the rows without noise and are not private.",
            PrivacyWarning,
            stacklevel=3,
        )
    if any(map(_is_ensemble, modules)):
        warnings.warn(
            "An ensemble fits a detector to samples of the same rows, and keeps or compares what it"
            " reads off the rows themselves. Every fit loses its epsilon again, a row that a sample"
            " holds twice loses twice, and what the ensemble says is not private.",
            PrivacyWarning,
            stacklevel=3,
        )


def _is_ensemble(module: str) -> bool:
    """Whether a module fits others' detectors; what PyOD's own base class does is none of that."""
    return module.startswith(ENSEMBLES) and module != "pyod.models.base"


def _warn_of(pipeline: Any) -> None:
    """Name the steps that were fitted to the rows before the detector was."""
    leaks = [name for name, step in pipeline.steps[:-1] if _learns(step)]
    if leaks:
        warnings.warn(
            f"The pipeline has fitted {', '.join(leaks)} to the rows before this detector, without"
            " noise: what the pipeline keeps and says is not private, whatever the detector"
            " promises. Give the detector bounds instead of scaling, or fit the step to public"
            " rows and wrap it in FrozenEstimator.",
            PrivacyWarning,
            stacklevel=4,
        )


def _learns(step: Any) -> bool:
    """Whether a step takes anything from the rows that it is fitted to.

    An encoder whose categories are given learns nothing, nor does what holds such steps alone.
    """
    if step is None or isinstance(step, str | FrozenEstimator):  # "passthrough", "drop"
        return False
    if isinstance(step, OneHotEncoder | OrdinalEncoder):
        limits = (getattr(step, "min_frequency", None), getattr(step, "max_categories", None))
        return isinstance(step.categories, str) or limits != (None, None)
    inner = getattr(step, "transformers", None) or getattr(step, "transformer_list", None)
    if inner is not None or isinstance(step, Pipeline):
        return any(_learns(one[1]) for one in inner or step.steps)
    return bool(get_tags(step).requires_fit)
