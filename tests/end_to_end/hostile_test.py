"""What the world does to a recording: kills, full disks, limits, directories that go away.

The program must go on as if nobody watched, and what was recorded until then must be readable.
"""

import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import time

from harness import TIMEOUT, Skip, expect, expect_equal, main

BAD_INPUT, SYSTEM, LAUNCHER = 3, 4, 125


def programs(bench):
    return bench.build / "bin" / "programs"


def start(bench, words, **options):
    return subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=bench.work,
        env=bench.environment,
        **options,
    )


def endless(bench):
    """A program that allocates until it is killed; its threads come and go."""
    return [bench.build / "bin" / "leveldb_bench", "--threads", "2", "--num", "1000000000"]


def wait_for_events(bench, directory):
    """Until the program has got as far as writing events; then for a random while."""
    deadline = time.monotonic() + TIMEOUT
    while not any(path.stat().st_blocks > 600 for path in directory.glob("*.spool")):
        expect(time.monotonic() < deadline, "nothing is recorded")
        time.sleep(0.01)
    time.sleep(bench.random.random() * 0.2)


def child_of(process):
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + TIMEOUT
    while not (children := path.read_text().split()):
        expect(time.monotonic() < deadline, "no program was started")
        time.sleep(0.01)
    return int(children[0])


def wait_for_work(pid, name, seconds):
    """Until the program has been started, and has worked for so long, however slow the machine is."""
    deadline = time.monotonic() + TIMEOUT
    ticks = os.sysconf("SC_CLK_TCK") * seconds
    while True:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        if f"({name})" in stat and sum(map(int, stat.rpartition(")")[2].split()[11:13])) >= ticks:
            return
        expect(time.monotonic() < deadline, f"{name} does nothing")
        time.sleep(0.01)


def expect_readable(bench, directory):
    """`info` reads what there is, and planning takes it."""
    outcome = bench.run(bench.reprise, "info", "--json", directory)
    lines = outcome.stderr.decode(errors="replace")
    expect(outcome.status in (0, BAD_INPUT), f"info: exit {outcome.status}: {lines}")
    if outcome.status == BAD_INPUT:
        expect("damaged at offset" in lines, f"info names no damage: {lines}")
    info = json.loads(outcome.stdout)
    expect(info["events"] > 1000, f"{info['events']} events")
    expect(info["lost_events"] < 100, f"{info['lost_events']} of {info['events']} events lost")
    return info


def kill_program(bench):
    """The program dies at a random moment: its status and its trace are there."""
    for number, number_of_signal in enumerate([signal.SIGKILL] * 4 + [signal.SIGTERM] * 2):
        directory = bench.scratch / f"killed{number}"
        process = start(bench, [bench.reprise, "record", "-o", directory, "--", *endless(bench)])
        wait_for_events(bench, directory)
        os.kill(child_of(process), number_of_signal)
        process.communicate(timeout=TIMEOUT)
        expect_equal(process.returncode, 128 + number_of_signal, "exit status of record")
        expect_equal(expect_readable(bench, directory)["lost_events"], 0, "lost_events")


def terminate_record(bench):
    """A SIGTERM for `record` is the program's."""
    for number in range(3):
        directory = bench.scratch / f"terminated{number}"
        process = start(bench, [bench.reprise, "record", "-o", directory, "--", *endless(bench)])
        wait_for_events(bench, directory)
        process.terminate()
        process.communicate(timeout=TIMEOUT)
        expect_equal(process.returncode, 128 + signal.SIGTERM, "exit status of record")
        expect_readable(bench, directory)


def kill_record(bench):
    """`record` itself is killed: the program goes on, its spool can be read then and afterwards."""
    for number in range(3):
        directory = bench.scratch / f"orphan{number}"
        process = start(bench, [bench.reprise, "record", "-o", directory, "--", *endless(bench)])
        wait_for_events(bench, directory)
        child = child_of(process)
        environment = pathlib.Path(f"/proc/{child}/environ").read_text().split("\0")
        session = next(word for word in environment if word.startswith("REPRISE_SESSION="))
        try:
            process.kill()
            process.wait(timeout=TIMEOUT)
            while_it_runs = expect_readable(bench, directory)
            os.kill(child, 0)  # it does run
        finally:
            os.kill(child, signal.SIGKILL)
            shutil.rmtree(session.partition("=")[2])
        process.stderr.close()
        deadline = time.monotonic() + TIMEOUT
        while pathlib.Path(f"/proc/{child}/maps").exists() and time.monotonic() < deadline:
            if f"{child} (leveldb_bench) Z" in pathlib.Path(f"/proc/{child}/stat").read_text():
                break  # nobody here waits for it
            time.sleep(0.01)
        afterwards = expect_readable(bench, directory)
        expect(afterwards["events"] >= while_it_runs["events"], "events went away")


def busy(bench, events):
    """A program that fills so many chunks that its spool is compacted while it runs."""
    return [bench.build / "bin" / "micro_malloc", "live_set", "--events", str(events)]


