"""Nothing is lost, nothing is written down twice or in the wrong order, and what cannot be seen is
counted. With REPRISE_LONG_TESTS=1 in the environment the same cases run for minutes.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import time

from harness import SOURCE, TIMEOUT, Skip, expect, expect_equal, main

LONG = os.environ.get("REPRISE_LONG_TESTS") == "1"
LAUNCHER = 125


def started_by_a_link(bench):
    """An image is called after what was started: a link, or a script."""
    (bench.work / "listing").symlink_to(os.path.realpath("/bin/ls"))
    (bench.work / "tool").write_text("#!/bin/sh\n./listing\n")
    (bench.work / "tool").chmod(0o755)
    bench.record(["./tool"], expected=0)
    names = sorted(path.name for path in (bench.scratch / "recording").iterdir())
    expect_equal(names, ["00000-tool.trace", "00001-listing.trace"], "traces")
    images = bench.info()["images"]
    expect_equal([image["program"] for image in images], ["tool", "listing"], "programs")
    expect_equal(images[1]["executable"], os.path.realpath("/bin/ls"), "executable")
    said = bench.record(["./listing"], name="alone", expected=0).ours()
    expect(any(line.startswith("reprise:   listing: peak RSS ") for line in said), said)


def program(bench, name):
    return bench.build / "bin" / "programs" / name


def record_quietly(bench, command, name="recording"):
    """Recorded, the program does what it does alone. Returns what `info` says."""
    plain = bench.run(*command)
    recorded = bench.record(command, name)
    expect_equal(
        (recorded.status, recorded.stdout, recorded.theirs()),
        (plain.status, plain.stdout, plain.theirs()),
        "recorded",
    )
    return bench.info(name)


def order_across_threads(bench):
    """A free and the reuse of its address by another thread are never the wrong way round.

    Were they, the reader would meet an allocation at an address that is still live, and would have
    to imply a free; and later a free of what is not live any more.
    """
    thousands = 20000 if LONG else 1000
    info = record_quietly(bench, [program(bench, "reuse_across_threads"), thousands])
    expect(info["events"] >= thousands * 1000, f"{info['events']} events")
    expect_equal(info["threads"], 5, "threads")
    for what in ("implied_frees", "unmatched_frees", "lost_events"):
        expect_equal(info[what], 0, what)


def pass_through(bench):
    """What recorders are measured against is used, and changes nothing."""
    library = bench.build / "lib" / "libpass_through.so"
    command = [bench.build / "bin" / "micro_malloc", "live_set", "--events", 100000]
    plain = bench.run(*command, expected=0)
    words = ["/usr/bin/env", f"LD_PRELOAD={library}", "LD_DEBUG=bindings"]
    passed = bench.run(*words, *command, expected=0)
    expect_equal(passed.stdout, plain.stdout, "output")
    expect(f"{command[0]} [0] to {library} [0]: normal symbol `malloc'" in passed.stderr.decode(), "not used")


def order_after_fork(bench):
    """The same in a forked child of a process that had threads: what the parent knew of addresses is
    not taken for the child's. It frees the 64 blocks that it inherited."""
    info = record_quietly(bench, [program(bench, "reuse_across_threads"), 1000, "fork"])
    expect_equal(len(info["images"]), 2, "images")
    for image, inherited in zip(info["images"], (0, 64)):
        expect(image["events"] >= 1000 * 1000, f"{image['events']} events")
        expect_equal(image["unmatched_frees"], inherited, "unmatched_frees")
        for what in ("implied_frees", "lost_events"):
            expect_equal(image[what], 0, what)


def signals(bench):
    """10,000 signals a second, each with a handler that allocates, in whatever hook: not one event
    is missing. What the program does besides its own calls is the same however long it runs."""
    besides = []
    for number, halves in enumerate((1, 50000) if LONG else (1, 2000)):
        name = f"signals{number}"
        recorded = bench.record([program(bench, "signal_alloc"), halves], name, expected=0)
        words = recorded.stdout.split()
        expect_equal(words[0::2], [b"done", b"events"], "what the program says")
        info = bench.info(name)
        for what in ("implied_frees", "unmatched_frees", "lost_events"):
            expect_equal(info[what], 0, what)
        besides.append(info["events"] - int(words[1]))
    expect_equal(besides[1], besides[0], "events besides those that the program counts")


