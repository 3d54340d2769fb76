"""Samples the posterior of a linear state-space model by PyMC.

Reads and prints what posterior.py does. The state is eliminated: samples are jointly normal with mean b r and covariance s^2 C + e^2 I,
where C, the covariance of the first state over s^2, follows from phi, q and p beforehand. A gradient of that density costs PyMC a sixth of
one of a Kalman filter by `pytensor.scan`. (With C diagonalized by hand it would be a sum over the samples, for any sampler; that is no
way for models with unknowns in phi.)
"""

import json
import os
import sys
import time

# More threads cost more processor time than they save with matrices of this size.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import arviz
import numpy as np
import pymc as pm


def covariance(phi, q, p, n):
    """The covariance of the first state at n samples over s^2."""
    rows = np.empty((n, n))
    for first in range(n):
        p = phi @ p @ phi.T + q
        column = p[:, 0]
        for later in range(first, n):
            rows[first, later] = rows[later, first] = column[0]
            column = phi @ column
    return rows


def main():
    task = json.load(sys.stdin)
    phi, q, p0 = (np.array(task[key], dtype=float) for key in ["phi", "q", "p"])
    response, y = np.array(task["r"], dtype=float), np.array(task["y"], dtype=float)
    scale = np.sqrt(np.log(1 + (0.15 / 0.3) ** 2))
    begin = []

    def start_clock(trace, draw):
        # The first call comes after the first draw: compiled before the clock starts.
        if not begin:
            begin.append(time.process_time())

    with pm.Model():
        b = pm.Normal("b", 1.0, 0.5)
        s = pm.LogNormal("s", np.log(0.3) - 0.5 * scale**2, scale)
        total = s**2 * covariance(phi, q, p0, len(y)) + task["error"] ** 2 * np.eye(len(y))
        pm.MvNormal("y", mu=b * response, cov=total, observed=y)
        trace = pm.sample(
            tune=task["warmup"],
            draws=task["draws"],
            chains=task["chains"],
            cores=1,
            random_seed=1,
            callback=start_clock,
            progressbar=False,
            compute_convergence_checks=False,
        )
    answer = {"seconds": time.process_time() - begin[0]}
    sizes = arviz.ess(trace)
    for name in ["b", "s"]:
        draws = trace.posterior[name].to_numpy()
        answer[name] = {"mean": float(draws.mean()), "std": float(draws.std()), "ess": float(sizes[name])}
    json.dump(answer, sys.stdout)


main()
