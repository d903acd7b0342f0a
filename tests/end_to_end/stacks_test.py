"""`record --stacks N`: who called whom, from the program to the files that are made of its trace."""

import json
import re
import shutil

from harness import SOURCE, Skip, expect, expect_equal, main


def record(bench, command, frames=8, name="recording", **options):
    words = [bench.reprise, "record", "--stacks", frames, "-o", bench.scratch / name, "--"]
    return bench.run(*words, *command, **options)


def program(bench, name):
    return bench.build / "bin" / "programs" / name


def trace(bench, name="recording"):
    return next((bench.scratch / name).glob("*.trace"))


def collapsed(bench, name="recording", source=None):
    """Bytes live at the peak → the names of the functions, the outermost first, for each stack."""
    path = bench.scratch / f"{name}.txt"
    bench.run(bench.reprise, "convert", source or trace(bench, name), path, "--to", "collapsed",
              expected=0)
    stacks = {}
    for line in path.read_text().splitlines():
        stack, size = line.rsplit(" ", 1)
        names = [re.sub(r"(\.cold)? \([^()]*\)$", "", frame) for frame in stack.split(";")]
        stacks.setdefault(int(size), []).append(names)
    return stacks


def callers_of(stacks, size, below="main"):
    """The one stack that holds so many bytes, from `below` on."""
    found = stacks.get(size, [])
    expect_equal(len(found), 1, f"stacks that hold {size} bytes")
    names = found[0]
    return names[names.index(below) + 1 :] if below in names else names


def names(bench):
    """Every stack of a program that is made of known calls."""
    said = record(bench, [program(bench, "call_paths")], expected=0)
    expect_equal(said.stdout, b"done\n", "what the program says")
    stacks = collapsed(bench)
    twins = ["BothTwins", "FirstTwin", "Make"]
    expect_equal(callers_of(stacks, 3 * 1000), twins, "the first call")
    expect_equal(callers_of(stacks, 3 * 1001), ["BothTwins", "SecondTwin", "Make"], "its twin")
    expect_equal(callers_of(stacks, 2000), ["Recurse"] * 4 + ["Make"], "recursion")
    rooms = ["AlignedStack", "RoomOnStack", "Make"]
    expect_equal(callers_of(stacks, 9 * 3000), rooms, "frames of any length")
    unwinding = callers_of(stacks, 4000)
    expect_equal((unwinding[:2], unwinding[-1]), (["Catch", "Throw"], "Make"), "a destructor")
    expect_equal(callers_of(stacks, 4001), ["Catch", "Make"], "a catch")
    for size, what in ((5000, "a signal"), (5001, "a signal on another stack")):
        handler = callers_of(stacks, size)
        expect_equal((handler[0], handler[-2:]), ("Interrupted", ["Handle", "Make"]), what)
    expect_equal(callers_of(stacks, 6000)[-2:], ["Compare", "Make"], "called back by libc")
    expect_equal(callers_of(stacks, 6000)[0], "Sort", "called back by libc")
    thread = callers_of(stacks, 7000, "start_thread")
    expect_equal(thread[-2:], ["InThread", "Make"], "a thread")


def few_frames(bench):
    """No more frames than were asked for, and the nearest ones."""
    record(bench, [program(bench, "call_paths")], 1, expected=0)
    stacks = collapsed(bench)
    expect_equal(stacks[3 * 1000], [["call_paths", "FirstTwin", "Make"]], "the first twin")
    expect_equal(stacks[2000], [["call_paths", "Recurse", "Make"]], "recursion")


def quietly(name, threads=1):
    """Nothing that the program does or that is recorded of it is another without stacks."""

    def run(bench):
        command = [program(bench, name)]
        plain = bench.run(*command)
        recorded = record(bench, command)
        expect_equal(
            (recorded.status, recorded.stdout, recorded.theirs()),
            (plain.status, plain.stdout, plain.theirs()),
            "recorded",
        )
        info = bench.info()
        expect_equal(info["lost_events"], 0, "lost_events")
        expect_equal([it for image in info["images"] for it in image["damage"]], [], "damage")
        expect(info["threads"] >= threads, f"{info['threads']} threads")

    return run


