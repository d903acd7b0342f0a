"""Graphs on the command line: planned, checked, tampered with; and what is no graph."""

import json
import random

from harness import Failure, expect, expect_equal, main

NO, USAGE, BAD_INPUT = 1, 2, 3

# Two streams; x is read by both, so w may not take its memory, and y may.
EXAMPLE = {
    "nodes": [{"id": "n1", "stream": 0, "order": 1}, {"id": "n2", "stream": 0, "order": 2},
              {"id": "n3", "stream": 1, "order": 1}, {"id": "n4", "stream": 0, "order": 3}],
    "tensors": [{"id": "x", "producer": "n1", "consumers": ["n2", "n3"], "bytes": 512},
                {"id": "w", "producer": "n2", "consumers": ["n4"], "bytes": 256},
                {"id": "y", "producer": "n3", "consumers": ["n4"], "bytes": 128},
                {"id": "z", "producer": "n4", "bytes": 512}],
}


def random_graph(seed, nodes=60, streams=3):
    source = random.Random(seed)
    graph = {"nodes": [], "tensors": [], "groups": []}
    for i in range(nodes):
        graph["nodes"].append({"id": i, "stream": source.randrange(streams), "order": i})
        for _ in range(source.randrange(3)):
            readers = [source.randrange(i, min(nodes, i + 20)) for _ in range(source.randrange(3))]
            graph["tensors"].append({"id": f"t{len(graph['tensors'])}", "producer": i,
                                     "consumers": readers, "bytes": source.randrange(5000)})
    names = [t["id"] for t in graph["tensors"]]
    source.shuffle(names)
    graph["groups"] = [names[0:3], names[3:5]]
    return graph


def write(bench, graph, name="g.json"):
    path = bench.work / name
    path.write_text(graph if isinstance(graph, str) else json.dumps(graph))
    return str(path)


def plan(bench, path, *options, budget="1"):
    """The JSON of a plan and the plan file, checked."""
    outcome = bench.run(bench.reprise, "plan", path, "--json", "--budget", budget, *options)
    expect_equal((outcome.status, outcome.stderr), (0, b""), f"plan {options}")
    file = path.replace(".json", ".plan.json")
    check = bench.run(bench.reprise, "check", path, file, "--json")
    expect_equal(check.status, 0, f"check of {options}: {check.stdout}")
    found, verdict = json.loads(outcome.stdout), json.loads(check.stdout)
    expect(verdict["valid"] and verdict["violations"] == [], f"valid: {verdict}")
    expect_equal(verdict["makespan"], found["makespan"], "makespan of the checker")
    expect_equal(verdict["max_load"], found["max_load"], "max load of the checker")
    return found, json.loads((bench.work / file).read_text())


def plan_and_check(bench):
    path = write(bench, EXAMPLE)
    found, file = plan(bench, path)
    for field in ("buffers max_load lower_bound makespan fragmentation fragmentation_percent strategy "
                  "proven_optimal seconds seed unsafe_pairs streams order_changed given_max_load "
                  "order_lower_bound order_strategy").split():
        expect(field in found, f"field {field} in {found}")
    expect_equal((found["streams"], found["unsafe_pairs"], found["order_changed"]), (2, 5, False),
                 "streams, pairs, order")
    offsets = {t["id"]: t["offset"] for t in file["tensors"]}
    expect_equal(sorted(offsets), ["w", "x", "y", "z"], "tensors of the plan")
    expect_equal(file["order"], ["n1", "n2", "n3", "n4"], "order of the plan")


def tampered_plans_are_refused(bench):
    path = write(bench, EXAMPLE)
    plan(bench, path)
    file = bench.work / "g.plan.json"
    good = json.loads(file.read_text())
    for tensor, offset, word in [("w", None, "share the bytes"), ("z", -1, "expected")]:
        bad = json.loads(json.dumps(good))
        offsets = {t["id"]: t for t in bad["tensors"]}
        offsets[tensor]["offset"] = offsets["x"]["offset"] if offset is None else offset
        file.write_text(json.dumps(bad))
        outcome = bench.run(bench.reprise, "check", path, str(file))
        expected = NO if offset is None else BAD_INPUT
        expect_equal(outcome.status, expected, f"{tensor} moved")
        expect(word in (outcome.stdout + outcome.stderr).decode(), f"{word} in {outcome}")


