//! Where a model, its study and its data come from: files, or texts and columns in memory.

use std::path::{Path, PathBuf};

use daesy_graph::Span;
use daesy_graph::finding::{Finding, nearest};
use daesy_model::file::names_beside;

use crate::data::{Change, Conversion, Data, Format, Reading, SaidUnit, TimeAxis, columns_help};
use crate::diagnostic::Diagnostic;
use crate::load::Loaded;
use crate::study::{ColumnName, DataSource, InputSource, Named};
use crate::table::Table;

/// The text of a Modelica file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelText {
    /// The file name a study uses for it, and findings show.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What to load.
#[derive(Clone, PartialEq, Debug)]
pub enum Place {
    /// A Modelica file, a package folder, or a study.
    File(PathBuf),
    /// The text of a model.
    Model(ModelText),
    /// The text of a study.
    Study {
        /// What findings show as its file name.
        name: String,
        /// Its text.
        text: String,
        /// Where files it names lie.
        folder: PathBuf,
        /// Models it may name instead of files.
        models: Vec<ModelText>,
    },
}

/// What to load, and the data to use instead of what the study names.
#[derive(Clone, PartialEq, Debug)]
pub struct Source {
    /// The model and the study.
    pub place: Place,
    /// Data in memory, one table per experiment; empty for the study's own files.
    pub data: Vec<Table>,
}

impl Source {
    /// A file with its own data.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self { place: Place::File(path.to_path_buf()), data: Vec::new() }
    }

    /// The name findings show.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        match &self.place {
            Place::File(path) => path.clone(),
            Place::Model(model) => PathBuf::from(&model.name),
            Place::Study { name, .. } => PathBuf::from(name),
        }
    }
}

/// The header of the time column when nobody says otherwise.
const TIME: &str = "t";

impl Loaded {
    /// Whether there is data in memory or a first data file.
    #[must_use]
    pub fn has_data(&self) -> bool {
        let first = self.data_source().and_then(|source| source.files.first());
        !self.data.is_empty() || first.is_some_and(|first| self.folder.join(&first.name).exists())
    }

    /// Takes these files, named as seen from the working directory, instead of those the study names.
    ///
    /// # Errors
    /// When there is no study that says what their columns are.
    pub fn use_data_files(&mut self, files: &[PathBuf]) -> Result<(), Vec<Diagnostic>> {
        let Some(study) = &mut self.study else {
            return Err(vec![
                Diagnostic::error("data-source", "`--data` needs a study that says what the columns are")
                    .with_help("name a study (.toml) instead of the model, with `[inputs]` and `[measurements]`"),
            ]);
        };
        let source = study.data.take().unwrap_or_else(|| DataSource {
            files: Vec::new(),
            validation: Vec::new(),
            time: TimeAxis::Column(TIME.to_owned()),
            format: Format::default(),
            has_time_unit: false,
            conversion: Conversion::default(),
        });
        let known = source.files;
        // One file for a study whose experiments are columns of one file stands for all of them.
        let is_shared = files.len() == 1 && known.iter().all(|file| file.name == known[0].name);
        let n_files = if is_shared { known.len().max(1) } else { files.len() };
        let named = (0..n_files)
            .map(|at| {
                let file = files.get(at).unwrap_or(&files[0]);
                let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                let columns = if known.len() == 1 { known.first() } else { known.get(at) };
                let item = columns.map_or_else(Vec::new, |known| known.item.clone());
                Named { name: path.display().to_string(), span: Span::NONE, item }
            })
            .collect();
        study.data = Some(DataSource { files: named, ..source });
        Ok(())
    }

