"""What all tests share: calm property tests, and data sets that are skipped by name if absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings

from privod.data.examples import data_folder, data_frame

# A shared machine is slow at times; CI repeats the same examples so that a failure stays a failure.
settings.register_profile("privod", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("privod")

# Modules that start servers, sites or databases, play long games, or search large spaces. All
# others, and so every module that is new, belong to the fast subset: `make quick`.
SLOW = {
    "test_advice",
    "test_agent",
    "test_audit",
    "test_audit_callables",
    "test_audit_search",
    "test_cli",
    "test_client",
    "test_context_ranges",
    "test_contexts",
    "test_contexts_for_owner",
    "test_cover",
    "test_curator",
    "test_curator_budgets",
    "test_curator_crashes",
    "test_curator_postgres",
    "test_dask",
    "test_demo",
    "test_deployment",
    "test_detectors",
    "test_distance",
    "test_distances",
    "test_docs",
    "test_engines",
    "test_estimators",
    "test_estimators_batches",
    "test_estimators_leaks",
    "test_estimators_private",
    "test_estimators_pyod",
    "test_exact_runs",
    "test_flare",
    "test_gaussian",
    "test_gaussian_counts",
    "test_graded_count",
    "test_grid_knn",
    "test_grid_knn_audit",
    "test_grpc",
    "test_hashing",
    "test_interactive_grid",
    "test_interactive_grid_shared",
    "test_joint_detector",
    "test_joint_refusals",
    "test_keys",
    "test_leakage",
    "test_ledger_tampering",
    "test_life_cycle_everywhere",
    "test_merged_noise",
    "test_model_labels",
    "test_narrow_promises",
    "test_noise",
    "test_noisy_grid",
    "test_notebook",
    "test_novelty_labels",
    "test_outlier_context",
    "test_outlier_context_audit",
    "test_outlier_context_limits",
    "test_outlier_count",
    "test_outlier_count_audit",
    "test_outlier_count_public_size",
    "test_outlier_context_groups",
    "test_outlier_radius",
    "test_party_processes",
    "test_pictures_bounds",
    "test_preview",
    "test_detector_profile",
    "test_protocols",
    "test_public_cover",
    "test_rare_counts",
    "test_registry",
    "test_rounds",
    "test_scoring_command",
    "test_selection",
    "test_server_answers",
    "test_server_api",
    "test_server_auth",
    "test_server_connections",
    "test_server_console",
    "test_server_fuzz",
    "test_server_jobs",
    "test_server_limits",
    "test_server_postgres",
    "test_server_provider",
    "test_server_restarts",
    "test_server_roles",
    "test_server_serve",
    "test_server_texts",
    "test_server_watching",
    "test_server_workers",
    "test_skellam",
    "test_smooth",
    "test_sql",
    "test_subspaces",
    "test_thin_client",
    "test_vertical_attacks",
    "test_zcdp",
    "test_zcdp_ledger",
}


def is_slow(path: Path) -> bool:
    """Whether `make quick` leaves a module out."""
    return path.stem in SLOW or path.parent.name == "browser"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `make quick` leaves out."""
    left_out = config.getoption("markexpr") == "not slow" and is_slow(collection_path)
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out: slow modules, and the games that audits play."""
    for item in items:
        if is_slow(item.path) or "audit" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def dataset() -> Callable[[str], pa.Table]:
    """Read a data set of the PRIVOD_DATA folder; skips the test, by name, where it is unset."""

    def read(name: str) -> pa.Table:
        if data_folder() is None:
            pytest.skip(f"needs the data set {name}: PRIVOD_DATA is unset")
        return data_frame(name)

    return read
