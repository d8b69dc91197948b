//! What is drawn: the numbers of a diagram and the words on it. `render::svg` places and paints them.

/// A diagram; [`crate::svg_file`] makes a file of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing(pub(crate) Kind);

/// The kinds of diagrams.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Plot(Plot),
    Bars(Bars),
    Errors(Errors),
    Course(Course),
    Flame(Flame),
}

/// Points joined by lines. Both axes are logarithmic; zero lies at an axis's beginning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plot {
    /// What the drawing shows, for readers who don't see it.
    pub(crate) name: String,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    pub(crate) lines: Vec<Line>,
    /// A value of the x axis to mark, with its label.
    pub(crate) mark: Option<(f64, String)>,
}

/// A named line of a [`Plot`], or the bars of one colour in [`Bars`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Pairs of x and y, by increasing x; none is negative.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Groups of bars from zero, for categories that have names and no numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bars {
    /// What the drawing shows, for readers who don't see it.
    pub(crate) name: String,
    pub(crate) y_title: String,
    /// Each line has a bar in each of these, at x = 1, 2, ...
    pub(crate) categories: Vec<String>,
    pub(crate) lines: Vec<Line>,
}

/// Errors of figures against what was published: a row of dots for each study.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Errors {
    /// What the drawing shows, for readers who don't see it.
    pub(crate) name: String,
    pub(crate) rows: Vec<ErrorRow>,
}

/// The errors of one study's figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ErrorRow {
    pub(crate) name: String,
    /// The largest error that the study allows, as a share of the published figure.
    pub(crate) bound: f64,
    pub(crate) dots: Vec<ErrorDot>,
}

/// A figure in an [`ErrorRow`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ErrorDot {
    /// Ours over published, less one.
    pub(crate) error: f64,
    /// Whether a hit would count: the figure is out of sample.
    pub(crate) counts: bool,
    /// The figure's name and values.
    pub(crate) label: String,
}

/// Values in the course of time. Both axes are linear and begin at zero.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Course {
    /// What the drawing shows, for readers who don't see it.
    pub(crate) name: String,
    pub(crate) y_title: String,
    /// Values by seconds.
    pub(crate) lines: Vec<Line>,
}

/// Functions that called each other, as wide as the time that they took: callers below, what they called above them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flame {
    /// What the drawing shows, for readers who don't see it.
    pub(crate) name: String,
    pub(crate) frames: Vec<Frame>,
}

/// A function in a [`Flame`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// The time with all that it called, in any unit.
    pub(crate) time: f64,
    /// What a reader is told who points at it.
    pub(crate) label: String,
    /// The number of its colour.
    pub(crate) colour: usize,
    /// What it called.
    pub(crate) frames: Vec<Frame>,
}
