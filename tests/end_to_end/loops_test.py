"""Programs that do the same again and again: recorded for a few iterations, replayed for many
(tests/programs/iterates)."""

import json
import shutil

from harness import SOURCE, Skip, expect, expect_equal, main

PER_ITERATION = 48  # allocations of a thread of `iterates`


def prepare(bench, command):
    """Records and plans; the loops that the plan of the one image has."""
    plain = bench.run(*command, expected=0)
    expect_equal(bench.record(command).stdout, plain.stdout, "recorded")
    bench.plan()
    loops = bench.info()["images"][0]["loops"]
    expect(all("refused" not in loop for loop in loops), loops)
    return loops


def replay(bench, command):
    plain = bench.run(*command, expected=0)
    outcome, stats = bench.replay(command)
    expect_equal((outcome.status, outcome.stdout), (0, plain.stdout), f"replayed; {outcome.stderr}")
    expect_equal(stats["allocations"], stats["planned"] + stats["improvised"], "allocations")
    expect_equal((stats["invalid_frees"], stats["fallback"]), (0, 0), "invalid frees, fallback")
    return stats


def one_thread(bench):
    """Every allocation of 30 and of 3,000 iterations goes where the plan of 6 says."""
    program = bench.build / "bin" / "programs" / "iterates"
    (loop,) = prepare(bench, [program, 6])
    expect_equal(loop["iteration_allocations"], PER_ITERATION, "allocations of an iteration")
    expect_equal((loop["carried"], loop["unrolled"]), (10, 3), "blocks that are carried over")
    for iterations in (4, 5, 6, 7, 30, 3000):
        stats = replay(bench, [program, iterations])
        if iterations % 3 == 0:
            expect_equal(stats["improvised"], 0, f"{iterations} iterations: improvised")
            expect_equal(stats["iterations"], iterations - 3, "iterations")
        else:  # it leaves the loop in the middle of the three iterations that the body has
            expect(stats["improvised"] <= PER_ITERATION, f"improvised {stats['improvised']}")


def differing(bench):
    """An iteration that differs costs what it does differently."""
    program = bench.build / "bin" / "programs" / "iterates"
    prepare(bench, [program, 6])
    for different in (9, 14, 28):
        stats = replay(bench, [program, 30, 1, different])
        expect(60 <= stats["improvised"] <= 60 + PER_ITERATION, f"improvised {stats['improvised']}")


def threads(bench):
    """Each thread has a loop of its own."""
    program = bench.build / "bin" / "programs" / "iterates"
    loops = prepare(bench, [program, 9, 4])
    expect_equal(sorted(loop["thread"] for loop in loops), [0, 1, 2, 3], "threads with a loop")
    stats = replay(bench, [program, 300, 4])
    expect(stats["improvised"] <= 4 * PER_ITERATION, f"improvised {stats['improvised']}")
    stats = replay(bench, [program, 300, 4, 150])
    expect(stats["improvised"] <= 4 * (60 + 2 * PER_ITERATION), f"improvised {stats['improvised']}")


def without(bench):
    """`--loop none`: the plan ends with the recording."""
    program = bench.build / "bin" / "programs" / "iterates"
    prepare(bench, [program, 6])
    words = [bench.reprise, "plan", bench.scratch / "recording", "-o", bench.scratch / "plan"]
    planned = json.loads(bench.run(*words, "--loop", "none", "--json", expected=0).stdout)
    expect_equal(planned["images"][0]["loops"], [], "loops")
    stats = replay(bench, [program, 30])
    expect_equal(stats["iterations"], 0, "iterations")
    expect(stats["improvised"] > 20 * PER_ITERATION, f"improvised {stats['improvised']}")


def plan_by_marks(bench):
    """The image that `plan --loop marks` planned."""
    words = [bench.reprise, "plan", bench.scratch / "recording", "-o", bench.scratch / "plan",
             "--loop", "marks", "--json"]
    images = json.loads(bench.run(*words, expected=0).stdout)["images"]
    for image in images:
        bench.run(bench.reprise, "check", image["trace"], image["plan"], expected=0)
    return images[0]


def marks(bench):
    """`--loop marks`: an iteration goes from mark to mark, in every thread."""
    program = bench.build / "bin" / "programs" / "iterates"
    bench.record([program, 9, 2], expected=0)
    image = bench.info()["images"][0]
    expect_equal([(it["thread"], it["marks"], it["events"]) for it in image["marks"]],
                 [(0, 9, 2 * PER_ITERATION), (1, 9, 2 * PER_ITERATION)], "marks")
    expect(image["marks"][0]["bytes"] > 1000, image["marks"])
    planned = plan_by_marks(bench)
    for loop in planned["loops"]:
        expect_equal(loop["iteration_allocations"], PER_ITERATION, "allocations of an iteration")
    expect_equal(len(planned["loops"]), 2, "threads with a loop")
    stats = replay(bench, [program, 300, 2])
    expect(stats["improvised"] <= 2 * PER_ITERATION, f"improvised {stats['improvised']}")
    # A replay is recorded with its marks, too.
    words = [bench.reprise, "replay", bench.scratch / "plan", "--record", bench.scratch / "again"]
    bench.run(*words, "--", program, 12, 2, expected=0)
    image = bench.info("again")["images"][0]
    expect_equal([it["marks"] for it in image["marks"]], [12, 12], "marks of a recorded replay")


