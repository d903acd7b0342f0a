"""What a mistaken or hostile user may hand to the command line.

Each row names the exit code that the command line promises, and what the one line on stderr must
say. No row may end in a crash, print a result beside an error, or leave half of an output behind.
"""

import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess

from harness import Failure, expect, expect_equal, main

NO, USAGE, BAD_INPUT, SYSTEM, LAUNCHER, CANNOT_RUN, NOT_FOUND = 1, 2, 3, 4, 125, 126, 127

RECORDED = "ls"  # the program of recording()
HEADER = "id,lower,upper,size\n"

# Text → what the message must hold. All are bad input, in whatever command reads them.
CSV = {
    "": ":1: expected a header",
    "a,0,1,4\n": ":1: expected a header with the column id",
    "id,lower,upper\na,0,1\n": ":1: expected a header with the column size",
    "lower,upper,size\n0,1,4\n": ":1: expected a header with the column id",
    "id,lower,upper,size,size\na,0,1,4,4\n": ":1: expected one column for size",
    HEADER + "a,0,1,-4\n": ":2: expected a whole number",
    HEADER + "a,0,1,4.5\n": ":2: expected a whole number",
    HEADER + "a,0,1,0x10\n": ":2: expected a whole number",
    HEADER + "a,0,1,\n": ":2: expected a whole number",
    HEADER + "a,0,one,4\n": ":2: expected a whole number",
    HEADER + "a,-3,1,4\n": ":2: expected a whole number",
    HEADER + "a,0,1,99999999999999999999\n": ":2: expected a whole number",
    HEADER + "a,0,99999999999999999999,4\n": ":2: expected a whole number",
    HEADER + "a,1,1,4\n": ":2: expected lower < upper",
    HEADER + "# comment\n\na,2,1,4\n": ":4: expected lower < upper",
    HEADER + "a,0,1,4\nb,0,1,4\na,0,1,4\n": ":4: expected an id of its own",
    HEADER + "a,0,1\n": ":2: expected 4 fields, found 3",
    HEADER + "a,0,1,4,5\n": ":2: expected 4 fields, found 5",
    HEADER + '"a,0,1,4\n': ":2: expected closed quotes",
    HEADER + f"a,0,1,{2**56 - 1}\nb,0,1,{2**56}\n": ":3: expected a size below 2^56",
    HEADER + "".join(f"{i},0,1,{2**56 - 1}\n" for i in range(129)): ":130: expected sizes whose sum",
    "id,lower,upper,size,alignment\na,0,1,4,0\n": ":2: expected a power of two",
    "id,lower,upper,size,alignment\na,0,1,4,12\n": ":2: expected a power of two",
    f"id,lower,upper,size,alignment\na,0,1,4,{2**56}\n": ":2: expected a power of two below 2^56",
    "id,lower,upper,size,align\na,0,1,4,8\n": "found 'align' (did you mean 'alignment'?)",
    "id,lower,upper,size,hint\na,0,1,4,8\n": ":1: expected the columns id, lower, upper, size",
    "id,lower,upper,size,memory\na,0,1,4,x\n": "found 'memory'",
    "id,lower,upper,size,offset\na,0,1,4,-1\n": ":2: expected a whole number",
}


class Table:
    """Runs rows and gathers what is wrong with each, so that one failure hides no other."""

    def __init__(self, bench):
        self.bench = bench
        self.failures = []
        self.rows = 0

    def row(self, expected, message, *words, **options):
        """A command that must fail with that exit code and one line that holds `message`."""
        outcome = self.bench.run(self.bench.reprise, *words, **options)
        self.rows += 1
        wrong = []
        if outcome.status != expected:
            wrong.append(f"exit {outcome.status}, expected {expected}")
        if outcome.stdout:
            wrong.append(f"stdout {outcome.stdout[:200]!r}, expected nothing")
        lines = outcome.stderr.decode(errors="replace").splitlines()
        if len(lines) != 1 or not lines[0].startswith("reprise: ") or message not in lines[0]:
            wrong.append(f"stderr {lines[:5]}, expected one line with {message!r}")
        if wrong:
            command = " ".join(str(word) for word in words)
            self.failures.append(f"reprise {command}: " + "; ".join(wrong))

    def finish(self):
        if self.failures:
            raise Failure(f"{len(self.failures)} of {self.rows}:\n  " + "\n  ".join(self.failures))


