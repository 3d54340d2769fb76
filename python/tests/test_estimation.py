"""Identification, costs and estimates: data in many clothes, answers against facts worked out otherwise."""

from __future__ import annotations

import pickle

import numpy as np
import pandas
import polars
import pytest
import xarray
from studies import fall_data, fall_study, lag_data, lag_study

import daesy


@pytest.fixture(scope="module")
def found():
    return lag_study().identify(lag_data())


def test_unknowns_are_found_within_their_errors(found):
    assert found.converged and found.document["method"] == "ml"
    for name, truth in (("k", 2.0), ("g", 1.5)):
        assert abs(found.estimate[name] - truth) < 3.5 * found.std_error[name]
        assert 0.0 < found.std_error[name] < 0.3
    # The log-likelihood of independent errors, from the residuals themselves.
    (fit,) = found.fits()
    by_hand = -0.5 * np.sum((fit.errors / 0.05) ** 2 + np.log(2 * np.pi * 0.05**2))
    assert np.isclose(found.document["log_likelihood"], by_hand, rtol=1e-9)


def test_data_in_any_clothes_gives_the_same_answer(found, tmp_path):
    data = lag_data()
    path = tmp_path / "lag.csv"
    pandas.DataFrame(data).to_csv(path, index=False)
    columns = {name: ("t", data[name]) for name in ("u", "x")}
    clothes = [
        pandas.DataFrame(data),
        pandas.DataFrame(data).set_index("t"),
        polars.DataFrame(data),
        polars.DataFrame(data).to_arrow(),
        xarray.Dataset(columns, coords={"t": data["t"]}),
        [data],
        path,
        str(path),
    ]
    for one in clothes:
        same = lag_study().identify(one)
        assert same.document == found.document
        assert np.array_equal(same.values, found.values)


def test_dates_are_seconds_since_the_first(found):
    data = pandas.DataFrame(lag_data())
    data["t"] = pandas.Timestamp("2024-02-28 23:59:58") + pandas.to_timedelta((data["t"] * 1000).round(), unit="ms")
    assert np.allclose(list(lag_study().identify(data).estimate.values()), list(found.estimate.values()), rtol=1e-6)


def test_missing_samples_and_several_experiments(found):
    gaps = lag_data()
    gaps["x"] = np.where((gaps["t"] > 2.0) & (gaps["t"] < 3.0), np.nan, gaps["x"])
    less = lag_study().identify(gaps)
    assert less.document["n_samples"] == found.document["n_samples"] - int(np.isnan(gaps["x"]).sum())
    both = lag_study().identify([lag_data(), pandas.DataFrame(lag_data(seed=6))])
    assert len(both.fits()) == 2 and both.std_error["k"] < found.std_error["k"]


def test_answers_are_frames_words_and_pictures(found, tmp_path):
    frame = found.to_frame()
    assert list(frame["name"]) == ["k", "g"] and np.all(frame["ci95_low"] < frame["estimate"])
    assert found.to_frame("polars")["estimate"].to_list() == list(found.estimate.values())
    assert float(found.to_frame("xarray")["estimate"].sel(name="g")) == found.estimate["g"]
    assert "k" in found.summary() and "<table" in found._repr_html_()
    copy = pickle.loads(pickle.dumps(found))
    assert copy.document == found.document and np.array_equal(copy.values, found.values)
    for name, figure in {"fit": found.plot(), "parameters": found.plot_parameters()}.items():
        figure.savefig(tmp_path / f"{name}.png")


def test_costs_are_lowest_at_the_estimate(found, tmp_path):
    k, g = found.estimate["k"], found.estimate["g"]
    study = lag_study()
    cost = study.cost({"k": (k - 0.2, k + 0.2, 5), "g": (g - 0.1, g + 0.1, 3)}, lag_data())
    assert cost.cost.shape == (5, 3) and cost.kind == "log-likelihood"
    assert cost.best() == pytest.approx({"k": k, "g": g})
    assert cost.cost.max() == pytest.approx(found.document["log_likelihood"], abs=1e-9)
    frame = cost.to_frame()
    assert len(frame) == 15 and np.array_equal(frame["log-likelihood"], cost.cost.ravel())
    cost.plot().savefig(tmp_path / "map.png")
    line = study.cost({"k": (1.0, 3.0, 9)}, lag_data(), set={"g": g}, method="output-error")
    assert line.kind == "output-error" and 1.5 < line.best()["k"] < 2.5
    line.plot().savefig(tmp_path / "curve.png")
    with pytest.raises(daesy.UsageError, match="did you mean"):
        study.cost({"kk": (1.0, 2.0, 2)}, lag_data())


