"""The process of a peer: checks that it computes what Caravan did, then measures whenever it is asked to.

It is started with the path of a record, a mode and settings in JSON: `threads`, `cuda`, `tf32`. It writes one line of
JSON with its version and the difference of its results to the recorded ones. Then it reads lines with a number of
seconds, and answers each with a line of samples in microseconds a step and, on a GPU, the most memory that it has had.
"""
import json
import os
import sys
import time

from record import Record

SAMPLE_SECONDS = 0.01  # as caravan bench has it
LEAST_SAMPLES = 3


def timed(run, steps):
    start = time.perf_counter()
    run(steps)
    return time.perf_counter() - start


def main(make):
    """`make(record, mode, settings)` gives the version, the difference, a function that runs so many steps, and one
    that tells the memory, or None."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    version, difference, run, memory = make(Record(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
    print(json.dumps({"version": version, "difference": difference}), file=answers, flush=True)
    steps = None
    for line in sys.stdin:
        if steps is None:
            steps = 1
            spent = timed(run, steps)
            while spent < SAMPLE_SECONDS / 4:
                steps *= 2
                spent = timed(run, steps)
            steps = max(1, int(steps * SAMPLE_SECONDS / spent))
        samples, start = [], time.perf_counter()
        while len(samples) < LEAST_SAMPLES or time.perf_counter() - start < float(line):
            samples.append(1e6 * timed(run, steps) / steps)
        answer = {"samples": samples}
        if memory:
            answer["memory"] = memory()
        print(json.dumps(answer), file=answers, flush=True)
