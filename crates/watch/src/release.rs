//! Which Linux this is.

/// The kernel's release, such as `6.12.117+deb12-amd64`.
pub(crate) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The three numbers that it begins with; 0 for those that it lacks.
pub(crate) fn version() -> [u32; 3] {
    numbers(&release())
}

fn numbers(release: &str) -> [u32; 3] {
    let mut words = release.split(|c: char| !c.is_ascii_digit());
    [(); 3].map(|()| words.next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_at_the_beginning() {
        assert_eq!(numbers("6.12.117+deb12-amd64"), [6, 12, 117]);
        assert_eq!(numbers("5.10.0-28-powerpc64le"), [5, 10, 0]);
        assert_eq!((numbers("6.1"), numbers("6.18-rc3"), numbers("")), ([6, 1, 0], [6, 18, 0], [0; 3]));
    }
}
