#!/usr/bin/python3
"""Writes graph JSON (docs/reference/graph_format.md) of a randomly wired network.

    wired_graph.py [--nodes N] [--neighbours K] [--rewire P] [--stages S] [--seed SEED] [--training] -o FILE

Each stage is a Watts-Strogatz ring of N/S nodes with K neighbours, of which a share P leads elsewhere;
edges go from lower to higher numbers (Xie et al. 2019, arXiv 1904.01569). A node sums what it reads
and convolves it; channels vary from node to node, and double where a stage halves the resolution.
With --training every node is mirrored by one that reads its inputs, its result and the gradients of
its readers, and writes the gradients of what it reads. The order is by number.
"""

import argparse
import json
import random
import sys


def ring(count, neighbours, rewire, source):
    """Pairs (from, to) with from < to."""
    edges = set()
    for i in range(count):
        for step in range(1, neighbours // 2 + 1):
            j = (i + step) % count
            if source.random() < rewire:
                j = source.choice([k for k in range(count) if k != i])
            edges.add((min(i, j), max(i, j)))
    return sorted(edges)


def build(options):
    source = random.Random(options.seed)
    nodes, tensors = ["input"], {}
    tensors["input"] = {"id": "input", "producer": "input", "consumers": [],
                        "bytes": 64 * 64 * 16 * 4}
    reads = {"input": []}
    ends = "input"
    for stage in range(options.stages):
        count = max(2, options.nodes // options.stages)
        side = max(4, 64 >> stage)
        edges = ring(count, options.neighbours, options.rewire, source)
        into = {i: [f"s{stage}n{a}" for a, b in edges if b == i] for i in range(count)}
        out = {a for a, _ in edges}
        for i in range(count):
            name = f"s{stage}n{i}"
            nodes.append(name)
            reads[name] = into[i] or [ends]
            channels = source.choice([8, 16, 16, 32, 48, 64]) << stage
            tensors[name] = {"id": name, "producer": name, "consumers": [],
                             "bytes": side * side * channels * 4}
        # What nobody reads is summed for the next stage.
        ends = f"s{stage}sum"
        nodes.append(ends)
        reads[ends] = [f"s{stage}n{i}" for i in range(count) if i not in out]
        tensors[ends] = {"id": ends, "producer": ends, "consumers": [], "bytes": side * side * 64}
    nodes.append("output")
    reads["output"] = [ends]
    tensors["output"] = {"id": "output", "producer": "output", "consumers": [], "bytes": 4000}
    for name in nodes:
        for read in reads[name]:
            tensors[read]["consumers"].append(name)
    if options.training:
        mirror(nodes, reads, tensors)
    return {"nodes": [{"id": n} for n in nodes], "tensors": list(tensors.values()), "order": nodes}


def mirror(nodes, reads, tensors):
    """The backward pass: NAME' reads what NAME read, its result and the gradients of that."""
    gradients = {name: [] for name in nodes}
    for name in reversed(nodes[:]):
        back = name + "'"
        nodes.append(back)
        for read in reads[name] + [name] + gradients[name]:
            tensors[read]["consumers"].append(back)
        for read in reads[name]:
            gradient = f"{back}/{read}"
            tensors[gradient] = {"id": gradient, "producer": back, "consumers": [],
                                 "bytes": tensors[read]["bytes"]}
            gradients[read].append(gradient)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=96)
    parser.add_argument("--neighbours", type=int, default=4)
    parser.add_argument("--rewire", type=float, default=0.75)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("-o", "--output", default="-")
    options = parser.parse_args()
    text = json.dumps(build(options), separators=(",", ":")) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
    else:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