def wait_for_bytes(directory, size):
    deadline = time.monotonic() + TIMEOUT
    while sum(path.stat().st_blocks * 512 for path in directory.glob("*.spool")) < size:
        expect(time.monotonic() < deadline, "nothing is recorded")
        time.sleep(0.01)


def kill_record_that_compacts(bench):
    """`record` is killed while it compacts: the spool holds all, and nothing else is left."""
    for number in range(3):
        directory = bench.scratch / f"compacting{number}"
        process = start(bench, [bench.reprise, "record", "-o", directory, "--", *busy(bench, 10**10)])
        wait_for_bytes(directory, (16 + 16 * number) << 20)
        child = child_of(process)
        environment = pathlib.Path(f"/proc/{child}/environ").read_text().split("\0")
        session = next(word for word in environment if word.startswith("REPRISE_SESSION="))
        try:
            process.kill()
            process.wait(timeout=TIMEOUT)
        finally:
            os.kill(child, signal.SIGKILL)
            shutil.rmtree(session.partition("=")[2])
        process.stderr.close()
        names = [path.name for path in directory.iterdir()]
        expect_equal(names, ["00000-micro_malloc.spool"], "what is left")
        info = expect_readable(bench, directory)
        expect_equal((info["lost_events"], info["unmatched_frees"], info["implied_frees"]), (0, 0, 0),
                     "lost events, unmatched and implied frees")


def several_are_compacted(bench):
    """Processes that run at the same time have a whole trace each, also one that is killed."""
    alone = bench.record(busy(bench, 2_000_000), "alone", expected=0)
    expect(not [line for line in alone.ours() if "lost" in line], f"said: {alone.ours()}")
    command = " ".join(map(str, busy(bench, 2_000_000)))
    script = f"{command} & {command} & {command}; wait; wait; sh -c 'kill -9 $$'; exit 0"
    bench.record(["/bin/sh", "-c", script], "together", expected=0)
    expected = bench.info("alone")["events"]
    images = bench.info("together")["images"]
    events = [image["events"] for image in images if image["events"] > 1_000_000]
    expect_equal(events, [expected] * 3, "events of each image")
    expect_equal(bench.info("together")["lost_events"], 0, "lost_events")


def kill_replay(bench):
    """The counters of a killed replay are not lost."""
    command = [bench.build / "bin" / "leveldb_bench", "--num", "2000"]
    bench.record(command, expected=0)
    bench.plan()
    stats = bench.scratch / "stats.json"
    words = [bench.reprise, "replay", bench.scratch / "plan", "--stats", stats, "--"]
    process = start(bench, [*words, *endless(bench)])
    child = child_of(process)
    wait_for_work(child, "leveldb_bench", 0.4)
    os.kill(child, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    expect_equal(process.returncode, 128 + signal.SIGKILL, "exit status of replay")
    expect(json.loads(stats.read_text())["allocations"] > 0, "no allocation was counted")


def kill_reprise_in_replay(bench):
    """What an earlier replay counted is there until there is something in its place."""
    command = [programs(bench) / "longjmp_throw"]
    bench.record(command, expected=0)
    bench.plan()
    bench.replay(command)
    stats = bench.scratch / "stats.json"
    before = stats.read_text()
    words = [bench.reprise, "replay", bench.scratch / "plan", "--stats", stats, "--"]
    process = start(bench, [*words, "/usr/bin/sleep", "100"])
    child = child_of(process)
    wait_for_work(child, "sleep", 0)
    process.kill()
    os.kill(child, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    expect_equal(stats.read_text(), before, "the statistics")


def passed_on(bench):
    """A signal for reprise is the program's, which may take it for an order."""

    def heed_signals():
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)  # a shell ignores some in the background

    for order in ("TERM", "HUP", "QUIT", "USR1", "USR2", "INT"):
        script = f"trap 'echo {order}; exit 7' {order}; echo ready >&2; while :; do sleep 0.05; done"
        words = [bench.reprise, "record", "-o", bench.scratch / "recording", "--", "/bin/sh", "-c"]
        process = subprocess.Popen(
            [*words, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=bench.work,
            env=bench.environment, preexec_fn=heed_signals,
        )
        while process.stderr.readline() != b"ready\n":
            expect(process.poll() is None, "the program has ended")
        process.send_signal(getattr(signal, f"SIG{order}"))
        output, _ = process.communicate(timeout=TIMEOUT)
        expect_equal((process.returncode, output), (7, f"{order}\n".encode()), order)


def passed_on_although_ignored(bench):
    """The same where the signal was ignored at first, as in the background jobs of a script: the
    program may heed it. Until it does it is ignored."""

    def ignore_signals():
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        script = (
            "import signal, sys\n"
            f"ignored = signal.getsignal({number:d}) == signal.SIG_IGN\n"
            f"signal.signal({number:d}, lambda *_: (print(ignored), sys.exit(7)))\n"
            "print('ready', file=sys.stderr, flush=True)\n"
            "while True: signal.pause()\n"
        )
        words = [bench.reprise, "record", "-o", bench.scratch / "recording", "--"]
        process = subprocess.Popen(
            [*words, "/usr/bin/python3", "-c", script], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=bench.work, env=bench.environment,
            preexec_fn=ignore_signals,
        )
        while process.stderr.readline() != b"ready\n":
            expect(process.poll() is None, "the program has ended")
        process.send_signal(number)
        output, _ = process.communicate(timeout=TIMEOUT)
        expect_equal((process.returncode, output), (7, b"True\n"), f"signal {number:d}")


def no_memory_to_finish(bench):
    """Where there is not enough memory to make a trace of the spool, that is said, and the program's
    status is told all the same."""
    script = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)\n"
        "kept = [str(i) * 3 for i in range(400000)]\n"
        "print(len(kept)); sys.exit(9)\n"
    )
    bench.environment["PYTHONMALLOC"] = "malloc"

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (32 << 20, resource.RLIM_INFINITY))

    command = ["/usr/bin/python3", "-c", script]
    recorded = bench.record(command, limits=limit)
    expect_equal((recorded.status, recorded.stdout), (9, b"400000\n"), "recorded")
    expect_equal(recorded.ours()[-1].rpartition(": ")[2], "out of memory", f"{recorded.ours()}")
    expect(bench.info()["events"] > 400000, "the spool cannot be read")


