"""The programs of tests/programs, plainly, recorded and replayed: they must not notice.

Output (of the program: reprise's own lines are left out) and exit status are the same each time;
the recording lost nothing and its plan is valid. What else is expected stands in the table.
"""

import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import signal

from harness import Skip, expect, expect_equal, main

ABORTED = 128 + signal.SIGABRT
CRASHED = 128 + signal.SIGSEGV


@dataclasses.dataclass
class Program:
    status: int = 0
    events: int = 1000  # at least
    images: int = 1  # that are recorded, exactly; 0: it depends
    threads: int = 1  # at least
    served: float = 0.0  # percent, at least, in replay
    refused: str = ""  # replay leaves the program alone, and says this
    ends: bool = True  # in the ordinary way: what is told of the process at its end is there


PROGRAMS = {
    "abort_live_blocks": Program(ABORTED, served=100, ends=False),
    "aligned_family": Program(served=99),
    "alloc_in_tls": Program(threads=81),
    "before_constructors": Program(served=100),
    "c11_threads": Program(threads=8, served=90),
    "calloc_in_dlsym": Program(served=99),
    "cancelled_threads": Program(threads=61),
    # As root its child finds no directory to record into.
    "chroot_and_uid": Program(images=1 if os.geteuid() == 0 else 2, threads=2, served=99),
    "closes_all_fds": Program(threads=2, served=99, events=100000),
    "crash_in_block": Program(CRASHED, served=100, ends=False),
    "cross_thread_free": Program(threads=2, events=40000),
    "dlopen_dlclose": Program(threads=41, served=80),
    "double_free_in_replay": Program(served=100),
    "exec_chain": Program(7, images=4, served=99),
    "exit_with_atexit_alloc": Program(9, threads=2, served=99),
    "failing_dlsym": Program(threads=4),
    "fork_child_forks_late": Program(images=3),
    "fork_in_step": Program(images=2, served=100),
    "fork_no_exec": Program(images=16, threads=2),
    "libc_allocates": Program(served=99),
    "links_jemalloc": Program(served=99),
    "links_jemalloc_mallocx": Program(refused="its own allocator's entry points"),
    "links_tcmalloc_tc_malloc": Program(refused="its own allocator's entry points"),
    "longjmp_throw": Program(served=99),
    "look_ups": Program(served=99),
    "operator_new_family": Program(served=99),
    "own_operator_new": Program(served=99),
    "quick_exit_live_blocks": Program(6, threads=2),
    "realloc_family": Program(served=95),
    "shared_pages": Program(events=10, served=90),
    "signal_alloc": Program(events=50000, threads=2),
    "thread_churn": Program(threads=2501),
    "threads_exit_with_live_blocks": Program(5, threads=39),
    "vfork_spawn": Program(images=0, served=99),
    "wraps_libc_malloc": Program(served=99),
}


def outcome_of(outcome):
    return outcome.status, outcome.stdout, outcome.theirs()


def run_case(bench, name, program):
    command = [bench.build / "bin" / "programs" / name]
    plain = bench.run(*command)
    expect_equal(plain.status, program.status, f"plain status; {plain.stderr}")
    expect(plain.stdout, "the program says nothing")

    recorded = bench.record(command)
    expect_equal(outcome_of(recorded), outcome_of(plain), "recorded")
    info = bench.info()
    expect_equal(info["lost_events"], 0, "lost_events")
    expect(info["events"] >= program.events, f"{info['events']} events")
    expect(info["threads"] >= program.threads, f"{info['threads']} threads")
    images = info.get("images", [info])
    if program.images:
        expect_equal(len(images), program.images, "recorded images")
    expect_equal(images[0]["complete"], program.ends, "complete")

    bench.plan()
    for number in (1, 2):
        replayed, stats = bench.replay(command)
        expect_equal(outcome_of(replayed), outcome_of(plain), f"replay {number}")
        if program.refused:
            expect(program.refused in "".join(replayed.ours()), f"said: {replayed.ours()}")
            expect_equal(stats["allocations"], 0, "allocations of a program left alone")
            continue
        expect_equal(replayed.complaints(), [], f"said in replay {number}")
        expect_equal(stats["invalid_frees"], 0, "invalid_frees")
        expect(stats["allocations"] > 0, "no allocation was counted")
        served = stats["served_percent"]
        diverged = {key: stats[key] for key in ("allocations", "served", "blocked", "unmatched")}
        expect(served >= program.served, f"replay {number}: served {served} %: {diverged}")

    # Recorded and replayed at once.
    both = bench.run(
        *[bench.reprise, "replay", bench.scratch / "plan", "--record", bench.scratch / "again"],
        *["--", *command],
    )
    expect_equal(outcome_of(both), outcome_of(plain), "recorded in replay")
    expect_equal(bench.info("again")["lost_events"], 0, "lost_events of the second recording")


