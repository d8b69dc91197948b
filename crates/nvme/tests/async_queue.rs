//! Commands as futures on an emulated controller: complete, dropped, cut off by resets, waited for in every way.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use nvme::chunk::Waiting;
use nvme::emulated::{Fault, Machine, ZoneOptions};
use nvme::spec::status::Status;
use nvme::spec::zone::{ZoneAction, ZoneState};
use nvme::{Adaptive, AsyncError, AsyncQueue, BlockError, Lease, QueueError};
use proptest::prelude::*;
use std::future::{Future, poll_fn};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

const BLOCK: usize = 512;
const BLOCKS: u64 = 512;
const REQUESTS: u16 = 4;
const REQUEST_BYTES: u64 = 4096;

fn machine() -> Machine {
    Machine::open(BLOCKS, 9).unwrap()
}

fn queue_of(machine: &mut Machine, requests: u16) -> AsyncQueue {
    let disk = machine.namespace().unwrap();
    AsyncQueue::polled(&mut machine.controller, disk, requests, REQUEST_BYTES).unwrap()
}

/// A waker that counts.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counting() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count(AtomicUsize::new(0)));
    (Arc::clone(&count), Waker::from(count))
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs futures together, and returns their outputs in their order.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *output = Some(ready);
            }
        }
        if futures.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// Writes a block full of a byte.
async fn write_block(queue: &AsyncQueue, block: u64, byte: u8) -> Result<(), AsyncError> {
    queue.write(block, &[byte; BLOCK]).await
}

/// How many requests of a queue are free.
fn free(queue: &AsyncQueue) -> usize {
    let mut leases: Vec<Lease<'_>> = Vec::new();
    while let Poll::Ready(lease) = poll_once(pin!(queue.lease())) {
        leases.push(lease);
    }
    leases.len()
}

#[test]
fn futures_and_queues_move_between_threads() {
    fn is_sync<T: Send + Sync>(_: &T) {}
    fn is_send<T: Send>(_: &T) {}
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    is_sync(&queue);
    is_send(&queue.flush());
    is_send(&queue.read(0, &mut [0; BLOCK]));
    is_send(&queue.zones(0, None));
}

#[test]
fn slices_of_any_length_are_written_read_and_compared() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    // One block, one request, and more than two.
    for blocks in [1, 8, 19] {
        let data: Vec<u8> = (0..blocks * BLOCK).map(|byte| (byte / 7 + blocks) as u8).collect();
        queue.block_on(queue.write(3, &data)).unwrap();
        assert_eq!(machine.emulated.disk()[3 * BLOCK..][..data.len()], data);
        let mut read = vec![0; data.len()];
        queue.block_on(queue.read(3, &mut read)).unwrap();
        assert!(read == data);
        queue.block_on(queue.compare(3, &data)).unwrap();
        *read.last_mut().unwrap() ^= 1;
        let error = queue.block_on(queue.compare(3, &read)).unwrap_err();
        assert!(error.is_compare_failure(), "{error}");
        queue.block_on(queue.write_fua(100, &data)).unwrap();
        queue.block_on(queue.read_fua(100, &mut read)).unwrap();
        assert!(read == data);
    }
    queue.close(&mut machine.controller).unwrap();
}

#[test]
fn commands_without_data_are_executed() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    let commands = async {
        queue.write(0, &[7; 2 * BLOCK]).await?;
        queue.copy(200, &[0..1, 1..2]).await?;
        queue.verify(200, 2).await?;
        queue.write_zeroes(0, 1).await?;
        queue.deallocate(&[1..2, 200..201]).await?;
        queue.flush().await
    };
    queue.block_on(commands).unwrap();
    let disk = machine.emulated.disk();
    let first_bytes = [0, 1, 200, 201].map(|block| disk[block * BLOCK]);
    assert_eq!(first_bytes, [0, 0, 0, 7]);
    machine.emulated.lose_power();
    assert_eq!(machine.emulated.disk(), disk, "it was flushed");
}

