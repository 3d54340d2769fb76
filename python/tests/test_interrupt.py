"""Ctrl-C ends long calls, and other threads run meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

import daesy

# Oscillates fast over a long span: minutes of work.
LONG = "model Fast Real x(start=1, fixed=true); Real y(start=0, fixed=true); equation der(x) = 1e4*y; der(y) = -1e4*x; end Fast;"

CALL = f"""
import daesy
model = daesy.parse({LONG!r})
study = daesy.Study(model, simulate={{"stop": 1e6, "rtol": 1e-8}})
print("ready", flush=True)
try:
    {{call}}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("call", ["study.simulate()", "study.ask('simulate')"])
def test_an_interrupt_ends_a_long_call(call):
    code = CALL.replace("{call}", call)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=20)
        assert rest == "interrupted\n"
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
