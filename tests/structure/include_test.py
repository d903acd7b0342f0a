#!/usr/bin/env python3
"""Which folder may include what of which, and that no files of ours include each other in a circle.

A unit is a header and its source file: x.h and x.cc. Prints each include that the table does not
allow, and each cycle of units. Exit status 1 when there is one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A folder stands for all below it that have no row of their own. What is in the list may be used;
# single headers where a folder needs only formats of another.
MAY_USE = {
    "base": [],
    "trace": ["base", "trace/formats"],
    "trace/formats": ["base", "trace"],
    "planner": ["base", "planner/core"],
    "planner/core": ["base"],
    "planner/placement": ["base", "planner/core"],
    "planner/search": ["base", "planner/core", "planner/placement"],
    "planner/baselines": ["base", "planner/core", "planner/placement"],
    "planner/graph": ["base", "planner", "planner/core", "planner/placement", "planner/search",
                      "planner/baselines"],
    "replay/plan": ["base", "trace", "trace/formats", "planner", "planner/core"],
    "replay/arena": ["base", "replay/plan/counters.h", "replay/plan/plan_format.h",
                     "replay/plan/stream.h"],
    "replay/compare": ["base", "trace", "trace/formats", "planner/core", "replay/arena", "replay/plan"],
    "report": ["base", "trace", "trace/formats", "replay/plan", "replay/compare"],
    "interpose": ["base", "interpose/process", "interpose/record", "interpose/replay"],
    "interpose/process": ["base", "trace/spool_format.h"],
    "interpose/record": ["base", "interpose/process", "trace/spool_format.h"],
    "interpose/replay": ["base", "interpose/process", "replay/arena", "replay/plan/counters.h",
                         "replay/plan/plan_format.h"],
    "random_walk": [],
    "workloads": ["random_walk"],
}
ANY = ("cli", "tests")


def room_of(path):
    """The row of the table that `path` belongs to."""
    folder = pathlib.PurePosixPath(path).parent
    while str(folder) != "." and str(folder) not in MAY_USE:
        folder = folder.parent
    return str(folder)


def read_includes():
    """Path of a file -> the paths of ours that it includes."""
    includes = {}
    for top in sorted({room.split("/")[0] for room in MAY_USE} | set(ANY)):
        for file in sorted((ROOT / top).rglob("*")):
            if file.suffix in (".h", ".cc", ".cu", ".cuh", ".c"):
                names = re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)
                includes[str(file.relative_to(ROOT))] = [
                    name for name in names if (ROOT / name).is_file()]
    return includes


def find_forbidden(includes):
    for path, names in includes.items():
        room = room_of(path)
        if path.startswith(tuple(top + "/" for top in ANY)):
            continue
        for name in names:
            if room_of(name) != room and room_of(name) not in MAY_USE[room] and name not in MAY_USE[room]:
                yield f"{path} includes {name}: {room} may use {', '.join(MAY_USE[room]) or 'nothing'}"


def find_cycles(includes):
    """The strongly connected components of more than one unit (Tarjan)."""
    units = {}
    for path, names in includes.items():
        unit = units.setdefault(path.rsplit(".", 1)[0], set())
        unit |= {name.rsplit(".", 1)[0] for name in names}
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        on_stack.add(unit)
        for other in sorted(units.get(unit, ())):
            if other not in index:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in on_stack:
                low[unit] = min(low[unit], index[other])
        if low[unit] == index[unit]:
            component = []
            while True:
                component.append(stack.pop())
                on_stack.discard(component[-1])
                if component[-1] == unit:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10000)
    for unit in sorted(units):
        if unit not in index:
            visit(unit)
    return found


def main():
    includes = read_includes()
    forbidden = list(find_forbidden(includes))
    cycles = find_cycles(includes)
    for line in forbidden:
        print(line)
    for cycle in cycles:
        print("cycle:", ", ".join(cycle))
    return 1 if forbidden or cycles else 0


if __name__ == "__main__":
    sys.exit(main())
