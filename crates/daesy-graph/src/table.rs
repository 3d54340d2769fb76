//! Tables: curves and surfaces through given points, as piecewise polynomials with exact derivatives.
//!
//! A curve through `(x_k, y_k)` has one cubic for each interval, in the local coordinate `v = u - x_k`:
//!
//! ```text
//! p_k(v) = y_k + c1 v + c2 v^2 + c3 v^3,   c1 = s_k,
//! c2 = (3 d_k - 2 s_k - s_(k+1)) / h_k,    c3 = (s_k + s_(k+1) - 2 d_k) / h_k^2,
//! ```
//!
//! with `h_k = x_(k+1) - x_k` and `d_k = (y_(k+1) - y_k) / h_k` (cubic Hermite interpolation). The kinds of smoothness
//! differ in the slopes `s_k` alone: Akima [@akima1970], its modification with weights that also look at the size of
//! the slopes [@ionita2019], and two that keep monotone data monotone [@fritsch1984; @steffen1990]. A surface has one
//! bicubic for each cell, from values, slopes and twists at the corners [@akima1974].
//!
//! A derivative of such a function is the derivative of the piece that is taken; at a corner that of the piece to the
//! right.

mod text;

use std::sync::Arc;

use crate::stored::{store_enum, store_struct};

/// How a curve runs between its points.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Smoothness {
    /// Straight lines.
    Linear,
    /// The value of the point to the left.
    Constant,
    /// Cubics with the slopes of Akima.
    Akima,
    /// Cubics with the slopes of Akima's method as modified.
    ModifiedAkima,
    /// Monotone cubics with the slopes of Fritsch and Butland.
    FritschButland,
    /// Monotone cubics with the slopes of Steffen.
    Steffen,
}

/// What a table says outside of its points.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extrapolation {
    /// The value of the last point.
    Hold,
    /// A straight line with the slope at the end.
    Line,
    /// The table again and again.
    Periodic,
    /// Nothing: a value outside is an error.
    Refuse,
}

/// Why a table cannot be made, or has no value at a point.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There are too few rows or columns.
    #[error("a table of {rows} rows and {columns} columns is too small")]
    TooSmall {
        /// Rows given.
        rows: usize,
        /// Columns given.
        columns: usize,
    },
    /// A column that the table does not have.
    #[error("column {column} is asked for, but the table has {columns} columns")]
    NoColumn {
        /// The column, from 1.
        column: usize,
        /// Columns there are.
        columns: usize,
    },
    /// Abscissae that do not increase.
    #[error("the abscissae of a table must increase, but {first} is followed by {second}")]
    NotIncreasing {
        /// The abscissa.
        first: f64,
        /// The next one.
        second: f64,
    },
    /// A smoothness that surfaces do not have.
    #[error("tables with two inputs can be linear, constant or Akima's, not monotone or modified")]
    NoSuchSurface,
    /// A function of a model that runs elsewhere has no value.
    #[error("{message}")]
    Foreign {
        /// Why.
        message: String,
    },
    /// An operation on Integers has no value.
    #[error("{0}")]
    Whole(crate::whole::WholeError),
    /// A value outside of a table that does not extrapolate.
    #[error("{value} is outside of the table, which ends at {limit} and is not to be extrapolated")]
    Outside {
        /// The value.
        value: f64,
        /// The nearest end of the table.
        limit: f64,
    },
}

/// A matrix, row by row.
#[derive(Clone, PartialEq, Debug)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// The entries.
    pub entries: Vec<f64>,
}

impl Matrix {
    /// An entry; both count from 0.
    #[must_use]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.columns + column]
    }

    fn column(&self, column: usize) -> Vec<f64> {
        (0..self.rows).map(|row| self.at(row, column)).collect()
    }
}

/// Where a value lies on an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Place {
    /// The interval.
    interval: usize,
    /// The local coordinate in it, at the end of the table where the value is outside.
    inside: f64,
    /// How far outside the value is; zero inside.
    beyond: f64,
    /// Whether the value is before the first abscissa.
    is_before: bool,
}

/// Abscissae and what is outside of them.
#[derive(Clone, PartialEq, Debug)]
struct Axis {
    x: Vec<f64>,
    extrapolation: Extrapolation,
}

impl Axis {
    fn new(x: Vec<f64>, extrapolation: Extrapolation, may_repeat: bool) -> Result<Self, TableError> {
        if let Some(pair) = x.windows(2).find(|pair| pair[1] < pair[0] || (!may_repeat && pair[1] <= pair[0])) {
            return Err(TableError::NotIncreasing { first: pair[0], second: pair[1] });
        }
        Ok(Self { x, extrapolation })
    }

    fn first(&self) -> f64 {
        self.x[0]
    }

    fn last(&self) -> f64 {
        self.x[self.x.len() - 1]
    }

    /// A value moved into the table by whole periods.
    fn wrapped(&self, u: f64) -> f64 {
        let period = self.last() - self.first();
        if (self.first()..=self.last()).contains(&u) || period <= 0.0 {
            return u;
        }
        let moved = u - ((u - self.first()) / period).floor() * period;
        moved.clamp(self.first(), self.last())
    }

