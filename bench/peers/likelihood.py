"""Times log-likelihoods of a time-invariant state-space model by statsmodels and by a plain NumPy filter.

Standard input is one JSON document with the matrices phi, q, h, r (x' = phi x + noise of covariance q, y = h x + noise of covariance r),
the samples y, and the number of repetitions. Start is at zero, known exactly. Prints one JSON document: log-likelihood and processor
seconds of one evaluation for each of the two.
"""

import json
import sys
import time

import numpy as np
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter


def numpy_filter(phi, q, h, r, y):
    n = phi.shape[0]
    x = np.zeros(n)
    p = np.zeros((n, n))
    total = 0.0
    for sample in y:
        e = sample - h @ x
        s = h @ p @ h.T + r
        k = np.linalg.solve(s, h @ p).T
        total -= 0.5 * (len(e) * np.log(2 * np.pi) + np.linalg.slogdet(s)[1] + e @ np.linalg.solve(s, e))
        x = phi @ (x + k @ e)
        p = phi @ (p - k @ s @ k.T) @ phi.T + q
    return total


def timed(function, repetitions):
    value = function()
    start = time.process_time()
    for _ in range(repetitions):
        function()
    return value, (time.process_time() - start) / repetitions


def main():
    task = json.load(sys.stdin)
    phi, q, h, r, y = (np.array(task[key], dtype=float) for key in ["phi", "q", "h", "r", "y"])
    n = phi.shape[0]
    kalman = KalmanFilter(k_endog=h.shape[0], k_states=n, k_posdef=n)
    kalman.bind(y)
    kalman["design"] = h
    kalman["obs_cov"] = r
    kalman["transition"] = phi
    kalman["selection"] = np.eye(n)
    kalman["state_cov"] = q
    kalman.initialize_known(np.zeros(n), np.zeros((n, n)))
    answer = {}
    answer["statsmodels"] = timed(kalman.loglike, task["repetitions"])
    answer["numpy"] = timed(lambda: numpy_filter(phi, q, h, r, y), 1)
    json.dump(answer, sys.stdout)


main()
