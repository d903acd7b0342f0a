"""`reprise compare`: a recording under every allocator, and a program under every allocator."""

import json
import os
import pty
import re
import resource
import shutil
import subprocess

from harness import expect, expect_equal, main

SQL = "create table t(a); insert into t values (1), (2); select sum(a) from t;"


def trace(bench):
    """Every allocator that is installed has a result, proves who it is, and has its series."""
    bench.record(["/usr/bin/sqlite3", ":memory:", SQL], expected=0)
    bench.plan()
    words = ["compare", bench.scratch / "recording", "--plan", bench.scratch / "plan"]
    text = bench.run(bench.reprise, *words, "--runs", "2", "--json", expected=0).stdout
    compared = json.loads(text)
    names = [it["allocator"] for it in compared["results"]]
    expect(names[0] == "glibc" and names[-2:] == ["heap", "plan"], names)
    heap, plan = compared["results"][-2:]
    expect(compared["max_load"] <= plan["footprint"] <= heap["footprint"], (heap, plan))
    (image,) = compared["images"]
    for result in image["results"]:
        name = result["allocator"]
        expect_equal(set(result["provenance"].values()), {result["library"]}, name)
        expect(name in ("glibc", "heap", "plan") or name in result["library"], result["library"])
        expect_equal(result["runs"], 2, "runs")
        parts = ("requested_at_peak", "internal_fragmentation", "external_fragmentation")
        expect_equal(sum(result[part] for part in parts), result["footprint"], f"{name}: footprint")
        expect(min(result[part] for part in parts) >= 0, f"{name}: {result}")
        expect_equal(sum(result[part] for part in parts[1:]), result["total_fragmentation"],
                     f"{name}: internal and external")
        series = result["series"]
        expect_equal(len(series["rss"]), len(series["events"]), f"{name}: series")
        expect(max(series["rss"]) > 0, f"{name}: nothing was resident")
        expect_equal(series["footprint"][-1], result["footprint"], f"{name}: last footprint")
    table = bench.run(bench.reprise, *words, expected=0).stdout.decode()
    expect(all(len(line) <= 80 for line in table.splitlines()), f"wider than 80 columns: {table}")
    expect("\nleast peak RSS: " in table or len(names) < 3, table)
    least = min(compared["results"], key=lambda it: it["footprint"])["allocator"]
    expect(re.search(rf"^least footprint: .*\b{least}\b.*, ", table, re.MULTILINE), table)
    expect("compare --live" in table and "as requested" in table, table)
    expect_equal(max(image["live"]["bytes"]), compared["max_load"], "highest sample")
    expect_equal(compared["max_load"], bench.info()["max_load"], "max load")


def instance(bench):
    """An instance is compared with its plan, sizes as they are given."""
    path, plan = bench.work / "some.csv", bench.work / "some plan.csv"
    rows = [f"b{i},{i},{i + 1 + i * i % 40},{1 + 7 * i % 90}" for i in range(400)]
    path.write_text("id,lower,upper,size\n" + "\n".join(rows) + "\n")
    planned = bench.run(bench.reprise, "plan", path, "-o", plan, "--json", expected=0)
    load = json.loads(planned.stdout)["max_load"]
    words = ["compare", path, "--plan", plan, "--allocators", "glibc", "--pins", "--json"]
    compared = json.loads(bench.run(bench.reprise, *words, expected=0).stdout)
    expect_equal(compared["max_load"], load, "max load")
    expect_equal([it["allocator"] for it in compared["results"]], ["glibc", "plan"], "results")
    found = compared["results"][1]
    expect_equal(found["requested_at_peak"], load, "requested at the max load")
    expect_equal(found["internal_fragmentation"], 0, "inside the blocks of the plan")
    expect_equal(found["footprint"] % 4096, 0, "whole pages")

    # A gap lowers the max load for everyone who says one.
    page = 4096
    path.write_text(f"id,lower,upper,size,gaps\na,0,10,{page},2-8\nb,3,7,{page},\n")
    bench.run(bench.reprise, "plan", path, "-o", plan, expected=0)
    compared = json.loads(bench.run(bench.reprise, *words, expected=0).stdout)
    expect_equal(compared["max_load"], page, "max load with a gap")
    expect_equal(compared["results"][0]["fragmentation"], compared["results"][0]["footprint"] - page,
                 "fragmentation is above that")
    html = bench.work / "gaps.html"
    bench.run(bench.reprise, "report", path, "--plan", plan, "-o", html, expected=0)
    facts = re.search(r'id="facts">([^<]*)', html.read_text()).group(1)
    expect_equal(json.loads(facts)["max_load"], page, "max load in the report")


