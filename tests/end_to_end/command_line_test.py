"""What options apply to, standard streams and pipes as files, and traces of which nothing is left."""

import array
import fcntl
import json
import os
import subprocess
import termios
import time

from harness import TIMEOUT, expect, expect_equal, main

DONE, USAGE, BAD_INPUT, SYSTEM, LAUNCHER = 0, 2, 3, 4, 125

CSV = "id,lower,upper,size\na,0,2,4\nb,1,3,4\n"
GRAPH = ('{"nodes": [{"id": "m"}, {"id": "r"}],'
         ' "tensors": [{"id": "t", "producer": "m", "consumers": ["r"], "bytes": 8}]}')
ANDROID = "1: malloc 0x10 32\n1: malloc 0x20 16\n1: free 0x10\n"


def refused(bench, status, message, *words, **options):
    """Exit status and the one line, and nothing on standard output."""
    outcome = bench.run(bench.reprise, *words, **options)
    lines = outcome.stderr.decode().splitlines()
    said = f"{' '.join(map(str, words))}: {lines} {outcome.stdout[:80]}"
    expect_equal((outcome.status, len(lines), outcome.stdout), (status, 1, b""), said)
    expect(message in lines[0], f"expected {message!r}: {said}")


def inputs(bench):
    """One input of each kind: CSV, graph, Android text, a native trace and the folder that it is in."""
    for name, text in (("a.csv", CSV), ("g.json", GRAPH), ("t.txt", ANDROID)):
        (bench.work / name).write_text(text)
    (bench.work / "folder").mkdir()
    bench.run(bench.reprise, "convert", "t.txt", "folder/t.trace", expected=0)


def options(bench):
    """What has no effect is refused, with what it applies to."""
    inputs(bench)
    recordings, instances, graphs = ("t.txt", "folder/t.trace", "folder"), ("a.csv",), ("g.json",)
    scopes = (
        ("plan", ("--lanes", "none"), "recordings", instances + graphs),
        ("plan", ("--capacity", 9), "CSV instances", recordings + graphs),
        ("plan", ("--start-address", 0), "CSV instances", recordings + graphs),
        ("plan", ("--order", "given"), "graphs", recordings + instances),
        ("plan", ("--safety", "ancestor"), "graphs", recordings + instances),
        ("compare", ("--what-if",), "recordings", instances),
        ("report", ("--allocators", "none", "-o", "r.html"), "recordings", instances),
        ("report", ("--no-touch", "-o", "r.html"), "recordings", instances),
        ("report", ("--replay", "s.json", "-o", "r.html"), "recordings", instances),
    )
    for command, words, kinds, others in scopes:
        for path in others:
            refused(bench, USAGE, f"{words[0]}", command, path, *words)
            refused(bench, USAGE, f" applies to {kinds} only", command, path, *words)
    for path in recordings[:2] + graphs:
        message = "--start-address applies to CSV instances only"
        refused(bench, USAGE, message, "check", path, "p", "--start-address", 8)
    convert = (
        ("--segment applies to Mondrian files only", "t.txt", "o.csv", "--segment", "s"),
        ("--plan applies to recordings only", "a.csv", "o.tracealloc.json", "--plan", "p"),
        ("--plan applies to output in the format mondrian only", "t.txt", "o.csv", "--plan", "p"),
        ("--anonymize applies to output in the format native only", "t.txt", "o.csv", "--anonymize"),
    )
    for message, *words in convert:
        refused(bench, USAGE, message, "convert", *words)
    pairs = (
        ("--learn does not go with --lanes none", "plan", "t.txt", "--lanes", "none", "--learn", "s"),
        ("--order does not go with --strategy reorder", "plan", "g.json", "--strategy", "reorder", "--order", "given"),
        ("--samples does not go with --live", "compare", "--live", "--samples", 0, "--", "/bin/true"),
        ("--touch,--no-touch does not go with --live", "compare", "--live", "--no-touch", "--", "/bin/true"),
        ("--pins does not go with --samples 0", "compare", "t.txt", "--samples", 0, "--pins"),
        ("--samples does not go with --order dependencies", "compare", "t.txt", "--samples", 9, "--order", "dependencies"),
        ("--density-above does not go with --svg", "report", "t.txt", "-o", "r.svg", "--svg", "--density-above", 9),
        ("--compare does not go with --png", "report", "t.txt", "-o", "r.png", "--png", "--compare", "c.json"),
        ("--rows does not go with --json", "diff", "t.txt", "t.txt", "--json", "--rows", 9),
    )
    for message, *words in pairs:
        refused(bench, USAGE, message, *words)
    for words in (["info", ""], ["plan", "a.csv", "-o", ""], ["check", "a.csv", ""], ["convert", "t.txt", ""],
                  ["convert", "t.txt", "o", "--to", ""], ["compare", "t.txt", "--plan", ""],
                  ["compare", "t.txt", "--allocators", ""], ["report", "t.txt", "-o", ""],
                  ["report", "t.txt", "-o", "r.html", "--compare", ""], ["diff", "", "t.txt"]):
        refused(bench, USAGE, "expected a value, found an empty one", *words)
    for words in (["record", "-o", "", "--", "/bin/true"], ["replay", "", "--", "/bin/true"],
                  ["replay", "p", "--stats", "", "--", "/bin/true"]):
        refused(bench, LAUNCHER, "expected a value, found an empty one", *words)
    kept = ["a.csv", "folder", "g.json", "t.txt"]
    expect_equal(sorted(it.name for it in bench.work.iterdir()), kept, "files")


