"""Loops on the command line: CSV with --period, graphs with a loop; planned, checked, refused."""

import json

from harness import expect, expect_equal, main

NO, USAGE, BAD_INPUT = 1, 2, 3

LOOP = """id,lower,upper,size
a,6,12,4
b,8,11,2
c,3,6,6
state,2,25,8
empty,1,2,0
d,0,2,1
"""

STEP = {
    "nodes": [{"id": "mul"}, {"id": "add"}],
    "order": ["mul", "add"],
    "tensors": [{"id": "h0", "consumers": ["add"], "bytes": 64},
                {"id": "h1", "producer": "mul", "bytes": 64}],
    "loop": {"body": ["mul", "add"], "carried": [["h1", "h0"]]},
}


def write(bench, name, text):
    (bench.work / name).write_text(text if isinstance(text, str) else json.dumps(text))
    return name


def refused(bench, status, message, *words):
    outcome = bench.run(bench.reprise, *words)
    expect_equal((outcome.status, outcome.stderr.decode().strip(), outcome.stdout),
                 (status, "reprise: " + message, b""), f"{words}")


def csv(bench):
    """A plan has an offset for each slot, and check and info see the steady state."""
    write(bench, "loop.csv", LOOP)
    plan = json.loads(bench.run(bench.reprise, "plan", "loop.csv", "--period", 10, "--json",
                                expected=0).stdout)
    expect_equal([plan[name] for name in ("buffers", "slots", "period", "max_load", "makespan")],
                 [6, 7, 10, 30, 31], "figures")
    expect(plan["proven_optimal"], "optimal")
    rows = [row.split(",") for row in (bench.work / "loop.plan.csv").read_text().splitlines()]
    expect_equal([len(row[4].split()) for row in rows[1:]], [1, 1, 1, 3, 1, 1], "offsets")
    verdict = json.loads(bench.run(bench.reprise, "check", "loop.csv", "loop.plan.csv", "--period",
                                   10, "--json", expected=0).stdout)
    expect_equal(verdict, {"valid": True, "makespan": 31, "max_load": 30, "violations": []}, "check")
    info = json.loads(bench.run(bench.reprise, "info", "loop.csv", "--period", 10, "--json",
                                expected=0).stdout)
    names = ("buffers", "max_load", "peak_time", "period", "slots", "crossing_buffers",
             "crossing_bytes")
    expect_equal([info[name] for name in names], [6, 30, 3, 10, 7, 3, 22], "info")
    text = bench.run(bench.reprise, "info", "loop.csv", "--period", 10, expected=0).stdout.decode()
    expect("10, 7 slots" in text, f"info as text: {text}")


def tampered(bench):
    """A slot that is moved onto something else is found, and named."""
    write(bench, "loop.csv", LOOP)
    bench.run(bench.reprise, "plan", "loop.csv", "--period", 10, expected=0)
    plan = (bench.work / "loop.plan.csv").read_text()
    offsets = next(row for row in plan.splitlines() if row.startswith("state")).split(",")[4].split()
    offsets[2] = offsets[1]
    bad = [f"state,2,25,8,{' '.join(offsets)}" if row.startswith("state") else row
           for row in plan.splitlines()]
    write(bench, "bad.csv", "\n".join(bad) + "\n")
    outcome = bench.run(bench.reprise, "check", "loop.csv", "bad.csv", "--period", 10, "--json")
    expect_equal(outcome.status, NO, "status")
    violation = json.loads(outcome.stdout)["violations"][0]
    expect_equal((violation["first"], violation["second"]), ("state", "state"), "violation")
    expect("in slot 1 of 3" in violation["message"], violation["message"])


