//! A table: rows that begin with a name, and a text for each column.

use super::ink::Ink;

/// A table. Where a page is too narrow for all columns, those that don't fit follow below, under the same names.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The title of the names' column.
    pub(crate) names: &'static str,
    /// Whether names are wrapped, so that all columns fit beside them. Otherwise long names are cut.
    pub(crate) wraps_names: bool,
    /// Titles of the other columns.
    pub(crate) titles: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// A table whose names are wrapped.
    #[cfg(any(feature = "fleet", feature = "sweep"))]
    pub(crate) fn with_wrapped_names(names: &'static str, titles: &[&str], rows: Vec<Row>) -> Self {
        Self {
            names,
            wraps_names: true,
            titles: titles.iter().map(|title| (*title).to_owned()).collect(),
            rows,
        }
    }
}

/// A row of a [`Table`].
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The row's name; an empty one repeats that of the row above.
    pub(crate) name: String,
    /// How the name is painted.
    pub(crate) ink: Option<Ink>,
    /// A cell for each column, empty where there is nothing to say. Without cells, the name is the title of the rows below.
    pub(crate) cells: Vec<String>,
}

impl Row {
    /// A row that is the title of the rows below it.
    pub(crate) fn title(name: String) -> Self {
        Self { name, ink: Some(Ink::Strong), cells: Vec::new() }
    }

    /// Whether the row is the title of the rows below it.
    pub(crate) fn is_title(&self) -> bool {
        self.cells.is_empty()
    }

    /// A column's text; empty if the row is a title.
    pub(crate) fn cell(&self, column: usize) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }
}
