"""The tables at the end of the demo: python3 demo_table.py DIRECTORY-WITH-THE-JSON-FILES"""

import json
import pathlib
import sys


def mebibytes(count):
    return "%.2f MiB" % (count / 2**20)


def percent(part, whole, digits=3):
    return f"{100 * part / whole if whole else 100:.{digits}f} %"


def print_run(plain, info, plan, check, replay):
    def row(label, value, remark):
        print("  %-13s %11s  %s" % (label, value, remark))

    all_of_them = replay["allocations"]
    improvised = replay["improvised"]
    above = percent(replay["arena_bytes"] - plan["max_load"], plan["max_load"], 1)
    row("recorded", info["buffers"], f"allocations in {info['threads']} threads")
    row("lost", info["lost_events"], "events")
    row("max load", mebibytes(plan["max_load"]), "the most that is live at one time: no plan needs less")
    label = "held" if "estimated_held_bytes" in plan else "makespan"
    row(label, mebibytes(plan["makespan"]), f"what the plan needs, as planned: {plan['fragmentation_percent']:.1f} % more")
    row("planned in", f"{plan['seconds']:.2f} s", f"by {plan['strategy']}")
    row("checked", "valid" if check["valid"] else "NOT VALID", "by a checker that shares no code with the planner")
    row("served", percent(replay["served"], all_of_them), f"of the second run's {all_of_them} allocations, from the arena")
    row("  as planned", percent(replay["served"] - improvised, all_of_them), "where the plan has a place for such a request")
    row("  improvised", percent(improvised, all_of_them), "elsewhere in the arena, where nothing was live")
    row("fallback", percent(replay["fallback"], all_of_them), "from the program's own allocator")
    row("arena", mebibytes(replay["arena_bytes"]), f"what the second run took: {above} more than the max load")
    row("program", mebibytes(plain["peak_rss"]), "peak RSS of the whole program as it is")
    row("", mebibytes(replay["peak_rss"]), "and replayed, with the plan and its tables in memory")


def print_allocators(compare):
    print("  The recording, performed by each allocator in a process of its own:\n")
    line = "  %-16s %11s %14s %11s %9s %8s"
    print(line % ("allocator", "footprint", "fragmentation", "peak RSS", "time", "ns/call"))
    for result in compare["results"]:
        name = f"{result['allocator']} {result['version'] or ''}".strip()
        print(
            line
            % (
                name[:16],
                mebibytes(result["footprint"]),
                "%.1f %%" % result["fragmentation_percent"],
                mebibytes(result["peak_rss"]),
                "%.3f s" % result["seconds"],
                "%.1f" % result["nanoseconds_per_operation"],
            )
        )
    for skipped in compare.get("skipped", []):
        print(f"  {skipped['allocator']:16} skipped: {skipped['reason']}")
    print("\n  footprint: the most pages held at one time; fragmentation: footprint above the max")
    print("  load; time: allocator calls and writing to the blocks, without waiting for their order.")


def main():
    directory = pathlib.Path(sys.argv[1])
    plain, info, plan, check, replay, compare = (
        json.loads((directory / (name + ".json")).read_text())
        for name in ("plain", "info", "plan", "check", "replay", "compare")
    )
    print_run(plain, info, plan, check, replay)
    print()
    print_allocators(compare)


if __name__ == "__main__":
    main()
