"""Executors run the evaluations; the answer is that of a local run, bit for bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import daesy

DECAY = (
    "model Decay parameter Real k = 1; parameter Real x0 = 1; Real x(start = x0, fixed = true); Real y;"
    " equation der(x) = -k*x*abs(x) + 0.1*sin(time); y = x^2; end Decay;"
)


def random_study():
    return daesy.Study(
        daesy.parse(DECAY),
        random={"k": {"uniform": {"min": 0.5, "max": 1.5}}, "x0": {"normal": {"mean": 1.0, "std": 0.1}}},
        simulate={"stop": 1.0, "step": 0.25},
        uq={"method": "collocation", "degree": 3},
    )


def assert_same(one, other):
    assert one.names == other.names
    assert np.array_equal(one.values, other.values, equal_nan=True)
    assert one.document == other.document


@pytest.fixture(scope="module")
def local():
    return random_study().uq()


class Counting(ThreadPoolExecutor):
    """Counts what it is given."""

    n_tasks = 0

    def submit(self, *arguments, **options):
        Counting.n_tasks += 1
        return super().submit(*arguments, **options)


def test_threads(local):
    with Counting(3) as pool:
        assert_same(random_study().uq(executor=pool), local)
    assert Counting.n_tasks > 3


def test_processes(local):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert_same(random_study().uq(executor=pool), local)


def test_failures_of_tasks_arrive_with_their_findings():
    study = daesy.Study(
        daesy.parse("model Blow parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = k*x^2; end Blow;"),
        random={"k": {"uniform": {"min": 0.5, "max": 2.0}}},
        simulate={"stop": 0.9},
        uq={"method": "collocation", "degree": 3},
    )
    with pytest.raises(daesy.NumericsError) as alone:
        study.uq()
    with ThreadPoolExecutor(2) as pool, pytest.raises(daesy.NumericsError) as shared:
        study.uq(executor=pool)
    assert shared.value.findings == alone.value.findings


class Stuck:
    """An executor that never does anything."""

    def submit(self, *arguments, **options):
        return Future()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_ends_the_waiting():
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        random_study().uq(executor=Stuck())
    timer.join()


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_that_loses_a_worker(local, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    import dask

    dask.config.set({"distributed.admin.tick.limit": "60s", "distributed.scheduler.allowed-failures": 10})
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())
        assert len(pids) == 2

        class Slowed:
            """The cluster, with tasks slow enough that one can be lost in the middle."""

            def __init__(self):
                self._executor = client.get_executor(pure=False)
                self._max_workers = 2

            def submit(self, function, *arguments):
                return self._executor.submit(slow, function, *arguments)

        victim = threading.Timer(0.5, os.kill, (pids[0], signal.SIGKILL))
        victim.start()
        assert_same(random_study().uq(executor=Slowed()), local)
        victim.join()
        client.wait_for_workers(2)
        assert pids[0] not in client.run(os.getpid).values()


def slow(function, *arguments):
    time.sleep(0.3)
    return function(*arguments)
