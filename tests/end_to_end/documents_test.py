"""The documents say what the commands do.

README, tutorial and guides are run: in a block ```console each line `$ COMMAND` is given to a shell,
and what it prints is compared with the lines below it. Numbers and sizes count as equal, because
they differ between machines; `…` stands for anything, on a line of its own for any lines. A block
```console exact is compared number by number, of ```console run only the exit status counts, and
```text is not run. A block with a file name behind its language is written to that file.
"""

import dataclasses
import functools
import itertools
import json
import os
import re
import subprocess
import sys

from harness import SOURCE, TIMEOUT, Failure, expect, main

READERS = ["README.md", "docs/tutorial.md"]
GUIDES = ["record", "plan", "graphs", "replay", "compare", "report"]
MOST_LINES = {"README.md": 180, "docs/tutorial.md": 200, "docs/internals/architecture.md": 180,
              "docs/benchmarks.md": 180, "docs/limits.md": 120}
WIDTH = 100
MOST_WORDS = 120  # of a paragraph
HOME = "/home/you/reprise"  # what the documents call the directory in which commands run


@dataclasses.dataclass
class Block:
    line: int  # where it begins
    info: list  # the words behind ```
    lines: list


def blocks_of(text):
    """The fenced blocks of a document."""
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if block is not None:
                yield block
                block = None
            else:
                block = Block(number, line[3:].split(), [])
        elif block is not None:
            block.lines.append(line)


def commands_of(block):
    """Pairs of a command and the lines that it prints."""
    lines = iter(block.lines)
    command, output = None, []
    for line in lines:
        if not line.startswith("$ "):
            output.append(line)
            continue
        if command is not None:
            yield command, output
        command, output = line[2:], []
        while command.endswith("\\"):
            command = command[:-1] + next(lines).strip()
    if command is not None:
        yield command, output


def mask(line):
    """The line without its numbers. Which loops a program has depends on its libraries."""
    if re.match(r"\s*loop +\d", line):
        return "loop"
    line = re.sub(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{16}\b", "#", line)
    line = re.sub(r"[-+]?\d[\d.,]*", "#", line)
    line = re.sub(r"# [KMG]?i?B\b", "#", line)
    return " ".join(line.split())


def masked(lines):
    """The lines without their numbers, and one for all loops."""
    lines = [mask(line) for line in lines]
    return [line for i, line in enumerate(lines) if line != "loop" or lines[i - 1 : i] != ["loop"]]


def matches(expected, found):
    """Whether the lines are those that are expected; `…` stands for anything."""
    parts = []
    for line in expected:
        if line.strip() == "…":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(".*".join(re.escape(part) for part in line.split("…")) + "\n")
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in found)) is not None


def shell(bench, command):
    environment = dict(bench.environment)
    environment["PATH"] = f"{bench.build}/bin:{environment['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], cwd=bench.work, env=environment, timeout=TIMEOUT, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_document(bench, path, shown=None):
    """Runs every command of a document. `shown`: is told of each command and what it printed."""
    (bench.work / "workloads").symlink_to(SOURCE / "workloads")
    for block in blocks_of((SOURCE / path).read_text()):
        if len(block.info) == 2 and "." in block.info[1]:
            (bench.work / block.info[1]).write_text("".join(line + "\n" for line in block.lines))
        if block.info[:1] != ["console"]:
            continue
        for command, expected in commands_of(block):
            ended = shell(bench, command)
            printed = ended.stdout.decode(errors="replace").replace(str(bench.work), HOME)
            found = printed.splitlines()
            if shown:
                shown(block, command, found)
                continue
            where = f"{path}:{block.line}: {command}"
            expect(ended.returncode == 0, f"{where}: exit {ended.returncode}\n{printed}")
            if "run" in block.info:
                continue
            if "exact" not in block.info:
                expected, found = masked(expected), masked(found)
            expect(matches(expected, found),
                   f"{where}: expected\n" + "\n".join(expected) + "\nfound\n" + "\n".join(found))


def documents():
    """Every Markdown file, by its path in the repository."""
    paths = [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", SOURCE / "CHANGELOG.md",
             SOURCE / "SECURITY.md", *sorted(SOURCE.glob("*/README.md")),
             *sorted(SOURCE.glob("planner/*/README.md")), *sorted((SOURCE / "docs").rglob("*.md"))]
    return {str(path.relative_to(SOURCE)): path.read_text() for path in paths if path.exists()}


