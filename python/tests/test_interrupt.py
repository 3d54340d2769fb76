"""Ctrl-C ends long calls, and other threads run meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

import daesy

# Oscillates fast over a long span: long work, within the limit of steps.
LONG = (
    "model Fast parameter Real a = 1; Real x(start=1, fixed=true); Real y(start=0, fixed=true);"
    " equation der(x) = 1e4*a*y; der(y) = -1e4*x*(1 + 0.01*x^2); end Fast;"
)

CALL = """
import signal, time
import daesy

def handler(*_):
    global seen
    seen = time.process_time()
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, handler)
study = {study}
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", time.process_time() - seen < 1.0, flush=True)
"""

FAST = f"daesy.Study(daesy.parse({LONG!r}), simulate={{'stop': 300.0, 'rtol': 1e-8}}, **%s)"
RANDOM = {"random": {"a": {"uniform": {"min": 1.0, "max": 2.0}}}, "uq": {"method": "monte-carlo", "samples": 1000}}
FALL = "model Fall parameter Real a = 1; input Real w; Real x(start=1, fixed=true); equation der(x) = 1 - a*x*abs(x) + w; end Fall;"
MEASURED = {
    "unknown": {"a": {"start": 1.5, "min": 1.0, "max": 2.0}},
    "disturbances": {"w": {"A": [[-1.0]], "B": [[1.0]], "C": [[0.1]]}},
    "measurements": {"x": {"column": "x", "std": 0.1}},
    "identify": {"method": "pem", "noise_step": 0.01, "realizations": 10000},
    "data": {"t": [0.0, 1000.0, 2000.0], "x": [1.0, 1.0, 1.0]},
}
CALLS = {
    "simulate": ("study.simulate()", FAST % '{}'),
    "ask": ("study.ask('simulate')", FAST % '{}'),
    "uq": ("study.uq(threads=1)", FAST % RANDOM),
    "identify": ("study.identify(threads=1)", f"daesy.Study(daesy.parse({FALL!r}), **{MEASURED})"),
    "cost": ("study.cost({'a': (1.0, 2.0, 9)}, threads=1)", f"daesy.Study(daesy.parse({FALL!r}), **{MEASURED})"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("verb", CALLS)
def test_an_interrupt_ends_a_long_call_within_a_second_of_work(verb):
    call, study = CALLS[verb]
    code = CALL.format(study=study, call=call)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=20)
        assert rest == "interrupted True\n"
    finally:
        child.kill()


def test_other_threads_run_during_a_long_call():
    study = daesy.Study(daesy.parse(LONG), simulate={"stop": 0.5, "rtol": 1e-8})
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    study.simulate()
    end = time.monotonic()
    done.set()
    thread.join()
    during = [moment for moment in ticks if begin < moment < end]
    assert len(during) > 3 or end - begin < 0.1
