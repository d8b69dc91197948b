//! A red-black tree of disjoint ranges, sorted by address.
//!
//! Nodes are in one vector and refer to each other by index; removed nodes are in a list. A range is inserted next to a
//! known neighbour, which needs no search but O(log n) for balancing. Removal is O(log n), finding a neighbour O(1) on
//! average.
//!
//! Sources: R. Bayer, "Symmetric binary B-trees", 1972; L. Guibas and R. Sedgewick, "A dichromatic framework for balanced
//! trees", 1978; T. Cormen, C. Leiserson, R. Rivest, C. Stein, "Introduction to Algorithms", 2009, chapter 13.

use alloc::vec;
use alloc::vec::Vec;

/// The index of a node, which does not change until the node is removed.
pub(crate) type Index = u32;

/// The index that stands for no node. Its entry in the vector is black, as the algorithms require; its parent is scratch.
pub(crate) const NIL: Index = 0;

const LEFT: usize = 0;
const RIGHT: usize = 1;

#[derive(Debug, Clone, Copy)]
struct Node {
    first: u64,
    last: u64,
    parent: Index,
    children: [Index; 2],
    red: bool,
    reserved: bool,
}

const BLANK: Node = Node { first: 0, last: 0, parent: NIL, children: [NIL; 2], red: false, reserved: false };

/// A red-black tree of ranges.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    root: Index,
    /// Removed nodes, each the left child of the one before.
    vacant: Index,
}

impl Tree {
    /// An empty tree.
    pub(crate) fn new() -> Self {
        Self { nodes: vec![BLANK], root: NIL, vacant: NIL }
    }

    /// The first page of a node's range.
    pub(crate) fn first(&self, node: Index) -> u64 {
        self.nodes[node as usize].first
    }

    /// The last page of a node's range.
    pub(crate) fn last(&self, node: Index) -> u64 {
        self.nodes[node as usize].last
    }

    /// Whether a node's range is reserved.
    pub(crate) fn is_reserved(&self, node: Index) -> bool {
        self.nodes[node as usize].reserved
    }

    /// The node of the highest range.
    pub(crate) fn highest(&self) -> Index {
        self.outermost(self.root, RIGHT)
    }

    /// The node of the next lower range.
    pub(crate) fn below(&self, node: Index) -> Index {
        self.neighbour(node, LEFT)
    }

    /// The node of the next higher range.
    pub(crate) fn above(&self, node: Index) -> Index {
        self.neighbour(node, RIGHT)
    }

    /// The node of the range that begins at a page.
    pub(crate) fn find(&self, first: u64) -> Option<Index> {
        let node = self.reaching(first);
        (node != NIL && self.first(node) == first).then_some(node)
    }

    /// The node of the lowest range whose last page is at or above `page`, or `NIL`.
    pub(crate) fn reaching(&self, page: u64) -> Index {
        let (mut node, mut found) = (self.root, NIL);
        while node != NIL {
            if self.last(node) >= page {
                found = node;
                node = self.child(node, LEFT);
            } else {
                node = self.child(node, RIGHT);
            }
        }
        found
    }

    /// Nodes from the highest range down.
    pub(crate) fn downward(&self) -> impl Iterator<Item = Index> {
        core::iter::successors(Some(self.highest()), |&node| Some(self.below(node)))
            .take_while(|&node| node != NIL)
    }

    /// Inserts a range, given the node of the next higher one, or `NIL` if it is to be the highest.
    pub(crate) fn insert_below(&mut self, above: Index, first: u64, last: u64) -> Index {
        self.insert(above, Node { first, last, red: true, ..BLANK })
    }

    /// Inserts a reserved range above all others, which is never freed.
    pub(crate) fn reserve_highest(&mut self, first: u64, last: u64) -> Index {
        self.insert(NIL, Node { first, last, red: true, reserved: true, ..BLANK })
    }

