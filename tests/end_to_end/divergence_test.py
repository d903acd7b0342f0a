"""A plan is a hint, never a hazard: a program that does something else than was recorded.

tests/programs/diverging is recorded with one sequence of calls and replayed with others: mutated,
longer, shorter, wholly different, with more threads and with fewer. Every block holds a pattern that is
verified, so the program itself finds out when two blocks shared memory or bytes got lost.
"""

import re
import resource
import shutil

from harness import expect, expect_equal, main

RECORDED = ("1", "2", "5000")  # seed, threads, rounds

# What is replayed under the plan of that recording: (seed, threads, rounds[, like]).
RUNS = {
    "the_same": ("1", "2", "5000"),
    "mutated": ("2", "2", "5000", "1"),
    "another_seed": ("3", "2", "5000"),
    "longer": ("4", "2", "60000", "1"),
    "shorter": ("5", "2", "100", "1"),
    "more_threads": ("6", "9", "10000", "1"),
    "one_thread": ("7", "0", "20000", "1"),
}


def run_case(bench, name, run):
    program = bench.build / "bin" / "programs" / "diverging"
    recorded = bench.record([program, *RECORDED])
    expect_equal(recorded.status, 0, f"recorded; {recorded.stderr}")
    bench.plan()
    for seed in range(4):
        arguments = (str(int(run[0]) + 10 * seed), *run[1:])
        outcome, stats = bench.replay([program, *arguments])
        expect_equal((outcome.status, outcome.stdout), (0, recorded.stdout), f"replayed {arguments}")
        expect_equal(stats["invalid_frees"], 0, "invalid_frees")
        expect(stats["allocations"] > 0, "nothing was counted")


def another_plan(bench):
    """The plan of another loop knows nothing of what is asked for: the lane leaves it. Not an
    allocation is counted twice or left out, and the heap's addresses are the same again."""
    program = bench.build / "bin" / "micro_malloc"
    loop = [program, "live_set", "--events", "400000"]
    plain = bench.run(*loop, expected=0)
    bench.record(loop)
    bench.plan()
    own = bench.replay(loop)[1]
    bench.record([program, "lifo", "--events", "20000"], name="another")
    bench.plan("another", plan="another plan")
    hashes = set()
    for _ in range(2):
        outcome, stats = bench.replay(loop, plan="another plan")
        expect_equal((outcome.status, outcome.stdout), (0, plain.stdout), "replayed")
        expect_equal(stats["allocations"], own["allocations"], "allocations")
        expect(stats["improvised"] > stats["allocations"] * 0.9, "the lane did not leave its plan")
        expect_equal(stats["fallback"], 0, "fallback")
        expect_equal(stats["invalid_frees"], 0, "invalid_frees")
        hashes.add(stats["fallback_hash"])
    expect_equal(len(hashes), 1, "different hashes of the heap's addresses")


def threads_without_lanes(bench):
    """Threads that the plan does not know: all that they ask for comes from the heap, and is
    counted."""
    program = bench.build / "bin" / "programs" / "thread_churn"
    recorded = bench.record([program])
    expect_equal(recorded.status, 0, f"recorded; {recorded.stderr}")
    bench.record([program, "3"], name="few")
    bench.plan("few", plan="few threads")
    for _ in range(2):
        outcome, stats = bench.replay([program], plan="few threads")
        expect_equal((outcome.status, outcome.stdout), (0, recorded.stdout), "replayed")
        expect_equal(stats["allocations"], bench.info()["images"][0]["buffers"], "allocations")
        expect(stats["improvised"] > stats["allocations"] * 0.9, f"{stats['improvised']} from the heap")
        expect_equal(stats["invalid_frees"], 0, "invalid_frees")


def same_again(bench):
    """Threads that each do the same again have the same addresses, however they interleave."""
    program = bench.build / "bin" / "programs" / "same_again"
    recorded = bench.record([program, "1"], expected=0)
    bench.plan()
    hashes = set()
    for seed in range(2, 22):
        outcome, stats = bench.replay([program, seed], expected=0)
        expect_equal(outcome.stdout, recorded.stdout, "replayed")
        expect_equal(stats["planned"], stats["allocations"], "allocations as planned")
        hashes.add(stats["address_hash"])
    expect_equal(len(hashes), 1, "different addresses")


def threads_without_boxes(bench):
    """Threads whose boxes would cost much memory have none. They take no other thread's, although
    they begin alike: who has a box does all of its work in it."""
    program = bench.build / "bin" / "programs" / "same_again"
    recorded = bench.record([program, "1", "8"], expected=0)
    bench.plan()
    small, large = 5, 8
    hashes = set()
    for seed in range(2, 6):
        outcome, stats = bench.replay([program, seed, large], expected=0)
        expect_equal(outcome.stdout, recorded.stdout, "replayed")
        lanes = stats["images"][0]["lanes"][: small + large + 1]
        followed = [lane["planned"] for lane in lanes if lane["planned"] == lane["served"]]
        without = [lane["improvised"] for lane in lanes if lane["planned"] == 0]
        expect_equal(len(followed) + len(without), small + large + 1, "lanes that follow, or do not")
        expect_equal(len([work for work in followed if work > 4000]), small, "threads with boxes")
        expect(len(without) >= large - 1, f"{len(without)} threads without boxes")
        expect_equal(set(without), {41}, "allocations of a thread without a box")
        hashes.add(stats["address_hash"])
    expect_equal(len(hashes), 1, "different addresses")


