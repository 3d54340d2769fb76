"""Computes the reference trajectories of the problems, by other means than daesy's.

Every problem is integrated in its own minimal coordinates, written down by hand here, with SciPy's DOP853 or Radau at tolerances
far below what the references claim, or by a formula where there is one. The problems of the Test Set for IVP Solvers keep
the published values and are not computed here.

    python problems/make_references.py NAME     prints the [[points]] of problems/NAME/reference.toml

Needs NumPy and SciPy.
"""

import sys

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, fsolve


def run(rhs, y0, times, breaks=(), method="DOP853", rtol=1e-12, atol=1e-14):
    """Solution at the given times; steps end at the breaks."""
    edges = sorted({0.0, *(b for b in breaks if 0 < b < times[-1]), times[-1]})
    out = {0.0: np.array(y0, float)}
    y = np.array(y0, float)
    for left, right in zip(edges, edges[1:]):
        wanted = [t for t in times if left < t <= right]
        # The right-hand side is that of the inside of the interval, also at its ends.
        inside = lambda t, y, a=left, b=right: rhs(min(max(t, a + 1e-13), b - 1e-13), y)
        sol = solve_ivp(inside, (left, right), y, t_eval=sorted({*wanted, right}), method=method, rtol=rtol, atol=atol)
        assert sol.success, sol.message
        for t, column in zip(sol.t, sol.y.T):
            out[t] = column
        y = sol.y[:, -1]
    return [out[t] for t in times]


def servo():
    R, L, k, J, d, n, c, Jd = 2.0, 0.005, 0.1, 1e-4, 2e-4, 5.0, 20.0, 0.02
    u = lambda t: 0.0 if t < 0.5 else 6.0 if t < 2.5 else -3.0

    def rhs(t, x):
        i, pm, wm, pd, wd = x
        tau = c * (pd - pm / n)
        return [(u(t) - R * i - k * wm) / L, wm, (k * i - d * wm + tau / n) / J, wd, -tau / Jd]

    times = [0.0, 0.4, 0.55, 0.7, 1.0, 2.0, 2.6, 3.0, 5.0]
    for t, x in zip(times, run(rhs, np.zeros(5), times, (0.5, 2.5), "Radau", 1e-11, 1e-13)):
        yield t, {"motor.inductor.i": x[0], "motor.rotor.phi": x[1], "motor.rotor.w": x[2], "phi": x[3], "disk.w": x[4],
                  "spring.tau": c * (x[3] - x[1] / n)}


def pendulum():
    m, g, k, L = 0.3, 9.81, 0.05, 6.25
    u = lambda t: 0.5 * np.sin(1.1 * t) + 0.3 * np.sin(3.7 * t)

    def forces(t, a, w):
        vx, vy = L * np.cos(a) * w, L * np.sin(a) * w
        return -k * abs(vx) * vx + u(t), -k * abs(vy) * vy - m * g

    def rhs(t, y):
        a, w = y
        fx, fy = forces(t, a, w)
        return [w, (fx * np.cos(a) + fy * np.sin(a)) / (m * L)]

    times = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    for t, (a, w) in zip(times, run(rhs, [0, 0], times)):
        fx, fy = forces(t, a, w)
        # Along the arm: x3 L = -(m L w^2 + the outward force).
        x3 = -(m * L * w * w + fx * np.sin(a) - fy * np.cos(a)) / L
        yield t, {"x1": L * np.sin(a), "x2": -L * np.cos(a), "x3": x3, "x4": L * np.cos(a) * w, "x5": L * np.sin(a) * w, "y": a}