def in_a_shell(bench, script, expected=0):
    """A script with $R for reprise, in a shell that knows <(…)."""
    words = ["/bin/bash", "-c", f"R={bench.reprise}; {script}"]
    return bench.run(*words, expected=expected)


def standard_streams(bench):
    """`-` is standard input or output, of any command and for any format; what is said goes to
    standard error then."""
    inputs(bench)
    planned = {}
    for path, name in (("a.csv", "a.plan.csv"), ("g.json", "g.plan.json"), ("t.txt", "t.plan"),
                       ("folder/t.trace", "t.plan")):
        data = (bench.work / path).read_bytes()
        bench.run(bench.reprise, "plan", path, "-o", name, expected=0)
        planned[path] = (bench.work / name).read_bytes()
        outcome = bench.run(bench.reprise, "plan", "-", "-o", "-", stdin=data, expected=0)
        expect_equal(outcome.stdout, planned[path], f"plan of {path}")
        expect(b"makespan" in outcome.stderr, outcome.stderr)
        outcome = bench.run(bench.reprise, "plan", "-", "-o", "-", "--json", stdin=data, expected=0)
        expect_equal(outcome.stdout, planned[path], f"plan of {path}")
        expect("makespan" in json.loads(outcome.stderr), outcome.stderr)
        bench.run(bench.reprise, "check", "-", name, stdin=data, expected=0)
        bench.run(bench.reprise, "check", path, "-", stdin=planned[path], expected=0)
        refused(bench, USAGE, "-o: expected the name of the plan", "plan", "-", stdin=data)
        if path != "g.json":
            known = bench.run(bench.reprise, "info", path, "--json", expected=0).stdout
            said = bench.run(bench.reprise, "info", "-", "--json", stdin=data, expected=0).stdout
            expect_equal(json.loads(said) | {"path": path}, json.loads(known), f"info of {path}")
            bench.run(bench.reprise, "report", "-", "-o", "r.html", stdin=data, expected=0)
            page = bench.run(bench.reprise, "report", "-", "-o", "-", stdin=data, expected=0).stdout
            expect(page.endswith((bench.work / "r.html").read_bytes()[-100:]), f"report of {path}")
    trace = (bench.work / "folder/t.trace").read_bytes()
    words = ["convert", "-", "-", "--to"]
    expect_equal(bench.run(bench.reprise, *words, "native", stdin=ANDROID.encode(), expected=0).stdout, trace, "trace")
    rows = bench.run(bench.reprise, *words, "csv", stdin=trace, expected=0).stdout
    bench.run(bench.reprise, "convert", "folder", "t.csv", expected=0)
    expect_equal(rows, (bench.work / "t.csv").read_bytes(), "CSV")
    refused(bench, USAGE, "-: the name does not tell the format", "convert", "t.txt", "-")
    bench.run(bench.reprise, "diff", "-", "t.txt", stdin=trace, expected=0)
    bench.run(bench.reprise, "diff", "-", "t.plan", stdin=planned["t.txt"], expected=0)
    bench.run(bench.reprise, "compare", "-", "--allocators", "glibc", stdin=trace, expected=0)
    refused(bench, BAD_INPUT, "-: offset 0: expected a trace, found an empty file", "info", "-")
    refused(bench, SYSTEM, "-: expected a folder, found standard output", "plan", "folder", "-o", "-")
    refused(bench, LAUNCHER, "-: expected a folder", "record", "-o", "-", "--", "/bin/true")
    refused(bench, LAUNCHER, "found a pipe or device", "replay", "-", "--", "/bin/true")
    # What is left of a file, and a file as a whole.
    script = "(read line; exec $R info - --json) < rest.csv; $R plan - -o - < a.csv 2>&1 >/dev/null"
    (bench.work / "rest.csv").write_text("no header\n" + CSV)
    outcome = in_a_shell(bench, script)
    expect(b'"max_load": 8' in outcome.stdout, outcome.stdout)
    with open("/dev/full", "wb") as full:
        for words in (["plan", "a.csv", "-o", "-"], ["convert", "t.txt", "-", "--to", "csv"]):
            ended = subprocess.run([bench.reprise, *words], stdout=full, stderr=subprocess.PIPE,
                                   cwd=bench.work, timeout=TIMEOUT, check=False)
            message = b"reprise: standard output: No space left on device\n"
            expect_equal((ended.returncode, ended.stderr), (SYSTEM, message), f"{words}")


