"""The main job on real, unmodified programs: record, info, plan, check, replay.

A case passes when the program cannot tell: standard output, exit status and the files it writes
are the same in a plain run, a recorded one and two replays. Nothing may be lost in the recording,
and the arena must serve nearly all of the allocations.
"""

import dataclasses
import shutil

from harness import SOURCE, Failure, Skip, expect, expect_equal, main

WORKLOADS = SOURCE / "workloads"


@dataclasses.dataclass
class Program:
    command: list  # words, or functions of the bench that give one
    needs: str = ""  # the program to look for; its package is in scripts/setup.sh
    stdin: object = None  # bytes, or a function of the bench
    prepare: object = None  # makes the files that the program reads
    writes: list = dataclasses.field(default_factory=list)  # files to compare
    served: float = 99.0  # percent, at least
    one_thread: bool = True  # planned addresses are then the same in every replay
    images: int = 1  # processes, at least


def make_repository(bench):
    """A thousand commits by one author, with fixed dates."""
    stream = []
    for number in range(1000):
        message = f"Change {number}\n\nBecause {number * 7919 % 1000} asked for it.\n"
        text = "\n".join(f"line {line * number % 97}" for line in range(40)) + "\n"
        stream.append(
            f"commit refs/heads/main\nmark :{number + 1}\n"
            f"committer A U Thor <author@example.com> {1600000000 + number * 3600} +0000\n"
            f"data {len(message)}\n{message}"
            + (f"from :{number}\n" if number else "")
            + f"M 644 inline file{number % 13}\ndata {len(text)}\n{text}\n"
        )
    bench.run("git", "init", "--quiet", "--initial-branch=main", expected=0)
    bench.run("git", "fast-import", "--quiet", stdin="".join(stream).encode(), expected=0)


def make_source(bench):
    lines = ["#include <map>", "#include <string>", "#include <vector>"]
    for number in range(60):
        lines.append(
            f"std::map<std::string, std::vector<int>> table{number}(int n) {{\n"
            f"  std::map<std::string, std::vector<int>> made;\n"
            f"  for (int i = 0; i < n; ++i) made[std::to_string(i % {number + 2})].push_back(i);\n"
            "  return made;\n}"
        )
    (bench.work / "source.cc").write_text("\n".join(lines) + "\n")


def make_json(bench):
    rows = (
        f'{{"id": {number}, "name": "item {number * 31 % 977}", "tags": ["a{number % 7}", "b"]}}'
        for number in range(4000)
    )
    (bench.work / "rows.json").write_text("[" + ",\n".join(rows) + "]\n")


def some_text(_):
    """Compresses well, but not at once."""
    return b"".join(b"%d squared is %d\n" % (number, number * number) for number in range(60000))


def make_redis_script(bench):
    """A server, its client and the shell that starts both; the server ends when it is told to."""
    (bench.work / "redis.sh").write_text(
        "redis-server --port 0 --unixsocket socket --save '' --appendonly no --logfile log &\n"
        "until [ -S socket ]; do sleep 0.05; done\n"
        f"redis-cli -s socket < '{WORKLOADS}/redis.txt'\n"
        "redis-cli -s socket shutdown nosave\n"
        "wait\n"
    )


def leveldb(*options):
    return [lambda bench: bench.build / "bin" / "leveldb_bench", *options]


PROGRAMS = {
    "leveldb": Program(leveldb("--num", "20000"), served=99.9, one_thread=False),
    # Writers hand their batches to whichever of them leads the queue: who allocates is chance.
    "leveldb_threads": Program(
        leveldb("--num", "10000", "--threads", "3"), served=99.0, one_thread=False
    ),
    "sqlite3": Program(
        ["sqlite3", ":memory:"],
        needs="sqlite3",
        stdin=lambda _: (WORKLOADS / "sqlite.sql").read_bytes(),
    ),
    "jq": Program(
        ["jq", "-S", "group_by(.tags[0]) | map({tag: .[0].tags[0], ids: map(.id)})", "rows.json"],
        needs="jq",
        prepare=make_json,
    ),
    "xz": Program(["xz", "-3", "--stdout", "--threads=1"], needs="xz", stdin=some_text),
    "git_log": Program(
        ["git", "--no-pager", "log", "--stat", "--max-count=300"],
        needs="git",
        prepare=make_repository,
    ),
    "python3": Program(["/usr/bin/python3", WORKLOADS / "python_script.py", "3"]),
    "gcc": Program(
        ["g++", "-O1", "-c", "source.cc", "-o", "object.o"],
        needs="g++",
        prepare=make_source,
        writes=["object.o"],
        images=3,
    ),
    # Linked with jemalloc, and its clock decides what is done when.
    "redis": Program(
        ["sh", "redis.sh"],
        needs="redis-server",
        prepare=make_redis_script,
        served=97.0,
        one_thread=False,
        images=4,
    ),
}


def run_case(bench, program):
    if program.needs and shutil.which(program.needs, path=bench.environment["PATH"]) is None:
        raise Skip(f"{program.needs} is not installed (scripts/setup.sh)")
    if program.prepare:
        program.prepare(bench)
    command = [word(bench) if callable(word) else word for word in program.command]
    stdin = program.stdin(bench) if program.stdin else None

    def result(outcome):
        """What must not change from run to run. Written files are taken away."""
        written = {}
        for name in program.writes:
            path = bench.work / name
            written[name] = path.read_bytes()
            path.unlink()
        return outcome.status, outcome.stdout, written

    plain = result(bench.run(*command, stdin=stdin))
    expect(plain[0] == 0 and (plain[1] or plain[2]), f"the plain run failed: {plain[0]}")

    expect_equal(result(bench.record(command, stdin=stdin)), plain, "recorded")
    info = bench.info()
    expect_equal(info["lost_events"], 0, "lost_events")
    expect(info["events"] > 100, f"{info['events']} events")
    images = len(info.get("images", [info]))
    expect(images >= program.images, f"{images} images, expected {program.images}")

    bench.plan()
    hashes = []
    for number in (1, 2):
        outcome, stats = bench.replay(command, stdin=stdin)
        expect_equal(result(outcome), plain, f"replay {number}")
        if stats["served_percent"] < program.served:
            names = ("allocations", "served", "blocked", "unmatched")
            diverged = {name: stats[name] for name in names}
            raise Failure(f"replay {number}: served {stats['served_percent']} %: {diverged}")
        hashes.append(stats["address_hash"])
    if program.one_thread:
        expect_equal(hashes[1], hashes[0], "address_hash of the second replay")


if __name__ == "__main__":
    main(
        {
            name: lambda bench, program=program: run_case(bench, program)
            for name, program in PROGRAMS.items()
        }
    )