#[test]
fn errors_say_what_was_wrong_and_free_the_request() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    let run = |future: Pin<Box<dyn Future<Output = Result<(), AsyncError>> + '_>>| {
        queue.block_on(future).unwrap_err().to_string()
    };
    let mut odd = [0; 100];
    assert_eq!(run(Box::pin(queue.read(0, &mut odd))), "100 bytes; expected 1 or more blocks of 512");
    assert_eq!(run(Box::pin(queue.write(0, &[]))), "0 bytes; expected 1 or more blocks of 512");
    assert_eq!(
        run(Box::pin(queue.write(BLOCKS, &[0; BLOCK]))),
        "1 blocks from block 512: beyond the end of the namespace, which has 512 blocks"
    );
    assert_eq!(
        run(Box::pin(queue.write(u64::MAX, &[0; 8192]))),
        "8 blocks from block 18446744073709551615: beyond the end of the namespace, which has 512 blocks"
    );
    assert_eq!(queue.block_on(queue.append(0, &[0; BLOCK])), Err(BlockError::NotZoned.into()));
    machine.emulated.inject_at_block(9, Fault::Status(Status::UNRECOVERED_READ));
    assert_eq!(
        run(Box::pin(queue.write(9, &[0; BLOCK]))),
        "the controller reports: unrecovered read error (type 0x2, code 0x81)"
    );
    assert_eq!(free(&queue), REQUESTS.into());
}

#[test]
fn commands_polled_together_are_in_flight_together_with_one_doorbell() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    let before = (machine.emulated.commands(), machine.emulated.doorbells());
    let written =
        queue.block_on(all((0..4).map(|block| write_block(&queue, block, block as u8 + 1)).collect()));
    assert_eq!(written, [Ok(()); 4]);
    // One doorbell of the submission queue and one of the completion queue.
    let after = (machine.emulated.commands(), machine.emulated.doorbells());
    assert_eq!((after.0 - before.0, after.1 - before.1), (4, 2));
    // There are more of these than requests.
    let data: Vec<[u8; BLOCK]> = (0..50).map(|block| [block as u8; BLOCK]).collect();
    let written =
        queue.block_on(all((0..).zip(&data).map(|(block, data)| queue.write(block, data)).collect()));
    assert!(written.len() == 50 && written.into_iter().all(|result| result.is_ok()));
    assert!(machine.emulated.disk().chunks(BLOCK).zip(&data).all(|(block, data)| block == data));
    assert_eq!(free(&queue), REQUESTS.into());
}

/// With an executor of the caller's own, each command rings the doorbell when its future is polled.
#[test]
fn any_executor_polls_and_steps() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    let (count, waker) = counting();
    let mut context = Context::from_waker(&waker);
    let mut write = pin!(queue.write(5, &[6; BLOCK]));
    assert!(write.as_mut().poll(&mut context).is_pending());
    assert_eq!((machine.emulated.disk()[5 * BLOCK], count.0.load(Ordering::Relaxed)), (6, 0));
    assert_eq!(queue.step(), Ok(1));
    assert_eq!((queue.step(), count.0.load(Ordering::Relaxed)), (Ok(0), 1));
    assert_eq!(write.as_mut().poll(&mut context), Poll::Ready(Ok(())));
}

#[test]
fn a_request_of_a_dropped_future_is_the_controller_s_until_the_command_ends() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, 1);
    machine.emulated.inject(machine.emulated.commands(), Fault::Stuck);
    let mut bytes = [0; BLOCK];
    assert!(poll_once(pin!(queue.read(0, &mut bytes))).is_pending());
    // The read was dropped, and nobody else gets its buffer.
    assert_eq!(free(&queue), 0);
    let mut write = pin!(queue.write(1, &[5; BLOCK]));
    let (count, waker) = counting();
    assert!(write.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(queue.step(), Ok(0));
    queue.tick();
    let [stuck] = queue.overdue(1)[..] else { panic!() };
    assert!(queue.abort(&mut machine.controller, stuck, Duration::from_secs(10)).unwrap());
    assert_eq!((queue.step(), count.0.load(Ordering::Relaxed)), (Ok(1), 1));
    assert_eq!(queue.block_on(write), Ok(()));
    assert_eq!((machine.emulated.disk()[BLOCK], free(&queue)), (5, 1));
}

#[test]
fn futures_are_dropped_in_every_state() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, 2);
    // Never polled.
    drop(queue.write(0, &[1; BLOCK]));
    assert_eq!(machine.emulated.disk()[0], 0);
    // Completed, and not seen.
    {
        let mut write = pin!(queue.write(0, &[1; BLOCK]));
        assert!(poll_once(write.as_mut()).is_pending());
        assert_eq!(queue.step(), Ok(1));
        assert_eq!(free(&queue), 1);
    }
    assert_eq!((machine.emulated.disk()[0], free(&queue)), (1, 2));
    // Waiting for a request, while another waits too: both are woken, and the one that is left gets it.
    let leases = queue.block_on(all(vec![queue.lease(), queue.lease()]));
    let [(first, waker), (second, other)] = [counting(), counting()];
    let mut waits = Box::pin(queue.lease());
    assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let mut stays = Box::pin(queue.lease());
    assert!(stays.as_mut().poll(&mut Context::from_waker(&other)).is_pending());
    drop(waits);
    drop(leases);
    assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
    assert!(stays.as_mut().poll(&mut Context::from_waker(&other)).is_ready());
    drop(stays);
    // Forgotten: its request is lost, and the queue can still be closed.
    let mut forgotten = Box::pin(queue.write(2, &[1; BLOCK]));
    assert!(poll_once(forgotten.as_mut()).is_pending());
    forget(forgotten);
    assert_eq!((queue.step(), free(&queue)), (Ok(1), 1));
    queue.close(&mut machine.controller).unwrap();
}