def prose_of(text):
    """Its lines with their numbers, blocks left out."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def paragraphs_of(text):
    """Number of the first line, and words, of each paragraph and list item."""
    first, words = 0, []
    for number, line in itertools.chain(prose_of(text), [(0, "")]):
        if not line.strip() or re.match(r"\s*([-*|#]|\d+\.) ?", line):
            if words:
                yield first, words
            words = []
        if line.strip() and not line.startswith(("|", "#")):
            first = first if words else number
            words = words + line.split()


def form(_bench):
    """Lengths of pages, lines and paragraphs."""
    wrong = []
    for path, text in documents().items():
        if len(text.splitlines()) > MOST_LINES.get(path, 10**6):
            wrong.append(f"{path}: more than {MOST_LINES[path]} lines")
        for number, line in prose_of(text):
            if len(line) > WIDTH and not line.startswith("|"):
                wrong.append(f"{path}:{number}: {len(line)} characters")
        for number, words in paragraphs_of(text):
            if len(words) > MOST_WORDS:
                wrong.append(f"{path}:{number}: a paragraph of {len(words)} words")
    expect(not wrong, "\n".join(wrong))


def shown_lines(_bench):
    """Where a page shows a program, call sites in what it prints are lines that allocate."""
    seen = 0
    for path, text in documents().items():
        for name, source in re.findall(r"^```c (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            lines = source.splitlines()
            for number in re.findall(rf"\({re.escape(name)}:(\d+)\)", text):
                seen += 1
                expect("alloc(" in lines[int(number) - 1], f"{path}: {name}:{number}")
    expect(seen > 0, "no call site of a program that is shown")


def anchor(heading):
    """What GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def links(_bench):
    """Links lead to files and headings, and files that are named exist."""
    texts, wrong = documents(), []
    anchors = {path: {anchor(line.lstrip("# ")) for _, line in prose_of(text)
                      if line.startswith("#")} for path, text in texts.items()}
    for path, text in texts.items():
        folder = (SOURCE / path).parent
        for number, line in prose_of(text):
            for target in re.findall(r"\]\(([^)]+)\)", line):
                if target.startswith("http"):
                    continue
                file, _, fragment = target.partition("#")
                found = (folder / file).resolve() if file else SOURCE / path
                name = os.path.relpath(found, SOURCE)
                if not found.exists() or fragment and fragment not in anchors.get(name, ()):
                    wrong.append(f"{path}:{number}: {target}")
            for name in re.findall(r"`([a-z_]+(?:/[\w.]+)+\.(?:h|cc|py|md|sh|js))`", line):
                inside = name.split("/")[0] in ROOMS and "internals/arena.md" not in name
                if inside and not (SOURCE / name).exists() and not (folder / name).exists():
                    wrong.append(f"{path}:{number}: no file {name}")
    expect(not wrong, "\n".join(wrong))


ROOMS = ["base", "trace", "planner", "replay", "interpose", "report", "cli", "random_walk",
         "workloads", "tests", "docs", "scripts"]


def known_tests():
    """Names that a document may call a test by."""
    names = set()
    for path in [*(SOURCE / "tests").rglob("CMakeLists.txt"), *(SOURCE / "tests").rglob("*.cmake")]:
        names.update(re.findall(r"(?:unit_test|end_to_end_test|NAME)[( ]+([a-z_]+)",
                                path.read_text()))
    for path in (SOURCE / "tests/unit").rglob("*.cc"):
        names.update(".".join(found) for found in
                     re.findall(r"^TEST\w*\((\w+), *(\w+)\)", path.read_text(), re.MULTILINE))
    for path in (SOURCE / "tests/end_to_end").glob("*_test.py"):
        names.add(path.stem)
        listed = subprocess.run([sys.executable, path, "--list"], capture_output=True, text=True,
                                timeout=TIMEOUT, check=True)
        names.update(f"{path.stem}.{case}" for case in listed.stdout.split())
    return names


def tests(_bench):
    """Tests that a document names exist."""
    known, wrong = known_tests(), []
    for path, text in documents().items():
        for number, line in prose_of(text):
            for name in re.findall(r"`(\w+_test(?:\.\w+)?|[A-Z]\w+\.[A-Z]\w+)`", line):
                if name not in known and not name.endswith((".py", ".sh")):
                    wrong.append(f"{path}:{number}: {name}")
    expect(not wrong, "\n".join(wrong))


def options(bench):
    """docs/reference/command_line.md has every command with its options, and no others."""
    text = (SOURCE / "docs/reference/command_line.md").read_text()
    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    usage = bench.run(bench.reprise, "--help", expected=0).stdout.decode()
    listed = usage.split("Commands:")[1].split("Options:")[0]
    commands = re.findall(r"^  ([a-z]+) {2,}\S", listed, re.MULTILINE)
    wrong = []
    for command in commands:
        help_text = bench.run(bench.reprise, command, "--help", expected=0).stdout.decode()
        there = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", help_text, re.MULTILINE))
        there.update(re.findall(r"(--no-[\w-]+)", help_text))
        there -= {"--help", "--touch"}
        rows = re.findall(r"^\| (.*?) \|", sections.get(command, ""), re.MULTILINE)
        written = set(re.findall(r"--[\w-]+", " ".join(rows)))
        wrong += [f"{command}: {name} is missing" for name in sorted(there - written)]
        wrong += [f"{command}: there is no {name}" for name in sorted(written - there)]
    expect(not wrong, "\n".join(wrong))