def no_proc(bench):
    """Without /proc nothing is started, and that is said in one line."""
    need_mounts(bench)
    words = f"umount -l /proc || exit 77; '{bench.reprise}' record -o '{bench.scratch}/r' -- /bin/ls"
    outcome = bench.run("unshare", "-m", "/bin/sh", "-c", words)
    if outcome.status == 77:
        raise Skip(f"umount: {outcome.stderr.decode().strip()}")
    expect_equal((outcome.status, outcome.stdout), (LAUNCHER, b""), "status, output")
    (line,) = outcome.ours()
    expect("/proc" in line, f"said: {line}")


def ended_at_any_time(bench):
    """An order to end that comes while the program is being started is not lost, and leaves nothing
    of the session behind."""
    words = [bench.reprise, "record", "-o", bench.scratch / "recording", "--", "/bin/sleep", "1000"]
    for step in range(100):
        process = start(bench, words)
        time.sleep(step * 0.0002)
        process.terminate()
        process.communicate(timeout=TIMEOUT)
        before_it_was_heeded = process.returncode == -signal.SIGTERM
        expect(
            before_it_was_heeded or process.returncode == 128 + signal.SIGTERM,
            f"exit status {process.returncode}, {step * 0.2:.1f} ms after the start",
        )
    ours = os.fsencode(bench.scratch)
    for session in pathlib.Path("/tmp").glob("reprise-??????/session"):
        with contextlib.suppress(FileNotFoundError):  # somebody else's
            expect(ours not in session.read_bytes(), f"{session.parent} was left behind")


def children_ignored(bench):
    """Whoever started reprise ignores its children: the program's status is known all the same, and
    the program ignores its own."""

    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    command = ["/bin/sh", "-c", "grep SigIgn /proc/self/status; exit 5"]
    plain = bench.run(*command, limits=ignore)
    recorded = bench.record(command, limits=ignore)
    expect_equal((recorded.status, recorded.stdout), (5, plain.stdout), "recorded")