def bad_csv(bench):
    """What is no loop is refused in one line."""
    write(bench, "loop.csv", LOOP)
    bench.run(bench.reprise, "plan", "loop.csv", "--period", 10, expected=0)
    late = "loop.csv: buffer 'b' in line 3: expected lower in [0, 8), the period, found 8"
    for words in (["plan", "loop.csv"], ["check", "loop.csv", "loop.plan.csv"], ["info", "loop.csv"]):
        refused(bench, BAD_INPUT, late, *words, "--period", 8)
    for text in ("0", "-1", "x", "1.5"):
        refused(bench, USAGE, f"--period: expected a whole number from 1 on, found '{text}' "
                "(see `reprise help plan`)", "plan", "loop.csv", "--period", text)
    refused(bench, BAD_INPUT, "loop.plan.csv:5: expected a whole number from 0 to 2^63 - 1 for "
            "offset (plans made with --period have several), found '0 8 16'",
            "check", "loop.csv", "loop.plan.csv")
    write(bench, "few.csv", (bench.work / "loop.plan.csv").read_text().replace("0 8 16", "0 8"))
    refused(bench, BAD_INPUT, "few.csv:5: expected 3 offsets, one for each copy that is live at one "
            "time, found 2", "check", "loop.csv", "few.csv", "--period", 10)
    write(bench, "fixed.csv", "id,lower,upper,size,offset\na,0,5,8,0\nb,1,15,8,64\n")
    refused(bench, BAD_INPUT, "fixed.csv: buffer 'b' in line 3: it is live for more than a period, "
            "so it has 2 offsets in turn: expected no fixed offset, found 64",
            "plan", "fixed.csv", "--period", 10)
    write(bench, "gaps.csv", "id,lower,upper,size,gaps\nb,1,15,8,3-4\n")
    refused(bench, BAD_INPUT, "gaps.csv: buffer 'b' in line 2: it is live for more than a period, so "
            "it has 2 offsets in turn: expected no gaps", "plan", "gaps.csv", "--period", 10)
    write(bench, "empty.csv", "id,lower,upper,size\nb,1,5,8\nz,12,15,0\n")
    refused(bench, BAD_INPUT, "empty.csv: buffer 'z' in line 3: expected lower in [0, 10), the "
            "period, found 12", "plan", "empty.csv", "--period", 10)
    refused(bench, NO, "loop.csv: does not fit into 30 bytes: at least 31 needed",
            "plan", "loop.csv", "--period", 10, "--capacity", 30)
    write(bench, "g.json", STEP)
    refused(bench, USAGE, "--period applies to CSV instances only", "plan", "g.json", "--period", 3)


def graph(bench):
    """What is carried has one offset, or two in turn; the checker sees where it is read."""
    write(bench, "g.json", STEP)
    plan = json.loads(bench.run(bench.reprise, "plan", "g.json", "--json", expected=0).stdout)
    expect_equal([plan[name] for name in ("max_load", "makespan", "slots")], [128, 128, 4], "plan")
    bench.run(bench.reprise, "check", "g.json", "g.plan.json", expected=0)
    file = json.loads((bench.work / "g.plan.json").read_text())
    offsets = {tensor["id"]: tensor["offsets"] for tensor in file["tensors"]}
    expect_equal(offsets["h0"], offsets["h1"][::-1], "what is read is what was made")
    for tensor in file["tensors"]:
        tensor["offsets"] = offsets["h1"]
    write(bench, "bad.json", file)
    outcome = bench.run(bench.reprise, "check", "g.json", "bad.json", "--json")
    expect_equal(outcome.status, NO, "status")
    message = json.loads(outcome.stdout)["violations"][0]["message"]
    expect("one iteration before" in message, message)