#[test]
fn a_panic_in_a_future_leaves_the_queue_working() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    let panics = || {
        queue.block_on(async {
            let mut write = pin!(queue.write(0, &[1; BLOCK]));
            assert!(poll_once(write.as_mut()).is_ready(), "it is not");
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(queue.step(), Ok(1));
    assert_eq!((machine.emulated.disk()[0], free(&queue)), (1, REQUESTS.into()));
    // The doorbell is rung at once again.
    assert!(poll_once(pin!(queue.write(1, &[1; BLOCK]))).is_pending());
    assert_eq!(machine.emulated.disk()[BLOCK], 1);
}

#[test]
fn commands_survive_a_reset_of_the_controller() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    machine.emulated.inject(machine.emulated.commands(), Fault::LostCompletion);
    machine.emulated.inject(machine.emulated.commands() + 1, Fault::LostCompletion);
    let mut write = pin!(queue.write(5, &[6; BLOCK]));
    assert!(poll_once(write.as_mut()).is_pending());
    assert!(poll_once(pin!(queue.flush())).is_pending());
    machine.controller.reset().unwrap();
    assert_eq!(queue.step(), Err(QueueError::Reset));
    assert_eq!(queue.renew(&mut machine.controller).unwrap(), 2);
    assert_eq!(queue.step(), Ok(2));
    assert_eq!(poll_once(write), Poll::Ready(Ok(())));
    assert_eq!(free(&queue), REQUESTS.into());
}

#[test]
fn a_queue_that_fails_ends_its_commands_until_it_is_renewed() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, REQUESTS);
    machine.emulated.inject(machine.emulated.commands() + 1, Fault::WrongIdentifier);
    let write = |block| write_block(&queue, block, 1);
    let results = queue.block_on(all(vec![write(0), write(1), write(2)]));
    let Err(AsyncError::Queue(error @ QueueError::Unknown(_))) = results[1] else { panic!("{results:?}") };
    assert_eq!((results[0], results[2]), (Ok(()), Err(AsyncError::Queue(error))));
    assert_eq!(queue.block_on(write(3)), Err(AsyncError::Queue(error)), "nothing more is submitted");
    assert_eq!(machine.emulated.disk()[3 * BLOCK], 0);
    machine.controller.reset().unwrap();
    assert_eq!(queue.renew(&mut machine.controller).unwrap(), 0, "nobody waits for them");
    assert_eq!(queue.block_on(all((3..9).map(write).collect())), [Ok(()); 6]);
    assert_eq!(free(&queue), REQUESTS.into());
}

/// A controller that fails completes nothing: whoever waits is told.
#[test]
fn a_controller_that_fails_ends_what_waits() {
    for fault in [Fault::Fatal, Fault::Gone] {
        let mut machine = machine();
        let queue = queue_of(&mut machine, 2);
        machine.emulated.inject(machine.emulated.commands(), fault);
        let error = queue.block_on(queue.write(1, &[1; BLOCK])).unwrap_err();
        assert_eq!(error, AsyncError::Queue(QueueError::Failed), "{fault:?}");
    }
}

#[test]
fn leased_requests_are_read_and_written_without_a_copy() {
    let mut machine = machine();
    let queue = queue_of(&mut machine, 2);
    queue.block_on(async {
        let lease = queue.lease().await;
        assert_eq!(lease.bytes(), REQUEST_BYTES);
        lease.write(BLOCK as u64, &[4; BLOCK]).unwrap();
        let lease = queue.write_leased(lease, 7, 2 * BLOCK as u64).await.unwrap();
        lease.write(0, &[0xee; 8 * BLOCK]).unwrap();
        let memory = lease.memory();
        let lease = queue.read_leased(lease, 8, BLOCK as u64).await.unwrap();
        assert_eq!(lease.memory(), memory);
        let mut read = [0; 2 * BLOCK];
        lease.read(0, &mut read).unwrap();
        assert_eq!((read[0], read[BLOCK - 1], read[BLOCK]), (4, 4, 0xee));
        queue.ram().read(lease.memory(), &mut read[..BLOCK]).unwrap();
        // Another request's buffer is not reached.
        assert!(lease.write(REQUEST_BYTES - 1, &[0; 2]).is_err() && lease.read(u64::MAX, &mut [0]).is_err());
        let error = queue.read_leased(lease, 0, REQUEST_BYTES + BLOCK as u64).await.unwrap_err();
        assert!(matches!(error, AsyncError::Memory(_)), "{error}");
    });
    assert_eq!(free(&queue), 2);
}

