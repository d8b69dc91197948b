//! All parts of a sweep's results.

use crate::key::Key;
use crate::table::{AXES, BASE, ERROR, GRID, KEY, MACHINE, MODEL, PLAN, POINTS, axis_name};
use columns::{Cells, Column, ParquetError, TableFile, TableWriter};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Rows of a row group in a merged file: as many as keep a reader of Parquet busy without filling its memory.
const ROWS_OF_GROUP: usize = 1 << 16;
/// The metadata that all parts have.
const METADATA: [&str; 4] = [PLAN, AXES, MODEL, BASE];

/// All parts of a sweep's results.
#[derive(Debug)]
pub struct Results {
    parts: Vec<PathBuf>,
    /// What all parts say in [`METADATA`].
    metadata: [String; 4],
    /// The machine apart from the axes.
    machine: Option<String>,
    /// What tells the plans apart that parts are of, with the points of each; `None` of parts that don't say it.
    grids: BTreeMap<Option<String>, Option<u64>>,
    /// Those of all parts, without rows.
    columns: Vec<Column>,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A part can't be read.
    #[error("{}", part.display())]
    Part {
        /// The part.
        part: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// A part has no metadata of a sweep.
    #[error("{}: no results of a sweep; expected parts that `iotoll sweep` wrote", part.display())]
    NoSweep {
        /// The part.
        part: PathBuf,
    },
    /// Two parts are of different plans.
    #[error("{} and {} are of different plans, or by different models; expected the results of one", first.display(), part.display())]
    OtherPlan {
        /// The first part.
        first: PathBuf,
        /// The other.
        part: PathBuf,
    },
    /// There are no parts.
    #[error("no results; expected parts that `iotoll sweep` wrote")]
    Empty,
    /// No such column.
    #[error("no figure {name}; expected one of {figures}")]
    NoFigure {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        figures: String,
    },
    /// The merged table can't be written.
    #[error("can't write the merged table")]
    Merge(#[source] ParquetError),
}

impl Results {
    /// Those in some Parquet files, which are all of one plan.
    ///
    /// # Errors
    /// [`ResultsError`]
    pub fn open(parts: Vec<PathBuf>) -> Result<Self, ResultsError> {
        let first = parts.first().ok_or(ResultsError::Empty)?;
        let metadata = metadata(first, &open(first)?)?;
        let mut columns: Vec<Column> = Vec::new();
        let mut names = HashSet::new();
        let (mut grids, mut machine) = (BTreeMap::new(), None);
        for part in &parts {
            let file = open(part)?;
            // A merged file has a line for each plan.
            let points: Vec<Option<u64>> = file
                .metadata(POINTS)
                .into_iter()
                .flat_map(str::lines)
                .map(|points| points.parse().ok())
                .collect();
            let point = |place: usize| points.get(place).copied().flatten();
            match file.metadata(GRID) {
                Some(of_part) => grids
                    .extend(of_part.lines().enumerate().map(|(at, grid)| (Some(grid.to_owned()), point(at)))),
                None => {
                    let known = grids.entry(None).or_insert(None);
                    *known = point(0).max(*known);
                }
            }
            machine = machine.or(file.metadata(MACHINE).map(ToOwned::to_owned));
            // A plan's words may be changed while it runs.
            if self::metadata(part, &file)?[1..] != metadata[1..] {
                return Err(ResultsError::OtherPlan { first: first.clone(), part: part.clone() });
            }
            let schema = file.schema();
            let lacks = |name: &String| schema.iter().all(|column| column.name != *name);
            if fixed_columns(&metadata[1]).iter().any(lacks) {
                return Err(ResultsError::NoSweep { part: part.clone() });
            }
            columns.extend(schema.into_iter().filter(|column| names.insert(column.name.clone())));
        }
        // Older parts do not name their grid: they count with the one that is known.
        if grids.len() > 1 {
            grids.remove(&None);
        }
        Ok(Self { parts, metadata, machine, grids, columns })
    }

    /// The plan's words.
    pub fn what(&self) -> &str {
        &self.metadata[0]
    }

    /// The version of the model.
    pub fn model(&self) -> &str {
        &self.metadata[2]
    }

    /// The machine as a table of TOML, with `"varies"` in place of what an axis sets; `None` where no part says it.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// The points of the plan; `None` where no part says it, or where parts are of several plans.
    pub fn points_of_plan(&self) -> Option<u64> {
        match self.grids.len() {
            1 => self.grids.values().next().copied().flatten(),
            _ => None,
        }
    }

    /// How many plans the parts are of: with other values on the same axes.
    pub fn plans(&self) -> usize {
        self.grids.len()
    }

    /// The fields of the axes.
    pub fn axes(&self) -> Vec<&str> {
        self.metadata[1].lines().collect()
    }

    /// Names of the columns that are figures: numbers that came out, without the ends of their intervals and without how they were measured.
    pub fn figures(&self) -> Vec<&str> {
        let axes: HashSet<String> = self.axes().into_iter().map(axis_name).collect();
        let has = |name: String| self.columns.iter().any(|column| column.name == name);
        let is_end = |name: &str| {
            let of = |end: &str| name.strip_suffix(end).is_some_and(|mean| has(mean.to_owned()));
            of("_low") || of("_high")
        };
        let figures =
            self.columns.iter().filter(|column| matches!(column.cells, Cells::Float(_) | Cells::Integer(_)));
        let figures = figures.map(|column| &*column.name);
        figures.filter(|name| !axes.contains(*name) && !is_end(name) && !name.starts_with("runs_")).collect()
    }

    /// Calls `each` with these columns of each part. Points that another part had have no rows again, and a column that a part
    /// has not is null.
    pub(crate) fn each_part(
        &self,
        names: &[&str],
        mut each: impl FnMut(Vec<Column>) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        let mut keys = HashSet::new();
        for part in &self.parts {
            let failed = |source| ResultsError::Part { part: part.clone(), source };
            let file = open(part)?;
            let Some(Cells::Text(of_part)) =
                file.columns(&[KEY]).map_err(failed)?.pop().map(|column| column.cells)
            else {
                return Err(ResultsError::NoSweep { part: part.clone() });
            };
            let of_part = of_part.iter().map(|key| key.as_deref()?.parse::<Key>().ok());
            let Some(of_part) = of_part.collect::<Option<Vec<Key>>>() else {
                return Err(ResultsError::NoSweep { part: part.clone() });
            };
            let wanted: Vec<bool> = of_part.into_iter().map(|key| keys.insert(key)).collect();
            let rows = wanted.iter().filter(|wanted| **wanted).count();
            let mut read = file.columns(names).map_err(failed)?;
            let columns = names.iter().filter_map(|name| {
                let like = self.columns.iter().find(|column| column.name == *name)?;
                let mut column = Column { cells: like.cells.cleared(), ..like.clone() };
                if let Some(place) = read.iter().position(|column| column.name == *name) {
                    column.cells.append_wanted(read.swap_remove(place).cells, &wanted);
                }
                column.cells.pad(rows);
                Some(column)
            });
            each(columns.collect())?;
        }
        Ok(())
    }

    /// Writes all rows as one Parquet file, each point once.
    ///
    /// # Errors
    /// [`ResultsError`]
    pub fn merge(&self, into: impl Write + Send, made_by: &str) -> Result<(), ResultsError> {
        let mut metadata: Vec<(&str, &str)> =
            METADATA.iter().copied().zip(self.metadata.iter().map(String::as_str)).collect();
        // A line for each plan, if all can be told apart.
        let grids: Option<Vec<&str>> = self.grids.keys().map(Option::as_deref).collect();
        let points: Option<Vec<String>> =
            self.grids.values().map(|points| points.map(|points| points.to_string())).collect();
        let points = points.filter(|points| grids.is_some() || points.len() == 1);
        let (grids, points) = (grids.map(|grids| grids.join("\n")), points.map(|points| points.join("\n")));
        let further = [(GRID, &grids), (POINTS, &points), (MACHINE, &self.machine)];
        metadata.extend(further.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))));
        let failed = ResultsError::Merge;
        let mut writer =
            TableWriter::new(into, "sweep", &self.columns, made_by, &metadata).map_err(failed)?;
        let names: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
        let mut group = self.columns.clone();
        let rows = |group: &[Column]| group.first().map_or(0, |column| column.cells.len());
        self.each_part(&names, |columns| {
            for (to, from) in group.iter_mut().zip(columns) {
                let wanted = vec![true; from.cells.len()];
                to.cells.append_wanted(from.cells, &wanted);
            }
            if rows(&group) >= ROWS_OF_GROUP {
                writer.add(&group).map_err(failed)?;
                group.clone_from(&self.columns);
            }
            Ok(())
        })?;
        if rows(&group) > 0 {
            writer.add(&group).map_err(failed)?;
        }
        writer.finish().map_err(failed)
    }

    /// The figure of this name, or else the usual one.
    pub(crate) fn figure(&self, name: Option<&str>) -> Result<Option<&str>, ResultsError> {
        let Some(name) = name else { return self.usual_figure() };
        let figures = self.figures();
        let found = figures.iter().find(|figure| **figure == name);
        found
            .map(|name| Some(*name))
            .ok_or_else(|| ResultsError::NoFigure { name: name.to_owned(), figures: figures.join(", ") })
    }

    /// The rate with the shortest name that is not the same at all points, or else the first such figure. Interrupts are a cost: their rate comes last.
    fn usual_figure(&self) -> Result<Option<&str>, ResultsError> {
        let (mut rates, others): (Vec<&str>, Vec<&str>) =
            self.figures().into_iter().partition(|name| name.ends_with("_per_second"));
        rates.sort_by_key(|name| (name.contains("interrupts"), name.len()));
        let usual = rates.first().or(others.first()).copied();
        for figures in [rates, others] {
            let varied = self.varied(&figures)?;
            if let Some((figure, _)) = figures.into_iter().zip(varied).find(|(_, is_varied)| *is_varied) {
                return Ok(Some(figure));
            }
        }
        Ok(usual)
    }

    /// Of each of these figures, whether it is not the same at all points that have it.
    fn varied(&self, figures: &[&str]) -> Result<Vec<bool>, ResultsError> {
        let mut seen: Vec<(Option<f64>, bool)> = vec![(None, false); figures.len()];
        self.each_part(figures, |columns| {
            for (column, (first, is_varied)) in columns.iter().zip(&mut seen) {
                for number in (0..column.cells.len()).filter_map(|row| number(&column.cells, row)) {
                    *is_varied |= number != *first.get_or_insert(number);
                }
            }
            Ok(())
        })?;
        Ok(seen.into_iter().map(|(_, is_varied)| is_varied).collect())
    }

    /// Names of the columns that every part has besides the key: the axes, and the error.
    pub(crate) fn fixed_columns(&self) -> Vec<String> {
        fixed_columns(&self.metadata[1])
    }
}

fn fixed_columns(axes: &str) -> Vec<String> {
    axes.lines().map(axis_name).chain([ERROR.to_owned()]).collect()
}

fn open(part: &Path) -> Result<TableFile, ResultsError> {
    TableFile::open(part).map_err(|source| ResultsError::Part { part: part.to_owned(), source })
}

fn metadata(part: &Path, file: &TableFile) -> Result<[String; 4], ResultsError> {
    let text = |name| file.metadata(name).map(ToOwned::to_owned);
    let [plan, axes, model, base] = METADATA.map(text);
    let no_sweep = || ResultsError::NoSweep { part: part.to_owned() };
    match (plan, axes, model, base) {
        (Some(plan), Some(axes), Some(model), Some(base)) => Ok([plan, axes, model, base]),
        _ => Err(no_sweep()),
    }
}

/// A number that is finite.
pub(crate) fn number(cells: &Cells, row: usize) -> Option<f64> {
    match cells {
        Cells::Float(cells) => cells.get(row).copied().flatten().filter(|number| number.is_finite()),
        Cells::Integer(cells) => cells.get(row).copied().flatten().map(|number| number as f64),
        _ => None,
    }
}