def main_thread_gone(bench):
    """A process in the background whose main thread has ended still writes its spool."""
    script = bench.work / "daemon.py"
    script.write_text(
        "import ctypes, os, threading, time\n"
        "if os.fork() > 0: os._exit(3)\n"
        "def work():\n"
        "    while 'Z' not in open(f'/proc/{os.getpid()}/stat').read(): time.sleep(0.01)\n"
        "    os.write(ready, b'.')\n"
        "    os.read(go, 1)\n"
        "    os._exit(0)\n"
        "go, ready = os.open('go', os.O_RDWR), os.open('ready', os.O_RDWR)\n"
        "threading.Thread(target=work).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    for name in ("go", "ready"):
        os.mkfifo(bench.work / name)
    words = f"/usr/bin/python3 {script} < /dev/null > /dev/null 2>&1; head -c 1 ready > /dev/null"
    try:
        recorded = bench.record(["/bin/sh", "-c", f"{words}; exit 3"])
    finally:
        with open(bench.work / "go", "r+b", buffering=0) as go:
            go.write(b".")
    expect_equal(recorded.status, 3, "exit status")
    expect(any("still runs" in line for line in recorded.ours()), f"said: {recorded.ours()}")


def killed_before_it_began(bench):
    """An image that was killed while it made its spool has left a file that says nothing. Nobody is
    hindered by it."""
    directory = bench.scratch / "recording"
    empty = f"truncate -s 2M '{directory}/00000-gone.spool'"
    recorded = bench.record(["/bin/sh", "-c", f"{empty}; exit 3"])
    expect_equal(recorded.status, 3, "exit status")
    expect(not any("left as" in line for line in recorded.ours()), f"said: {recorded.ours()}")
    expect(not list(directory.glob("*.spool")), "a spool is left")
    # Nor afterwards, when `record` was killed as well.
    bench.run("/bin/sh", "-c", empty, expected=0)
    bench.info()
    bench.plan()


def full_registry(bench):
    """The images that come after the last that there is room for run as usual, and are counted."""
    poke = (
        "import os, struct; file = os.open(os.environ['REPRISE_SESSION'] + '/registry', os.O_RDWR);"
        "os.pwrite(file, struct.pack('<I', 65535), 8)"
    )
    script = f'/usr/bin/python3 -c "{poke}"; /bin/ls /; /bin/ls /usr; (echo *); exit 6'
    recorded = bench.record(["/bin/sh", "-c", script])
    plain = bench.run("/bin/sh", "-c", "/bin/ls /; /bin/ls /usr; (echo *); exit 6")
    expect_equal((recorded.status, recorded.stdout), (6, plain.stdout), "recorded")
    expect(any("left out" in line for line in recorded.ours()), f"said: {recorded.ours()}")
    expect_equal(len(list((bench.scratch / "recording").iterdir())), 3, "traces")


def need_mounts(bench):
    if os.geteuid() != 0:
        raise Skip("a small file system needs root")
    refused = bench.run("unshare", "-m", "true")  # in containers root may not, nor in a chroot
    if refused.status != 0:
        raise Skip(refused.stderr.decode().strip())


def full_tmp(bench):
    """/tmp fills up: what is started from then on runs as usual, and is counted."""
    need_mounts(bench)
    script = "head -c 9999999 /dev/zero > /tmp/filler; for i in 1 2 3 4; do /bin/ls /; done; exit 6"
    command = f"/bin/sh -c '{script}'"
    # The build may lie in /tmp.
    for part in ("bin/reprise", "lib/libreprise.so"):
        (bench.scratch / part).parent.mkdir()
        shutil.copy(bench.build / part, bench.scratch / part)
    reprise = "/mnt/bin/reprise"

    def in_small_tmp(words):
        mounts = f"mount --bind '{bench.scratch}' /mnt && mount -t tmpfs -o size=128k tmpfs /tmp"
        return bench.run("unshare", "-m", "/bin/sh", "-c", f"{mounts} || exit 77; cd /; {words}")

    plain = in_small_tmp(command)
    if plain.status == 77:
        raise Skip(f"mount: {plain.stderr.decode().strip()}")
    recorded = in_small_tmp(f"{reprise} record -o /mnt/recording -- {command}")
    expect_equal(
        (recorded.status, recorded.stdout, recorded.theirs()),
        (plain.status, plain.stdout, plain.theirs()),
        "recorded",
    )
    expect(any("left out" in line for line in recorded.ours()), f"said: {recorded.ours()}")
    # Not even room for the session.
    recorded = in_small_tmp(
        f"head -c 9999999 /dev/zero > /tmp/filler; {reprise} record -o /mnt/none -- /bin/ls"
    )
    expect_equal(recorded.status, LAUNCHER, "exit status without room")
    expect(any("No space left" in line for line in recorded.ours()), f"said: {recorded.ours()}")


def locked_memory(bench):
    """A program that locks its memory locks what it uses, not all that reprise has room for."""
    need_mounts(bench)
    script = (
        "import ctypes; ctypes.CDLL(None).mlockall(3); print(len([str(i) for i in range(9999)]));"
        "print(*(line for line in open('/proc/self/status') if 'VmLck' in line and ' 0 k' in line))"
    )
    command = ["/usr/bin/python3", "-c", script]
    plain = bench.run(*command, expected=0)
    directory = bench.scratch / "small"
    directory.mkdir()
    mount = f"mount -t tmpfs -o size=64m tmpfs '{directory}' || exit 77"
    words = f"'{bench.reprise}' record -o '{directory}/recording' -- \"$0\" \"$@\""
    recorded = bench.run("unshare", "-m", "/bin/sh", "-c", f"{mount}; {words}", *command)
    if recorded.status == 77:
        raise Skip(f"mount: {recorded.stderr.decode().strip()}")
    expect_equal((recorded.status, recorded.stdout), (0, plain.stdout), "recorded")
    expect(" events of 1 process image " in recorded.ours()[0], f"said: {recorded.ours()}")


def two_at_once(bench):
    """Two recordings do not share a directory: the second is refused and the first is whole."""
    directory = bench.scratch / "recording"
    script = "echo ready >&2; read line; exit 3"
    first = subprocess.Popen(
        [bench.reprise, "record", "-o", directory, "--", "/bin/sh", "-c", script],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=bench.work, env=bench.environment,
    )
    first.stderr.readline()
    second = bench.record(["/bin/ls", "/"])
    expect_equal((second.status, second.stdout), (LAUNCHER, b""), "the second")
    expect("another recording" in second.ours()[0], f"said: {second.ours()}")
    first.communicate(b"\n", timeout=TIMEOUT)
    expect_equal(first.returncode, 3, "exit status of the first")
    expect_equal([path.name for path in directory.iterdir()], ["00000-sh.trace"], "traces")


def stranger_in_directory(bench):
    """A trace that somebody puts beside the spools stays there."""
    bench.record(["/bin/ls", "/"], "other", expected=0)
    (trace,) = (bench.scratch / "other").iterdir()
    directory = bench.scratch / "recording"
    bench.record(["/bin/cp", trace, directory / "mine.trace"], expected=0)
    expect((directory / "mine.trace").exists(), "a trace went away")
    expect_equal(len(bench.info()["images"]), 2, "traces")


def expect_unchanged(bench, command, output, limits=None, options=()):
    """Recorded into `output`, the program does what it does alone. Returns reprise's lines."""
    plain = bench.run(*command)
    words = [bench.reprise, "record", *options, "-o", output, "--", *command]
    recorded = bench.run(*words, limits=limits)
    expect_equal(
        (recorded.status, recorded.stdout, recorded.theirs()),
        (plain.status, plain.stdout, plain.theirs()),
        "recorded",
    )
    return recorded.ours()


@contextlib.contextmanager
def small_disk(bench, size="1400k"):
    if os.geteuid() != 0:
        raise Skip("a small file system needs root")
    disk = bench.scratch / "disk"
    disk.mkdir()
    mounted = bench.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk)
    if mounted.status != 0:
        raise Skip(f"mount: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        bench.run("umount", disk, expected=0)


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as filler:
        try:
            while filler.write(bytes(65536)):
                pass
        except OSError:
            pass


def full_disk(bench, options=()):
    """On a disk that fills up, events are lost and counted, and that is all."""
    with small_disk(bench) as disk:
        for name in ("thread_churn", "closes_all_fds"):
            command = [programs(bench) / name]
            bench.record(command, expected=0)
            directory = disk / name
            ours = expect_unchanged(bench, command, directory, options=options)
            expect(any("No space left" in line for line in ours), f"said: {ours}")
            expect("besides those in 1 spool" in ours[-2], f"said: {ours}")
            expect(" lost " in ours[-1] and " event" in ours[-1], f"said: {ours}")
            info = expect_some_lost(bench, directory)
            # A free that was lost is implied by the next block at its address, and counted again.
            recorded = info["events"] - info["implied_frees"]
            expect_equal(recorded + info["lost_events"], bench.info()["events"], f"events of {name}")
            shutil.rmtree(directory)
        # Not even room to begin.
        fill(disk)
        ours = expect_unchanged(bench, command, disk / "second", options=options)
        expect(any("not recorded" in line for line in ours), f"said: {ours}")


def full_disk_while_compacting(bench):
    """A disk that fills up when much has been compacted: as above."""
    command = busy(bench, 4_000_000)
    plain = bench.record(command, expected=0)
    with small_disk(bench, "20m") as disk:
        words = [bench.reprise, "record", "-o", disk / "busy", "--", *command]
        recorded = bench.run(*words, expected=0)
        expect_equal(recorded.stdout, plain.stdout, "output")
        expect(any(" lost " in line for line in recorded.ours()), f"said: {recorded.ours()}")
        info = expect_some_lost(bench, disk / "busy")
        recorded = info["events"] - info["implied_frees"]
        expect_equal(recorded + info["lost_events"], bench.info()["events"], "events")
        expect(len(list((disk / "busy").iterdir())) == 1, "one file is left")


def full_disk_with_stacks(bench):
    full_disk(bench, ("--stacks", "8"))


def full_disk_for_statistics(bench):
    """Statistics that find no room leave no file behind."""
    command = ["/bin/true"]
    bench.record(command, expected=0)
    bench.plan()
    with small_disk(bench) as disk:
        fill(disk)
        words = [bench.reprise, "replay", bench.scratch / "plan", "--stats", disk / "s", "--"]
        outcome = bench.run(*words, *command)
        expect_equal(outcome.status, LAUNCHER, "exit status")
        expect("No space left" in outcome.ours()[-1], f"said: {outcome.ours()}")
        expect_equal([path.name for path in disk.iterdir()], ["filler"], "what is left")


def expect_some_lost(bench, directory):
    outcome = bench.run(bench.reprise, "info", "--json", directory)
    expect(outcome.status in (0, BAD_INPUT), f"info: exit {outcome.status}")
    info = json.loads(outcome.stdout)
    expect(info["lost_events"] > 0, f"lost_events {info['lost_events']} of {info['events']}")
    return info


def file_size_limit(bench):
    """RLIMIT_FSIZE: neither a SIGXFSZ for the program nor for reprise."""

    def limited(blocks):
        return ["/bin/sh", "-c", f"ulimit -f {blocks}; exec \"$0\"", *command]

    command = [str(programs(bench) / "closes_all_fds")]
    # 3 MiB are enough when full chunks are copied away; what is not in time is counted as lost.
    expect_unchanged(bench, limited(3 * 2048), bench.scratch / "some")
    bench.record(limited("unlimited"), expected=0)
    info = json.loads(bench.run(bench.reprise, "info", "--json", bench.scratch / "some").stdout)
    recorded = info["events"] - info["implied_frees"]
    expect_equal(recorded + info["lost_events"], bench.info()["events"],
                 "events that are accounted for")
    ours = expect_unchanged(bench, limited(0), bench.scratch / "none")
    expect(any("not recorded" in line for line in ours), f"said: {ours}")

    def hard():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    outcome = bench.record(command, "hard", limits=hard)
    expect_equal((outcome.status, len(outcome.ours())), (LAUNCHER, 1), "record under a hard limit")


def address_space_limit(bench):
    """RLIMIT_AS forbids our reservation: recorded where there is room, replayed not at all."""
    command = [programs(bench) / "longjmp_throw"]

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    expect_unchanged(bench, command, bench.scratch / "recording", limits=limit)
    bench.record(command, expected=0)
    bench.plan()
    plain = bench.run(*command)
    replayed, stats = bench.replay(command, limits=limit)
    expect_equal((replayed.status, replayed.stdout), (plain.status, plain.stdout), "replayed")
    expect(any("not replayed" in line for line in replayed.ours()), f"said: {replayed.ours()}")
    expect_equal(stats["allocations"], 0, "allocations")


def data_limit(bench):
    """RLIMIT_DATA counts what reprise has room for: it is left to the program."""
    command = [programs(bench) / "longjmp_throw"]

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (50 << 20, 50 << 20))

    ours = expect_unchanged(
        bench, command, bench.scratch / "recording", limits=limit, options=("--stacks", "5")
    )
    expect(any("without call stacks" in line for line in ours), f"said: {ours}")
    expect(bench.info()["events"] > 1000, "nothing is recorded")
    bench.plan()
    plain = bench.run(*command)
    replayed, _ = bench.replay(command, limits=limit)
    expect_equal((replayed.status, replayed.stdout), (plain.status, plain.stdout), "replayed")
    expect(any("not replayed" in line for line in replayed.ours()), f"said: {replayed.ours()}")


