//! When an event happens within a step.
//!
//! Event functions are looked at on the polynomial that the step leaves behind: at its end, at points within that are
//! no farther apart than a small part of the time span, and where a cubic through values and slopes at both ends or a
//! parabola through three points has an extremum, so that two crossings within one step are seen. The first crossing is
//! then closed in by the secant rule with bisection as its guard (the Illinois rule [@dowell1971]) on points that
//! satisfy all equations, until two neighbouring times are left; the event happens at the later one, where the function
//! is beyond zero for certain.

use daesy_system::{AssertionLabel, Part};

use crate::error::IntegrateError;
use crate::event_iteration::EventLoop;
use crate::stepper::{Place, Stepper};

/// Parts of a step at whose ends event functions are looked at, at least. Where no state moves, steps are short whatever
/// the unknowns do, and their ends will do.
const LEAST_PARTS: f64 = 4.0;

/// Parts of the time span that no part of a step is longer than.
const PARTS_OF_SPAN: f64 = 400.0;

/// Distance of the points that give the slopes at both ends.
const SLOPE: f64 = 1e-3;

/// Steps over which the time of a crossing is made precise.
const MAX_RETAKES: usize = 3;

/// An extremum is far from zero at this fraction of the values around it.
const FAR: f64 = 0.3;

/// Steps of the location.
const MAX_STEPS: usize = 120;

/// Halvings of the time in which an assertion that only warns ceased to hold.
const MAX_HALVINGS: usize = 30;

/// A crossing.
pub(crate) struct Crossing {
    /// The first point beyond it.
    pub(crate) place: Place,
    /// Event functions that changed sides.
    pub(crate) roots: Vec<usize>,
    /// An assertion that does not hold there.
    pub(crate) broken: Option<usize>,
}

/// A point within a step, and whether it satisfies all equations.
struct Seen {
    place: Place,
    is_solved: bool,
}

/// Values of all event functions at a point, then 1 or -1 for each assertion.
struct Watched {
    values: Vec<f64>,
}

impl Watched {
    /// Assertions are judged where the equations are satisfied only.
    fn at(events: &EventLoop<'_>, stepper: &mut Stepper<'_, '_>, Seen { place, is_solved }: &Seen) -> Self {
        let mut values = stepper.evaluate_at(Part::Roots, place);
        let assertions = &events.events.assertions;
        if *is_solved && !assertions.is_empty() {
            let truths = stepper.evaluate_at(Part::Assertions, place);
            let truths = truths.iter().zip(assertions);
            let broken = |(truth, assertion): (&f64, &AssertionLabel)| *truth == 0.0 && !assertion.is_warning;
            values.extend(truths.map(|both| if broken(both) { -1.0 } else { 1.0 }));
        } else {
            values.resize(values.len() + assertions.len(), 1.0);
        }
        Self { values }
    }

    fn is_crossed(&self, events: &EventLoop<'_>, at: usize) -> bool {
        match events.events.roots.get(at) {
            // An event function without a value says nothing.
            Some(root) => {
                let value = self.values[at];
                !value.is_nan() && root.is_above(value) != events.sides[at] && value.abs() >= events.bands[at]
            }
            None => self.values[at] < 0.0,
        }
    }

    fn crossed(&self, events: &EventLoop<'_>) -> Vec<usize> {
        (0..self.values.len()).filter(|&at| self.is_crossed(events, at)).collect()
    }

    fn is_any_crossed(&self, events: &EventLoop<'_>) -> bool {
        (0..self.values.len()).any(|at| self.is_crossed(events, at))
    }
}

/// Event functions that are on another side at a place than since the last event.
pub(crate) fn crossed_roots(events: &EventLoop<'_>, stepper: &mut Stepper<'_, '_>, place: &Place) -> Vec<usize> {
    let seen = Seen { place: place.clone(), is_solved: false };
    Watched::at(events, stepper, &seen).crossed(events)
}