def write(bench, name, content):
    path = bench.work / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def recording(bench):
    """The trace and the plan of a small program."""
    bench.record(["/bin/ls", "/"], expected=0)
    bench.plan()
    (trace,) = (bench.scratch / "recording").iterdir()
    (plan,) = (bench.scratch / "plan").iterdir()
    return trace, plan


def csv(bench):
    table = Table(bench)
    for number, (text, message) in enumerate(CSV.items()):
        path = write(bench, f"bad{number}.csv", text)
        for words in (["info", path], ["plan", path, "-o", "out.csv"], ["check", path, path]):
            table.row(BAD_INPUT, f"{path}{message}" if message[0] == ":" else message, *words)
        expect(not (bench.work / "out.csv").exists(), f"{text!r} left a plan behind")
    table.finish()


def csv_plan(bench):
    """What the reader takes and the planner does not: the row is named all the same."""
    table = Table(bench)
    offset = "id,lower,upper,size,offset\n"
    rows = {
        HEADER
        + "# first\na,0,1,4\n"
        + "".join(f"b{i},0,1,{2**56 - 1}\n" for i in range(33)): "buffer 'b32' in line 36: the sum",
        "id,lower,upper,size,alignment,offset\na,0,1,4,1,\nb,0,1,4,64,3\n": "buffer 'b' in "
        "line 3: fixed offset 3 is not aligned to 64",
        offset + "x,0,9,7,3\ny,0,9,7,\nz,5,6,4,9\n": "the fixed offsets of buffer 'x' in line 2 "
        "and buffer 'z' in line 4 overlap",
    }
    for number, (text, message) in enumerate(rows.items()):
        path = write(bench, f"row{number}.csv", text)
        table.row(BAD_INPUT, f"{path}: {message}", "plan", path, "-o", "out.csv")
    large = write(bench, "large.csv", offset + f"e,0,1,0,0\na,0,1,4,{2**62}\n")
    table.row(BAD_INPUT, f"{large}: buffer 'a' in line 3: fixed offset", "check", large, large)
    table.finish()
    expect(not (bench.work / "out.csv").exists(), "a plan was left behind")


def csv_check(bench):
    """`check` on CSV plans: 1 is an answer, 3 is none."""
    table = Table(bench)
    instance = write(bench, "instance.csv", HEADER + "a,0,2,4\nb,1,3,4\n")
    plans = {
        "id,lower,upper,size,offset\na,0,2,4,0\n": "expected 2 buffers, found 1",
        "id,lower,upper,size,offset\na,0,2,4,0\nc,1,3,4,4\n": "expected buffer 'b'",
        HEADER + "a,0,2,4\nb,1,3,4\n": "expected a column `offset`",
        "": "expected a header",
    }
    for number, (text, message) in enumerate(plans.items()):
        table.row(BAD_INPUT, message, "check", instance, write(bench, f"plan{number}.csv", text))
    table.row(SYSTEM, "No such file", "check", instance, "missing.csv")
    table.finish()
    overlapping = write(
        bench, "overlap.csv", "id,lower,upper,size,offset\na,0,2,4,0\nb,1,3,4,3\n"
    )
    outcome = bench.run(bench.reprise, "check", instance, overlapping, expected=NO)
    expect(b"buffer 'a' (" in outcome.stdout, "the pair is not named by its ids")
    expect(b"and buffer 'b' (" in outcome.stdout, "the pair is not named by its ids")


