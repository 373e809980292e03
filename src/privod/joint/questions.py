"""Which joint question does a file ask? By its name."""

from __future__ import annotations

from typing import Any, TypeAlias

from privod.errors import InvalidParameter
from privod.joint.counts import JointCounts
from privod.joint.question import JointOutliers

__all__ = ["JointQuestion", "joint_question"]

JointQuestion: TypeAlias = JointOutliers | JointCounts


def joint_question(data: dict[str, Any]) -> JointQuestion:
    """Read a question; a file without a name asks for outliers."""
    name = data.get("name", JointOutliers.name)
    if name == JointCounts.name:
        return JointCounts.from_json(data)
    if name != JointOutliers.name:
        rule = f"must be {JointOutliers.name} or {JointCounts.name}"
        raise InvalidParameter("name", rule, name, "Name one of them.")
    return JointOutliers.from_json(data)