def real_time(bench):
    """A thread that nothing of lower priority may interrupt does not wait for such a thread in vain."""
    command = [program(bench, "real_time")]
    if bench.run(*command).status == 77:
        raise Skip("no real-time threads")
    record_quietly(bench, command)


def forks(bench):
    """Of processes that fork without exec each records what it did itself: no event twice, none
    missing."""
    command = [program(bench, "fork_counts")]
    said = bench.record([*command, "nothing"], "nothing", expected=0).stdout
    expect_equal(said, b"nothing 0\n", "what the program says")
    besides = bench.info("nothing")["events"]  # by libraries, before main and after it
    recorded = bench.record(command, expected=0)
    counted = dict(line.split() for line in recorded.stdout.decode().splitlines())
    images = bench.info()["images"]
    expect_equal(len(images), 3, "images")
    # Only one of them starts and ends in the ordinary way.
    expected = [int(counted["parent"]) + besides, int(counted["child"]), int(counted["grandchild"])]
    expect_equal([image["events"] for image in images], expected, "events of each")
    expect_equal([image["unmatched_frees"] for image in images], [0, 1, 0], "unmatched frees")


def largest_spool(process, directory):
    """Bytes on disk, at the worst moment before the process ends."""
    worst = 0
    while process.poll() is None:
        sizes = []
        for path in directory.glob("*"):
            try:
                sizes.append(path.stat().st_blocks * 512)
            except FileNotFoundError:
                pass
        worst = max(worst, sum(sizes))
        time.sleep(0.002)
    return worst