def order_across_threads(bench):
    """Threads that hand one another memory: every event where it belongs, and with a stack."""
    record(bench, [program(bench, "reuse_across_threads"), 500], expected=0)
    info = bench.info()
    for what in ("implied_frees", "unmatched_frees", "lost_events"):
        expect_equal(info[what], 0, what)
    for image in info["images"]:
        for site in image["top_sites"]:
            expect(site.get("callers"), f"callers of {site}")


def sqlite(bench):
    """A real program: the same output, the same events, a plan that replays it, the formats."""
    if shutil.which("sqlite3") is None:
        raise Skip("no sqlite3")
    command = ["sqlite3", ":memory:"]
    script = (SOURCE / "workloads" / "sqlite.sql").read_bytes()
    plain = bench.run(*command, stdin=script)
    recorded = record(bench, command, stdin=script)
    expect_equal((recorded.status, recorded.stdout), (plain.status, plain.stdout), "recorded")
    bench.record(command, "without", stdin=script)
    with_stacks, without = bench.info(), bench.info("without")
    same = ("events", "buffers", "max_load", "lost_events", "threads")
    expect_equal([with_stacks[it] for it in same], [without[it] for it in same], "numbers")
    site = with_stacks["images"][0]["top_sites"][0]
    expect_equal(len(site["callers"]), 8, "callers in info")
    bench.plan()
    replayed, stats = bench.replay(command, stdin=script)
    expect_equal((replayed.status, replayed.stdout), (plain.status, plain.stdout), "replayed")
    expect_equal((stats["served_percent"], stats["improvised"]), (100, 0), "replayed")
    bench.plan("without", "plan-without")
    _, other = bench.replay(command, "plan-without", stdin=script)
    expect_equal(stats["address_hash"], other["address_hash"], "the same plan without stacks")

    page = bench.scratch / "page.html"
    bench.run(bench.reprise, "report", trace(bench), "-o", page, expected=0)
    expect('"callers"' in page.read_text(), "callers in the report")
    dhat = bench.scratch / "dhat.json"
    bench.run(bench.reprise, "convert", trace(bench), dhat, "--to", "dhat", expected=0)
    points = json.loads(dhat.read_text())["pps"]
    expect(max(len(point["fs"]) for point in points) == 9, "frames in DHAT's format")


def anonymized(bench):
    """What an anonymous trace tells of callers are places in modules without names."""
    record(bench, [program(bench, "call_paths")], expected=0)
    bare = bench.scratch / "bare.trace"
    bench.run(bench.reprise, "convert", trace(bench), bare, "--anonymize", expected=0)
    expect(b"call_paths" not in bare.read_bytes(), "no name of a module")
    frames = [frame for stacks in collapsed(bench, "bare", bare).values()
              for stack in stacks for frame in stack[1:]]
    expect(all(re.fullmatch(r"module \d+\+0x[0-9a-f]+", frame) for frame in frames), frames[:5])


def usage(bench):
    """Stacks of no frames, or of too many, are no stacks."""
    for frames in ("0", "65", "-1", "many"):
        expect_equal(record(bench, ["true"], frames).status, 125, frames)


CASES = {
    "names": names,
    "few_frames": few_frames,
    "order_across_threads": order_across_threads,
    "sqlite": sqlite,
    "anonymized": anonymized,
    "usage": usage,
    **{
        name: quietly(name, threads)
        for name, threads in {
            "dlopen_dlclose": 41,
            "longjmp_throw": 1,
            "signal_alloc": 2,
            "fork_no_exec": 0,
            "cancelled_threads": 61,
            "thread_churn": 2000,
            "before_constructors": 1,
            "calloc_in_dlsym": 1,
        }.items()
    },
}

if __name__ == "__main__":
    main(CASES)
