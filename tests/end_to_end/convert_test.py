"""`reprise convert`: what goes out and comes back in is the same, and viewers open what they get."""

import json
import os
import pathlib

from harness import Skip, expect, expect_equal, main

LONG = os.environ.get("REPRISE_LONG_TESTS") == "1"
PLACED = 'id,lower,upper,size,offset\na,0,4,64,0\n"b, c",1,3,32,64\nd,3,9,4096,64\n'


def mondrian(bench):
    """CSV → Mondrian JSON → CSV keeps names, lifetimes, sizes and offsets."""
    first, middle, last = (bench.work / name for name in ("a.csv", "b.tracealloc.json", "c.csv"))
    first.write_text(PLACED)
    bench.run(bench.reprise, "convert", first, middle, expected=0)
    bench.run(bench.reprise, "convert", middle, last, expected=0)
    expect_equal(last.read_text(), PLACED, "the CSV that came back")
    bench.run(bench.reprise, "check", first, last, expected=0)
    again = bench.work / "d.tracealloc.json"
    bench.run(bench.reprise, "convert", middle, again, expected=0)
    one, two = (json.loads(path.read_text()) for path in (middle, again))
    expect_equal(one["segments"][0]["allocations"], two["segments"][0]["allocations"], "JSON")

    unplaced = bench.work / "unplaced.csv"
    unplaced.write_text("id,lower,upper,size\na,0,4,64\n")
    outcome = bench.run(bench.reprise, "convert", unplaced, again)
    expect_equal(outcome.status, 3, "no offsets")
    expect(b"unplaced.csv:2: expected an offset" in outcome.stderr, outcome.stderr)


def named_buffers(bench):
    """What `info`, `diff` and exports say of an instance's buffers: names, times, offsets."""
    first, second = bench.work / "first.csv", bench.work / "second.csv"
    first.write_text(PLACED)
    second.write_text(PLACED.replace("4096,64", "8192,128"))
    info = json.loads(bench.run(bench.reprise, "info", first, "--json", expected=0).stdout)
    expect_equal((info["peak_time"], info["fixed_offsets"]), (3, 3), "the peak, and offsets")
    expect_equal(info["top_buffers"][0],
                 {"id": "d", "bytes": 4096, "lower": 3, "upper": 9, "offset": 64}, "the largest")
    words = bench.run(bench.reprise, "info", first, expected=0).stdout.decode()
    expect("at time 3" in words and "  d\n" in words, words)
    bench.run(bench.reprise, "convert", first, "out.collapsed", expected=0)
    expect(";d 4096\n" in (bench.work / "out.collapsed").read_text(), "a name in a flame graph")
    bench.run(bench.reprise, "convert", first, "first.tracealloc.json", expected=0)
    other = bench.work / "first.tracealloc.json"
    bench.run(bench.reprise, "info", other, expected=0)
    for before in (first, other):
        out = bench.run(bench.reprise, "diff", before, second, "--json", expected=0).stdout
        change = json.loads(out)
        expect_equal([(row["name"], row["change"]) for row in change["buffer_sizes"]
                      if row["change"]], [("d", 4096)], "sizes")
        expect_equal([(row["name"], row["change"]) for row in change["buffer_offsets"]
                      if row["change"]], [("d", 64)], "offsets")
    lines = bench.run(bench.reprise, "diff", first, second, expected=0).stdout.decode().splitlines()
    expect(max(map(len, lines)) <= 80, f"lines wider than 80 columns: {lines}")
    outcome = bench.run(bench.reprise, "diff", first, "/bin/ls")
    expect_equal(outcome.status, 3, "an instance and something else")