/// The first crossing within the last step. The step is taken again up to a little beyond it, so that the crossing is
/// near its end, where values between step ends are most accurate.
pub(crate) fn locate(
    events: &mut EventLoop<'_>,
    stepper: &mut Stepper<'_, '_>,
) -> Result<Option<Crossing>, IntegrateError> {
    let mut found = find_crossing(events, stepper);
    while let Some(crossing) = &found
        && dull_resting(events, stepper, crossing)
    {
        found = find_crossing(events, stepper);
    }
    if found.is_none() && events.contradict(stepper) {
        found = find_crossing(events, stepper);
    }
    for _ in 0..MAX_RETAKES {
        let Some(crossing) = &found else { break };
        let (start, time, end) = (stepper.step_start(), crossing.place.time, stepper.now.time);
        let short = (time - start) * 1.002;
        if short >= end - start || short <= 1e3 * stepper.resolution() {
            break;
        }
        stepper.retake(start + short)?;
        found = find_crossing(events, stepper);
        if found.is_none() {
            // It lies a little farther, or the states do not change by as much as their rounding up to there: a
            // relation at its border would be left in steps that lead nowhere.
            for end in [start + short * 1.1, end] {
                stepper.retake(end)?;
                found = find_crossing(events, stepper);
                if found.is_some() {
                    break;
                }
            }
            break;
        }
    }
    match found {
        Some(crossing) if crossing.broken.is_some() && crossing.roots.is_empty() => confirm(events, stepper, crossing),
        found => Ok(found),
    }
}

/// An assertion is broken only if it is so at the end of a step that was accepted: values within one may be on another
/// solution of the equations, or off by as much as the margin of the assertion. If it holds there, the run goes on from
/// there.
fn confirm(
    events: &EventLoop<'_>,
    stepper: &mut Stepper<'_, '_>,
    crossing: Crossing,
) -> Result<Option<Crossing>, IntegrateError> {
    if crossing.place.time < stepper.now.time {
        stepper.retake(crossing.place.time)?;
    }
    let place = stepper.place_here();
    let n_roots = events.events.roots.len();
    let crossed = Watched::at(events, stepper, &Seen { place: place.clone(), is_solved: true }).crossed(events);
    let broken = crossed.iter().find(|&&at| at >= n_roots).map(|at| at - n_roots);
    let roots: Vec<usize> = crossed.into_iter().filter(|&at| at < n_roots).collect();
    Ok((broken.is_some() || !roots.is_empty()).then_some(Crossing { place, roots, broken }))
}

/// Dulls event functions that were at rest at zero throughout the last step: to within the rounding of the states, as
/// where a mass rests at its stop, for that says nothing of their side; or to within the error of the states, where
/// their side makes no difference. States that are zero, exactly, have no rounding and no band. True where one was
/// dulled.
fn dull_resting(events: &mut EventLoop<'_>, stepper: &mut Stepper<'_, '_>, crossing: &Crossing) -> bool {
    let (start, end) = (stepper.step_start(), stepper.now.time);
    let mut largest = vec![0.0f64; events.sides.len()];
    for time in [start, 0.5 * (start + end), end] {
        let place = stepper.roughly(time);
        let values = stepper.evaluate_at(Part::Roots, &place);
        largest.iter_mut().zip(&values).for_each(|(largest, value)| *largest = largest.max(value.abs()));
    }
    let (noise, rounding) = (events.noise(stepper), events.rounding(stepper));
    let mut is_any_dulled = false;
    for &root in &crossing.roots {
        if events.bands[root] > 0.0 {
            continue;
        }
        if largest[root] <= rounding[root] && rounding[root] > 0.0 {
            events.bands[root] = rounding[root];
            events.is_resting[root] = true;
            is_any_dulled = true;
        } else if largest[root] <= noise[root] && !events.makes_difference(root, stepper) {
            events.bands[root] = noise[root];
            is_any_dulled = true;
        }
    }
    is_any_dulled
}

/// The first crossing within the last step, if there is one.
fn find_crossing(events: &EventLoop<'_>, stepper: &mut Stepper<'_, '_>) -> Option<Crossing> {
    let (start, end) = (stepper.step_start(), stepper.now.time);
    let step = end - start;
    let beyond = look(events, stepper, start, step)?;
    let mut late = at_or_near(stepper, (start + beyond * step).min(end));
    let mut late_values = Watched::at(events, stepper, &late);
    if !late_values.is_any_crossed(events) {
        late = at_or_near(stepper, end);
        late_values = Watched::at(events, stepper, &late);
        if !late_values.is_any_crossed(events) {
            return None;
        }
    }
    let (mut early, mut early_values) = (start, None::<Watched>);
    let mut weight = 1.0;
    for count in 0..MAX_STEPS {
        let gap = late.place.time - early;
        if gap <= stepper.resolution() {
            break;
        }
        let middle = match &early_values {
            // Every third step halves the gap, whatever the functions look like.
            Some(values) if count % 3 != 2 => {
                let fraction = late_values
                    .crossed(events)
                    .into_iter()
                    .map(|at| {
                        let (before, after) = (values.values[at].abs(), late_values.values[at].abs() * weight);
                        before / (before + after)
                    })
                    .fold(1.0, f64::min);
                let fraction = if fraction.is_finite() { fraction } else { 0.5 };
                early + fraction.clamp(1e-3, 1.0 - 1e-3) * gap
            }
            _ => early + 0.5 * gap,
        };
        if middle <= early || middle >= late.place.time {
            break;
        }
        let seen = at_or_near(stepper, middle);
        let values = Watched::at(events, stepper, &seen);
        if values.is_any_crossed(events) {
            late = seen;
            late_values = values;
            weight = 1.0;
        } else {
            early = middle;
            early_values = Some(values);
            weight = (weight * 0.5).max(1e-3);
        }
    }
    let n_roots = events.events.roots.len();
    let crossed = late_values.crossed(events);
    let broken = crossed.iter().find(|&&at| at >= n_roots).map(|at| at - n_roots);
    let roots = crossed.into_iter().filter(|&at| at < n_roots).collect();
    Some(Crossing { place: late.place, roots, broken })
}