def hostile(bench):
    """What cannot be compared is refused in one line; what is damaged is named as such."""
    bench.record(["/usr/bin/sqlite3", ":memory:", SQL], expected=0)
    bench.plan()
    (trace_path,) = (bench.scratch / "recording").iterdir()
    (plan,) = (bench.scratch / "plan").iterdir()
    damaged, cut = bench.work / "damaged trace", bench.work / "cut.plan"
    damaged.write_bytes(trace_path.read_bytes() + b"x" * 100)
    cut.write_bytes(plan.read_bytes()[:5000])
    refused = [
        (3, "cut short", "compare", trace_path, "--plan", cut),
        (3, "expected a plan file", "compare", trace_path, "--plan", trace_path),
        (3, "cut short", "diff", plan, cut),
        (3, "cut short", "diff", cut, cut),
        (3, "expected a plan, as", "diff", plan, trace_path),
        (2, "NAME=LIBRARY.so", "compare", trace_path, "--allocator", "="),
        (2, "NAME=LIBRARY.so", "compare", trace_path, "--allocator", "mine="),
        (2, "absent.so: No such file", "compare", trace_path, "--allocator", "mine=./absent.so"),
        (2, "absent.so: No such file", "compare", trace_path, "--allocators", "mine=/absent.so"),
        (2, "/tmp: not a file", "compare", trace_path, "--allocator", "mine=/tmp"),
        (2, "absent.so: No such file", "report", trace_path, "--allocators", "mine=/absent.so", "-o",
         "absent.html"),
        (2, "unknown allocator", "compare", trace_path, "--allocators", "glibc,nope"),
        (4, "No such file", "compare", "--live", "--plan", "absent", "--", "/bin/true"),
        (3, "cut short", "compare", "--live", "--plan", cut, "--", "/bin/true"),
    ]
    for status, message, *words in refused:
        outcome = bench.run(bench.reprise, *words)
        expect_equal(outcome.status, status, " ".join(map(str, words)))
        expect_equal(len(outcome.stderr.splitlines()), 1, f"lines on stderr: {outcome.stderr}")
        expect(message in outcome.stderr.decode(), outcome.stderr)
    # What can be read is used, and the exit status says that there was more.
    for words in (["compare", damaged, "--allocators", "glibc"], ["diff", trace_path, damaged],
                  ["info", damaged], ["plan", damaged, "-o", "damaged.plan"],
                  ["check", damaged, "damaged.plan"], ["convert", damaged, "damaged.csv"],
                  ["report", damaged, "-o", "damaged.html", "--plan", "damaged.plan"],
                  ["compare", damaged, "--allocators", "glibc", "--plan", "damaged.plan"]):
        outcome = bench.run(bench.reprise, *words, expected=3)
        expect_equal(len(outcome.stderr.splitlines()), 1, f"{words[0]}: {outcome.stderr}")
        expect("damaged trace: damaged at offset" in outcome.ours()[0], outcome.stderr)
        expect(outcome.stdout or (bench.work / words[-1]).exists(), f"{words[0]}: nothing")


def another_allocator(bench):
    """`--allocator NAME=PATH` is one more; a library without malloc is not taken for one."""
    bench.record(["/bin/true"], expected=0)
    words = [bench.reprise, "compare", bench.scratch / "recording", "--allocators", "glibc", "--json"]
    text = bench.run(*words, "--allocator", "wrong=libm.so.6", expected=0).stdout
    compared = json.loads(text)
    expect_equal([it["allocator"] for it in compared["results"]], ["glibc"], "results")
    expect_equal([it["allocator"] for it in compared["skipped"]], ["wrong"], "skipped")
    expect_equal(bench.run(*words, "--allocator", "nopath").status, 2, "--allocator without =")


