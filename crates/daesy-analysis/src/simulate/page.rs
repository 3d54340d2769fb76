//! The page of a simulation: what happened in three sentences, the curves that matter, then the tables.

use daesy_graph::flat::FlatDae;

use crate::simulate::Trajectory;
use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series, TIME};
use daesy_report::glossary::Glossary;
use daesy_report::words::short;
use daesy_study::data::Data;
use daesy_study::study::Study;

/// Curves of one picture.
const PER_CHART: usize = 4;
/// Pictures of a page.
const MAX_CHARTS: usize = 12;
/// Rows of a table.
const MAX_ROWS: usize = 60;

/// What a page of a simulation is about.
pub struct SimulationPage<'a> {
    /// The model.
    pub flat: &'a FlatDae,
    /// The study, where there is one.
    pub study: Option<&'a Study>,
    /// What was measured, where the study has data.
    pub data: Option<&'a Data>,
    /// What was computed.
    pub trajectory: &'a Trajectory,
}

/// One curve of the page.
struct Curve {
    column: usize,
    name: String,
    unit: String,
    description: String,
}

impl SimulationPage<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::new(&format!("Simulation of {}", self.flat.model));
        page.paragraph(&self.summary());
        for diagnostic in &self.trajectory.diagnostics {
            page.remark(diagnostic.level.word(), &diagnostic.message);
        }
        let glossary = Glossary::new(self.flat, self.study);
        let curves = self.chosen(&glossary);
        self.add_charts(&mut page, &glossary, &curves);
        self.add_values(&mut page, &curves);
        self.add_start(&mut page);
        self.add_events(&mut page);
        page
    }

    /// What, how far, and what happened on the way.
    fn summary(&self) -> String {
        let times = &self.trajectory.table.columns[0];
        let (first, last) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
        let what = self.flat.description.as_ref().map_or_else(String::new, |text| format!(" ({text})"));
        let states = self.states().len();
        let n_variables = self.trajectory.table.names.len() - 1;
        let count = |n: usize, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
        let events = match self.trajectory.events.len() {
            0 => "Nothing jumped on the way.".to_owned(),
            n => format!("{} happened on the way.", count(n, "event", "events")),
        };
        format!(
            "{}{what} was simulated from {first} s to {last} s. It has {} and {} in all. {events}",
            self.flat.model,
            count(states, "state", "states"),
            count(n_variables, "column", "columns"),
        )
    }

    fn states(&self) -> Vec<usize> {
        let names = &self.trajectory.table.names;
        (1..names.len()).filter(|&at| names.contains(&format!("der({})", names[at]))).collect()
    }

    /// The curves that matter, each once.
    fn chosen(&self, glossary: &Glossary) -> Vec<Curve> {
        let table = &self.trajectory.table;
        let mut distinct: Vec<usize> = Vec::new();
        for column in glossary.that_matter(&table.names[1..]).into_iter().map(|at| at + 1) {
            // Two names for the same thing are one curve, but for a reader who asks for both.
            if glossary.is_asked() || !distinct.iter().any(|&known| table.columns[known] == table.columns[column]) {
                distinct.push(column);
            }
        }
        let curve = |column: usize| {
            let name = table.names[column].clone();
            let (unit, description) = (glossary.unit(&name).to_owned(), glossary.description(&name).to_owned());
            Curve { column, name, unit, description }
        };
        distinct.into_iter().map(curve).collect()
    }

    /// The measured values of a variable.
    fn measured(&self, name: &str) -> Option<Series> {
        let signal = self.study?.measurements.iter().find(|signal| signal.name == name)?;
        let data = self.data?;
        let values = data.column(signal.item.column.as_deref().unwrap_or(name))?;
        Some(Series::line(&format!("{name} measured"), &data.times, values, 0).with_mark(Mark::Dots))
    }

    fn add_charts(&self, page: &mut Page, glossary: &Glossary, curves: &[Curve]) {
        let mut curves: Vec<&Curve> = curves.iter().collect();
        if !glossary.is_asked() {
            // What has the same unit stands together, in the order in which units first appear.
            let units: Vec<&str> = curves.iter().map(|curve| curve.unit.as_str()).collect();
            curves.sort_by_key(|curve| units.iter().position(|unit| *unit == curve.unit));
        }
        let groups: Vec<&[&Curve]> =
            curves.chunk_by(|a, b| a.unit == b.unit).flat_map(|same| same.chunks(PER_CHART)).collect();
        for group in groups.iter().take(MAX_CHARTS) {
            self.add_chart(page, group);
        }
        let n_left: usize = groups.iter().skip(MAX_CHARTS).map(|group| group.len()).sum();
        if n_left > 0 {
            page.paragraph(&format!("{n_left} more curves are in the table; `[report] signals` of a study chooses."));
        }
    }

    fn add_chart(&self, page: &mut Page, group: &[&Curve]) {
        let table = &self.trajectory.table;
        let mut series = Vec::new();
        for (color, curve) in group.iter().enumerate() {
            series.push(Series::line(&curve.name, &table.columns[0], &table.columns[curve.column], color));
            series.extend(self.measured(&curve.name).map(|dots| Series { color: color + 4, ..dots }));
        }
        let events: Vec<f64> = self.trajectory.events.iter().take(MAX_ROWS).map(|event| event.time).collect();
        let unit = &group[0].unit;
        let chart = Chart {
            x_label: TIME.to_owned(),
            y_label: if unit.is_empty() { String::new() } else { format!("in {unit}") },
            series,
            marked: if self.trajectory.events.len() > MAX_ROWS { Vec::new() } else { events },
            ..Chart::default()
        };
        let words = |curve: &&Curve| match curve.description.as_str() {
            "" => curve.name.clone(),
            description => format!("{} ({description})", curve.name),
        };
        let listed: Vec<String> = group.iter().map(words).collect();
        page.figure(&chart, &format!("{} over time.", listed.join(", ")));
    }

    /// First, last, least and largest value of every curve shown.
    fn add_values(&self, page: &mut Page, curves: &[Curve]) {
        let table = &self.trajectory.table;
        let rows: Vec<Vec<String>> = curves
            .iter()
            .take(MAX_ROWS)
            .map(|curve| {
                let column = &table.columns[curve.column];
                let least = column.iter().copied().fold(f64::INFINITY, f64::min);
                let largest = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let ends = [column.first(), column.last()].map(|value| value.copied().unwrap_or(f64::NAN));
                let numbers = [ends[0], ends[1], least, largest].map(|value| short(value, 6));
                let names = [curve.name.clone(), curve.unit.clone()];
                names.into_iter().chain(numbers).chain([curve.description.clone()]).collect()
            })
            .collect();
        if !rows.is_empty() {
            page.heading("Values");
            page.table(&["variable", "unit", "first", "last", "least", "largest", "description"], &rows);
        }
    }

    /// Where the values at the start come from.
    fn add_start(&self, page: &mut Page) {
        let start = &self.trajectory.start;
        let groups = [("fixed", &start.fixed), ("guessed", &start.guessed), ("derived", &start.derived)];
        let row = |word: &str, name: &str, value: f64| {
            let unit = self.flat.find(name).and_then(|var| self.flat.variables[var.index()].unit.as_ref());
            let unit = unit.map_or_else(String::new, |unit| unit.text.to_string());
            vec![name.to_owned(), value.to_string(), unit, word.to_owned()]
        };
        let rows: Vec<Vec<String>> = groups
            .iter()
            .flat_map(|(word, values)| values.iter().map(|one| row(word, &one.name, one.value)).collect::<Vec<_>>())
            .take(MAX_ROWS)
            .collect();
        if !rows.is_empty() {
            page.fold("Values at the start", |page| {
                page.table(&["variable", "value at the start", "unit", "where it comes from"], &rows);
            });
        }
    }

    /// What happened on the way.
    fn add_events(&self, page: &mut Page) {
        let events = &self.trajectory.events;
        if events.is_empty() {
            return;
        }
        let row = |event: &daesy_transfer::Event| {
            let jumps: Vec<String> =
                event.jumps.iter().map(|jump| format!("{}: {} to {}", jump.name, jump.before, jump.after)).collect();
            let impulses: Vec<String> =
                event.impulses.iter().map(|impulse| format!("{}: {:?}", impulse.name, impulse.coefficients)).collect();
            let kind = event.kind.word().to_owned();
            vec![event.time.to_string(), kind, event.relations.join(", "), jumps.join("; "), impulses.join("; ")]
        };
        let rows: Vec<Vec<String>> = events.iter().take(MAX_ROWS).map(row).collect();
        let title = if events.len() == 1 { "1 event".to_owned() } else { format!("{} events", events.len()) };
        page.fold(&title, |page| {
            page.table(&["time in s", "event", "relations", "jumps", "impulses"], &rows);
            if events.len() > MAX_ROWS {
                page.paragraph(&format!("{} more events.", events.len() - MAX_ROWS));
            }
        });
    }
}
