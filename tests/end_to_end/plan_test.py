"""`reprise plan` as a person runs it: what its summary says, and stopped before its time."""

import json
import random
import signal
import subprocess
import time

from harness import expect, expect_equal, main


def hard_instance(path):
    """Rectangles that fill a square but for some holes: nobody finds that packing again."""
    dice = random.Random(1)
    side = 1024
    pieces = [(0, side, 0, side)]
    while len(pieces) < 500:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]) * dice.random())
        left, right, low, high = pieces.pop()
        if right - left >= 6 and high - low >= 6:
            # A pinwheel, so that no straight cut takes it apart.
            a, c = left + (right - left) // 3, right - (right - left) // 3
            b, d = low + (high - low) // 3, high - (high - low) // 3
            pieces += [(left, c, low, b), (c, right, low, d), (a, right, d, high)]
            pieces += [(left, a, b, high), (a, c, b, d)]
        else:
            pieces.insert(0, (left, right, low, high))
    rows = [p for p in pieces if dice.random() > 0.03]
    dice.shuffle(rows)
    lines = [f"{i},{p[0]},{p[1]},{16 * (p[3] - p[2])}" for i, p in enumerate(rows)]
    path.write_text("id,lower,upper,size\n" + "\n".join(lines) + "\n")


def catches_interrupts(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        caught = next(line for line in status if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1


def interrupted(bench):
    """Ctrl-C ends the search, not the command: the best plan so far is written, and valid."""
    instance = bench.work / "hard.csv"
    hard_instance(instance)
    process = subprocess.Popen(
        [bench.reprise, "plan", instance, "-o", "hard.plan.csv", "--budget", "100000", "--json"],
        cwd=bench.work,
        env=bench.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not catches_interrupts(process):
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=100)
    expect_equal(process.returncode, 0, f"the exit status ({errors.decode()})")
    plan = json.loads(output)
    expect(plan["makespan"] >= plan["lower_bound"] >= plan["max_load"], f"found {plan}")
    checked = bench.run(
        bench.reprise, "check", instance, "hard.plan.csv", "--json", expected=0
    ).stdout
    expect_equal(json.loads(checked)["makespan"], plan["makespan"], "the makespan")


USABLE = r"""
#include <malloc.h>
#include <stdlib.h>
int main(int count, char** arguments) {
  void* blocks[1000];
  size_t sum = 0;
  for (int i = 0; i < 1000; ++i) {
    blocks[i] = malloc(1 + i * 7 % 600);
    if (count > 1) sum += malloc_usable_size(blocks[i]);
  }
  for (int i = 0; i < 1000; ++i) free(blocks[i]);
  return count > 1 && sum < 1000;
}
"""


def usable_sizes(bench):
    """How much of the max load is in usable sizes that the program was told is said."""
    (bench.work / "usable.c").write_text(USABLE)
    bench.run("gcc", "-O0", "-o", "usable", "usable.c", expected=0)
    for arguments, told in ((), False), (("ask",), True):
        bench.record(["./usable", *arguments], expected=0)
        words = [bench.reprise, "plan", bench.scratch / "recording", "-o", "plans"]
        plan = json.loads(bench.run(*words, "--json", expected=0).stdout)
        more = plan["usable_size_bytes"]
        expect_equal(more > 0, told, "more than requested")
        expect_equal(plan["max_load"] - more, bench.info()["max_load"], "max load of info")
        expect_equal(plan["makespan"], plan["max_load"], "makespan")
        said = bench.run(*words, expected=0).stdout.decode()
        line = (f"  sizes     as malloc_usable_size told the program: {more} bytes more than "
                "requested at the max load\n")
        expect_equal((line in said, " with usable sizes\n" in said), (told, told), said)


def without_lanes(bench):
    """How many allocations a plan leaves to the shared heap is said, and such a plan is not optimal."""
    bench.record([bench.build / "bin" / "programs" / "same_again", "1", "8"], expected=0)
    words = [bench.reprise, "plan", bench.scratch / "recording", "-o", "plans", "--budget", "1"]
    check = [bench.reprise, "check", bench.scratch / "recording", "plans"]
    for lanes in "auto", "thread":
        plan = json.loads(bench.run(*words, "--lanes", lanes, "--json", expected=0).stdout)
        unplanned = plan["unplanned_buffers"]
        expect_equal(unplanned > 0, lanes == "auto", f"{unplanned} without an offset")
        expect_equal(unplanned > 0, plan["lanes"] < plan["threads"], "threads without lanes")
        said = bench.run(*words, "--lanes", lanes, expected=0).stdout.decode()
        line = f"  unplanned {unplanned} of {plan['buffers']} allocations: the shared heap serves them"
        expect_equal(line in said, lanes == "auto", said)
        expect("optimal" not in said and not plan["proven_optimal"], said)
        checked = json.loads(bench.run(*check, "--json", expected=0).stdout)
        expect_equal(checked["unplanned_buffers"], unplanned, "of check")
        said = bench.run(*check, expected=0).stdout.decode()
        expect_equal(f"; {unplanned} more without an offset" in said, lanes == "auto", said)


if __name__ == "__main__":
    main({case.__name__: case for case in (interrupted, usable_sizes, without_lanes)})
