#!/usr/bin/python3
"""What replay costs and saves, beside the allocators that are installed.

    bench_replay.py BIN [--rounds N] [--only NAME]...

BIN is the folder with reprise, leveldb_bench, micro_malloc and cpu_time. Every program is recorded and
planned, and planned again from a recording made in replay; the small loops once. Then every round runs
it under each allocator and under replay once. The tables tell medians over the rounds: CPU time of the
program alone, what replay takes of each allocator's in the same round (± the median's standard error: on
a shared machine most of it is other work), the spread of the CPU times, and
in rounds of their own the peak RSS, counted exactly (the kernel's own figure is off by more than the
allocators differ), and the arena beside the max load of the same run.
The same pages for all: transparent huge pages as the machine has them set.
"""

import argparse
import json
import math
import mmap
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_record

LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
PEERS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2.0",
         "tcmalloc": "libtcmalloc_minimal.so.4"}


def peers():
    return {name: LIBRARIES / file if file else None for name, file in PEERS.items()
            if file is None or (LIBRARIES / file).exists()}


class Replay:
    """Runs commands in one folder, so that a recorded child finds its plan by its place."""

    def __init__(self, binaries, folder):
        self.bin = binaries
        self.folder = folder
        folder.mkdir()

    def reprise(self, *words, **options):
        return subprocess.run([str(self.bin / "reprise"), *map(str, words)], cwd=self.folder,
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
                              **options)

    def record_and_plan(self, start):
        start([self.bin / "reprise", "record", "-o", "recording", "--"])
        self.reprise("plan", "recording", "-o", "plan", "--budget", "10")

    def plan_again(self, start):
        """From a recording made in replay: programs go through their hash tables in the order of
        addresses, and do something else where these change."""
        start([self.bin / "reprise", "replay", "plan", "--record", "again", "--"])
        self.reprise("plan", "again", "-o", "plan", "--budget", "10")

    def command(self):
        return [self.bin / "reprise", "replay", "plan", "--stats", "stats.json", "--"]

    def stats(self):
        return json.loads((self.folder / "stats.json").read_text())

    def arena(self, start):
        """Of a run in replay the arena and the max load, bytes: the load is another in each run."""
        shutil.rmtree(self.folder / "own", ignore_errors=True)
        start([*self.command()[:3], "--record", "own", *self.command()[3:]])
        info = subprocess.run([str(self.bin / "reprise"), "info", "--json", "own"], cwd=self.folder,
                              capture_output=True, check=True)
        return self.stats()["arena_bytes"], json.loads(info.stdout)["max_load"]


def warm_huge_pages(mib):
    """Touches so much memory in huge pages and gives it back, so that the next who wants some gets these.

    A virtual machine that reports its free memory to its host loses it within seconds, huge pages first: to touch one
    then costs tens of times as much as where memory is the machine's own. No allocator can help that.
    """
    if mib == 0:
        return
    with mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at] = 1


def micro(bench, options, cases):
    """Nanoseconds of CPU per event."""
    rows = {}
    program = bench.bin / "micro_malloc"
    line = re.compile(r"([0-9.]+) s CPU")
    for name, (planned, run, events) in cases.items():
        replay = Replay(bench.bin, bench.scratch / name.replace(" ", "_").replace("%", ""))

        def start(prefix, words):
            warm_huge_pages(options.warm)
            done = subprocess.run([*map(str, prefix), str(program), *words], cwd=replay.folder,
                                  capture_output=True, text=True, check=True)
            return 1e9 * float(line.search(done.stderr).group(1)) / events

        replay.record_and_plan(lambda prefix: start(prefix, planned))
        for _ in range(options.rounds):
            for peer, file in peers().items():
                prefix = [] if file is None else ["/usr/bin/env", f"LD_PRELOAD={file}"]
                rows.setdefault((name, peer), []).append(start(prefix, run))
            rows.setdefault((name, "replay"), []).append(start(replay.command(), run))
        rows[name, "stats"] = replay.stats()
    return rows


PEAKS = 12  # rounds in which the peaks are taken, at most: LevelDB's vary by a quarter of a MiB


def programs(bench, options):
    """What whole programs cost, by cpu_time: in the rounds, and in a few more, in which only the peak counts."""
    rows = {}
    for workload in bench.workloads() + bench.threaded():
        if workload.micro_events or (options.only and workload.name not in options.only):
            continue
        replay = Replay(bench.bin, bench.scratch / workload.name)
        own = [bench.bin / "cpu_time", "time"]

        def start(prefix, inner=()):
            warm_huge_pages(options.warm)
            workload.run([*prefix, *own, *inner, *workload.program], replay.folder)
            return json.loads((replay.folder / "time").read_text())

        def play(rounds, what):
            for turn in range(rounds):
                for peer, file in peers().items():
                    inner = ["/usr/bin/env", f"LD_PRELOAD={file}"] if file else ["/usr/bin/env"]
                    rows.setdefault((what, workload.name, peer), []).append(start([], inner))
                rows.setdefault((what, workload.name, "replay"), []).append(start(replay.command()))
                progress(f"{what} {turn + 1} of {rounds}: {workload.name}")

        replay.record_and_plan(start)
        replay.plan_again(start)
        play(options.rounds, "round")
        rows["stats", workload.name] = replay.stats()
        os.environ["EXACT_PEAK"] = "1"
        play(min(options.rounds, PEAKS), "peak")
        del os.environ["EXACT_PEAK"]
        rows["arena", workload.name] = [replay.arena(start) for _ in range(options.rounds)]
    return rows


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr)