def strategies_and_safety(bench):
    path = write(bench, random_graph(1))
    pairs = set()
    for options in [("--safety", "ancestor"), ("--safety", "stream_graph"),
                    ("--strategy", "somas_many_first"), ("--strategy", "first_fit_by_unsafe"),
                    ("--strategy", "tvm_hill_climb", "--iterations", "20"),
                    ("--order", "reorder"), ("--order", "olla_ilp"), ("--strategy", "reorder"),
                    ("--strategy", "olla_ilp")]:
        found, _ = plan(bench, path, *options)
        if not found["order_changed"]:
            pairs.add(found["unsafe_pairs"])
    expect_equal(len(pairs), 1, "the same pairs from both algorithms")
    # What needs lifetimes says so.
    outcome = bench.run(bench.reprise, "plan", path, "--strategy", "peak_sweep")
    expect_equal(outcome.status, USAGE, "peak_sweep on streams")
    expect(b"needs lifetimes" in outcome.stderr, f"{outcome.stderr}")
    # On one stream it is at home.
    single = write(bench, {**random_graph(1, streams=1), "groups": []}, "single.json")
    found, _ = plan(bench, single, "--strategy", "peak_sweep")
    expect_equal(found["streams"], 1, "streams")


def same_seed_same_bytes(bench):
    path = write(bench, random_graph(5))
    texts = set()
    for threads in ("1", "2"):
        for order in ("given", "reorder"):
            plan(bench, path, "--iterations", "4", "--seed", "9", "--threads", threads, "--order",
                 order, budget="1000")
            texts.add((order, (bench.work / "g.plan.json").read_bytes()))
    expect_equal(len(texts), 2, "plans for two orders")


def without_an_order_one_is_found(bench):
    # Both producers first would need 2,000 bytes.
    graph = {"nodes": [{"id": i} for i in ("a", "b", "ra", "rb")],
             "tensors": [{"id": "A", "producer": "a", "consumers": ["ra"], "bytes": 1000},
                         {"id": "B", "producer": "b", "consumers": ["rb"], "bytes": 1000}]}
    found, file = plan(bench, write(bench, graph))
    expect_equal((found["makespan"], found["order_changed"]), (1000, True), "makespan, changed")
    place = file["order"].index
    expect(place("a") < place("ra") and place("b") < place("rb"), f"{file['order']}")


def bad_graphs(bench):
    def with_(**changes):
        return {**EXAMPLE, **changes}

    cycle = json.loads(json.dumps(EXAMPLE))
    cycle["tensors"].append({"id": "back", "producer": "n4", "consumers": ["n1"], "bytes": 1})
    twice = json.loads(json.dumps(EXAMPLE))
    twice["nodes"][1]["order"] = 1
    rows = [
        ("{", "expected a string, found end of input"),
        ("{}", "nodes: expected a list, found none"),
        (cycle, "found 'n1' -> "),
        (twice, "nodes 'n1' and 'n2': expected an order of its own"),
        (with_(groups=[["x", "w"], ["w", "y"]]), "tensor 'w' of groups[0]"),
        (with_(order=["n1", "n2"]), "found no node 'n3'"),
        (with_(tensors=[{"id": "t", "producer": "nx", "bytes": 1}]), "found 'nx'"),
        (with_(tensors=[{"id": "t", "producer": "n\n\x1b\x9b\u202ex", "bytes": 1}]), "found 'n????x'"),
        (with_(tensors=[{"id": "t", "bytes": 2**56}]), "tensors[0].bytes: expected a whole number from 0"),
        (with_(tensors=[{"id": "t", "bytes": 1, "alignment": 2**56}]), "tensors[0].alignment: expected"),
        (with_(tensors=[{"id": "t", "bytes": 1, "alignment": 48}]), "of tensor 't': expected a power of two"),
        (with_(tensors=[{"id": "t", "bytes": -1}]), "tensors[0].bytes: expected a whole number from 0"),
        (with_(tensors=[{"id": t, "bytes": 2**56 - 1} for t in range(40)]), "whose sum is below 2^61"),
        ('{"nodes": [], "tensors": [{"id": 1, "bytes": 1e999}]}', "tensors[0].bytes: expected a number"),
        ("[" * 80_000, "expected at most 32 lists and objects within each other"),
        ('{"nodes":' + "[" * 80_000 + "]" * 80_000 + "}", "expected at most 32 lists"),
        (with_(nodes=[{"id": n, "stream": n} for n in range(12_000)], tensors=[]),
         "found 12000 nodes in 12000 streams"),
        (with_(tensors=[{"id": "t", "bytes": 2**64}]), "tensors[0].bytes"),
    ]
    for graph, message in rows:
        path = write(bench, graph)
        outcome = bench.run(bench.reprise, "plan", path)
        lines = outcome.stderr.decode().splitlines()
        expect_equal((outcome.status, outcome.stdout, len(lines)), (BAD_INPUT, b"", 1), f"{message}: {lines}")
        expect(message in lines[0] and path in lines[0], f"{message!r} in {lines}")
        if (bench.work / "g.plan.json").exists():
            raise Failure(f"{message}: a plan was left behind")