    /// Inserts a node directly below `above`, or above all others for `NIL`.
    fn insert(&mut self, above: Index, new: Node) -> Index {
        let (parent, side) = match above {
            NIL => (self.highest(), RIGHT),
            above if self.child(above, LEFT) == NIL => (above, LEFT),
            above => (self.outermost(self.child(above, LEFT), RIGHT), RIGHT),
        };
        let node = self.store_node(Node { parent, ..new });
        match parent {
            NIL => self.root = node,
            parent => self.nodes[parent as usize].children[side] = node,
        }
        self.balance_inserted(node);
        node
    }

    /// Removes a node.
    pub(crate) fn remove(&mut self, node: Index) {
        let [left, right] = self.nodes[node as usize].children;
        let (gone_red, filler) = if left == NIL || right == NIL {
            let only = if left == NIL { right } else { left };
            self.replace(node, only);
            (self.is_red(node), only)
        } else {
            self.replace_by_next(node, self.outermost(right, LEFT))
        };
        if !gone_red {
            self.balance_removed(filler);
        }
        self.nodes[node as usize] = Node { children: [self.vacant, NIL], ..BLANK };
        self.vacant = node;
    }

    /// Replaces `node`, which has two children, by `next`, the lowest node above it. Returns whether the position that
    /// disappeared was red, and the node that moved up into it.
    fn replace_by_next(&mut self, node: Index, next: Index) -> (bool, Index) {
        let (red, filler) = (self.is_red(next), self.child(next, RIGHT));
        if self.parent(next) == node {
            self.nodes[filler as usize].parent = next;
        } else {
            self.replace(next, filler);
            self.set_child(next, RIGHT, self.child(node, RIGHT));
        }
        self.replace(node, next);
        self.set_child(next, LEFT, self.child(node, LEFT));
        self.nodes[next as usize].red = self.is_red(node);
        (red, filler)
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>()) as u64
    }

    /// Stores a node in a removed one's entry or a new one, and returns its index.
    fn store_node(&mut self, new: Node) -> Index {
        match self.vacant {
            NIL => {
                self.nodes.push(new);
                (self.nodes.len() - 1) as Index
            }
            node => {
                self.vacant = self.child(node, LEFT);
                self.nodes[node as usize] = new;
                node
            }
        }
    }

    /// A node's child on a side: 0 is left, 1 is right.
    fn child(&self, node: Index, side: usize) -> Index {
        self.nodes[node as usize].children[side]
    }

    /// A node's parent.
    fn parent(&self, node: Index) -> Index {
        self.nodes[node as usize].parent
    }

    /// Whether a node is red.
    fn is_red(&self, node: Index) -> bool {
        self.nodes[node as usize].red
    }

    /// Sets a node's colour.
    fn paint(&mut self, node: Index, red: bool) {
        self.nodes[node as usize].red = red;
    }

    /// The last node on the way from `node` to one side.
    fn outermost(&self, mut node: Index, side: usize) -> Index {
        while self.child(node, side) != NIL {
            node = self.child(node, side);
        }
        node
    }

    /// The node of the next range to one side, or `NIL`.
    fn neighbour(&self, mut node: Index, side: usize) -> Index {
        match self.child(node, side) {
            NIL => {
                let mut parent = self.parent(node);
                while parent != NIL && self.child(parent, side) == node {
                    (node, parent) = (parent, self.parent(parent));
                }
                parent
            }
            child => self.outermost(child, 1 - side),
        }
    }

    /// Makes `child` the child of `parent` on one side.
    fn set_child(&mut self, parent: Index, side: usize, child: Index) {
        self.nodes[parent as usize].children[side] = child;
        self.nodes[child as usize].parent = parent;
    }

    /// Replaces `old` by `new`, which may be `NIL`, as a child of its parent or as the root.
    fn replace(&mut self, old: Index, new: Index) {
        let parent = self.parent(old);
        match parent {
            NIL => self.root = new,
            _ if self.child(parent, LEFT) == old => self.nodes[parent as usize].children[LEFT] = new,
            _ => self.nodes[parent as usize].children[RIGHT] = new,
        }
        self.nodes[new as usize].parent = parent;
    }

    /// Moves `node` down to `side`, and its child of the other side up.
    fn rotate(&mut self, node: Index, side: usize) {
        let up = self.child(node, 1 - side);
        let between = self.child(up, side);
        self.nodes[node as usize].children[1 - side] = between;
        if between != NIL {
            self.nodes[between as usize].parent = node;
        }
        self.replace(node, up);
        self.set_child(up, side, node);
    }

    /// Restores the colour rules after `node` was inserted as a red node.
    fn balance_inserted(&mut self, mut node: Index) {
        while self.is_red(self.parent(node)) {
            let mut parent = self.parent(node);
            let grandparent = self.parent(parent);
            let side = usize::from(self.child(grandparent, RIGHT) == parent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_red(uncle) {
                self.paint(parent, false);
                self.paint(uncle, false);
                self.paint(grandparent, true);
                node = grandparent;
                continue;
            }
            if node == self.child(parent, 1 - side) {
                self.rotate(parent, side);
                (node, parent) = (parent, node);
            }
            self.paint(parent, false);
            self.paint(grandparent, true);
            self.rotate(grandparent, 1 - side);
        }
        self.paint(self.root, false);
    }

    /// Restores the colour rules after a black node above `node`, which may be `NIL`, was removed.
    fn balance_removed(&mut self, mut node: Index) {
        while node != self.root && !self.is_red(node) {
            let parent = self.parent(node);
            let side = usize::from(self.child(parent, RIGHT) == node);
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.paint(sibling, false);
                self.paint(parent, true);
                self.rotate(parent, side);
                sibling = self.child(parent, 1 - side);
            }
            let (near, far) = (self.child(sibling, side), self.child(sibling, 1 - side));
            if !self.is_red(near) && !self.is_red(far) {
                self.paint(sibling, true);
                node = parent;
                continue;
            }
            if !self.is_red(far) {
                self.paint(near, false);
                self.paint(sibling, true);
                self.rotate(sibling, 1 - side);
                sibling = near;
            }
            self.paint(sibling, self.is_red(parent));
            self.paint(parent, false);
            self.paint(self.child(sibling, 1 - side), false);
            self.rotate(parent, side);
            node = self.root;
        }
        self.paint(node, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tree {
        /// The black height of a subtree, if it obeys the colour rules and its parent links are right.
        fn black_height(&self, node: Index) -> Option<u32> {
            if node == NIL {
                return (!self.is_red(NIL)).then_some(0);
            }
            let [left, right] = self.nodes[node as usize].children;
            let heights = (self.black_height(left)?, self.black_height(right)?);
            let of_node = [left, right].iter().all(|&child| child == NIL || self.parent(child) == node);
            let red_pair = self.is_red(node) && (self.is_red(left) || self.is_red(right));
            (heights.0 == heights.1 && of_node && !red_pair)
                .then(|| heights.0 + u32::from(!self.is_red(node)))
        }
    }

    #[test]
    fn the_tree_stays_balanced_and_sorted() {
        let (mut tree, mut state) = (Tree::new(), 1_u64);
        let mut model = alloc::collections::BTreeMap::new();
        for step in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) % 257 * 4;
            match model.remove(&at) {
                Some(node) => tree.remove(node),
                None => {
                    let above = model.range(at..).next().map_or(NIL, |(_, &node)| node);
                    assert_eq!(tree.reaching(at), above);
                    model.insert(at, tree.insert_below(above, at, at + 2));
                }
            }
            assert!(tree.black_height(tree.root).is_some() && !tree.is_red(tree.root), "step {step}");
            let firsts: Vec<u64> = tree.downward().map(|node| tree.first(node)).collect();
            assert!(firsts.iter().eq(model.keys().rev()), "step {step}");
            assert_eq!(tree.find(at), model.get(&at).copied());
        }
        assert!(tree.nodes.len() <= 258, "removed nodes are reused");
        let mut node = tree.reaching(0);
        for &expected in model.values() {
            assert_eq!(node, expected);
            node = tree.above(node);
        }
        assert_eq!(node, NIL);
    }
}
