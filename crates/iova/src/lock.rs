//! A mutex: the standard library's, a spin lock without `std`, and loom's in model checking.

#[cfg(loom)]
type Mutex<T> = loom::sync::Mutex<T>;
#[cfg(all(feature = "std", not(loom)))]
type Mutex<T> = std::sync::Mutex<T>;
#[cfg(not(any(feature = "std", loom)))]
type Mutex<T> = spin::Mutex<T>;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(data: T) -> Self {
        Self(Mutex::new(data))
    }

    /// Locks. Poisoning is ignored, because no code panics while its data is half changed.
    #[cfg(any(feature = "std", loom))]
    pub(crate) fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks, by spinning.
    #[cfg(not(any(feature = "std", loom)))]
    pub(crate) fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        self.0.lock()
    }
}