def bad_graph(bench):
    """Loops that are not understood are refused in one line."""
    def loop(value):
        write(bench, "g.json", {**STEP, "loop": value})
        return "plan", "g.json"

    refused(bench, BAD_INPUT, "g.json: loop: expected an object, found 3", *loop(3))
    refused(bench, BAD_INPUT, "g.json: loop.body: expected a list, found none", *loop({"carried": []}))
    refused(bench, BAD_INPUT, "g.json: expected known fields, found 'times' in loop; "
            "--ignore-unknown ignores unknown fields", *loop({"body": ["mul", "add"], "times": 3}))
    refused(bench, BAD_INPUT, "g.json: loop.carried[0]: expected a list of two tensors, found a list "
            "of 1", *loop({"body": ["mul", "add"], "carried": [["h1"]]}))
    refused(bench, BAD_INPUT, "g.json: loop.carried[0][1]: expected the id of a tensor, found 'h9'",
            *loop({"body": ["mul", "add"], "carried": [["h1", "h9"]]}))
    refused(bench, BAD_INPUT, "g.json: loop.body: expected all nodes: the graph is the body, found "
            "all but node 'add'", *loop({"body": ["mul"]}))
    tensors = [{"id": "w", "bytes": 8}, {"id": "v", "producer": "mul", "alias_of": "w", "bytes": 8}]
    for stated, found in (({"in_place": True}, ", which overwrites it"),
                          ({}, '; add "in_place": false if it is a view')):
        write(bench, "g.json", {**STEP, "loop": {"body": ["mul", "add"]},
                                "tensors": [tensors[0], {**tensors[1], **stated}]})
        refused(bench, BAD_INPUT, "g.json: loop: expected tensor 'w', which is the same in all "
                "iterations, not to be overwritten, found tensor 'v'" + found, "plan", "g.json")
    whole = [{"id": "y", "producer": "add", "bytes": 16},
             {"id": "x", "consumers": ["add"], "alias_of": "y", "in_place": False, "bytes": 8}]
    write(bench, "g.json", {**STEP, "loop": {"body": ["mul", "add"]}, "tensors": whole})
    refused(bench, BAD_INPUT, "g.json: loop: expected parts that a node produces of what a node "
            "produces, found tensor 'y', of which a part is there from before", "plan", "g.json")
    write(bench, "g.json", STEP)
    refused(bench, USAGE, "g.json: --order: a graph with a loop keeps its order; expected given or "
            "auto, found reorder", "plan", "g.json", "--order", "reorder")
    for words in (["info", "g.json"], ["report", "g.json", "-o", "page.html"],
                  ["convert", "g.json", "g.csv"]):
        loop({"body": ["mul"]})
        refused(bench, BAD_INPUT, "g.json: loop.body: expected all nodes: the graph is the body, found "
                "all but node 'add'", *words)


def output_view(bench):
    """An output that is a view of what the last node makes is no part of it that was there before."""
    tensors = [{"id": "y", "producer": "add", "bytes": 16},
               {"id": "v", "alias_of": "y", "in_place": False, "output": True, "bytes": 8}]
    write(bench, "g.json", {**STEP, "loop": {"body": ["mul", "add"]}, "tensors": tensors})
    plan = json.loads(bench.run(bench.reprise, "plan", "g.json", "--json", expected=0).stdout)
    expect_equal((plan["max_load"], plan["makespan"]), (16, 16), "plan")


def shown_graph(bench):
    """info, report and convert show two iterations of a loop: its steady state, and what is carried,
    at the offsets of a plan."""
    write(bench, "g.json", STEP)
    plan = json.loads(bench.run(bench.reprise, "plan", "g.json", "--json", expected=0).stdout)
    info = json.loads(bench.run(bench.reprise, "info", "g.json", "--json", expected=0).stdout)
    expect_equal((info["max_load"], info["buffers"], info["operators"], info["iterations"]),
                 (plan["max_load"], plan["buffers"], 4, 2), "info")
    text = bench.run(bench.reprise, "info", "g.json", expected=0).stdout.decode()
    expect("4 in 1 stream: a loop, shown for 2 iterations" in text, text)
    bench.run(bench.reprise, "convert", "g.json", "placed.json", "--to", "mondrian", "--plan",
              "g.plan.json", expected=0)
    bench.run(bench.reprise, "convert", "placed.json", "g.csv", expected=0)
    rows = [row.split(",") for row in (bench.work / "g.csv").read_text().splitlines()]
    ids = {row[0]: dict(zip(rows[0], row)) for row in rows[1:]}
    carried = [ids[name]["offset"] for name in
               ("h0 in iteration 0", "h1 in iteration 0", "h1 in iteration 1")]
    expect_equal((carried[0], carried[1] != carried[0]), (carried[2], True), "offsets in turn")
    check = bench.run(bench.reprise, "check", "g.csv", "g.csv", "--json", expected=0).stdout
    expect_equal(json.loads(check)["max_load"], plan["max_load"], "two iterations as a table")
    bench.run(bench.reprise, "report", "g.json", "--plan", "g.plan.json", "-o", "page.html",
              expected=0)
    expect("h1 in iteration 1" in (bench.work / "page.html").read_text(), "no second iteration")


if __name__ == "__main__":
    main({"csv": csv, "tampered": tampered, "bad_csv": bad_csv, "graph": graph,
          "bad_graph": bad_graph, "output_view": output_view, "shown_graph": shown_graph})