    /// The last interval that begins at or before a value, of positive length if there is one.
    fn interval(&self, u: f64) -> usize {
        let n = self.x.len() - 1;
        let after = self.x.partition_point(|&x| x <= u);
        after.saturating_sub(1).min(n - 1)
    }

    fn place(&self, u: f64) -> Result<Place, TableError> {
        let u = if self.extrapolation == Extrapolation::Periodic { self.wrapped(u) } else { u };
        let limit = if u < self.first() {
            self.first()
        } else if u > self.last() {
            self.last()
        } else {
            let interval = self.interval(u);
            return Ok(Place { interval, inside: u - self.x[interval], beyond: 0.0, is_before: false });
        };
        if self.extrapolation == Extrapolation::Refuse {
            return Err(TableError::Outside { value: u, limit });
        }
        let is_before = u < self.first();
        let interval = if is_before { 0 } else { self.x.len() - 2 };
        let beyond = if self.extrapolation == Extrapolation::Line { u - limit } else { 0.0 };
        Ok(Place { interval, inside: limit - self.x[interval], beyond, is_before })
    }

    /// Whether a value is outside and the table is held there.
    fn is_held(&self, u: f64) -> bool {
        self.extrapolation == Extrapolation::Hold && (u < self.first() || u > self.last())
    }
}

/// The `order`-th derivative of `c0 + c1 v + c2 v^2 + c3 v^3`.
fn cubic(c: &[f64; 4], order: u8, v: f64) -> f64 {
    match order {
        0 => ((c[3] * v + c[2]) * v + c[1]) * v + c[0],
        1 => (3.0 * c[3] * v + 2.0 * c[2]) * v + c[1],
        2 => 6.0 * c[3] * v + 2.0 * c[2],
        3 => 6.0 * c[3],
        _ => 0.0,
    }
}

/// The slopes of a smooth curve at its points; `x` increases and has at least three entries.
fn slopes(x: &[f64], y: &[f64], smoothness: Smoothness) -> Vec<f64> {
    let n = x.len();
    let d: Vec<f64> = (0..n - 1).map(|k| (y[k + 1] - y[k]) / (x[k + 1] - x[k])).collect();
    match smoothness {
        Smoothness::FritschButland | Smoothness::Steffen => (0..n)
            .map(|k| {
                if k == 0 || k == n - 1 {
                    return if k == 0 { d[0] } else { d[n - 2] };
                }
                monotone_slope(x[k] - x[k - 1], x[k + 1] - x[k], d[k - 1], d[k], smoothness)
            })
            .collect(),
        _ => {
            // Two more differences on either side, by straight lines.
            let mut all = vec![3.0 * d[0] - 2.0 * d[1], 2.0 * d[0] - d[1]];
            all.extend_from_slice(&d);
            all.extend([2.0 * d[n - 2] - d[n - 3], 3.0 * d[n - 2] - 2.0 * d[n - 3]]);
            (0..n)
                .map(|k| {
                    let [a, b, c, e] = [all[k], all[k + 1], all[k + 2], all[k + 3]];
                    let is_modified = smoothness == Smoothness::ModifiedAkima;
                    let extra = |p: f64, q: f64| if is_modified { 0.5 * (p + q).abs() } else { 0.0 };
                    let (left, right) = ((e - c).abs() + extra(e, c), (b - a).abs() + extra(b, a));
                    if left + right > 0.0 {
                        (left * b + right * c) / (left + right)
                    } else if is_modified {
                        0.0
                    } else {
                        0.5 * (b + c)
                    }
                })
                .collect()
        }
    }
}

/// A slope between two intervals that keeps monotone data monotone; zero at extrema.
fn monotone_slope(h0: f64, h1: f64, d0: f64, d1: f64, smoothness: Smoothness) -> f64 {
    if d0 * d1 <= 0.0 {
        return 0.0;
    }
    if smoothness == Smoothness::FritschButland {
        return 3.0 * (h0 + h1) / ((h0 + 2.0 * h1) / d0 + (h1 + 2.0 * h0) / d1);
    }
    let mean = (d0 * h1 + d1 * h0) / (h0 + h1);
    let least = d0.abs().min(d1.abs());
    if 0.5 * mean.abs() > least { 2.0 * d0.signum() * least } else { mean }
}

/// A function of one variable through given points.
#[derive(Clone, PartialEq, Debug)]
pub struct TableCurve {
    axis: Axis,
    /// Coefficients of the cubic in each interval.
    pieces: Vec<[f64; 4]>,
    smoothness: Smoothness,
    /// The only value, where there is one point.
    single: f64,
}

