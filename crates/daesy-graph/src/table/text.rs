//! Tables as Modelica functions, written out with all their numbers, for texts that must be read without the files and
//! the external functions that they came from.
//!
//! Each text is what stands between `function name` and `end name;`: inputs `in1`, `in2`, the output `out`, and an
//! algorithm that takes the same steps as the lookup itself, so that it gives the same numbers.

use super::{Axis, Extrapolation, Smoothness, TableCurve, TableSurface, TimeTable, TimeTableOptions};
use crate::intrinsic::Intrinsic;
use crate::print::number_text;

impl Intrinsic {
    /// The inside of a Modelica function that does the same; `None` for what is no table, and for derivatives of
    /// surfaces and of signals over time.
    #[must_use]
    pub fn modelica_text(&self) -> Option<String> {
        match self {
            Self::Curve { curve, order } => Some(curve.text(*order)),
            Self::Surface { surface, orders: [0, 0] } => Some(surface.text()),
            Self::Signal { table, column, order: 0 } => Some(table.signal_text(*column)),
            Self::NextEvent { table } => Some(table.next_event_text()),
            _ => None,
        }
    }
}

fn list(numbers: &[f64]) -> String {
    let texts: Vec<String> = numbers.iter().map(|&number| number_text(number)).collect();
    format!("{{{}}}", texts.join(", "))
}

fn rows<const N: usize>(rows: &[[f64; N]]) -> String {
    let texts: Vec<String> = rows.iter().map(|row| list(row)).collect();
    format!("{{{}}}", texts.join(", "))
}

/// Heads of functions, their constants and their local variables.
fn head(n_inputs: usize, declarations: &[String]) -> String {
    let mut text: String = (1..=n_inputs).map(|at| format!("  input Real in{at};\n")).collect();
    text.push_str("  output Real out;\nprotected\n");
    declarations.iter().for_each(|declaration| text.push_str(&format!("  {declaration};\n")));
    text.push_str("algorithm\n");
    text
}

/// Statements that put the place of `u` on the axis with the abscissae `x` into an interval `i`, the coordinate `v` in
/// it and the distance `b` beyond the ends.
fn place_text(axis: &Axis, [u, x, i, v, b]: [&str; 5]) -> String {
    let (first, last) = (number_text(axis.first()), number_text(axis.last()));
    let n = axis.x.len();
    let mut text = String::new();
    match axis.extrapolation {
        Extrapolation::Periodic if axis.last() > axis.first() => {
            let period = number_text(axis.last() - axis.first());
            text.push_str(&format!(
                "  if {u} < {first} or {u} > {last} then\n    \
                 {u} := max({first}, min({last}, {u} - floor(({u} - ({first}))/{period})*{period}));\n  end if;\n"
            ));
        }
        Extrapolation::Refuse => text.push_str(&format!(
            "  assert({u} >= {first} and {u} <= {last}, \"the table is not defined outside of its points\");\n"
        )),
        _ => {}
    }
    text.push_str(&format!(
        "  {i} := 1;\n  while {i} < {} loop\n    if {u} < {x}[{i} + 1] then\n      break;\n    end if;\n    \
         {i} := {i} + 1;\n  end while;\n  {v} := max({first}, min({last}, {u})) - {x}[{i}];\n",
        n - 1
    ));
    let beyond = if axis.extrapolation == Extrapolation::Line {
        format!("if {u} < {first} then {u} - ({first}) else if {u} > {last} then {u} - ({last}) else 0")
    } else {
        "0".to_owned()
    };
    text.push_str(&format!("  {b} := {beyond};\n"));
    text
}

/// The value of a cubic with the coefficients `c`, and of its line beyond the end.
fn cubic_text(c: [&str; 4], v: &str, b: &str) -> String {
    let [c0, c1, c2, c3] = c;
    format!("(({c3}*{v} + {c2})*{v} + {c1})*{v} + {c0} + ((3*{c3}*{v} + 2*{c2})*{v} + {c1})*{b}")
}

impl TableCurve {
    fn text(&self, order: u8) -> String {
        if self.axis.x.len() == 1 {
            let value = if order == 0 { self.single } else { 0.0 };
            return format!("{}  out := {};\n", head(1, &[]), number_text(value));
        }
        let mut text = head(1, &self.declarations(order));
        text.push_str("  u := in1;\n");
        text.push_str(&place_text(&self.axis, ["u", "x", "i", "v", "b"]));
        text.push_str(&format!("  out := {};\n", self.value_text(order)));
        text
    }

