"""Times CasADi's dae_reduce_index on a system read from standard input.

The first line is the number of variables; every other line is an equation "v d c  v d c ..", the sum over its entries of
c der(x_v) where d is 1 and c sin(x_v) where d is 0. Prints processor seconds and the index found, or why there is none.
"""

import sys
import time

import casadi


def main():
    lines = sys.stdin.read().splitlines()
    n = int(lines[0])
    rows = []
    is_state = [False] * n
    for line in lines[1:]:
        words = line.split()
        row = [(int(v), d == "1", float(c)) for v, d, c in zip(words[0::3], words[1::3], words[2::3])]
        rows.append(row)
        for variable, is_derivative, _ in row:
            is_state[variable] |= is_derivative
    states = [v for v in range(n) if is_state[v]]
    others = [v for v in range(n) if not is_state[v]]
    x = casadi.SX.sym("x", len(states))
    dx = casadi.SX.sym("dx", len(states))
    z = casadi.SX.sym("z", len(others))
    value = [None] * n
    rate = [None] * n
    for place, v in enumerate(states):
        value[v], rate[v] = x[place], dx[place]
    for place, v in enumerate(others):
        value[v] = z[place]
    equations = []
    for row in rows:
        terms = [c * (rate[v] if is_derivative else casadi.sin(value[v])) for v, is_derivative, c in row]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        equations.append(total)
    dae = {"x_impl": x, "dx_impl": dx, "z": z, "alg": casadi.vertcat(*equations)}
    start = time.process_time()
    try:
        _, statistics = casadi.dae_reduce_index(dae, {})
    except RuntimeError as error:
        print("CasADi refuses:", str(error).strip().splitlines()[-1])
        return
    seconds = time.process_time() - start
    print(seconds, statistics.get("index"))


main()