    /// Takes these files, named as seen from the working directory, for validation instead of those the study names.
    ///
    /// # Errors
    /// When there is no study with data.
    pub fn use_validation_files(&mut self, files: &[PathBuf]) -> Result<(), Vec<Diagnostic>> {
        let Some(source) = self.study.as_mut().and_then(|study| study.data.as_mut()) else {
            return Err(vec![
                Diagnostic::error("data-source", "`--validation` needs a study that says what the columns are")
                    .with_help("name a study (.toml) with `[data]`, `[inputs]` and `[measurements]`"),
            ]);
        };
        let columns = source.files.first().map_or_else(Vec::new, |file| file.item.clone());
        let named = |file: &PathBuf| {
            let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            Named { name: path.display().to_string(), span: Span::NONE, item: columns.clone() }
        };
        source.validation = files.iter().map(named).collect();
        Ok(())
    }

    /// The same with the files for validation as its data; nothing if there are none.
    #[must_use]
    pub fn validation(&self) -> Option<Self> {
        let files = &self.data_source()?.validation;
        if files.is_empty() {
            return None;
        }
        let mut held_out = self.clone();
        held_out.data.clear();
        let source = held_out.study.as_mut()?.data.as_mut()?;
        source.files.clone_from(&self.data_source()?.validation);
        source.validation.clear();
        Some(held_out)
    }

    /// The same with one experiment in memory instead of its data, in the model's units.
    #[must_use]
    pub fn with_record(&self, data: &Data) -> Self {
        let mut loaded = self.clone();
        if let Some(study) = &mut loaded.study {
            study.data = None;
        }
        let names = std::iter::once(TIME.to_owned()).chain(data.names.iter().cloned()).collect();
        let columns = std::iter::once(data.times.clone()).chain(data.columns.iter().cloned()).collect();
        loaded.data = vec![Table { names, columns }];
        loaded
    }

    fn data_source(&self) -> Option<&DataSource> {
        self.study.as_ref()?.data.as_ref()
    }

    /// The number of experiments, whether or not their files exist.
    #[must_use]
    pub fn n_experiments(&self) -> usize {
        if self.data.is_empty() { self.data_source().map_or(0, |source| source.files.len()) } else { self.data.len() }
    }

