#!/usr/bin/python3
"""Networks that are recorded for a few iterations and replayed for many, beside allocators.

    bench_loops.py BIN [--rounds N] [--only MODEL]... [--batch N,...] [--pixels N,...]
                   [--threads N,...] [--train] [--no-strategies]

BIN is the folder with reprise. Each model of workloads/pytorch/inference.py is recorded for 3
iterations, planned, and run for 30 under each allocator and in replay, interleaved. The tables tell
per model:

- the median latency of iterations 3 to 30 beside the best allocator's in the same round (± the
  standard error over the rounds);
- the least latency of all rounds beside the least of the best allocator, of glibc and of jemalloc,
  which slow phases of a shared machine do not change;
- the peak RSS beside the smallest;
- how many of all allocations went where the plan said, and how many of the iterations' did: the
  difference of two replays, the second with twice as many iterations, in which what differs at the
  start and the end of the program cancels;
- how long the plan took;
- what strategies of the planner leave above the max load of the recording, with its loop
  (Levental 2022, figure 3.4; greedy by size has no search).

Needs python3-torch and python3-torchvision. Lanes share nothing while they follow their plan; what
more processors than threads gain cannot be told by this.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_record
import bench_replay

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFERENCE = ROOT / "workloads" / "pytorch" / "inference.py"
STRATEGIES = ("auto", "bump", "mip", "gergov", "greedy_by_size", "mincost_flow")


def ways():
    """Name → environment, of every allocator; the paper has jemalloc with a threshold of 1 MB, too."""
    found = {name: {"LD_PRELOAD": str(file)} if file else {} for name, file in bench_replay.peers().items()}
    if "jemalloc" in found:
        found["jemalloc, 1 MB"] = found["jemalloc"] | {"MALLOC_CONF": "oversize_threshold:1048576"}
    return found


class Model:
    """One model with its options, in a folder of its own."""

    def __init__(self, reprise, folder, name, options):
        self.reprise, self.folder = str(reprise), folder
        self.program = ["/usr/bin/python3", str(INFERENCE), name, *options]
        folder.mkdir()

    def run(self, prefix, iterations, environment=None):
        """Seconds per iteration. Standard output is kept as `printed`, the peak RSS in KiB as `peak`."""
        command = [*prefix, *self.program, "--iterations", str(iterations), "--times", "times"]
        with open(self.folder / "printed", "w+b") as output, open(self.folder / "errors", "w+b") as errors:
            child = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=errors, env=os.environ | (environment or {}))
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            errors.seek(0)
            if child.returncode != 0:
                raise subprocess.CalledProcessError(child.returncode, command, stderr=errors.read())
            self.printed, self.peak = output.read(), usage.ru_maxrss
        return json.loads((self.folder / "times").read_text())

    def plan(self, *words):
        """What `plan --json` says of the image with most allocations, and its CPU seconds."""
        before = os.times()
        done = subprocess.run([self.reprise, "plan", "rec", *words, "--json"], cwd=self.folder, capture_output=True, check=True)
        after = os.times()
        images = json.loads(done.stdout)["images"]
        largest = max(images, key=lambda it: it["buffers"])
        return largest, after.children_user + after.children_system - before.children_user - before.children_system


def latency(times):
    """The median of the iterations from the third one on, and the least."""
    return statistics.median(times[2:]), min(times[2:])


def iterations_as_planned(short, long):
    """Of the allocations that the longer replay makes more; and how many more of them went elsewhere."""
    more = long["allocations"] - short["allocations"]
    elsewhere = (long["allocations"] - long["planned"]) - (short["allocations"] - short["planned"])
    return f"{100 * (1 - max(elsewhere, 0) / max(more, 1)):.3f} % ({elsewhere:+,} of {more:,})"


def measure(model, rounds, recorded, iterations):
    """One row of the table, and the strategies' heights."""
    model.run([model.reprise, "record", "-o", "rec", "--"], recorded)
    _, planning = model.plan("-o", "plan", "--budget", "5")
    replay = [model.reprise, "replay", "plan", "--stats", "stats.json", "--"]
    seconds, peaks, printed = {}, {}, set()
    for _ in range(rounds):
        for name, environment in ways().items():
            seconds.setdefault(name, []).append(latency(model.run([], iterations, environment)))
            peaks[name] = min(model.peak, peaks.get(name, model.peak))
            printed.add(model.printed)
        seconds.setdefault("replay", []).append(latency(model.run(replay, iterations)))
        printed.add(model.printed)
    stats = json.loads((model.folder / "stats.json").read_text())
    model.run(replay, 2 * iterations)
    more = iterations_as_planned(stats, json.loads((model.folder / "stats.json").read_text()))
    leasts = {name: min(least for _, least in values) for name, values in seconds.items()}
    seconds = {name: [median for median, _ in values] for name, values in seconds.items()}
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    best = min((name for name in medians if name != "replay"), key=medians.get)
    ratios = [mine / theirs for mine, theirs in zip(seconds["replay"], seconds[best])]
    error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0
    fastest = min((name for name in leasts if name != "replay"), key=leasts.get)
    smallest = min(peaks, key=peaks.get)
    row = [*(f"{1000 * medians[name]:.1f}" for name in [*ways(), "replay"]),
           f"{statistics.median(ratios):.3f} ± {error:.3f} of {best}",
           f"{leasts['replay'] / leasts[fastest]:.3f} of {fastest}", f"{leasts['replay'] / leasts['glibc']:.3f}",
           f"{leasts['replay'] / leasts['jemalloc']:.3f}" if "jemalloc" in leasts else "",
           f"{stats['peak_rss'] / 1024 / peaks[smallest]:.3f} of {smallest}",
           f"{stats['iterations']:,}", f"{100 * stats['planned'] / max(stats['allocations'], 1):.2f} %", more,
           f"{planning:.2f}", "yes" if len(printed) == 1 else "NO"]
    return row