# `scale` writes c over b, which `read` reads as well.
SCALE = {"nodes": [{"id": n} for n in ("make", "read", "scale", "sum")],
         "tensors": [{"id": "b", "producer": "make", "consumers": ["read", "scale"], "bytes": 100},
                     {"id": "r", "producer": "read", "consumers": ["sum"], "bytes": 90},
                     {"id": "c", "producer": "scale", "consumers": ["sum"], "bytes": 100, "alias_of": "b"},
                     {"id": "w", "producer": "scale", "bytes": 150}]}


def writes_in_place(bench):
    for statement, makespan in (({}, 340), ({"in_place": True}, 340), ({"in_place": False}, 250)):
        graph = json.loads(json.dumps(SCALE))
        graph["tensors"][2].update(statement)
        path = write(bench, graph)
        for order in ("auto", "reorder", "olla_ilp"):
            found, file = plan(bench, path, "--order", order)
            expect_equal(found["makespan"], makespan, f"{statement} {order}")
        # The checker finds a wrong order by itself.
        file["order"] = ["make", "scale", "read", "sum"]
        plan_file = bench.work / "g.plan.json"
        plan_file.write_text(json.dumps(file))
        outcome = bench.run(bench.reprise, "check", path, str(plan_file), "--json")
        verdict = json.loads(outcome.stdout)
        expect_equal(verdict["valid"], makespan == 250, f"{statement}: {verdict}")
        if makespan == 340:
            message = verdict["violations"][0]["message"]
            expect(all(word in message for word in ("'b'", "'read'", "'scale'")), message)
    # Another stream does not wait.
    graph = json.loads(json.dumps(SCALE))
    graph["nodes"][1]["stream"] = 1
    plan_file.unlink()
    for statement in ({}, {"in_place": True}):
        graph["tensors"][2].update(statement)
        outcome = bench.run(bench.reprise, "plan", write(bench, graph))
        text = outcome.stderr.decode()
        expect_equal((outcome.status, plan_file.exists()), (BAD_INPUT, False), text)
        expect(all(word in text for word in ("'b'", "'read'", "'scale'")), text)
        expect_equal('add "in_place": false to tensor \'c\'' in text, not statement, text)


