//! A value of a field or of a result.

use std::fmt::{self, Display, Formatter};

/// A value of a field or of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Any number.
    Float(f64),
    /// A word, or a list as TOML writes it.
    Word(String),
    /// Yes or no.
    Flag(bool),
}

impl Display for Value {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(out),
            Self::Float(number) => number.fmt(out),
            Self::Word(word) => word.fmt(out),
            Self::Flag(flag) => flag.fmt(out),
        }
    }
}

impl From<&toml::Value> for Value {
    fn from(value: &toml::Value) -> Self {
        match value {
            toml::Value::Integer(number) => Self::Integer(*number),
            toml::Value::Float(number) => Self::Float(*number),
            toml::Value::String(word) => Self::Word(word.clone()),
            toml::Value::Boolean(flag) => Self::Flag(*flag),
            list => Self::Word(list.to_string()),
        }
    }
}

/// The text of a value that keys are made of: one for each value, however a file writes it. Of a number it has the bits, which no release
/// of a formatter changes.
pub(crate) fn canonical(value: &toml::Value) -> String {
    match value {
        toml::Value::Integer(number) => match exact_float(*number) {
            Some(float) => format!("{:016x}", float.to_bits()),
            None => format!("i{number}"),
        },
        // Adding nothing makes 0.0 of -0.0.
        toml::Value::Float(number) => format!("{:016x}", (number + 0.0).to_bits()),
        toml::Value::String(word) => format!("w{}:{word}", word.len()),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Datetime(time) => format!("t{time}"),
        toml::Value::Array(list) => {
            format!("[{}]", list.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        toml::Value::Table(table) => {
            // A table is sorted by name.
            let fields =
                table.iter().map(|(name, value)| format!("{}:{name}={}", name.len(), canonical(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
    }
}

/// The float that is this number; `None` if there is none.
fn exact_float(number: i64) -> Option<f64> {
    let float = number as f64;
    (number.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS).then_some(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        canonical(&toml::Value::Table(text.parse().unwrap()))
    }

    #[test]
    fn equal_values_have_one_text_and_others_have_others() {
        assert_eq!(of("a = 1\nb = 'x'"), of("b = \"x\"\na = 1.0"));
        assert_eq!(of("a = 0"), of("a = -0.0"));
        assert_eq!(of("a = 9007199254740992"), of("a = 9007199254740992.0"));
        let different = [
            "a = 1",
            "a = -1",
            "a = 1.5",
            "a = '1'",
            "a = true",
            "a = [1]",
            "a = [1, 1]",
            "a = [[1], 1]",
            "a = { b = 1 }",
            "b = 1",
            "a = 9007199254740993",
            "a = 9007199254740994",
            "a = 'x,1:b=w1:y'",
            "a = 'x'\nb = 'y'",
            "a = []",
            "",
        ];
        for (at, one) in different.iter().enumerate() {
            for other in &different[at + 1..] {
                assert_ne!(of(one), of(other), "{one} and {other}");
            }
        }
    }
}
