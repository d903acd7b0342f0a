#!/usr/bin/python3
"""Measures `reprise compare` and `reprise report` and prints a table (docs/benchmarks.md).

    workloads/bench/bench_report.py BUILD [--trace FILE]... [--buffers N]

--trace: an Android text, which is compared over four allocators and its plan. The reports are made
of a synthetic recording of N buffers, and opened in headless chromium where it is installed.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
VISITS = 7  # of a page


def run(command, **options):
    """Runs it and returns (its output, seconds, peak resident memory of that process alone)."""
    start = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, **options) as it:
        peak = 0
        # Its children do not count: they are the allocators' players.
        status = pathlib.Path(f"/proc/{it.pid}/status")
        chunks = []
        reader = threading.Thread(target=lambda: chunks.append(it.stdout.read()))
        reader.start()
        while it.poll() is None:
            try:
                for line in status.read_text().splitlines():
                    if line.startswith("VmHWM:"):
                        peak = max(peak, int(line.split()[1]) * 1024)
            except OSError:
                pass
            time.sleep(0.01)
        seconds = time.monotonic() - start
        reader.join()
        if it.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: exit {it.returncode}")
    return chunks[0], seconds, peak


def compare(reprise, trace, scratch):
    plan = scratch / "compared.plan"
    run([reprise, "plan", trace, "-o", plan, "--budget", "2", "--json"])
    output, seconds, peak = run([reprise, "compare", trace, "--plan", plan, "--json"])
    table = json.loads(output)
    print(f"\n`reprise compare {trace.name} --plan …`: {seconds:.1f} s, {peak / MIB:.0f} MiB of its own\n")
    print("| allocator | footprint MiB | above max load | inside blocks MiB | between MiB | "
          "peak RSS MiB | ns/op | waits |")
    print("|---|---|---|---|---|---|---|---|")
    for it in table["results"]:
        parts = [it.get(name) for name in ("internal_fragmentation", "external_fragmentation")]
        parts = [f"{part / MIB:.2f}" if part is not None else "–" for part in parts]
        print(f"| {it['allocator']} {it['version']} | {it['footprint'] / MIB:.2f} | "
              f"{it['fragmentation_percent']:.1f} % | {parts[0]} | {parts[1]} | "
              f"{it['peak_rss'] / MIB:.2f} | {it['nanoseconds_per_operation']:.1f} | {it['waits']} |")


def player(reprise, trace):
    """What the player itself costs, beside what an allocator does."""
    output, _, _ = run([reprise, "compare", trace, "--allocators", "glibc,nothing", "--runs", "5",
                        "--samples", "0", "--json"])
    for it in json.loads(output)["results"]:
        fastest = 1e9 * it["seconds_range"][0] / it["operations"]
        processor = 1e9 * it["cpu_seconds"] / it["operations"]
        print(f"player, single-threaded, {it['allocator']}: {fastest:.1f} ns per operation in the "
              f"fastest of {it['runs']} runs, {it['nanoseconds_per_operation']:.1f} in the median; "
              f"{processor:.1f} of CPU time in the median")


PAN = """
  const done = arguments[arguments.length - 1], report = window.repriseReport;
  const {begin, end, bottom, top} = report.view, wide = end - begin;
  report.setView({begin: begin, end: begin + wide / 2, bottom, top});
  const before = {paints: report.measured.paints, frames: report.measured.frames};
  const start = performance.now();
  let forth = 1;
  (function step() {
    const now = performance.now() - start;
    if (now > 4000) {
      const each = report.maps.length * now / 1000;
      done({paints: (report.measured.paints - before.paints) / each,
            frames: (report.measured.frames - before.frames) / each});
      return;
    }
    const at = wide / 4 * (1 - Math.cos(now / 700));
    report.setView({begin: begin + at, end: begin + at + wide / 2});
    requestAnimationFrame(step);
  })();
"""


def browse(path):
    sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
    from harness import Skip
    from report_test import Browser

    visits = []
    try:
        for _ in range(VISITS):
            with Browser(path) as browser:
                measured = browser.run("return repriseReport.measured")
                rates = browser.driver.execute_async_script(PAN)
                visits.append((measured["firstPaint"], measured["allPainted"], measured["exact"],
                               rates["paints"], rates["frames"]))
                version = browser.driver.capabilities["browserVersion"]
    except Skip as skip:
        return f"not opened: {skip}"
    first, every, exact, paints, frames = (sorted(column) for column in zip(*visits))
    middle = VISITS // 2
    return (f"first paint {first[middle]:.0f} ms after navigation (best {first[0]:.0f}), every map "
            f"{every[middle]:.0f} ms (best {every[0]:.0f}), painted from the blocks themselves "
            f"{exact[middle]:.0f} ms (best {exact[0]:.0f}); panning: {paints[middle]:.0f} newly "
            f"computed pictures (worst {paints[0]:.0f}) and {frames[middle]:.0f} frames per second "
            f"and map; medians of {VISITS} visits (chromium {version})")


def report(build, scratch, buffers):
    reprise = build / "bin" / "reprise"
    csv, trace, plan = (scratch / name for name in ("s.csv", "s.trace", "s.plan"))
    csv.write_bytes(run([build / "bin" / "synthetic_trace", "--buffers", buffers, "--seed", 1])[0])
    run([reprise, "convert", csv, trace])
    run([reprise, "plan", trace, "-o", plan, "--budget", "2", "--json"])
    player(reprise, trace)
    for words, what in ((["--allocators", "none"], "the plan's map"),
                        (["--allocators", "glibc"], "glibc's and the plan's map")):
        page = scratch / "page.html"
        _, seconds, peak = run([reprise, "report", trace, "--plan", plan, "-o", page, *words])
        print(f"\nreport of {buffers} buffers, {what}: written in {seconds:.2f} s with {peak / MIB:.0f} "
              f"MiB, {page.stat().st_size / MIB:.1f} MiB large\n  {browse(page)}")


def load():
    """What else the machine does: times mean little when that is much."""
    return f"load average {pathlib.Path('/proc/loadavg').read_text().split()[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--trace", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--buffers", type=int, default=1_000_000)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as name:
        scratch = pathlib.Path(name)
        print(load())
        for trace in arguments.trace:
            compare(build / "bin" / "reprise", trace.resolve(), scratch)
        report(build, scratch, arguments.buffers)
        print(load())


if __name__ == "__main__":
    main()