def trace_with_plan(bench):
    """A trace and its plan become Mondrian JSON in which no two blocks overlap."""
    bench.record(["/bin/ls", "/"], expected=0)
    bench.plan()
    path = bench.work / "t.tracealloc.json"
    words = [bench.reprise, "convert", bench.scratch / "recording", path]
    expect_equal(bench.run(*words).status, 2, "without a plan")
    bench.run(*words, "--plan", bench.scratch / "plan", expected=0)
    (segment,) = json.loads(path.read_text())["segments"]
    blocks = segment["allocations"]
    expect_equal(len(blocks), bench.info()["buffers"], "blocks")
    for i, a in enumerate(blocks):
        for b in blocks[:i]:
            apart = (
                a["alive_till"] <= b["alive_from"]
                or b["alive_till"] <= a["alive_from"]
                or a["offset"] + a["size"] <= b["offset"]
                or b["offset"] + b["size"] <= a["offset"]
            )
            expect(apart, f"{a} and {b} overlap")
    expect_equal(max(it["offset"] + it["size"] for it in blocks), segment["size"], "size")


def android(bench):
    """Trace → Android text → trace: the same blocks in the same order."""
    bench.record(["/usr/bin/sqlite3", ":memory:", "select 1;"], expected=0)
    text, back = bench.work / "a.txt", bench.work / "b.trace"
    bench.run(bench.reprise, "convert", bench.scratch / "recording", text, expected=0)
    bench.run(bench.reprise, "convert", text, back, expected=0)
    tables = []
    for path in (bench.scratch / "recording", back):
        table = bench.work / "table.csv"
        bench.run(bench.reprise, "convert", path, table, expected=0)
        tables.append(table.read_text())
    expect_equal(tables[1], tables[0], "the instance")


def exports(bench):
    """Each format for a viewer is written, and tells the same bytes."""
    bench.record(["/usr/bin/sqlite3", ":memory:", "select 1;"], expected=0)
    written = {}
    for name in ("o.perfetto.json", "o.collapsed", "o.speedscope.json", "o.dhat.json",
                 "o.heaptrack.txt"):
        path = bench.work / name
        bench.run(bench.reprise, "convert", bench.scratch / "recording", path, expected=0)
        written[name] = path.read_text()
    info = bench.info()
    dhat = json.loads(written["o.dhat.json"])
    expect_equal(sum(it["tb"] for it in dhat["pps"]), info["sum_bytes"], "DHAT: bytes in all")
    expect_equal(sum(it["tbk"] for it in dhat["pps"]), info["buffers"], "DHAT: blocks")
    peak = sum(it["gb"] for it in dhat["pps"])
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in written["o.collapsed"].splitlines())
    expect_equal(folded, peak, "collapsed: bytes at the peak")
    scope = json.loads(written["o.speedscope.json"])["profiles"][0]
    expect_equal(scope["endValue"], peak, "speedscope: bytes at the peak")
    counters = [it for it in json.loads(written["o.perfetto.json"])["traceEvents"]
                if it["name"] == "live bytes"]
    expect_equal(max(it["args"]["bytes"] for it in counters), info["requested_max_load"],
                 "Perfetto: highest counter")
    expect(f"{info['requested_max_load']} B" in written["o.heaptrack.txt"], "summary")
    for name in ("perfetto", "dhat", "collapsed", "speedscope", "heaptrack"):
        outcome = bench.run(bench.reprise, "convert", "o.collapsed", "x.csv", "--from", name)
        expect_equal(outcome.status, 2, f"{name} as input")


def links(bench):
    """A link stays, and the file behind it is replaced; what is open already is written to."""
    first = bench.work / "first.csv"
    first.write_text(PLACED)
    folder = bench.work / "folder"
    folder.mkdir()
    (folder / "old").write_text("old")
    for name, target in (("old.csv", "folder/old"), ("new.csv", "folder/new")):
        (bench.work / name).symlink_to(target)
        bench.run(bench.reprise, "plan", first, "-o", name, expected=0)
        expect((bench.work / name).is_symlink(), f"{name} is no link any more")
        expect_equal((bench.work / target).read_text(), PLACED, target)
    bench.record(["/bin/ls", "/"], expected=0)
    for name in ("l.trace", "l.plan"):
        (bench.work / name).symlink_to(f"folder/{name}")
    (trace,) = (bench.scratch / "recording").glob("*.trace")
    bench.run(bench.reprise, "convert", trace, "l.trace", expected=0)
    bench.run(bench.reprise, "plan", "l.trace", "-o", "l.plan", expected=0)
    bench.run(bench.reprise, "check", folder / "l.trace", folder / "l.plan", expected=0)
    bench.run(bench.reprise, "convert", first, "first.tracealloc.json", expected=0)
    for word in ("/proc/self/fd/1", "/dev/fd/1"):
        script = f'"$0" convert first.csv {word} --to mondrian > streamed'
        bench.run("/bin/sh", "-c", script, bench.reprise, expected=0)
        written = [(bench.work / it).read_text() for it in ("streamed", "first.tracealloc.json")]
        expect_equal(written[0], written[1], word)