impl TableCurve {
    /// The curve through the points of two columns of a matrix (from 0), the first of them with the abscissae.
    ///
    /// # Errors
    /// When the matrix is too small or the abscissae do not increase. Lines and steps may jump: the same abscissa
    /// twice.
    pub fn new(
        table: &Matrix,
        column: usize,
        smoothness: Smoothness,
        extrapolation: Extrapolation,
        may_jump: bool,
    ) -> Result<Self, TableError> {
        if table.rows == 0 || table.columns < 2 {
            return Err(TableError::TooSmall { rows: table.rows, columns: table.columns });
        }
        if column >= table.columns {
            return Err(TableError::NoColumn { column: column + 1, columns: table.columns });
        }
        let (x, y) = (table.column(0), table.column(column));
        let is_smooth = !matches!(smoothness, Smoothness::Linear | Smoothness::Constant);
        let smoothness = if is_smooth && table.rows < 3 { Smoothness::Linear } else { smoothness };
        let single = y[0];
        let axis = Axis::new(x, extrapolation, may_jump && !is_smooth)?;
        let x = &axis.x;
        let s = if table.rows >= 3 && is_smooth { slopes(x, &y, smoothness) } else { Vec::new() };
        let piece = |k: usize| {
            let h = x[k + 1] - x[k];
            let d = if h > 0.0 { (y[k + 1] - y[k]) / h } else { 0.0 };
            match smoothness {
                Smoothness::Linear => [y[k], d, 0.0, 0.0],
                Smoothness::Constant => [y[k], 0.0, 0.0, 0.0],
                _ => {
                    let (c2, c3) = ((3.0 * d - 2.0 * s[k] - s[k + 1]) / h, (s[k] + s[k + 1] - 2.0 * d) / (h * h));
                    [y[k], s[k], c2, c3]
                }
            }
        };
        let mut pieces: Vec<[f64; 4]> = (0..table.rows - 1).map(piece).collect();
        // The last point itself belongs to no interval of steps.
        pieces.push([y[table.rows - 1], 0.0, 0.0, 0.0]);
        Ok(Self { axis, pieces, smoothness, single })
    }

    /// The first abscissa.
    #[must_use]
    pub fn first(&self) -> f64 {
        self.axis.first()
    }

    /// The last abscissa.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.axis.last()
    }

    /// The `order`-th derivative at a point.
    ///
    /// # Errors
    /// Outside of a table that is not to be extrapolated.
    pub fn value(&self, order: u8, u: f64) -> Result<f64, TableError> {
        if self.axis.x.len() == 1 {
            return Ok(if order == 0 { self.single } else { 0.0 });
        }
        let place = self.axis.place(u)?;
        if self.axis.is_held(u) && order > 0 {
            return Ok(0.0);
        }
        Ok(self.piece_value(order, place))
    }

    /// The value of the piece at a place, or of the line that goes on from it.
    fn piece_value(&self, order: u8, place: Place) -> f64 {
        let Place { interval, inside, beyond, is_before } = place;
        let (x, last) = (&self.axis.x, self.axis.x.len() - 1);
        if self.smoothness == Smoothness::Constant {
            // Two points at the same abscissa are a jump: before it, the first of them holds.
            let is_at_end = interval + 1 == last && !is_before && inside >= x[last] - x[interval];
            let from = if is_at_end { last } else { interval };
            if beyond == 0.0 {
                return if order == 0 { self.pieces[from][0] } else { 0.0 };
            }
            // The line through the two points at the end.
            let h = x[interval + 1] - x[interval];
            let slope = if h > 0.0 { (self.pieces[interval + 1][0] - self.pieces[interval][0]) / h } else { 0.0 };
            return line(self.pieces[from][0], slope, order, beyond);
        }
        let piece = &self.pieces[interval];
        if beyond == 0.0 {
            return cubic(piece, order, inside);
        }
        line(cubic(piece, 0, inside), cubic(piece, 1, inside), order, beyond)
    }
}

fn line(value: f64, slope: f64, order: u8, beyond: f64) -> f64 {
    match order {
        0 => value + slope * beyond,
        1 => slope,
        _ => 0.0,
    }
}

/// A function of two variables through the points of a grid.
#[derive(Clone, PartialEq, Debug)]
pub struct TableSurface {
    rows: Axis,
    columns: Axis,
    /// For every cell the coefficients of `v^i w^j`, at `4 i + j`.
    cells: Vec<[f64; 16]>,
    /// For steps: the values at the points.
    points: Vec<f64>,
    is_constant: bool,
}

impl TableSurface {
    /// The surface over a grid: the first column of the matrix has the abscissae of the first variable, the first row
    /// those of the second.
    ///
    /// # Errors
    /// When the matrix is too small, the abscissae do not increase, or the smoothness is none of surfaces.
    pub fn new(table: &Matrix, smoothness: Smoothness, extrapolation: Extrapolation) -> Result<Self, TableError> {
        if table.rows < 2 || table.columns < 2 {
            return Err(TableError::TooSmall { rows: table.rows, columns: table.columns });
        }
        if !matches!(smoothness, Smoothness::Linear | Smoothness::Constant | Smoothness::Akima) {
            return Err(TableError::NoSuchSurface);
        }
        let mut x: Vec<f64> = (1..table.rows).map(|row| table.at(row, 0)).collect();
        let mut y: Vec<f64> = (1..table.columns).map(|column| table.at(0, column)).collect();
        let mut z: Vec<Vec<f64>> =
            (1..table.rows).map(|row| (1..table.columns).map(|column| table.at(row, column)).collect()).collect();
        // A single row or column is constant in that direction.
        if x.len() == 1 {
            x.push(x[0] + 1.0);
            z.push(z[0].clone());
        }
        if y.len() == 1 {
            y.push(y[0] + 1.0);
            z.iter_mut().for_each(|row| row.push(row[0]));
        }
        let is_smooth = smoothness == Smoothness::Akima;
        let corners = Corners::new(&x, &y, &z, is_smooth);
        let cells = corners.cells();
        let extrapolate = |n: usize| if n == 2 { Extrapolation::Hold } else { extrapolation };
        let points = z.iter().flatten().copied().collect();
        Ok(Self {
            rows: Axis::new(x, if table.rows == 2 { extrapolate(table.rows) } else { extrapolation }, false)?,
            columns: Axis::new(y, if table.columns == 2 { extrapolate(table.columns) } else { extrapolation }, false)?,
            cells,
            points,
            is_constant: smoothness == Smoothness::Constant,
        })
    }