/// Values at a time within the last step. Where equations are defined on one side of a crossing only, those that are
/// interpolated have to do; the event solves the equations of the other side.
fn at_or_near(stepper: &mut Stepper<'_, '_>, time: f64) -> Seen {
    match stepper.between(time) {
        Ok(place) => Seen { place, is_solved: true },
        Err(_) => Seen { place: stepper.roughly(time), is_solved: false },
    }
}

/// When each of some assertions first does not hold within the last step, as far as points that are a small part of the
/// span apart show it.
pub(crate) fn broken_within(stepper: &mut Stepper<'_, '_>, assertions: &[usize]) -> Vec<(usize, f64)> {
    let (start, end, span) = (stepper.step_start(), stepper.now.time, stepper.span());
    let n_assertions = stepper.model.equations.system.description().events.assertions.len();
    let least = if stepper.is_at_rest() { 1.0 } else { LEAST_PARTS };
    let n_parts = (PARTS_OF_SPAN * (end - start) / span).ceil().max(least) as usize;
    let mut truths = |time: f64| match stepper.between(time) {
        Ok(place) => stepper.evaluate_at(Part::Assertions, &place),
        Err(_) => vec![1.0; n_assertions],
    };
    let mut open = assertions.to_vec();
    let mut found = Vec::new();
    let mut before = start;
    for part in 1..=n_parts {
        let time = if part == n_parts { end } else { start + (end - start) * part as f64 / n_parts as f64 };
        let here = truths(time);
        let broken: Vec<usize> = open.iter().copied().filter(|&at| here[at] == 0.0).collect();
        open.retain(|at| !broken.contains(at));
        for at in broken {
            let (mut early, mut late) = (before, time);
            for _ in 0..MAX_HALVINGS {
                let middle = 0.5 * (early + late);
                if truths(middle)[at] == 0.0 { late = middle } else { early = middle }
            }
            found.push((at, late));
        }
        if open.is_empty() {
            break;
        }
        before = time;
    }
    found
}

/// A fraction of the step by which something has crossed.
fn look(events: &EventLoop<'_>, stepper: &mut Stepper<'_, '_>, start: f64, step: f64) -> Option<f64> {
    let needs_unknowns = events.events.roots_need_unknowns;
    let (span, is_at_rest) = (stepper.span(), stepper.is_at_rest());
    let mut at = |fraction: f64| {
        let time = start + fraction * step;
        // Where no solution is found, the interpolated values are better than none.
        let solved = if fraction == 0.0 {
            Some(stepper.place_at_start())
        } else if fraction == 1.0 {
            Some(stepper.place_here())
        } else if needs_unknowns {
            stepper.between(time).ok()
        } else {
            None
        };
        let is_solved = solved.is_some() || !needs_unknowns;
        let place = solved.unwrap_or_else(|| stepper.roughly(time));
        Watched::at(events, stepper, &Seen { place, is_solved })
    };
    let n_parts = (PARTS_OF_SPAN * step / span).ceil().max(if is_at_rest { 1.0 } else { LEAST_PARTS });
    let mut seen = vec![at(0.0)];
    for part in 1..n_parts as usize {
        let fraction = part as f64 / n_parts;
        let values = at(fraction);
        if values.is_any_crossed(events) {
            // Something else may have crossed and come back before.
            return hidden_extremum(events, &mut at, &seen, n_parts).or(Some(fraction));
        }
        seen.push(values);
    }
    let last = at(1.0);
    if is_at_rest {
        let crossed = last.is_any_crossed(events).then_some(1.0);
        seen.push(last);
        return hidden_extremum(events, &mut at, &seen, n_parts).or(crossed);
    }
    let (second, last_but_one) = (at(SLOPE), at(1.0 - SLOPE));
    let mut crossed = last.is_any_crossed(events).then_some(1.0);
    let first = &seen[0];
    for root in 0..events.events.roots.len() {
        if last.is_crossed(events, root) {
            continue;
        }
        let (from, to) = (first.values[root], last.values[root]);
        let slope_from = (second.values[root] - from) / SLOPE;
        let slope_to = (to - last_but_one.values[root]) / SLOPE;
        for Extremum { fraction: extremum, value } in extrema(from, slope_from, to, slope_to) {
            // A cubic that stays far from zero is believed.
            if value * to > 0.0 && value.abs() > FAR * from.abs().min(to.abs()) {
                continue;
            }
            if at(extremum).is_crossed(events, root) && crossed.is_none_or(|known| extremum < known) {
                crossed = Some(extremum);
            }
        }
    }
    if crossed.is_none_or(|known| known == 1.0) {
        seen.push(last);
        crossed = hidden_extremum(events, &mut at, &seen, n_parts).or(crossed);
    }
    crossed
}

