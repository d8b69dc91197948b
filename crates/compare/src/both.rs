//! The same of both sides of a comparison.

use crate::comparison::Side;

/// The same of both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Both<T> {
    pub(crate) before: T,
    pub(crate) after: T,
}

impl<T> Both<T> {
    pub(crate) fn map<U>(self, mut of: impl FnMut(T) -> U) -> Both<U> {
        Both { before: of(self.before), after: of(self.after) }
    }

    /// Stops at the first error, before's first.
    pub(crate) fn try_map<U, E>(self, mut of: impl FnMut(T) -> Result<U, E>) -> Result<Both<U>, E> {
        Ok(Both { before: of(self.before)?, after: of(self.after)? })
    }

    pub(crate) fn as_ref(&self) -> Both<&T> {
        Both { before: &self.before, after: &self.after }
    }

    pub(crate) fn with_sides(self) -> [(Side, T); 2] {
        [(Side::Before, self.before), (Side::After, self.after)]
    }
}

impl<T> Both<Vec<T>> {
    /// Of each side a slice.
    pub(crate) fn as_slices(&self) -> Both<&[T]> {
        Both { before: &self.before, after: &self.after }
    }

    /// Before's, then after's, each with its side and its place there.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Side, usize, &T)> {
        let of = |(side, all): (Side, &'_ Vec<T>)| -> Vec<(Side, usize)> {
            (0..all.len()).map(|place| (side, place)).collect()
        };
        let places = self.as_ref().with_sides().map(of).concat();
        places
            .into_iter()
            .zip(self.before.iter().chain(&self.after))
            .map(|((side, place), one)| (side, place, one))
    }
}