    /// The first abscissae.
    #[must_use]
    pub fn first(&self) -> [f64; 2] {
        [self.rows.first(), self.columns.first()]
    }

    /// The last abscissae.
    #[must_use]
    pub fn last(&self) -> [f64; 2] {
        [self.rows.last(), self.columns.last()]
    }

    /// The derivative of the given orders at a point.
    ///
    /// # Errors
    /// Outside of a table that is not to be extrapolated.
    pub fn value(&self, orders: [u8; 2], u: [f64; 2]) -> Result<f64, TableError> {
        let (row, column) = (self.rows.place(u[0])?, self.columns.place(u[1])?);
        let is_held = [self.rows.is_held(u[0]), self.columns.is_held(u[1])];
        if orders.iter().zip(is_held).any(|(&order, is_held)| order > 0 && is_held) {
            return Ok(0.0);
        }
        if self.is_constant && row.beyond == 0.0 && column.beyond == 0.0 {
            if orders != [0, 0] {
                return Ok(0.0);
            }
            let step = |axis: &Axis, place: Place| {
                place.interval + usize::from(place.inside >= axis.x[place.interval + 1] - axis.x[place.interval])
            };
            return Ok(self.points[step(&self.rows, row) * self.columns.x.len() + step(&self.columns, column)]);
        }
        let cell = &self.cells[row.interval * (self.columns.x.len() - 1) + column.interval];
        let mut along = [0.0; 4];
        for (i, value) in along.iter_mut().enumerate() {
            let c = [cell[4 * i], cell[4 * i + 1], cell[4 * i + 2], cell[4 * i + 3]];
            *value = continued(&c, orders[1], column);
        }
        Ok(continued(&along, orders[0], row))
    }
}

/// A cubic inside, its line outside.
fn continued(c: &[f64; 4], order: u8, place: Place) -> f64 {
    if place.beyond == 0.0 {
        return cubic(c, order, place.inside);
    }
    line(cubic(c, 0, place.inside), cubic(c, 1, place.inside), order, place.beyond)
}

/// Values, slopes and twists at the points of a grid.
struct Corners<'z> {
    x: &'z [f64],
    y: &'z [f64],
    z: &'z [Vec<f64>],
    by_x: Vec<Vec<f64>>,
    by_y: Vec<Vec<f64>>,
    twist: Vec<Vec<f64>>,
    is_smooth: bool,
}

/// Two more abscissae on either side.
fn extended_axis(x: &[f64]) -> Vec<f64> {
    let n = x.len();
    let (a, b, c) = (x[0], x[1], if n > 2 { x[2] } else { 2.0 * x[1] - x[0] });
    let (p, q, r) = (x[n - 1], x[n - 2], if n > 2 { x[n - 3] } else { 2.0 * x[n - 2] - x[n - 1] });
    let mut all = vec![2.0 * a - c, a + b - c];
    if n == 2 {
        all = vec![3.0 * a - 2.0 * b, 2.0 * a - b];
    }
    all.extend_from_slice(x);
    all.extend(if n == 2 { [2.0 * p - q, 3.0 * p - 2.0 * q] } else { [p + q - r, 2.0 * p - r] });
    all
}

/// Two more values on either side such that the divided differences go on in straight lines.
fn extended_values(x: &[f64], z: &[f64]) -> Vec<f64> {
    let n = z.len();
    let difference = |k: usize| (z[k + 1] - z[k]) / (x[k + 3] - x[k + 2]);
    if n == 2 {
        let d = difference(0);
        let at = |k: usize| z[0] + d * (x[k] - x[2]);
        return vec![at(0), at(1), z[0], z[1], at(4), at(5)];
    }
    let (d0, d1) = (difference(0), difference(1));
    let (e0, e1) = (difference(n - 2), difference(n - 3));
    let left = z[0] - (2.0 * d0 - d1) * (x[2] - x[1]);
    let far_left = left - (3.0 * d0 - 2.0 * d1) * (x[1] - x[0]);
    let right = z[n - 1] + (2.0 * e0 - e1) * (x[n + 2] - x[n + 1]);
    let far_right = right + (3.0 * e0 - 2.0 * e1) * (x[n + 3] - x[n + 2]);
    let mut all = vec![far_left, left];
    all.extend_from_slice(z);
    all.extend([right, far_right]);
    all
}

/// The weights of the differences to the left and right of a point, and the slope there.
fn akima_weights(d: [f64; 4]) -> ([f64; 2], f64) {
    if d[0] == d[1] && d[2] == d[3] {
        return ([1.0, 1.0], 0.5 * (d[1] + d[2]));
    }
    let weights = [(d[3] - d[2]).abs(), (d[1] - d[0]).abs()];
    (weights, (weights[0] * d[1] + weights[1] * d[2]) / (weights[0] + weights[1]))
}