def fields_of(value, prefix=""):
    """The names of all fields: `images[].lanes[].served`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield prefix + name
            yield from fields_of(inner, prefix + name + ".")
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner, prefix[:-1] + "[].")


def documented_fields():
    """Section of docs/reference/json.md → the fields that its tables name."""
    text = (SOURCE / "docs/reference/json.md").read_text()
    sections = re.findall(r"^## `(.*?)`$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: set(re.findall(r"`([\w\[\].]+)`", " ".join(
        re.findall(r"^\| (.*?) \|", body, re.MULTILINE)))) for name, body in sections}


def json_fields(bench):
    """docs/reference/json.md names every field that a command prints."""
    program = ["bash", "-c", "printf '%s\\n' {1..400} | sort | md5sum"]
    bench.record(program, expected=0)
    bench.plan()
    bench.replay(program, expected=0)
    (bench.work / "three.csv").write_text("id,lower,upper,size\na,0,2,64\nb,1,3,32\nc,2,4,64\n")
    (bench.work / "wrong.csv").write_text("id,lower,upper,size,offset\na,0,2,64,0\nb,1,3,32,8\n")
    (bench.work / "graph.json").write_text(json.dumps({
        "nodes": [{"id": "n1"}, {"id": "n2"}],
        "tensors": [{"id": "a", "producer": "n1", "consumers": ["n2"], "bytes": 64}]}))
    recording, plan = str(bench.scratch / "recording"), str(bench.scratch / "plan")
    printed = {
        "replay --stats": [["cat", str(bench.scratch / "stats.json")]],
        "info": [["info", recording], ["info", "three.csv"]],
        "plan": [["plan", recording, "--budget", "0.1", "-o", "again"], ["plan", "three.csv"],
                 ["plan", "graph.json"]],
        "check": [["check", recording, plan], ["check", "wrong.csv", "wrong.csv"],
                  ["check", "graph.json", "graph.plan.json"]],
        "compare": [["compare", recording, "--plan", plan, "--pins", "--what-if", "--runs", "2",
                     "--allocators", "glibc"]],
        "compare --live": [["compare", "--live", "--plan", plan, "--runs", "2", "--allocators",
                            "glibc,jemalloc", "--", *program]],
        "diff": [["diff", recording, recording], ["diff", plan, plan]],
    }
    documented, wrong = documented_fields(), []
    for section, commands in printed.items():
        found = set()
        for command in commands:
            name, *rest = command
            words = command if name == "cat" else [bench.reprise, name, "--json", *rest]
            output = bench.run(*words).stdout
            try:
                found.update(fields_of(json.loads(output)))
            except ValueError as error:
                raise Failure(f"{' '.join(command)}: {error} in {output[:200]}") from error
        # `images[]` and, of diff, the sums are described once.
        found = {re.sub(r"^images\[\]\.", "", name) for name in found}
        unknown = {name for name in found
                   if not any(re.fullmatch(pattern(known), name) for known in documented[section])}
        wrong += [f"{section}: {name}" for name in sorted(unknown)]
    expect(not wrong, "not in docs/reference/json.md:\n" + "\n".join(wrong))


def pattern(documented):
    """`provenance.NAME` stands for any name."""
    return re.sub("[A-Z]{2,}", r"[^.]+", re.escape(documented))


def example_graph(bench):
    """The example of docs/reference/graph_format.md is a graph, and its plan the one that is shown."""
    text = (SOURCE / "docs/reference/graph_format.md").read_text()
    examples = ["\n".join(block.lines) for block in blocks_of(text) if block.info == ["json"]]
    graph, plan = examples[0], examples[-1]
    (bench.work / "graph.json").write_text(graph)
    bench.run(bench.reprise, "plan", "graph.json", expected=0)
    found = json.loads((bench.work / "graph.plan.json").read_text())
    expect(found == json.loads(plan), f"found {found}")


def example_strategy(bench):
    """The strategy in CONTRIBUTING.md compiles."""
    blocks = blocks_of((SOURCE / "CONTRIBUTING.md").read_text())
    source = next("\n".join(block.lines) for block in blocks if block.info == ["cpp"])
    (bench.work / "reverse.cc").write_text(source + "\n")
    bench.run("c++", "-std=c++20", "-fsyntax-only", f"-I{SOURCE}", "reverse.cc", expected=0)


def case_name(path):
    return re.sub(r"\W", "_", path.removeprefix("docs/").removesuffix(".md")).lower()


if __name__ == "__main__":
    run = READERS + [f"docs/guide/{name}.md" for name in GUIDES]
    main({
        **{case_name(path): functools.partial(run_document, path=path) for path in run},
        "form": form,
        "shown_lines": shown_lines,
        "links": links,
        "tests": tests,
        "options": options,
        "json": json_fields,
        "example_graph": example_graph,
        "example_strategy": example_strategy,
    })
