"""What went wrong in a replay, and plans that learn from it (tests/programs/overstaying)."""

import json

from harness import expect, expect_equal, main


def program(bench):
    return bench.build / "bin" / "programs" / "overstaying"


def prepare(bench, how, command=None, loop="auto"):
    """Records the program as `how` says, and plans the recording."""
    (bench.work / "how").write_text(how)
    recorded = bench.record(command or [program(bench)])
    expect_equal(recorded.status, 0, f"recorded; {recorded.stderr}")
    bench.plan(options=["--iterations", 40, "--budget", 1000, "--loop", loop])


def learn(bench, *stats, plan="learned", recording="recording", expected=0):
    """Plans with what replays taught, and has the plans checked."""
    options = [word for name in stats for word in ("--learn", bench.scratch / name)]
    words = ["plan", bench.scratch / recording, "-o", bench.scratch / plan, "--iterations", "40",
             "--budget", "1000", "--json"]
    outcome = bench.run(bench.reprise, *words, *options, expected=expected)
    if expected != 0:
        return outcome
    planned = json.loads(outcome.stdout)
    for image in planned["images"]:
        bench.run(bench.reprise, "check", image["trace"], image["plan"], expected=0)
    return planned


def replay(bench, how, command=None, **options):
    (bench.work / "how").write_text(how)
    outcome, stats = bench.replay(command or [program(bench)], **options)
    expect_equal(outcome.status, 0, f"replayed; {outcome.stdout}{outcome.stderr}")
    expect_equal(stats["invalid_frees"], 0, "invalid_frees")
    return outcome, stats


def squatters(bench):
    """Blocks that outlive their plan get the lives that were seen, and are in nobody's way."""
    prepare(bench, "phases 0")
    _, before = replay(bench, "phases 3", stats="first.json")
    expect(before["blocked"] > 1000, f"{before['blocked']} requests were blocked: too few to tell")
    planned = learn(bench, "first.json")
    expect(planned["learned"] > 50, f"learned {planned['learned']} lifetimes")
    expect(planned["makespan"] > planned["max_load"], "longer lives cost nothing")
    _, after = replay(bench, "phases 3", plan="learned", stats="second.json")
    expect(
        after["blocked"] < before["blocked"] / 5,
        f"blocked: {before['blocked']}, after learning {after['blocked']}",
    )
    outcome, _ = replay(bench, "phases 5", plan="learned", stats="other.json")
    said = "\n".join(outcome.ours())
    expect("try the environment and the input" in said, f"the arguments are the recorded ones: {said}")
    expect("--learn" not in said, f"the plan has learned already: {said}")
    # What the second run teaches comes on top of what the first one taught.
    again = learn(bench, "first.json", "second.json", plan="twice")
    expect(again["learned"] >= planned["learned"], f"{again['learned']} of {planned['learned']}")
    _, last = replay(bench, "phases 3", plan="twice", stats="third.json")
    expect(last["blocked"] < before["blocked"] / 100, f"{last['blocked']} were blocked still")
    expect(last["improvised"] < before["improvised"] / 100, f"improvised {last['improvised']}")
    # What was recorded is served as before.
    _, recorded = replay(bench, "phases 0", plan="twice", stats="fourth.json")
    expect_equal((recorded["blocked"], recorded["improvised"]), (0, 0), "blocked and improvised")


def explains(bench):
    """What diverged first and what was in the way, with names; silence when all went as planned."""
    prepare(bench, "phases 0")
    outcome, stats = replay(bench, "phases 0")
    expect_equal(outcome.ours(), [], "lines about a run that went as planned")
    expect_equal(stats["images"][0]["missed_sites"], [], "missed sites")
    expect_equal(stats["images"][0]["blockers"], [], "blockers")

    outcome, stats = replay(bench, "phases 3")
    image = stats["images"][0]
    for entry in (image["missed_sites"][0], image["blockers"][0]):
        expect("PhaseBlock" in entry["where"], f"the site of {entry}")
    expect(image["missed_sites"][0]["in_the_way"], "who was in the way is not said")
    counted = sum(entry["blocked"] for entry in image["blockers"])
    expect(counted > stats["blocked"] * 0.9, f"{counted} of {stats['blocked']} blocked are explained")
    lines = "\n".join(outcome.ours())
    for text in ("went elsewhere than planned", "PhaseBlock", "in the way", "--learn"):
        expect(text in lines, f"{text!r} is missing: {lines}")
    expect(len(outcome.ours()) < 12, f"many lines: {lines}")

    outcome, stats = replay(bench, "mixed 1")
    lane = stats["images"][0]["lanes"][0]
    expect("PhaseBlock" in lane["expected"]["where"], f"expected {lane['expected']}")
    expect("LongLived" in lane["seen"]["where"], f"seen {lane['seen']}")
    expect("first differed at its allocation" in "\n".join(outcome.ours()), f"{outcome.ours()}")


