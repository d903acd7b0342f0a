"""librandom_walk.so under real programs, and driven with a recording; the experiments' command."""

import json
import shutil

from harness import SOURCE, Skip, expect, expect_equal, main


def library(bench):
    return bench.build / "lib" / "librandom_walk.so"


def both(bench, *command, **options):
    """Runs a command plainly and with the library preloaded: the same bytes, the same status."""
    if shutil.which(command[0], path=bench.environment["PATH"]) is None:
        raise Skip(f"there is no {command[0]}")
    plain = bench.run(*command, **options)
    bench.environment["LD_PRELOAD"] = str(library(bench))
    preloaded = bench.run(*command, **options)
    del bench.environment["LD_PRELOAD"]
    expect_equal(preloaded.stderr, plain.stderr, f"{command[0]}: standard error")
    expect_equal(preloaded.stdout, plain.stdout, f"{command[0]}: standard output")
    expect_equal(preloaded.status, plain.status, f"{command[0]}: exit status")
    return plain


def sqlite(bench):
    script = (SOURCE / "workloads" / "sqlite.sql").read_bytes()
    expect(both(bench, "sqlite3", ":memory:", stdin=script).stdout, "sqlite3 printed nothing")


def python(bench):
    bench.environment["PYTHONHASHSEED"] = "0"
    both(bench, "/usr/bin/python3", SOURCE / "workloads" / "python_script.py")
    threads = "import threading as t\nq=[t.Thread(target=lambda: [bytearray(i) for i in range(9000)])"
    threads += " for _ in range(8)]\n[x.start() for x in q]\n[x.join() for x in q]\nprint('joined')"
    expect_equal(both(bench, "/usr/bin/python3", "-c", threads).stdout, b"joined\n", "threads")
    # Large blocks, forks among them, and an end by an exception.
    forks = "import os\nb=[bytearray(n) for n in (10, 5000, 3<<20)]\np=os.fork()\nb.append('x'*9999999)\n"
    forks += "os._exit(0) if p == 0 else print(os.waitpid(p, 0)[1], len(b[-1]))\nraise SystemExit(3)"
    expect_equal(both(bench, "/usr/bin/python3", "-c", forks).status, 3, "exit status")


def git(bench):
    for name in ("a", "b"):
        (bench.work / f"{name}.txt").write_text(f"{name}\n" * 5000)
    identity = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
    bench.environment.update(GIT_AUTHOR_DATE="@0 +0000", GIT_COMMITTER_DATE="@0 +0000")
    bench.run("git", "init", "-q", ".", expected=0)
    bench.run("git", "add", ".", expected=0)
    bench.run("git", *identity, "commit", "-qm", "one", expected=0)
    both(bench, "git", "log", "-p")
    both(bench, "git", "fsck", "--full")


def compare(bench):
    script = (SOURCE / "workloads" / "sqlite.sql").read_bytes()
    bench.record(["sqlite3", ":memory:"], stdin=script, expected=0)
    words = ["--allocators", "glibc", "--allocator", f"random_walk={library(bench)}", "--json"]
    result = bench.run(bench.reprise, "compare", bench.scratch / "recording", *words, expected=0)
    names = {row["allocator"]: row for row in json.loads(result.stdout)["results"]}
    expect("random_walk" in names, f"random_walk was not measured: {list(names)}")
    row = names["random_walk"]
    expect_equal(row["failures"], 0, "refused allocations")
    expect(row["operations"] == names["glibc"]["operations"], "it did not do all of the recording")


def threads(bench):
    """No page twice, none lost; the errors are in the exit status."""
    bench.run(bench.build / "bin" / "bench_random_walk_cpu", "stress", 2000000, 4, expected=0)


def experiments(bench):
    """The command writes JSON and a plot of what was measured, and prints the tables."""
    source, output = bench.scratch / "measured", bench.scratch / "output"
    source.mkdir()
    steps = bench.run(bench.build / "bin" / "bench_random_walk_cpu", "steps", 1, 16384, expected=0)
    (source / "steps.jsonl").write_bytes(steps.stdout)
    # A run that was stopped leaves half a line.
    (source / "device_pages.jsonl").write_text('{"kind": "left_out", "experiment": "pages"}\n{"kind": "pa')
    command = SOURCE / "workloads" / "bench" / "bench_random_walk"
    printed = bench.run("/usr/bin/python3", "-B", command, "--from", source, "--output", output, expected=0)
    expect(b"Against the formulas" in printed.stdout, "no table of the formulas")
    expect(b"Left out for time: 1" in printed.stdout, "what was left out is not said")
    results = json.loads((output / "random_walk_cpu.json").read_text())
    expect(all(r["tas"] >= 1 for r in results), "a search of no steps")
    expect("<polyline" in (output / "random_walk_steps.svg").read_text(), "no line in the plot")


main({f.__name__: f for f in (sqlite, python, git, compare, threads, experiments)})
