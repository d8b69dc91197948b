//! A lock around data: one that sleeps where there are threads, else one that spins; loom's where orders are tried.

#[cfg(loom)]
type Mutex<T> = loom::sync::Mutex<T>;
#[cfg(all(feature = "std", not(loom)))]
type Mutex<T> = std::sync::Mutex<T>;
#[cfg(not(any(feature = "std", loom)))]
type Mutex<T> = spin::Mutex<T>;

#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(data: T) -> Self {
        Self(Mutex::new(data))
    }

    /// Nothing that holds one of these panics half-way through a change, so that poison means nothing.
    #[cfg(any(feature = "std", loom))]
    pub(crate) fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(not(any(feature = "std", loom)))]
    pub(crate) fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        self.0.lock()
    }
}