impl<'z> Corners<'z> {
    fn new(x: &'z [f64], y: &'z [f64], z: &'z [Vec<f64>], is_smooth: bool) -> Self {
        let (n, m) = (x.len(), y.len());
        let empty = || vec![vec![0.0; m]; n];
        let mut corners = Self { x, y, z, by_x: empty(), by_y: empty(), twist: empty(), is_smooth };
        if is_smooth {
            corners.differentiate();
        }
        corners
    }

    /// Slopes and twists by Akima's weights [@akima1974].
    fn differentiate(&mut self) {
        let (x, y) = (extended_axis(self.x), extended_axis(self.y));
        let wide: Vec<Vec<f64>> = self.z.iter().map(|row| extended_values(&y, row)).collect();
        let mut all = vec![vec![0.0; y.len()]; x.len()];
        for column in 0..y.len() {
            let values: Vec<f64> = wide.iter().map(|row| row[column]).collect();
            for (row, value) in extended_values(&x, &values).into_iter().enumerate() {
                all[row][column] = value;
            }
        }
        let dx = |i: usize, j: usize| (all[i + 1][j] - all[i][j]) / (x[i + 1] - x[i]);
        let dy = |i: usize, j: usize| (all[i][j + 1] - all[i][j]) / (y[j + 1] - y[j]);
        let dxy = |i: usize, j: usize| (dy(i + 1, j) - dy(i, j)) / (x[i + 1] - x[i]);
        for row in 0..self.x.len() {
            for column in 0..self.y.len() {
                let (i, j) = (row + 2, column + 2);
                let (wx, slope_x) = akima_weights([dx(i - 2, j), dx(i - 1, j), dx(i, j), dx(i + 1, j)]);
                let (wy, slope_y) = akima_weights([dy(i, j - 2), dy(i, j - 1), dy(i, j), dy(i, j + 1)]);
                self.by_x[row][column] = slope_x;
                self.by_y[row][column] = slope_y;
                let left = wx[0] * (wy[0] * dxy(i - 1, j - 1) + wy[1] * dxy(i - 1, j));
                let right = wx[1] * (wy[0] * dxy(i, j - 1) + wy[1] * dxy(i, j));
                self.twist[row][column] = (left + right) / ((wx[0] + wx[1]) * (wy[0] + wy[1]));
            }
        }
    }

    fn cells(&self) -> Vec<[f64; 16]> {
        let mut cells = Vec::with_capacity((self.x.len() - 1) * (self.y.len() - 1));
        for i in 0..self.x.len() - 1 {
            for j in 0..self.y.len() - 1 {
                cells.push(if self.is_smooth { self.bicubic(i, j) } else { self.bilinear(i, j) });
            }
        }
        cells
    }

    fn bilinear(&self, i: usize, j: usize) -> [f64; 16] {
        let (h, k) = (self.x[i + 1] - self.x[i], self.y[j + 1] - self.y[j]);
        let z = |a: usize, b: usize| self.z[i + a][j + b];
        let mut cell = [0.0; 16];
        cell[0] = z(0, 0);
        cell[1] = (z(0, 1) - z(0, 0)) / k;
        cell[4] = (z(1, 0) - z(0, 0)) / h;
        cell[5] = (z(1, 1) - z(1, 0) - z(0, 1) + z(0, 0)) / (h * k);
        cell
    }

    /// The tensor product of two cubic Hermite interpolations: `A F B^T`, where the rows of `F` hold values and slopes
    /// at the two ends and `A` turns values and slopes into coefficients.
    fn bicubic(&self, i: usize, j: usize) -> [f64; 16] {
        let (h, k) = (self.x[i + 1] - self.x[i], self.y[j + 1] - self.y[j]);
        let f = |a: usize, b: usize| {
            let (row, column) = (i + a % 2, j + b % 2);
            match (a / 2, b / 2) {
                (0, 0) => self.z[row][column],
                (1, 0) => self.by_x[row][column],
                (0, _) => self.by_y[row][column],
                _ => self.twist[row][column],
            }
        };
        let (left, right) = (hermite(h), hermite(k));
        let mut cell = [0.0; 16];
        for (p, row) in left.iter().enumerate() {
            for (q, column) in right.iter().enumerate() {
                let mut sum = 0.0;
                for (a, &alpha) in row.iter().enumerate() {
                    for (b, &beta) in column.iter().enumerate() {
                        sum += alpha * beta * f(a, b);
                    }
                }
                cell[4 * p + q] = sum;
            }
        }
        cell
    }
}

/// Coefficients of a cubic on an interval of length `h` from the values at its ends and the slopes there.
fn hermite(h: f64) -> [[f64; 4]; 4] {
    let (h2, h3) = (h * h, h * h * h);
    [
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [-3.0 / h2, 3.0 / h2, -2.0 / h, -1.0 / h],
        [2.0 / h3, -2.0 / h3, 1.0 / h2, 1.0 / h2],
    ]
}

/// When a table over time makes events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TimeEvents {
    /// At every point.
    Always,
    /// At jumps, and at the ends.
    AtJumps,
    /// At the ends only.
    AtEnds,
}

