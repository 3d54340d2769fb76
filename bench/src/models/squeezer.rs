//! Andrews' squeezing mechanism [@hairer1996, sec. VII.7], as in the Test Set for IVP Solvers: seven bodies in the
//! plane, index 3.

use super::{Model, rows, rows_mut};
use crate::expression::{Expression, FlatBuilder};
use crate::lanes::{Mathematics, Parameters, Row, Values};

/// M(q) q'' = f(q, q') - G(q)^T lambda, 0 = g(q), with the angles q = (beta, theta, gamma, phi, delta, omega, epsilon).
#[derive(Clone, Copy, Default)]
pub struct Squeezer;

impl Values for Squeezer {
    const VALUES: &'static [f64] = &[
        -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072, 4530.0, 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092,
        0.07785, 0.035, 0.01874, 0.01043, 0.018, 0.02, 0.02308, 0.00916, 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421,
        0.033, 0.04325, 0.00365, 0.02373, 0.00706, 0.0705, 0.00706, 0.05498, 2.194e-06, 4.41e-07, 5.255e-06, 5.667e-07,
        1.169e-05, 5.667e-07, 1.912e-05,
    ];
}

impl Model for Squeezer {
    const NAME: &'static str = "squeezer";
    const PARAMETERS: &'static [&'static str] = &[
        "xa", "ya", "xb", "yb", "xc", "yc", "c0", "d", "da", "e", "ea", "rr", "ra", "l0", "ss", "sa", "sb", "sc", "sd",
        "ta", "tb", "u", "ua", "ub", "zf", "zt", "fa", "mom", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "i1", "i2",
        "i3", "i4", "i5", "i6", "i7",
    ];
    const N_STATES: usize = 14;
    const N_UNKNOWNS: usize = 13;

    fn typical_states() -> Vec<f64> {
        let angles = [
            -0.06171389001427645,
            0.0,
            0.45527981916307037,
            0.22266839016588588,
            0.48736497954384256,
            -0.22266839016588588,
            1.2305474445498212,
        ];
        angles.into_iter().flat_map(|angle| [angle, 10.0]).collect()
    }

    fn describe<'m>(model: &'m FlatBuilder, p: &[Expression<'m>]) {
        let [
            xa,
            ya,
            xb,
            yb,
            xc,
            yc,
            c0,
            d,
            da,
            e,
            ea,
            rr,
            ra,
            l0,
            ss,
            sa,
            sb,
            sc,
            sd,
            ta,
            tb,
            u,
            ua,
            ub,
            zf,
            zt,
            fa,
            mom,
            m1,
            m2,
            m3,
            m4,
            m5,
            m6,
            m7,
            i1,
            i2,
            i3,
            i4,
            i5,
            i6,
            i7,
        ] = std::array::from_fn(|k| p[k]);
        let q: Vec<_> = ["beta", "theta", "gamma", "phi", "delta", "omega", "epsilon"]
            .into_iter()
            .map(|name| model.unknown(name))
            .collect();
        let lambda: Vec<_> = (1..=6).map(|k| model.unknown(format!("lambda[{k}]")).der(0)).collect();
        let [beta, theta, gamma, phi, delta, omega, epsilon] = std::array::from_fn(|k| q[k].der(0));
        let [d_beta, d_theta, _, d_phi, d_delta, d_omega, d_epsilon] = std::array::from_fn(|k| q[k].der(1));
        let a: Vec<_> = q.iter().map(|angle| angle.der(2)).collect();

        let (s_bt, c_bt) = ((beta + theta).sin(), (beta + theta).cos());
        let (s_pd, c_pd) = ((phi + delta).sin(), (phi + delta).cos());
        let (s_oe, c_oe) = ((omega + epsilon).sin(), (omega + epsilon).cos());

        let m11 = m1 * ra.squared() + m2 * (rr.squared() - 2.0 * da * rr * theta.cos() + da.squared()) + i1 + i2;
        let m21 = m2 * (da.squared() - da * rr * theta.cos()) + i2;
        let m22 = m2 * da.squared() + i2;
        let m33 = m3 * (sa.squared() + sb.squared()) + i3;
        let m44 = m4 * (e - ea).squared() + i4;
        let m54 = m4 * ((e - ea).squared() + zt * (e - ea) * phi.sin()) + i4;
        let m55 = m4 * (zt.squared() + 2.0 * zt * (e - ea) * phi.sin() + (e - ea).squared())
            + m5 * (ta.squared() + tb.squared())
            + i4
            + i5;
        let m66 = m6 * (zf - fa).squared() + i6;
        let m76 = m6 * ((zf - fa).squared() - u * (zf - fa) * omega.sin()) + i6;
        let m77 = m6 * ((zf - fa).squared() - 2.0 * u * (zf - fa) * omega.sin() + u.squared())
            + m7 * (ua.squared() + ub.squared())
            + i6
            + i7;

        let xd = sd * gamma.cos() + sc * gamma.sin() + xb;
        let yd = sd * gamma.sin() - sc * gamma.cos() + yb;
        let length = ((xd - xc).squared() + (yd - yc).squared()).sqrt();
        let force = -(c0 * (length - l0) / length);
        let (fx, fy) = (force * (xd - xc), force * (yd - yc));
        let f1 = mom - m2 * da * rr * d_theta * (d_theta + 2.0 * d_beta) * theta.sin();
        let f2 = m2 * da * rr * d_beta.squared() * theta.sin();
        let f3 = fx * (sc * gamma.cos() - sd * gamma.sin()) + fy * (sd * gamma.cos() + sc * gamma.sin());
        let f4 = m4 * zt * (e - ea) * d_delta.squared() * phi.cos();
        let f5 = -(m4 * zt * (e - ea) * d_phi * (d_phi + 2.0 * d_delta) * phi.cos());
        let f6 = -(m6 * u * (zf - fa) * d_epsilon.squared() * omega.cos());
        let f7 = m6 * u * (zf - fa) * d_omega * (d_omega + 2.0 * d_epsilon) * omega.cos();

        // Columns of G; its rows come in pairs for x and y of three loops, whose first part is the same.
        let (g_bx, g_by) = (-(rr * beta.sin()) + d * s_bt, rr * beta.cos() - d * c_bt);
        let (lx, ly) = (lambda[0] + lambda[2] + lambda[4], lambda[1] + lambda[3] + lambda[5]);
        model.equation(m11 * a[0] + m21 * a[1] - f1 + g_bx * lx + g_by * ly);
        model.equation(m21 * a[0] + m22 * a[1] - f2 + d * s_bt * lx - d * c_bt * ly);
        model.equation(m33 * a[2] - f3 - ss * gamma.cos() * lambda[0] - ss * gamma.sin() * lambda[1]);
        model.equation(m44 * a[3] + m54 * a[4] - f4 - e * c_pd * lambda[2] - e * s_pd * lambda[3]);
        model.equation(
            m54 * a[3] + m55 * a[4] - f5 + (zt * delta.sin() - e * c_pd) * lambda[2]
                - (e * s_pd + zt * delta.cos()) * lambda[3],
        );
        model.equation(m66 * a[5] + m76 * a[6] - f6 + zf * s_oe * lambda[4] - zf * c_oe * lambda[5]);
        model.equation(
            m76 * a[5] + m77 * a[6] - f7 + (zf * s_oe - u * epsilon.cos()) * lambda[4]
                - (zf * c_oe + u * epsilon.sin()) * lambda[5],
        );
        model.equation(rr * beta.cos() - d * c_bt - ss * gamma.sin() - xb);
        model.equation(rr * beta.sin() - d * s_bt + ss * gamma.cos() - yb);
        model.equation(rr * beta.cos() - d * c_bt - e * s_pd - zt * delta.cos() - xa);
        model.equation(rr * beta.sin() - d * s_bt + e * c_pd - zt * delta.sin() - ya);
        model.equation(rr * beta.cos() - d * c_bt - zf * c_oe - u * epsilon.sin() - xa);
        model.equation(rr * beta.sin() - d * s_bt - zf * s_oe + u * epsilon.cos() - ya);
    }

    #[inline(always)]
    fn residual<const LANES: usize, P: Parameters<LANES>, M: Mathematics>(
        _time: f64,
        states: &[Row<LANES>],
        unknowns: &[Row<LANES>],
        p: &P,
        residuals: &mut [Row<LANES>],
    ) {
        let s = rows::<LANES, 14>(states);
        let v = rows::<LANES, 13>(unknowns);
        let out = rows_mut::<LANES, 13>(residuals);
        for k in 0..LANES {
            let [
                _,
                _,
                xb,
                yb,
                xc,
                yc,
                c0,
                d,
                da,
                e,
                ea,
                rr,
                ra,
                l0,
                ss,
                sa,
                sb,
                sc,
                sd,
                ta,
                tb,
                u,
                ua,
                ub,
                zf,
                zt,
                fa,
                mom,
                m1,
                m2,
                m3,
                m4,
                m5,
                m6,
                m7,
                i1,
                i2,
                i3,
                i4,
                i5,
                i6,
                i7,
            ]: [f64; 42] = std::array::from_fn(|index| p.get(index, k));
            let [beta, theta, gamma, phi, delta, omega, epsilon] =
                [s[0].0[k], s[2].0[k], s[4].0[k], s[6].0[k], s[8].0[k], s[10].0[k], s[12].0[k]];
            let [d_beta, d_theta, d_gamma, d_phi, d_delta, d_omega, d_epsilon] =
                [s[1].0[k], s[3].0[k], s[5].0[k], s[7].0[k], s[9].0[k], s[11].0[k], s[13].0[k]];
            let [a0, a1, a2, a3, a4, a5, a6] =
                [v[0].0[k], v[1].0[k], v[2].0[k], v[3].0[k], v[4].0[k], v[5].0[k], v[6].0[k]];
            let [l0x, l0y, l1x, l1y, l2x, l2y] = [v[7].0[k], v[8].0[k], v[9].0[k], v[10].0[k], v[11].0[k], v[12].0[k]];

            let (s_b, c_b) = M::sin_cos(beta);
            let (s_t, c_t) = M::sin_cos(theta);
            let (s_g, c_g) = M::sin_cos(gamma);
            let (s_p, c_p) = M::sin_cos(phi);
            let (s_d, c_d) = M::sin_cos(delta);
            let (s_o, c_o) = M::sin_cos(omega);
            let (s_e, c_e) = M::sin_cos(epsilon);
            let (s_bt, c_bt) = M::sin_cos(beta + theta);
            let (s_pd, c_pd) = M::sin_cos(phi + delta);
            let (s_oe, c_oe) = M::sin_cos(omega + epsilon);

            let (h, w) = (e - ea, zf - fa);
            let (mdr, mzh, muw) = (m2 * da * rr, m4 * zt * h, m6 * u * w);
            let m22 = m2 * da * da + i2;
            let m21 = m22 - mdr * c_t;
            let m11 = m1 * ra * ra + m2 * (rr * rr + da * da) - 2.0 * mdr * c_t + i1 + i2;
            let m33 = m3 * (sa * sa + sb * sb) + i3;
            let m44 = m4 * h * h + i4;
            let m54 = m44 + mzh * s_p;
            let m55 = m4 * (zt * zt + h * h) + 2.0 * mzh * s_p + m5 * (ta * ta + tb * tb) + i4 + i5;
            let m66 = m6 * w * w + i6;
            let m76 = m66 - muw * s_o;
            let m77 = m6 * (w * w + u * u) - 2.0 * muw * s_o + m7 * (ua * ua + ub * ub) + i6 + i7;

            let (xd, yd) = (sd * c_g + sc * s_g, sd * s_g - sc * c_g);
            let (dx, dy) = (xd + xb - xc, yd + yb - yc);
            let length = (dx * dx + dy * dy).sqrt();
            let force = -(c0 * (length - l0) / length);
            let f1 = mom - mdr * d_theta * (d_theta + 2.0 * d_beta) * s_t;
            let f2 = mdr * d_beta * d_beta * s_t;
            let f3 = force * (dy * xd - dx * yd);
            let f4 = mzh * d_delta * d_delta * c_p;
            let f5 = -(mzh * d_phi * (d_phi + 2.0 * d_delta) * c_p);
            let f6 = -(muw * d_epsilon * d_epsilon * c_o);
            let f7 = muw * d_omega * (d_omega + 2.0 * d_epsilon) * c_o;

            let (ds_bt, dc_bt) = (d * s_bt, d * c_bt);
            let (g_bx, g_by) = (ds_bt - rr * s_b, rr * c_b - dc_bt);
            let (lx, ly) = (l0x + l1x + l2x, l0y + l1y + l2y);
            let (es, ec) = (e * s_pd, e * c_pd);
            let (zs, zc) = (zf * s_oe, zf * c_oe);
            let (gd_x, gd_y) = (zt * s_d - ec, -(es + zt * c_d));
            let (ge_x, ge_y) = (zs - u * c_e, -(zc + u * s_e));
            out[0].0[k] = m11 * a0 + m21 * a1 - f1 + g_bx * lx + g_by * ly;
            out[1].0[k] = m21 * a0 + m22 * a1 - f2 + ds_bt * lx - dc_bt * ly;
            out[2].0[k] = m33 * a2 - f3 - ss * (c_g * l0x + s_g * l0y);
            out[3].0[k] = m44 * a3 + m54 * a4 - f4 - ec * l1x - es * l1y;
            out[4].0[k] = m54 * a3 + m55 * a4 - f5 + gd_x * l1x + gd_y * l1y;
            out[5].0[k] = m66 * a5 + m76 * a6 - f6 + zs * l2x - zc * l2y;
            out[6].0[k] = m76 * a5 + m77 * a6 - f7 + ge_x * l2x + ge_y * l2y;

            // The constraints differentiated twice: G q'' plus what is quadratic in q'.
            let (v_bt, v_pd, v_oe) = (d_beta + d_theta, d_phi + d_delta, d_omega + d_epsilon);
            let (b2, bt2) = (rr * d_beta * d_beta, v_bt * v_bt);
            let common_x = g_bx * a0 + ds_bt * a1 - c_b * b2 + dc_bt * bt2;
            let common_y = g_by * a0 - dc_bt * a1 - s_b * b2 + ds_bt * bt2;
            let (g2, d2, e2) = (ss * d_gamma * d_gamma, zt * d_delta * d_delta, u * d_epsilon * d_epsilon);
            let (pd2, oe2) = (v_pd * v_pd, v_oe * v_oe);
            out[7].0[k] = common_x - ss * c_g * a2 + s_g * g2;
            out[8].0[k] = common_y - ss * s_g * a2 - c_g * g2;
            out[9].0[k] = common_x - ec * a3 + gd_x * a4 + es * pd2 + c_d * d2;
            out[10].0[k] = common_y - es * a3 + gd_y * a4 - ec * pd2 + s_d * d2;
            out[11].0[k] = common_x + zs * a5 + ge_x * a6 + zc * oe2 + s_e * e2;
            out[12].0[k] = common_y - zc * a5 + ge_y * a6 + zs * oe2 - c_e * e2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{Literal, Standard};

    /// A residual evaluated with the test set's own program, which has the opposite sign.
    #[test]
    fn forces_agree_with_the_published_code() {
        let y = [
            -0.062068685129214624,
            0.0,
            0.45830246147709,
            0.21974065832047948,
            0.4807189028177039,
            -0.2224011634604826,
            1.2301599404842523,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            14012.391476075753,
            -10345.912208707034,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            97.81145241628604,
            -6.3190503592110785,
            0.0,
            0.0,
            0.0,
            0.0,
        ];
        let published = [-0.003989306970192369, -0.005982617151245206, -0.03931201538390933, -0.0, -0.0, -0.0, -0.0];
        let states: Vec<Row<1>> = (0..7).flat_map(|k| [Row([y[k]]), Row([y[7 + k]])]).collect();
        let unknowns: Vec<Row<1>> = y[14..].iter().map(|&value| Row([value])).collect();
        let mut residuals = [Row([0.0]); 13];
        Squeezer::residual::<1, _, Standard>(0.0, &states, &unknowns, &Literal(Squeezer), &mut residuals);
        for (residual, published) in residuals.iter().zip(published) {
            assert!((residual.0[0] + published).abs() < 1e-13, "{} {published}", residual.0[0]);
        }
    }
}