/// A fraction of the step between points seen where a parabola through three of them touches zero, if the function has
/// crossed there.
fn hidden_extremum(
    events: &EventLoop<'_>,
    at: &mut impl FnMut(f64) -> Watched,
    seen: &[Watched],
    n_parts: f64,
) -> Option<f64> {
    for (part, three) in seen.windows(3).enumerate() {
        for root in 0..events.events.roots.len() {
            let [before, here, after] = [0, 1, 2].map(|which| three[which].values[root]);
            let Some(Extremum { fraction: off, value: least }) = turn(before, here, after) else { continue };
            // A parabola that stays far from zero is believed.
            if least * here > 0.0 && least.abs() > FAR * here.abs() {
                continue;
            }
            let fraction = (part as f64 + 1.0 + off) / n_parts;
            if at(fraction).is_crossed(events, root) {
                return Some(fraction);
            }
        }
    }
    None
}

/// Where a function has an extremum, and its value there.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Extremum {
    fraction: f64,
    value: f64,
}

/// The extremum towards zero of the parabola through values at -1, 0 and 1, if it is there and the middle one is next to
/// it. Values of both signs that lie almost on a line have an extremum far away, which says nothing.
fn turn(before: f64, here: f64, after: f64) -> Option<Extremum> {
    let bend = before - 2.0 * here + after;
    let fraction = 0.5 * (before - after) / bend;
    let is_turning = here.abs() <= before.abs() && here.abs() <= after.abs() && bend * here > 0.0;
    (is_turning && fraction.abs() <= 1.0)
        .then_some(Extremum { fraction, value: here - 0.25 * (before - after) * fraction })
}

/// The extrema between 0 and 1 of the cubic with the given values and slopes there.
fn extrema(from: f64, slope_from: f64, to: f64, slope_to: f64) -> Vec<Extremum> {
    let (a, b, c) = (
        3.0 * (slope_from + slope_to - 2.0 * (to - from)),
        2.0 * (3.0 * (to - from) - 2.0 * slope_from - slope_to),
        slope_from,
    );
    let mut found = Vec::new();
    let discriminant = b * b - 4.0 * a * c;
    if discriminant >= 0.0 {
        let q = -0.5 * (b + discriminant.sqrt().copysign(b));
        for candidate in [q / a, c / q] {
            if candidate > 0.0 && candidate < 1.0 {
                let value = from + candidate * (c + candidate * (0.5 * b + candidate * a / 3.0));
                found.push(Extremum { fraction: candidate, value });
            }
        }
    }
    found.sort_by(|one, other| one.fraction.total_cmp(&other.fraction));
    found
}

#[cfg(test)]
mod tests {
    use super::{extrema, turn};

    #[test]
    fn a_parabola_turns_between_its_points_or_not_at_all() {
        // (x - 1/4)^2 + 1/10
        let found = turn(1.6625, 0.1625, 0.6625).unwrap();
        assert!((found.fraction - 0.25).abs() < 1e-12 && (found.value - 0.1).abs() < 1e-12);
        // 1.2 x + 0.1 and a little x^2.
        assert!(turn(-1.0999999, 0.1, 1.3000001).is_none());
    }

    #[test]
    fn a_hop_has_its_top_in_the_middle() {
        // x (1 - x) - 0.1: two crossings between equal ends.
        let found = extrema(-0.1, 1.0, -0.1, -1.0);
        assert_eq!(found.len(), 1);
        assert!((found[0].fraction - 0.5).abs() < 1e-12);
        assert!((found[0].value - 0.15).abs() < 1e-12);
        assert!(extrema(0.0, 1.0, 1.0, 1.0).is_empty());
    }
}