def threads_leave_nothing(bench):
    """Ten times as many threads, one after another, take no more memory and no more files."""
    command = program(bench, "thread_churn")

    def kibibytes(output):
        return int(output.split()[-2])

    memory, disk = [], []
    for number, threads in enumerate((1000, 10000)):
        directory = bench.scratch / f"threads{number}"
        process = subprocess.Popen(
            [bench.reprise, "record", "-o", directory, "--", command, str(threads)],
            cwd=bench.work,
            env=bench.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        disk.append(largest_spool(process, directory))
        output, errors = process.communicate(timeout=TIMEOUT)
        expect_equal(process.returncode, 0, f"exit status ({errors.decode()})")
        memory.append(kibibytes(output) - kibibytes(bench.run(command, threads).stdout))
        info = bench.info(f"threads{number}")
        expect_equal(info["lost_events"], 0, "lost_events")
        expect_equal(info["threads"], threads + 1, "threads")
        expect_equal(len(list(directory.iterdir())), 1, "files")
    events = bench.info("threads1")["events"]
    # In KiB; what is written stays resident until it is written back, and no thread keeps any.
    expect(memory[1] < 4096 + events * 32 // 1024, f"{memory} KiB more than without recording")
    expect(disk[1] < (16 << 20) + events * 32, f"{disk} bytes on disk for {events} events")


def blocks_of_strangers(bench):
    """Blocks that no hook saw are freed all the same, and counted."""
    info = record_quietly(bench, [program(bench, "foreign_free")])
    expect_equal((info["unmatched_frees"], info["lost_events"]), (500, 0), "unmatched, lost")
    bench.plan()
    replayed, stats = bench.replay([program(bench, "foreign_free")])
    expect_equal((replayed.status, replayed.stdout), (0, b"500 foreign blocks\n"), "replayed")
    expect_equal(stats["invalid_frees"], 0, "invalid_frees")


def deepbind(bench):
    """A library has our malloc even when it asks for libc's (RTLD_DEEPBIND), and is found where the
    library that asks for it says."""
    command = [program(bench, "deepbind")]
    bench.run(*command, expected=0)
    recorded = bench.record(command, expected=0)
    info = bench.info()
    expect(info["events"] > 10000, f"{info['events']} events")
    expect_equal((info["unmatched_frees"], info["implied_frees"]), (0, 0), "unmatched, implied")
    bench.plan()
    replayed, stats = bench.replay(command)
    expect_equal((replayed.status, replayed.stdout), (0, b"done\n"), "replayed")
    for outcome in (recorded, replayed):
        said = [line for line in outcome.ours() if "RTLD_DEEPBIND" in line]
        expect_equal(len(said), 1, f"lines that say so: {outcome.ours()}")
    expect_equal(stats["served_percent"], 100, "served")


def own_malloc(bench):
    """What cannot be seen is said: a program's own malloc stands in front of ours, also when the
    program ends by _exit."""
    for ending in ([], ["quickly"]):
        command = [program(bench, "own_malloc"), *ending]
        plain = bench.run(*command, expected=0)
        recorded = bench.record(command, expected=0)
        bench.plan()
        replayed, _ = bench.replay(command, expected=0)
        for outcome in (recorded, replayed):
            expect_equal((outcome.stdout, outcome.theirs()), (plain.stdout, plain.theirs()), "output")
            expect(any("its own malloc" in line for line in outcome.ours()), f"said: {outcome.ours()}")


def daemon(bench):
    """A process that is left in the background is named, and so is its spool. When it has ended, in
    whatever way, the spool is as long as what is in it."""
    ready, go = bench.work / "ready", bench.work / "go"
    os.mkfifo(ready)
    os.mkfifo(go)
    loop = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); x=$x$i; done"
    background = f"{loop}; echo > {ready}; read line < {go}; {loop}"
    script = f"({background}) < /dev/null > /dev/null 2>&1 & echo $!; read line < {ready}; exit 3"
    for kill in (False, True):
        directory = bench.scratch / f"daemon{kill}"
        recorded = bench.record(["/bin/sh", "-c", script], directory.name, expected=3)
        pid = int(recorded.stdout)
        (spool,) = directory.glob("*.spool")
        (line,) = (line for line in recorded.ours() if "still runs" in line)
        expect(f"({pid})" in line and spool.name in line, f"said: {line}")
        if kill:
            os.kill(pid, signal.SIGKILL)
        else:
            with open(go, "w") as writer:
                writer.write("\n")
        deadline = time.monotonic() + TIMEOUT
        while spool.stat().st_size > 16 << 20:
            expect(time.monotonic() < deadline, f"{spool.stat().st_size} bytes long")
            time.sleep(0.01)
        info = bench.info(directory.name)
        expect_equal((len(info["images"]), info["lost_events"]), (2, 0), "images, lost events")


def silent_daemon(bench):
    """A process in the background that has not allocated yet is named, and recorded when it does."""
    go = bench.work / "go"
    os.mkfifo(go)
    recorded = bench.record([program(bench, "silent_child"), go], expected=0)
    pid = int(recorded.stdout)
    (line,) = (line for line in recorded.ours() if "still runs" in line)
    expect(f"process {pid} (silent_child) still runs" in line, f"said: {line}")
    with open(go, "w") as writer:
        writer.write("\n")
    deadline = time.monotonic() + TIMEOUT
    while not list((bench.scratch / "recording").glob("*.spool")):
        expect(time.monotonic() < deadline, "the spool")
        time.sleep(0.01)
    while (info := bench.info())["events"] < 2000:
        expect(time.monotonic() < deadline, "its events")
        time.sleep(0.01)
    expect_equal((len(info["images"]), info["lost_events"]), (2, 0), "images, lost events")
    # Nothing is said of a child that has ended.
    recorded = bench.record(["/bin/sh", "-c", "(exit 3) & wait"], "ended", expected=0)
    expect(not any("still runs" in line for line in recorded.ours()), f"{recorded.ours()}")


def emulator(bench):
    """A program under qemu-user is left alone, and that is said."""
    qemu = shutil.which(f"qemu-{os.uname().machine}")
    if qemu is None:
        raise Skip("no qemu-user")
    command = [qemu, program(bench, "double_free_in_replay")]
    plain = bench.run(*command)
    if plain.status != 0:
        raise Skip(f"qemu-user does not run it: {plain.stderr.decode()}")
    recorded = bench.record(command)
    if recorded.status == 126:  # Debian 13's own qemu-user
        expect_equal(recorded.ours(), [f"reprise: {qemu}: cannot be preloaded: it is statically linked"],
                     "said")
        return
    expect_equal(recorded.status, 0, "exit status")
    expect_equal((recorded.stdout, recorded.theirs()), (plain.stdout, plain.theirs()), "output")
    expect(any("emulator" in line for line in recorded.ours()), f"said: {recorded.ours()}")


def sandboxes(bench):
    """What a sandbox forbids reprise is said, and is not taken for something else."""
    reasons = {
        "files": "not recorded: a sandbox",
        "populate": "left out: 1 process image: a sandbox",
        "shared": "has no shared mappings",
    }
    for kind, reason in reasons.items():
        command = [program(bench, "forbids"), kind, "/bin/ls", "/"]
        plain = bench.run(*command)
        if plain.status == 77:
            raise Skip("seccomp filters are not to be had")
        recorded = bench.record(command, kind)
        expect_equal(
            (recorded.status, recorded.stdout, recorded.theirs()),
            (plain.status, plain.stdout, plain.theirs()),
            kind,
        )
        expect(any(reason in line for line in recorded.ours()), f"{kind}: said: {recorded.ours()}")


def long_environment(bench):
    """An environment that finds no room in the trace is cut behind a variable, and that is said."""
    bench.environment |= {f"VARIABLE_{number}": "x" * 1000 for number in range(100)}
    words = [bench.reprise, "record", "--with-command", "-o", bench.scratch / "recording", "--"]
    recorded = bench.run(*words, "/bin/true", expected=0)
    expect(any("environment is longer" in line for line in recorded.ours()), f"{recorded.ours()}")
    (image,) = bench.info()["images"]
    expect(len(image["environment"]) > 30, f"{len(image['environment'])} variables")
    expect({len(word) for word in image["environment"] if word.startswith("VARIABLE")}
           <= {1011, 1012}, "a variable is cut")


def seccomp(bench):
    """Forbidden new system calls after its start, a program goes on, and each event that could not
    be written is counted."""
    command = [program(bench, "seccomp_filter")]
    if bench.run(*command).status != 0:
        raise Skip("seccomp filters are not to be had")
    info = record_quietly(bench, command)
    everything = record_quietly(bench, [*command, "unfiltered"], "everything")
    expect_equal(everything["lost_events"], 0, "lost_events without a filter")
    recorded = info["events"] - info["implied_frees"]
    expect_equal(recorded + info["lost_events"], everything["events"], "accounted for")


def read_only_directory(bench):
    """Where nothing can be written, `record` says so before it starts anything."""
    if os.geteuid() != 0:
        raise Skip("a read-only file system needs root")
    disk = bench.scratch / "disk"
    disk.mkdir()
    mounted = bench.run("mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", disk)
    if mounted.status != 0:
        raise Skip(f"mount: {mounted.stderr.decode().strip()}")
    try:
        words = [bench.reprise, "record", "-o", disk / "recording", "--", "/bin/echo", "hello"]
        outcome = bench.run(*words)
        expect_equal((outcome.status, outcome.stdout), (LAUNCHER, b""), "status, output")
        expect_equal(len(outcome.ours()), 1, f"lines: {outcome.ours()}")
        expect("Read-only" in outcome.ours()[0], f"said: {outcome.ours()}")
    finally:
        bench.run("umount", disk, expected=0)


def data_of(path):
    """What is in a file, without its holes: a spool is hundreds of gigabytes of those."""
    content = b""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        at = 0
        while at < end:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # holes to the end
            hole = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            content += os.pread(file.fileno(), hole - at, at)
            at = hole
    return content


def nothing_of_its_data(bench):
    """Neither what a program keeps in its blocks nor its arguments nor its environment are in what
    is written down: that may be handed on."""
    secret = b"correct-horse-battery-staple"
    script = (
        "import os, sys; word = sys.argv[1]; kept = [word * i for i in range(1, 50)];"
        "kept += [word.encode() * i for i in range(1, 50)]; print('ready', flush=True);"
        "sys.stdin.read()"
    )
    directory = bench.scratch / "recording"
    process = subprocess.Popen(
        [bench.reprise, "record", "-o", directory, "--", "/usr/bin/python3", "-c", script, secret],
        cwd=bench.work,
        env=bench.environment | {"PASSWORD": secret.decode(), "PYTHONMALLOC": "malloc"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    expect_equal(process.stdout.readline(), b"ready\n", "what the program says")
    written = b"".join(data_of(path) for path in directory.iterdir())
    process.communicate(timeout=TIMEOUT)
    expect_equal(process.returncode, 0, "exit status")
    expect(len(written) > 10000, f"{len(written)} bytes while it runs")
    for path in directory.iterdir():
        written += data_of(path)
    written += bench.run(bench.reprise, "info", "--json", directory, expected=0).stdout
    expect(secret not in written, "a secret is in the recording")
    expect(bench.info()["events"] > 1000, "events")


def objects_of(directory):
    """The content of every object file, archive and program below a build directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and (path.suffix in (".o", ".a") or path.name == "cube")
    }


def self_host(bench):
    """A build of a part of reprise, and its tests, are the same under `record`, and every process
    leaves a trace that opens. workloads/bench/self_host.py does so with all of it."""
    for tool in ("cmake", "ninja", "g++", "ctest"):
        if shutil.which(tool) is None:
            raise Skip(f"no {tool}")
    source, build = bench.work / "source", bench.work / "build"
    parts = ["order.cc", "sort.h", "order.h", "problem.h", "instance.h"]
    (source / "planner" / "core").mkdir(parents=True)
    for part in parts:
        shutil.copy(SOURCE / "planner" / "core" / part, source / "planner" / "core" / part)
    (source / "cube.cc").write_text("int main(int n, char**) { return n * n * n - 1; }\n")
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(part CXX)\n"
        "set(CMAKE_CXX_STANDARD 20)\n"
        "include_directories(${CMAKE_SOURCE_DIR})\n"
        "file(GLOB sources planner/core/*.cc)\n"
        "add_library(part STATIC ${sources})\n"
        "add_executable(cube cube.cc)\n"
        "enable_testing()\n"
        "add_test(NAME cube COMMAND cube)\n"
    )
    script = bench.work / "build.sh"
    script.write_text(
        f"set -e\ncmake -G Ninja -DCMAKE_BUILD_TYPE=Release -S {source} -B {build} > /dev/null\n"
        f"ninja -j2 -C {build} > /dev/null\nctest --test-dir {build} > /dev/null\n"
    )
    bench.run("/bin/sh", script, expected=0)
    plain = objects_of(build)
    expect(len(plain) >= 4, f"built: {list(plain)}")
    shutil.rmtree(build)
    bench.record(["/bin/sh", script], expected=0)
    recorded = objects_of(build)
    expect_equal(list(recorded), list(plain), "what was built")
    for name, content in plain.items():
        expect(recorded[name] == content, f"{name} differs from that of a plain build")
    info = bench.info()
    executables = [pathlib.Path(image["executable"]).name for image in info["images"]]
    for name in ("cmake", "ninja", "ctest", "cube", "cc1plus"):
        expect(name in executables, f"no trace of {name}")
    expect_equal(info["lost_events"], 0, "lost_events")
    expect_equal([image["damage"] for image in info["images"] if image["damage"]], [], "damage")


CASES = (
    order_across_threads,
    order_after_fork,
    pass_through,
    signals,
    real_time,
    forks,
    threads_leave_nothing,
    blocks_of_strangers,
    deepbind,
    own_malloc,
    daemon,
    silent_daemon,
    emulator,
    sandboxes,
    long_environment,
    seccomp,
    read_only_directory,
    nothing_of_its_data,
    started_by_a_link,
    self_host,
)

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
