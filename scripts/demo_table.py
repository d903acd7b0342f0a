"""The table at the end of the demo: python3 demo_table.py DIRECTORY-WITH-THE-JSON-FILES"""

import json
import pathlib
import sys


def mebibytes(count):
    return "%.2f MiB" % (count / 2**20)


def main():
    directory = pathlib.Path(sys.argv[1])
    info, plan, check, replay, compare = (
        json.loads((directory / (name + ".json")).read_text())
        for name in ("info", "plan", "check", "replay", "compare")
    )

    rows = [
        ("recorded events", "%d, %d lost" % (info["events"], info["lost_events"])),
        ("buffers, threads", "%d, %d" % (info["buffers"], info["threads"])),
        ("max load (no plan can need less)", mebibytes(plan["max_load"])),
        ("makespan of the plan", mebibytes(plan["makespan"])),
        ("fragmentation of the plan", "%.2f %%" % plan["fragmentation_percent"]),
        ("planned in", "%.2f s" % plan["seconds"]),
        ("checked", "valid" if check["valid"] else "NOT VALID"),
        ("served from the plan", "%.3f %% of %d allocations" % (replay["served_percent"], replay["allocations"])),
    ]
    for label, value in rows:
        print("  %-34s %s" % (label, value))

    print()
    print("  %-18s %14s %14s %14s %10s" % ("allocator", "peak RSS", "footprint", "fragmentation", "time"))
    for result in compare["results"]:
        name = ("%s %s" % (result["allocator"], result["version"] or "")).strip()
        print(
            "  %-18s %14s %14s %12.1f %% %8.3f s"
            % (
                name[:18],
                mebibytes(result["peak_rss"]),
                mebibytes(result["footprint"]),
                result["fragmentation_percent"],
                result["seconds"],
            )
        )
    print("\n  The plan's fragmentation is its makespan above the max load; an allocator's is the pages it ever")
    print("  used above the max load. Each performed the same recording in a process of its own.")


if __name__ == "__main__":
    main()