def parts_groups_and_outputs(bench):
    concat = {"nodes": [{"id": n, "order": i} for i, n in enumerate(("cos", "sin", "cat", "sig"))],
              "tensors": [{"id": "x", "consumers": ["cos", "sin"], "bytes": 256},
                          {"id": "a", "producer": "cos", "consumers": ["cat"], "bytes": 256, "alias_of": "c"},
                          {"id": "b", "producer": "sin", "consumers": ["cat"], "bytes": 256, "alias_of": "c"},
                          {"id": "c", "producer": "cat", "consumers": ["sig"], "bytes": 512},
                          {"id": "y", "producer": "sig", "bytes": 64}]}
    for stated in (None, (0, 256), (256, 0)):
        if stated:
            concat["tensors"][1]["alias_offset"], concat["tensors"][2]["alias_offset"] = stated
        found, file = plan(bench, write(bench, concat))
        offsets = {t["id"]: t["offset"] for t in file["tensors"]}
        expect_equal(found["makespan"], 768, "makespan")
        expect_equal((offsets["a"] - offsets["c"], offsets["b"] - offsets["c"]), stated or (0, 256), "parts")
    graph = json.loads(json.dumps(EXAMPLE))
    for tensor in graph["tensors"][:2]:
        tensor.update(bytes=700, alignment=512)
    graph["groups"] = [["x", "w"]]
    _, file = plan(bench, write(bench, graph))
    offsets = {t["id"]: t["offset"] for t in file["tensors"]}
    expect_equal(offsets["w"] - offsets["x"], 1024, "side by side")
    heads = {"nodes": [{"id": n, "order": i} for i, n in enumerate(("stem", "head", "body", "tail"))],
             "tensors": [{"id": "f", "producer": "stem", "consumers": ["head", "body"], "bytes": 512},
                         {"id": "boxes", "producer": "head", "bytes": 128},
                         {"id": "h", "producer": "body", "consumers": ["tail"], "bytes": 512},
                         {"id": "scores", "producer": "tail", "bytes": 128}]}
    for output, makespan in ((False, 1024), (True, 1152)):
        heads["tensors"][1]["output"] = heads["tensors"][3]["output"] = output
        found, _ = plan(bench, write(bench, heads))
        expect_equal(found["makespan"], makespan, f"output {output}")


def unknown_fields(bench):
    graph = json.loads(json.dumps(EXAMPLE))
    graph["tensors"][0].update(align=64, persistant=True)
    graph.update(repeat={"\x1b[2J": 1})
    path = write(bench, graph)
    outcome = bench.run(bench.reprise, "plan", path)
    expect_equal((outcome.status, outcome.stdout), (BAD_INPUT, b""), "unknown fields")
    for word in ("'align' in tensors[0] (did you mean 'alignment'?)", "(did you mean 'persistent'?)", "'repeat'"):
        expect(word in outcome.stderr.decode(), f"{word} in {outcome.stderr}")
    plan_file = bench.work / "g.plan.json"
    for command in (("plan", path), ("check", path, str(plan_file))):
        outcome = bench.run(bench.reprise, *command, "--ignore-unknown")
        text = outcome.stderr.decode()
        expect_equal((outcome.status, len(text.splitlines())), (0, 1), text)
        expect(all(f"'{name}'" in text for name in ("align", "persistant", "repeat")), text)
    outcome = bench.run(bench.reprise, "check", path, str(plan_file))
    expect_equal(outcome.status, BAD_INPUT, "check without --ignore-unknown")


def empty_graphs(bench):
    for graph in ({"nodes": [], "tensors": []}, {"nodes": [{"id": 1}], "tensors": []},
                  {"nodes": [], "tensors": [{"id": "w", "bytes": 64}, {"id": "v", "bytes": 1}]}):
        found, _ = plan(bench, write(bench, graph))
        expect_equal(found["makespan"], sum(t["bytes"] for t in graph["tensors"]), f"{graph}")


main({
    "plan_and_check": plan_and_check,
    "tampered_plans_are_refused": tampered_plans_are_refused,
    "strategies_and_safety": strategies_and_safety,
    "same_seed_same_bytes": same_seed_same_bytes,
    "without_an_order_one_is_found": without_an_order_one_is_found,
    "bad_graphs": bad_graphs,
    "empty_graphs": empty_graphs,
    "writes_in_place": writes_in_place,
    "parts_groups_and_outputs": parts_groups_and_outputs,
    "unknown_fields": unknown_fields,
})