def limited(bench):
    """Under a limit of addresses that no player fits into there is one line, and no table."""
    bench.record(["/bin/true"], expected=0)
    recording, page = bench.scratch / "recording", bench.work / "page.html"

    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    reason = "the player stopped: the system refuses it 8 GiB of addresses (RLIMIT_AS"
    for words in (["compare", recording, "--allocators", "glibc,jemalloc"],
                  ["report", recording, "--allocators", "glibc,jemalloc", "-o", page]):
        outcome = bench.run(bench.reprise, *words, limits=limits, expected=4)
        expect_equal((outcome.stdout, len(outcome.ours())), (b"", 1), outcome.stderr)
        expect_equal(len(outcome.stderr.splitlines()), 1, "lines on stderr")
        expect(reason in outcome.ours()[0], outcome.stderr)
    expect(not page.exists(), "a page was left")


def live(bench):
    """The program itself runs under each allocator and from its plan, and does the same."""
    script = SQL.encode()
    program = ["/usr/bin/sqlite3", ":memory:"]
    bench.record(program, stdin=script, expected=0)
    bench.plan()
    words = [bench.reprise, "compare", "--live", "--plan", bench.scratch / "plan", "--runs", "2"]
    text = bench.run(*words, "--json", "--", *program, stdin=script, expected=0).stdout
    results = json.loads(text)["results"]
    expect_equal(results[0]["allocator"], "glibc", "the first one")
    expect_equal(results[-1]["allocator"], "replay", "the last one")
    expect_equal(results[-1]["replay"]["served_percent"], 100, "served")
    text = bench.run(*words, "--allocators", "glibc", "--", "/bin/ls", "/", expected=0).stdout.decode()
    expect("replay     0.000 % of the allocations as planned, 100.000 % from the arena" in text, text)
    for result in results:
        expect_equal(result["status"], 0, "status")
        expect(result["same_output"], f"{result['allocator']} wrote something else")
        expect(result["peak_rss"] > 0 and result["wall_seconds"] > 0, result)
        known = result["allocator"] in ("glibc", "replay")
        expect(known or result["allocator"] in result["library"], result["library"])
    table = bench.run(*words, "--", *program, stdin=script, expected=0).stdout.decode()
    expect("no difference can be shown" in table, table)


def live_verdict(bench):
    """The last lines of --live order what the table says, and name who is left out."""
    program = ["/usr/bin/sqlite3", ":memory:", SQL]
    bench.record(program, expected=0)
    bench.plan()
    words = [bench.reprise, "compare", "--live", "--plan", bench.scratch / "plan", "--runs", "4"]
    text = bench.run(*words, "--", *program, expected=0).stdout.decode()
    told = r"(same|[-+][\d.]+ %)?"
    rows = re.findall(rf"^(\w+) +\S+ MiB +\S+ +{told} +\S+ s +\S+ +{told}$", text, re.MULTILINE)
    expect(len(rows) >= 2 and rows[0] == ("glibc", "", ""), f"{rows} of {text}")
    for column, what in (1, "least peak RSS"), (2, "fastest"):
        told = [(row[0], row[column]) for row in rows]
        differs = sorted((float(it[:-2]), f"{name} {it}") for name, it in told if it.endswith("%"))
        less = ", ".join(it for percent, it in differs if percent < 0)
        more = ", ".join(it for percent, it in differs if percent >= 0)
        same = " and ".join(name for name, it in told if not it.endswith("%"))
        expect(f"\n{what}: " + "; ".join(filter(None, (less, same, more))) + "\n" in text,
               f"{what} of {text}")
    expect("left out" not in text, text)

    (bench.work / "tells.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\nint main() { printf(\"%p\\n\", malloc(100000)); }\n")
    bench.run("gcc", "-o", "tells", "tells.c", expected=0)
    bench.record(["./tells"], expected=0)
    bench.plan()
    text = bench.run(*words, "--allocators", "glibc", "--", "./tells", expected=1).stdout.decode()
    expect(re.search(r"^replay .* left out .* left out$", text, re.MULTILINE), text)
    expect(text.endswith("\nleast peak RSS: glibc\nfastest: glibc\n"
                         "left out: replay: it wrote something else to standard output\n"), text)