def marks_header(bench):
    """The header with marks compiles in every dialect of C and C++ that has it, without a warning."""
    source = bench.work / "marked.c"
    source.write_text("#include <reprise/marks.h>\nint main(void) { reprise_iteration(); return 0; }\n")
    for compiler, language, standards in (("gcc", "c", ("c89", "c99", "c11", "c17")),
                                          ("g++", "c++", ("c++98", "c++11", "c++20"))):
        for standard in standards:
            bench.run(compiler, "-x", language, f"-std={standard}", "-pedantic", "-Wall", "-Wextra",
                      "-Werror", "-I", SOURCE / "interpose" / "include", "-c", source, "-o", "marked.o",
                      expected=0)


def no_marks(bench):
    """What has no marks, or differs from mark to mark, is planned without a loop, and that is said."""
    program = bench.build / "bin" / "programs" / "iterates"
    bench.record([program, 2], expected=0)
    refused = plan_by_marks(bench)["loops"][0]["refused"]
    expect_equal(refused, "no iterations between the 2 marks follow each other and are the same", "refused")
    bench.record(["/bin/ls", "/"], expected=0)
    expect_equal(plan_by_marks(bench)["loops"][0]["refused"], "the recording has no marks", "refused")


def epochs(bench):
    """A loop of loops, recorded for 3 epochs of 10 steps: as many steps are as planned, and others cost
    little, although the plan's loops are not nested."""
    program = bench.build / "bin" / "programs" / "epochs"
    loops = prepare(bench, [program, 3, 10])
    expect_equal(loops[0]["iteration_allocations"], 231, "allocations of an epoch")
    stats = replay(bench, [program, 40, 10])
    expect_equal(stats["improvised"], 0, "improvised")
    for steps in (7, 12, 99):
        stats = replay(bench, [program, 40, steps])
        expect(stats["improvised"] * 20 < stats["allocations"], f"improvised {stats['improvised']}")
    (loop,) = plan_by_marks(bench)["loops"]
    expect_equal(loop["iteration_allocations"], 231, "allocations from mark to mark")
    expect_equal(replay(bench, [program, 40, 10])["improvised"], 0, "improvised")


def python_marks(bench):
    """The Python module's context manager and decorator."""
    program = shutil.which("python3", path="/usr/bin")
    if program is None:
        raise Skip("python3 is missing")
    script = bench.work / "marks.py"
    script.write_text(
        "import json, sys\n"
        "import reprise\n"
        "@reprise.iteration()\n"
        "def decorated(step):\n"
        "    return len(json.dumps({f'k{k}': [k] * 200 for k in range(50)}))\n"
        "total = 0\n"
        "for step in range(int(sys.argv[1])):\n"
        "    with reprise.iteration():\n"
        "        total += len(json.dumps({f'k{k}': [k] * 200 for k in range(150)}))\n"
        "    total += decorated(step)\n"
        "print(total)\n"
    )
    bench.environment["PYTHONPATH"] = str(SOURCE / "python")
    bench.environment["PYTHONDONTWRITEBYTECODE"] = "1"
    plain = bench.run(program, script, 4, expected=0)
    expect_equal(bench.record([program, script, 4]).stdout, plain.stdout, "recorded")
    (found,) = bench.info()["images"][0]["marks"]
    expect_equal(found["marks"], 8, "marks")
    loops = plan_by_marks(bench)["loops"]
    expect("refused" not in loops[0], loops)
    stats = replay(bench, [program, script, 30])
    expect(stats["iterations"] >= 25, f"{stats['iterations']} iterations")
    expect(stats["improvised"] < 50, f"improvised {stats['improvised']}")


def sqlite(bench):
    """One statement 2,000 times, replayed for 10,000."""
    program = shutil.which("sqlite3")
    if program is None:
        raise Skip("sqlite3 is missing")
    script = bench.work / "statements.sql"

    def write(times):
        lines = ["create table t(a integer primary key, b integer);"]
        lines += [f"insert into t(b) values ({k * 7 % 1000});" for k in range(100)]
        script.write_text("\n".join(lines + ["select count(*), sum(b) from t where b > 500;"] * times))

    command = [program, ":memory:", f".read {script}"]
    write(2000)
    loops = prepare(bench, command)
    expect(loops[0]["iterations"] > 1900, loops)
    write(10000)
    stats = replay(bench, command)
    expect_equal(stats["improvised"], 0, "improvised")
    expect(stats["iterations"] > 9900, f"{stats['iterations']} iterations")


def python(bench):
    """A script's loop, recorded for 3 iterations and replayed for 30."""
    program = shutil.which("python3", path="/usr/bin")
    if program is None:
        raise Skip("python3 is missing")
    script = bench.work / "loop.py"
    script.write_text(
        "import json, sys\n"
        "total = 0\n"
        "for step in range(int(sys.argv[1])):\n"
        "    tree = {f'k{k}': [k] * 200 for k in range(150)}\n"
        "    total += len(json.loads(json.dumps(tree)))\n"
        "print(total)\n"
    )
    prepare(bench, [program, script, 3])
    stats = replay(bench, [program, script, 30])
    expect(stats["iterations"] >= 27, f"{stats['iterations']} iterations")
    expect(stats["improvised"] * 1000 < stats["allocations"], f"improvised {stats['improvised']}")


if __name__ == "__main__":
    main({
        "one_thread": one_thread,
        "differing": differing,
        "threads": threads,
        "without": without,
        "marks": marks,
        "marks_header": marks_header,
        "no_marks": no_marks,
        "epochs": epochs,
        "python_marks": python_marks,
        "sqlite": sqlite,
        "python": python,
    })
