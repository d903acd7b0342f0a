#!/usr/bin/python3
"""What recording and replaying take of a program's time, by samples of perf.

    bench_shares.py BIN [--rounds N] [--only NAME]...

BIN is the folder with reprise and leveldb_bench. RocksDB: Debian's rocksdb-tools. Where other work shares the machine, times of whole
programs tell a tenth at best. Of the samples of one run the allocator's and the program's own meet the
same noise, so their ratio tells a hundredth. It holds the system calls that began in the allocator's code and,
but for recording, those that only allocators make wherever they began (the C library, whose callers perf does
not see), and all page faults: whose code is the first to touch a page is chance, how many pages there
are is not. It does not hold what its blocks' places cost or save the program's caches. In replay the
allocator is libreprise with its fallback; glibc's is not a library of its own and is left out.
"""

import argparse
import collections
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bench_record
import bench_replay

FREQUENCY = 4000  # samples per second
OURS = ("libreprise.so", "libmimalloc")
# Wherever they began; gcc gives pages back by itself, too, the same with all of them.
ALLOCATORS = ("exc_page_fault", "sys_madvise", "sys_brk")


def share(folder, workload, prefix, libraries, anywhere=ALLOCATORS):
    """Samples in these libraries, and of these functions of the kernel, over the others; None when it died."""
    data = folder / "samples"
    if not workload.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(FREQUENCY), "-o", data,
                         *prefix, *workload.program], folder):
        return None
    counts = collections.Counter()
    # Per sample: the command's name, then a line per frame, innermost first, and an empty line.
    with subprocess.Popen(["perf", "script", "-i", data, "-F", "comm,ip,sym,dso"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as script:
        name, known = None, False
        for line in script.stdout:
            if not line.strip():
                name = None
            elif name is None:
                name, known = line.strip(), False
            elif not known and (any(call in line for call in anywhere)
                                or "[kernel" not in line and "[vdso" not in line):
                known = True
                if not name.startswith(("reprise", "perf")):
                    counts["[kernel" in line or any(library in line for library in libraries)] += 1
    data.unlink()
    return counts[True] / counts[False] if counts[False] else None


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def text(value):
    return "-" if value is None else f"{value:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], help="a program by its name")
    options = parser.parse_args()
    if shutil.which("perf") is None:
        sys.exit("bench_shares.py: perf is not installed (Debian: linux-perf)")
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as scratch:
        bench = bench_record.Bench(options.bin, pathlib.Path(scratch))
        peers = {name: file for name, file in bench_replay.peers().items() if file is not None}
        print(f"{time.strftime('%Y-%m-%d')}, {bench_record.machine()}; samples of the allocator and of page faults over the rest, "
              f"medians of {options.rounds} interleaved rounds")
        print("| program | recording adds | " + " | ".join([*peers, "replay"]) + " | replay to the best |")
        print("|---" * (len(peers) + 4) + "|")
        for workload in bench.workloads() + bench.threaded():
            if workload.micro_events or (options.only and workload.name not in options.only):
                continue
            replay = bench_replay.Replay(bench.bin, bench.scratch / workload.name)
            for begin in (replay.record_and_plan, replay.plan_again):
                begin(lambda prefix: workload.run([*prefix, *workload.program], replay.folder))
            taken = collections.defaultdict(list)
            for turn in range(options.rounds):
                trace = replay.folder / f"trace{turn}"
                taken["record"].append(share(replay.folder, workload,
                                             [bench.bin / "reprise", "record", "-o", trace, "--"],
                                             ("libreprise.so",), anywhere=()))
                shutil.rmtree(trace, ignore_errors=True)
                for peer, file in peers.items():
                    taken[peer].append(share(replay.folder, workload,
                                             ["/usr/bin/env", f"LD_PRELOAD={file}"], (file.name,)))
                taken["replay"].append(share(replay.folder, workload, replay.command(), OURS))
            shares = {name: median(values) for name, values in taken.items()}
            best = min((shares[peer] for peer in peers if shares[peer] is not None), default=None)
            ratio = (1 + shares["replay"]) / (1 + best) if best is not None and shares["replay"] is not None else None
            cells = [shares["record"], *(shares[peer] for peer in peers), shares["replay"], ratio]
            print(f"| {workload.name} | " + " | ".join(map(text, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
