//! Deserialises parsed TOML.
//!
//! The parser's own deserialiser can also give places and dates to a type, for which a compiler builds each type's code four times over;
//! here it is built once.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};
use std::fmt::Display;
use std::slice;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

/// A value in a text.
#[derive(Clone, Copy)]
pub(crate) struct ParsedValue<'v> {
    value: &'v DeValue<'v>,
    begins: usize,
}

/// Why a value is not what was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct ValueProblem {
    pub(crate) problem: String,
    /// The byte where the innermost value or key begins that is wrong.
    pub(crate) begins: Option<usize>,
}

impl Error for ValueProblem {
    fn custom<T: Display>(problem: T) -> Self {
        Self { problem: problem.to_string(), begins: None }
    }
}

impl ValueProblem {
    /// The same problem at a place, unless it has one.
    fn at(self, begins: usize) -> Self {
        Self { begins: self.begins.or(Some(begins)), ..self }
    }
}

impl<'v> ParsedValue<'v> {
    /// All of a text.
    pub(crate) fn whole(value: &'v DeValue<'v>) -> Self {
        Self { value, begins: 0 }
    }

    fn of(value: &'v Spanned<DeValue<'v>>) -> Self {
        Self { value: value.get_ref(), begins: value.span().start }
    }

    /// Reads a value within another.
    fn read<T: DeserializeSeed<'v>>(self, seed: T) -> Result<T::Value, ValueProblem> {
        seed.deserialize(self).map_err(|problem| problem.at(self.begins))
    }
}

impl<'de> Deserializer<'de> for ParsedValue<'de> {
    type Error = ValueProblem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueProblem> {
        match self.value {
            DeValue::String(text) => visitor.visit_borrowed_str(text),
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Integer(written) => match Integer::of(written) {
                Some(Integer::Signed(number)) => visitor.visit_i64(number),
                Some(Integer::Unsigned(number)) => visitor.visit_u64(number),
                None => Err(Error::custom("integer number overflowed")),
            },
            DeValue::Float(written) => match float(written.as_str()) {
                Some(number) => visitor.visit_f64(number),
                None => Err(Error::custom("floating-point number overflowed")),
            },
            DeValue::Datetime(_) => Err(Error::invalid_type(Unexpected::Other("date or time"), &visitor)),
            DeValue::Array(array) => visitor.visit_seq(Elements { rest: array.iter() }),
            DeValue::Table(table) => visitor.visit_map(Entries { rest: table.into_iter(), value: None }),
        }
    }

    // A field that is there has a value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueProblem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueProblem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueProblem> {
        match self.value {
            DeValue::String(name) => visitor.visit_enum(StrDeserializer::new(name)),
            DeValue::Table(table) => match Variant::of(table) {
                Some(variant) => visitor.visit_enum(variant),
                None => Err(Error::custom(format_args!("a table of {}; expected one field", table.len()))),
            },
            _ => Err(Error::custom("expected a string or a table")),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier ignored_any
    }
}

/// An integer of 64 bits.
enum Integer {
    Signed(i64),
    Unsigned(u64),
}

impl Integer {
    fn of(written: &DeInteger<'_>) -> Option<Self> {
        let (digits, radix) = (written.as_str(), written.radix());
        let signed = i64::from_str_radix(digits, radix).map(Self::Signed);
        signed.or_else(|_| u64::from_str_radix(digits, radix).map(Self::Unsigned)).ok()
    }
}

/// A number, which is infinite only if `inf` was written.
fn float(written: &str) -> Option<f64> {
    let number: f64 = written.parse().ok()?;
    (number.is_finite() || number.is_nan() || written.contains("inf")).then_some(number)
}

/// The rest of an array.
struct Elements<'v> {
    rest: slice::Iter<'v, Spanned<DeValue<'v>>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = ValueProblem;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueProblem> {
        self.rest.next().map(|element| ParsedValue::of(element).read(seed)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The rest of a table, and the value of the key that was read last.
struct Entries<'v> {
    rest: <&'v DeTable<'v> as IntoIterator>::IntoIter,
    value: Option<ParsedValue<'v>>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ValueProblem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ValueProblem> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(ParsedValue::of(value));
        read_key(key, seed).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ValueProblem> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value was read before its key"))?;
        value.read(seed)
    }
}

