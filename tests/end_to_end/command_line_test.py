"""What options apply to, standard streams and pipes as files, and traces of which nothing is left."""

import array
import fcntl
import json
import os
import re
import shutil
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
        message = "a plan of standard input needs -o: expected -o FILE, or -o - for standard output"
        refused(bench, USAGE, message, "plan", "-", stdin=data)
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


def names_of_standard_output(bench):
    """Whatever the name by which standard output is the output, the summary goes elsewhere."""
    inputs(bench)
    for path in ("a.csv", "g.json"):
        plan = in_a_shell(bench, f"$R plan {path} -o -").stdout
        summary = in_a_shell(bench, f"$R plan {path} -o - --json 2>&1 > plan").stdout
        expect(json.loads(summary)["max_load"] > 0, f"{path}: the summary on standard error")
        for name in ("-", "/dev/stdout", "/dev/fd/1", "out"):
            for option in ("", "--json"):
                said = in_a_shell(bench, f"rm -f out; $R plan {path} -o {name} {option} 2>err >out; cat out").stdout
                expect_equal(said, plan, f"{path}: {name} {option}")
    said = in_a_shell(bench, "$R plan a.csv -o /dev/null").stdout
    expect(b"max load" in said, f"summary: {said}")
    said = in_a_shell(bench, "echo first > out; $R convert a.csv --to csv /dev/stdout >> out; cat out").stdout
    expect(said.startswith(b"first\nid,"), f"appended: {said}")


def words_to_copy(bench):
    """Commands that are proposed can be copied, whatever the name of the folder."""
    for name in ("plain", "two words", "it's $HOME", "-dash", "line\nbreak", "ümlaut", "*"):
        option = f"--output={name}"
        said = bench.run(bench.reprise, "record", option, "--", "/bin/ls", "/", expected=0).stderr.decode()
        (line,) = (it for it in said.splitlines() if "next: " in it)
        for command in line.split("next: ")[1].split(", reprise")[:1]:
            script = command.replace("reprise ", "$R ", 1)
            in_a_shell(bench, f"{script} > /dev/null")


def wrong_values(bench):
    """What is wrong with an option's value is said in one way: option, expected, found."""
    inputs(bench)
    for message, *words in (
        ("--threads: expected a whole number from 0 to 1024, found '2000'", "plan", "a.csv", "--threads", 2000),
        ("--threads: expected a whole number from 0 to 1024, found 'x'", "plan", "a.csv", "--threads", "x"),
        ("--threads: expected N, found nothing", "plan", "a.csv", "--threads"),
        ("--threads: expected N, found nothing", "plan", "a.csv", "--threads="),
        ("--threads: expected once, found 2 times", "plan", "a.csv", "--threads", 1, "--threads", 2),
        ("--lanes: expected one of auto, thread, none, found 'thred' (did you mean 'thread'?)",
         "plan", "t.txt", "--lanes", "thred"),
        ("--json: expected no value, found one", "plan", "a.csv", "--json=x"),
        ("--output: expected FILE, found nothing", "plan", "a.csv", "-o"),
        ("expected no more arguments, found 'b'", "plan", "a.csv", "b"),
        ("plan: expected its plan: ", "check", "a.csv"),
        ("expected a command, found none",),
        ("--rows: expected a whole number from 1 to 1000000, found '0'", "diff", "t.txt", "t.txt", "--rows", 0),
        ("--runs: expected a whole number from 1 to 1000, found '-1'", "compare", "t.txt", "--runs", -1),
        ("SHELL: expected one of bash, zsh, fish, found 'tcsh'", "completion", "tcsh"),
    ):
        refused(bench, USAGE, message, *words)
    for value in (0, 65, -1, "x", "3.5"):
        message = f"--stacks: expected a whole number from 1 to 64, found '{value}'"
        refused(bench, LAUNCHER, message, "record", "--stacks", value, "--", "/bin/true")


