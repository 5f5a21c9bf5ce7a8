//! Tests of the loopback provider.
