//! The JSON Schema of a type that serialises itself as something simpler.

use crate::diagnose::Id;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "FindingId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = Self::ALL.iter().map(|id| id.word()).collect();
        schemars::json_schema!({ "type": "string", "enum": words })
    }
}
