"""Times rumoca on a Modelica text read from standard input, whose model is called Chain.

Prints seconds on the wall (it may use several threads), peak memory in bytes, and the numbers of equations and unknowns.
"""

import resource
import sys
import time

import rumoca


def main():
    text = sys.stdin.read()
    session = rumoca.Session()
    start = time.perf_counter()
    model = session.loads(text, model="Chain")
    seconds = time.perf_counter() - start
    structure = model.structure()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(seconds, peak, structure.n_equations, structure.n_unknowns)


main()
