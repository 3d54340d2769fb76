"""Executors run the evaluations; the answer is that of a local run, bit for bit."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from studies import die, fall_data, fall_study, lag_data, lag_study, slowly

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


@pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")
@pytest.mark.filterwarnings("default")
def test_forked_processes(local):
    # Threads of this process, which the local run has started, are not in its children.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        assert_same(random_study().uq(executor=pool), local)
        study = fall_study(method="pem")
        grid = {"c": (0.8, 1.2, 5)}
        assert_same(study.cost(grid, fall_data(), executor=pool), study.cost(grid, fall_data()))


QUESTIONS = {
    "likelihoods": lambda **how: lag_study().cost({"k": (1.0, 3.0, 4), "g": (1.0, 2.0, 3)}, lag_data(), **how),
    "output errors": lambda **how: lag_study().cost({"k": (1.0, 3.0, 4)}, lag_data(), method="output-error", **how),
    "refused points": lambda **how: lag_study().cost({"k": (-400.0, 2.0, 3)}, lag_data(), **how),
    "prediction errors": lambda **how: fall_study(method="pem").cost({"c": (0.5, 1.5, 12)}, fall_data(), **how),
    "filtered likelihoods": lambda **how: fall_study(method="ml").cost({"c": (0.5, 1.5, 6)}, fall_data(), **how),
    "searches with filters": lambda **how: fall_study(method="ml").identify(fall_data(), starts=3, **how),
    "searches": lambda **how: lag_study().identify(lag_data(), starts=5, **how),
    "searches with output errors": lambda **how: fall_study(method="output-error").identify(fall_data(), starts=3, **how),
    "bootstrap": lambda **how: fall_study(method="pem", bootstrap=3).identify(fall_data(), starts=2, **how),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_verb_shares_out_its_work(question):
    Counting.n_tasks = 0
    with Counting(2) as pool:
        shared = QUESTIONS[question](executor=pool)
    assert Counting.n_tasks >= 3
    assert_same(shared, QUESTIONS[question]())


class Recording(Counting):
    """Keeps the size of the largest message to a task in bytes, and the answers."""

    def __init__(self, n_workers):
        super().__init__(n_workers)
        self.sent, self.answers = 0, []

    def submit(self, function, *arguments):
        self.sent = max(self.sent, len(pickle.dumps(arguments)))
        future = super().submit(function, *arguments)
        self.answers.append(future)
        return future


FADE = (
    "model Fade parameter Real k = 1; parameter Real x0 = 1; Real x(start = x0, fixed = true);"
    " equation der(x) = -k*x^2; end Fade;"
)


def many_study(n_samples, **simulate):
    """Samples that are cheap."""
    return daesy.Study(
        daesy.parse(FADE),
        random={"k": {"uniform": {"min": 0.5, "max": 1.5}}, "x0": {"uniform": {"min": 0.9, "max": 1.1}}},
        simulate={"stop": 1.0, "step": 0.25, **simulate},
        uq={"method": "monte-carlo", "samples": n_samples, "variables": ["x"], "validation": 0},
    )


def test_many_cheap_points_make_few_tasks_with_small_messages():
    Counting.n_tasks = 0
    with Recording(1) as pool:
        many_study(70_000).uq(executor=pool)
    # Points of two numbers; of each how many times follow, and five values of x.
    assert Counting.n_tasks == -(-70_000 // 4096)
    assert pool.sent < 16 * 4096 + 4000
    lengths, numbers = pool.answers[0].result()
    assert (len(lengths), len(numbers)) == (4096, 6 * 4096)


def test_points_with_large_answers_make_small_shares():
    Counting.n_tasks = 0
    with Recording(1) as pool:
        many_study(1000, step=1e-4).uq(executor=pool)
    sizes = [answer.result()[1].nbytes for answer in pool.answers]
    assert sum(sizes) == 8 * 10_002 * 1000
    assert max(sizes) == 52 * 8 * 10_002 <= 1 << 22


def test_a_process_reads_a_question_once_and_files_anew_for_the_next(tmp_path):
    model = tmp_path / "model.mo"
    text = "model Rate parameter Real k = 1; Real x(start = 0, fixed = true); equation der(x) = k; end Rate;"

    def ask(pool):
        study = daesy.Study(model, random={"k": {"uniform": {"min": 1.0, "max": 3.0}}}, simulate={"stop": 1.0})
        return study.uq(executor=pool)["x.mean"][-1]

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        model.write_text(text)
        assert abs(ask(pool) - 2.0) < 1e-6
        model.write_text(text.replace("der(x) = k", "der(x) = 10*k"))
        assert abs(ask(pool) - 20.0) < 1e-5


class Deadly(ProcessPoolExecutor):
    """A pool in which the third task kills its worker."""

    n_tasks = 0

    def submit(self, function, *arguments, **options):
        self.n_tasks += 1
        return super().submit(die if self.n_tasks == 3 else function, *arguments, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_pool_that_loses_a_worker_says_so_and_the_next_goes_on(tmp_path):
    context = multiprocessing.get_context("spawn")
    study, grid = fall_study(method="pem"), {"c": (0.5, 1.5, 12)}
    checkpoint = tmp_path / "costs.txt"
    with Deadly(2, mp_context=context) as pool, pytest.raises(daesy.ExecutorError, match="make a new one") as lost:
        study.cost(grid, fall_data(), executor=pool, checkpoint=checkpoint)
    assert isinstance(lost.value.__cause__, BrokenExecutor)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        again = study.cost(grid, fall_data(), executor=pool, checkpoint=checkpoint)
    assert_same(again, study.cost(grid, fall_data()))


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


def within(seconds, question):
    """The answer to a question that must not take longer."""
    answer = Future()

    def ask():
        try:
            answer.set_result(question())
        except BaseException as wrong:
            answer.set_exception(wrong)

    threading.Thread(target=ask, daemon=True).start()
    return answer.result(timeout=seconds)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_that_loses_a_worker(local, tmp_path):
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
                return self._executor.submit(slowly, function, *arguments)

        victim = threading.Timer(0.5, os.kill, (pids[0], signal.SIGKILL))
        victim.start()
        assert_same(within(120, lambda: random_study().uq(executor=Slowed())), local)
        victim.join()
        client.wait_for_workers(2, timeout=60)
        assert pids[0] not in client.run(os.getpid).values()

        def cost(**how):
            return fall_study(method="pem").cost({"c": (0.8, 1.2, 5)}, fall_data(), **how)

        assert_same(within(120, lambda: cost(executor=client.get_executor(pure=False))), cost())

        # A worker dies while it works on one of some dozens of tasks with a thousand simulations between them.
        pids = list(client.run(os.getpid).values())
        victim = threading.Timer(0.7, os.kill, (pids[1], signal.SIGKILL))
        victim.start()
        assert_same(within(120, lambda: many_study(1000).uq(executor=Slowed())), many_study(1000).uq())
        victim.join()
        client.wait_for_workers(2, timeout=60)
        assert pids[1] not in client.run(os.getpid).values()

        # Data too large to travel with each task: an experiment with columns that nothing reads.
        long = fall_data() | {f"z{at}": np.zeros(40) for at in range(5000)}
        executor = client.get_executor(pure=False)
        assert_same(
            within(120, lambda: fall_study(method="pem").cost({"c": (0.8, 1.2, 5)}, long, executor=executor)),
            fall_study(method="pem").cost({"c": (0.8, 1.2, 5)}, long),
        )