def live_failures(bench):
    """A program that cannot be run or preloaded is not measured."""
    words = [bench.reprise, "compare", "--live", "--allocators", "glibc", "--runs", "1", "--"]
    # At a fixed address, with a stub for malloc, to which libraries are bound.
    (bench.work / "fixed.c").write_text(
        "#include <stdlib.h>\nint main() { void* (*volatile f)(size_t) = malloc; free(f(1)); }\n")
    bench.run("gcc", "-O1", "-fno-pie", "-no-pie", "-o", "fixed", "fixed.c", expected=0)
    outcome = bench.run(*words, "./fixed", expected=0)
    expect(b"malloc from" in outcome.stdout and b"libc.so" in outcome.stdout, outcome.stdout)
    expect_equal(bench.run(*words, "no-such-program").status, 4, "no such program")
    ended = bench.run(*words, "/bin/sh", "-c", "exit 7")
    expect_equal(ended.status, 0, "a program that fails everywhere")
    expect_equal(bench.run(bench.reprise, "compare", "a", "b").status, 2, "two traces")


def pins(bench):
    """Of the memory that an allocator holds for nothing, every byte is laid at some site's door."""
    bench.record(["/usr/bin/sqlite3", ":memory:", SQL], expected=0)
    bench.plan()
    words = ["compare", bench.scratch / "recording", "--plan", bench.scratch / "plan", "--pins",
             "--what-if"]
    text = bench.run(
        bench.reprise, *words, "--allocators", "glibc", "--json", expected=0
    ).stdout
    (image,) = json.loads(text)["images"]
    expect_equal([it["allocator"] for it in image["results"]], ["glibc", "heap", "plan"], "results")
    for site in image["what_if"]:
        expect(site["freed_at_once"] <= image["max_load"] <= site["own_lane"] <= site["pooled"], site)
    for result in image["results"]:
        found = result["pins"]
        held = sum(it["hostage_bytes"] for it in found["sites"])
        expect(len(found["sites"]) == 20 or held == found["held_bytes"] - found["live_bytes"], found)
        if found["held_bytes"] == found["live_bytes"]:
            expect_equal(found["sites"], [], "holders where there is no waste")
        if result["allocator"] != "plan":
            expect_equal(found["held_bytes"], result["footprint"], "the highest moment")
    table = bench.run(bench.reprise, *words, "--allocators", "glibc", expected=0).stdout.decode()
    expect("\nplan held most at event " in table, table)
    wastes = found["held_bytes"] > found["live_bytes"]  # the plan, which comes last
    expect_equal(", all of it live\n" in table, not wastes, table)
    bench.record(["/bin/sh", "-c", "/bin/ls; /bin/true"], name="many", expected=0)
    table = bench.run(bench.reprise, "compare", bench.scratch / "many", "--pins", "--allocators",
                      "glibc", expected=0).stdout.decode()
    expect("-ls.trace\n\nglibc held most at event " in table, table)


def diff(bench):
    """What grew is named, by site and thread; plans and recordings do not mix."""
    for name, sql in (("one", SQL), ("two", SQL + "select replace(hex(zeroblob(300000)), '0', 'x');")):
        bench.record(["/usr/bin/sqlite3", ":memory:", sql], name=name, expected=0)
        bench.plan(name, "plan-" + name)
    one, two = bench.scratch / "one", bench.scratch / "two"
    found = json.loads(bench.run(bench.reprise, "diff", one, two, "--json", expected=0).stdout)
    expect_equal(found["kind"], "recordings", "kind")
    infos = [bench.info(name) for name in ("one", "two")]
    for side, info in zip(("first", "second"), infos):
        expect_equal(found["max_load"][side], info["max_load"], side)
        peak = sum(it[side] for it in found["sites"])
        expect_equal(peak, info["requested_max_load"], f"{side}: sites at the peak")
    expect(found["sites"][0]["change"] > 300000, found["sites"][0])
    expect("sqlite" in found["sites"][0]["name"], found["sites"][0])
    changes = [it["change"] for it in found["sites"]]
    expect_equal(changes, sorted(changes, reverse=True), "order")
    same = json.loads(bench.run(bench.reprise, "diff", one, one, "--json", expected=0).stdout)
    expect(all(it["change"] == 0 for it in same["sites"] + same["threads"]), same)
    plans = [bench.scratch / "plan-one", bench.scratch / "plan-two"]
    found = json.loads(bench.run(bench.reprise, "diff", *plans, "--json", expected=0).stdout)
    expect_equal(found["kind"], "plans", "kind")
    expect(found["arena_bytes"]["change"] > 0, found)
    expect_equal(bench.run(bench.reprise, "diff", one, plans[0]).status, 3, "a trace and a plan")
    expect_equal(bench.run(bench.reprise, "diff", one, "absent").status, 4, "absent")