def pipes(bench):
    """Pipes are read once, however often the command looks at its input."""
    inputs(bench)
    for path in ("a.csv", "g.json", "t.txt", "folder/t.trace"):
        script = f"$R plan <(cat {path}) -o out && $R check <(cat {path}) <(cat out)"
        in_a_shell(bench, script)
        if path != "g.json":
            in_a_shell(bench, f"$R info <(cat {path})")
    in_a_shell(bench, "$R convert <(cat t.txt) a.trace && cmp a.trace folder/t.trace")
    in_a_shell(bench, "$R convert <(cat a.trace) b.csv && $R convert a.trace c.csv && cmp b.csv c.csv")
    in_a_shell(bench, "$R diff <(cat t.txt) <(cat a.trace)")
    in_a_shell(bench, "$R plan t.txt -o t.plan && $R replay <(cat t.plan) -- /bin/true", LAUNCHER)
    in_a_shell(bench, "$R compare --live --plan <(cat t.plan) -- /bin/true", BAD_INPUT)
    outcome = in_a_shell(bench, "$R plan <(cat a.csv)", USAGE)
    expect(b"-o: expected the name of the plan" in outcome.stderr, outcome.stderr)
    non_blocking(bench)
    os.mkfifo(bench.work / "fifo")
    in_a_shell(bench, "cat a.csv > fifo & $R info fifo && wait")


def non_blocking(bench):
    """Whoever shares the pipe may have made it non-blocking; it is empty when it is read again."""
    output, input_ = os.pipe()
    os.set_blocking(output, False)
    os.write(input_, CSV[:20].encode())
    words = [bench.reprise, "info", "-"]
    with subprocess.Popen(words, stdin=output, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reader:
        left = array.array("i", [1])
        while left[0] > 0 and reader.poll() is None:
            fcntl.ioctl(output, termios.FIONREAD, left)
            time.sleep(0.001)
        os.close(output)
        os.write(input_, CSV[20:].encode())
        os.close(input_)
        said, complaints = reader.communicate(timeout=TIMEOUT)
    expect(reader.returncode == 0 and b"max load" in said, f"a non-blocking pipe: {complaints}")


def nothing_left(bench):
    """A damaged trace without any event is bad input in every command, and leaves no output. One of a
    program that never allocated is not."""
    inputs(bench)
    whole = (bench.work / "folder/t.trace").read_bytes()
    (bench.work / "cut.trace").write_bytes(whole[:100])
    bench.run(bench.reprise, "plan", "t.txt", "-o", "t.plan", expected=0)
    commands = (["info"], ["info", "--json"], ["plan", "-o", "x.plan"], ["check", "t.plan"], ["diff", "t.txt"],
                ["compare", "--allocators", "glibc"], ["report", "-o", "x.html"], ["convert", "x.csv"],
                ["convert", "x.trace"], ["convert", "x.txt"], ["convert", "x.dhat.json"])
    for command, *words in commands:
        refused(bench, BAD_INPUT, "cut.trace: damaged at offset", command, "cut.trace", *words)
    expect_equal(list(bench.work.glob("x.*")), [], "outputs")
    (bench.work / "none.txt").write_text("# nothing\n1: free 0x10\n")
    bench.run(bench.reprise, "convert", "none.txt", "none.trace", expected=0)
    bench.run(bench.reprise, "plan", "none.trace", "-o", "t.plan", expected=0)
    for command, *words in commands:
        if words != ["t.txt"]:
            bench.run(bench.reprise, command, "none.trace", *words, expected=0)


if __name__ == "__main__":
    main({case.__name__: case for case in (options, standard_streams, pipes, nothing_left)})