/// How a table over time is read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TimeTableOptions {
    /// Before this time all values are zero.
    pub start: f64,
    /// Where the table's time zero is.
    pub shift: f64,
    /// Between the points.
    pub smoothness: Smoothness,
    /// Outside of them.
    pub extrapolation: Extrapolation,
    /// Events.
    pub events: TimeEvents,
}

/// Columns over time, which may jump, with the times of their events.
///
/// The value at time `t` is that of the stretch between two events in which `t` lies. Which stretch that is, the time
/// of the *next* event says, a discrete variable of the model: at an event the value just before it is still that of
/// the old stretch, whatever rounding does to `t`, and the value after it that of the new one.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeTable {
    curves: Vec<Arc<TableCurve>>,
    options: TimeTableOptions,
    /// Abscissae of the events, increasing, both ends included.
    events: Vec<f64>,
}

/// A time at which no event happens any more.
const NEVER: f64 = f64::MAX;

impl TimeTable {
    /// The given columns (from 0) of a matrix over its first column.
    ///
    /// # Errors
    /// As [`TableCurve::new`].
    pub fn new(table: &Matrix, columns: &[usize], options: TimeTableOptions) -> Result<Self, TableError> {
        let mut curves = Vec::with_capacity(columns.len());
        for &column in columns {
            let inside = if options.extrapolation == Extrapolation::Refuse {
                Extrapolation::Refuse
            } else {
                Extrapolation::Line
            };
            curves.push(Arc::new(TableCurve::new(table, column, options.smoothness, inside, true)?));
        }
        let x = table.column(0);
        let is_smooth = !matches!(options.smoothness, Smoothness::Linear | Smoothness::Constant);
        let only_ends = is_smooth && options.extrapolation != Extrapolation::Periodic;
        let mut events: Vec<f64> = match options.events {
            TimeEvents::Always if !only_ends => x.clone(),
            TimeEvents::AtJumps if !only_ends => {
                let jumps = x.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
                [x[0]].into_iter().chain(jumps).chain([x[x.len() - 1]]).collect()
            }
            _ => vec![x[0], x[x.len() - 1]],
        };
        events.dedup();
        Ok(Self { curves, options, events })
    }

    /// Number of columns.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        self.curves.len()
    }

    /// The first time.
    #[must_use]
    pub fn first(&self) -> f64 {
        self.events[0]
    }

    /// The last time.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.events[self.events.len() - 1]
    }

    fn period(&self) -> Option<f64> {
        let period = self.last() - self.first();
        (self.options.extrapolation == Extrapolation::Periodic && period > 0.0).then_some(period)
    }

    /// The time of the first event after `t`.
    #[must_use]
    pub fn next_event(&self, t: f64) -> f64 {
        let TimeTableOptions { start, shift, .. } = self.options;
        if t < start {
            return start;
        }
        // One row is constant; two rows at the same time are a jump.
        if self.curves.iter().all(|curve| curve.axis.x.len() < 2) {
            return NEVER;
        }
        // Rounding may have put the time just before the event that it is at.
        let slack = 8.0 * f64::EPSILON * (t.abs() + self.last().abs() + shift.abs());
        let local = t - shift + slack;
        match self.period() {
            None => {
                let passed = self.events.partition_point(|&event| event <= local);
                self.events.get(passed).map_or(NEVER, |event| event + shift)
            }
            Some(period) => {
                let turns = ((local - self.first()) / period).floor();
                let offset = turns * period;
                let later = &self.events[1..];
                let found = later.get(later.partition_point(|&event| event + offset <= local));
                found.map_or(later[0] + offset + period, |event| event + offset) + shift
            }
        }
    }

    /// The `order`-th derivative of a column at time `t` in the stretch that ends with the event at `next`.
    ///
    /// # Errors
    /// Outside of a table that is not to be extrapolated.
    pub fn value(&self, column: usize, order: u8, t: f64, next: f64) -> Result<f64, TableError> {
        let TimeTableOptions { start, shift, extrapolation, .. } = self.options;
        if t < start || next <= start {
            return Ok(0.0);
        }
        let curve = &self.curves[column];
        if curve.axis.x.len() < 2 {
            return curve.value(order, t - shift);
        }
        let (first, last) = (self.first(), self.last());
        let (local, end) = match self.period() {
            None => (t - shift, next - shift),
            Some(period) => {
                // The stretch is in the turn in which its end lies.
                let slack = 8.0 * f64::EPSILON * (next.abs() + last.abs() + shift.abs());
                let turns = ((next - shift - slack - first) / period).floor();
                (t - shift - turns * period, next - shift - turns * period)
            }
        };
        let tolerance = 16.0 * f64::EPSILON * (t.abs() + shift.abs() + last.abs());
        let ends_at = self.events.iter().position(|&event| (event - end).abs() <= tolerance || event > end);
        match ends_at {
            // Before the table, or after it.
            Some(0) | None if extrapolation == Extrapolation::Hold => {
                // Where the table begins with a jump, its first row counts before it.
                match (order, ends_at) {
                    (0, Some(_)) => Ok(curve.pieces[0][0]),
                    (0, None) => curve.value(0, last),
                    _ => Ok(0.0),
                }
            }
            Some(0) => curve.value(order, local.min(first)),
            None => curve.value(order, local.max(last)),
            Some(at) => {
                let u = local.clamp(self.events[at - 1], self.events[at]);
                Ok(self.left_value(curve, order, u, self.events[at]))
            }
        }
    }

    /// The value in the stretch that ends at `end`: pieces from there on do not count.
    fn left_value(&self, curve: &TableCurve, order: u8, u: f64, end: f64) -> f64 {
        let x = &curve.axis.x;
        let before = x.partition_point(|&x| x < end);
        let interval = curve.axis.interval(u).min(before.saturating_sub(1));
        let place = Place { interval, inside: u - x[interval], beyond: 0.0, is_before: false };
        match curve.smoothness {
            Smoothness::Constant if order == 0 => curve.pieces[interval][0],
            Smoothness::Constant => 0.0,
            _ => curve.piece_value(order, place),
        }
    }
}

