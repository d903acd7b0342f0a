#!/usr/bin/python3
"""What recording costs the recorded program, beside the tracers that are installed.

    bench_record.py BIN [--rounds N] [--only NAME]... [--tracer NAME]...

BIN is the folder with reprise, leveldb_bench, micro_malloc and cpu_time. Every round runs every
workload under every tracer once, so that all of them meet the same noise; the tables tell medians over
the rounds: the CPU time of the program alone; wall time and CPU time of the whole command, with what it
does after the program's end (but not LTTng's daemon's CPU time). The first tracer, the floor, passes
every call on and does nothing else (pass_through.cc).
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

WORKLOADS = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")


class Cost(typing.NamedTuple):
    """Seconds of CPU and peak resident bytes of the program, bytes on disk, seconds of the command."""

    cpu: float
    rss: int
    size: int
    events: int
    wall: float
    whole_cpu: float


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Tracer:
    """Runs a command so that its own CPU time lands in a file; `size` is what it left on disk."""

    name = "none"

    def __init__(self, bench):
        self.bench = bench

    def command(self, folder, command):
        return [self.bench.bin / "cpu_time", folder / "time", *command]

    def begin(self, folder):
        pass

    def end(self, folder):
        return sum(f.stat().st_blocks * 512 for f in folder.glob("trace*") if f.is_file())


class Reprise(Tracer):
    name = "reprise"

    def command(self, folder, command):
        return [self.bench.bin / "reprise", "record", "-o", folder / "out", "--",
                *super().command(folder, command)]

    def end(self, folder):
        return sum(f.stat().st_size for f in (folder / "out").glob("*.trace"))


class WithStacks(Reprise):
    name = "reprise --stacks 8"

    def command(self, folder, command):
        words = super().command(folder, command)
        return [*words[:2], "--stacks", "8", *words[2:]]


class Preloaded(Tracer):
    """A tracer that is a library and a few variables of the environment."""

    def variables(self, folder):
        raise NotImplementedError

    def command(self, folder, command):
        return super().command(folder, ["/usr/bin/env", *self.variables(folder), *command])


class Plain(Preloaded):
    name = "plain"

    def variables(self, folder):
        return ["REPRISE_BENCH=1"]


class Floor(Preloaded):
    """What no tracer by LD_PRELOAD can be below: the calls are intercepted and passed on."""

    name = "floor"

    def variables(self, folder):
        return [f"LD_PRELOAD={self.bench.bin.parent / 'lib' / 'libpass_through.so'}"]


class Heaptrack(Preloaded):
    name = "heaptrack"
    preload = pathlib.Path("/usr/lib/heaptrack/libheaptrack_preload.so")

    def variables(self, folder):
        return [f"LD_PRELOAD={self.preload}", f"DUMP_HEAPTRACK_OUTPUT={folder}/trace"]


class Memusage(Preloaded):
    name = "libmemusage"
    preload = LIBRARIES / "libmemusage.so"

    def variables(self, folder):
        return [f"LD_PRELOAD={self.preload}", f"MEMUSAGE_OUTPUT={folder}/trace"]


class Lttng(Preloaded):
    name = "lttng"
    preload = LIBRARIES / "liblttng-ust-libc-wrapper.so"

    def lttng(self, *arguments):
        subprocess.run(["lttng", *arguments], check=True, stdout=subprocess.DEVNULL)

    def begin(self, folder):
        self.lttng("create", "reprise_bench", f"--output={folder}/ctf")
        self.lttng("enable-channel", "-u", "--blocking-timeout=inf", "events")
        self.lttng("enable-event", "-u", "-c", "events", "lttng_ust_libc:*")
        self.lttng("start")

    def variables(self, folder):
        return [f"LD_PRELOAD={self.preload}", "LTTNG_UST_ALLOW_BLOCKING=1"]

    def end(self, folder):
        self.lttng("destroy", "reprise_bench")
        return sum(f.stat().st_size for f in (folder / "ctf").rglob("*") if f.is_file())


class Workload:
    """One program; `run` starts the tracer's command and feeds it."""

    def __init__(self, name, command, stdin=None, events=None):
        self.name = name
        self.program = command
        self.stdin = stdin
        self.micro_events = events

    def run(self, command, folder):
        with open(self.stdin or os.devnull) as source:
            return subprocess.run([str(word) for word in command], stdin=source,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  cwd=folder, check=False).returncode == 0


