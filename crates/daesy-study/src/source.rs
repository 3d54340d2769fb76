//! Where a model, its study and its data come from: files, or texts and columns in memory.

use std::path::{Path, PathBuf};

use daesy_graph::Span;
use daesy_graph::finding::{Finding, nearest};

use crate::data::{Conversion, Data, TimeAxis, time_column_help};
use crate::diagnostic::Diagnostic;
use crate::load::Loaded;
use crate::study::{ColumnName, DataSource, Named};
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
            time: TimeAxis::Column(TIME.to_owned()),
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
        let source = self.data_source();
        if let Some(table) = self.data.get(at) {
            let by_default = TimeAxis::Column(TIME.to_owned());
            let mut data = Data::from_table(table, source.map_or(&by_default, |source| &source.time))?;
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

    fn read_file(&self, file: &Named<Vec<ColumnName>>, source: &DataSource) -> Result<Data, Vec<Diagnostic>> {
        let path = self.folder.join(&file.name);
        if !path.exists() {
            if file.span == Span::NONE {
                let message = format!("the data file `{}` does not exist", file.name);
                return Err(vec![Diagnostic::about_file("data-file", &file.name, message)]);
            }
            // The place to mend this is the study.
            let message = format!("the data file `{}` does not exist", file.name);
            let finding =
                Finding::error("data-file", file.span, message).with_help("the path is relative to the study file");
            let sources = self.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
            return Err(vec![Diagnostic::resolve(&finding, &sources)]);
        }
        let mut data = Data::read(&path, &path.display().to_string(), &source.time)?;
        data.convert(&source.conversion)?;
        for column in &file.item {
            let Some(at) = data.names.iter().position(|header| *header == column.header) else {
                let message = format!("`{}` has no column `{}`", file.name, column.header);
                let help = nearest(&column.header, data.names.iter().map(String::as_str)).map_or_else(
                    || format!("columns: {}", data.names.join(", ")),
                    |near| format!("did you mean `{near}`?"),
                );
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

/// The name that findings show for data in memory.
const IN_MEMORY: &str = "data";

/// The header of a time column that is not there; no other column can be called so.
const BY_STEP: &str = "(time by step)";

impl Data {
    /// The columns of a table as an experiment.
    ///
    /// # Errors
    /// When the time column is missing, empty or does not ascend, or columns differ in length.
    pub fn from_table(table: &Table, axis: &TimeAxis) -> Result<Self, Vec<Diagnostic>> {
        let problem = |code: &str, message: String| Diagnostic::about_file(code, IN_MEMORY, message);
        let time_column = match axis {
            TimeAxis::Column(column) => column,
            TimeAxis::Step(step) => {
                let mut timed = table.clone();
                let n_rows = table.columns.first().map_or(0, Vec::len);
                timed.names.push(BY_STEP.to_owned());
                timed.columns.push((0..n_rows).map(|row| row as f64 * step).collect());
                return Self::from_table(&timed, &TimeAxis::Column(BY_STEP.to_owned()));
            }
        };
        let Some(time_at) = table.names.iter().position(|name| name == time_column) else {
            let message = format!("the data has no time column `{time_column}`");
            let help = time_column_help(time_column, &table.names);
            return Err(vec![problem("data-column", message).with_help(help)]);
        };
        let times = table.columns[time_at].clone();
        if times.is_empty() {
            return Err(vec![problem("data-empty", "the data has no rows".to_owned())]);
        }
        for (name, column) in table.names.iter().zip(&table.columns) {
            if column.len() != times.len() {
                let message = format!("column `{name}` has {} rows, `{time_column}` has {}", column.len(), times.len());
                return Err(vec![problem("data-row", message)]);
            }
        }
        if let Some(at) = times.windows(2).position(|pair| pair[1] <= pair[0] || pair[1].is_nan()) {
            let message = format!("time does not ascend: {} comes after {} (row {})", times[at + 1], times[at], at + 2);
            return Err(vec![problem("data-time", message).with_help("sort the rows by time")]);
        }
        let others = table.names.iter().zip(&table.columns).enumerate().filter(|(at, _)| *at != time_at);
        let (names, columns) = others.map(|(_, (name, column))| (name.clone(), column.clone())).unzip();
        Ok(Self { file: IN_MEMORY.to_owned(), times, names, columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, &[f64])]) -> Table {
        Table {
            names: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            columns: columns.iter().map(|(_, values)| values.to_vec()).collect(),
        }
    }

    #[test]
    fn columns_in_memory_are_an_experiment() {
        let data =
            Data::from_table(&table(&[("u", &[1.0, f64::NAN]), ("t", &[0.0, 0.5])]), &TimeAxis::Column("t".into()))
                .unwrap();
        assert_eq!(data.times, [0.0, 0.5]);
        assert_eq!(data.names, ["u"]);
        assert!(data.columns[0][1].is_nan());
    }

    #[test]
    fn wrong_columns_are_named() {
        let code = |columns: &[(&str, &[f64])]| {
            Data::from_table(&table(columns), &TimeAxis::Column("t".into())).unwrap_err()[0].code.clone()
        };
        assert_eq!(code(&[("time", &[0.0])]), "data-column");
        assert_eq!(code(&[("t", &[])]), "data-empty");
        assert_eq!(code(&[("t", &[0.0, 1.0]), ("u", &[1.0])]), "data-row");
        assert_eq!(code(&[("t", &[0.0, 0.0])]), "data-time");
    }
}
