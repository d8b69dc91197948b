//! What the guest boots into.
