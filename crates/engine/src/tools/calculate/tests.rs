//! Expressions and their values.

use super::*;

#[test]
fn sums_are_right() {
    for (expression, value) in [
        ("2+2", "4"),
        ("2 + 3 * 4", "14"),
        ("(2+3)*4^2", "80"),
        ("-2^2", "-4"),
        ("2^-1", "0.5"),
        ("2^3^2", "512"),
        ("10 / 4", "2.5"),
        ("7 % 4", "3"),
        ("0.1+0.2", "0.3"),
        ("1/3", "0.333333333333"),
        ("1_000 * 3", "3000"),
        ("6 \u{d7} 7", "42"),
        ("0 - 0", "0"),
        ("1/10^20", "1e-20"),
        ("1/81000000", "1.23456790123e-8"),
        ("-1/3/10^9", "-3.33333333333e-10"),
        ("1/1000", "0.001"),
        ("3 * 0.0001", "3e-4"),
    ] {
        assert_eq!(number(evaluate(expression).unwrap()), value, "{expression}");
    }
}

#[test]
fn what_is_no_sum_is_said_to_be_none() {
    for wrong in ["", "2+", "(2", "2)", "a", "1/0", "1..2", "9^9^9^9", "2 2"] {
        assert!(evaluate(wrong).is_err(), "{wrong}");
    }
    for deep in ["(".repeat(100_000), "-".repeat(100_000), "2^".repeat(100_000)] {
        assert!(evaluate(&deep).is_err());
    }
}
