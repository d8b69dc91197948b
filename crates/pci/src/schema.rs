//! JSON Schemas of types that serialise themselves as something simpler.

use crate::error::{CorrectableErrors, UncorrectableErrors};
use crate::express::{PayloadSize, PortType};
use crate::{Bdf, LinkSpeed};
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
    PortType => String,
    LinkSpeed => f64,
    PayloadSize => u32,
    UncorrectableErrors => Vec<String>,
    CorrectableErrors => Vec<String>,
}
