"""Linear descriptor systems on arrays, against facts worked out by hand."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import daesy


@pytest.fixture
def hidden():
    """x1' = -x1 + u, 0 = x2 - x1', x3 = x2': index 2 hidden behind a random change of variables and equations."""
    rng = np.random.default_rng(4)
    E = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 0]])
    F = np.array([[-1.0, 0, 0], [0, 0, 1.0], [0, 1.0, 0]])
    G = np.array([[1.0], [0.0], [-1.0]])
    P, Q = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    return P, Q, daesy.LinearDae(P @ E @ Q, P @ F @ Q, G=P @ G, H=(np.eye(3) @ Q)[:1])


def test_index_and_split(hidden):
    P, Q, dae = hidden
    assert dae.is_regular
    assert dae.index == 2
    split = dae.split()
    assert np.allclose(split.eigenvalues, [-1.0])
    assert np.allclose(split.P @ dae.E @ split.Q, np.block([[np.eye(1), np.zeros((1, 2))], [np.zeros((2, 1)), split.N]]), atol=1e-10)
    assert np.allclose(split.P @ dae.F @ split.Q, np.block([[split.A, np.zeros((1, 2))], [np.zeros((2, 1)), np.eye(2)]]), atol=1e-10)
    assert np.allclose(np.linalg.matrix_power(split.N, 2), 0.0)


def test_state_transfer(hidden):
    P, Q, dae = hidden
    # In the plain variables a step of u makes x2 jump by 1 and x3 = x2' have a delta of area 1.
    step = dae.state_transfer([1.0])
    assert np.allclose(Q @ step.jump, [0.0, 1.0, 0.0], atol=1e-9)
    assert np.allclose(Q @ step.impulses[0], [0.0, 0.0, 1.0], atol=1e-9)
    assert np.allclose(step.continuous @ step.jump, 0.0, atol=1e-9)
    kick = dae.state_transfer(impulses=[2.0])
    assert np.allclose((Q @ kick.jump)[0], 2.0, atol=1e-9)


def test_standard_form_and_consistent_values(hidden):
    P, Q, dae = hidden
    form = dae.standard_form()
    assert np.allclose(form.A, [[-1.0]])
    z = dae.consistent(np.zeros(3), [[0.5], [0.25]])
    x = Q @ z
    assert np.allclose(x[1:], [0.5, 0.25], atol=1e-9)
    after = dae.continued(np.linalg.solve(Q, [3.0, 7.0, 7.0]), [[0.5], [0.0]])
    assert np.allclose(Q @ after, [3.0, 0.5, 0.0], atol=1e-9)


def test_well_posedness_and_regularize():
    # gerdin2007: white noise on an algebraic equation that is differentiated.
    dae = daesy.LinearDae([[1, 0], [0, 0]], [[0, 1], [-1, 0]], J=[[0], [1]], H=[[1, 0]])
    assert not dae.is_well_posed(0)
    assert dae.is_well_posed([2])
    assert not dae.is_well_posed([2], M=[[0, 1]])
    assert dae.is_well_posed([4], M=[[0, 1]])
    verdict = dae.well_posedness([2], M=[[0, 1]])
    assert [signal["finite_variance"] for signal in verdict.signals] == [True, False]
    assert verdict.signals[1]["pole_excess_needed"] == 4
    form = dae.regularize()
    assert (form.mu, form.d, form.a, form.v) == (1, 0, 2, 0)


def test_wrong_matrices_are_refused():
    with pytest.raises(daesy.ModelError, match="F is 1 x 1"):
        daesy.LinearDae(np.eye(2), [[1.0]])
    with pytest.raises(daesy.ModelError):
        daesy.LinearDae([[np.nan]], [[1.0]])
    with pytest.raises(daesy.ModelError):
        daesy.LinearDae([[0.0]], [[0.0]]).index
    assert not daesy.LinearDae([[0.0]], [[0.0]]).is_regular


def test_a_linear_system_is_a_model_for_studies_and_can_be_pickled(hidden):
    dae = pickle.loads(pickle.dumps(daesy.LinearDae([[1.0]], [[-2.0]], G=[[1.0]], names=["level"])))
    study = daesy.Study(dae, inputs={"u1": {"expression": "1"}}, initial={"level": 0.0}, simulate={"stop": 1.0, "rtol": 1e-9})
    assert np.isclose(study.simulate()["level"][-1], (1 - np.exp(-2.0)) / 2, atol=1e-7)
