//! Plans the steps of each task.

use super::command::Command;
use super::{COMPLETIONS_MAX, FlashArrayModel};
use crate::flash_array::stack::Module;
use crate::flash_array::task::Effect;
use crate::host::{Stage, Step};

type Steps = Vec<Step<Effect>>;

impl FlashArrayModel<'_> {
    /// A thread takes its finished requests, and submits one more or sleeps. Only one per task, so that interrupts
    /// and other threads can run in between.
    pub(super) fn plan_thread_run(&mut self, cpu: u32, thread: u32, is_woken: bool, steps: &mut Steps) {
        let stack = self.setup.stack;
        if is_woken {
            steps.push(self.stack_step(stack.wake));
        }
        self.plan_finished_requests(thread, steps);
        if self.may_submit(thread) {
            let request = self.plan_new_request(thread, steps);
            steps.push(self.stack_step(stack.system_call + stack.file_system));
            self.plan_submission(cpu, request, steps);
        }
        if self.may_submit(thread) {
            steps.push(Step::Then(Effect::ThreadContinues { thread }));
        } else {
            steps.push(self.stack_step(stack.sleep));
            steps.push(Step::Then(Effect::ThreadSleeps { thread }));
        }
    }

    fn plan_finished_requests(&mut self, thread: u32, steps: &mut Steps) {
        let known = &mut self.threads[thread as usize];
        let done = std::mem::take(&mut known.done);
        known.in_flight -= done.len() as u32;
        steps.extend(done.into_iter().map(|request| Step::Then(Effect::RequestFinished { request })));
    }

    fn plan_new_request(&mut self, thread: u32, steps: &mut Steps) -> u32 {
        self.threads[thread as usize].in_flight += 1;
        let drawn = self.draw_request(thread);
        let request = self.requests.put(drawn);
        steps.push(Step::Then(Effect::RequestStarted { request }));
        request
    }

    /// A request's way from the disk driver to the doorbell.
    pub(super) fn plan_submission(&mut self, cpu: u32, request: u32, steps: &mut Steps) {
        let stack = self.setup.stack;
        let known = self.requests[request];
        let lock = self.locks.disk(known.disk);
        self.plan_module(stack.disk, stack.disk.submit, lock, steps, |_, _| {});
        let Some(path) = self.paths.choose(self.paths_of(known.thread)) else {
            steps.push(Step::Then(Effect::NoPath { request, cpu }));
            return;
        };
        if let Some(protocol) = stack.protocol {
            let lock = self.locks.port(path);
            self.plan_module(protocol, protocol.submit, lock, steps, |_, _| {});
        }
        let queue = self.setup.queue_of(known.disk, path);
        let command = Command::new(request, queue, path, known.bytes, known.is_write);
        let lock = self.locks.queue(queue);
        self.plan_module(stack.adapter, stack.adapter.submit, lock, steps, |machine, steps| {
            let mapping = machine.mappings.get_mut(machine.setup.adapter_of(path) as usize);
            let mapped = mapping.and_then(|mapping| mapping.map(cpu, command.bytes, steps));
            let command = machine.commands.put(Command { mapped, ..command });
            steps.push(Step::Then(Effect::Doorbell { command }));
        });
    }

    /// An interrupt handler: takes completions out of the queue, then passes them up. During the second part the
    /// queue may interrupt again.
    pub(super) fn plan_interrupt(&mut self, cpu: u32, queue: u32, steps: &mut Steps) {
        let stack = self.setup.stack;
        steps.push(self.stack_step(stack.interrupt));
        let commands = self.queues[queue as usize].take(COMPLETIONS_MAX);
        let lock = self.locks.queue(queue);
        for command in &commands {
            let Command { mapped, path, .. } = self.commands[*command];
            self.plan_module(stack.adapter, stack.adapter.complete, lock, steps, |machine, steps| {
                let mapping = machine.mappings.get_mut(machine.setup.adapter_of(path) as usize);
                if let Some((mapping, mapped)) = mapping.zip(mapped) {
                    mapping.unmap(cpu, mapped, steps);
                }
            });
        }
        steps.push(Step::Then(Effect::QueueDrained { queue }));
        for command in commands {
            let Command { request, path, .. } = self.commands[command];
            if let Some(protocol) = stack.protocol {
                let lock = self.locks.port(path);
                self.plan_module(protocol, protocol.complete, lock, steps, |_, _| {});
            }
            let lock = self.locks.disk(self.requests[request].disk);
            self.plan_module(stack.disk, stack.disk.complete, lock, steps, |_, _| {});
            steps.push(Step::Then(Effect::CommandCompleted { command, cpu }));
        }
    }

    /// A thread with its own queue polls it: it processes completions, resubmits failed requests and submits a new
    /// one.
    pub(super) fn plan_poll(&mut self, cpu: u32, thread: u32, steps: &mut Steps) {
        let library = self.setup.library;
        let Some(queue) = self.threads[thread as usize].queue else { return };
        let before = steps.len();
        for command in self.queues[queue as usize].take(COMPLETIONS_MAX) {
            steps.push(self.stack_step(library.complete));
            steps.push(Step::Then(Effect::CommandCompleted { command, cpu }));
        }
        self.plan_finished_requests(thread, steps);
        for request in std::mem::take(&mut self.threads[thread as usize].again) {
            self.plan_own_queue_submission(cpu, queue, request, steps);
        }
        if self.may_submit(thread) {
            let request = self.plan_new_request(thread, steps);
            self.plan_own_queue_submission(cpu, queue, request, steps);
        }
        let has_found = steps.len() > before;
        let known = &self.threads[thread as usize];
        let waiting = || self.paths.waiting_where(|request| self.requests[request].thread == thread);
        let is_done = self.is_over && known.in_flight == waiting();
        if !has_found {
            if !is_done && !self.processors.has_next(cpu) {
                return steps.push(Step::Then(Effect::PollingStarts { thread }));
            }
            steps.push(self.stack_step(library.poll));
        }
        let then = if is_done { Effect::ThreadSleeps { thread } } else { Effect::ThreadContinues { thread } };
        steps.push(Step::Then(then));
    }

    /// Submits a request to the thread's own queue.
    fn plan_own_queue_submission(&mut self, cpu: u32, queue: u32, request: u32, steps: &mut Steps) {
        steps.push(self.stack_step(self.setup.library.submit));
        let known = self.requests[request];
        let Some(path) = self.paths.choose(self.paths_of(known.thread)) else {
            steps.push(Step::Then(Effect::NoPath { request, cpu }));
            return;
        };
        let command = Command::new(request, queue, path, known.bytes, known.is_write);
        let command = self.commands.put(command);
        steps.push(Step::Then(Effect::Doorbell { command }));
    }

    /// A module's instructions, a share of them with its lock held. `within` adds further steps under the lock.
    fn plan_module(
        &mut self,
        module: Module,
        instructions: f64,
        lock: u32,
        steps: &mut Steps,
        within: impl FnOnce(&mut Self, &mut Steps),
    ) {
        let locked = instructions * module.locked_share;
        steps.push(self.stack_step(instructions - locked));
        steps.push(Step::Acquire(lock));
        steps.push(self.stack_step(locked));
        within(self, steps);
        steps.push(Step::Release(lock));
    }

    /// A step of instructions in the I/O stack.
    fn stack_step(&self, instructions: f64) -> Step<Effect> {
        Step::Work(self.setup.cpus.time_of(instructions), Stage::Stack)
    }
}
