"""Asks studies without an executor and on Dask clusters of this machine; reads what to do as JSON from standard input, prints JSON."""

import hashlib
import json
import logging
import os
import pickle
import resource
import signal
import sys
import threading
import time

import daesy
import numpy
from distributed import Client, LocalCluster

#: Empty tasks whose time is taken for what Dask itself costs.
N_EMPTY = 500


def nothing(*arguments):
    """A task that does nothing."""


def memory():
    """The most that this process has held, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Executor:
    """The workers of a client, with counts of what goes to them and comes back."""

    def __init__(self, client):
        self._client = client
        self._executor = client.get_executor(pure=False)
        self.n_tasks = self.n_done = self.sent = self.received = 0

    def submit(self, function, *arguments):
        self.n_tasks += 1
        self.sent = max(self.sent, len(pickle.dumps(arguments)))
        future = self._executor.submit(function, *arguments)
        future.add_done_callback(self._take)
        return future

    def _take(self, future):
        self.n_done += 1
        if not future.cancelled() and future.exception() is None and isinstance(future.result(), tuple):
            self.received = max(self.received, sum(part.nbytes for part in future.result()))


def cluster(n_workers):
    """Processes with one thread each."""
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0)


def digest(answer):
    """A number that stands for all of an answer: the bits of its table, and its document."""
    document = json.dumps(answer.document, sort_keys=True)
    return hashlib.sha256(numpy.ascontiguousarray(answer.values).tobytes() + document.encode()).hexdigest()


def timed(question):
    """Seconds, and the answer."""
    start = time.perf_counter()
    answer = question()
    return time.perf_counter() - start, answer


def empty_tasks(client):
    """Seconds for each of many tasks that do nothing, asked for at once, one thread of work."""
    executor = client.get_executor(pure=False)

    def run():
        futures = [executor.submit(nothing, at) for at in range(N_EMPTY)]
        for future in futures:
            future.result()

    run()
    return timed(run)[0] / N_EMPTY


def killer(executor, n_all, pid):
    """Kills a worker when half of the tasks are done."""

    def wait():
        while executor.n_done < n_all // 2:
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def on_workers(study, n_workers, expected, kills):
    """A study on a cluster: seconds, tasks, messages; with `kills` tasks expected, one worker is killed on the way."""
    with cluster(n_workers) as local, Client(local) as client:
        client.run(__import__, "daesy")
        empty = empty_tasks(client)
        executor = Executor(client)
        pids = list(client.run(os.getpid).values())
        thread = killer(executor, kills, pids[0]) if kills else None
        seconds, answer = timed(lambda: study.uq(executor=executor))
        lost = False
        if thread is not None:
            thread.join()
            client.wait_for_workers(n_workers, timeout=60)
            lost = pids[0] not in client.run(os.getpid).values()
        of_workers = max(client.run(memory).values())
    found = digest(answer)
    return {
        "workers": n_workers,
        "seconds": seconds,
        "empty": empty,
        "tasks": executor.n_tasks,
        "sent": executor.sent,
        "received": executor.received,
        "lost": lost,
        "same": expected is None or found == expected,
        "digest": found,
        "memory": memory(),
        "worker_memory": of_workers,
    }


def main():
    asked = json.loads(sys.stdin.read())
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    told = []
    for entry in asked["studies"]:
        study = daesy.Study(entry["path"])
        runs = []
        if entry["kill"]:
            # Before the run without executor, whose memory would be taken for that of this one.
            first = on_workers(study, entry["workers"][0], None, entry["kill"])
            runs.append(first)
        seconds, answer = timed(lambda: study.uq(threads=1))
        expected = digest(answer)
        for run in runs:
            run["same"] = run["digest"] == expected
        if not entry["kill"]:
            runs = [on_workers(study, n, expected, 0) for n in entry["workers"]]
        columns = {name: answer[name].astype("<f8").tobytes().hex() for name in answer.names}
        told.append({"seconds": seconds, "columns": columns, "runs": runs, "memory": memory()})
    print(json.dumps(told))


if __name__ == "__main__":
    main()
