"""A servo through the package: is it sound, how does it move, with which step is the spring stressed most?"""

from __future__ import annotations

import pathlib

import numpy as np

import daesy

PROBLEM = pathlib.Path(__file__).resolve().parents[2] / "problems" / "servo"


def largest_torque(stiffness: float) -> float:
    """The largest torque in the spring, in N m, for a spring of the given stiffness in N m/rad."""
    study = daesy.Study(PROBLEM / "study.toml")
    result = study.simulate(set={"spring.c": stiffness})
    return float(np.max(np.abs(result["spring.tau"])))


def main() -> None:
    check = daesy.Study(PROBLEM / "study.toml").check()
    print(check.summary())
    for stiffness in (5.0, 20.0, 80.0):
        print(f"spring of {stiffness:g} N m/rad: at most {largest_torque(stiffness):.3f} N m")


if __name__ == "__main__":
    main()