def capacity(bench):
    """`plan --capacity`: the plan keeps it, or the answer is no and nothing is left behind."""
    instance = write(bench, "fit.csv", HEADER + "a,0,2,4\nb,1,3,4\n")
    table = Table(bench)
    words = ["plan", instance, "-o", "fit.plan.csv", "--capacity"]
    table.row(NO, "fit.csv: does not fit into 7 bytes: at least 8 needed", *words, 7)
    table.row(NO, "fit.csv: does not fit into 0 bytes: at least 8 needed", *words, 0)
    table.row(USAGE, "expected a whole number", *words, "-1")
    expect(not (bench.work / "fit.plan.csv").exists(), "a plan that does not fit was written")
    folder = bench.scratch / "recordings"
    folder.mkdir()
    table.row(USAGE, "--capacity applies to CSV instances only", "plan", folder, "--capacity", 7)
    table.finish()
    bench.run(bench.reprise, *words, 8, expected=0)
    bench.run(bench.reprise, "check", instance, "fit.plan.csv", expected=0)


def start_address(bench):
    """Alignments hold for the address, not for the offset."""
    instance = write(bench, "at.csv", "id,lower,upper,size,alignment\na,0,2,4,64\nb,1,3,4,1\n")
    words = ["plan", instance, "-o", "at.plan.csv", "--budget", 0.1, "--start-address"]
    bench.run(bench.reprise, *words, 16, expected=0)
    offset = (bench.work / "at.plan.csv").read_text().split("\n")[1].split(",")[-1]
    expect((16 + int(offset)) % 64 == 0, f"buffer a lies at 16 + {offset}")
    bench.run(bench.reprise, "check", instance, "at.plan.csv", "--start-address", 16, expected=0)
    outcome = bench.run(bench.reprise, "check", instance, "at.plan.csv", expected=NO)
    said = outcome.stdout.decode().splitlines()
    expect(said[0].startswith("invalid"), said)
    expect_equal(said[1:], [
        f"  buffer 'a' (live [0, 2), offset {offset}, size 4): expected an address that is a multiple"
        f" of 64, found {offset}",
        "  with --start-address 16 it would be valid: was it planned with that?"], "lines")
    rows = "".join(f"{i},{i},{i + 1},4,64\n" for i in range(10))
    write(bench, "many.csv", "id,lower,upper,size,alignment\n" + rows)
    write(bench, "planned.csv", "id,lower,upper,size,alignment,offset\n" + rows.replace("64", "64,16"))
    said = bench.run(bench.reprise, "check", "many.csv", "planned.csv", expected=NO).stdout.decode()
    expect("at most 8 are listed" in said and "--start-address 48 it would be valid" in said, said)
    expect_equal(len(said.splitlines()), 11, said)
    table = Table(bench)
    table.row(USAGE, "expected a whole number", *words, "-1")
    table.row(USAGE, "--start-address applies to CSV instances only", "plan", bench.scratch, *words[-1:], 1)
    table.finish()


def not_a_trace(bench):
    table = Table(bench)
    empty = write(bench, "empty.trace", b"")
    noise = write(bench, "noise.trace", bytes(random.Random(1).randbytes(20000)))
    locked = write(bench, "locked.trace", b"")
    locked.chmod(0)
    folder = bench.work / "folder"
    folder.mkdir()
    readers = (
        lambda path: ["info", path],
        lambda path: ["plan", path, "-o", "out"],
        lambda path: ["check", path, path],
        lambda path: ["compare", path],
        lambda path: ["convert", path, "out.csv"],
    )
    for words in readers:
        table.row(BAD_INPUT, f"{empty}: offset 0: expected", *words(empty))
        table.row(BAD_INPUT, f"{noise}: offset 0: expected", *words(noise))
        table.row(BAD_INPUT, f"{folder}: expected *.trace", *words(folder))
        table.row(SYSTEM, "missing: No such file or directory", *words("missing"))
        table.row(SYSTEM, "name too long", *words("x" * 300))
        if os.geteuid() != 0:
            table.row(SYSTEM, "Permission denied", *words(locked))
    formats = "one of the formats native, android, csv, mondrian, graph, found none"
    table.row(BAD_INPUT, formats, "convert", noise, "out.csv")
    table.finish()