def python_hashes(bench):
    """Python is told to keep its hashes where they are what differs."""
    script = "\n".join(
        [
            "names = {'name %d' % number * (1 + number % 40) for number in range(4000)}",
            "kept = [name + '!' for name in names]",
            "print(len(kept), sum(map(len, kept)))",
        ]
    )
    command = ["/usr/bin/python3", "-c", script]
    bench.environment["PYTHONMALLOC"] = "malloc"
    bench.environment["PYTHONHASHSEED"] = "1"
    bench.record(command, expected=0)
    bench.plan()
    bench.environment["PYTHONHASHSEED"] = "random"
    outcome, _ = bench.replay(command)
    expect("PYTHONHASHSEED" in "\n".join(outcome.ours()), f"not said: {outcome.ours()}")
    bench.environment["PYTHONHASHSEED"] = "2"
    outcome, _ = bench.replay(command)
    expect("went elsewhere" in "\n".join(outcome.ours()), f"another seed: {outcome.ours()}")
    expect("PYTHONHASHSEED" not in "\n".join(outcome.ours()), f"said: {outcome.ours()}")


def perl_hashes(bench):
    """perl goes through its hashes in the same order every time, as long as nobody else seeds them."""
    script = "my (%h, %g); $h{$_} = 'x' x ($_ % 100) for 0 .. 9999; $g{$_} = $h{$_} . $_ for keys %h"
    command = ["perl", "-e", script]
    bench.environment.pop("PERL_HASH_SEED", None)
    bench.record(command, expected=0)
    bench.plan()
    outcome, stats = bench.replay(command)
    expect_equal((outcome.ours(), stats["improvised"]), ([], 0), "perl, as recorded")
    bench.environment["PERL_HASH_SEED"] = "1"
    outcome, stats = bench.replay(command)
    expect(stats["improvised"] > 0, "another seed changed nothing")


def several_images(bench):
    """Each image of a folder learns from its own replays."""
    command = ["sh", "-c", f"'{program(bench)}'; '{program(bench)}' second"]
    prepare(bench, "phases 0", command)
    _, before = replay(bench, "phases 3", command, stats="first.json")
    planned = learn(bench, "first.json")
    learned = [image["learned"] for image in planned["images"]]
    expect_equal(sorted(count > 0 for count in learned), [False, True, True], f"learned {learned}")
    _, after = replay(bench, "phases 3", command, plan="learned", stats="second.json")
    expect(after["blocked"] < before["blocked"] / 5, f"{before['blocked']}, then {after['blocked']}")


def other_callers(bench):
    """A request that only its callers tell from the expected one is not said to be the same."""
    source = bench.work / "callers.c"
    source.write_text("""
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) void* deep(int n) {
  volatile char room[64];
  room[n] = 1;
  void* block = n == 0 ? malloc(100) : deep(n - 1);
  room[0] = 2;
  return block;
}
int main(void) {
  int more = 0;
  FILE* how = fopen("how", "r");
  if (how == NULL || fscanf(how, "%d", &more) != 1) return 1;
  for (int i = 0; i < 3000; ++i) free(deep(1 + (i % 2 == 1 ? more : 0)));
  return 0;
}
""")
    bench.run("gcc", "-O1", "-fno-optimize-sibling-calls", source, "-o", "callers", expected=0)
    command = [bench.work / "callers"]
    prepare(bench, "0", command, loop="none")  # in a loop, other callers of one size are no matter
    (bench.work / "how").write_text("1")
    lines = "\n".join(bench.replay(command)[0].ours())
    expect("found the same by way of other callers" in lines, f"said: {lines}")


def refuses(bench):
    """Statistics of another recording, and what are none, in one line."""
    prepare(bench, "phases 0")
    replay(bench, "phases 3", stats="first.json")
    (bench.work / "how").write_text("mixed 1")
    bench.record([program(bench)], name="other", expected=0)
    (bench.scratch / "none.json").write_text('{"images": [{}]}')
    (bench.scratch / "text.json").write_text("no JSON")
    for stats, says in (
        ("first.json", "found those of another"),
        ("none.json", "reprise replay --stats"),
        ("text.json", "reprise replay --stats"),
    ):
        outcome = learn(bench, stats, recording="other", expected=3)
        expect_equal(len(outcome.ours()), 1, f"lines: {outcome.stderr}")
        expect(stats in outcome.ours()[0] and says in outcome.ours()[0], f"{outcome.ours()}")
    learn(bench, "missing.json", expected=4)
    instance = bench.work / "instance.csv"
    instance.write_text("id,lower,upper,size\na,0,1,16\n")
    bench.run(
        bench.reprise, "plan", instance, "--learn", bench.scratch / "first.json", expected=2
    )


if __name__ == "__main__":
    cases = (squatters, explains, python_hashes, perl_hashes, several_images, other_callers, refuses)
    main({case.__name__: case for case in cases})