def crane():
    M, m, L, g, d, c = 10.0, 4.0, 3.0, 9.81, 8.0, 0.4

    def accelerations(t, y):
        s, v, a, w = y
        fx, fy = -c * (v + L * w * np.cos(a)), -c * L * w * np.sin(a) - m * g
        mass = np.array([[M + m, m * L * np.cos(a)], [m * L * np.cos(a), m * L * L]])
        force = [20 * np.sin(1.3 * t) - d * v + fx + m * L * np.sin(a) * w * w, L * (np.cos(a) * fx + np.sin(a) * fy)]
        return np.linalg.solve(mass, force)

    def rhs(t, y):
        return [y[1], accelerations(t, y)[0], y[3], accelerations(t, y)[1]]

    times = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    for t, y in zip(times, run(rhs, np.zeros(4), times)):
        s, v, a, w = y
        vx = v + L * w * np.cos(a)
        # The load says what the rope pulls with, upwards: lambda L cos a.
        dw = accelerations(t, y)[1]
        fy = m * (L * np.cos(a) * w * w + L * np.sin(a) * dw) + c * L * w * np.sin(a) + m * g
        yield t, {"s": s, "v": v, "x": s + L * np.sin(a), "y": -L * np.cos(a), "vx": vx, "vy": L * w * np.sin(a),
                  "lambda": fy / (L * np.cos(a)), "angle": a}


def rlc():
    R, L, C, V = 10.0, 0.1, 1e-3, 10.0
    alpha, omega = R / (2 * L), np.sqrt(1 / (L * C) - (R / (2 * L)) ** 2)
    for t in [0.0, 0.05, 0.12, 0.15, 0.2, 0.5, 1.0]:
        s = max(t - 0.1, 0.0)
        i = V / (omega * L) * np.exp(-alpha * s) * np.sin(omega * s)
        v = V * (1 - np.exp(-alpha * s) * (np.cos(omega * s) + alpha / omega * np.sin(omega * s)))
        yield t, {"inductor.i": i, "capacitor.v": v, "resistor.v": R * i}


def capacitor_source():
    for t in [0.0, 0.1, 0.25, 0.5, 1.0]:
        yield t, {"capacitor.v": 5 * np.sin(10 * t), "capacitor.i": 1e-3 * 50 * np.cos(10 * t), "source.i": -1e-3 * 50 * np.cos(10 * t)}


REACTOR = dict(c0=1000.0, T0=350.0, k1=0.1, k2=0.05, k3=0.5, k4=500.0)


def reactor():
    p = REACTOR

    def rhs(t, y):
        c, T = y
        R = p["k3"] * np.exp(-p["k4"] / T) * c
        TC = 300 + 10 * np.sin(0.1 * t)
        return [p["k1"] * (p["c0"] - c) - R, p["k1"] * (p["T0"] - T) + p["k2"] * R - p["k3"] * (T - TC)]

    times = [0.0, 1.0, 5.0, 20.0, 40.0, 60.0]
    for t, (c, T) in zip(times, run(rhs, [500, 320], times)):
        yield t, {"c": c, "T": T, "R": p["k3"] * np.exp(-p["k4"] / T) * c, "T_C": 300 + 10 * np.sin(0.1 * t)}


def reactor_prescribed():
    p = REACTOR
    for t in [0.0, 1.0, 5.0, 20.0, 40.0, 60.0]:
        s, co = np.sin(0.1 * t), np.cos(0.1 * t)
        c, c1, c2 = 500 + 50 * s, 5 * co, -0.5 * s
        R = p["k1"] * (p["c0"] - c) - c1
        R1 = -p["k1"] * c1 - c2
        T = -p["k4"] / np.log(R / (p["k3"] * c))
        # log(R / c) = log(k3) - k4/T differentiated.
        T1 = T * T / p["k4"] * (R1 / R - c1 / c)
        TC = T + (T1 - p["k1"] * (p["T0"] - T) - p["k2"] * R) / p["k3"]
        yield t, {"c": c, "T": T, "R": R, "T_C": TC}


def gear_train():
    J = 0.01 + 0.5 / 10**2 + 8 / 40**2
    for t in [0.0, 0.5, 1.0, 1.5, 2.0]:
        a, w, phi = 0.2 * np.cos(2 * t) / J, 0.1 * np.sin(2 * t) / J, 0.05 * (1 - np.cos(2 * t)) / J
        # Torque through the first gear's left flange accelerates the other two wheels.
        yield t, {"wheel1.phi": phi, "wheel1.w": w, "wheel2.w": w / 10, "wheel3.w": w / 40, "wheel3.a": a / 40,
                  "gear1.flange_a.tau": (0.5 / 100 + 8 / 1600) * a}


