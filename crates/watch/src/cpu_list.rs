//! Lists of CPUs, as the kernel writes them.

/// CPUs of a list at most: as many as Linux can have.
const CPUS_MAX: usize = 8192;

/// The CPUs of a list such as `0-3,8`; `None` if it is none.
pub(crate) fn cpus_of(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || cpus.len() + (last - first) as usize >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus_of("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus_of("0"), Some(vec![0]));
        for wrong in ["", "3-0", "a", "0-", "0-4294967295", "0-9000", "-1"] {
            assert_eq!(cpus_of(wrong), None, "{wrong}");
        }
    }
}
