#!/usr/bin/python3
"""Prints, for graphs, the tables 1 to 3 of SOMAS (MLSys 2023) and one on orders, as Markdown.

    bench_graphs.py --reprise build/release/bin/reprise [--budget SECONDS] [--nets FOLDER] [PRESET...]

Makes the transformer graphs itself (transformer_graph.py; all presets where none is named) and takes
the graphs of export_torch.py from FOLDER: *_streams*.json for the tables, the others for the orders,
with randomly wired networks (wired_graph.py).
Times are CPU seconds of the planning thread, without reading the graph and checking the plan. Every
plan passes `reprise check`.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import transformer_graph
import wired_graph

SINGLE = [("breadth", "Greedy Breadth"), ("size", "Greedy Size"), ("birth", "Greedy Source"),
          ("unsafe", "Greedy Unsafe")]

# The integer program is asked for graphs of so many nodes, for so long.
PROGRAM_NODES = 300
PROGRAM_SECONDS = 60


class Bench:
    def __init__(self, reprise, scratch):
        self.reprise = reprise
        self.plan_file = str(pathlib.Path(scratch) / "plan.json")

    def plan(self, graph, *options):
        """The JSON of a plan, with peak_mib of the command; checked."""
        command = [self.reprise, "plan", str(graph), "-o", self.plan_file, "--json", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit(f"bench_graphs: {' '.join(command)} failed")
        plan = json.loads(text)
        plan["peak_mib"] = usage.ru_maxrss / 1024
        check = subprocess.run([self.reprise, "check", str(graph), self.plan_file],
                               stdout=subprocess.PIPE, check=False)
        if check.returncode != 0:
            sys.exit(f"bench_graphs: {' '.join(command)}: {check.stdout.decode()}")
        return plan


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def header(*cells):
    row(*cells)
    print("|" + "---|" * len(cells), flush=True)


def best_of(bench, runs, graph, *options):
    return min((bench.plan(graph, *options) for _ in range(runs)),
               key=lambda p: p["safety_seconds"])


def safety_table(bench, graphs):
    print("\n### Multi-stream safety (the paper's table 1), CPU milliseconds, best of three\n")
    header("graph", "tensors", "streams", "unsafe pairs", "Algorithm 1opt", "Algorithm 2",
           "peak of the command")
    for name, graph in graphs:
        plans = [best_of(bench, 3, graph, "--strategy", "bump", "--order", "given", "--safety", way)
                 for way in ("ancestor", "stream_graph")]
        assert plans[0]["unsafe_pairs"] == plans[1]["unsafe_pairs"]
        peak = max(p["peak_mib"] for p in plans)
        row(name, plans[0]["buffers"], plans[0]["streams"], plans[0]["unsafe_pairs"],
            *(f"{p['safety_seconds'] * 1000:.1f}" for p in plans), f"{peak:.0f} MiB")


def offset_tables(bench, graphs, budget):
    print("\n### Offsets (tables 2 and 3): GB, CPU milliseconds in parentheses")
    columns = 7
    for i in range(0, len(graphs), columns):
        print()
        offset_table(bench, graphs[i:i + columns], budget)


def offset_table(bench, graphs, budget):
    header("", *(name for name, _ in graphs))
    given = ("--order", "given")

    def line(title, *options):
        plans = [bench.plan(graph, *given, *options) for _, graph in graphs]
        row(title, *(f"{p['makespan'] / 1e9:.4f} ({p['place_seconds'] * 1000:.0f})" for p in plans))
        return plans

    naive = [bench.plan(graph, *given, "--strategy", "bump") for _, graph in graphs]
    row("Naïve", *(f"{p['makespan'] / 1e9:.4f}" for p in naive))
    single = []
    for order, title in SINGLE:
        for fit in ("best", "first"):
            single.append(line(f"Single Object, {title}, {fit} fit", "--strategy",
                               f"{fit}_fit_by_{order}"))
    many = [line(f"Many Objects, Greedy Size, {fit} fit", "--strategy", f"somas_many_{fit}")
            for fit in ("best", "first")]
    ours = line(f"auto, {budget} s", "--budget", str(budget))
    row("sequential lower bound", *(f"{p['max_load'] / 1e9:.4f}" for p in ours))
    row("lower bound by cliques", *(f"{p['lower_bound'] / 1e9:.4f}" for p in ours))

    def percent(a, b):
        return f"{100 * (a / b - 1):.4f} %"

    columns = range(len(graphs))
    smallest = lambda lines, i: min(l[i]["makespan"] for l in lines)
    row("best Many to best Single", *(percent(smallest(many, i), smallest(single, i)) for i in columns))
    row("auto to the sequential bound", *(percent(ours[i]["makespan"], ours[i]["max_load"])
                                          for i in columns))
    row("auto to the clique bound", *(percent(ours[i]["makespan"], ours[i]["lower_bound"])
                                      for i in columns))


def order_table(bench, graphs, budget):
    print(f"\n### Orders of execution, one stream, {budget / 2} s of {budget} for them: peak in MB\n")
    header("graph", "nodes", "given", "reordered", "less", "no order below", "seconds", "makespan",
           f"`olla_ilp`, {PROGRAM_SECONDS} s", "no order below", "seconds")
    saved = []
    for name, graph in graphs:
        nodes = len(json.loads(pathlib.Path(graph).read_text())["nodes"])
        plan = bench.plan(graph, "--order", "reorder", "--budget", str(budget))
        before, after = plan["given_max_load"], plan["max_load"]
        saved.append(1 - after / before)
        program = ["", "", ""]
        if nodes <= PROGRAM_NODES:
            other = bench.plan(graph, "--order", "olla_ilp", "--budget", str(PROGRAM_SECONDS))
            program = [f"{other['max_load'] / 1e6:.1f}", f"{other['order_lower_bound'] / 1e6:.1f}",
                       f"{other['seconds']:.2f}"]
        row(name, nodes, f"{before / 1e6:.1f}", f"{after / 1e6:.1f}", f"{100 * saved[-1]:.1f} %",
            f"{plan['order_lower_bound'] / 1e6:.1f}", f"{plan['order_seconds']:.2f}",
            f"{plan['makespan'] / 1e6:.1f}", *program)
    for kind in ("training", "wired"):
        of_kind = [s for s, (name, _) in zip(saved, graphs) if kind in name]
        if of_kind:
            print(f"\n{kind}: on average {100 * sum(of_kind) / len(of_kind):.1f} % less.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("presets", nargs="*", metavar="PRESET")
    parser.add_argument("--reprise", default="reprise")
    parser.add_argument("--budget", type=float, default=10)
    parser.add_argument("--nets", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options.reprise, scratch)
        graphs = []
        for preset in options.presets or list(transformer_graph.PRESETS):
            path = pathlib.Path(scratch) / f"{preset}.json"
            subprocess.run([sys.executable, transformer_graph.__file__, "--preset", preset, "-o",
                            str(path)], check=True, stderr=subprocess.DEVNULL)
            graphs.append((preset, path))
        nets = sorted(options.nets.glob("*.json")) if options.nets else []
        nets = [n for n in nets if not n.name.endswith(".plan.json")]
        graphs += [(n.stem.split("_training")[0], n) for n in nets if "_streams" in n.name]
        safety_table(bench, graphs)
        offset_tables(bench, graphs, options.budget)
        orders = [(n.stem, n) for n in nets if "_streams" not in n.name]
        wired = [(f"wired_{nodes}", ("--nodes", str(nodes))) for nodes in (60, 100, 200, 290, 10000)]
        wired.append(("wired_290_one_stage", ("--nodes", "290", "--stages", "1", "--seed", "3")))
        for name, arguments in wired:
            path = pathlib.Path(scratch) / f"{name}.json"
            subprocess.run([sys.executable, wired_graph.__file__, *arguments, "-o", str(path)],
                           check=True)
            orders.append((name, path))
        order_table(bench, orders, options.budget)
    return 0


if __name__ == "__main__":
    sys.exit(main())