def words(bench):
    """A program gets its arguments as they were given, whatever they look like."""
    command = ["/usr/bin/printf", "<%s>", "[a,b]", "[]", "", "--", "{}", "%%", "--help", "a b", "-o"]
    plain = bench.run(*command, expected=0)
    recorded = bench.record(command)
    expect_equal(outcome_of(recorded), outcome_of(plain), "recorded")
    bench.plan()
    expect_equal(outcome_of(bench.replay(command)[0]), outcome_of(plain), "replayed")
    live = [bench.reprise, "compare", "--live", "--json", "--allocators", "glibc", "--runs", 1, "--"]
    compared = json.loads(bench.run(*live, *command, expected=0).stdout)
    expect_equal(compared["program"], command, "compared")


def descriptors(bench):
    """A program inherits the descriptors that it has without reprise, and no others."""
    command = ["/bin/ls", "/proc/self/fd"]
    plain = bench.run(*command, expected=0)
    expect_equal(outcome_of(bench.record(command)), outcome_of(plain), "recorded")
    bench.plan()
    expect_equal(outcome_of(bench.replay(command)[0]), outcome_of(plain), "replayed")


def wrong_frees(bench):
    """What glibc aborts for is counted and ignored in replay; the rest of the run is as it was."""
    right = [bench.build / "bin" / "programs" / "double_free_in_replay"]
    wrong = [*right, "wrong"]
    expect_equal(bench.run(*wrong).status, ABORTED, "plain status")
    plain = bench.run(*right)
    bench.record(right, expected=0)
    bench.plan()
    replayed, stats = bench.replay(wrong)
    expect_equal(outcome_of(replayed), outcome_of(plain), "replay")
    expect_equal(stats["invalid_frees"], 20, "invalid_frees")


def fork_among_threads(bench):
    """Forked children never wait for threads that they do not have, wherever those were. With
    REPRISE_LONG_TESTS in the environment there are five times as many."""
    if os.environ.get("REPRISE_LONG_TESTS"):
        bench.environment["FORKS"] = "60"
    command = [bench.build / "bin" / "programs" / "fork_among_threads"]
    plain = bench.run(*command, expected=0)
    # The second plan fits nothing: the threads were inside the fallback.
    for name, recorded in {"own": command, "foreign": [*command, "nothing"]}.items():
        bench.record(recorded, name, expected=0)
        bench.plan(name, f"plan-{name}", ["--strategy", "first_fit_by_size", "--budget", 1])
        replayed, stats = bench.replay(command, f"plan-{name}")
        expect_equal(outcome_of(replayed), outcome_of(plain), f"{name} plan")
        expect_equal(stats["invalid_frees"], 0, "invalid_frees")


def threads_of_the_program_alone(bench):
    """What libc allocates for reprise as a thread begins is not among the program's allocations, and
    in no recording: the thread's first request is the program's."""
    command = [bench.build / "bin" / "programs" / "thread_churn", "50"]
    bench.record(command, expected=0)
    bench.plan()
    recorded = bench.info()["buffers"]
    words = [bench.reprise, "replay", bench.scratch / "plan", "--record", bench.scratch / "again"]
    bench.run(*words, "--", *command, expected=0)
    expect_equal(bench.info("again")["buffers"], recorded, "buffers of a recording made in replay")
    stats = bench.replay(command)[1]
    expect_equal(stats["allocations"], recorded, "allocations in replay")
    expect_equal(stats["fallback"], 0, "fallback")


