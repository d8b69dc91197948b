//! How much of a model is evidence and how much is assumption, in words.

use model::EvidenceShare;

/// `33 of 39 parameters are assumed; 3 published, 3 calibrated`
pub(crate) fn evidence_share(share: EvidenceShare) -> String {
    let EvidenceShare { published, measured, calibrated, assumed, given } = share;
    let parameters = if share.all() == 1 { "parameter is" } else { "parameters are" };
    let others = [
        (published, "published"),
        (measured, "measured or counted"),
        (calibrated, "calibrated"),
        (given, "given by you"),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    format!("{assumed} of {} {parameters} assumed{others}", share.all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assumed_comes_first_and_what_is_absent_is_left_out() {
        let share = EvidenceShare { published: 3, calibrated: 3, assumed: 33, ..EvidenceShare::default() };
        assert_eq!(evidence_share(share), "33 of 39 parameters are assumed; 3 published, 3 calibrated");
        let given = EvidenceShare { given: 1, ..EvidenceShare::default() };
        assert_eq!(evidence_share(given), "0 of 1 parameter is assumed; 1 given by you");
        let assumed = EvidenceShare { assumed: 2, ..EvidenceShare::default() };
        assert_eq!(evidence_share(assumed), "2 of 2 parameters are assumed");
    }
}
