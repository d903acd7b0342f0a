"""`reprise plan` as a person runs it: stopped before its time."""

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


if __name__ == "__main__":
    main({case.__name__: case for case in (interrupted,)})