fn read_key<'de, K: DeserializeSeed<'de>>(
    key: &'de Spanned<DeString<'de>>,
    seed: K,
) -> Result<K::Value, ValueProblem> {
    let name: StrDeserializer<'_, ValueProblem> = StrDeserializer::new(key.get_ref());
    seed.deserialize(name).map_err(|problem| problem.at(key.span().start))
}

/// A variant with content: a table whose only key is its name.
struct Variant<'v> {
    name: &'v Spanned<DeString<'v>>,
    content: ParsedValue<'v>,
}

impl<'v> Variant<'v> {
    fn of(table: &'v DeTable<'v>) -> Option<Self> {
        let mut fields = table.iter();
        match (fields.next(), fields.next()) {
            (Some((name, content)), None) => Some(Self { name, content: ParsedValue::of(content) }),
            _ => None,
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ValueProblem;
    type Variant = ParsedValue<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, ParsedValue<'de>), ValueProblem> {
        Ok((read_key(self.name, seed)?, self.content))
    }
}

impl<'de> VariantAccess<'de> for ParsedValue<'de> {
    type Error = ValueProblem;

    fn unit_variant(self) -> Result<(), ValueProblem> {
        match self.value {
            DeValue::Table(table) if table.is_empty() => Ok(()),
            _ => Err(ValueProblem::custom("expected an empty table").at(self.begins)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ValueProblem> {
        self.read(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ValueProblem> {
        self.deserialize_any(visitor).map_err(|problem| problem.at(self.begins))
    }

    /// Unknown fields of a variant are always refused, as by the parser.
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueProblem> {
        let mut keys = self.value.as_table().into_iter().flat_map(DeTable::keys);
        if let Some(unknown) = keys.find(|key| !fields.contains(&key.get_ref().as_ref())) {
            let problem: ValueProblem = Error::unknown_field(unknown.get_ref(), fields);
            return Err(problem.at(unknown.span().start));
        }
        self.deserialize_any(visitor).map_err(|problem| problem.at(self.begins))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use crate::TomlText;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Adapter {
        name: String,
        lanes: Option<u8>,
        #[serde(default)]
        offset: i64,
        speed: f64,
        queues: Vec<Queue>,
        #[serde(default)]
        named: BTreeMap<Kind, u64>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Queue {
        Off,
        Deep(u32),
        Pair(u8, u8),
        Wide { entries: u32, vector: Option<u16> },
    }

    /// A value that is refused after it was read.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(try_from = "u32")]
    struct Even(u32);

    impl TryFrom<u32> for Even {
        type Error = &'static str;

        fn try_from(number: u32) -> Result<Self, &'static str> {
            if number.is_multiple_of(2) { Ok(Self(number)) } else { Err("odd") }
        }
    }

    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Read,
        Write,
    }

    const ADAPTER: &str = "name = \"a\\tb\"\nlanes = 0x10\noffset = -1_000\nspeed = 1e9\n\
        queues = [\"Off\", { Deep = 7 }, { Pair = [1, 2] }, { Wide = { entries = 3 } }, { Off = {} }]\n\
        [named]\nread = 18446744073709551615\nwrite = 0b11\n";

    /// What the parser's own deserialiser makes of a text: the value, or the line of the problem and its text.
    fn of_parser<T: DeserializeOwned>(text: &str) -> Result<T, (usize, String)> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            (1 + text[..at].matches('\n').count(), error.message().to_owned())
        })
    }

    fn of_ours<T: DeserializeOwned>(text: &str) -> Result<T, (usize, String)> {
        TomlText::new(text, "").read().map_err(|error| (error.line, error.problem))
    }

    fn assert_same<T: DeserializeOwned + Debug + PartialEq>(text: &str) {
        assert_eq!(of_ours::<T>(text), of_parser::<T>(text), "{text}");
    }

    #[test]
    fn every_form_is_read_as_by_the_parser() {
        assert!(of_ours::<Adapter>(ADAPTER).is_ok());
        assert_same::<Adapter>(ADAPTER);
        for (key, value) in [("speed", "inf"), ("speed", "-inf"), ("lanes", "0o17"), ("speed", "3")] {
            let written = ADAPTER.lines().find(|line| line.starts_with(key)).unwrap();
            assert_same::<Adapter>(&ADAPTER.replace(written, &format!("{key} = {value}")));
        }
    }

    #[test]
    fn problems_have_the_parser_s_words_and_lines() {
        for (from, to) in [
            ("name = \"a\\tb\"", "name = 5"),
            ("lanes = 0x10", "lanes = 256"),
            ("lanes = 0x10", "lanes = -1"),
            ("speed = 1e9\n", ""),
            ("speed = 1e9", "speed = true"),
            ("speed = 1e9", "speed = 1e999"),
            ("offset =", "offsets ="),
            ("Deep = 7", "Deep = 'x'"),
            ("Deep = 7", "Deeper = 7"),
            ("\"Off\"", "\"On\""),
            ("entries = 3", "vector = 3"),
            ("read =", "trim ="),
            ("18446744073709551615", "340282366920938463463374607431768211456"),
            ("offset = -1_000", "offset = \n"),
        ] {
            assert!(ADAPTER.contains(from), "{from}");
            let text = ADAPTER.replacen(from, to, 1);
            assert!(of_ours::<Adapter>(&text).is_err(), "{text}");
            assert_same::<Adapter>(&text);
        }
    }

    #[test]
    fn a_value_that_is_refused_after_it_was_read_has_its_line() {
        let text = "[a]\nb = 2\n\nc = 3\n[d]\n";
        assert_same::<BTreeMap<String, BTreeMap<String, Even>>>(text);
        let refused = of_ours::<BTreeMap<String, BTreeMap<String, Even>>>(text).unwrap_err();
        assert_eq!(refused, (4, "odd".to_owned()));
        for wrong in ["3", "'x'"] {
            let refused = of_ours::<BTreeMap<String, Vec<Even>>>(&format!("a = [\n2,\n{wrong},\n4]\n"));
            assert_eq!(refused.unwrap_err().0, 3, "{wrong}");
        }
        assert_same::<BTreeMap<String, Queue>>("[a.Wide]\nvector = 1\n[b]\nDeep = 1\n");
    }

    #[test]
    fn dates_variants_with_unknown_fields_and_tables_of_two_variants_are_refused() {
        for (from, to, line, problem) in [
            ("-1_000", "2026-01-01", 3, "invalid type: date or time, expected i64"),
            (
                "entries = 3",
                "entries = 3, entry = 4",
                5,
                "unknown field `entry`, expected `entries` or `vector`",
            ),
            ("{ Deep = 7 }", "{ Deep = 7, Off = {} }", 5, "a table of 2; expected one field"),
            ("{ Off = {} }", "{ Off = 1 }", 5, "expected an empty table"),
            ("\"Off\"", "1", 5, "expected a string or a table"),
        ] {
            let refused = of_ours::<Adapter>(&ADAPTER.replacen(from, to, 1)).unwrap_err();
            assert_eq!(refused, (line, problem.to_owned()), "{to}");
        }
    }

    proptest! {
        // Of integers beyond 64 bits the parser says which they are.
        #[test]
        fn any_table_is_read_as_by_the_parser(text in "([a-c]{1,2} = (-?[0-9]{1,18}|[0-9]\\.[0-9]e[0-9]{1,3}|true|\"[a-z\u{e9}]{0,3}\"|\\[1, 2\\]|\\{ a = 1 \\})\n|\\[[d-f]\\]\n|\\[\\[[g-h]\\]\\]\n){0,8}") {
            assert_same::<toml::Table>(&text);
            assert_same::<BTreeMap<String, f64>>(&text);
            assert_same::<BTreeMap<String, Vec<u8>>>(&text);
        }
    }
}