def test_nonlinear_models_are_identified_by_ensembles():
    found = fall_study(method="pem").identify(fall_data())
    assert found.document["method"] == "pem" and abs(found.estimate["c"] - 1.0) < 0.2
    plain = fall_study().identify(fall_data(), method="output-error")
    assert abs(plain.estimate["c"] - 1.0) < 3.5 * plain.std_error["c"]


def test_estimates_are_those_of_a_kalman_filter(tmp_path):
    # A damped mass on which noise acts, and its acceleration as an algebraic variable; the position is measured.
    rng = np.random.default_rng(2)
    dae = daesy.LinearDae(
        [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 0]],
        [[0, 1.0, 0], [-4.0, -0.5, 0], [4.0, 0.5, 1.0]],
        G=[[0], [1.0], [-1.0]],
        J=[[0], [1.0], [0]],
        H=[[1.0, 0, 0]],
        names=["position", "speed", "acceleration"],
    )
    t = np.arange(0.0, 3.0, 0.1)
    u, y = np.sin(2 * t), rng.normal(size=len(t))
    y[7] = np.nan
    found = dae.kalman(t, y, u, std=0.3, intensity=0.2, initial="zero")
    assert found.signals == ["position", "speed", "acceleration"]

    A, L = np.array([[0.0, 1.0], [-4.0, -0.5]]), np.array([[0.0], [1.0]])
    big = np.zeros((4, 4))
    big[:2, :2], big[:2, 2:], big[2:, 2:] = -A, 0.2 * L @ L.T, A.T
    power = exponential(big * 0.1)
    Phi = power[2:, 2:].T
    Q = Phi @ power[:2, 2:]
    Gamma = np.linalg.solve(A, Phi - np.eye(2)) @ L
    x, P, value = np.zeros((2, 1)), np.zeros((2, 2)), 0.0
    for at in range(len(t)):
        if at > 0:
            x, P = Phi @ x + Gamma * u[at - 1], Phi @ P @ Phi.T + Q
        if np.isfinite(y[at]):
            S = P[0, 0] + 0.09
            e = y[at] - x[0, 0]
            value -= 0.5 * (np.log(2 * np.pi * S) + e * e / S)
            x, P = x + P[:, :1] * e / S, P - P[:, :1] @ P[:1] / S
        assert np.allclose(x.ravel(), [found["position"][at], found["speed"][at]], atol=1e-8)
        assert np.allclose(np.sqrt(np.maximum(np.diag(P), 0)), [found["position.std"][at], found["speed.std"][at]], atol=1e-7)
    assert np.isclose(found.log_likelihood, value, rtol=1e-8)
    assert np.isclose(dae.log_likelihood(t, y, u, std=0.3, intensity=0.2, initial="zero"), value, rtol=1e-8)
    assert np.allclose(found["acceleration"], u - 4 * found["position"] - 0.5 * found["speed"], atol=1e-7)
    # What comes later helps.
    assert np.all(found["speed.smoothed.std"] <= found["speed.std"] + 1e-9)
    found.plot().savefig(tmp_path / "estimates.png")
    assert list(found.to_frame("xarray").coords) == ["t"]
    with pytest.raises(daesy.UsageError, match="shape"):
        dae.kalman(t, y[:-1], u)
    with pytest.raises(daesy.UsageError, match="inputs"):
        dae.kalman(t, y)


def exponential(matrix):
    """The exponential of a small matrix, by halving and Taylor's series."""
    scaled = matrix / 2**10
    power = term = np.eye(len(matrix))
    for k in range(1, 12):
        term = term @ scaled / k
        power = power + term
    for _ in range(10):
        power = power @ power
    return power


def test_studies_estimate_what_nobody_measured(problems):
    study = daesy.Study(problems / "servo" / "identify.toml")
    found = study.identify()
    torque = study.estimate(set=found.estimate)
    assert "spring.tau" in torque.signals
    for name in torque.signals:
        assert np.all(torque[f"{name}.smoothed.std"] <= 1.001 * torque[f"{name}.std"] + 1e-9)
    assert torque.log_likelihood == pytest.approx(found.document["log_likelihood"], rel=1e-9)
