//! Commands that have ended, in that order, until their results are fetched.

/// Ends the list.
const NONE: u32 = u32::MAX;

/// Neighbours of a tag in the list.
#[derive(Debug, Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

/// A list of tags, each at most once. Any of them is removed in the same time, since results are fetched in any order.
#[derive(Debug)]
pub(crate) struct Ended {
    /// By tag.
    links: Box<[Links]>,
    first: u32,
    last: u32,
}

impl Ended {
    /// None of as many tags.
    pub(crate) fn new(tags: usize) -> Self {
        Self { links: vec![Links { before: NONE, after: NONE }; tags].into(), first: NONE, last: NONE }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The one that ended first.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Adds a tag that is not in the list.
    pub(crate) fn push(&mut self, tag: u32) {
        self.links[tag as usize] = Links { before: self.last, after: NONE };
        match self.links.get_mut(self.last as usize) {
            Some(last) => last.after = tag,
            None => self.first = tag,
        }
        self.last = tag;
    }

    /// Removes a tag that is in the list.
    pub(crate) fn remove(&mut self, tag: u32) {
        let Links { before, after } = self.links[tag as usize];
        match self.links.get_mut(before as usize) {
            Some(links) => links.after = after,
            None => self.first = after,
        }
        match self.links.get_mut(after as usize) {
            Some(links) => links.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(ended: &mut Ended) -> Vec<u32> {
        let remove = |ended: &mut Ended| ended.first().inspect(|tag| ended.remove(*tag));
        std::iter::from_fn(|| remove(ended)).collect()
    }

    #[test]
    fn the_first_comes_first_whatever_was_removed() {
        for removed in 0..4 {
            let mut ended = Ended::new(4);
            [2, 0, 3, 1].into_iter().for_each(|tag| ended.push(tag));
            ended.remove(removed);
            ended.push(removed);
            let mut left = vec![2, 0, 3, 1];
            left.retain(|tag| *tag != removed);
            left.push(removed);
            assert_eq!(drain(&mut ended), left);
            assert!(ended.is_empty());
            ended.push(removed);
            assert_eq!(drain(&mut ended), [removed], "it can be used again");
        }
    }
}