    fn declarations(&self, order: u8) -> Vec<String> {
        let n = self.axis.x.len();
        // The derivative of `c0 + c1 v + c2 v^2 + c3 v^3` has the coefficients `c1, 2 c2, 3 c3, 0`.
        let mut pieces = self.pieces.clone();
        for _ in 0..order {
            for c in &mut pieces {
                *c = [c[1], 2.0 * c[2], 3.0 * c[3], 0.0];
            }
        }
        let mut declarations = vec![
            format!("constant Real x[{n}] = {}", list(&self.axis.x)),
            format!("constant Real c[{n}, 4] = {}", rows(&pieces)),
            "Real u".to_owned(),
            "Real v".to_owned(),
            "Real b".to_owned(),
            "Integer i".to_owned(),
        ];
        if self.smoothness == Smoothness::Constant {
            let slope = |at: usize| {
                let h = self.axis.x[at + 1] - self.axis.x[at];
                if h > 0.0 { (self.pieces[at + 1][0] - self.pieces[at][0]) / h } else { 0.0 }
            };
            let slopes: Vec<f64> = (0..n - 1).map(slope).collect();
            declarations.insert(2, format!("constant Real s[{}] = {}", n - 1, list(&slopes)));
        }
        declarations
    }

    /// The value at the place that has been found.
    fn value_text(&self, order: u8) -> String {
        let n = self.axis.x.len();
        let (first, last) = (number_text(self.axis.first()), number_text(self.axis.last()));
        let is_outside = format!("u < {first} or u > {last}");
        let is_line = self.axis.extrapolation == Extrapolation::Line;
        if self.smoothness == Smoothness::Constant {
            return match order {
                0 => format!("(if i == {} and u >= {last} then c[{n}, 1] else c[i, 1]) + s[i]*b", n - 1),
                1 if is_line => format!("if {is_outside} then s[i] else 0"),
                _ => "0".to_owned(),
            };
        }
        let inside = cubic_text(["c[i, 1]", "c[i, 2]", "c[i, 3]", "c[i, 4]"], "v", if order == 0 { "b" } else { "0" });
        match (order, self.axis.extrapolation) {
            (0, _) | (1, Extrapolation::Line) | (_, Extrapolation::Periodic | Extrapolation::Refuse) => inside,
            _ => format!("if {is_outside} then 0 else {inside}"),
        }
    }
}

impl TableSurface {
    fn text(&self) -> String {
        let (n_rows, n_columns) = (self.rows.x.len(), self.columns.x.len());
        let mut declarations = vec![
            format!("constant Real x[{n_rows}] = {}", list(&self.rows.x)),
            format!("constant Real y[{n_columns}] = {}", list(&self.columns.x)),
            format!("constant Real c[{}, 16] = {}", self.cells.len(), rows(&self.cells)),
        ];
        if self.is_constant {
            declarations.push(format!("constant Real p[{}] = {}", self.points.len(), list(&self.points)));
        }
        for name in ["u", "v", "b", "r", "w", "d"] {
            declarations.push(format!("Real {name}"));
        }
        declarations.push("Real a[4]".to_owned());
        for name in ["i", "j", "k", "l"] {
            declarations.push(format!("Integer {name}"));
        }
        let mut text = head(2, &declarations);
        text.push_str("  u := in1;\n  r := in2;\n");
        text.push_str(&place_text(&self.rows, ["u", "x", "i", "v", "b"]));
        text.push_str(&place_text(&self.columns, ["r", "y", "j", "w", "d"]));
        let across = cubic_text(["c[k, 4*l - 3]", "c[k, 4*l - 2]", "c[k, 4*l - 1]", "c[k, 4*l]"], "w", "d");
        text.push_str(&format!(
            "  k := (i - 1)*{} + j;\n  l := 1;\n  while l < 5 loop\n    a[l] := {across};\n    l := l + 1;\n  end while;\n",
            n_columns - 1
        ));
        let smooth = cubic_text(["a[1]", "a[2]", "a[3]", "a[4]"], "v", "b");
        if self.is_constant {
            text.push_str(&format!(
                "  if b == 0 and d == 0 then\n    \
                 l := (if v >= x[i + 1] - x[i] then i else i - 1)*{n_columns} + \
                 (if w >= y[j + 1] - y[j] then j + 1 else j);\n    out := p[l];\n  else\n    out := {smooth};\n  end if;\n"
            ));
        } else {
            text.push_str(&format!("  out := {smooth};\n"));
        }
        text
    }
}