#[test]
fn zones_are_appended_managed_and_reported() {
    // More zones than one report of a request has.
    let builder = Machine::builder(800, 9).zones(ZoneOptions::whole(8));
    let mut machine = builder.open().unwrap();
    let queue = queue_of(&mut machine, REQUESTS);
    let appended = queue.block_on(all((0..4).map(|_| queue.append(8, &[3; BLOCK])).collect()));
    assert_eq!(appended, [Ok(8), Ok(9), Ok(10), Ok(11)]);
    queue.block_on(queue.manage_zones(Some(792), ZoneAction::Finish)).unwrap();
    let zones = queue.block_on(queue.zones(0, None)).unwrap();
    assert_eq!(
        zones.iter().map(|zone| zone.first).collect::<Vec<_>>(),
        (0..800).step_by(8).collect::<Vec<_>>()
    );
    assert_eq!((zones[1].state, zones[1].write_pointer), (ZoneState::ImplicitlyOpen, Some(12)));
    let full = queue.block_on(queue.zones(5, Some(ZoneState::Full))).unwrap();
    assert_eq!((full.len(), full[0].first), (1, 792));
    assert_eq!(queue.block_on(queue.zones(16, Some(ZoneState::Empty))).unwrap().len(), 97);
    queue.block_on(queue.manage_zones(None, ZoneAction::Reset)).unwrap();
    assert!(queue.block_on(queue.zones(0, None)).unwrap().iter().all(|zone| zone.state == ZoneState::Empty));
    let error = queue.block_on(queue.append(0, &[0; REQUEST_BYTES as usize + BLOCK])).unwrap_err();
    assert_eq!(error.to_string(), "4608 bytes in one command; expected at most 4096");
    // A reset cuts an append off.
    machine.emulated.inject(machine.emulated.commands(), Fault::LostCompletion);
    let mut append = pin!(queue.append(16, &[3; BLOCK]));
    assert!(poll_once(append.as_mut()).is_pending());
    machine.controller.reset().unwrap();
    assert_eq!(queue.renew(&mut machine.controller).unwrap(), 0);
    assert_eq!(poll_once(append), Poll::Ready(Err(AsyncError::CutOff)));
    assert_eq!(queue.block_on(queue.zones(16, None)).unwrap()[0].write_pointer, Some(17), "it was executed");
    assert_eq!(free(&queue), REQUESTS.into());
}

/// The interrupt of an emulated controller's queue 1.
#[cfg(target_os = "linux")]
fn interrupt(machine: &Machine) -> Arc<dma::vfio::Interrupt> {
    let interrupt = Arc::new(dma::vfio::Interrupt::new().unwrap());
    let signaled = Arc::clone(&interrupt);
    machine.emulated.on_interrupt(move |vector| {
        // Vector 0 is of the admin queue.
        if vector == 1 {
            signaled.signal().unwrap();
        }
    });
    interrupt
}

#[cfg(target_os = "linux")]
#[test]
fn threads_wait_for_interrupts_and_polls() {
    for is_adaptive in [false, true] {
        let mut machine = machine();
        let (interrupt, disk) = (interrupt(&machine), machine.namespace().unwrap());
        let adaptive = Adaptive::default();
        let counts = adaptive.counts();
        let waiting = match is_adaptive {
            true => Waiting::Adaptive { vector: 1, interrupt: Arc::clone(&interrupt), adaptive },
            false => Waiting::Interrupt { vector: 1, interrupt: Arc::clone(&interrupt) },
        };
        let queue = AsyncQueue::open(&mut machine.controller, disk, 8, REQUEST_BYTES, waiting).unwrap();
        assert!(queue.interrupt().is_some_and(|of_queue| Arc::ptr_eq(of_queue, &interrupt)));
        // Four threads, each with commands of its own.
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let queue = &queue;
                scope.spawn(move || {
                    for block in thread * 100..thread * 100 + 50 {
                        queue.block_on(queue.write(block, &[block as u8; BLOCK])).unwrap();
                        let mut read = [0; BLOCK];
                        queue.block_on(queue.read(block, &mut read)).unwrap();
                        assert_eq!(read, [block as u8; BLOCK]);
                    }
                });
            }
        });
        assert_eq!(free(&queue), 8);
        // The emulated controller completes at the doorbell: `step` finds that before anything is waited for.
        let waits = counts.polled() + counts.slept();
        assert!(waits <= 400, "{waits}");
    }
}

