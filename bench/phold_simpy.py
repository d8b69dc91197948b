#!/usr/bin/env python3
"""PHOLD on SimPy, for the example `phold` of `des`.

`phold_simpy.py PENDING EVENTS` prints the seconds of CPU time that so many events took, how many they were, and the bytes of
memory that came with the pending ones. Each message is a process, as SimPy is meant to be used.
"""

import random
import sys
import time

import simpy

DELAY_MEAN, LOOKAHEAD = 1.0, 0.1


def resident_bytes():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def message(environment, received):
    processes = len(received)
    while True:
        yield environment.timeout(LOOKAHEAD + random.expovariate(1 / DELAY_MEAN))
        received[random.randrange(processes)] += 1


def main():
    pending, events = map(int, sys.argv[1:])
    random.seed(1)
    received = [0] * min(pending, 1024)
    before = resident_bytes()
    environment = simpy.Environment()
    for _ in range(pending):
        environment.process(message(environment, received))
    # The first of them begin the processes.
    for _ in range(2 * pending):
        environment.step()
    begun = time.process_time()
    for _ in range(events):
        environment.step()
    seconds = time.process_time() - begun
    print(seconds, events, resident_bytes() - before)


main()
