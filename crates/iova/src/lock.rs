//! A lock around data: one that sleeps where there are threads, else one that spins.

#[cfg(feature = "std")]
pub(crate) use sleeping::Lock;
#[cfg(not(feature = "std"))]
pub(crate) use spinning::Lock;

#[cfg(feature = "std")]
mod sleeping {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    #[derive(Debug, Default)]
    pub(crate) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(data: T) -> Self {
            Self(Mutex::new(data))
        }

        /// Nothing that holds one of these panics half-way through a change, so that poison means nothing.
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(not(feature = "std"))]
mod spinning {
    use spin::{Mutex, MutexGuard};

    #[derive(Debug, Default)]
    pub(crate) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(data: T) -> Self {
            Self(Mutex::new(data))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }
    }
}
