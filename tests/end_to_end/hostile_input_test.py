"""Files and names that were made to do harm: each command ends in time, says one line, and lets no
control character through."""

import json
import re
import resource
from xml.etree import ElementTree

from harness import expect, expect_equal, main

NO, USAGE, BAD_INPUT, LAUNCHER = 1, 2, 3, 125

# What no terminal or page may get from a name: C0 but for line ends, DEL, C1, direction.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
HOSTILE = "x\x1b[31m\x07\x7f\u009b2J\u202egnp"
HEADER = "id,lower,upper,size\n"


def one_line(outcome, status, message):
    lines = outcome.stderr.decode().splitlines()
    expect_equal((outcome.status, len(lines)), (status, 1), f"exit status and lines: {lines}")
    expect(message in lines[0], f"expected {message!r}, found {lines[0]!r}")


def harmless(outcome, what):
    for text in (outcome.stdout, outcome.stderr):
        found = CONTROL.search(text.decode("utf-8"))
        expect(found is None, f"{what}: {found}")


def names(bench):
    """Options and commands that nobody knows are refused, with the nearest that there is."""
    instance = bench.work / "a.csv"
    instance.write_text(HEADER + "a,0,1,4\n")
    typo = bench.work / "typo.csv"
    typo.write_text("id,lower,upper,size,align\na,0,4,100,64\nb,1,3,30,64\n")
    rows = (
        (USAGE, "unknown option --strateg (did you mean --strategy?)", "plan", instance, "--strateg", "x"),
        (USAGE, "unknown option --jsn (did you mean --json?)", "info", "--jsn"),
        (USAGE, "unknown option --jsn (did you mean --json?)", "info", "--jsn=1", instance),
        (USAGE, "unknown option --versoin (did you mean --version?)", "--versoin"),
        (USAGE, "unknown option -?", "plan", instance, "-\x1b"),
        (USAGE, "unknown option --alignment (see `reprise help plan`)", "plan", instance, "--alignment", 64),
        (USAGE, "unknown command pln (did you mean plan?) (see `reprise --help`)", "pln", instance),
        (USAGE, "no strategy is called 'atuo' (did you mean 'auto'?)", "plan", instance, "--strategy", "atuo"),
        (USAGE, "(did you mean 'mondrian'?)", "convert", instance, "b", "--to", "mondrain"),
        (LAUNCHER, "unknown option --stak (did you mean --stacks?) (see `reprise help record`)", "record", "--stak", 5, "--", "/bin/true"),
        (LAUNCHER, "unknown option --stat (did you mean --stats?)", "replay", "p", "--stat=x", "--", "/bin/true"),
    )
    for status, message, *words in rows:
        one_line(bench.run(bench.reprise, *words), status, message)
    for words in (["info", typo], ["plan", typo], ["check", typo, typo], ["compare", typo],
                  ["report", typo, "-o", "x.html"], ["convert", typo, "x.tracealloc.json"]):
        message = "typo.csv:1: expected the columns id, lower, upper, size, alignment, offset, gaps"
        outcome = bench.run(bench.reprise, *words)
        one_line(outcome, BAD_INPUT, message)
        one_line(outcome, BAD_INPUT, "found 'align' (did you mean 'alignment'?)")
        if words[0] in ("info", "plan", "report"):
            outcome = bench.run(bench.reprise, *words, "--ignore-unknown", expected=0)
            one_line(outcome, 0, "typo.csv: not known and left aside: 'align'")


def empty_buffers(bench):
    """A size of 0 costs nothing, whatever else lives at its offset."""
    instance = bench.work / "a.csv"
    instance.write_text("id,lower,upper,size,alignment\na,0,4,0,64\nb,0,4,100,1\nc,1,2,0,1\nd,1,3,28,4\n")
    planned = bench.run(bench.reprise, "plan", instance, "--json", "-o", "p.csv", expected=0)
    planned = json.loads(planned.stdout)
    expect_equal((planned["buffers"], planned["max_load"], planned["makespan"]), (4, 128, 128), "plan")
    checked = json.loads(bench.run(bench.reprise, "check", instance, "p.csv", "--json", expected=0).stdout)
    expect_equal((checked["valid"], checked["makespan"]), (True, 128), "check")
    info = json.loads(bench.run(bench.reprise, "info", instance, "--json", expected=0).stdout)
    expect_equal((info["buffers"], info["max_load"]), (4, 128), "info")
    words = ["report", instance, "--plan", "p.csv", "--svg", "-o", "a.svg"]
    bench.run(bench.reprise, *words, expected=0)