def runtime_of_a_plugin(bench):
    """A program without a C++ runtime loads a library that has one, and that nobody else sees: there,
    too, operator new throws."""
    plugin = bench.build / "bin" / "programs" / "libplugin.so"
    script = f"import ctypes; print(ctypes.CDLL('{plugin}').RefusedBlocks())"
    command = ["/usr/bin/python3", "-c", script]
    plain = bench.run(*command, expected=0)
    expect_equal(plain.stdout, b"6\n", "plain")
    expect_equal(outcome_of(bench.record(command)), outcome_of(plain), "recorded")
    bench.plan()
    expect_equal(outcome_of(bench.replay(command)[0]), outcome_of(plain), "replayed")


def libc_by_name(bench):
    """Functions that the program gets from libc itself are given blocks of the plan, too."""
    script = """
import ctypes
libc = ctypes.CDLL("libc.so.6")
for function in libc.strdup, libc.malloc, libc.realloc, libc.reallocarray:
    function.restype = ctypes.c_void_p
for size in range(500):
    libc.free(ctypes.c_void_p(libc.strdup(bytes(size))))
    block = ctypes.c_void_p(libc.realloc(ctypes.c_void_p(libc.malloc(size + 1)), 2 * size + 1))
    block = ctypes.c_void_p(libc.reallocarray(block, 10, size + 1))
    print(libc.malloc_usable_size(block) >= 10 * size)
    libc.free(block)
"""
    command = ["/usr/bin/python3", "-c", script]
    plain = bench.run(*command, expected=0)
    expect_equal(outcome_of(bench.record(command)), outcome_of(plain), "recorded")
    info = bench.info()
    expect_equal((info["implied_frees"], info["unmatched_frees"]), (0, 0), "strange frees")
    bench.plan()
    replayed, stats = bench.replay(command)
    expect_equal(outcome_of(replayed), outcome_of(plain), "replayed")
    expect_equal(stats["invalid_frees"], 0, "invalid_frees")


def c11_threads_by_name(bench):
    """Threads of C11, six that start side by side, and of libc's own get the lanes that they had."""
    command = [bench.build / "bin" / "programs" / "c11_threads"]
    bench.record(command, expected=0)
    bench.plan()
    for _ in range(3):
        stats = bench.replay(command, expected=0)[1]
        elsewhere = stats["improvised"] + stats["fallback"]
        expect(elsewhere < stats["allocations"] / 20, f"{elsewhere} of {stats['allocations']} elsewhere")


def heap_statistics(bench):
    """mallinfo2, malloc_stats, malloc_info and malloc_trim are libc's, of libc's heap: they work."""
    command = [bench.build / "bin" / "programs" / "heap_statistics"]
    plain = bench.run(*command, expected=0)
    expect_equal(bench.record(command, expected=0).stdout, plain.stdout, "recorded")
    bench.plan()
    expect_equal(bench.replay(command, expected=0)[0].stdout, plain.stdout, "replayed")


def jumps_out(bench):
    """A handler that jumps out of malloc leaves neither slow memory nor a lock behind. Once: from then
    on libc's allocator serves, which a second jump may find half done, as it may in a plain run."""
    command = [bench.build / "bin" / "programs" / "jumps_out"]
    plain = bench.run(*command, expected=0)
    bench.record(command, expected=0)
    bench.plan()
    for _ in range(30):
        replayed, _ = bench.replay([*command, 1], expected=0)
        expect_equal(replayed.stdout, plain.stdout, "replayed")