def instance_of(bench, buffers):
    """A CSV instance with so many buffers, some of them longer-lived."""
    path = bench.work / "many.csv"
    chance = random.Random(1)
    rows = (
        f"{i},{i},{i + chance.choice((3, 50, 2000))},{chance.randrange(1, 5000)}\n"
        for i in range(buffers)
    )
    path.write_text("id,lower,upper,size\n" + "".join(rows))
    return path


def no_threads(bench):
    """Where no thread can be had everything is done without, and the same comes out."""

    def limit():  # a stack that is larger than the address space
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 30, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    words = [bench.reprise, "plan", instance_of(bench, 3000), "--iterations", 20, "--budget", 100]
    bench.run(*words, "--threads", 4, "-o", "with.csv", expected=0)
    bench.run(*words, "--threads", 4, "-o", "without.csv", limits=limit, expected=0)
    plans = [(bench.work / name).read_bytes() for name in ("with.csv", "without.csv")]
    expect(plans[0] == plans[1], "the plans differ")
    expect_unchanged(bench, [programs(bench) / "longjmp_throw"], bench.scratch / "recording", limit)
    expect_equal(bench.info()["lost_events"], 0, "lost_events")


def no_memory(bench):
    """Memory that ends at any point of planning, in whatever thread, ends it with one line."""
    words = [bench.reprise, "plan", instance_of(bench, 60000), "--threads", 2, "--budget", 0.3]
    ended = set()
    for mebibytes in range(24, 64, 2):

        def limit(mebibytes=mebibytes):
            resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

        # Some libraries crash in their constructors, before any code of ours runs.
        if bench.run(bench.reprise, "--version", limits=limit).status != 0:
            continue
        outcome = bench.run(*words, "-o", "out.csv", limits=limit)
        lines = outcome.stderr.decode().splitlines()
        expect_equal(len(lines), outcome.status != 0, f"{mebibytes} MiB: lines {lines}")
        ended.add(outcome.status)
    expect_equal(ended, {0, SYSTEM}, "exit codes")


