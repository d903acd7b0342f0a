#!/usr/bin/python3
"""What a plan gains by learning from replays of the plan before.

    bench_learn.py BIN [--rounds N] [--runs N] [--only NAME]...

BIN is the folder with reprise and leveldb_bench. Every program is recorded once. Each round plans the
recording with the statistics of one run of every round before, and replays the plan several times.
The table tells medians over the runs: what was improvised, how large the arena was, peak RSS, and CPU
time as a ratio to the program without reprise, run in between.
"""

import argparse
import json
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile

REDIS = """redis-server --port 0 --unixsocket socket --save '' --appendonly no --logfile log &
until [ -S socket ]; do sleep 0.05; done
redis-cli -s socket < '{script}'
redis-cli -s socket shutdown nosave
wait
"""


def cpu_seconds(words, folder):
    """Of the command and all it starts."""

    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return used() - before


def largest(images, field):
    return max(images, key=lambda image: image[field])


def measure(reprise, command, folder, rounds, runs):
    cpu_seconds([reprise, "record", "-o", "recording", "--", *command], folder)
    learned = []
    for number in range(rounds + 1):
        words = [reprise, "plan", "recording", "-o", "plan", "--json"]
        for stats in learned:
            words += ["--learn", stats]
        planned = subprocess.run(words, cwd=folder, capture_output=True, check=True)
        plan = largest(json.loads(planned.stdout)["images"], "buffers")
        ratios, replays = [], []
        for run in range(runs):
            stats = f"stats-{number}-{run}.json"
            replay = cpu_seconds(
                [reprise, "replay", "plan", "--stats", stats, "--", *command], folder
            )
            ratios.append(replay / cpu_seconds(command, folder))
            text = (folder / stats).read_text()
            replays.append(largest(json.loads(text)["images"], "allocations"))
        learned.append(f"stats-{number}-0.json")

        def median(field):
            return statistics.median(replay[field] for replay in replays)

        yield (
            number,
            plan["fragmentation_percent"],
            100 * median("improvised") / median("allocations"),
            median("fallback"),
            median("arena_bytes") / 2**20,
            median("peak_rss") / 2**20,
            statistics.median(ratios),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    binaries = options.bin.resolve()
    programs = {"leveldb_bench": [str(binaries / "leveldb_bench")], "redis": ["sh", "redis.sh"]}
    if shutil.which("redis-server") is None:
        del programs["redis"]
    workloads = pathlib.Path(__file__).resolve().parent.parent
    for name in options.only or programs:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "redis.sh").write_text(REDIS.format(script=workloads / "redis.txt"))
            print(f"{name}\nlearned from  plan above max load  improvised  fallback"
                  "  arena MiB  peak RSS MiB  CPU to plain")
            for row in measure(str(binaries / "reprise"), programs[name], folder, options.rounds,
                               options.runs):
                print("%7d runs %18.2f %% %9.2f %% %9d %10.2f %13.2f %13.2f" % row, flush=True)


if __name__ == "__main__":
    main()