def diff_images(bench):
    """Of recordings of several processes every one is compared with its like."""
    shell = "/usr/bin/sqlite3 :memory: 'select {0};'; /bin/ls > /dev/null; {1}"
    for name, count, more in (("one", 1, ""), ("two", "randomblob(500000)", "/bin/true")):
        bench.record(["/bin/sh", "-c", shell.format(count, more)], name=name, expected=0)
        bench.plan(name, "plan-" + name)
    for kind, prefix in (("recordings", ""), ("plans", "plan-")):
        sides = [bench.scratch / (prefix + name) for name in ("one", "two")]
        found = json.loads(bench.run(bench.reprise, "diff", *sides, "--json", expected=0).stdout)
        expect_equal(found["kind"], kind, "kind")
        images = {it["name"].split(" / ")[0].split("-", 1)[1]: it for it in found["images"]}
        for program in ("sqlite3", "ls", "true"):
            expect(program in images, f"no {program}: {images}")
        expect(images["sqlite3"]["change"] > 400000, images["sqlite3"])
        expect_equal(images["ls"]["change"], 0, "ls")
        expect_equal(images["true"]["first"], 0, "a process that only the second has")
        for side, name in (("first", "one"), ("second", "two")):
            expect_equal(found["max_load"][side], bench.info(name)["max_load"], side)
    # Plans among the traces of a folder are not what is compared.
    for name in ("one", "two"):
        for plan in (bench.scratch / ("plan-" + name)).glob("*.plan"):
            shutil.copy(plan, bench.scratch / name)
        mixed = bench.run(bench.reprise, "diff", bench.scratch / "one", bench.scratch / "two", "--json",
                          expected=0).stdout
        expect_equal(json.loads(mixed)["kind"], "recordings", "kind")
    both = bench.run(bench.reprise, "diff", bench.scratch / "one", sides[1], "--json", expected=0).stdout
    expect_equal(json.loads(both)["kind"], "plans", "kind")
    table = bench.run(bench.reprise, "diff", *sides, expected=0).stdout.decode()
    expect("process images, max load" in table, table)


def on_terminal(bench, *words):
    """What a command writes to a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([bench.reprise, *map(str, words)], stdout=subprocess.DEVNULL,
                          stderr=theirs, env=bench.environment) as child:
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 1 << 16):
                written += piece
        except OSError:  # the other end is closed
            pass
        expect_equal(child.wait(), 0, f"{words}: exit status")
    os.close(ours)
    return written.decode()


def progress(bench):
    """A terminal is told what goes on, in one line that is gone at the end; nobody else is."""
    bench.record(["/usr/bin/sqlite3", ":memory:", SQL], expected=0)
    recording, page = bench.scratch / "recording", bench.scratch / "page.html"
    for words, said in (
        (["compare", recording, "--allocators", "glibc,jemalloc"], "glibc"),
        (["report", recording, "-o", page], "reading"),
        (["plan", recording, "-o", bench.scratch / "plan", "--budget", "0.5"], ""),
    ):
        written = on_terminal(bench, *words)
        lines = re.split(r"\r(?:\x1b\[K)?", written)
        expect(any(said in line for line in lines), f"{words}: {written!r}")
        expect(all(len(line) < 80 and "\n" not in line for line in lines), f"{words}: {written!r}")
        expect_equal(lines[-1], "", f"{words}: left behind")
        quiet = bench.run(bench.reprise, *words, expected=0)
        expect_equal(quiet.stderr, b"", f"{words}: not a terminal")


if __name__ == "__main__":
    main(
        {
            "trace": trace,
            "instance": instance,
            "hostile": hostile,
            "another_allocator": another_allocator,
            "live": live,
            "live_verdict": live_verdict,
            "live_failures": live_failures,
            "pins": pins,
            "progress": progress,
            "limited": limited,
            "diff": diff,
            "diff_images": diff_images,
        }
    )