def one_writer(bench):
    """Two commands never write into one folder of plans at the same time."""
    inputs(bench)
    bench.run(bench.reprise, "plan", "folder", "-o", "plans", expected=0)
    before = (bench.work / "plans/t.plan").read_bytes()
    folder = os.open(bench.work / "plans", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    message = "plans: another recording or plan is being written there"
    refused(bench, SYSTEM, message, "plan", "folder", "-o", "plans", "--seed", 7)
    refused(bench, LAUNCHER, message, "record", "-o", "plans", "--", "/bin/true")
    expect_equal([it.name for it in (bench.work / "plans").iterdir()], ["t.plan"], "files")
    expect_equal((bench.work / "plans/t.plan").read_bytes(), before, "the plan")
    os.close(folder)
    bench.run(bench.reprise, "plan", "folder", "-o", "plans", expected=0)


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
    expect(b" needs -o: expected -o FILE" in outcome.stderr, outcome.stderr)
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


COMMANDS = ("record", "info", "plan", "check", "replay", "compare", "convert", "report", "diff", "help", "completion")


def helps(bench):
    """Every command has help with two examples whose options exist, and the same as a man page."""
    for command in COMMANDS:
        text = bench.run(bench.reprise, command, "--help", expected=0).stdout.decode()
        again = bench.run(bench.reprise, "help", command, expected=0).stdout.decode()
        expect_equal(again, text, f"help {command}")
        wide = [line for line in text.splitlines() if len(line) > 80]
        expect_equal(wide, [], f"{command}: lines wider than 80 columns")
        examples = re.findall(rf"^  reprise ({command} .*)$", text.split("Examples:")[1], re.MULTILINE)
        expect_equal(len(examples), 2, f"{command}: examples")
        for option in re.findall(r" (--?[a-z]+)", " ".join(it.split(" -- ")[0].split(" | ")[0] for it in examples)):
            expect(re.search(rf"^  .*{option}\b", text.split("Examples:")[0], re.MULTILINE), f"{command}: no {option}")
        expect("Exit status:" in text, f"{command}: exit status")
        page = bench.run(bench.reprise, "help", command, "--man", expected=0).stdout.decode()
        expect(page.startswith(f'.TH REPRISE-{command.upper()} 1 '), page[:80])
        for option in re.findall(r"^  (?:-\w, )?--([a-z-]+)", text, re.MULTILINE):
            expect(option.replace("-", "\\-") in page, f"{command}: no --{option} in its man page")
    refused(bench, USAGE, "unknown command plam (did you mean 'plan'?)", "help", "plam")
    refused(bench, USAGE, "SHELL", "completion", "tcsh")
    version = bench.run(bench.reprise, "--version", expected=0).stdout.decode()
    for name in ("reprise ", "built by ", "abseil", "CLI11", "zstd"):
        expect(name in version, version)
    listed = json.loads(bench.run(bench.reprise, "plan", "--strategy", "list", "--json", expected=0).stdout)
    names = [it["name"] for it in listed["strategies"]]
    text = bench.run(bench.reprise, "plan", "--strategy", "list", expected=0).stdout.decode()
    expect_equal(names, [line.split()[0] for line in text.splitlines()], "strategies")


def completions(bench):
    """What bash completes: commands, options, values and files; the others name every option."""
    script = bench.run(bench.reprise, "completion", "bash", expected=0).stdout.decode()
    (bench.work / "reprise.bash").write_text(script)
    (bench.work / "some.csv").touch()
    for words, expected in ((["pl"], ["plan"]), (["plan", "--strat"], ["--strategy"]), (["help", "comp"], ["compare", "completion"]),
                            (["compare", "--order", "dep"], ["dependencies"]), (["info", "some"], ["some.csv"]),
                            (["plan", "--budget", ""], []), (["completion", ""], ["bash", "zsh", "fish"])):
        line = " ".join(f"'{word}'" for word in ["reprise", *words])
        run = f". ./reprise.bash; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _reprise; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        found = bench.run("/bin/bash", "-c", run, expected=0).stdout.decode().split()
        expect_equal(found, expected, f"completions of {words}")
    for shell in ("zsh", "fish"):
        text = bench.run(bench.reprise, "completion", shell, expected=0).stdout.decode()
        for name in ("worst-case-fragmentation", "debuginfod", "keep-aslr", *COMMANDS):
            expect(name in text, f"{shell}: no {name}")


def explained(bench):
    """A recording says how much of the program's memory it explains, and what to do next."""
    said = bench.record(["/usr/bin/sqlite3", ":memory:", "select 1"], expected=0).ours()
    expect(any("malloc explains" in line and "sqlite3: peak RSS" in line for line in said), said)
    expect("next: reprise info" in said[-1], said)
    info = bench.info()
    expect(info["program_peak_rss"] > info["max_load"], info)
    expect(abs(info["explained_percent"] - 100 * info["max_load"] / info["program_peak_rss"]) < 1e-6, info)
    text = bench.run(bench.reprise, "info", bench.scratch / "recording", expected=0).stdout.decode()
    expect("explained by malloc" in text, text)
    small = ["/usr/bin/python3", "-c", "x = [str(i) for i in range(10000)]"]
    said = " ".join(bench.record(small, expected=0).ours())
    expect("unless PYTHONMALLOC=malloc is set" in said, said)


def sizes(bench):
    """Sizes have units, and what a person copies is exact."""
    (bench.work / "a.csv").write_text("id,lower,upper,size\na,0,2,4096\nb,1,3,4096\n")
    for size, fits in (("8KiB", True), ("8KB", False), ("8.192kB", True), ("1MB", True), ("8191B", False), ("8192", True)):
        words = ["plan", "a.csv", "-o", "p.csv", "--capacity", size]
        expect_equal(bench.run(bench.reprise, *words).status == 0, fits, size)
    for size in ("8Kib", "KiB", "-1KiB", "1.0001KiB", "9999999TiB", "1e3B", "nanB"):
        refused(bench, USAGE, "38MB and 38MiB are sizes", "plan", "a.csv", "--capacity", size)
    said = bench.run(bench.reprise, "plan", "a.csv", expected=0).stdout.decode()
    expect("makespan  8192 (8.0 KiB)" in said, said)


def runs(bench):
    """`replay --runs` repeats a replay, each with the same input, and says how they varied."""
    program = ["/bin/sh", "-c", "/usr/bin/sort; exit 3"]
    bench.record(program, stdin=b"b\na\n", expected=3)
    bench.plan()
    stats = bench.work / "stats.json"
    words = [bench.reprise, "replay", bench.scratch / "plan", "--runs", 3, "--stats", stats]
    outcome = bench.run(*words, "--", *program, stdin=b"b\na\n", expected=3)
    expect_equal(outcome.stdout, b"a\nb\n" * 3, "output")
    said = "\n".join(outcome.ours())
    for name in ("3 runs", "wall time", "peak RSS", "addresses    the same in every run"):
        expect(name in said, said)
    written = json.loads(stats.read_text())
    expect_equal(len({it["address_hash"] for it in written["runs"]}), 1, "addresses")
    expect_equal(written["runs"][-1]["allocations"], written["allocations"], "the last run")
    bench.run(bench.reprise, "plan", bench.scratch / "recording", "-o", "learned", "--learn", stats, expected=0)
    refused(bench, LAUNCHER, "--record does not go with --runs", *words[1:], "--record", "r", "--", *program)
    outcome = bench.run(*words, "--", "absent", expected=127)
    expect("run 1 of 3 ended with status 127" in outcome.stderr.decode(), outcome.stderr)
    # Another program in each: what is wrong is said once.
    ours = bench.run(*words, "--strict", "--", "/bin/ls", "/", expected=1).ours()
    for what in ("said of 3 runs", "another program than the recorded one: the plan is for ",
                 " went elsewhere"):
        expect_equal(len([line for line in ours if what in line]), 1, f"{what}: {ours}")


def strict(bench):
    """What `--strict` finds is said in one line, whatever else replay has to say."""
    bench.record(["/bin/ls", "/"], expected=0)
    bench.plan()
    words = [bench.reprise, "replay", bench.scratch / "plan", "--strict", "--"]
    ours = bench.run(*words, "/bin/ls", "/", expected=0).ours()
    expect(len(ours) == 1 and "all addresses were as planned" in ours[0], ours)
    for program in (["/bin/ls", "-la", "/usr"], ["/bin/sh", "-c", "exit 0"],
                    ["/bin/sh", "-c", "/bin/ls /; exit 0"]):
        ours = bench.run(*words, *program, expected=1).ours()
        said = [line for line in ours if " went elsewhere" in line]
        expect_equal(len(said), 1, f"{program}: {ours}")


def strict_and_short(bench):
    """A run that does far less than the recorded one goes as planned, and the line says of how much."""
    program = ["/usr/bin/sqlite3", ":memory:"]
    rows = b"create table t(a);\n" + b"".join(b"insert into t values(%d);\n" % i for i in range(500))
    bench.record(program, stdin=rows, expected=0)
    bench.plan()
    _, stats = bench.replay(program, stdin=rows, expected=0)
    expect_equal(stats["planned"], stats["allocations"], "planned")
    words = [bench.reprise, "replay", bench.scratch / "plan", "--strict", "--", *program]
    line = "reprise: all addresses were as planned: "
    ours = bench.run(*words, stdin=rows, expected=0).ours()
    expect_equal(ours, [f"{line}{stats['allocations']} allocations"], "the recorded run")
    (said,) = bench.run(*words, stdin=b"", expected=0).ours()
    found = re.fullmatch(rf"{line}(\d+) allocations, of (\d+) recorded", said)
    expect(found is not None, said)
    expect_equal(int(found[2]), stats["allocations"], said)
    expect(int(found[1]) < int(found[2]) / 2, said)


def forked_children(bench):
    """Forked children that do not exec never have a plan of theirs: they count as no images without one."""
    command = ["/bin/bash", "-c", "(echo a; echo b) | /usr/bin/sort; /bin/ls / > /dev/null; exit 0"]
    bench.record(command, expected=0)
    bench.plan()
    plans = bench.scratch / "plan"
    expect(len(list(plans.iterdir())) > 3, "no plans of forked children")
    outcome, stats = bench.replay(command, expected=0)
    expect_equal((outcome.ours(), stats["images_without_plan"], len(stats["images"])), ([], 0, 3), "all have their plans")
    next(plans.glob("*-ls.plan")).unlink()
    outcome, stats = bench.replay(command, expected=0)
    expect_equal(outcome.ours(), ["reprise: 1 of 3 process images had no plan and ran as usual"], "lines")


def thread_names(bench):
    """Names that a program gives its threads are recorded, and `diff` shows them."""
    program = [bench.build / "bin/programs/thread_names"]
    bench.record(program, expected=0)
    one = bench.scratch / "recording"
    found = json.loads(bench.run(bench.reprise, "diff", one, one, "--json", expected=0).stdout)
    names = sorted(it["name"].split(" ", 2)[2:] for it in found["threads"] if it["name"] != "main")
    expect_equal(names, [[], ["is-named"], ["names-itself"]], "threads")


def outputs(bench):
    """No command replaces what it reads, or the program that it runs."""
    inputs(bench)
    shutil.copy("/bin/true", bench.work / "program")
    bench.record([bench.work / "program"], expected=0)
    (trace,) = (bench.scratch / "recording").glob("*.trace")
    bench.run(bench.reprise, "plan", trace, "-o", "p.plan", expected=0)
    bench.plan()
    (plan,) = (bench.scratch / "plan").glob("*.plan")
    words = ("replay", plan.parent, "--stats", "s.json", "--", "./program")
    bench.run(bench.reprise, *words, expected=0)
    link = bench.work / "link.csv"
    link.symlink_to(bench.work / "a.csv")
    for status, words, output in (
        (USAGE, ["plan", "a.csv", "-o"], "a.csv"),
        (USAGE, ["plan", "a.csv", "-o"], link),
        (USAGE, ["plan", "g.json", "-o"], "g.json"),
        (USAGE, ["plan", trace, "-o"], trace),
        (USAGE, ["report", trace, "-o"], trace),
        (USAGE, ["report", trace, "--plan", "p.plan", "-o"], "p.plan"),
        (USAGE, ["convert", trace, "--to", "csv"], trace),
        (USAGE, ["convert", trace.parent, "--anonymize"], trace),
        (USAGE, ["convert", trace, "--to", "mondrian", "--plan", plan.parent], plan),
        (USAGE, ["report", trace.parent, "-o"], trace),
        (USAGE, ["plan", trace, "--learn", "s.json", "-o"], "s.json"),
    ):
        before = (bench.work / output).read_bytes()
        refused(bench, status, "expected an output that is no input as well", *words, output)
        expect_equal((bench.work / output).read_bytes(), before, f"{words}: content")
    for plans, stats in (("p.plan", "p.plan"), ("p.plan", "program"), (plan.parent, plan)):
        refused(bench, LAUNCHER, "expected an output that is no input as well", "replay", plans,
                "--stats", stats, "--", "./program")


if __name__ == "__main__":
    main({case.__name__: case for case in (options, standard_streams, names_of_standard_output, words_to_copy, wrong_values, one_writer, pipes, nothing_left, helps, completions, explained,
                                            sizes, runs, strict, strict_and_short, forked_children, thread_names, outputs)})