def slider_crank():
    l1, l2, m1, m2, g = 0.2, 0.5, 1.5, 0.8, 9.81

    def kinematics(a, w):
        x1, y1 = l1 * np.cos(a), l1 * np.sin(a)
        r = np.sqrt(l2**2 - y1**2)
        dr = -y1 * l1 * np.cos(a) / r
        x2, dx2 = x1 + r, -y1 + dr
        d2r = (-(l1 * np.cos(a)) ** 2 + y1**2 - dr**2) / r
        d2x2 = -x1 + d2r
        return x1, y1, x2, dx2, d2x2

    def rhs(t, y):
        a, w = y
        x1, y1, x2, dx2, d2x2 = kinematics(a, w)
        # (m1 l1^2 + m2 dx2^2) a'' + m2 dx2 d2x2 a'^2 = -m1 g l1 cos a
        return [w, (-m1 * g * x1 - m2 * dx2 * d2x2 * w * w) / (m1 * l1**2 + m2 * dx2**2)]

    times = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0]
    for t, (a, w) in zip(times, run(rhs, [np.pi / 4, 0], times)):
        x1, y1, x2, dx2, d2x2 = kinematics(a, w)
        acc = rhs(t, [a, w])[1]
        rod = -m2 * (dx2 * acc + d2x2 * w * w) / (x2 - x1)
        yield t, {"x1": x1, "y1": y1, "x2": x2, "vx1": -y1 * w, "vy1": x1 * w, "vx2": dx2 * w, "rod": rod,
                  "guide": m2 * g - rod * y1}


def amplifier():
    Uop, al, be, R0, R, C1, C2, C3 = 6.0, 1e-6, 0.026, 1000.0, 9000.0, 1e-6, 2e-6, 3e-6
    uin = lambda t: 0.4 * np.sin(200 * np.pi * t)

    def solve_algebraic(t, u1, U3, u3):
        # Sum of the first two node equations: monotone in U2.
        f = lambda U2: (U2 + u1 - uin(t)) / R0 + U2 / R + (U2 - Uop) / R + 0.01 * al * (np.exp((U2 - U3) / be) - 1)
        U2 = brentq(f, U3 - 10, U3 + 0.6, xtol=1e-15, rtol=1e-15)
        g = al * (np.exp((U2 - U3) / be) - 1)
        # (U4 - Uop)/R + 0.99 g + U5/R = 0 with U4 = U5 + u3
        U5 = (Uop - u3 - 0.99 * g * R) / 2
        return u1 + U2, U2, U3, U5 + u3, U5, g

    def rhs(t, y):
        U1, U2, U3, U4, U5, g = solve_algebraic(t, *y)
        return [-(U1 - uin(t)) / R0 / C1, -(U3 / R - g) / C2, U5 / R / C3]

    # At rest without signal: no current in the capacitors.
    U3 = fsolve(lambda U: [U[0] / R + (U[0] - Uop) / R + 0.01 * al * (np.exp((U[0] - U[1]) / be) - 1),
                           U[1] / R - al * (np.exp((U[0] - U[1]) / be) - 1)], [2.8, 2.6], xtol=1e-15)
    g = U3[1] / R
    y0 = [-U3[0], U3[1], Uop - 0.99 * g * R]
    times = [0.0, 0.01, 0.052, 0.1, 0.152, 0.2]
    for t, y in zip(times, run(rhs, y0, times, method="Radau", rtol=1e-11, atol=1e-13)):
        values = solve_algebraic(t, *y)
        yield t, dict(zip(["U1", "U2", "U3", "U4", "U5"], values))


def charge_pump():
    Vt0, gamma, phi, C, Cs, Cd = 0.2, 0.035, 1.01, 4.0, 1.6, 0.4
    flat = Vt0 - gamma * np.sqrt(phi) - phi

    def charges(v, us, ud):
        """Of gate and source; that of the drain is the same as that of the source."""
        inverted = np.sqrt(phi + min(us, ud))
        threshold = Vt0 + gamma * (inverted - np.sqrt(phi))
        a, b = v - min(us, ud) - threshold, max(v - max(us, ud) - threshold, 0)
        if a <= 0:
            return C * gamma * (np.sqrt((gamma / 2) ** 2 + v - flat) - gamma / 2), 0.0
        w = a + b - a * b / (a + b)
        return C * (2 / 3 * w + gamma * inverted), -C / 3 * w

    for t, v in [(55, 10.0), (100, 20.0), (655, 10.0), (1180, 20.0)]:
        q = brentq(lambda q: q + charges(v, q / Cs, q / Cd)[1], 0, 100, xtol=1e-15)
        gate, source = charges(v, q / Cs, q / Cd)
        yield t, {"pulses.p.v": v, "cs.p.v": q / Cs, "cd.p.v": q / Cd, "mosfet.qg": gate, "mosfet.qs": source}