store_enum!(Smoothness {
    0 => Linear, 1 => Constant, 2 => Akima, 3 => ModifiedAkima, 4 => FritschButland, 5 => Steffen,
});
store_enum!(Extrapolation { 0 => Hold, 1 => Line, 2 => Periodic, 3 => Refuse });
store_enum!(TimeEvents { 0 => Always, 1 => AtJumps, 2 => AtEnds });
store_struct!(Axis { x, extrapolation });
store_struct!(TableCurve { axis, pieces, smoothness, single });
store_struct!(TableSurface { rows, columns, cells, points, is_constant });
store_struct!(TimeTableOptions { start, shift, smoothness, extrapolation, events });
store_struct!(TimeTable { curves, options, events });

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[&[f64]]) -> Matrix {
        Matrix { rows: rows.len(), columns: rows[0].len(), entries: rows.concat() }
    }

    fn curve(rows: &[&[f64]], smoothness: Smoothness, extrapolation: Extrapolation) -> TableCurve {
        TableCurve::new(&matrix(rows), 1, smoothness, extrapolation, false).unwrap()
    }

    #[test]
    fn lines_and_steps() {
        let rows: &[&[f64]] = &[&[0.0, 1.0], &[2.0, 5.0], &[3.0, 4.0]];
        let lines = curve(rows, Smoothness::Linear, Extrapolation::Line);
        for (u, value, slope) in [(1.0, 3.0, 2.0), (2.5, 4.5, -1.0), (-1.0, -1.0, 2.0), (5.0, 2.0, -1.0)] {
            assert_eq!((lines.value(0, u).unwrap(), lines.value(1, u).unwrap()), (value, slope), "{u}");
        }
        let steps = curve(rows, Smoothness::Constant, Extrapolation::Hold);
        let values: Vec<f64> = [0.0, 1.9, 2.0, 2.9, 3.0, 9.0, -9.0].map(|u| steps.value(0, u).unwrap()).to_vec();
        assert_eq!(values, [1.0, 1.0, 5.0, 5.0, 4.0, 4.0, 1.0]);
        let ring = curve(rows, Smoothness::Linear, Extrapolation::Periodic);
        assert_eq!(ring.value(0, 4.0).unwrap(), 3.0);
        assert_eq!(ring.value(0, -0.5).unwrap(), 4.5);
        let strict = curve(rows, Smoothness::Linear, Extrapolation::Refuse);
        assert_eq!(strict.value(0, 3.5), Err(TableError::Outside { value: 3.5, limit: 3.0 }));
    }

    #[test]
    fn a_parabola_is_met_by_akima_and_its_slope_at_an_inner_point_is_right() {
        // For equidistant points of a parabola all second differences are equal, so Akima's slope is the mean of the
        // two neighbouring differences, which is the derivative of the parabola.
        let rows: Vec<[f64; 2]> = (0..6).map(|k| [f64::from(k), f64::from(k * k)]).collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
        let smooth = curve(&rows, Smoothness::Akima, Extrapolation::Line);
        for u in [0.0, 0.5, 2.25, 4.9] {
            assert!((smooth.value(0, u).unwrap() - u * u).abs() < 1e-13);
            assert!((smooth.value(1, u).unwrap() - 2.0 * u).abs() < 1e-13);
        }
        assert!((smooth.value(0, 6.0).unwrap() - 35.0).abs() < 1e-12, "25 + 10 * 1");
    }

    #[test]
    fn monotone_data_stay_monotone() {
        let rows: &[&[f64]] = &[&[0.0, 0.0], &[1.0, 0.1], &[1.5, 3.0], &[4.0, 3.1], &[5.0, 3.1]];
        for smoothness in [Smoothness::FritschButland, Smoothness::Steffen] {
            let smooth = curve(rows, smoothness, Extrapolation::Hold);
            for at in 0..500 {
                assert!(smooth.value(1, f64::from(at) * 0.01).unwrap() >= -1e-12, "{smoothness:?}");
            }
        }
        // Fritsch and Butland between differences 1 and 2 with steps 1 and 1: the harmonic mean 4/3.
        let hand = curve(&[&[0.0, 0.0], &[1.0, 1.0], &[2.0, 3.0]], Smoothness::FritschButland, Extrapolation::Hold);
        assert!((hand.value(1, 1.0).unwrap() - 4.0 / 3.0).abs() < 1e-14);
        let hand = curve(&[&[0.0, 0.0], &[1.0, 1.0], &[2.0, 9.0]], Smoothness::Steffen, Extrapolation::Hold);
        assert!((hand.value(1, 1.0).unwrap() - 2.0).abs() < 1e-14, "at most twice the smaller difference");
    }

    #[test]
    fn surfaces_meet_products_and_their_derivatives() {
        let grid = |f: &dyn Fn(f64, f64) -> f64| {
            let mut entries = vec![0.0];
            entries.extend((0..5).map(f64::from));
            for i in 0..6 {
                entries.push(f64::from(i));
                entries.extend((0..5).map(|j| f(f64::from(i), f64::from(j))));
            }
            Matrix { rows: 7, columns: 6, entries }
        };
        let bilinear = TableSurface::new(&grid(&|x, y| x * y), Smoothness::Linear, Extrapolation::Line).unwrap();
        for u in [[0.5, 1.5], [4.0, 3.0], [7.0, -1.0]] {
            assert!((bilinear.value([0, 0], u).unwrap() - u[0] * u[1]).abs() < 1e-13);
            assert!((bilinear.value([1, 1], u).unwrap() - 1.0).abs() < 1e-13);
        }
        let smooth = TableSurface::new(&grid(&|x, y| x * x + y * y), Smoothness::Akima, Extrapolation::Hold).unwrap();
        for u in [[0.5, 1.5], [4.2, 3.7]] {
            assert!((smooth.value([0, 0], u).unwrap() - (u[0] * u[0] + u[1] * u[1])).abs() < 1e-12);
            assert!((smooth.value([1, 0], u).unwrap() - 2.0 * u[0]).abs() < 1e-12);
        }
        assert!((smooth.value([0, 0], [9.0, 2.0]).unwrap() - 29.0).abs() < 1e-12);
        assert_eq!(smooth.value([1, 0], [9.0, 2.0]).unwrap(), 0.0);
    }

    #[test]
    fn before_a_table_that_begins_with_a_jump_its_first_row_holds() {
        let options = TimeTableOptions {
            start: f64::MIN,
            shift: 0.0,
            smoothness: Smoothness::Constant,
            extrapolation: Extrapolation::Hold,
            events: TimeEvents::Always,
        };
        let rows: &[&[f64]] = &[&[2.0, 0.0], &[2.0, 1.0], &[4.0, 0.0]];
        let table = TimeTable::new(&matrix(rows), &[1], options).unwrap();
        assert_eq!(table.value(0, 0, 0.5, 2.0).unwrap(), 0.0);
        assert_eq!(table.value(0, 0, 2.5, 4.0).unwrap(), 1.0);
        assert_eq!(table.value(0, 0, 5.0, NEVER).unwrap(), 0.0);
        // A table that is nothing but a jump.
        for extrapolation in [Extrapolation::Hold, Extrapolation::Line, Extrapolation::Periodic] {
            let table =
                TimeTable::new(&matrix(&rows[..2]), &[1], TimeTableOptions { extrapolation, ..options }).unwrap();
            assert_eq!([0.0, 2.0].map(|t| table.next_event(t)), [2.0, NEVER], "{extrapolation:?}");
            assert_eq!(table.value(0, 0, 0.5, 2.0).unwrap(), 0.0, "{extrapolation:?}");
            assert_eq!(table.value(0, 0, 2.0, NEVER).unwrap(), 1.0, "{extrapolation:?}");
            assert_eq!(table.value(0, 0, 5.0, NEVER).unwrap(), 1.0, "{extrapolation:?}");
        }
    }

    #[test]
    fn a_table_over_time_jumps_at_its_events_and_not_before() {
        let rows: &[&[f64]] = &[&[0.0, 0.0], &[1.0, 2.0], &[1.0, 5.0], &[3.0, 5.0]];
        let options = TimeTableOptions {
            start: 0.0,
            shift: 0.0,
            smoothness: Smoothness::Linear,
            extrapolation: Extrapolation::Periodic,
            events: TimeEvents::Always,
        };
        let table = TimeTable::new(&matrix(rows), &[1], options).unwrap();
        assert_eq!([0.0, 0.5, 1.0, 2.0, 3.0, 4.0].map(|t| table.next_event(t)), [1.0, 1.0, 3.0, 3.0, 4.0, 6.0]);
        assert_eq!(table.value(0, 0, 1.0, 1.0).unwrap(), 2.0, "before the event");
        assert_eq!(table.value(0, 0, 1.0, 3.0).unwrap(), 5.0, "after it");
        assert_eq!(table.value(0, 0, 3.5, 4.0).unwrap(), 1.0, "the second turn");
        assert_eq!(table.value(0, 1, 3.5, 4.0).unwrap(), 2.0);
        let late = TimeTableOptions { start: 2.0, shift: 2.0, extrapolation: Extrapolation::Hold, ..options };
        let late = TimeTable::new(&matrix(rows), &[1], late).unwrap();
        assert_eq!([0.0, 2.0, 3.0, 5.0].map(|t| late.next_event(t)), [2.0, 3.0, 5.0, NEVER]);
        assert_eq!(late.value(0, 0, 1.0, 2.0).unwrap(), 0.0, "nothing before the start");
        assert_eq!(late.value(0, 0, 2.5, 3.0).unwrap(), 1.0);
        assert_eq!(late.value(0, 0, 8.0, NEVER).unwrap(), 5.0);
    }
}
