//! Kernels to boot: found, or fetched as packages.
