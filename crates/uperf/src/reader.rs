//! From XML to a profile.

use super::error::{Problem, ProfileError};
use super::flowop::{Flowop, Operation};
use super::profile::{Group, Profile, Repeat, Strands, Transaction};
use super::quantity::{self, NUMBER, NUMBER_OR_NONE, SPAN};
use super::variables::Variables;
use roxmltree::{Attribute, Document, Error, Node, ParsingOptions};

/// uperf's own profiles have a few KiB. An element's attributes are held against each other, which takes the square of them.
const BYTES_MAX: usize = 64 << 10;
/// What declares a namespace, of which uperf has none. Those of a deep nest are gathered anew at each level, which takes minutes.
const NAMESPACE: &str = "xmlns";

impl Profile {
    /// Reads a profile's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// The first thing that uperf would not take, or take for something else than is meant.
    pub fn read(text: &str, file: &str, variables: &Variables) -> Result<Self, ProfileError> {
        let read = parse_document(text)
            .and_then(|document| Reader { document: &document, file, variables }.read_profile());
        read.map_err(|Misplaced { at: (line, column), problem }| ProfileError {
            file: file.to_owned(),
            line,
            column,
            problem,
        })
    }
}

/// A problem, and its line and column.
struct Misplaced {
    at: (u32, u32),
    problem: Problem,
}

/// Parses the XML.
fn parse_document(text: &str) -> Result<Document<'_>, Misplaced> {
    if text.len() > BYTES_MAX {
        let problem = Problem::Length { bytes: text.len(), bytes_max: BYTES_MAX };
        return Err(Misplaced { at: (1, 1), problem });
    }
    if let Some(before) = text.find(NAMESPACE).and_then(|byte| text.get(..byte)) {
        return Err(Misplaced { at: end(before), problem: Problem::Namespace });
    }
    // A DTD, which entities that grow need, is refused by default.
    let options = ParsingOptions::default();
    Document::parse_with_options(text, options).map_err(|error| {
        let at = match error {
            Error::UnclosedRootNode | Error::UnexpectedEndOfStream | Error::NoRootNode => end(text),
            _ => (error.pos().row, error.pos().col),
        };
        Misplaced { at, problem: Problem::Xml(error) }
    })
}

/// Where a text ends.
fn end(text: &str) -> (u32, u32) {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let lines = text.matches('\n').count();
    (lines as u32 + 1, line.chars().count() as u32 + 1)
}

/// A profile's XML, and what its variables stand for.
#[derive(Clone, Copy)]
struct Reader<'a> {
    document: &'a Document<'a>,
    file: &'a str,
    variables: &'a Variables,
}

impl<'a> Reader<'a> {
    /// Reads the profile.
    fn read_profile(self) -> Result<Profile, Misplaced> {
        let root = self.document.root_element();
        self.check_name(root, "profile")?;
        let [name] = self.attributes(root, ["name"], "name=")?;
        let name = name.ok_or_else(|| self.missing(root, "name="))?;
        let name = self.resolve_value(name)?.to_owned();
        let groups = self.children(root, "group", Self::read_group)?;
        Ok(Profile { name, file: self.file.to_owned(), groups })
    }

    /// Reads a group.
    fn read_group(self, node: Node<'a, 'a>) -> Result<Group, Misplaced> {
        let names = ["name", "nthreads", "nprocs"];
        let [name, threads, processes] =
            self.attributes(node, names, "nthreads= or nprocs=, and perhaps name=")?;
        let number = |attribute| self.read_value(attribute, quantity::number, NUMBER);
        let strands = match (threads, processes) {
            (Some(threads), None) => Strands::Threads(number(threads)?),
            (None, Some(processes)) => Strands::Processes(number(processes)?),
            (Some(_), Some(second)) => return Err(self.both(second, "nthreads", "nprocs")),
            (None, None) => return Err(self.missing(node, "nthreads= or nprocs=")),
        };
        let name = name.map(|name| self.resolve_value(name)).transpose()?.map(str::to_owned);
        let transactions = self.children(node, "transaction", Self::read_transaction)?;
        Ok(Group { line: self.line(node), name, strands, transactions })
    }

    /// Reads a transaction.
    fn read_transaction(self, node: Node<'a, 'a>) -> Result<Transaction, Misplaced> {
        Ok(Transaction {
            line: self.line(node),
            repeat: self.read_repeat(node)?,
            flowops: self.children(node, "flowop", Self::read_flowop)?,
        })
    }