def served(stats):
    """Percentages of the allocations: from the arena, and where the plan said."""
    allocations = max(stats["allocations"], 1)
    improvised = stats.get("improvised", 0)
    return f"{stats['served_percent']:.2f} %, {100 * improvised / allocations:.2f} %"


def table(title, names, columns, cell):
    print(f"\n{title}\n| | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in names:
        print(f"| {name} | " + " | ".join(cell(name, column) for column in columns) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="a program or `micro`")
    parser.add_argument("--warm", type=int, default=64, metavar="MIB",
                        help="huge pages to touch before each run, of any allocator (default: 64)")
    options = parser.parse_args()
    events = 10_000_000
    plain = ["live_set", "--events", str(events)]
    cases = {
        "64 B, freed at once": (["lifo", "--events", str(4 * events)],) * 2 + (4 * events,),
        "random small": (plain, plain, events),
        "four workers, a queue": (["queue", "--events", str(events)],) * 2 + (events,),
        "large, touched": (["large", "--events", str(events // 2)],) * 2 + (events // 2 // 1000,),
        "another plan": (["lifo", "--events", str(events)], plain, events),
        "64 B, another plan": (plain, ["lifo", "--events", str(4 * events)], 4 * events),
        "large, another plan": (["lifo", "--events", str(events)], ["large", "--events", str(events // 2)], events // 2 // 1000),
        "workers without a plan": (["lifo", "--events", str(events)], ["queue", "--events", str(events)], events),
        "freed by another thread, another plan": (["lifo", "--events", str(events)], ["cross_thread", "--events", str(events)], events),
        # The compiler makes a loop of its own of the one that perturbs nothing, with other call sites.
        **{f"{share / 10000:g} % perturbed": ([*plain, "--perturbed", "1"], [*plain, "--perturbed", str(share)], events)
           for share in (1000, 10_000, 100_000, 1_000_000)},
    }
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as scratch:
        bench = bench_record.Bench(options.bin, pathlib.Path(scratch))
        columns = [*peers(), "replay"]
        pages = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
        setting = re.search(r"\[(\w+)\]", pages.read_text()).group(1) if pages.exists() else "none"
        print(f"{time.strftime('%Y-%m-%d')}, {bench_record.machine()}, Linux {os.uname().release}, "
              f"transparent huge pages {setting}, {options.warm} MiB of them warm; medians of {options.rounds} interleaved rounds")
        if not options.only or "micro" in options.only:
            rows = micro(bench, options, cases)
            table("micro_malloc: ns of CPU per event", cases, [*columns, "served, improvised"],
                  lambda name, column: served(rows[name, "stats"]) if column.startswith("served")
                  else f"{statistics.median(rows[name, column]):.2f}")
            table("replay's of each one's", cases, peers(),
                  lambda name, column: ratio(rows[name, "replay"], rows[name, column]))
        if options.only == ["micro"]:
            return
        rows = programs(bench, options)
        names = [key[1] for key in rows if key[0] == "stats"]

        def all_of(name, column, field):
            what = "round" if field == "cpu" else "peak"
            return [cost[field] for cost in rows[what, name, column]]

        def mib(name, column, field):
            return f"{statistics.median(all_of(name, column, field)) / 2**20:.2f}"

        table("CPU seconds", names, [*columns, "served, improvised"],
              lambda name, column: served(rows["stats", name]) if column.startswith("served")
              else f"{statistics.median(all_of(name, column, 'cpu')):.3f}")
        table("replay's of each one's", names, peers(),
              lambda name, column: ratio(all_of(name, "replay", "cpu"), all_of(name, column, "cpu")))
        table("peak RSS, MiB (of that behind no file: heap, tables, stacks)", names, columns,
              lambda name, column: f"{mib(name, column, 'rss')} ({mib(name, column, 'anonymous')})")
        def arena(name, choose):
            return f"{choose(own / load for own, load in rows['arena', name]):.3f}"

        kinds = {"median": statistics.median, "smallest": min, "largest": max}
        table("arena, of the max load of the same run", names, kinds,
              lambda name, column: arena(name, kinds[column]))
        table("spread of the CPU seconds (standard deviation over mean)", names, columns,
              lambda name, column: f"{100 * spread(all_of(name, column, 'cpu')):.1f} %")


def ratio(ours, theirs):
    """The median of what two have in the same rounds, and from three rounds on its standard error, as of a normal distribution."""
    ratios = [our / their for our, their in zip(ours, theirs)]
    error = math.sqrt(math.pi / 2 / len(ratios)) * statistics.stdev(ratios) if len(ratios) > 2 else None
    return f"{statistics.median(ratios):.3f}" + (f" ± {error:.3f}" if error is not None else "")


def spread(values):
    return statistics.pstdev(values) / statistics.mean(values)


if __name__ == "__main__":
    main()
