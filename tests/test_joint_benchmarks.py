"""A benchmark of many processes leaves none of them behind."""

import sys
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

import pytest
from benchmarks.joint_scale import PATIENCE, started

from privod.errors import ProtocolAborted
from privod.joint.transport.channel import Meeting, host


def test_a_party_that_dies_before_it_comes_ends_the_run_and_every_process() -> None:
    context = get_context("spawn")
    processes: dict[str, BaseProcess] = {
        "p00": context.Process(target=sys.exit, args=(3,)),
        "p01": context.Process(target=time.sleep, args=(3600,)),
    }
    meeting = Meeting(list(processes), PATIENCE)
    with (
        pytest.raises(ProtocolAborted, match="'p00' ended with code 3"),
        started(processes, meeting),
    ):
        host(meeting, lambda here: here.collect("hello", 1))
    assert [process.exitcode for process in processes.values()] == [3, -9]
