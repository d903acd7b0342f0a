"""What the end-to-end tests share: a program run plainly, recorded, planned and replayed.

A test is a script with a table of cases. CTest runs each case by itself, or several in one process
where these share what takes long to set up:
    SCRIPT --list                prints the names of what CTest runs
    SCRIPT BUILD-DIRECTORY NAME  runs one case, or those that are run together; exit status 77 says
                                 that this machine cannot run it
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 120  # of one command: far beyond what any of them takes
SKIPPED = 77


class Failure(Exception):
    """What was expected and what was found."""


class Skip(Exception):
    """Why this machine cannot run the case."""


def expect(condition, message):
    if not condition:
        raise Failure(message)


def expect_equal(found, expected, what):
    if found == expected:
        return
    raise Failure(f"{what}: expected {_short(expected)}, found {_short(found)}")


def _short(value):
    text = repr(value)
    return text if len(text) < 2000 else text[:1000] + " … " + text[-1000:]


@dataclasses.dataclass
class Outcome:
    """How a command ended. `status` is 128 + signal for one that was killed, as a shell says."""

    status: int
    stdout: bytes
    stderr: bytes

    def ours(self):
        """The lines of stderr that are reprise's own."""
        lines = self.stderr.decode(errors="replace").splitlines()
        return [line for line in lines if line.startswith("reprise: ")]

    def complaints(self):
        """Those lines but for what explains that much went elsewhere than planned, or that a library
        was loaded in another way."""
        about, of_it, flag = " went elsewhere than planned", "reprise:   ", "RTLD_DEEPBIND"
        return [
            line
            for line in self.ours()
            if not (line.endswith(about) or line.startswith(of_it) or flag in line)
        ]

    def theirs(self):
        """The lines of stderr that are the program's."""
        lines = self.stderr.decode(errors="replace").splitlines()
        return [line for line in lines if not line.startswith("reprise: ")]


class Bench:
    """A scratch directory in which one case runs its commands, all with the same environment."""

    def __init__(self, build, scratch):
        self.build = pathlib.Path(build).resolve()
        self.reprise = str(self.build / "bin" / "reprise")
        self.scratch = pathlib.Path(scratch)
        self.work = self.scratch / "work"  # where programs run
        self.work.mkdir()
        self.seed = int(os.environ.get("REPRISE_SEED", "1"))
        self.random = random.Random(self.seed)  # the only source of chance
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.scratch),
            "LC_ALL": "C.UTF-8",
        }

    def run(self, *command, stdin=None, limits=None, expected=None):
        """Runs a command to its end. `limits` is called in the child before the exec."""
        command = [str(word) for word in command]
        ended = subprocess.run(
            command,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            cwd=self.work,
            env=self.environment,
            timeout=TIMEOUT,
            preexec_fn=limits,
            check=False,
        )
        status = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
        outcome = Outcome(status, ended.stdout, ended.stderr)
        if expected is not None and status != expected:
            error = outcome.stderr.decode(errors="replace")
            raise Failure(f"{' '.join(command)}: exit {status}, expected {expected}\n{error}")
        return outcome

    def record(self, command, name="recording", **options):
        words = [self.reprise, "record", "-o", self.scratch / name, "--"]
        return self.run(*words, *command, **options)

    def info(self, name="recording", expected=0):
        return json.loads(
            self.run(self.reprise, "info", "--json", self.scratch / name, expected=expected).stdout
        )

    def plan(self, name="recording", plan="plan", iterations=4):
        """Plans a recording, and has every plan checked against its trace. The same number of
        iterations gives the same plan on every machine."""
        recording, plans = self.scratch / name, self.scratch / plan
        words = [self.reprise, "plan", recording, "-o", plans, "--iterations", str(iterations),
                 "--budget", "1000", "--json"]
        planned = self.run(*words, expected=0)
        for image in json.loads(planned.stdout)["images"]:
            self.run(self.reprise, "check", image["trace"], image["plan"], expected=0)

    def replay(self, command, plan="plan", stats="stats.json", **options):
        """The outcome and the statistics."""
        path = self.scratch / stats
        path.unlink(missing_ok=True)
        words = [self.reprise, "replay", self.scratch / plan, "--stats", path, "--", *command]
        outcome = self.run(*words, **options)
        return outcome, json.loads(path.read_text()) if path.exists() else None


def main(cases):
    """`cases`: name → function of a Bench, or a table of those that are run together."""
    if sys.argv[1:] == ["--list"]:
        print("\n".join(cases))
        return
    build, name = sys.argv[1:]
    alone = dict(cases)
    for table in cases.values():
        if isinstance(table, dict):
            alone.update(table)
    chosen = alone[name] if isinstance(alone[name], dict) else {name: alone[name]}
    skipped = sum([_run(build, name, case) for name, case in chosen.items()])
    if skipped == len(chosen):
        sys.exit(SKIPPED)


def _run(build, name, case):
    """Whether it was skipped. Ends the process when it failed."""
    with tempfile.TemporaryDirectory(prefix="reprise-test-") as scratch:
        bench = Bench(build, scratch)
        try:
            case(bench)
        except Skip as skip:
            print(f"{name}: skipped: {skip}")
            return True
        except Failure as failure:
            print(f"{name} (REPRISE_SEED={bench.seed}): {failure}", file=sys.stderr)
            sys.exit(1)
        finally:
            _make_removable(scratch)
    return False


def _make_removable(scratch):
    for directory, _, _ in os.walk(scratch):
        with contextlib.suppress(OSError):
            os.chmod(directory, 0o700)