def expect_unseen(bench, program):
    """Started directly the program is refused; as a child it runs as usual, and is counted."""
    plain = bench.run(program, expected=7)
    refused = bench.record([program])
    expect_equal((refused.status, refused.stdout), (126, b""), "started directly")
    (line,) = refused.ours()
    script = bench.work / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    starts = f"{program}; echo $?; exec {script}"
    outcome = bench.record(["/bin/sh", "-c", starts], "children")
    expect_equal(outcome.theirs(), plain.theirs(), "stderr of the children")
    expect_equal((outcome.status, outcome.stdout), (7, plain.stdout + b"7\n" + plain.stdout), "children")
    info = bench.info("children")
    expect_equal((info["unpreloadable"], len(info["images"])), (2, 1), "unpreloadable, images")
    spawn = (
        f"import os; child = os.posix_spawn('{program}', ['x'], os.environ);"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    outcome = bench.record(["/usr/bin/python3", "-c", spawn], "spawned", expected=0)
    expect_equal(outcome.stdout, plain.stdout + b"7\n", "spawned")
    directory, name = os.path.split(program)
    execveat = (
        "import ctypes, os\n"
        "def strings(words): return (ctypes.c_char_p * (len(words) + 1))(*words, None)\n"
        f"directory = os.open('{directory}', os.O_PATH)\n"
        "variables = [key + b'=' + value for key, value in os.environb.items()]\n"
        f"ctypes.CDLL(None).execveat(directory, b'{name}', strings([b'x']), strings(variables), 0)\n"
    )
    outcome = bench.record(["/usr/bin/python3", "-c", execveat], "execveat", expected=7)
    expect_equal(outcome.stdout, plain.stdout, "started by execveat")
    return line


def other_libc(bench):
    """A program of another C library cannot load ours: it runs without."""
    program = bench.build / "bin" / "programs" / "other_libc"
    if not program.exists():
        raise Skip("built without musl-gcc")
    line = expect_unseen(bench, program)
    expect("not linked against glibc" in line, f"said: {line}")


def loader_of(program):
    content = pathlib.Path(program).read_bytes()
    return re.search(rb"(/lib[\w/]*/ld-linux[\w.-]*)\0", content)[1]


def old_libc(bench):
    """Nor can one of a glibc that lacks what ours needs: beside its loader lies a libc.so.6 that has
    none of the newer versions. (The loader, a copy, takes the system's all the same.)"""
    status = bench.build / "bin" / "programs" / "exit_status"
    loader = loader_of(status)
    name = b"./old/ld.so"
    (bench.work / "old").mkdir()
    shutil.copy(os.fsdecode(loader), bench.work / "old" / "ld.so")
    libm = pathlib.Path(os.path.realpath(os.fsdecode(loader))).parent / "libm.so.6"
    shutil.copy(libm, bench.work / "old" / "libc.so.6")
    program = bench.work / "old_program"
    padded = name + bytes(len(loader) - len(name))
    program.write_bytes(status.read_bytes().replace(loader + b"\0", padded + b"\0"))
    program.chmod(0o755)
    if bench.run(program).status != 7:
        raise Skip("the copied loader does not run")
    line = expect_unseen(bench, program)
    expect("glibc that is too old, without GLIBC_" in line, f"said: {line}")


def started_by_loader(bench):
    """`ld.so PROGRAM` is recorded, and no child that cannot be preloaded."""
    program = bench.build / "bin" / "programs" / "longjmp_throw"
    loader = os.fsdecode(loader_of(program))
    plain = bench.run(loader, program, expected=0)
    expect_equal(bench.record([loader, program], expected=0).stdout, plain.stdout, "directly")
    expect(bench.info()["events"] > 1000, "events")
    script = ["/bin/sh", "-c", f"{loader} {program}; exit 3"]
    expect_equal(bench.record(script, "child", expected=3).stdout, plain.stdout, "as a child")
    info = bench.info("child")
    expect_equal((info["unpreloadable"], len(info["images"])), (0, 2), "unpreloadable, images")


def no_format(bench):
    """What execve knows no format of is run by /bin/sh, as env and execvp do."""
    texts = {"script": 'echo "$0 $1" $#; exit 5\n', "nameless": "#!\necho nameless; exit 6\n", "empty": ""}
    for name, text in texts.items():
        path = bench.work / name
        path.write_text(text)
        path.chmod(0o755)
    live = [bench.reprise, "compare", "--live", "--json", "--runs", 1, "--plan", bench.scratch / "plan", "--"]
    for name in texts:
        command = [f"./{name}", "a b", "c"]
        plain = bench.run("/usr/bin/env", *command)
        recorded = bench.record(command)
        expect_equal(outcome_of(recorded), outcome_of(plain), f"{name} recorded")
        (image,) = bench.info()["images"]
        expect_equal(os.path.basename(image["executable"]), os.path.basename(os.path.realpath("/bin/sh")), name)
        bench.plan()
        replayed, stats = bench.replay(command)
        expect_equal(outcome_of(replayed), outcome_of(plain), f"{name} replayed")
        expect_equal(stats["served_percent"], 100, f"{name}: served")
        compared = json.loads(bench.run(*live, *command, expected=0).stdout)
        expect_equal({it["status"] for it in compared["results"]}, {plain.status}, f"{name} compared")
        # The same as a child.
        spawn = ["/usr/bin/python3", "-c", f"import ctypes; libc = ctypes.CDLL(None);"
                 f"libc.execlp(b'./{name}', b'x', b'a b', b'c', None)"]
        outcome = bench.record(spawn, "child")
        expect_equal(outcome_of(outcome), outcome_of(plain), f"{name} as a child")
        info = bench.info("child")
        expect_equal((info["unpreloadable"], len(info["images"])), (0, 2), f"{name}: unpreloadable, images")
    # In PATH, and of a script whose interpreter is such a file.
    (bench.work / "nested").write_text("#!./script\nexit 9\n")
    (bench.work / "nested").chmod(0o755)
    bench.environment["PATH"] += f":{bench.work}"
    for command in (["script", "x"], ["nested"]):
        plain = bench.run("/usr/bin/env", *command)
        expect_equal(outcome_of(bench.record(command)), outcome_of(plain), f"{command}")


def own_mappings(bench):
    """Where the program's own mappings take our addresses, nothing of ours is put over them."""
    command = ["setarch", "-L", bench.build / "bin" / "programs" / "own_mappings"]
    plain = bench.run(*command)
    if plain.status != 0:
        raise Skip(f"setarch or the mapping: {plain.status}")
    expect_equal(plain.stdout, b"bytes changed: 0\nwrong: 0\n", "plain")
    for words in ([bench.reprise, "record"], [bench.reprise, "record", "--stacks", 4]):
        legacy = ["setarch", "-L", *words, "-o", bench.scratch / "recording", "--", command[2]]
        recorded = bench.run(*legacy, expected=0)
        expect_equal(recorded.stdout, plain.stdout, "recorded")
    expect(bench.info()["events"] > 2000, "events")
    bench.plan()
    words = ["setarch", "-L", bench.reprise, "replay", bench.scratch / "plan", "--", command[2]]
    replayed = bench.run(*words, expected=0)
    expect_equal(replayed.stdout, plain.stdout, "replayed")


def address_limits(bench):
    """What a program may map under a limit is its own, whether it was given one or sets it itself."""
    program = str(bench.build / "bin" / "programs" / "address_limits")
    bench.environment["MALLOC_ARENA_MAX"] = "1"  # the others would take 64 MiB each

    def limited(mebibytes):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

    def shares(outcome, plain):
        """Of each figure, the share of the plain run's."""
        expect_equal(outcome.stdout.count(b"wrong: 0\n"), plain.stdout.count(b"wrong"), "wrong")
        pairs = zip(re.findall(rb": (\d+) (\d+)", outcome.stdout),
                    re.findall(rb": (\d+) (\d+)", plain.stdout), strict=True)
        return [int(a) / int(b) for one, other in pairs for a, b in zip(one, other)]

    for options in ([], ["--stacks", "8"]):
        words = [bench.reprise, "record", "-o", bench.scratch / "recording", *options, "--"]
        for arguments, limits in (([], limited(1000)), (["1000"], None)):
            plain = bench.run(program, *arguments, limits=limits, expected=0)
            recorded = bench.run(*words, program, *arguments, limits=limits, expected=0)
            expect(min(shares(recorded, plain)) > 0.94, f"{recorded.stdout} of {plain.stdout}")
            expect(bench.info()["events"] > 240000, "events")
    # The launcher needs little, too.
    plain = bench.run(program, limits=limited(100), expected=0)
    recorded = bench.run(*words, program, limits=limited(100), expected=0)
    expect(min(shares(recorded, plain)) > 0.85, f"{recorded.stdout} of {plain.stdout}")
    # A plan's boxes count, and here they are small.
    bench.record([program, "100"], expected=0)
    bench.plan()
    for arguments, limits in (([], limited(1000)), (["1000"], None)):
        plain = bench.run(program, *arguments, limits=limits, expected=0)
        replayed, _ = bench.replay([program, *arguments], limits=limits, expected=0)
        expect(min(shares(replayed, plain)) > 0.85, f"{replayed.stdout} of {plain.stdout}")


def keep_aslr(bench):
    """--keep-aslr: the addresses differ from the recording's, and nothing else does."""
    command = [bench.build / "bin" / "programs" / "longjmp_throw"]
    plain = bench.run(*command)
    recorded = bench.run(
        bench.reprise, "record", "--keep-aslr", "-o", bench.scratch / "recording", "--", *command
    )
    expect_equal(outcome_of(recorded), outcome_of(plain), "recorded")
    bench.plan()
    path = bench.scratch / "stats.json"
    words = [bench.reprise, "replay", bench.scratch / "plan", "--keep-aslr", "--stats", path]
    replayed = bench.run(*words, "--", *command)
    expect_equal(outcome_of(replayed), outcome_of(plain), "replayed")


def huge_pages(bench):
    """--huge-pages says what the kernel is told of the arena, and changes nothing else."""
    # The arena is where address_map.h puts it; the flags are the kernel's.
    script = """
import re
import resource
blocks = [bytes(1000) for _ in range(6000)]
areas = re.split("\\n2a(?=[89a-f])", open("/proc/self/smaps").read())[1:]
flags = [area.split("VmFlags:")[1].splitlines()[0].split() for area in areas]
import sys
print(len(blocks), file=sys.stdout)
told = {"huge" if "hg" in words else "small" if "nh" in words else "any"
        for words in flags if "wr" in words}
print(*sorted(told), file=sys.stderr)
"""
    bench.environment["PYTHONMALLOC"] = "malloc"
    command = ["/usr/bin/python3", "-c", script]
    plain = bench.run(*command, expected=0)
    bench.run(bench.reprise, "record", "-o", bench.scratch / "recording", "--", *command, expected=0)
    bench.plan()
    for choice, told in {"auto": b"huge small", "always": b"huge small", "never": b"small"}.items():
        words = [bench.reprise, "replay", bench.scratch / "plan", "--huge-pages", choice]
        replayed = bench.run(*words, "--", *command, expected=0)
        expect_equal(replayed.stdout, plain.stdout, choice)
        expect_equal(replayed.stderr.split(b"\n")[0], told, choice)
    bench.run(*words[:-1], "sometimes", "--", *command, expected=125)


def release(bench):
    """--release: pages that the plan leaves idle for long are given back, and nothing is lost."""
    command = [bench.build / "bin" / "programs" / "idle_phase"]
    plain = bench.run(*command, expected=0)
    bench.run(bench.reprise, "record", "-o", bench.scratch / "recording", "--", *command, expected=0)
    bench.plan()
    resident = {}
    for options in ((), ("--release",)):
        words = [bench.reprise, "replay", bench.scratch / "plan", *options, "--", *command]
        replayed = bench.run(*words, expected=0)
        expect_equal(replayed.stdout, plain.stdout, f"output with {options}")
        resident[options] = int(replayed.stderr.split()[0])
    saved = resident[()] - resident["--release",]
    expect(saved > 14000, f"of 16,000 KiB that the first phase needs {saved} were given back")


def resident(bench):
    """Of the plan little stays in memory: some hundred KiB around where the program is."""
    script = """
import re, sys
# Sizes that do not repeat: what repeats is a loop, and the plan short.
for number in range(300000): block = bytes(600 + (number * 2654435761 >> 16) % 100)
print(len(block))
table = open("/proc/self/smaps").read()
for name in ("r--p .*[.]plan",):
    areas = re.findall(name + "[^\\n]*\\nSize: *([0-9]+)(?:.*\\n)*?Rss: *([0-9]+)", table)
    print(*(sum(map(int, kind)) for kind in zip(*areas)), file=sys.stderr)
"""
    bench.environment["PYTHONMALLOC"] = "malloc"
    command = ["/usr/bin/python3", "-c", script]
    bench.record(command, expected=0)
    bench.plan()
    replayed = bench.run(bench.reprise, "replay", bench.scratch / "plan", "--", *command, expected=0)
    expect_equal(replayed.stdout, b"603\n", "output")
    plan = tuple(map(int, replayed.stderr.splitlines()[0].split()))
    expect(plan[0] > 4000 and plan[1] <= 512, f"of {plan[0]} KiB of the plan {plan[1]} are resident")


def signals_in_step(bench):
    """Signal handlers allocate in the middle of what a lane does that follows its plan."""
    command = [bench.build / "bin" / "programs" / "signals_in_step"]
    plain = bench.run(*command, expected=0)
    bench.record(command, expected=0)
    bench.plan()
    bench.environment["SIGNALS"] = "1"
    for _ in range(3):
        replayed, stats = bench.replay(command, expected=0)
        expect_equal(replayed.stdout, plain.stdout, "output")
        expect(stats["served_percent"] > 99, f"{stats['served_percent']} % served")
        expect_equal(stats["invalid_frees"], 0, "invalid_frees")
        expect(stats["improvised"] < stats["allocations"] / 100,
               f"{stats['improvised']} improvised: the lane did not follow its plan")


def early_signals(bench):
    """A handler that allocates before its thread has begun does not take the thread's name away."""
    program = bench.build / "bin" / "programs" / "early_signals"
    bench.record([program], expected=0)
    words = ("plan", bench.scratch / "recording", "-o", bench.scratch / "plan", "--lanes", "thread")
    bench.run(bench.reprise, *words, expected=0)
    _, stats = bench.replay([program, "signal"], expected=0)
    expect(stats["improvised"] < stats["allocations"] / 10, f"{stats['improvised']} improvised")
    bench.record([program, "signal"], "again", expected=0)
    found = bench.run(bench.reprise, "diff", bench.scratch / "recording", bench.scratch / "again",
                      "--json", expected=0)
    blocks = [it["second_blocks"] for it in json.loads(found.stdout)["threads"]
              if it["first_blocks"] > 1000]
    expect(blocks != [] and min(blocks) > 1000, f"blocks of the same thread: {blocks}")


def realloc_in_place(bench):
    """A block that grows has room for its final size from the start: it never moves."""
    command = [bench.build / "bin" / "programs" / "idle_phase"]
    plain = bench.run(*command, expected=0)
    bench.record(command, expected=0)
    bench.plan()
    replayed, stats = bench.replay(command, expected=0)
    expect_equal(replayed.stdout, plain.stdout, "output")
    expect_equal(stats["reallocs"], 400, "reallocs")
    expect_equal(stats["reallocs_in_place"], 400, "reallocs_in_place")


def with_command(bench):
    """A trace tells command line and environment on request, and never otherwise."""
    command = ["/bin/echo", "a b", "secret-word"]
    bench.environment["SECRET"] = "in-the-environment"

    def texts(*options):
        directory = bench.scratch / "recording"
        words = [bench.reprise, "record", *options, "-o", directory, "--", *command]
        bench.run(*words, expected=0)
        told = json.loads(bench.run(bench.reprise, "info", "--json", directory).stdout)["images"][0]
        named = bench.scratch / "anonymous.trace"
        trace = next(directory.glob("*.trace"))
        bench.run(bench.reprise, "convert", "--anonymize", trace, named, expected=0)
        anonymous = json.loads(bench.run(bench.reprise, "info", "--json", named).stdout)
        expect("command" not in anonymous, "an anonymous trace tells its command line")
        return told

    told = texts("--with-command")
    expect_equal(told["command"], command, "command")
    expect("SECRET=in-the-environment" in told["environment"], f"environment {told['environment']}")
    expect("command" not in texts(), "told without being asked")


if __name__ == "__main__":
    table = {
        name: lambda bench, name=name, program=program: run_case(bench, name, program)
        for name, program in PROGRAMS.items()
    }
    others = (words, descriptors, wrong_frees, fork_among_threads,
              threads_of_the_program_alone, runtime_of_a_plugin,
              libc_by_name, c11_threads_by_name, heap_statistics, jumps_out, other_libc,
              old_libc, started_by_loader, no_format, own_mappings, address_limits, keep_aslr, huge_pages, release, resident, signals_in_step, early_signals, realloc_in_place, with_command)
    main(table | {case.__name__: case for case in others})
