//! Linear descriptor systems E z' = F z + G u + J w, y = H z on arrays.

use daesy::pencil::{
    CoefficientJet, ConsistencyRequest, DescriptorSystem, Discontinuity, FiniteInfiniteSplit, InputRole, Mat, Pencil,
    PencilError, PencilOptions, RankDecision, SignalMap, SignalRole, SignalVerdict, StrangenessOptions,
    kronecker_structure, split_finite_infinite, standard_form, strangeness_free, well_posedness,
};
use numpy::{PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{from_matrix, from_rows, matrix};

/// A linear descriptor system.
#[pyclass(name = "LinearSystem", frozen, module = "daesy._daesy")]
pub struct LinearSystem {
    system: DescriptorSystem,
}

fn wrong(error: PencilError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Rank decisions as (question, rank, gap, is doubtful).
fn decisions(decisions: &[RankDecision]) -> Vec<(String, usize, f64, bool)> {
    decisions
        .iter()
        .map(|decision| (decision.question.to_string(), decision.rank, decision.gap, decision.is_doubtful))
        .collect()
}

impl LinearSystem {
    fn splitting(&self) -> PyResult<FiniteInfiniteSplit> {
        split_finite_infinite(&self.system.pencil, &PencilOptions::default()).map_err(wrong)
    }
}

fn signal_map<'py>(py: Python<'py>, map: &SignalMap) -> PyResult<Bound<'py, PyDict>> {
    let list = |terms: &[Mat<f64>]| terms.iter().map(|term| from_matrix(py, term)).collect::<PyResult<Vec<_>>>();
    let dict = PyDict::new(py);
    dict.set_item("C", from_matrix(py, &map.state)?)?;
    dict.set_item("D", list(&map.input_terms)?)?;
    dict.set_item("K", list(&map.disturbance_terms)?)?;
    Ok(dict)
}

fn verdict<'py>(py: Python<'py>, verdict: &SignalVerdict) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("role", if verdict.role == SignalRole::Measured { "measured" } else { "estimated" })?;
    dict.set_item("signal", verdict.signal)?;
    dict.set_item("finite_variance", verdict.finite_variance)?;
    dict.set_item("disturbance", verdict.culprit.map(|path| path.disturbance))?;
    dict.set_item("pole_excess", verdict.culprit.map(|path| path.pole_excess))?;
    dict.set_item("pole_excess_needed", verdict.culprit.map(|path| path.pole_excess_needed))?;
    dict.set_item("infinite_variables", verdict.infinite_variables.clone())?;
    dict.set_item("presampling_order", verdict.presampling_order)?;
    Ok(dict)
}

#[pymethods]
impl LinearSystem {
    #[new]
    #[pyo3(signature = (e, f, g=None, j=None, h=None))]
    fn new(
        e: PyReadonlyArray2<'_, f64>,
        f: PyReadonlyArray2<'_, f64>,
        g: Option<PyReadonlyArray2<'_, f64>>,
        j: Option<PyReadonlyArray2<'_, f64>>,
        h: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Self> {
        let pencil = Pencil::new(matrix(&e), matrix(&f)).map_err(wrong)?;
        let mut system = DescriptorSystem::new(pencil);
        if let Some(g) = g {
            system = system.with_input(matrix(&g)).map_err(wrong)?;
        }
        if let Some(j) = j {
            system = system.with_disturbance(matrix(&j)).map_err(wrong)?;
        }
        if let Some(h) = h {
            system = system.with_measured(matrix(&h)).map_err(wrong)?;
        }
        Ok(Self { system })
    }

    /// Whether the pencil is regular, and what is redundant or free.
    fn kronecker<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let structure =
            py.detach(|| kronecker_structure(&self.system.pencil, &PencilOptions::default())).map_err(wrong)?;
        let dict = PyDict::new(py);
        dict.set_item("is_regular", structure.is_regular)?;
        dict.set_item("left_minimal_indices", structure.left_minimal_indices.clone())?;
        dict.set_item("right_minimal_indices", structure.right_minimal_indices.clone())?;
        dict.set_item("rank_decisions", decisions(&structure.rank_decisions))?;
        Ok(dict)
    }

