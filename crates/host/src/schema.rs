//! JSON Schemas of types that serialise themselves as something simpler.

use crate::Bdf;
use crate::diagnose::Id;
use crate::memory::PhysRange;
use crate::pci::LinkSpeed;
use crate::pci::error::{CorrectableErrors, UncorrectableErrors};
use crate::pci::express::{PayloadSize, PortType};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;

macro_rules! serialises_as {
    ($($kind:ty => $simple:ty),+ $(,)?) => {$(
        impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                <$simple>::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$simple>::json_schema(generator)
            }
        }
    )+};
}

serialises_as! {
    Bdf => String,
    PhysRange => String,
    PortType => String,
    LinkSpeed => f64,
    PayloadSize => u32,
    UncorrectableErrors => Vec<String>,
    CorrectableErrors => Vec<String>,
}

impl JsonSchema for Id {
    fn schema_name() -> Cow<'static, str> {
        "FindingId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = Self::ALL.iter().map(|id| id.word()).collect();
        schemars::json_schema!({ "type": "string", "enum": words })
    }
}