    /// Reads how often, or how long, a transaction is repeated.
    fn read_repeat(self, node: Node<'a, 'a>) -> Result<Repeat, Misplaced> {
        let names = ["iterations", "duration", "rate"];
        let [times, duration, rate] =
            self.attributes(node, names, "iterations=, or duration= and perhaps rate=")?;
        let number = |rate| self.read_value(rate, quantity::number, NUMBER);
        match (times, duration, rate) {
            (Some(_), Some(second), _) => Err(self.both(second, "iterations", "duration")),
            (_, None, Some(rate)) => Err(self.at(rate.range().start, Problem::RateWithoutDuration)),
            (None, Some(duration), rate) => Ok(Repeat::For {
                span: self.read_value(duration, quantity::span, SPAN)?,
                rate_per_second: rate.map(number).transpose()?,
            }),
            (Some(times), None, None) => {
                self.read_value(times, quantity::number_or_none, NUMBER_OR_NONE).map(Repeat::Times)
            }
            (None, None, None) => Ok(Repeat::Times(1)),
        }
    }

    /// Reads an operation.
    fn read_flowop(self, node: Node<'a, 'a>) -> Result<Flowop, Misplaced> {
        let [operation, options] = self.attributes(node, ["type", "options"], "type= and options=")?;
        let operation = operation.ok_or_else(|| self.missing(node, "type="))?;
        let operation = self.read_value(operation, Operation::from_name, Operation::NAMES)?;
        let mut flowop = Flowop::new(operation, self.line(node));
        if let Some(options) = options {
            let at = |problem| self.at(options.range_value().start, problem);
            flowop.take(options.value(), self.variables).map_err(at)?;
        }
        match node.children().find(is_content) {
            None => Ok(flowop),
            Some(child) => Err(self.content(child, "</flowop>")),
        }
    }

    /// Reads all that is in a node: elements of one name, at least one.
    fn children<Child>(
        self,
        node: Node<'a, 'a>,
        name: &str,
        read: impl Fn(Self, Node<'a, 'a>) -> Result<Child, Misplaced>,
    ) -> Result<Vec<Child>, Misplaced> {
        let mut all = Vec::new();
        for child in node.children().filter(is_content) {
            self.check_name(child, name)?;
            all.push(read(self, child)?);
        }
        if all.is_empty() { Err(self.missing(node, &format!("<{name}>"))) } else { Ok(all) }
    }

    /// Checks the name of an element.
    fn check_name(self, node: Node<'a, 'a>, name: &str) -> Result<(), Misplaced> {
        if node.has_tag_name(name) { Ok(()) } else { Err(self.content(node, &format!("<{name}>"))) }
    }

    /// The attributes of these names, which are all that a node may have.
    fn attributes<const N: usize>(
        self,
        node: Node<'a, 'a>,
        names: [&str; N],
        expected: &'static str,
    ) -> Result<[Option<Attribute<'a, 'a>>; N], Misplaced> {
        let Some(unknown) = node.attributes().find(|attribute| !names.contains(&attribute.name())) else {
            return Ok(names.map(|name| node.attribute_node(name)));
        };
        let (element, attribute) = (name(node), unknown.name().to_owned());
        Err(self.at(unknown.range().start, Problem::Attribute { element, attribute, expected }))
    }

    /// Reads an attribute's value by a function that parses it.
    fn read_value<Value>(
        self,
        attribute: Attribute<'a, 'a>,
        read: impl Fn(&str) -> Option<Value>,
        expected: &'static str,
    ) -> Result<Value, Misplaced> {
        let text = self.resolve_value(attribute)?;
        let wrong = || Problem::value(attribute.name(), text, expected);
        read(text).ok_or_else(|| self.at(attribute.range_value().start, wrong()))
    }

    /// An attribute's value, with variables replaced.
    fn resolve_value(self, attribute: Attribute<'a, 'a>) -> Result<&'a str, Misplaced> {
        let at = |problem| self.at(attribute.range_value().start, problem);
        self.variables.resolve(attribute.value()).map_err(at)
    }

    /// The line of an element.
    fn line(self, node: Node<'a, 'a>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    /// The error for an element that lacks an attribute or child.
    fn missing(self, node: Node<'a, 'a>, missing: &str) -> Misplaced {
        self.at(node.range().start, Problem::Missing { element: name(node), missing: missing.to_owned() })
    }

    /// The error for two attributes that exclude each other.
    fn both(self, at: Attribute<'a, 'a>, first: &'static str, second: &'static str) -> Misplaced {
        self.at(at.range().start, Problem::Both { first, second })
    }

    /// The error for content that the element must not have.
    fn content(self, node: Node<'a, 'a>, expected: &str) -> Misplaced {
        let found = if node.is_element() { format!("<{}>", name(node)) } else { "text".to_owned() };
        self.at(node.range().start, Problem::Content { found, expected: expected.to_owned() })
    }

    fn at(self, byte: usize, problem: Problem) -> Misplaced {
        let position = self.document.text_pos_at(byte);
        Misplaced { at: (position.row, position.col), problem }
    }
}

fn name(node: Node<'_, '_>) -> String {
    node.tag_name().name().to_owned()
}

/// Whether a node says something: comments and white space don't.
fn is_content(node: &Node<'_, '_>) -> bool {
    node.is_element() || node.is_text() && node.text().is_some_and(|text| !text.trim().is_empty())
}
