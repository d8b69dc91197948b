//! Plans of sweeps.

use crate::parts;
use sweep::{Key, Plan};

/// A key and a plan: a plan is refused with its name, or each of its first points, and its last, is or is not a machine.
pub fn sweep_plan(data: &[u8]) {
    let [key, plan] = parts(data).map(String::from_utf8_lossy);
    if let Ok(key) = key.parse::<Key>() {
        assert!(key.to_string().parse::<Key>().is_ok_and(|again| again == key));
    }
    match Plan::read(&plan, "plan.toml") {
        Ok(plan) => {
            let _ = plan.base_key().map_err(|error| error.to_string());
            for position in (0..plan.len()).take(8).chain([plan.len() - 1]) {
                assert_eq!(plan.check(position).is_ok(), plan.point(position).is_ok());
            }
        }
        Err(error) => assert!(error.to_string().starts_with("plan.toml"), "{error}"),
    }
}