    /// P (s E - F) Q = diag(s I - A, s N - I).
    fn split<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let split = py.detach(|| self.splitting())?;
        let eigenvalues = split.finite_eigenvalues().map_err(wrong)?;
        let dict = PyDict::new(py);
        dict.set_item("index", split.index)?;
        dict.set_item("n_finite", split.n_finite)?;
        dict.set_item("n_infinite", split.n_infinite)?;
        dict.set_item("infinite_block_sizes", split.infinite_block_sizes.clone())?;
        dict.set_item("P", from_matrix(py, &split.left)?)?;
        dict.set_item("Q", from_matrix(py, &split.right)?)?;
        dict.set_item("A", from_matrix(py, &split.dynamics)?)?;
        dict.set_item("N", from_matrix(py, &split.nilpotent)?)?;
        let parts: Vec<(f64, f64)> = eigenvalues.iter().map(|value| (value.re, value.im)).collect();
        dict.set_item("eigenvalues", parts)?;
        dict.set_item("rank_decisions", decisions(&split.rank_decisions))?;
        Ok(dict)
    }

    /// x' = A x + B u + L w with maps to variables and outputs.
    fn standard_form<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let form = py.detach(|| standard_form(&self.system, &PencilOptions::default())).map_err(wrong)?;
        let dict = PyDict::new(py);
        dict.set_item("A", from_matrix(py, &form.dynamics)?)?;
        dict.set_item("B", from_matrix(py, &form.input)?)?;
        dict.set_item("L", from_matrix(py, &form.noise)?)?;
        dict.set_item("variables", signal_map(py, &form.variables)?)?;
        dict.set_item("measured", signal_map(py, &form.measured)?)?;
        dict.set_item("index", form.split.index)?;
        Ok(dict)
    }

    /// Whether estimation is well-posed, signal by signal.
    #[pyo3(signature = (pole_excess, m=None))]
    fn well_posedness<'py>(
        &self,
        py: Python<'py>,
        pole_excess: Vec<i32>,
        m: Option<PyReadonlyArray2<'py, f64>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut system = self.system.clone();
        if let Some(m) = m {
            system = system.with_estimated(matrix(&m)).map_err(wrong)?;
        }
        let told = py.detach(|| well_posedness(&system, &pole_excess, &PencilOptions::default())).map_err(wrong)?;
        let dict = PyDict::new(py);
        dict.set_item("well_posed", told.is_well_posed)?;
        let signals = told.signals.iter().map(|signal| verdict(py, signal)).collect::<PyResult<Vec<_>>>()?;
        dict.set_item("signals", signals)?;
        dict.set_item("infinite_variables", told.infinite_variables)?;
        dict.set_item("rank_decisions", decisions(&told.rank_decisions))?;
        Ok(dict)
    }

    /// The consistent value nearest to a guess, with values that must be kept; `u` holds u, u', ..
    fn consistent<'py>(
        &self,
        py: Python<'py>,
        z0: Vec<f64>,
        u: Vec<Vec<f64>>,
        insisted: Vec<usize>,
        scales: Option<Vec<f64>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let split = self.splitting()?;
        let request = ConsistencyRequest {
            guess: &z0,
            insisted: &insisted,
            scales: scales.as_deref(),
            ..ConsistencyRequest::default()
        };
        let found = split.consistent_initial_values(&self.system.input, &u, &request).map_err(wrong)?;
        let dict = PyDict::new(py);
        dict.set_item("values", PyArray1::from_vec(py, found.values))?;
        dict.set_item("changed", found.changed)?;
        dict.set_item("distance", found.distance)?;
        Ok(dict)
    }

    /// The value right after a start from values that need not be consistent.
    fn continued<'py>(&self, py: Python<'py>, z0: Vec<f64>, u: Vec<Vec<f64>>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let after = self.splitting()?.continue_from(&z0, &self.system.input, &u).map_err(wrong)?;
        Ok(PyArray1::from_vec(py, after))
    }

    /// Jumps and impulses of all variables: `jumps[k][c]` of derivative k of input c, `impulses[k][c]` of derivative k
    /// of delta.
    fn state_transfer<'py>(
        &self,
        py: Python<'py>,
        jumps: Vec<Vec<f64>>,
        impulses: Vec<Vec<f64>>,
        names: Vec<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let event = Discontinuity { jumps, impulses };
        let transfer = self.splitting()?.state_transfer(&self.system.input, &event).map_err(wrong)?;
        let n = self.system.pencil.n_variables();
        let dict = PyDict::new(py);
        dict.set_item("jump", PyArray1::from_vec(py, transfer.jump.clone()))?;
        dict.set_item("impulses", from_rows(py, &transfer.impulses, n)?)?;
        let rows: Vec<Vec<f64>> = transfer.continuous.iter().map(|row| row.coefficients.clone()).collect();
        dict.set_item("continuous", from_rows(py, &rows, n)?)?;
        let text: Vec<String> = transfer.continuous.iter().map(|row| row.describe(&names)).collect();
        dict.set_item("continuous_text", text)?;
        dict.set_item("rank_decisions", decisions(&transfer.rank_decisions))?;
        Ok(dict)
    }

    /// The strangeness-free form.
    #[pyo3(signature = (given_inputs=false))]
    fn regularize<'py>(&self, py: Python<'py>, given_inputs: bool) -> PyResult<Bound<'py, PyDict>> {
        let pencil = &self.system.pencil;
        let jet =
            CoefficientJet::constant(pencil.e().clone(), pencil.f().clone()).with_input(self.system.input.clone());
        let inputs = if given_inputs { InputRole::Given } else { InputRole::Behaviour };
        let options = StrangenessOptions { inputs, readable: true, ..StrangenessOptions::default() };
        let form = py.detach(|| strangeness_free(&jet, 0.0, &options)).map_err(wrong)?;
        let dict = PyDict::new(py);
        for (key, count) in [("mu", form.mu), ("d", form.d), ("a", form.a), ("v", form.v)] {
            dict.set_item(key, count)?;
        }
        let parts = [("E1", &form.e1), ("A1", &form.a1), ("B1", &form.b1), ("A2", &form.a2), ("B2", &form.b2)];
        for (key, part) in parts {
            dict.set_item(key, from_matrix(py, part)?)?;
        }
        let derivatives: Vec<Bound<'py, PyArray2<f64>>> =
            form.b2_derivatives.iter().map(|part| from_matrix(py, part)).collect::<PyResult<_>>()?;
        dict.set_item("B2_derivatives", derivatives)?;
        dict.set_item("rank_decisions", decisions(&form.rank_decisions))?;
        Ok(dict)
    }
}