def escapes(bench):
    """Names in files, and of files, reach neither terminal nor page as they are."""
    instance = bench.work / f"{HOSTILE}.csv"
    instance.write_text(f"{HEADER}{HOSTILE}1,0,2,4\n{HOSTILE}2,1,3,4\n")
    plan = bench.work / f"{HOSTILE}.plan.csv"
    plan.write_text(f"{HEADER[:-1]},offset\n{HOSTILE}1,0,2,4,0\n{HOSTILE}2,1,3,4,2\n")
    column = bench.work / "column.csv"
    column.write_text(f"{HEADER[:-1]},{HOSTILE}\na,0,1,4,\n")
    trace = bench.work / f"{HOSTILE}.txt"
    trace.write_text(f"1: malloc 0x10 16\n1: {HOSTILE}\n")
    comparison = bench.work / f"{HOSTILE}.json"
    comparison.write_text(json.dumps({"results": [{"allocator": HOSTILE, "footprint": 1}], HOSTILE: 1}))
    for words in (
        ["info", instance], ["info", "--json", instance], ["info", column], ["info", trace],
        ["info", column, "--ignore-unknown"], ["info", f"{HOSTILE}/missing"],
        ["check", instance, plan], ["check", instance, plan, "--json"], ["check", instance, instance],
        ["plan", instance], ["plan", instance, "--json", "-o", "p.csv"], ["plan", instance, "-o", "/nowhere/" + HOSTILE],
        ["plan", instance, "--strategy", HOSTILE], ["plan", instance, f"--{HOSTILE}"], [HOSTILE],
        ["plan", trace, "--learn", comparison], ["convert", trace, "a.trace"], ["convert", instance, HOSTILE],
        ["compare", instance, "--allocators", HOSTILE], ["compare", instance, "--allocators", f"{HOSTILE}=/{HOSTILE}"],
        ["report", instance, "--compare", comparison, "-o", "a.html"], ["diff", trace, instance],
    ):
        harmless(bench.run(bench.reprise, *words), " ".join(map(str, words)))
    pages = ["report", instance, "--plan", plan, "-o"]
    bench.run(bench.reprise, *pages, "a.svg", "--svg", expected=0)
    ElementTree.fromstring((bench.work / "a.svg").read_text())
    words = ["--compare", comparison, "--ignore-unknown"]
    bench.run(bench.reprise, *pages, "a.html", *words, expected=0)
    facts = re.search('<script type="application/json" id="facts">(.*?)</script>',
                      (bench.work / "a.html").read_text(), re.S).group(1)
    for text in ((bench.work / "a.svg").read_text(), facts):
        expect(CONTROL.search(text) is None, f"a page holds {CONTROL.search(text)}")
    expect("[31m" in facts, "the name is gone")


def claims(bench):
    """A small trace that claims more than the machine has is not performed, unless nothing is written."""
    trace = bench.work / "large.txt"
    trace.write_text(f"1: malloc 0x10 {2**50}\n1: malloc 0x20 16\n1: free 0x10\n")
    message = "large.txt: its blocks take 1024.0 TiB at one time, more than half of the memory"
    compare = ["compare", trace, "--allocators", "glibc"]
    report = ["report", trace, "-o", "a.html"]
    one_line(bench.run(bench.reprise, *compare), BAD_INPUT, message)
    one_line(bench.run(bench.reprise, *report), BAD_INPUT, message)
    expect(not (bench.work / "a.html").exists(), "a page was left behind")
    bench.run(bench.reprise, *compare, "--no-touch", expected=0)
    bench.run(bench.reprise, *report, "--no-touch", expected=0)
    # A lane that is too large is the input's fault.
    trace.write_text(f"1: malloc 0x10 {2**40}\n1: free 0x10\n")
    outcome = bench.run(bench.reprise, "plan", trace, "--budget", 1)
    one_line(outcome, BAD_INPUT, "large.txt: ")


def bombs(bench):
    """Small files cost little memory, and time within the budget."""

    def little():
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (40, 40))

    threads = bench.work / "threads.txt"
    threads.write_text("".join(f"{i}: malloc {i + 1:x}0 16\n" for i in range(200_000)))
    gaps = bench.work / "gaps.csv"
    gaps.write_text("id,lower,upper,size,gaps\n"
                    f"a,0,200001,64,{' '.join(f'{2 * i + 1}-{2 * i + 2}' for i in range(100_000))}\n"
                    "b,0,200001,64,\n")
    pairs = bench.work / "pairs.txt"
    pairs.write_text(f"1: malloc 0x10 {30 << 30}\n1: free 0x10\n" * 20_000)
    for words in (["plan", pairs, "-o", "p.plan", "--budget", 1], ["check", pairs, "p.plan"],
                  ["info", threads], ["plan", threads, "-o", "t.plan", "--budget", 1],
                  ["convert", threads, "t.trace"], ["diff", threads, pairs], ["info", gaps],
                  ["plan", gaps, "-o", "g.csv", "--budget", 1], ["check", gaps, "g.csv"]):
        bench.run(bench.reprise, *words, limits=little, expected=0)
    for name in ("deep.json", "deep.tracealloc.json"):
        (bench.work / name).write_text('{"schema_version":' + "[" * 200_000)
    deep = "at most 64 levels of brackets, found more"
    one_line(bench.run(bench.reprise, "convert", "deep.tracealloc.json", "a.csv"), BAD_INPUT, deep)
    one_line(bench.run(bench.reprise, "plan", threads, "--learn", "deep.json"), BAD_INPUT, deep)


if __name__ == "__main__":
    main({case.__name__: case for case in (names, empty_buffers, escapes, claims, bombs)})
