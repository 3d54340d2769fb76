"""Samples the posterior of a linear state-space model by PyMC.

Standard input is one JSON document: phi and q of x+ = phi x + noise of covariance s^2 q, p, the covariance at the start over s^2, the
response r of the measured quantity to the unknown gain b, sample by sample, the samples y of the first state, the standard deviation of
their errors, numbers of draws, of warm-up draws and of chains. The priors are b ~ normal(1, 0.5) and s ~ lognormal with mean 0.3 and
standard deviation 0.15. Prints one JSON document: means, standard deviations, effective sizes and the processor seconds of sampling.
"""

import json
import logging
import sys
import time

import arviz
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

logging.getLogger("pymc").setLevel(logging.ERROR)


def main():
    task = json.load(sys.stdin)
    phi, q, p0 = (np.array(task[key], dtype=float) for key in ["phi", "q", "p"])
    response, y = np.array(task["r"], dtype=float), np.array(task["y"], dtype=float)
    variance = task["error"] ** 2
    scale = np.sqrt(np.log(1 + (0.15 / 0.3) ** 2))

    def step(sample, x, p, total, q):
        x, p = phi @ x, phi @ p @ phi.T + q
        e, s = sample - x[0], p[0, 0] + variance
        gain = p[:, 0] / s
        return x + gain * e, p - pt.outer(gain, p[0, :]), total - 0.5 * (pt.log(2 * np.pi * s) + e**2 / s)

    with pm.Model():
        b = pm.Normal("b", 1.0, 0.5)
        s = pm.Lognormal("s", np.log(0.3) - 0.5 * scale**2, scale)
        (_, _, totals), _ = pytensor.scan(
            step,
            sequences=[pt.as_tensor(y) - b * response],
            outputs_info=[pt.zeros(2, dtype="float64"), s**2 * pt.as_tensor(p0), pt.zeros((), dtype="float64")],
            non_sequences=[s**2 * pt.as_tensor(q)],
        )
        pm.Potential("likelihood", totals[-1])
        # Compiled before the clock starts.
        pm.sample(2, tune=2, chains=1, cores=1, progressbar=False, compute_convergence_checks=False)
        begin = time.process_time()
        trace = pm.sample(
            task["draws"], tune=task["warmup"], chains=task["chains"], cores=1, random_seed=1, progressbar=False
        )
        seconds = time.process_time() - begin
    ess = arviz.ess(trace, method="bulk")
    answer = {"seconds": seconds}
    for name in ["b", "s"]:
        draws = trace.posterior[name].values
        answer[name] = {"mean": float(draws.mean()), "std": float(draws.std()), "ess": float(ess[name])}
    json.dump(answer, sys.stdout)


main()
