"""The NIC model (docs/internals/des.md) on SimPy: a flow is a process, and so is the poller of a ring; a line, a CPU and a send ring are
resources. An event is counted when a timeout ends that something waits for.
"""

import random
import time
import tomllib
from collections import deque

import simpy

NS_PER_PS = 1e-3


class Line:
    """Busy with a message for as long as its bytes take; it arrives a latency later."""

    def __init__(self, nic, parameters):
        self.nic, self.environment = nic, nic.environment
        self.server = simpy.Resource(nic.environment)
        self.ns_per_byte = parameters["ps_per_byte"] * NS_PER_PS
        self.latency = parameters["latency_ns"]

    def send(self, length):
        with self.server.request() as turn:
            yield turn
            yield self.environment.timeout(length * self.ns_per_byte)
        yield self.environment.timeout(self.latency)
        self.nic.events += 2


class ReceiveRing:
    """Where frames land. Interrupts are moderated by count and by time, and are off while it is polled."""

    def __init__(self, nic):
        self.nic, self.environment = nic, nic.environment
        self.frames = deque()
        self.listen()

    def listen(self):
        self.first, self.full = self.environment.event(), self.environment.event()
        self.is_listening = True

    def land(self, polled):
        self.frames.append(polled)
        if not self.is_listening:
            return
        if len(self.frames) == 1:
            self.first.succeed()
        if len(self.frames) == self.nic.parameters["moderation"]["frames"]:
            self.is_listening = False
            self.full.succeed()

    def poll(self, cpu):
        nic, costs = self.nic, self.nic.parameters["cpu"]
        interrupt, wait = nic.parameters["bytes"]["interrupt"], nic.parameters["moderation"]["wait_ns"]
        while True:
            yield self.first
            if self.is_listening:
                timer = self.environment.timeout(wait)
                yield timer | self.full
                nic.events += timer.processed
                self.is_listening = False
            yield from nic.up.send(interrupt)
            yield from nic.work(cpu, costs["interrupt_ns"])
            while self.frames:
                polled = self.frames.popleft()
                yield from nic.work(cpu, costs["poll_ns"])
                polled.succeed()
            self.listen()


class Nic:
    def __init__(self, parameters, flows):
        self.parameters, self.flows = parameters, flows
        self.environment = simpy.Environment()
        self.down, self.up = Line(self, parameters["link"]), Line(self, parameters["link"])
        self.out, self.back = Line(self, parameters["wire"]), Line(self, parameters["wire"])
        rings = range(parameters["rings"])
        self.cpus = [simpy.Resource(self.environment) for _ in rings]
        self.send_rings = [simpy.Resource(self.environment) for _ in rings]
        self.receive_rings = [ReceiveRing(self) for _ in rings]
        for ring, cpu in zip(self.receive_rings, self.cpus):
            self.environment.process(ring.poll(cpu))
        for flow in range(flows):
            self.environment.process(self.flow(flow % len(rings)))
        self.frames = self.events = 0
        self.round_trips = 0.0
        self.frames_wanted = self.enough = None

    def work(self, cpu, cost):
        with cpu.request() as turn:
            yield turn
            yield self.environment.timeout(cost)
        self.events += 1

    def fetch(self, length):
        """From memory, over the link."""
        yield from self.up.send(self.parameters["bytes"]["request"])
        yield self.environment.timeout(self.parameters["memory_read_ns"])
        self.events += 1
        yield from self.down.send(length)

    def flow(self, ring):
        environment, lengths = self.environment, self.parameters["bytes"]
        cpu, send_ring, receive_ring = self.cpus[ring], self.send_rings[ring], self.receive_rings[ring]
        think_rate = 1 / (self.parameters["think_ns_per_flow"] * self.flows)
        echo_rate = 1 / self.parameters["echo_ns"]
        while True:
            yield environment.timeout(random.expovariate(think_rate))
            self.events += 1
            wrote = environment.now
            yield from self.work(cpu, self.parameters["cpu"]["write_ns"])
            yield from self.down.send(lengths["doorbell"])
            with send_ring.request() as turn:
                yield turn
                yield from self.fetch(lengths["descriptor"])
                yield from self.fetch(lengths["payload"])
            yield from self.out.send(lengths["frame"])
            yield environment.timeout(random.expovariate(echo_rate))
            self.events += 1
            yield from self.back.send(lengths["frame"])
            yield from self.up.send(lengths["delivery"])
            polled = environment.event()
            receive_ring.land(polled)
            yield polled
            self.frames += 1
            self.round_trips += environment.now - wrote
            if self.frames == self.frames_wanted:
                self.enough.succeed()

    def run(self, frames):
        self.frames_wanted, self.enough = self.frames + frames, self.environment.event()
        self.environment.run(until=self.enough)


def main(parameters, flows, warm_up, frames, seed):
    with open(parameters, "rb") as file:
        parameters = tomllib.load(file)
    random.seed(int(seed))
    nic = Nic(parameters, int(flows))
    nic.run(int(warm_up))
    before, begun = (nic.frames, nic.events, nic.round_trips), time.process_time()
    nic.run(int(frames))
    seconds = time.process_time() - begun
    frames, events, round_trips = (
        after - before for after, before in zip((nic.frames, nic.events, nic.round_trips), before)
    )
    print(seconds, frames, events, round_trips)