/// A thread that is unparked by its waker.
struct Parked(Thread, AtomicBool);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// An executor that knows nothing of the queue, and a reactor that knows nothing but its interrupt, as runtimes have them.
#[cfg(target_os = "linux")]
#[test]
fn a_reactor_that_watches_the_interrupt_drives_tasks_of_another_executor() {
    let mut machine = machine();
    let (interrupt, disk) = (interrupt(&machine), machine.namespace().unwrap());
    let waiting = Waiting::Interrupt { vector: 1, interrupt };
    let queue = AsyncQueue::open(&mut machine.controller, disk, 2, REQUEST_BYTES, waiting).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                if queue.interrupt().unwrap().wait(Duration::from_millis(100)).unwrap() {
                    queue.step().unwrap();
                }
            }
        });
        let task = async {
            for round in 0..50_u64 {
                let writes = (0..5).map(|block| write_block(&queue, round * 5 + block, round as u8 + 1));
                assert!(all(writes.collect()).await.into_iter().all(|result| result.is_ok()));
            }
        };
        let mut task = pin!(task);
        let parked = Arc::new(Parked(thread::current(), AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&parked));
        loop {
            while !parked.1.swap(false, Ordering::AcqRel) {
                thread::park();
            }
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                break;
            }
        }
        is_over.store(true, Ordering::Release);
    });
    let disk = machine.emulated.disk();
    assert!(
        disk[..250 * BLOCK]
            .chunks(BLOCK)
            .enumerate()
            .all(|(block, bytes)| bytes[0] as usize == block / 5 + 1)
    );
    assert_eq!(free(&queue), 2);
}

/// What a step of the random test does.
#[derive(Debug, Clone, Copy)]
enum Step {
    Write { block: u64, byte: u8 },
    Read { block: u64 },
    Poll { place: usize },
    Drop { place: usize },
    Complete,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..8_u64, any::<u8>()).prop_map(|(block, byte)| Step::Write { block, byte }),
        3 => (0..8_u64).prop_map(|block| Step::Read { block }),
        6 => any::<usize>().prop_map(|place| Step::Poll { place }),
        3 => any::<usize>().prop_map(|place| Step::Drop { place }),
        3 => Just(Step::Complete),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Whatever is polled, dropped and reset in between: a read has what was on the disk when it was submitted, and no request is lost.
    #[test]
    fn no_request_is_lost_and_no_data_are_mixed_up(steps in steps()) {
        let mut machine = machine();
        let queue = queue_of(&mut machine, 3);
        type Task<'q> = Pin<Box<dyn Future<Output = ()> + 'q>>;
        let mut tasks: Vec<Task<'_>> = Vec::new();
        let reads = Mutex::new(0);
        // A block is full of one byte, whichever commands were executed.
        let is_whole = |bytes: &[u8]| bytes.iter().all(|byte| *byte == bytes[0]);
        for step in steps {
            match step {
                Step::Write { block, byte } => {
                    let queue = &queue;
                    tasks.push(Box::pin(async move { queue.write(block, &[byte; BLOCK]).await.unwrap() }));
                }
                Step::Read { block } => {
                    let (queue, reads) = (&queue, &reads);
                    tasks.push(Box::pin(async move {
                        let mut read = [0; BLOCK];
                        read[1] = 1;
                        queue.read(block, &mut read).await.unwrap();
                        assert!(is_whole(&read), "{read:?}");
                        *reads.lock().unwrap() += 1;
                    }));
                }
                Step::Poll { place } if !tasks.is_empty() => {
                    let place = place % tasks.len();
                    if poll_once(tasks[place].as_mut()).is_ready() {
                        drop(tasks.swap_remove(place));
                    }
                }
                Step::Drop { place } if !tasks.is_empty() => drop(tasks.swap_remove(place % tasks.len())),
                Step::Complete => {
                    queue.step().unwrap();
                }
                Step::Reset => {
                    machine.controller.reset().unwrap();
                    queue.renew(&mut machine.controller).unwrap();
                }
                _ => {}
            }
        }
        // All that is left completes.
        let left = tasks.len();
        prop_assert_eq!(queue.block_on(all(tasks)).len(), left);
        while queue.step().unwrap() > 0 {}
        prop_assert_eq!(free(&queue), 3);
        queue.close(&mut machine.controller).unwrap();
    }
}