def a_little_more(bench):
    """A run that does a little more or less than recorded takes no more than a few times as long as
    the recorded one: leaving the plan, and each free behind that, is cheap."""
    program = bench.build / "bin" / "programs" / "scattered_frees"
    bench.record([program, "150000"], expected=0)
    bench.plan()

    def seconds(count):
        """CPU time of the fastest of three replays."""
        times = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            bench.run(bench.reprise, "replay", bench.scratch / "plan", "--", program, count, expected=0)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    same = seconds(150000)
    for count in (149999, 149250, 150750):
        took = seconds(count)
        expect(took < 4 * same, f"{count} blocks: {took:.3f} s, as recorded {same:.3f} s")


def stack_start(bench):
    """Arguments of any length leave the stack's alignment as it is, and with it the depth of calls by
    which allocations are told apart."""
    program = bench.build / "bin" / "programs" / "stack_start"
    found = set()
    for arguments in (*([("x" * length)] for length in range(0, 70, 3)), ["a", "b"], ["a", "b", "c"]):
        bench.environment["VARIABLE"] = "y" * bench.random.randrange(100)
        alignment, last = bench.record([program, *arguments], expected=0).stdout.decode().split(" ")
        expect_equal(last, arguments[-1] + "\n", "the last argument")
        found.add(alignment)
    expect_equal(len(found), 1, f"alignments when recorded, {found}")
    bench.plan()
    outcome, _ = bench.replay([program, "z" * 50], expected=0)
    expect_equal(outcome.stdout.decode().split(" ")[0], alignment, "alignment when replayed")


def made_ahead(bench):
    """Places that a lane makes ahead of requests, for which there is no use then, are no allocations
    that went elsewhere."""
    program = bench.build / "bin" / "programs" / "diverging"
    bench.record([program, "1", "0", "30"])
    bench.plan()
    outcome, stats = bench.replay([program, "3", "0", "100"])
    elsewhere = stats["improvised"] + stats["fallback"]
    expect(elsewhere <= stats["allocations"], f"{elsewhere} of {stats['allocations']}")
    expect(stats["improvised"] > stats["allocations"] / 2, "the plan fits")
    expect(any(" went elsewhere" in line for line in outcome.ours()), f"said: {outcome.ours()}")


def advice(bench):
    """What replay suggests fits what went wrong: another build, threads without boxes, an input."""
    diverging = bench.build / "bin" / "programs" / "diverging"
    program = bench.scratch / "program"
    shutil.copy(diverging, program)
    alone = ("1", "0", "5000")
    bench.record([program, *alone], expected=0)
    bench.plan()

    def suggested(*arguments):
        ours = bench.replay([program, *arguments])[0].ours()
        return [line.split("try ", 1)[1] for line in ours if line.startswith("reprise:   try ")]

    other_input = suggested("3", "0", "5000")
    expect(other_input[0].startswith("the arguments, the environment"), f"input: {other_input}")
    notes = bench.run("readelf", "-n", program, expected=0).stdout
    build_id = bytes.fromhex(notes.split(b"Build ID:")[1].split()[0].decode())
    image = program.read_bytes()
    program.unlink()  # what was recorded from stays as it is for whoever maps it
    program.write_bytes(image.replace(build_id, bytes(len(build_id) - 1) + b"1"))
    program.chmod(0o755)
    other_build = suggested(*alone)
    expect_equal(len(other_build), 1, f"suggestions: {other_build}")
    expect(other_build[0].startswith("a recording of this build: program is another"), other_build[0])

    program = bench.build / "bin" / "programs" / "same_again"
    bench.record([program, "1", "8"], expected=0)
    bench.plan()
    without_boxes = suggested("1", "8")
    expect_equal(without_boxes[:1], ["plan --lanes thread: threads that do the same again then have "
                                     "the same addresses, and it takes more memory"], "without boxes")
    bench.plan(options=("--lanes", "thread", "--budget", "1"))
    expect_equal(suggested("1", "8"), [], "with boxes")
    others = suggested("1", "4")  # threads come in another order
    expect(not any("--lanes" in line for line in others), f"with boxes: {others}")


THREADS = """
import sys, threading
count = int(sys.stdin.read())
def work():
    return [str(i) * 20 for i in range(count)]
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
    thread.join()
"""


def threads_of_the_same_command(bench):
    """Where the program and its arguments are the recorded ones, replay says what else may differ: the
    order of its threads. Each line is there once, and says which thread it is about."""
    bench.environment["PYTHONMALLOC"] = "malloc"
    command = ["/usr/bin/python3", "-c", THREADS]
    bench.record(command, stdin=b"2000", expected=0)
    bench.plan(options=["--lanes", "thread", "--iterations", 4, "--budget", 1000])
    outcome, stats = bench.replay(command, stdin=b"2300", expected=0)
    kinds = [(site["where"], site["bytes"]) for site in stats["images"][0]["missed_sites"]]
    expect(len(set(kinds)) < len(kinds), "no two kinds that look the same")
    ours = outcome.ours()
    missed = [line for line in ours if "  missed " in line]
    expect(len(missed) > 0 and all(re.search(r" times in (\d threads|thread \d|the main thread): ", line)
                                   for line in missed), ours)
    what = [line.split(": ", 2)[2].split(";")[0] for line in missed]
    expect_equal(len(set(what)), len(what), f"lines: {missed}")
    said = "\n".join(ours)
    expect("threads may have taken their work in another order" in said, said)
    expect("try the arguments" not in said and "try a longer" not in said, said)


if __name__ == "__main__":
    cases = {name: lambda bench, name=name, run=run: run_case(bench, name, run)
             for name, run in RUNS.items()}
    main({**cases, "another_plan": another_plan, "stack_start": stack_start, "threads_without_lanes": threads_without_lanes,
          "same_again": same_again, "threads_without_boxes": threads_without_boxes,
          "a_little_more": a_little_more, "made_ahead": made_ahead, "advice": advice,
          "threads_of_the_same_command": threads_of_the_same_command})