def dhat_viewer(bench):
    """Valgrind's own viewer opens the DHAT file."""
    page = next((path for path in map(pathlib.Path, ("/usr/libexec/valgrind/dh_view.html",
                                                     "/usr/lib/valgrind/dh_view.html"))
                 if path.exists()), None)
    if page is None:
        raise Skip("valgrind is not installed")
    from report_test import Browser

    bench.record(["/usr/bin/sqlite3", ":memory:", "select 1;"], expected=0)
    path = bench.work / "o.dhat.json"
    bench.run(bench.reprise, "convert", bench.scratch / "recording", path, expected=0)
    with Browser(page, ready="document.querySelector('input[type=file]')") as browser:
        browser.driver.find_element("css selector", "input[type=file]").send_keys(str(path))
        browser.wait("document.body.innerText.includes('sqlite3')")
        shown = browser.run("return document.body.innerText")
        expect("Error" not in shown, shown[:500])
        expect(f"{bench.info()['sum_bytes']:,} bytes" in shown, shown[:800])
        expect_equal(browser.complaints(), [], "messages of the browser")


def streams(bench):
    """A trace may be larger than the memory of who reads it: twenty times the events take no more.

    With REPRISE_LONG_TESTS=1 `info` reads 100 million events in ten seconds.
    """

    def recorded(events):
        name = f"of{events}"
        program = [bench.build / "bin" / "micro_malloc", "live_set", "--events", events]
        bench.record(program, name, expected=0)
        (trace,) = (bench.scratch / name).glob("*.trace")
        return trace

    def cost(*words):
        path = bench.scratch / "cost"
        bench.run(bench.build / "bin" / "cpu_time", path, bench.reprise, *words, expected=0)
        return json.loads(path.read_text())

    def resident(events):
        trace = recorded(events)
        for words in (["info", trace], ["convert", trace, "a.csv"], ["convert", trace, "a.trace"]):
            yield " ".join(map(str, words[::2])), cost(*words)["rss"]

    few, many = resident(100_000), resident(2_000_000)
    for (what, before), (_, after) in zip(list(few), list(many)):
        # 48 bytes for each of the million blocks would be 46 MiB.
        expect(after - before < 24 << 20, f"{what}: {before >> 10} KiB, then {after >> 10} KiB")
    if LONG:
        large = cost("info", recorded(100_000_000))
        expect(large["cpu"] <= 10 and large["rss"] <= 200_000_000, f"100 million events: {large}")


def mondrian_bad_input(bench):
    """One line names what is wrong, and nothing is left behind."""
    wrong = {
        "{": "expected a string, found end of input",
        '{"schema_version":2}': "schema_version: expected 1, found 2",
        '{"schema_version":1,"segments":[{"allocations":[{"size":1}]}]}': "alive_from: expected",
    }
    for number, (text, message) in enumerate(wrong.items()):
        path = bench.work / f"w{number}.json"
        path.write_text(text)
        outcome = bench.run(bench.reprise, "convert", path, "out.csv")
        expect_equal(outcome.status, 3, text)
        lines = outcome.stderr.decode().splitlines()
        expect(len(lines) == 1 and message in lines[0], lines)
        expect(not (bench.work / "out.csv").exists(), "a file was left behind")


if __name__ == "__main__":
    main(
        {
            "mondrian": mondrian,
            "named_buffers": named_buffers,
            "trace_with_plan": trace_with_plan,
            "android": android,
            "exports": exports,
            "links": links,
            "dhat_viewer": dhat_viewer,
            "mondrian_bad_input": mondrian_bad_input,
            "streams": streams,
        }
    )