def seccomp_in_replay(bench):
    """A program that forbids itself system calls goes on, whether its plan is whole, or ends where
    the recording could not go on, or is another program's, so that nearly all must come from
    elsewhere."""
    command = [programs(bench) / "seccomp_filter"]
    plain = bench.run(*command)
    if plain.status != 0:
        raise Skip("seccomp filters are not to be had")
    cases = {"whole": [*command, "unfiltered"], "cut": command, "foreign": ["/bin/true"]}
    for name, recorded in cases.items():
        bench.record(recorded, name, expected=0)
        bench.plan(name, f"plan-{name}")
        replayed, stats = bench.replay(command, f"plan-{name}")
        expect_equal((replayed.status, replayed.stdout), (0, plain.stdout), f"the {name} plan")
        expect(stats["allocations"] > 50000, f"{stats['allocations']} allocations")


def vanished_session(bench):
    """The session's folder is removed: what is started then is not recorded, and that is said."""
    command = ["/bin/sh", "-c", 'rm -rf "$REPRISE_SESSION"; /bin/ls /; exit 4']
    ours = expect_unchanged(bench, command, bench.scratch / "recording")
    expect(any("was removed" in line for line in ours), f"said: {ours}")


def lost_counters(bench):
    """That a replayed program removed its counters is no reason for its launcher to fail."""
    command = ["/bin/sh", "-c", "while read -r a b c d e file; do case $file in *counters.*) "
               "rm $file; exit 4;; esac; done < /proc/self/maps"]
    bench.record(command, expected=0)
    bench.plan()
    replayed, stats = bench.replay(command)
    expect_equal(replayed.status, 4, "the program's status")
    expect_equal(stats["allocations"], 0, "allocations that are known")
    expect(stats["table_bytes"] > 0, f"{stats}")