def damaged_trace(bench):
    """What is left of a damaged trace is read, the damage is named, and the exit code says so."""
    trace, _ = recording(bench)
    whole = trace.read_bytes()
    table = Table(bench)

    magic = write(bench, "magic.trace", b"XXXXXXXX" + whole[8:])
    table.row(BAD_INPUT, f"{magic}: offset 0: expected a trace", "info", magic)
    # A spool's header has no checksum, so this is all that a newer one shows.
    header = b"RPSPOOL1" + struct.pack("<II", 99, 0x01020304)
    newer = write(bench, "newer.spool", header + bytes(1 << 20))
    table.row(BAD_INPUT, f"{newer}: ", "info", newer)
    table.row(BAD_INPUT, f"{newer}: ", "plan", newer, "-o", "out")
    table.finish()

    def survives(name, content, what):
        outcome = bench.run(bench.reprise, "info", "--json", write(bench, name, content))
        expect(outcome.status in (0, BAD_INPUT), f"{what}: exit {outcome.status}")
        lines = outcome.stderr.decode(errors="replace").splitlines()
        expect(all(line.startswith("reprise: ") for line in lines), f"{what}: {lines}")
        expect((outcome.status == BAD_INPUT) == bool(lines), f"{what}: {outcome.status} {lines}")
        return outcome.status

    for cut in sorted({1, 8, 12, 16, 64, 100, len(whole) // 2, len(whole) - 1}):
        status = survives("cut.trace", whole[:cut], f"cut at {cut}")
        expect_equal(status, BAD_INPUT, f"exit status, cut at {cut}")
    chance = random.Random(2)
    noticed = 0
    for _ in range(60):
        flipped = bytearray(whole)
        bit = chance.randrange(len(whole) * 8)
        flipped[bit // 8] ^= 1 << bit % 8
        noticed += survives("flip.trace", bytes(flipped), f"bit {bit} flipped") == BAD_INPUT
    expect(noticed >= 55, f"only {noticed} of 60 flipped bits were noticed")


def plan_file(bench):
    trace, plan = recording(bench)
    whole = plan.read_bytes()
    table = Table(bench)
    ls = ["--", "/bin/ls", "/"]

    chance = random.Random(3)
    damaged = {
        "empty": b"",
        "noise": chance.randbytes(10000),
        "magic": b"XXXXXXXX" + whole[8:],
        "half": whole[: len(whole) // 2],
        "short": whole[:-1],
        "long": whole + b"x",
        "header": whole[:20],
    }
    for number in range(20):
        bit = chance.randrange(len(whole) * 8)
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged[f"flip{number}"] = bytes(flipped)
    for name, content in damaged.items():
        path = write(bench, f"{name}.plan", content)
        table.row(LAUNCHER, f"{path}: ", "replay", path, *ls)
        table.row(BAD_INPUT, f"{path}: ", "check", trace, path)

    folder = bench.work / "plans"
    folder.mkdir()
    table.row(LAUNCHER, f"{folder}: expected a folder of plans", "replay", folder, *ls)
    table.row(LAUNCHER, "missing.plan: No such file", "replay", "missing.plan", *ls)
    table.row(LAUNCHER, "expected a plan file", "replay", trace, *ls)

    bench.record(["/bin/cat", "/dev/null"], "other", expected=0)
    recorded = bench.scratch / "other"
    (other,) = recorded.iterdir()
    table.row(BAD_INPUT, f"{plan}: ", "check", other, plan)
    table.row(LAUNCHER, f"{recorded}: expected a folder of plans, found a recording", "replay",
              recorded, *ls)
    (folder / "a.plan").write_bytes(whole)
    table.row(BAD_INPUT, f"{folder}: expected *.trace or *.spool files, found plans", "info", folder)
    table.finish()


def foreign_plan(bench):
    """A plan of another program, or of other arguments: the program runs as if there were none."""
    recording(bench)
    for command in (
        ["/bin/ls", "-la", "/usr"],
        ["/usr/bin/python3", "-c", "print(sorted(str(n) for n in range(9000))[::500])"],
        ["/bin/sh", "-c", "/bin/ls / | /usr/bin/sort -r; exit 5"],
    ):
        plain = bench.run(*command)
        outcome, stats = bench.replay(command)
        expect_equal(
            (outcome.status, outcome.stdout, outcome.theirs()),
            (plain.status, plain.stdout, plain.theirs()),
            command,
        )
        expect_equal(stats["invalid_frees"], 0, f"{command}: invalid_frees")
        started = pathlib.Path(command[0]).resolve().name
        said = [line for line in outcome.ours() if "another build" in line or "another program" in line]
        other = started != RECORDED
        expect(bool(said) == other and all(f"for another program, {RECORDED}" in line or
                            f"the plan is for {RECORDED}, {started} was started" in line
                            for line in said), f"{command}: said {outcome.ours()}")


def programs(bench):
    """What cannot be run or preloaded is said before it is started."""
    _, plan = recording(bench)
    table = Table(bench)
    source = write(bench, "hello.c", "int main(void) { return 0; }\n")
    bench.run("gcc", "-static", source, "-o", "static", expected=0)
    shutil.copy("/bin/ls", bench.work / "setuid")
    (bench.work / "setuid").chmod(0o4755)
    shutil.copy("/bin/ls", bench.work / "setgid")
    (bench.work / "setgid").chmod(0o2755)
    shutil.copy("/bin/ls", bench.work / "not_executable")
    (bench.work / "not_executable").chmod(0o644)
    whole = (bench.work / "static").read_bytes()
    write(bench, "other_machine", whole[:18] + struct.pack("<H", 243) + whole[20:]).chmod(0o755)
    write(bench, "bits32", whole[:4] + b"\x01" + whole[5:]).chmod(0o755)
    write(bench, "lost_interpreter", "#!/missing/interpreter\n").chmod(0o755)
    write(bench, "static_script", f"#!{bench.work}/static\n").chmod(0o755)
    write(bench, "circle", f"#!{bench.work}/circle\n").chmod(0o755)
    image = pathlib.Path("/bin/true").read_bytes()
    segments = image[:54] + b"\x07\x00" + image[56:]  # of another size than the kernel takes
    write(bench, "refused", segments).chmod(0o755)
    write(bench, "script", 'echo "$0"\nexit 7\n').chmod(0o755)
    write(bench, "cut_program", b"\x7fELF\x02\x01\x01").chmod(0o755)
    rows = {
        "./static": (CANNOT_RUN, "./static: cannot be preloaded: it is statically linked"),
        "./setuid": (CANNOT_RUN, "./setuid: cannot be preloaded: it is a setuid or setgid"),
        "./setgid": (CANNOT_RUN, "./setgid: cannot be preloaded: it is a setuid or setgid"),
        "./not_executable": (CANNOT_RUN, "./not_executable: not an executable file"),
        "./other_machine": (CANNOT_RUN, "./other_machine: cannot be preloaded"),
        "./bits32": (CANNOT_RUN, "./bits32: cannot be preloaded: it is a 32-bit program"),
        "./cut_program": (CANNOT_RUN, "./cut_program: cannot be preloaded"),
        "./lost_interpreter": (NOT_FOUND, "/missing/interpreter: No such file"),
        "./static_script": (CANNOT_RUN, "static: cannot be preloaded: it is statically linked"),
        "./circle": (CANNOT_RUN, "./circle: cannot be preloaded"),
        ".": (CANNOT_RUN, ".: not an executable file"),
        "/dev/null": (CANNOT_RUN, "/dev/null: not an executable file"),
        "./missing": (NOT_FOUND, "./missing: No such file or directory"),
        "no-such-program": (NOT_FOUND, "no-such-program: not found in PATH"),
        "": (NOT_FOUND, "not found"),
    }
    for program, (code, message) in rows.items():
        table.row(code, message, "record", "-o", bench.scratch / "out", "--", program)
        table.row(code, message, "replay", plan, "--", program)
    table.finish()
    expect(not (bench.scratch / "out").exists(), "failed starts left a folder")
    for code, *words in ((CANNOT_RUN, "record", "-o", bench.scratch / "out"), (CANNOT_RUN, "replay", plan),
                         (SYSTEM, "compare", "--live")):
        table.row(code, "./refused: Exec format error", *words, "--", "./refused")
    table.finish()
    for words in (["record", "-o", bench.scratch / "out"], ["replay", plan]):
        outcome = bench.run(bench.reprise, *words, "--", "./script", expected=7)
        expect_equal(outcome.stdout, b"./script\n", "the name that a shell gives a script")
    # Nor do they touch what an earlier one wrote.
    stats = write(bench, "stats.json", "{}")
    before = sorted((bench.scratch / "recording").iterdir())
    missing = ["--", "./missing"]
    bench.run(bench.reprise, "record", "-o", bench.scratch / "recording", *missing, expected=127)
    bench.run(bench.reprise, "replay", plan, "--stats", stats, *missing, expected=127)
    expect_equal(sorted((bench.scratch / "recording").iterdir()), before, "the earlier recording")
    expect_equal(stats.read_text(), "{}", "the earlier statistics")


def outputs(bench):
    """Where nothing can be written."""
    trace, plan = recording(bench)
    table = Table(bench)
    instance = write(bench, "instance.csv", HEADER + "a,0,1,4\n")
    program = ["--", "/bin/true"]
    file = write(bench, "file", b"")
    for output in ("missing/out", "/dev/full/out"):
        table.row(SYSTEM, output.partition("/out")[0], "plan", instance, "-o", output)
        table.row(SYSTEM, output.partition("/out")[0], "plan", trace, "-o", output)
        table.row(SYSTEM, output.partition("/out")[0], "convert", trace, output + ".csv")
        table.row(LAUNCHER, output, "replay", plan, "--stats", output, *program)
    table.row(SYSTEM, f"{bench.work}: ", "plan", instance, "-o", bench.work)
    table.row(SYSTEM, str(file), "plan", trace.parent, "-o", file)
    table.row(LAUNCHER, f"{file}", "record", "-o", file, *program)
    table.row(LAUNCHER, f"{file}", "record", "-o", file / "below", *program)
    table.row(LAUNCHER, f"{file}", "replay", plan, "--record", file, *program)
    table.row(LAUNCHER, "name too long", "record", "-o", "x" * 300, *program)
    table.row(SYSTEM, "/dev/full: No space left", "plan", instance, "-o", "/dev/full")
    # A message is one line, whatever it is about.
    table.row(SYSTEM, "two?lines: No such file", "info", "two\nlines")
    # A device is written to, never replaced, however the links to it are called.
    links = [bench.work / name for name in ("full.plan", "full.trace")]
    for link in links:
        link.symlink_to("/dev/full")
    table.row(SYSTEM, "full.plan: No space left", "plan", trace, "-o", links[0])
    table.row(SYSTEM, "full.trace: No space left", "convert", trace, links[1])
    if os.geteuid() != 0:
        locked = bench.work / "locked"
        locked.mkdir(0o500)
        table.row(LAUNCHER, f"{locked}: Permission denied", "record", "-o", locked, *program)
    # A file size limit is the nearest to a full disk that everyone may set.
    def tiny():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    table.row(SYSTEM, "out.csv: File too large", "plan", instance, "-o", "out.csv", limits=tiny)
    table.row(SYSTEM, "out.plan: File too large", "plan", trace, "-o", "out.plan", limits=tiny)
    graph = write(bench, "graph.json", '{"nodes": [{"id": "n", "stream": 0}], "tensors": []}')
    table.row(SYSTEM, "out.json: File too large", "plan", graph, "-o", "out.json", limits=tiny)
    table.finish()
    expect_equal(sorted(bench.work.glob("out.*")), [], "what was left of outputs")
    expect(all(link.is_symlink() for link in links), "a device was replaced")
    with open("/dev/full", "wb") as full:
        for words in (["info", trace], ["info", "--json", trace], ["plan", "--strategy", "list"],
                      ["--help"], ["--version"], ["plan", "--help"]):
            ended = subprocess.run(
                [bench.reprise, *words], stdout=full, stderr=subprocess.PIPE, check=False
            )
            expect_equal(
                (ended.returncode, ended.stderr),
                (SYSTEM, b"reprise: cannot write to standard output: No space left on device\n"),
                f"{words} into a full disk",
            )


def usage(bench):
    table = Table(bench)
    instance = write(bench, "instance.csv", HEADER + "a,0,1,4\n")
    rows = (
        [],
        ["no-such-command"],
        ["--no-such-option"],
        ["info"],
        ["info", instance, instance],
        ["info", "--jso", instance],
        ["plan"],
        ["plan", instance, "--strategy"],
        ["plan", instance, "--strategy", ""],
        ["plan", instance, "--strategy", "no-such-strategy"],
        ["plan", instance, "--budget", "-1"],
        ["plan", instance, "--budget", "soon"],
        ["plan", instance, "--budget", "nan"],
        ["plan", instance, "--budget", "inf"],
        ["plan", instance, "--lanes", "many"],
        ["plan", instance, "--iterations", "-1"],
        ["plan", instance, "--iterations", "99999999999999999999"],
        ["plan", instance, "--threads", "-1"],
        ["plan", instance, "--threads", "100000"],
        ["plan", instance, "--seed", "x"],
        ["plan", instance, "--seed", "-1"],
        ["check"],
        ["check", instance],
        ["compare"],
        ["compare", "--live"],
        ["compare", "--live", "/bin/true"],
        ["convert"],
        ["convert", instance],
        ["convert", instance, "out.csv", "--to", "no-such-format"],
        ["convert", instance, "out.csv", "--from", "no-such-format"],
        ["convert", instance, "out.txt", "--anonymize"],
    )
    for words in rows:
        table.row(USAGE, "", *words)
    for words in (
        ["record"],
        ["record", "--"],
        ["record", "-o"],
        ["record", "--no-such-option", "--", "/bin/true"],
        ["record", "/bin/true"],
        ["record", "/bin/true", "--", "/bin/true"],
        ["replay"],
        ["replay", "plan"],
        ["replay", "plan", "/bin/true"],
        ["replay", "plan", "--"],
        ["replay", "--stats"],
    ):
        table.row(LAUNCHER, "", *words)
    table.finish()
    for words in (["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)):
        outcome = bench.run(bench.reprise, *words, expected=0)
        expect(outcome.stdout and not outcome.stderr, f"{words}: help goes to stdout")


COMMANDS = ("record", "info", "plan", "check", "replay", "compare", "convert", "report", "diff")


if __name__ == "__main__":
    main(
        {
            case.__name__: case
            for case in (
                csv,
                csv_plan,
                csv_check,
                capacity,
                start_address,
                not_a_trace,
                damaged_trace,
                plan_file,
                foreign_plan,
                programs,
                outputs,
                usage,
            )
        }
    )
