#!/usr/bin/python3
"""Builds reprise twice at the same place, plainly and under `reprise record`, and compares.

    self_host.py BUILD [--targets NAME...] [--tests REGEX] [--jobs N] [--stacks N] [--folder FOLDER]

BUILD is a build folder of reprise, whose bin/reprise records. The sources are cloned as they were
committed last; cmake configures them, ninja builds the targets (all of them by default), ctest runs the
tests that REGEX names (none by default). Every object file, archive and executable must be the same byte
for byte, and every trace must open. Exit status 1: something was not. While it is recorded the full
build takes some 20 GiB in FOLDER, a fresh temporary folder by default.
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BINARY = (b"\x7fELF", b"!<arch>\n")  # how object files, executables and archives begin


def run(command, log):
    """What a command cost: seconds, CPU seconds, the peak RSS of its largest process."""
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"exit status {process.returncode} of {shlex.join(map(str, command))}; the end of "
                 f"what it said:\n{log.read_text(errors='replace')[-4000:]}")
    return {"seconds": time.monotonic() - start, "cpu": usage.ru_utime + usage.ru_stime,
            "rss": usage.ru_maxrss << 10}


def build_script(options, source, build):
    """A build in a shell, so that there is one process to record."""
    targets = ["--target", *options.targets] if options.targets else []
    commands = [["cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release"],
                ["cmake", "--build", build, "-j", options.jobs, *targets]]
    if options.tests:
        commands.append(["ctest", "--test-dir", build, "-R", options.tests])
    return " && ".join(shlex.join(str(word) for word in command) for command in commands)


def binaries(folder):
    """Object files, archives and executables below a folder, by their names there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                if file.read(8).startswith(BINARY):
                    found[str(path.relative_to(folder))] = path
    return found


def differences(plain, recorded):
    """Names of the files that only one build has, or that are not the same in both."""
    names = sorted(plain.keys() ^ recorded.keys())
    return names + [name for name in sorted(plain.keys() & recorded.keys())
                    if plain[name].read_bytes() != recorded[name].read_bytes()]


def read_traces(reprise, folder):
    """The facts of all traces, and what `info` complained of."""
    told = subprocess.run([reprise, "info", "--json", folder], capture_output=True, text=True,
                          check=False)
    facts = json.loads(told.stdout) if told.stdout else {"images": []}
    facts["bytes"] = sum(path.stat().st_size for path in folder.iterdir())
    facts["files"] = len(list(folder.iterdir()))
    complaint = told.stderr.strip() if told.returncode != 0 else ""
    if facts["files"] != len(facts["images"]):
        complaint += f" {facts['files']} files, {len(facts['images'])} were read"
    return facts, complaint


def show(options, plain, recorded, files, facts):
    images = facts["images"]
    programs = {pathlib.Path(image["executable"]).name for image in images}
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} processors, Linux {platform.release()}; "
          f"targets: {' '.join(options.targets) or 'all'}; tests: {options.tests or 'none'}")
    rows = {
        "process images recorded": f"{len(images):,} of {len(programs)} programs",
        "events": f"{facts['events']:,}",
        "lost events": f"{facts['lost_events']:,}",
        "frees of unknown blocks": f"{facts['unmatched_frees']:,}",
        "children that cannot be preloaded": f"{facts['unpreloadable']:,}",
        "images that did not end in order": f"{sum(not image['complete'] for image in images):,}",
        "traces": f"{facts['bytes'] / 2**20:,.1f} MiB",
        "object files, archives, executables": f"{files:,}",
    }
    for what, unit, divisor in (("seconds", "s", 1), ("cpu", "s", 1), ("rss", "MiB", 2**20)):
        name = {"seconds": "time", "cpu": "CPU time", "rss": "peak RSS of a process"}[what]
        before, after = plain[what] / divisor, recorded[what] / divisor
        rows[name] = f"{after:,.1f} {unit} recorded, {before:,.1f} plain: {after / before:.2f} times"
    for name, value in rows.items():
        print(f"  {name:<36}{value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--targets", nargs="+", default=[])
    parser.add_argument("--tests", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--stacks", type=int, default=0, help="record so many callers")
    parser.add_argument("--folder", type=pathlib.Path, help="kept; must not exist")
    options = parser.parse_args()
    reprise = options.build.resolve() / "bin" / "reprise"
    with contextlib.ExitStack() as stack:
        if options.folder is None:
            scratch = tempfile.TemporaryDirectory(prefix="reprise-self-")
            options.folder = pathlib.Path(stack.enter_context(scratch))
        else:
            options.folder.mkdir()
        sys.exit(compare_builds(options, reprise, options.folder.resolve()))


def compare_builds(options, reprise, folder):
    source, build, traces = folder / "source", folder / "build", folder / "traces"
    run(["git", "clone", "--quiet", SOURCE, source], folder / "clone.log")
    script = ["/bin/sh", "-c", build_script(options, source, build)]
    plain = run(script, folder / "plain.log")
    build.rename(folder / "plain")  # the second build takes its place
    stacks = ["--stacks", options.stacks] if options.stacks else []
    recorded = run([reprise, "record", *stacks, "-o", traces, "--", *script], folder / "recorded.log")
    files = binaries(build)
    differing = differences(binaries(folder / "plain"), files)
    shutil.rmtree(folder / "plain")
    facts, complaint = read_traces(reprise, traces)
    show(options, plain, recorded, len(files), facts)
    print(f"  {'of those that differ':<36}{', '.join(differing) or 'none'}")
    print(f"  {'traces that do not open':<36}{complaint or 'none'}")
    return 1 if differing or complaint or not files else 0


if __name__ == "__main__":
    main()