impl TimeTable {
    /// See [`TimeTable::next_event`].
    fn next_event_text(&self) -> String {
        let TimeTableOptions { start, shift, .. } = self.options;
        let (start, shift_text, n) = (number_text(start), number_text(shift), self.events.len());
        let never = number_text(super::NEVER);
        if self.curves.iter().all(|curve| curve.axis.x.len() < 2) {
            return format!("{}  out := if in1 < {start} then {start} else {never};\n", head(1, &[]));
        }
        let declarations = [
            format!("constant Real e[{n}] = {}", list(&self.events)),
            "Real u".to_owned(),
            "Real o".to_owned(),
            "Integer k".to_owned(),
        ];
        let mut text = head(1, &declarations);
        let slack = number_text(8.0 * f64::EPSILON);
        let sizes = number_text(self.last().abs() + shift.abs());
        text.push_str(&format!("  u := in1 - ({shift_text}) + {slack}*(abs(in1) + {sizes});\n"));
        let (from, after) = match self.period() {
            None => {
                text.push_str("  o := 0;\n");
                (1, never)
            }
            Some(period) => {
                let (first, period) = (number_text(self.first()), number_text(period));
                text.push_str(&format!("  o := floor((u - ({first}))/{period})*{period};\n"));
                (2, format!("{} + o + {period} + ({shift_text})", number_text(self.events[1])))
            }
        };
        text.push_str(&format!(
            "  k := {from};\n  while k <= {n} loop\n    if e[k] + o > u then\n      break;\n    end if;\n    k := k + 1;\n  \
             end while;\n  if in1 < {start} then\n    out := {start};\n  elseif k > {n} then\n    out := {after};\n  \
             else\n    out := e[k] + o + ({shift_text});\n  end if;\n"
        ));
        text
    }

    /// See [`TimeTable::value`].
    fn signal_text(&self, column: usize) -> String {
        let TimeTableOptions { start, shift, extrapolation, .. } = self.options;
        let curve = &self.curves[column];
        let before_start = format!("in1 < {start} or in2 <= {start}", start = number_text(start));
        let n = curve.axis.x.len();
        if n < 2 {
            let single = number_text(curve.single);
            return format!("{}  out := if {before_start} then 0 else {single};\n", head(2, &[]));
        }
        let m = self.events.len();
        let mut declarations = curve.declarations(0);
        declarations.push(format!("constant Real e[{m}] = {}", list(&self.events)));
        for name in ["o", "z", "a"] {
            declarations.push(format!("Real {name}"));
        }
        declarations.push("Integer k".to_owned());
        declarations.push("Integer j".to_owned());
        let mut text = head(2, &declarations);
        let (first, last, shift_text) = (number_text(self.first()), number_text(self.last()), number_text(shift));
        let sizes = number_text(self.last().abs() + shift.abs());
        match self.period() {
            None => text.push_str("  o := 0;\n"),
            Some(period) => text.push_str(&format!(
                "  o := floor((in2 - ({shift_text}) - {slack}*(abs(in2) + {sizes}) - ({first}))/{period})*{period};\n",
                slack = number_text(8.0 * f64::EPSILON),
                period = number_text(period),
            )),
        }
        // The event `k` ends the stretch.
        text.push_str(&format!(
            "  u := in1 - ({shift_text}) - o;\n  z := in2 - ({shift_text}) - o;\n  a := {tolerance}*(abs(in1) + {sizes});\n  \
             k := 1;\n  while k <= {m} loop\n    if abs(e[k] - z) <= a or e[k] > z then\n      break;\n    end if;\n    \
             k := k + 1;\n  end while;\n",
            tolerance = number_text(16.0 * f64::EPSILON),
        ));
        // Pieces from the end of the stretch on do not count: `j` is the last that does.
        text.push_str(&format!(
            "  j := {limit};\n  if k == 1 then\n    u := min(u, {first});\n  elseif k > {m} then\n    u := max(u, {last});\n  \
             else\n    u := max(e[k - 1], min(e[k], u));\n    while x[j] >= e[k] and j > 1 loop\n      j := j - 1;\n    \
             end while;\n  end if;\n",
            limit = n - 1
        ));
        text.push_str(&place_text(&curve.axis, ["u", "x", "i", "v", "b"]));
        text.push_str("  if i > j then\n    i := j;\n    v := u - x[i];\n  end if;\n");
        let inside = if curve.smoothness == Smoothness::Constant {
            "c[i, 1]".to_owned()
        } else {
            cubic_text(["c[i, 1]", "c[i, 2]", "c[i, 3]", "c[i, 4]"], "v", "0")
        };
        let (before, after) = if extrapolation == Extrapolation::Hold {
            (number_text(curve.pieces[0][0]), self.held_at_end(curve))
        } else {
            (curve.value_text(0), curve.value_text(0))
        };
        text.push_str(&format!(
            "  if {before_start} then\n    out := 0;\n  elseif k == 1 then\n    out := {before};\n  elseif k > {m} then\n    \
             out := {after};\n  else\n    out := {inside};\n  end if;\n"
        ));
        text
    }

    /// What a column that is held has after its last point.
    fn held_at_end(&self, curve: &TableCurve) -> String {
        curve.value(0, self.last()).map_or_else(|_| "0".to_owned(), number_text)
    }
}