    /// The data of one experiment, counted from 0.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn experiment(&self, at: usize) -> Result<Data, Vec<Diagnostic>> {
        let data = self.record(at)?;
        let wrong = self.inputs_without_value(&data);
        if wrong.is_empty() { Ok(data) } else { Err(wrong) }
    }

    /// Columns of inputs that have rows without a value: between samples an input is held, not guessed.
    fn inputs_without_value(&self, data: &Data) -> Vec<Diagnostic> {
        let inputs = self.study.iter().flat_map(|study| &study.inputs);
        let columns = inputs.filter_map(|input| match &input.item {
            InputSource::Column { column, .. } => Some((&input.name, column)),
            InputSource::Expression { .. } | InputSource::Impulses(_) => None,
        });
        let wrong = columns.filter_map(|(name, column)| {
            let values = data.column(column)?;
            let mut missing = values.iter().enumerate().filter(|(_, value)| !value.is_finite()).map(|(row, _)| row);
            let first = missing.next()?;
            let more = match missing.count() {
                0 => String::new(),
                1 => ", and in one more row".to_owned(),
                n => format!(", and in {n} more rows"),
            };
            let message = format!(
                "the input `{name}` has no value in {} at t = {} (column `{column}`){more}",
                data.row_text(first),
                data.times[first]
            );
            let help = "write down what it was there, or leave such rows out: between rows an input is held";
            let mut diagnostic = data.problem_at(first, "input-missing-sample", message).with_help(help);
            diagnostic.names = vec![name.clone()];
            Some(diagnostic)
        });
        wrong.collect()
    }

    fn record(&self, at: usize) -> Result<Data, Vec<Diagnostic>> {
        let source = self.data_source();
        if let Some(table) = self.data.get(at) {
            let by_default = TimeAxis::Column(TIME.to_owned());
            let axis = source.map_or(&by_default, |source| &source.time);
            let mut data = Data::from_table(table, IN_MEMORY, axis)?;
            if let Some(source) = source {
                data.convert(&source.conversion)?;
            }
            return Ok(data);
        }
        let Some((source, file)) = source.and_then(|source| Some((source, source.files.get(at)?))) else {
            return Err(vec![Diagnostic::error("data-source", "the study lists no data file")]);
        };
        self.read_file(file, source)
    }

    /// The data of all experiments.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn experiments(&self) -> Result<Vec<Data>, Vec<Diagnostic>> {
        let mut all = Vec::new();
        let mut diagnostics = Vec::new();
        for at in 0..self.n_experiments() {
            match self.experiment(at) {
                Ok(data) => all.push(data),
                Err(wrong) => diagnostics.extend(wrong),
            }
        }
        if diagnostics.is_empty() { Ok(all) } else { Err(diagnostics) }
    }

    /// What is wrong with the records after the first, those for validation included, as far as their files exist.
    #[must_use]
    pub fn wrong_records(&self) -> Vec<Diagnostic> {
        let Some(source) = self.data_source().filter(|_| self.data.is_empty()) else { return Vec::new() };
        let is_there = |file: &Named<Vec<ColumnName>>| self.folder.join(&file.name).exists();
        let others = (1..source.files.len()).filter(|&at| is_there(&source.files[at]));
        let mut wrong: Vec<Diagnostic> = others.filter_map(|at| self.experiment(at).err()).flatten().collect();
        let held_out = self.validation();
        let held_out = held_out.iter().flat_map(|held| (0..held.n_experiments()).map(move |at| (held, at)));
        let held_out = held_out.filter(|(_, at)| is_there(&source.validation[*at]));
        wrong.extend(held_out.filter_map(|(held, at)| held.experiment(at).err()).flatten());
        wrong
    }

    /// Headers of the columns of a file that the study uses.
    fn wanted_columns(&self, file: &Named<Vec<ColumnName>>, source: &DataSource) -> Vec<String> {
        let Some(study) = &self.study else { return Vec::new() };
        let of_inputs = study.inputs.iter().filter_map(|input| match &input.item {
            InputSource::Column { column, .. } => Some(column.clone()),
            InputSource::Expression { .. } | InputSource::Impulses(_) => None,
        });
        let of_measurements =
            study.measurements.iter().map(|signal| signal.item.column.clone().unwrap_or_else(|| signal.name.clone()));
        let conversion = &source.conversion;
        let converted = conversion.scale.iter().chain(&conversion.offset).map(|(header, _)| header.clone());
        let renamed = file.item.iter().map(|column| column.header.clone());
        of_inputs.chain(of_measurements).chain(converted).chain(renamed).collect()
    }

    /// Refuses columns in other units than the model's, as the file says, unless the study says how they are converted.
    fn refuse_other_units(
        &self,
        data: &Data,
        file: &Named<Vec<ColumnName>>,
        source: &DataSource,
    ) -> Result<(), Vec<Diagnostic>> {
        let Some(study) = &self.study else { return Ok(()) };
        let of_inputs = study.inputs.iter().filter_map(|input| match &input.item {
            InputSource::Column { column, .. } => Some((&input.name, column, input.span)),
            InputSource::Expression { .. } | InputSource::Impulses(_) => None,
        });
        let of_measurements = study
            .measurements
            .iter()
            .map(|signal| (&signal.name, signal.item.column.as_ref().unwrap_or(&signal.name), signal.span));
        let mut findings: Vec<Finding> = Vec::new();
        for (name, column, span) in of_inputs.chain(of_measurements) {
            let renamed = file.item.iter().find(|renamed| renamed.name == *column);
            let header = renamed.map_or(column, |renamed| &renamed.header);
            let said = data.units.iter().find(|(known, _)| known == header).map(|(_, said)| said);
            let unit = self.flat.find(name).and_then(|var| self.flat.variables[var.index()].unit.as_ref());
            let conversion = &source.conversion;
            let is_converted = conversion.scale.iter().chain(&conversion.offset).any(|(known, _)| known == header);
            let (Some(said), Some(unit), false) = (said, unit, is_converted) else { continue };
            let Some(help) = unit.measure().and_then(|measure| unit_help(said, &measure, header, &unit.text)) else {
                continue;
            };
            let message =
                format!("the column `{header}` of `{}` is in {}, `{name}` in {}", file.name, said.text, unit.text);
            findings.push(Finding::error("data-unit", span, message).with_names([name]).with_help(help));
        }
        if findings.is_empty() {
            return Ok(());
        }
        Err(findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect())
    }

    fn read_file(&self, file: &Named<Vec<ColumnName>>, source: &DataSource) -> Result<Data, Vec<Diagnostic>> {
        let path = self.folder.join(&file.name);
        if !path.exists() {
            let message = format!("the data file `{}` does not exist", file.name);
            if file.span == Span::NONE {
                return Err(vec![Diagnostic::about_file("data-file", &file.name, message)]);
            }
            // The place to mend this is the study.
            let finding = Finding::error("data-file", file.span, message).with_help(looked_for(&path));
            let sources = self.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
            return Err(vec![Diagnostic::resolve(&finding, &sources)]);
        }
        let wanted = self.wanted_columns(file, source);
        let reading = Reading {
            axis: &source.time,
            format: &source.format,
            has_time_unit: source.has_time_unit,
            wanted: Some(&wanted),
        };
        let mut data = Data::read(&path, &path.display().to_string(), &reading)?;
        self.refuse_other_units(&data, file, source)?;
        data.convert(&source.conversion)?;
        for column in &file.item {
            let Some(at) = data.names.iter().position(|header| *header == column.header) else {
                let message = format!("`{}` has no column `{}`", file.name, column.header);
                let help = columns_help(&column.header, &data.names);
                let finding = Finding::error("data-column", column.span, message).with_help(help);
                let sources = self.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
                return Err(vec![Diagnostic::resolve(&finding, &sources)]);
            };
            data.names.push(column.name.clone());
            data.columns.push(data.columns[at].clone());
        }
        Ok(data)
    }
}

