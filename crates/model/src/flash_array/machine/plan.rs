//! The steps of each task.

use super::command::Command;
use super::{COMPLETIONS_MAX, Machine};
use crate::flash_array::stack::Module;
use crate::flash_array::task::Effect;
use crate::host::{Stage, Step};

type Steps = Vec<Step<Effect>>;

impl Machine<'_> {
    /// A thread takes what is done, and asks for one more; or it sleeps. Interrupts come between such steps, and so do other threads.
    pub(super) fn plan_go(&mut self, cpu: u32, thread: u32, is_woken: bool, steps: &mut Steps) {
        let stack = self.setup.stack;
        if is_woken {
            steps.push(self.work(stack.wake));
        }
        self.plan_taken(thread, steps);
        if self.may_ask(thread) {
            let request = self.plan_begun(thread, steps);
            steps.push(self.work(stack.system_call + stack.file_system));
            self.plan_sent(cpu, request, steps);
        }
        if self.may_ask(thread) {
            steps.push(Step::Then(Effect::Goes { thread }));
        } else {
            steps.push(self.work(stack.sleep));
            steps.push(Step::Then(Effect::Slept { thread }));
        }
    }

    fn plan_taken(&mut self, thread: u32, steps: &mut Steps) {
        let known = &mut self.threads[thread as usize];
        let done = std::mem::take(&mut known.done);
        known.in_flight -= done.len() as u32;
        steps.extend(done.into_iter().map(|request| Step::Then(Effect::Taken { request })));
    }

    fn plan_begun(&mut self, thread: u32, steps: &mut Steps) -> u32 {
        self.threads[thread as usize].in_flight += 1;
        let drawn = self.draw(thread);
        let request = self.requests.put(drawn);
        steps.push(Step::Then(Effect::Begun { request }));
        request
    }

    /// From the disk's driver to the doorbell.
    pub(super) fn plan_sent(&mut self, cpu: u32, request: u32, steps: &mut Steps) {
        let stack = self.setup.stack;
        let known = self.requests[request];
        let lock = self.locks.disk(known.disk);
        self.plan_module(stack.disk, stack.disk.submit, lock, steps, |_, _| {});
        let Some(path) = self.paths.choose(self.paths_of(known.thread)) else {
            steps.push(Step::Then(Effect::Waits { request, cpu }));
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
            steps.push(Step::Then(Effect::Rung { command }));
        });
    }

    /// An interrupt: what came is taken out of the queue, and then, while others may take what comes next, given to who asked.
    pub(super) fn plan_complete(&mut self, cpu: u32, queue: u32, steps: &mut Steps) {
        let stack = self.setup.stack;
        steps.push(self.work(stack.interrupt));
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
        steps.push(Step::Then(Effect::Reaped { queue }));
        for command in commands {
            let Command { request, path, .. } = self.commands[command];
            if let Some(protocol) = stack.protocol {
                let lock = self.locks.port(path);
                self.plan_module(protocol, protocol.complete, lock, steps, |_, _| {});
            }
            let lock = self.locks.disk(self.requests[request].disk);
            self.plan_module(stack.disk, stack.disk.complete, lock, steps, |_, _| {});
            steps.push(Step::Then(Effect::Completed { command, cpu }));
        }
    }

    /// A thread with a queue of its own takes what is there, sends what it has to, or finds nothing.
    pub(super) fn plan_look(&mut self, cpu: u32, thread: u32, steps: &mut Steps) {
        let library = self.setup.library;
        let Some(queue) = self.threads[thread as usize].queue else { return };
        let before = steps.len();
        for command in self.queues[queue as usize].take(COMPLETIONS_MAX) {
            steps.push(self.work(library.complete));
            steps.push(Step::Then(Effect::Completed { command, cpu }));
        }
        self.plan_taken(thread, steps);
        for request in std::mem::take(&mut self.threads[thread as usize].again) {
            self.plan_own(cpu, queue, request, steps);
        }
        if self.may_ask(thread) {
            let request = self.plan_begun(thread, steps);
            self.plan_own(cpu, queue, request, steps);
        }
        let has_found = steps.len() > before;
        let known = &self.threads[thread as usize];
        let waiting = || self.paths.waiting_where(|request| self.requests[request].thread == thread);
        let is_done = self.is_over && known.in_flight == waiting();
        if !has_found {
            if !is_done && !self.processors.has_next(cpu) {
                return steps.push(Step::Then(Effect::Polls { thread }));
            }
            steps.push(self.work(library.poll));
        }
        let then = if is_done { Effect::Slept { thread } } else { Effect::Goes { thread } };
        steps.push(Step::Then(then));
    }

    /// Puts a request into a thread's own queue, which is of one adapter.
    fn plan_own(&mut self, cpu: u32, queue: u32, request: u32, steps: &mut Steps) {
        steps.push(self.work(self.setup.library.submit));
        let known = self.requests[request];
        let Some(path) = self.paths.choose(self.paths_of(known.thread)) else {
            steps.push(Step::Then(Effect::Waits { request, cpu }));
            return;
        };
        let command = Command::new(request, queue, path, known.bytes, known.is_write);
        let command = self.commands.put(command);
        steps.push(Step::Then(Effect::Rung { command }));
    }

    /// A module's instructions, of which some are executed with its lock held, and what else is done then.
    fn plan_module(
        &mut self,
        module: Module,
        instructions: f64,
        lock: u32,
        steps: &mut Steps,
        within: impl FnOnce(&mut Self, &mut Steps),
    ) {
        let locked = instructions * module.locked_share;
        steps.push(self.work(instructions - locked));
        steps.push(Step::Acquire(lock));
        steps.push(self.work(locked));
        within(self, steps);
        steps.push(Step::Release(lock));
    }

    fn work(&self, instructions: f64) -> Step<Effect> {
        Step::Work(self.setup.cpus.time_of(instructions), Stage::Stack)
    }
}
