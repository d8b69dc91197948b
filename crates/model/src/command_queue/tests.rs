use super::*;

fn setup(cpus: u32, claim: Claim) -> Setup {
    let [work, access, sync] = [1000, 100, 280].map(Span::from_ns);
    Setup { cpus, work, access, sync, claim, operations: 1000, seed: 1 }
}

const CLAIMS: [Claim; 2] = [Claim::Exchange, Claim::Addition];

#[test]
fn a_lone_cpu_owns_each_command_and_waits_for_nobody() {
    for claim in CLAIMS {
        let outcome = run(&Setup { operations: 10_000, ..setup(1, claim) });
        assert_eq!((outcome.finished, outcome.gathered_mean, outcome.last_share), (10_000, 1.0, 1.0));
        // All lines stay in its cache.
        let expected = 1e12 / (1_000_000.0 + 280_000.0);
        assert!((outcome.per_second / expected - 1.0).abs() < 0.05, "{outcome:?}");
    }
    assert_eq!(run(&setup(1, Claim::Exchange)).attempts, 1.0);
}

#[test]
fn every_operation_ends_and_every_place_is_claimed_once() {
    for claim in CLAIMS {
        for cpus in [1, 2, 3, 16, 64] {
            let one = setup(cpus, claim);
            let mut simulation = Simulation::new(CommandQueue::new(one));
            (0..cpus).for_each(|cpu| simulation.calendar.schedule_in(Span::ZERO, Event::Next(cpu)));
            simulation.run();
            let queue = &simulation.model;
            assert_eq!(queue.finished, 1000 * u64::from(cpus), "{claim:?} {cpus}");
            assert_eq!(queue.commands.len() as u64, queue.finished);
            assert!(queue.commands.iter().all(|(_, is_valid)| *is_valid) && !queue.is_owned);
            assert!(queue.done_at.iter().all(Option::is_some) && queue.locked == 0);
            assert_eq!(queue.owner_done, queue.commands.len(), "each command was published once");
            assert!(queue.polling.iter().all(Vec::is_empty));
        }
    }
}

#[test]
fn commands_are_published_in_the_order_of_their_places() {
    let mut simulation = Simulation::new(CommandQueue::new(setup(16, Claim::Exchange)));
    (0..16).for_each(|cpu| simulation.calendar.schedule_in(Span::ZERO, Event::Next(cpu)));
    simulation.run();
    assert!(simulation.model.done_at.is_sorted());
}

#[test]
fn the_more_cpus_the_more_tries_and_the_more_are_gathered() {
    let outcomes = [1, 4, 16, 64].map(|cpus| run(&setup(cpus, Claim::Exchange)));
    assert!(outcomes.is_sorted_by(|a, b| a.attempts < b.attempts && a.gathered_mean < b.gathered_mean));
    assert!(outcomes[3].last_share < 0.1, "of many, hardly any is the last to unlock");
}

#[test]
fn lines_that_move_for_free_leave_work_and_the_smmu() {
    for claim in CLAIMS {
        let outcome = run(&Setup { access: Span::ZERO, ..setup(8, claim) });
        let expected = 8.0 * 1e12 / (1_000_000.0 + 280_000.0);
        assert!((outcome.per_second / expected - 1.0).abs() < 0.05, "{outcome:?}");
    }
}

#[test]
fn an_addition_never_fails_and_is_faster_under_contention() {
    let [exchange, addition] = CLAIMS.map(|claim| run(&setup(64, claim)));
    assert!(exchange.attempts > 5.0 && addition.attempts == 0.0);
    assert!(addition.per_second > 2.0 * exchange.per_second);
}

#[test]
fn the_same_seed_gives_the_same() {
    let with = |seed| run(&Setup { seed, ..setup(24, Claim::Exchange) });
    assert_eq!(with(3), with(3));
    assert_ne!(with(3), with(4));
}
