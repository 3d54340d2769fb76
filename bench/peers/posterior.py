"""Samples the posterior of a linear state-space model by NumPyro.

Standard input is one JSON document: phi and q of x+ = phi x + noise of covariance s^2 q, p, the covariance at the start over s^2, the
response r of the measured quantity to the unknown gain b, sample by sample, the samples y of the first state, the standard deviation of
their errors, numbers of draws, of warm-up draws and of chains. The priors are b ~ normal(1, 0.5) and s ~ lognormal with mean 0.3 and
standard deviation 0.15. Prints one JSON document: means, standard deviations, effective sizes and the processor seconds of sampling.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()


def main():
    task = json.load(sys.stdin)
    phi, q, p0 = (jnp.array(task[key], dtype=float) for key in ["phi", "q", "p"])
    response, y = jnp.array(task["r"], dtype=float), jnp.array(task["y"], dtype=float)
    variance = task["error"] ** 2
    scale = np.sqrt(np.log(1 + (0.15 / 0.3) ** 2))

    def model():
        b = numpyro.sample("b", dist.Normal(1.0, 0.5))
        s = numpyro.sample("s", dist.LogNormal(np.log(0.3) - 0.5 * scale**2, scale))

        def step(state, sample):
            x, p = state
            x, p = phi @ x, phi @ p @ phi.T + s**2 * q
            e, total = sample - x[0], p[0, 0] + variance
            gain = p[:, 0] / total
            log_density = -0.5 * (jnp.log(2 * jnp.pi * total) + e**2 / total)
            return (x + gain * e, p - jnp.outer(gain, p[0, :])), log_density

        _, log_densities = jax.lax.scan(step, (jnp.zeros(2), s**2 * p0), y - b * response)
        numpyro.factor("likelihood", log_densities.sum())

    chains = MCMC(
        NUTS(model),
        num_warmup=task["warmup"],
        num_samples=task["draws"],
        num_chains=task["chains"],
        chain_method="sequential",
        progress_bar=False,
    )
    # Compiled before the clock starts.
    chains.run(jax.random.PRNGKey(0))
    begin = time.process_time()
    chains.run(jax.random.PRNGKey(1))
    samples = {name: np.asarray(draws) for name, draws in chains.get_samples(group_by_chain=True).items()}
    answer = {"seconds": time.process_time() - begin}
    for name, draws in samples.items():
        ess = float(effective_sample_size(draws))
        answer[name] = {"mean": float(draws.mean()), "std": float(draws.std()), "ess": ess}
    json.dump(answer, sys.stdout)


main()