class Redis(Workload):
    """The server is measured; the client repeats a script of commands."""

    REPEAT = 60

    def run(self, command, folder):
        socket = pathlib.Path(folder, "s")
        words = [str(word) for word in command] + ["--unixsocket", str(socket)]
        server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        for _ in range(400):
            if socket.exists() or server.poll() is not None:
                break
            time.sleep(0.05)
        script = (WORKLOADS / "redis.txt").read_text() * self.REPEAT + "SHUTDOWN NOSAVE\n"
        subprocess.run(["redis-cli", "-s", str(socket)], input=script, text=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return server.wait() == 0


class Bench:
    def __init__(self, binaries, scratch):
        self.bin = pathlib.Path(binaries).resolve()
        self.scratch = scratch

    def threaded(self):
        """Programs whose threads share their work in another way in each run."""
        leveldb = self.bin / "leveldb_bench"
        found = [Workload(f"LevelDB, {threads} threads", [leveldb, "--threads", threads]) for threads in (3, 8)]
        if shutil.which("db_bench"):
            found.append(Workload("RocksDB", ["db_bench", "--benchmarks=fillrandom,readrandom,overwrite", "--num=60000",
                                              "--threads=2", "--cache_size=8388608", "--write_buffer_size=2097152",
                                              "--disable_wal=1", "--db=db"]))
        return found

    def workloads(self):
        micro = self.bin / "micro_malloc"
        events = 20_000_000
        found = [Workload("micro, 1 thread", [micro, "live_set", "--events", events], events=events),
                 Workload("micro, 2 threads", [micro, "cross_thread", "--events", events // 4],
                          events=events // 4),
                 Workload("LevelDB", [self.bin / "leveldb_bench"])]
        if shutil.which("redis-server"):
            found.append(Redis("redis", ["redis-server", "--port", "0", "--save", "",
                                         "--appendonly", "no"]))
        if shutil.which("sqlite3"):
            script = self.scratch / "sqlite.sql"
            script.write_text("\n.open :memory:\n".join([(WORKLOADS / "sqlite.sql").read_text()] * 10))
            found.append(Workload("sqlite", ["sqlite3", ":memory:"], stdin=script))
        # Not by env(1): heaptrack follows no exec. The others take no notice of it.
        os.environ.update(PYTHONMALLOC="malloc", PYTHONHASHSEED="0")
        found.append(Workload("python3", ["/usr/bin/python3", WORKLOADS / "python_script.py", "50"]))
        compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True,
                                  check=False).stdout.strip()
        source = self.scratch / "source.ii"
        made = subprocess.run(["g++", "-std=c++20", "-E", "-o", source, WORKLOADS / "micro_malloc.cc"],
                              check=False)
        if made.returncode == 0:
            found.append(Workload("cc1plus", [compiler, "-quiet", "-O1", "-std=c++20", source, "-o",
                                              "/dev/null"]))
        return found

    def tracers(self):
        tracers = [Plain(self), Floor(self), Reprise(self), WithStacks(self)]
        for kind in (Heaptrack, Lttng, Memusage):
            if kind.preload.exists() and (kind is not Lttng or shutil.which("lttng")):
                tracers.append(kind(self))
        return tracers

    def measure(self, workload, tracer):
        """What one run costs; None when the program died under the tracer."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            tracer.begin(folder)
            began, children = time.monotonic(), children_cpu()
            workload.run(tracer.command(folder, workload.program), folder)
            size = tracer.end(folder)
            wall, whole = time.monotonic() - began, children_cpu() - children
            time_file = folder / "time"
            if not time_file.exists():
                return None
            cost = json.loads(time_file.read_text())
            if cost["status"] != 0:
                return None
            events = 0
            if tracer.name == "reprise":
                info = subprocess.run([self.bin / "reprise", "info", "--json", folder / "out"],
                                      capture_output=True, check=False)
                events = json.loads(info.stdout)["events"]
            return Cost(cost["cpu"], cost["rss"], size, events, wall, whole)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':')[1].strip()}, {os.cpu_count()} processors"
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="a workload by its name")
    parser.add_argument("--tracer", action="append", default=[], help="one by its name, besides plain")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as scratch:
        bench = Bench(options.bin, pathlib.Path(scratch))
        tracers = [t for t in bench.tracers()
                   if not options.tracer or t.name in ("plain", *options.tracer)]
        workloads = [w for w in bench.workloads() if not options.only or w.name in options.only]
        taken = {}
        for turn in range(options.rounds):
            for workload in workloads:
                for tracer in tracers:
                    result = bench.measure(workload, tracer)
                    taken.setdefault((workload.name, tracer.name), []).append(result)
                    if sys.stderr.isatty():
                        print(f"\rround {turn + 1} of {options.rounds}: {workload.name}, "
                              f"{tracer.name}\x1b[K", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        show(workloads, tracers, taken, options.rounds)


def show(workloads, tracers, taken, rounds):
    def median(workload, tracer, field):
        values = [getattr(result, field) for result in taken.get((workload.name, tracer.name), []) if result]
        return statistics.median(values) if values else None

    plain = tracers[0]
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}, Linux {platform.release()}, "
          f"{platform.libc_ver()[0]} {platform.libc_ver()[1]}; medians of {rounds} interleaved rounds")
    print()
    print("CPU time of the program, as a multiple of a plain run; micro: ns added per event")
    print("| workload | events | " + " | ".join(t.name for t in tracers[1:]) + " |")
    print("|---" * (len(tracers) + 1) + "|")
    for workload in workloads:
        base = median(workload, plain, "cpu")
        events = median(workload, Reprise, "events")
        cells = []
        for tracer in tracers[1:]:
            cpu = median(workload, tracer, "cpu")
            cell = "dies" if cpu is None else f"{cpu / base:.3f}×"
            if cpu is not None and workload.micro_events:
                cell += f" ({1e9 * (cpu - base) / workload.micro_events:.1f} ns)"
            cells.append(cell)
        print(f"| {workload.name} | {int(events or 0):,} | " + " | ".join(cells) + " |")
    print()
    print("Wall time / CPU time of the whole command, as multiples of a plain run")
    print("| workload | " + " | ".join(t.name for t in tracers[1:]) + " |")
    print("|---" * len(tracers) + "|")
    for workload in workloads:
        cells = []
        for tracer in tracers[1:]:
            ratios = [median(workload, tracer, field) for field in ("wall", "whole_cpu")]
            bases = [median(workload, plain, field) for field in ("wall", "whole_cpu")]
            cells.append("dies" if None in ratios
                         else " / ".join(f"{r / b:.2f}" for r, b in zip(ratios, bases)))
        print(f"| {workload.name} | " + " | ".join(cells) + " |")
    print()
    print("Bytes on disk per event after the run; MiB added to the peak RSS")
    traced = [tracer for tracer in tracers[1:] if not isinstance(tracer, Floor)]
    print("| workload | " + " | ".join(t.name for t in traced) + " |")
    print("|---" * (len(traced) + 1) + "|")
    for workload in workloads:
        base = median(workload, plain, "rss")
        events = median(workload, Reprise, "events")
        cells = []
        for tracer in traced:
            rss, size = median(workload, tracer, "rss"), median(workload, tracer, "size")
            if rss is None or not events:
                cells.append("-")
                continue
            cells.append(f"{size / events:.2f} B, {(rss - base) / 2**20:+.2f} MiB")
        print(f"| {workload.name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