def heights(model):
    """Per strategy: what it leaves above the max load, in percent, and its CPU seconds."""
    cells = []
    for strategy in STRATEGIES:
        try:
            planned, seconds = model.plan("-o", "other", "--lanes", "none", "--strategy", strategy, "--budget", "5")
            above = 100 * (planned["makespan"] / planned["max_load"] - 1)
            cells.append(f"{above:.2f} % in {seconds:.2f} s")
        except subprocess.CalledProcessError as error:
            cells.append(error.stderr.decode().strip().splitlines()[-1][-60:])
        shutil.rmtree(model.folder / "other", ignore_errors=True)
    return cells


def table(title, columns, rows):
    print(f"\n{title}\n\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def numbers(text):
    return [int(it) for it in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recorded", type=int, default=3, help="iterations that are recorded")
    parser.add_argument("--iterations", type=int, default=30, help="that are replayed")
    parser.add_argument("--only", action="append", default=[], help="a model")
    parser.add_argument("--batch", type=numbers, default=[1])
    parser.add_argument("--pixels", type=numbers, default=[128])
    parser.add_argument("--threads", type=numbers, default=[1])
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--no-strategies", action="store_true")
    options = parser.parse_args()
    reprise = pathlib.Path(options.bin).resolve() / "reprise"
    models = subprocess.run(["/usr/bin/python3", str(INFERENCE), "--list"], capture_output=True, text=True, check=True).stdout.split()
    models = [it for it in models if not options.only or it in options.only]
    print(f"{time.strftime('%Y-%m-%d')}, {bench_record.machine()}; {options.rounds} rounds, {options.recorded} iterations recorded, "
          f"{options.iterations} replayed{', training' if options.train else ''}")
    rows, tall = [], []
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as scratch:
        for name, batch, pixels, threads in itertools.product(models, options.batch, options.pixels, options.threads):
            label = f"{name} {batch} x {pixels}, {threads}"
            words = ["--batch", str(batch), "--pixels", str(pixels), "--threads", str(threads), *(["--train"] if options.train else [])]
            model = Model(reprise, pathlib.Path(scratch) / f"{name}-{batch}-{pixels}-{threads}", name, words)
            rows.append([label, *measure(model, options.rounds, options.recorded, options.iterations)])
            if not options.no_strategies:
                tall.append([label, *heights(model)])
            shutil.rmtree(model.folder)
            print(f"bench_loops: {' | '.join(rows[-1])}", file=sys.stderr, flush=True)
    table("Latency per iteration, ms (model, batch x pixels, threads)",
          ["model", *ways(), "replay", "replay / best", "least / least", "of glibc's", "of jemalloc's", "peak RSS / smallest", "iterations", "as planned", "of the iterations", "planning, CPU s", "same output"], rows)
    if tall:
        table("Above the max load", ["model", *STRATEGIES], tall)


if __name__ == "__main__":
    sys.exit(main())
