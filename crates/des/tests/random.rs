//! Random numbers: which, and how they are distributed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::{BadWeights, RunningStats, Span, Stream, Weights};

#[test]
fn are_the_same_on_every_platform() {
    let mut stream = Stream::new(42, 7);
    assert_eq!([stream.bits(), stream.bits()], [0x2a07_19cb_dc38_4a26, 0x0d6c_85db_f08c_1fb1]);
    assert_eq!([stream.below(1_000_000), stream.below(1_000_000)], [447_429, 476_963]);
    let mut hash = 0u64;
    for _ in 0..1_000_000 {
        hash = hash.rotate_left(5) ^ stream.exponential(Span::from_ms(1)).as_ps();
    }
    assert_eq!(hash, 0xff86_01e7_fe68_4e90);
}

#[test]
fn entities_and_seeds_have_their_own() {
    let mut first: Vec<u64> = (0..100)
        .flat_map(|seed| (0..100).map(move |entity| Stream::new(seed, entity).bits()))
        .chain([Stream::new(u64::MAX, 0).bits(), Stream::new(0, u64::MAX).bits()])
        .collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 10_002);
    // Neighbours' bits agree half of the time.
    let same: u32 = (0..10_000)
        .map(|entity| (Stream::new(1, entity).bits() ^ Stream::new(1, entity + 1).bits()).count_zeros())
        .sum();
    let (mean, deviation) = (32.0 * 10_000.0, (16.0f64 * 10_000.0).sqrt());
    assert!((f64::from(same) - mean).abs() < 4.0 * deviation, "{same}");
}

/// Asserts that counts are as expected, by the chi-squared test: beyond the limit is less than 1 in 1,000.
fn fits(counts: &[u64], expected: &[f64], limit: f64) {
    let chi: f64 =
        counts.iter().zip(expected).map(|(count, mean)| (*count as f64 - mean).powi(2) / mean).sum();
    assert!(chi < limit, "chi-squared is {chi}, counts {counts:?}, expected {expected:?}");
}

#[test]
fn below_is_uniform() {
    let mut stream = Stream::new(3, 1);
    let mut counts = [0; 11];
    (0..110_000).for_each(|_| counts[stream.below(11) as usize] += 1);
    fits(&counts, &[10_000.0; 11], 29.6);
    assert_eq!((stream.below(0), stream.below(1)), (0, 0));
    // With 2/3 of 2^64, what is rejected would double the chance of half of the numbers.
    let end = u64::MAX / 3 * 2;
    let mut halves = [0; 2];
    (0..20_000).for_each(|_| halves[usize::from(stream.below(end) >= end / 2)] += 1);
    fits(&halves, &[10_000.0; 2], 10.8);
}

#[test]
fn uniform_is_at_least_zero_and_below_one() {
    let mut stream = Stream::new(3, 2);
    let mut stats = RunningStats::default();
    (0..100_000).for_each(|_| stats.add(stream.uniform()));
    assert!(stats.min().unwrap() >= 0.0 && stats.max().unwrap() < 1.0);
    assert!((stats.mean().unwrap() - 0.5).abs() < 4.0 * stats.standard_error().unwrap());
    assert!((stats.variance().unwrap() * 12.0 - 1.0).abs() < 0.02);
}

#[test]
fn exponential_is_exponential_up_to_its_tail() {
    let mean = Span::from_ms(1);
    let mut stream = Stream::new(3, 3);
    let (count, classes) = (2_000_000, 40);
    // Classes as likely as each other, then those beyond where the tail of the ziggurat begins.
    let mut counts = vec![0; classes];
    let (mut tail, mut stats) = (0u64, RunningStats::default());
    for _ in 0..count {
        let drawn = stream.exponential(mean).as_ps_f64() / mean.as_ps_f64();
        stats.add(drawn);
        counts[((1.0 - libm::exp(-drawn)) * classes as f64) as usize] += 1;
        tail += u64::from(drawn > 7.697_117_470_131_05);
    }
    fits(&counts, &vec![count as f64 / classes as f64; classes], 73.0);
    let expected = count as f64 * libm::exp(-7.697_117_470_131_05);
    assert!(
        (tail as f64 - expected).abs() < 4.0 * expected.sqrt(),
        "{tail} in the tail, expected {expected}"
    );
    assert!((stats.mean().unwrap() - 1.0).abs() < 4.0 * stats.standard_error().unwrap());
    assert!((stats.variance().unwrap() - 1.0).abs() < 0.02);
    assert_eq!(stream.exponential(Span::ZERO), Span::ZERO);
}

#[test]
fn choices_follow_their_weights() {
    let weights = Weights::new(&[1, 0, 3, 6, 0]).unwrap();
    let mut stream = Stream::new(3, 4);
    let mut counts = [0; 5];
    (0..100_000).for_each(|_| counts[weights.choose(&mut stream)] += 1);
    assert_eq!((counts[1], counts[4]), (0, 0));
    fits(&[counts[0], counts[2], counts[3]], &[10_000.0, 30_000.0, 60_000.0], 13.8);

    assert_eq!(Weights::new(&[]), Err(BadWeights::Nothing));
    assert_eq!(Weights::new(&[0, 0]), Err(BadWeights::Nothing));
    assert_eq!(Weights::new(&[5, u64::MAX]), Err(BadWeights::TooHeavy { index: 1 }));
    assert_eq!(Weights::new(&[0, u64::MAX]).unwrap().choose(&mut stream), 1);
}
