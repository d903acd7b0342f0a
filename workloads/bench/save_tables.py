#!/usr/bin/python3
"""Runs a benchmark and saves the Markdown tables that it prints as JSON: docs/benchmarks/*.json.

    save_tables.py OUT.json COMMAND…               runs the command; its output is shown as well
    save_tables.py --text FILE OUT.json COMMAND…   takes what the command printed from FILE

The JSON has the command, the date, the machine, its load before and after, and the tables: title
(the text above), columns, and rows of numbers and texts.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys


def value(cell):
    """A number where the cell is one."""
    try:
        return float(cell) if re.search(r"[.e]", cell) else int(cell.replace(",", ""))
    except ValueError:
        return cell


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables_of(text):
    tables, title, table = [], "", None
    for line in text.splitlines():
        if not line.startswith("|"):
            title = line.strip("# ") or title
            table = None
        elif table is None:
            table = {"title": title, "columns": cells(line), "rows": []}
            tables.append(table)
        elif not re.fullmatch(r"[|\s:-]+", line):
            table["rows"].append([value(cell) for cell in cells(line)])
    return tables


def processor():
    found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1) if found else platform.machine()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--machine", help="with --text: where it ran")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    result = {"command": shlex.join(arguments.command), "date": arguments.date}
    if arguments.text:
        text = arguments.text.read_text()
        result["machine"] = arguments.machine
    else:
        result["machine"] = f"{processor()}, {os.cpu_count()} processors, {platform.release()}"
        before = os.getloadavg()[0]
        ended = subprocess.run(arguments.command, stdout=subprocess.PIPE, text=True, check=True)
        text = ended.stdout
        sys.stdout.write(text)
        result["load"] = [before, os.getloadavg()[0]]
    result["tables"] = tables_of(text)
    rows = json.dumps(result, indent=1, ensure_ascii=False)
    # One row of a table on a line.
    rows = re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s+\]",
                  lambda found: "[" + re.sub(r"\n\s+", " ", found.group(1)) + "]", rows)
    arguments.output.write_text(rows + "\n")


if __name__ == "__main__":
    main()