/// The keys of `[data]` that convert a column; nothing where its numbers are right, or nobody can say.
fn unit_help(said: &SaidUnit, model: &daesy_graph::Measure, header: &str, unit: &str) -> Option<String> {
    let is_bare = !header.is_empty() && header.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let key =
        if is_bare { header.to_owned() } else { format!("\"{}\"", header.replace('\\', "\\\\").replace('"', "\\\"")) };
    let as_they_are = format!("`scale = {{ {key} = 1 }}` if its numbers are in {unit} all the same");
    match said.change_to(model)? {
        Change::None => None,
        Change::Impossible => said.is_certain.then(|| {
            format!(
                "take another column, correct the unit in the file or in the model, or say {as_they_are}, in `[data]`"
            )
        }),
        Change::Linear { scale, offset } => {
            let by = [("scale", scale, 1.0), ("offset", offset, 0.0)];
            let changes = by.iter().filter(|(_, value, neutral)| value != neutral);
            let keys: Vec<String> =
                changes.map(|(word, value, _)| format!("`{word} = {{ {key} = {value} }}`")).collect();
            Some(format!("say {} in `[data]` to convert it, or {as_they_are}", keys.join(" and ")))
        }
    }
}

/// The name that findings show for data in memory.
const IN_MEMORY: &str = "data";

/// The remedy for a file that does not exist: where it was looked for.
pub(crate) fn looked_for(path: &Path) -> String {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let name = full.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let names = names_beside(&full);
    let near = nearest(&name, names.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`? "));
    let near = near.unwrap_or_default();
    format!("{near}Paths are relative to the folder of the study file; looked for {}", full.display())
}
