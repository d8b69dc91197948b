"""PHOLD on SimPy. Each message is a process, as SimPy is meant to be used."""

import random
import time

import simpy

DELAY_MEAN, LOOKAHEAD = 1.0, 0.1
PS_PER_DELAY_MEAN = 1e9


def resident_bytes():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def message(environment, received):
    processes = len(received)
    while True:
        yield environment.timeout(LOOKAHEAD + random.expovariate(1 / DELAY_MEAN))
        received[random.randrange(processes)] += 1


def main(pending, events):
    pending, events = int(pending), int(events)
    random.seed(1)
    received = [0] * min(pending, 1024)
    before = resident_bytes()
    environment = simpy.Environment()
    for _ in range(pending):
        environment.process(message(environment, received))
    # The first of them begin the processes.
    for _ in range(2 * pending):
        environment.step()
    begun_at, begun = environment.now, time.process_time()
    for _ in range(events):
        environment.step()
    seconds = time.process_time() - begun
    print(seconds, events, resident_bytes() - before, (environment.now - begun_at) * PS_PER_DELAY_MEAN)