def session_of_another(bench):
    """A session that belongs to somebody else is none: it could have anything written anywhere."""
    if os.geteuid() != 0:
        raise Skip("to give a file away needs root")
    command = ["/bin/sh", "-c", 'chown 65534 "$REPRISE_SESSION/session"; /bin/ls /; exit 4']
    plain = bench.run("/bin/ls", "/")
    recorded = bench.record(command)
    expect_equal((recorded.status, recorded.stdout), (4, plain.stdout), "recorded")
    traces = sorted(path.name for path in (bench.scratch / "recording").iterdir())
    expect_equal(traces, ["00000-sh.trace", "00001-chown.trace"], "traces")


def valgrind(bench):
    """What valgrind runs has none of our mappings, of which valgrind would keep a shadow."""
    if shutil.which("valgrind") is None:
        raise Skip("no valgrind")
    command = ["valgrind", "-q", "--error-exitcode=9", "/bin/echo", "done"]
    ours = expect_unchanged(bench, command, bench.scratch / "recording")
    expect(any("valgrind" in line for line in ours), f"said: {ours}")


def names_of_two_lines(bench):
    """A message is one line, whatever a program or a directory is called."""
    strange = bench.work / "two\nlines"
    shutil.copy("/bin/sh", strange)
    ours = expect_unchanged(bench, [strange, "-c", "exit 4"], bench.scratch / "two\nlines")
    expect(any("recorded" in line and "two?lines" in line for line in ours), f"said: {ours}")


def small_stacks(bench):
    """A signal handler that ends the program may have little stack left, and so may execl."""
    for how in ("handler", "execl"):
        expect_unchanged(bench, [programs(bench) / "small_stacks", how], bench.scratch / how)


def vanished_directory(bench):
    """The directory is gone, or can no longer be written to, when a second image starts."""
    directory = bench.scratch / "recording"
    command = ["/bin/sh", "-c", f"/bin/ls /; rm -rf '{directory}'; /bin/ls /; exit 4"]
    ours = expect_unchanged(bench, command, directory)
    expect(any("removed or moved away" in line for line in ours), f"said: {ours}")
    if os.geteuid() == 0:
        return  # root may write anywhere
    directory = bench.scratch / "locked"
    command = ["/bin/sh", "-c", f"chmod 500 '{directory}' 2>&-; /bin/ls /; exit 4"]
    ours = expect_unchanged(bench, command, directory)
    expect(any("not recorded" in line for line in ours), f"said: {ours}")


def vanished_statistics(bench):
    """Statistics that went away with their folder while the program ran are an error."""
    folder = bench.scratch / "folder"
    folder.mkdir()
    command = ["/bin/rm", "-r", folder]
    bench.record(["/bin/rm", "-rf", bench.scratch / "nothing"], expected=0)
    bench.plan()
    replayed = bench.replay(command, stats="folder/stats.json", expected=LAUNCHER)[0]
    expect("stats.json: No such file" in replayed.ours()[-1], f"said: {replayed.ours()}")


def other_namespace(bench):
    """A process that is still running is known to be, although it goes by another number there."""
    if bench.run("unshare", "-p", "-f", "true").status != 0:
        raise Skip("namespaces need root")
    begun, end, output = (bench.scratch / name for name in ("begun", "end", "output"))
    os.mkfifo(end)
    os.mkfifo(output)
    reading = os.open(output, os.O_RDONLY | os.O_NONBLOCK)
    inner = f"unshare -p -f /bin/sh -c 'echo >{begun}; read line <{end}' >{output} 2>&1"
    outer = f"{inner} & until test -e {begun}; do :; done"
    try:
        bench.record(["/bin/sh", "-c", outer], expected=0)
        traces = [path.name for path in (bench.scratch / "recording").glob("*.trace")]
        expect_equal(len(traces), 1, f"traces of what has ended: {traces}")
    finally:
        end.write_text("now\n")
        os.set_blocking(reading, True)
        while os.read(reading, 1):  # until nobody is left
            pass
        os.close(reading)


def changed_plan(bench):
    """A plan file that is removed or replaced while a program runs from it serves on, and what it
    served is counted; one that is written over is not, and that is said."""
    plan = bench.scratch / "plan" / "00000-sh.plan"
    for how, said in {f"rm -f {plan}": False, f"mv -f {plan} {plan}.moved": False,
                      f"printf X | dd of={plan} conv=notrunc": True}.items():
        command = ["/bin/sh", "-c", f"{how} 2>/dev/null; true"]
        bench.record(command, expected=0)
        bench.plan()
        replayed, stats = bench.replay(command, expected=0)
        expect_equal(any("changed while" in line for line in replayed.ours()), said, how)
        expect(said or stats["images"][0]["served"] > 10, f"{how}: {stats['allocations']}")