def bouncing_ball():
    h0, e, g = 1.0, 0.7, 9.81
    T = [np.sqrt(2 * h0 / g)]
    v = [np.sqrt(2 * g * h0)]
    while e * v[-1] > 0.01:
        v.append(v[-1] * e)
        T.append(T[-1] + 2 * v[-1] / g)
    for t in [0.0, 0.25, 0.5, 1.0, 1.5, 2.0]:
        if t < T[0]:
            yield t, {"h": h0 - g * t * t / 2, "v": -g * t}
        else:
            n = max(i for i in range(len(T)) if T[i] <= t)
            s, up = t - T[n], v[n + 1]
            yield t, {"h": up * s - g * s * s / 2, "v": up - g * s}


def heated_room():
    Ca, Cw, Gi, Go, Gw = 2e5, 5e6, 120.0, 40.0, 25.0
    heat = lambda t: 500.0 if t < 28800 else 2000.0
    out = lambda t: 278.15 + 5 * np.sin(t / 13750)

    def rhs(t, y):
        a, w = y
        return [(heat(t) - Gi * (a - w) - Gw * (a - out(t))) / Ca, (Gi * (a - w) - Go * (w - out(t))) / Cw]

    times = [0.0, 600.0, 7200.0, 28800.0, 43200.0, 86400.0]
    for t, (a, w) in zip(times, run(rhs, [288.15, 285.15], times, (28800.0,))):
        yield t, {"air.T": a, "wall.T": w, "thermometer.T": a - 273.15, "inside.Q_flow": Gi * (a - w)}


def pipe_network():
    I1, I2, I3, I4 = 1.0, 2.0, 1.5, 0.5
    k1, k2, k3, k4, kv = 0.5, 0.3, 0.7, 0.2, 4.0
    A, g, p0, dp = 2.0, 9.81, 12.0, 6.0
    source = lambda t: p0 + np.sin(t) + (dp if t >= 4 else 0.0)
    valve = lambda t: k4 if t < 8 else (k4 + kv * (t - 8) / 0.05 if t < 8.05 else k4 + kv)

    def solve(t, q2, q3, h):
        q = q2 + q3
        # Unknowns: rates of q2 and q3, pressures at both nodes.
        m = [[I1, I1, 1, 0], [I2, 0, -1, 1], [0, I3, -1, 1], [I4, I4, 0, -1]]
        b = [source(t) - k1 * q * abs(q), -k2 * q2 * abs(q2), -k3 * q3 * abs(q3), -g * h - valve(t) * q * abs(q)]
        return np.linalg.solve(m, b)

    def rhs(t, y):
        d2, d3, _, _ = solve(t, *y)
        return [d2, d3, (y[0] + y[1] - 0.8 * np.sqrt(y[2])) / A]

    times = [0.0, 1.0, 3.0, 5.0, 7.0, 8.03, 9.0, 12.0]
    for t, (q2, q3, h) in zip(times, run(rhs, [0.2, 0.1, 1.0], times, (4.0, 8.0, 8.05))):
        _, _, pa, pb = solve(t, q2, q3, h)
        yield t, {"q[1]": q2 + q3, "q[2]": q2, "q[3]": q3, "q[4]": q2 + q3, "pa": pa, "pb": pb, "h": h}


if __name__ == "__main__":
    for t, values in globals()[sys.argv[1]]():
        print("\n[[points]]")
        print(f"time = {t!r}")
        inside = ", ".join(f'"{name}" = {float(value)!r}' for name, value in values.items())
        print(f"values = {{ {inside} }}")
