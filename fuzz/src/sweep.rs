//! Plans of sweeps.

use crate::parts;
use model::sweep::{Key, Plan, Shard};

/// A plan, a shard and a key: a plan is refused with its name, or each of its first points is or is not a machine.
pub fn sweep_plan(data: &[u8]) {
    let [shard, key, plan] = parts(data).map(String::from_utf8_lossy);
    let shard = shard.parse::<Shard>();
    if let Ok(shard) = &shard {
        assert!(shard.to_string().parse::<Shard>().is_ok_and(|again| again.to_string() == shard.to_string()));
    }
    if let Ok(key) = key.parse::<Key>() {
        assert!(key.to_string().parse::<Key>().is_ok_and(|again| again == key));
    }
    match Plan::read(&plan, "plan.toml") {
        Ok(plan) => {
            let _ = plan.base_key().map_err(|error| error.to_string());
            let positions = shard.map(|shard| shard.positions(plan.len()).take(8).collect());
            let positions: Vec<u64> = positions.unwrap_or_else(|_| vec![0, plan.len() - 1]);
            for position in positions {
                assert_eq!(plan.check(position).is_ok(), plan.point(position).is_ok());
            }
        }
        Err(error) => assert!(error.to_string().starts_with("plan.toml"), "{error}"),
    }
}
