//! Plans the steps of each task.

use super::command::Command;
use super::threads::Request;
use super::{BlockModel, COMPLETIONS_MAX};
use crate::block::nvme_adapter::pages;
use crate::block::task::Effect;
use crate::host::{DmaPath, Mapped, Stage, Step};
use des::Time;

impl BlockModel<'_> {
    /// A thread takes its finished requests, and submits one more or sleeps. Only one per task, so that interrupts
    /// and other threads can run in between.
    pub(super) fn plan_thread_run(
        &mut self,
        cpu: u32,
        thread: u32,
        is_woken: bool,
        steps: &mut Vec<Step<Effect>>,
    ) {
        let paths = self.setup.host.paths;
        if is_woken {
            steps.push(self.stack_step(paths.wake));
        }
        let known = &mut self.threads[thread as usize];
        let done = std::mem::take(&mut known.done);
        known.in_flight -= done.len() as u32;
        steps.extend(done.into_iter().map(|request| Step::Then(Effect::RequestFinished { request })));
        if self.may_submit(thread) {
            self.plan_request(cpu, thread, steps);
        }
        if self.may_submit(thread) {
            steps.push(Step::Then(Effect::ThreadContinues { thread }));
        } else {
            steps.push(self.stack_step(paths.sleep));
            steps.push(Step::Then(Effect::ThreadSleeps { thread }));
        }
    }

    /// Whether a thread has fewer requests in flight than its job's depth.
    fn may_submit(&self, thread: u32) -> bool {
        let known = &self.threads[thread as usize];
        !self.is_over && known.in_flight < self.setup.jobs[known.job as usize].depth
    }

    /// Adds the steps that submit a request, with as many commands as it needs.
    fn plan_request(&mut self, cpu: u32, thread: u32, steps: &mut Vec<Step<Effect>>) {
        let paths = self.setup.host.paths;
        let job = &self.setup.jobs[self.threads[thread as usize].job as usize];
        let is_write = self.threads[thread as usize].draw_write(job.access);
        let bytes = job.block_bytes;
        let bytes_max = self.adapter().transfer_bytes_max;
        let commands = bytes.div_ceil(bytes_max) as u32;
        self.threads[thread as usize].in_flight += 1;
        let request = self.requests.put(Request { thread, began: Time::ZERO, commands });
        steps.push(Step::Then(Effect::RequestStarted { request }));
        steps.push(self.stack_step(paths.submit + paths.submit_page * (pages(bytes) - 1) as f64));
        let mut die = self.first_die(thread, bytes, job.is_random);
        for from in (0..bytes).step_by(bytes_max as usize) {
            let bytes = (bytes - from).min(bytes_max);
            let command = Command { request, bytes, is_write, die, ..self.new_command(cpu) };
            die = self.die_after(die, bytes);
            self.plan_command(cpu, command, steps);
        }
    }

    /// Maps a command's data, and writes the command into the queue.
    fn plan_command(&mut self, cpu: u32, command: Command, steps: &mut Vec<Step<Effect>>) {
        let lock = self.setup.host.dma_path.locks() + command.queue;
        let mapped =
            self.plan_entries(steps, |machine, steps| machine.mapping.map(cpu, command.bytes, steps));
        let command = self.commands.put(Command { mapped, ..command });
        steps.extend([
            Step::Acquire(lock),
            self.stack_step(self.setup.host.paths.queue),
            Step::Then(Effect::Doorbell { command }),
            Step::Release(lock),
        ]);
    }

    /// Adds the steps that process a queue's completions.
    pub(super) fn plan_completions(
        &mut self,
        cpu: u32,
        queue: u32,
        by_interrupt: bool,
        steps: &mut Vec<Step<Effect>>,
    ) {
        let paths = self.setup.host.paths;
        if by_interrupt {
            steps.push(self.stack_step(paths.interrupt));
        }
        for command in self.queues[queue as usize].take(COMPLETIONS_MAX) {
            let Command { bytes, mapped, .. } = self.commands[command];
            steps.push(self.stack_step(paths.complete + paths.complete_page * (pages(bytes) - 1) as f64));
            if let Some(mapped) = mapped {
                self.plan_unmap(cpu, mapped, steps);
            }
            steps.push(Step::Then(Effect::CommandCompleted { command }));
        }
        steps.push(Step::Then(Effect::QueueDrained { queue }));
    }

    /// Adds the steps that unmap a command's data.
    fn plan_unmap(&mut self, cpu: u32, mapped: Mapped, steps: &mut Vec<Step<Effect>>) {
        self.plan_entries(steps, |machine, steps| machine.mapping.unmap(cpu, mapped, steps));
    }

    /// Maps or unmaps, and adds the cost of table entries beyond the first: the price of a call covers one page.
    fn plan_entries<Done>(
        &mut self,
        steps: &mut Vec<Step<Effect>>,
        call: impl FnOnce(&mut Self, &mut Vec<Step<Effect>>) -> Done,
    ) -> Done {
        let entries = self.mapping.counters.table_entries;
        let host = &self.setup.host;
        let place = steps.len();
        let done = call(self, steps);
        let further = (self.mapping.counters.table_entries - entries).saturating_sub(1);
        if matches!(host.dma_path, DmaPath::Translated { .. }) && further > 0 {
            let span = host.cpus.time_of(host.entry_instructions * further as f64);
            steps.insert(place, Step::Work(span, Stage::Mapping));
        }
        done
    }

    /// A step of instructions in the block stack.
    fn stack_step(&self, instructions: f64) -> Step<Effect> {
        Step::Work(self.setup.host.cpus.time_of(instructions), Stage::Stack)
    }
}
