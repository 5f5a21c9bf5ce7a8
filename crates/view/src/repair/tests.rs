//! Repair tests.
