"""Frames, data in many clothes, pictures and progress."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest

import daesy
from daesy._data import columns, experiments

LAG = "model Lag input Real u; Real x(start = 0, fixed = true); equation der(x) = u - x; end Lag;"


def test_tables_become_frames():
    result = daesy.parse(LAG).simulate(stop=1.0, step=0.5)
    for library in ("pandas", "polars"):
        frame = result.to_frame(library)
        assert list(frame.columns) == result.names
        assert np.array_equal(frame["x"].to_numpy(), result["x"])
    with pytest.raises(daesy.UsageError):
        result.to_frame("tables")
    with pytest.raises(KeyError, match="did you mean"):
        result["der(y)"]
    assert "x" in result and list(result)[0] == "t"


def test_data_comes_in_many_clothes(tmp_path):
    plain = {"t": np.array([0.0, 0.5, 1.0]), "u": np.array([1.0, np.nan, 0.0])}
    frames = [
        plain,
        {"t": [0, 0.5, 1], "u": [1, None, 0]},
        pandas.DataFrame(plain),
        pandas.DataFrame(plain).set_index("t"),
        pandas.DataFrame({"t": [0.0, 0.5, 1.0], "u": pandas.array([1, None, 0], dtype="Int64")}),
        polars.DataFrame(plain),
        polars.DataFrame({"t": [0.0, 0.5, 1.0], "u": [1, None, 0]}),
        polars.DataFrame(plain).to_arrow(),
    ]
    for frame in frames:
        read = columns(frame)
        assert np.array_equal(read["t"], plain["t"])
        assert np.array_equal(read["u"], plain["u"], equal_nan=True)
    with pytest.raises(daesy.DataError, match="numbers"):
        columns({"t": ["a"]})
    with pytest.raises(daesy.DataError, match="no data"):
        columns(3)
    with pytest.raises(daesy.DataError, match="either"):
        experiments(["a.csv", plain])
    path = tmp_path / "data.csv"
    pandas.DataFrame({"t": [0.0, 1.0], "u": [1.0, 1.0]}).to_csv(path, index=False)
    study = daesy.Study(daesy.parse(LAG), inputs={"u": {"column": "u"}}, simulate={"rtol": 1e-8})
    assert np.isclose(study.simulate(data=path)["x"][-1], 1 - np.exp(-1.0), atol=1e-6)


def test_other_time_columns():
    study = daesy.Study(daesy.parse(LAG), inputs={"u": {"column": "u"}}, time="seconds", simulate={"rtol": 1e-8})
    result = study.simulate(data={"seconds": [0.0, 1.0], "u": [1.0, 1.0]})
    assert np.isclose(result["x"][-1], 1 - np.exp(-1.0), atol=1e-6)


def test_every_answer_has_words_and_a_picture(problems, tmp_path):
    study = daesy.Study(problems / "servo" / "study.toml")
    answers = {"trajectory": study.simulate(), "check": study.check(), "structure": study.structure()}
    for name, answer in answers.items():
        assert answer.summary()
        figure = answer.plot()
        assert figure._repr_png_().startswith(b"\x89PNG")
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "<pre" in answers["trajectory"]._repr_html_() and "<table" in answers["check"]._repr_html_()
    with pytest.raises(daesy.UsageError, match="did you mean"):
        answers["trajectory"].plot("disk.phy")


def test_progress_is_told_to_whoever_asks(capsys):
    from daesy.progress import reporter

    seen = []
    with reporter(lambda done, total: seen.append((done, total)), "test") as tell:
        tell(1, 2)
    assert seen == [(1, 2)]
    with reporter(True, "test") as tell:
        tell(1, 4)
    assert "25%" in capsys.readouterr().err
    with reporter(False, "test") as tell:
        assert tell is None
