"""Threads that come and go, free each other's blocks and fork, under replay: nothing may grow.

Looked at from outside while it runs: the memory of the program and of its launcher, and the files of
the session. With REPRISE_LONG_TESTS=N in the environment it runs for N seconds, at least.
"""

import os
import pathlib
import re
import subprocess
import time

from harness import TIMEOUT, Failure, expect, expect_equal, main

SECONDS = max(4, int(os.environ.get("REPRISE_LONG_TESTS", 0)))
WARM_UP = min(10, SECONDS / 3)  # by then everything is as large as it should get
SLACK = 4 << 20  # live blocks and stacks differ from one instant to the next


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found.group(1)) * 1024 if found else 0  # it is about to end


def children_of(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def session_of(pid):
    """The session's folder, by a file of it that the program has mapped."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    found = re.search(r"(/\S+)/(?:counters\.\d+|registry)\n", maps)
    return pathlib.Path(found.group(1)) if found else None


def wait_for_session(launcher):
    """The program, once it has got as far as mapping its session, and the session's folder."""
    while launcher.poll() is None:
        for child in map(int, children_of(launcher.pid)):
            if (session := session_of(child)) is not None:
                return child, session
        time.sleep(0.01)
    raise Failure("the program has nothing of the session mapped")


def bytes_in(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


class Watch:
    """The most that was seen, of each thing that might grow."""

    def __init__(self, launcher, program, session):
        self.launcher, self.program, self.session = launcher, program, session

    def most(self, until):
        most = {"the program's memory": 0, "the launcher's memory": 0, "the session's files": 0}
        while time.monotonic() < until:
            seen = [resident(self.program), resident(self.launcher), bytes_in(self.session)]
            most = {name: max(value, now) for (name, value), now in zip(most.items(), seen)}
            time.sleep(0.05)
        return most


def replay(bench):
    program = bench.build / "bin" / "programs" / "restless"
    plain = bench.run(program, expected=0)
    expect_equal(bench.record([program]).stdout, plain.stdout, "recorded")
    bench.plan()
    stats = bench.scratch / "stats.json"
    words = [bench.reprise, "replay", bench.scratch / "plan", "--stats", stats, "--", program]
    start = time.monotonic()
    with subprocess.Popen(
        [*map(str, words), str(SECONDS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=bench.work,
        env=bench.environment,
    ) as launcher:
        child, session = wait_for_session(launcher)
        watch = Watch(launcher.pid, child, session)
        early = watch.most(start + WARM_UP)
        late = watch.most(start + SECONDS - 0.5)
        output = launcher.communicate(timeout=TIMEOUT)[0]
    expect_equal((launcher.returncode, output), (0, plain.stdout), "replayed")
    for name, before in early.items():
        print(f"{name}: {before >> 10} KiB at first, then {late[name] >> 10} KiB")
        expect(late[name] <= before + SLACK, f"{name} grew from {before} to {late[name]} bytes")
    expect(not session.exists(), "the session's folder is still there")


if __name__ == "__main__":
    main({"replay": replay})
