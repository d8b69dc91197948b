use super::*;
use des::TransferCost;

fn setup() -> Setup {
    let transfer =
        TransferCost { same_cpu: Span::ZERO, same_node: Span::from_ns(50), other_node: Span::from_ns(150) };
    Setup {
        machine: CpuTopology { cores: 16, smt_gain: vec![1.0, 1.5, 1.7, 1.9], nodes: 2, transfer },
        threads: 1,
        steps: vec![
            Step::Work(Span::from_ps(100_001)),
            Step::Hold(Span::from_ns(200)),
            Step::Wait(Span::from_ns(700)),
            Step::Hold(Span::from_ns(100)),
        ],
        locks: Locks::One,
        lines: 4,
        crowd_share: 0.5,
        access: Span::from_ns(100),
        operations: 500,
        is_random: false,
        seed: 1,
    }
}

fn of(setup: &Setup) -> Outcome {
    run(setup).unwrap()
}

#[test]
fn one_thread_takes_the_sum_of_its_steps_to_the_picosecond() {
    let outcome = of(&setup());
    assert_eq!(outcome.latency_mean.as_ps(), 100_001 + 200_000 + 700_000 + 100_000);
    assert_eq!(outcome.end.as_ps(), 500 * 1_100_001);
    assert_eq!(outcome.waiting_share, 0.0);
    let steps = vec![Step::Work(Span::from_ns(1)), Step::Exchange];
    // It reads, and changes.
    let outcome = of(&Setup { steps, ..setup() });
    assert_eq!((outcome.latency_mean.as_ps(), outcome.attempts), (201_000, 1.0));
}

#[test]
fn two_cores_hand_the_lines_over_each_time() {
    let steps = vec![Step::Hold(Span::from_ns(200))];
    let outcome = of(&Setup { threads: 2, steps, ..setup() });
    // Both are of the first node: four lines of 50 ns, and the other's turn.
    let turn = 200_000 + 4 * 50_000;
    assert!((outcome.per_second / (1e12 / turn as f64) - 1.0).abs() < 1e-3, "{outcome:?}");
}

#[test]
fn all_that_is_begun_is_finished_once() {
    for (threads, cpus) in [(1, 1), (3, 3), (64, 64), (1000, 64)] {
        for locks in [Locks::One, Locks::Pools, Locks::Cpus] {
            for is_random in [false, true] {
                let mut setup = Setup { threads, locks, is_random, operations: 50, ..setup() };
                setup.steps.push(Step::Exchange);
                let outcome = of(&setup);
                assert_eq!(
                    (outcome.begun, outcome.finished, outcome.cpus),
                    (50 * cpus, 50 * cpus, cpus as u32)
                );
                assert!(outcome.attempts >= 1.0 && (0.0..1.0).contains(&outcome.waiting_share));
            }
        }
    }
}

#[test]
fn littles_law_holds() {
    for threads in [2, 8, 32, 64] {
        let outcome = of(&Setup { threads, is_random: true, operations: 2000, ..setup() });
        let in_flight = outcome.per_second * outcome.latency_mean.as_ps_f64() / 1e12;
        assert!((in_flight / f64::from(threads) - 1.0).abs() < 0.02, "{threads}: {in_flight} {outcome:?}");
    }
}

#[test]
fn more_locks_are_never_slower() {
    for threads in [1, 2, 4, 8, 16, 32, 64, 128] {
        let rate = |locks| of(&Setup { threads, locks, is_random: true, ..setup() }).per_second;
        let [one, pools, cpus] = [Locks::One, Locks::Pools, Locks::Cpus].map(rate);
        assert!(pools >= one * 0.98 && cpus >= pools * 0.98, "{threads}: {one} {pools} {cpus}");
    }
}

#[test]
fn waiting_cpus_slow_down_a_lock_that_all_poll() {
    let rate = |threads, crowd_share| of(&Setup { threads, crowd_share, ..setup() }).per_second;
    assert!(rate(16, 0.5) < 0.8 * rate(4, 0.5));
    assert!(rate(8, 0.0) > 0.95 * rate(4, 0.0), "within a node, and nobody in the way");
}

#[test]
fn threads_of_a_core_share_its_throughput() {
    let steps = vec![Step::Work(Span::from_ns(100))];
    let rate = |threads| of(&Setup { threads, steps: steps.clone(), ..setup() }).per_second;
    let gains = [16, 32, 64, 1024].map(|threads| rate(threads) / rate(1));
    for (gain, expected) in gains.into_iter().zip([16.0, 24.0, 16.0 * 1.9, 16.0 * 1.9]) {
        assert!((gain / expected - 1.0).abs() < 0.01, "{gains:?}");
    }
}

#[test]
fn one_exchange_in_about_the_root_of_the_cpus_succeeds() {
    let steps = vec![Step::Exchange];
    let outcome = of(&Setup { threads: 64, steps, operations: 2000, ..setup() });
    // Birthdays: the root of 64 pi / 2, and 2 / 3; those who have just come look first, and are no part of it.
    let expected = (64.0 * std::f64::consts::PI / 2.0).sqrt() + 2.0 / 3.0 - 1.0;
    assert!((outcome.attempts / expected - 1.0).abs() < 0.05, "{} {expected}", outcome.attempts);
}

#[test]
fn the_same_seed_gives_the_same() {
    let mut base = Setup { threads: 24, is_random: true, ..setup() };
    base.steps.push(Step::Exchange);
    let with = |seed| of(&Setup { seed, ..base.clone() });
    assert_eq!(with(3), with(3));
    assert_ne!(with(3), with(4));
}
