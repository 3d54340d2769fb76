"""Models and studies answer as the program does, and refuse with its findings."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import daesy

LAG = "model Lag input Real u; Real x(start = 0, fixed = true); equation der(x) = u - x; end Lag;"
DECAY = "model Decay parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end Decay;"


def test_a_model_answers_as_the_program_does(problems):
    model = daesy.load(problems / "pendulum" / "model.mo")
    command = [sys.executable, "-m", "daesy", "check", "--json", str(problems / "pendulum" / "model.mo")]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert model.check().document == printed


def test_simulations_are_exact_within_their_tolerance():
    result = daesy.parse(DECAY).simulate(stop=3.0, step=0.5, rtol=1e-10, atol=1e-12)
    assert np.allclose(result["x"], np.exp(-result.t), rtol=1e-9)
    assert np.allclose(result["der(x)"], -result["x"])
    faster = daesy.parse(DECAY).simulate(times=[0.0, 1.0], set={"k": 2.0}, rtol=1e-10)
    assert np.isclose(faster["x"][-1], np.exp(-2.0), rtol=1e-8)


def test_a_trajectory_has_the_document_of_the_program(problems, tmp_path):
    study = daesy.Study(problems / "servo" / "study.toml")
    result = study.simulate()
    command = [sys.executable, "-m", "daesy", "simulate", str(problems / "servo" / "study.toml"), "-o", str(tmp_path / "a.csv"), "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert json.loads(json.dumps(result.document)) == printed
    table = np.genfromtxt(tmp_path / "a.csv", delimiter=",", skip_header=1)
    assert np.array_equal(table, result.values.T)


def test_studies_can_be_built_from_dicts():
    study = daesy.Study(
        daesy.parse(LAG),
        inputs={"u": {"column": "force", "hold": "zoh"}},
        simulate={"rtol": 1e-9},
        data={"t": [0.0, 1.0, 2.0], "force": [1.0, 0.0, 0.0]},
    )
    exact = (1 - np.exp(-1.0)) * np.exp(-1.0)
    assert np.isclose(study.simulate()["x"][-1], exact, atol=1e-7)
    other = study.simulate(data={"t": [0.0, 1.0, 2.0], "force": [0.0, 0.0, 0.0]})
    assert np.allclose(other["x"], 0.0)


def test_mistakes_arrive_as_exceptions_with_findings(tmp_path):
    with pytest.raises(daesy.ModelError, match="did you mean") as caught:
        daesy.parse("model A Real power; equation der(power) = powr; end A;")
    finding = caught.value.findings[0]
    assert (finding.code, finding.line, finding.level) == ("unknown-name", 1, "error")
    with pytest.raises(daesy.StudyError, match="there are: u"):
        daesy.Study(daesy.parse(LAG), inputs={"v": {"expression": "1"}})
    with pytest.raises(daesy.StudyError):
        daesy.Study(daesy.parse(LAG), simulate={"stpo": 1.0})
    study = daesy.Study(daesy.parse(LAG), inputs={"u": {"column": "u"}})
    with pytest.raises(daesy.DataError, match="time"):
        study.simulate(data={"time": [0.0, 1.0], "u": [0.0, 1.0]})
    with pytest.raises(daesy.DataError):
        study.simulate(data=str(tmp_path / "nothing.csv"))
    with pytest.raises(daesy.NumericsError, match="step size"):
        daesy.parse("model Blow Real x(start = 1, fixed = true); equation der(x) = x^2; end Blow;").simulate(stop=2.0)
    with pytest.raises(AttributeError, match="ask the study"):
        daesy.parse(DECAY).identify(None)
    with pytest.raises(daesy.UsageError):
        daesy.parse(DECAY).simulate(times=[1.0, 0.0])
    with pytest.raises(ValueError):
        daesy.parse(DECAY).simulate(times=[0.0, 1.0], stop=2.0)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.findings == caught.value.findings and str(copy) == str(caught.value)


def test_everything_can_be_pickled(problems):
    study = daesy.Study(problems / "servo" / "study.toml")
    for thing in (study.simulate(), study.check(), study.structure(), study, daesy.parse(DECAY)):
        copy = pickle.loads(pickle.dumps(thing))
        assert repr(copy) == repr(thing)
    copy = pickle.loads(pickle.dumps(study.simulate()))
    assert np.array_equal(copy.values, study.simulate().values)


def test_jumps_and_impulses_are_told(problems):
    # A capacitor on a voltage source: the charge follows the voltage, the current is its derivative.
    text = "model Circuit input Real v; Real q; Real i; Real d(start = 0, fixed = true);" \
        " equation q = 2*v; i = der(q); der(d) = v - d; end Circuit;"
    study = daesy.Study(
        daesy.parse(text),
        inputs={"v": {"expression": "if time < 1 then 0 else 3", "breaks": [1.0]}},
        simulate={"stop": 2.0, "step": 0.1},
    )
    result = study.simulate()
    (event,) = result.events
    assert event["time"] == 1.0
    assert event["jumps"]["q"] == pytest.approx([0.0, 6.0])
    assert event["impulses"]["i"] == pytest.approx([6.0])
    assert "impulses" in result.summary()
    at = np.flatnonzero(np.diff(result.t) == 0.0)
    assert len(at) == 1 and result["q"][at[0]] == pytest.approx(0.0) and result["q"][at[0] + 1] == pytest.approx(6.0)


def test_the_structure_is_block_triangular(problems):
    structure = daesy.load(problems / "pendulum" / "model.mo").structure()
    place = {}
    for at, (start, length) in enumerate(structure.blocks):
        place.update({row: at for row in range(start, start + length)})
    assert sorted(place) == list(range(len(structure.unknowns)))
    # Nothing stands above the blocks: what is solved first does not need what comes later.
    assert all(place[row] >= place[column] for row, column in zip(structure.rows, structure.columns))
    # Two equations name the speeds; the length is kept, and so is its derivative.
    assert structure.constraint_orders == [0, 0, 0, 1]


def test_regularize_and_flatten(problems):
    form = daesy.parse("model Two Real x, y; equation der(x) = -y; y = 2*x; end Two;").regularize()
    assert form.matrices["E1"].shape == (1, 2)
    assert form.document["kind"] == "linear-constant"
    assert "parameter Real" in daesy.parse(DECAY).flatten()


def test_several_classes_need_a_name():
    text = LAG + DECAY
    with pytest.raises(daesy.ModelError):
        daesy.parse(text)
    assert daesy.parse(text, "Decay").name == "Decay"
    assert daesy.Study(daesy.parse(text, "Decay"), simulate={"stop": 1.0}).simulate().model == "Decay"


def test_the_demo_and_the_program_run(tmp_path, capsys):
    daesy.demo(tmp_path / "demo")
    assert (tmp_path / "demo" / "report.html").is_file()
    assert "servo" in capsys.readouterr().out.lower()
    wrong = subprocess.run([sys.executable, "-m", "daesy", "check", str(tmp_path / "none.mo")], capture_output=True, text=True)
    assert wrong.returncode == 1 and "none.mo:1:1" in wrong.stderr
    assert subprocess.run([sys.executable, "-m", "daesy", "nonsense"], capture_output=True).returncode == 2
