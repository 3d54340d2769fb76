//! A linearization as text, JSON, a page with Bode pictures, and a Python file.

use std::fmt::Write as _;

use faer::{Mat, c64};
use serde_json::{Map, Value, json};

use super::{LinearForm, NamedValue};
use daesy_report::Page;
use daesy_report::chart::{Chart, Scale, Series};

/// Matrices with more rows or columns are not printed.
const MAX_PRINTED: usize = 12;

/// Frequencies of a Bode picture.
const N_FREQUENCIES: usize = 300;

/// Bode pictures of a page, at most.
const MAX_PICTURES: usize = 12;

fn rows(matrix: &Mat<f64>) -> Vec<Vec<f64>> {
    (0..matrix.nrows()).map(|row| matrix.row(row).iter().copied().collect()).collect()
}

fn names(values: &[NamedValue]) -> Vec<&str> {
    values.iter().map(|value| value.name.as_str()).collect()
}

/// Responses of one output to one input.
struct Bode {
    frequencies: Vec<f64>,
    decibels: Vec<f64>,
    degrees: Vec<f64>,
}

impl LinearForm {
    fn column_names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let values = |values: &[NamedValue]| -> Map<String, Value> {
            values.iter().map(|value| (value.name.clone(), json!(value.value))).collect()
        };
        let mut keys = Map::new();
        for (key, matrix) in [("A", &self.a), ("B", &self.b), ("C", &self.c), ("D", &self.d)] {
            keys.insert(key.into(), json!(rows(matrix)));
        }
        keys.insert("states".into(), json!(names(&self.states)));
        keys.insert("inputs".into(), json!(self.column_names()));
        keys.insert("outputs".into(), json!(names(&self.outputs)));
        keys.insert("poles".into(), self.poles.iter().map(|pole| json!([pole.re, pole.im])).collect());
        let rates: Map<String, Value> =
            self.states.iter().zip(&self.rates).map(|(state, rate)| (state.name.clone(), json!(rate))).collect();
        keys.insert(
            "at".into(),
            json!({
                "time": self.time,
                "rest": self.is_at_rest(),
                "states": values(&self.states),
                "rates": rates,
                "inputs": values(&self.inputs),
                "outputs": values(&self.outputs),
            }),
        );
        keys
    }

    /// The poles with frequency and damping, row by row.
    fn pole_rows(&self) -> Vec<Vec<String>> {
        self.poles
            .iter()
            .map(|pole| {
                let size = pole.re.hypot(pole.im);
                let damping = if size > 0.0 { format!("{:.4}", -pole.re / size) } else { String::new() };
                let constant = if pole.re == 0.0 { String::new() } else { format!("{:.6e}", -1.0 / pole.re) };
                vec![format!("{:.6e}", pole.re), format!("{:.6e}", pole.im), format!("{size:.6e}"), damping, constant]
            })
            .collect()
    }

    /// What it says in one or two sentences.
    fn summary(&self) -> String {
        let unstable = self.poles.iter().filter(|pole| pole.re > 0.0).count();
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let stability = match (self.poles.len(), unstable) {
            (0, _) => "It has no states: outputs follow the inputs at once.".to_owned(),
            (_, 0) if self.poles.iter().all(|pole| pole.re < 0.0) => "It is stable.".to_owned(),
            (_, 0) => "It is at the border of stability: some poles have no damping.".to_owned(),
            (_, n) => format!("It is unstable: {} in the right half-plane.", count(n, "pole")),
        };
        format!(
            "{} at t = {}: {}, {}, {}. {stability}",
            self.model,
            self.time,
            count(self.states.len(), "state"),
            count(self.columns.len(), "input"),
            count(self.outputs.len(), "output"),
        )
    }

    /// The answer for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = self.summary();
        let list = |title: &str, values: &[NamedValue]| {
            let shown: Vec<String> = values.iter().map(|value| format!("{} = {}", value.name, value.value)).collect();
            if shown.is_empty() { String::new() } else { format!("\n{title}: {}", shown.join(", ")) }
        };
        text.push_str(&list("States", &self.states));
        text.push_str(&list("Inputs", &self.inputs));
        text.push_str(&list("Outputs", &self.outputs));
        if !self.poles.is_empty() {
            text.push_str("\n\nPoles\n");
            let head = ["real", "imaginary", "size", "damping", "time constant"];
            for row in std::iter::once(head.map(str::to_owned).to_vec()).chain(self.pole_rows()) {
                let cells: Vec<String> = row.iter().map(|cell| format!("{cell:>15}")).collect();
                let _ = writeln!(text, "{}", cells.join(" ").trim_end());
            }
        }
        for (name, matrix) in [("A", &self.a), ("B", &self.b), ("C", &self.c), ("D", &self.d)] {
            if matrix.nrows() * matrix.ncols() == 0 {
                continue;
            }
            if matrix.nrows() > MAX_PRINTED || matrix.ncols() > MAX_PRINTED {
                let _ = writeln!(text, "\n{name} is {} x {}: write it with `-o`.", matrix.nrows(), matrix.ncols());
                continue;
            }
            let _ = writeln!(text, "\n{name} =");
            for row in rows(matrix) {
                let cells: Vec<String> = row.iter().map(|value| format!("{:>14}", short(*value))).collect();
                let _ = writeln!(text, "{}", cells.join(" "));
            }
        }
        text
    }

    /// The matrices as a Python file, with a function that makes a system of python-control.
    #[must_use]
    pub fn to_python(&self) -> String {
        let mut text = format!(
            "\"\"\"{} to first order at t = {}: x' = A x + B u, y = C x + D u. Made by daesy {}.\"\"\"\n\nimport numpy as np\n\n",
            self.model,
            self.time,
            env!("CARGO_PKG_VERSION")
        );
        let quoted = |names: &[&str]| json!(names).to_string();
        let _ = writeln!(text, "states = {}", quoted(&names(&self.states)));
        let _ = writeln!(text, "inputs = {}", quoted(&self.column_names()));
        let _ = writeln!(text, "outputs = {}", quoted(&names(&self.outputs)));
        for (name, matrix) in [("A", &self.a), ("B", &self.b), ("C", &self.c), ("D", &self.d)] {
            let lines: Vec<String> =
                rows(matrix).iter().map(|row| format!("    [{}],\n", decimals(row).join(", "))).collect();
            let (n, m) = (matrix.nrows(), matrix.ncols());
            let _ = writeln!(text, "{name} = np.array([\n{}], dtype=float).reshape({n}, {m})", lines.concat());
        }
        let poles: Vec<String> =
            self.poles.iter().map(|pole| format!("complex({:e}, {:e})", pole.re, pole.im)).collect();
        let _ = writeln!(text, "poles = np.array([{}], dtype=complex)", poles.join(", "));
        text.push_str(
            "\n\ndef system():\n    \
             \"\"\"The same as a StateSpace of python-control (pip install control), dots of names as underscores.\"\"\"\n    \
             import control\n\n    \
             def plain(names):\n        \
             return [name.replace(\".\", \"_\") for name in names]\n\n    \
             return control.ss(A, B, C, D, states=plain(states), inputs=plain(inputs), outputs=plain(outputs))\n",
        );
        text
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::new(&format!("Linearization of {}", self.model));
        page.paragraph(&self.summary());
        for diagnostic in &self.diagnostics {
            page.remark(diagnostic.level.word(), &diagnostic.message);
        }
        self.add_bode(&mut page);
        page.heading("Poles");
        page.table(&["real part", "imaginary part", "size in rad/s", "damping", "time constant"], &self.pole_rows());
        page.heading("The point");
        for (title, values) in [("state", &self.states), ("input", &self.inputs), ("output", &self.outputs)] {
            let cells: Vec<Vec<String>> =
                values.iter().map(|one| vec![one.name.clone(), one.value.to_string(), one.unit.clone()]).collect();
            if !cells.is_empty() {
                page.table(&[title, "value", "unit"], &cells);
            }
        }
        page.heading("Matrices");
        let (states, outputs, inputs) = (names(&self.states), names(&self.outputs), self.column_names());
        for (title, matrix, left, top) in [
            ("A", &self.a, &states, &states),
            ("B", &self.b, &states, &inputs),
            ("C", &self.c, &outputs, &states),
            ("D", &self.d, &outputs, &inputs),
        ] {
            if matrix.nrows() * matrix.ncols() == 0 || matrix.nrows().max(matrix.ncols()) > 4 * MAX_PRINTED {
                continue;
            }
            let head: Vec<&str> = std::iter::once(title).chain(top.iter().copied()).collect();
            let body: Vec<Vec<String>> = (rows(matrix).iter().zip(left.iter()))
                .map(|(row, name)| std::iter::once((*name).to_owned()).chain(row.iter().map(|v| short(*v))).collect())
                .collect();
            page.table(&head, &body);
        }
        page
    }

    fn add_bode(&self, page: &mut Page) {
        let pairs: Vec<(usize, usize)> = (0..self.outputs.len())
            .flat_map(|output| (0..self.inputs.len()).map(move |input| (output, input)))
            .collect();
        if pairs.is_empty() {
            return;
        }
        page.heading("Frequency response");
        let frequencies = self.frequencies();
        let responses: Vec<Mat<c64>> = frequencies.iter().map(|&frequency| self.transfer(frequency)).collect();
        for &(output, input) in pairs.iter().take(MAX_PICTURES) {
            let bode = bode(&frequencies, &responses, output, input);
            if bode.frequencies.is_empty() {
                continue;
            }
            let name = format!("{} by {}", self.outputs[output].name, self.inputs[input].name);
            let chart = |label: &str, y: &[f64]| Chart {
                title: name.clone(),
                x_label: "angular frequency in rad/s".to_owned(),
                y_label: label.to_owned(),
                series: vec![Series::line("", &bode.frequencies, y, 0)],
                x_scale: Scale::Log,
                ..Chart::default()
            };
            let (y, u) = (&self.outputs[output], &self.inputs[input]);
            let unit = |value: &NamedValue| if value.unit.is_empty() { "1".to_owned() } else { value.unit.clone() };
            page.figure(&chart("gain in dB", &bode.decibels), &format!("Gain; 0 dB is 1 {} per {}.", unit(y), unit(u)));
            page.figure(&chart("phase in degrees", &bode.degrees), "Phase.");
        }
        if pairs.len() > MAX_PICTURES {
            page.paragraph(&format!(
                "{} more pairs: name those you want by `--inputs` and `--outputs`.",
                pairs.len() - MAX_PICTURES
            ));
        }
    }

    /// Frequencies from well below the slowest to well above the fastest pole.
    fn frequencies(&self) -> Vec<f64> {
        let sizes: Vec<f64> = self.poles.iter().map(|pole| pole.re.hypot(pole.im)).collect();
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        let is_shown = |size: &&f64| **size > 1e-9 * largest;
        let smallest = sizes.iter().filter(is_shown).copied().fold(f64::INFINITY, f64::min);
        let (low, high) = if largest > 0.0 { (0.01 * smallest, 100.0 * largest) } else { (0.01, 100.0) };
        let ratio = high / low;
        (0..N_FREQUENCIES).map(|at| low * ratio.powf(at as f64 / (N_FREQUENCIES - 1) as f64)).collect()
    }
}

/// Gain and phase of one pair; the phase goes on without jumps of 360 degrees. Frequencies without a response are left
/// out.
fn bode(frequencies: &[f64], responses: &[Mat<c64>], output: usize, input: usize) -> Bode {
    let mut bode = Bode { frequencies: Vec::new(), decibels: Vec::new(), degrees: Vec::new() };
    for (&frequency, response) in frequencies.iter().zip(responses) {
        let value = response[(output, input)];
        let size = value.re.hypot(value.im);
        if !size.is_finite() || size == 0.0 {
            continue;
        }
        let mut phase = value.im.atan2(value.re).to_degrees();
        if let Some(&last) = bode.degrees.last() {
            phase += 360.0 * ((last - phase) / 360.0).round();
        }
        bode.frequencies.push(frequency);
        bode.decibels.push(20.0 * size.log10());
        bode.degrees.push(phase);
    }
    bode
}

/// Six digits, as short as possible.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if (1e-4..1e7).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

fn decimals(row: &[f64]) -> Vec<String> {
    row.iter().map(|value| format!("{value:e}")).collect()
}