def deaf_reader(bench):
    """Nobody reads what reprise says: recordings and statistics are finished all the same, and the
    program has the SIGPIPE that it has without reprise."""
    command = ["/bin/sh", "-c", "grep SigIgn /proc/self/status >ignored; exit 3"]
    bench.run(*command, expected=3)
    ignored = (bench.work / "ignored").read_text()

    def run_unheard(*words):
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.run([*words, "--", *command], cwd=bench.work, env=bench.environment,
                                 stderr=writing, timeout=TIMEOUT, check=False)
        os.close(writing)
        expect_equal(process.returncode, 3, f"exit status of {words[1]}")
        expect_equal((bench.work / "ignored").read_text(), ignored, "signals ignored")

    recording, stats = bench.scratch / "recording", bench.scratch / "stats.json"
    run_unheard(bench.reprise, "record", "-o", recording)
    expect(list(recording.glob("*.trace")), "no trace")
    bench.plan()
    again = bench.scratch / "again"
    run_unheard(bench.reprise, "replay", bench.scratch / "plan", "--record", again, "--stats", stats)
    expect(json.loads(stats.read_text())["allocations"] > 0, "no statistics")


def no_descriptors(bench):
    """A forked child that has no file descriptor left goes on without a recording, and that is why."""
    script = (
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "try:\n"
        "  while True: os.dup(0)\n"
        "except OSError as error: print(error)\n"
        "if os.fork() == 0: os._exit(len(str(list(range(9999)))) % 100)\n"
        "print(os.wait()[1] >> 8, flush=True)\n"
    )
    ours = expect_unchanged(bench, ["/usr/bin/python3", "-c", script], bench.scratch / "recording")
    expect(any("descriptor" in line for line in ours), f"said: {ours}")


def closed_output(bench):
    """Standard streams that are closed: the program's business, not reprise's."""
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = "/usr/bin/python3 -c 'import sys; sys.exit(3)'"
        recording = f"'{bench.reprise}' record -o '{bench.scratch}/closed' --"
        plain = bench.run("/bin/sh", "-c", f"{command} {closed}")
        recorded = bench.run("/bin/sh", "-c", f"{recording} {command} {closed}")
        expect_equal(
            (recorded.status, recorded.stdout, recorded.theirs()),
            (plain.status, plain.stdout, plain.theirs()),
            f"recorded with {closed}",
        )
        expect(bench.info("closed")["events"] > 1000, "events")
    pipe = f"'{bench.reprise}' record -o '{bench.scratch}/pipe' -- /usr/bin/yes | head -n 1"
    expect_equal(bench.run("/bin/sh", "-c", pipe).stdout, b"y\n", "a pipe that is closed early")
    expect(bench.info("pipe")["events"] > 0, "events")
    # What reprise says goes nowhere, above all not into a file of its own that has got the number.
    bench.record(["/bin/ls", "/"], expected=0)
    bench.plan()
    replay = f"'{bench.reprise}' replay '{bench.scratch}/plan' --stats /proc/self/fd/5 -- /bin/true"
    replayed = bench.run("/bin/sh", "-c", f"{replay} 5>&1 >/dev/null 2>&- | cat", expected=0)
    expect(json.loads(replayed.stdout)["allocations"] >= 0, "allocations")


def many_images(bench):
    """A few hundred processes, some at the same time: a trace for each, and none is overwritten."""
    script = "for i in $(seq 60); do /bin/true $i & /bin/echo $i > /dev/null; done; wait; echo done"
    expect_unchanged(bench, ["/bin/sh", "-c", script], bench.scratch / "recording")
    traces = list((bench.scratch / "recording").iterdir())
    names = [trace.name.split("-", 1)[1] for trace in traces]
    expect_equal(names.count("true.trace"), 60, "traces of true")
    expect_equal(names.count("seq.trace"), 1, "traces of seq")
    expect_equal(bench.info()["lost_events"], 0, "lost_events")
    bench.plan()
    replayed, _ = bench.replay(["/bin/sh", "-c", script])
    expect_equal((replayed.status, replayed.stdout), (0, b"done\n"), "replayed")


CASES = (
    kill_program,
    terminate_record,
    kill_record,
    kill_record_that_compacts,
    several_are_compacted,
    kill_replay,
    kill_reprise_in_replay,
    passed_on,
    passed_on_although_ignored,
    no_memory_to_finish,
    no_proc,
    ended_at_any_time,
    children_ignored,
    main_thread_gone,
    killed_before_it_began,
    full_registry,
    full_tmp,
    locked_memory,
    two_at_once,
    stranger_in_directory,
    full_disk,
    full_disk_while_compacting,
    full_disk_with_stacks,
    full_disk_for_statistics,
    file_size_limit,
    address_space_limit,
    data_limit,
    no_threads,
    no_memory,
    seccomp_in_replay,
    vanished_directory,
    vanished_statistics,
    other_namespace,
    changed_plan,
    deaf_reader,
    vanished_session,
    lost_counters,
    no_descriptors,
    session_of_another,
    valgrind,
    names_of_two_lines,
    small_stacks,
    closed_output,
    many_images,
)

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
