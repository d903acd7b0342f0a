"""What docs/reference/security.md promises: other users, hostile files, hostile programs."""

import contextlib
import os
import pathlib
import re
import resource
import shutil
import socket
import stat
import subprocess
import threading

from harness import SOURCE, TIMEOUT, Skip, expect, expect_equal, main

NOBODY = 65534


def programs(bench):
    return bench.build / "bin" / "programs"


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def need_root():
    if os.geteuid() != 0:
        raise Skip("only the superuser can act as another user")


def as_nobody(code, *words):
    """Runs Python code as another user."""

    def drop():
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)

    words = ["/usr/bin/python3", "-c", "import os, sys; " + code, *map(str, words)]
    subprocess.run(words, preexec_fn=drop, check=True, timeout=TIMEOUT, cwd="/")


def shared(bench):
    """A folder that everybody may write to, as /tmp, and can be reached by everybody."""
    folder = bench.scratch / "shared"
    folder.mkdir()
    os.chmod(folder, 0o1777)
    os.chmod(bench.scratch, 0o755)
    return folder


def recorded(bench, name="recording"):
    bench.record(["/bin/ls", "/"], name=name, expected=0)
    return next((bench.scratch / name).glob("*.trace"))


def foreign_links(bench):
    """No output goes where another user's link leads."""
    need_root()
    folder = shared(bench)
    trace = recorded(bench)
    victim = bench.scratch / "victim"
    victim.write_text("precious")
    kept = bench.scratch / "kept"
    kept.mkdir()
    (kept / "old.trace").write_text("precious")
    (kept / "old.plan").write_text("precious")
    as_nobody("os.symlink(sys.argv[1], sys.argv[3] + '/file'); "
              "os.symlink(sys.argv[2], sys.argv[3] + '/folder')", victim, kept, folder)
    file, directory = folder / "file", folder / "folder"
    plans = bench.scratch / "plans"
    bench.plan(plan="plans")
    for words, status in (
        (["convert", trace, file, "--to", "csv"], 4),
        (["convert", trace, file, "--to", "native"], 4),
        (["report", trace, "-o", file], 4),
        (["plan", trace, "-o", file, "--budget", "0"], 4),
        (["plan", bench.scratch / "recording", "-o", directory, "--budget", "0"], 4),
        (["record", "-o", directory, "--", "/bin/true"], 125),
        (["replay", plans, "--stats", file, "--", "/bin/ls", "/"], 125),
        (["replay", plans, "--record", directory, "--", "/bin/ls", "/"], 125),
    ):
        outcome = bench.run(bench.reprise, *words)
        expect_equal(outcome.status, status, f"{words[0]}: exit status ({outcome.ours()})")
        expect(any("link of another user" in line for line in outcome.ours()), outcome.ours())
    expect_equal(victim.read_text(), "precious", "the file behind the link")
    expect_equal(sorted(os.listdir(kept)), ["old.plan", "old.trace"], "behind the link")
    expect_equal(sorted(os.listdir(folder)), ["file", "folder"], "beside the links")


def earlier_traces(bench):
    """Nothing is deleted that the same command did not write."""
    output = bench.scratch / "recording"
    first = recorded(bench).read_bytes()
    for name in ("recording.old", "recording.old.2"):
        (bench.scratch / name).mkdir()
        (bench.scratch / name / "precious.trace").write_text(name)
    recorded(bench)
    said = bench.record(["/bin/ls", "/"], expected=0).ours()
    expect_equal(said[0], f"reprise: moved to {output}.old.4: 1 trace of an earlier recording", "line")
    for name in ("recording.old", "recording.old.2"):
        expect_equal(os.listdir(bench.scratch / name), ["precious.trace"], name)
    moved = list((bench.scratch / "recording.old.3").iterdir())
    expect_equal([path.read_bytes() for path in moved], [first], "the first recording")
    expect_equal(len(list((bench.scratch / "recording.old.4").iterdir())), 1, "the second one")
    expect_equal(len(list(output.iterdir())), 1, "traces of the third one")


def earlier_plans(bench):
    """Plans of another recording are set aside, those that are planned anew are replaced."""
    recorded(bench)
    bench.plan()
    plans = bench.scratch / "plan"
    (name,) = os.listdir(plans)
    (plans / "00007-other.plan").write_text("precious")
    (plans / "notes.txt").write_text("mine")
    words = ["plan", bench.scratch / "recording", "-o", plans, "--budget", "0"]
    outcome = bench.run(bench.reprise, *words, expected=0)
    expect(any("moved to" in line for line in outcome.ours()), outcome.ours())
    expect_equal(sorted(os.listdir(plans)), sorted([name, "notes.txt"]), "plans")
    kept = bench.scratch / "plan.old" / "00007-other.plan"
    expect_equal(kept.read_text(), "precious", "the other plan")
    bench.run(bench.reprise, *words, expected=0)
    expect(not (bench.scratch / "plan.old.2").exists(), "a second folder")


def secrets(bench):
    """A trace that holds a command line and an environment is its owner's only, whatever was there;
    others have the mode that files have."""
    os.umask(0o022)
    bench.environment["TOKEN"] = "hunter2"
    words = [bench.reprise, "record", "--with-command", "-o", bench.scratch / "recording"]
    bench.run(*words, "--", "/bin/ls", "/", expected=0)
    trace = next((bench.scratch / "recording").glob("*.trace"))
    expect_equal(mode(trace), 0o600, "mode of the trace")
    copy = bench.scratch / "copy.trace"
    copy.write_text("")
    os.chmod(copy, 0o644)
    bench.run(bench.reprise, "convert", trace, copy, expected=0)
    expect_equal(mode(copy), 0o600, "mode of its copy")
    plain = recorded(bench, "plain")
    expect_equal(mode(plain), 0o644, "mode of a trace without them")
    expect(b"hunter2" not in plain.read_bytes(), "the environment is noted unasked")


def replaced_output(bench):
    """What replaces a file has its mode and owner."""
    trace = recorded(bench)
    out = bench.scratch / "out.csv"
    out.write_text("")
    os.chmod(out, 0o640)
    if os.geteuid() == 0:
        os.chown(out, NOBODY, NOBODY)
    bench.run(bench.reprise, "convert", trace, out, expected=0)
    expect(out.stat().st_size > 100, "nothing was written")
    expect_equal(mode(out), 0o640, "mode")
    if os.geteuid() == 0:
        expect_equal(out.stat().st_uid, NOBODY, "owner")


def installed_below(bench, folder):
    for part in ("bin/reprise", "lib/libreprise.so"):
        (folder / part).parent.mkdir(parents=True)
        shutil.copy(bench.build / part, folder / part)
    return folder / "bin" / "reprise"


def preload_link(bench):
    """Where LD_PRELOAD needs a link it lies in a private folder and stays there, or is refused."""
    reprise = installed_below(bench, bench.scratch / "a b:c")
    command = ["/bin/sh", "-c", "echo $LD_PRELOAD; (sleep 1000 & echo $!)"]
    words = [reprise, "record", "-o", bench.scratch / "recording", "--", *command]
    open_to_all = bench.scratch / "open"
    open_to_all.mkdir()
    os.chmod(open_to_all, 0o777)
    del bench.environment["HOME"]
    for variable, folder in (("XDG_CACHE_HOME", open_to_all), ("XDG_RUNTIME_DIR", open_to_all)):
        bench.environment[variable] = str(folder)
    refused = bench.run(*words)
    expect_equal(refused.status, 125, "exit status where there is no private folder")
    expect(any("LD_PRELOAD" in line for line in refused.ours()), refused.ours())
    private = bench.scratch / "private"
    bench.environment["XDG_CACHE_HOME"] = str(private)
    script = "(sleep 1000 >/dev/null 2>&1 & echo $!); echo $LD_PRELOAD"
    outcome = bench.run(*words[:5], "/bin/sh", "-c", script)
    process, link = outcome.stdout.decode().split()
    try:
        expect_equal(outcome.status, 0, f"exit status ({outcome.ours()})")
        expect(link.startswith(str(private)), f"the link is {link}")
        expect_equal(os.readlink(link), str(bench.scratch / "a b:c/lib/libreprise.so"), "its target")
        expect_equal(mode(pathlib.Path(link).parent), 0o700, "mode of its folder")
        # A process that lives on still names it.
        environment = pathlib.Path(f"/proc/{process}/environ").read_bytes()
        expect(os.fsencode(link) in environment, "what a process that lives on preloads")
    finally:
        os.kill(int(process), 9)
    expect(bench.info()["events"] > 0, "events")


def session_folders(bench):
    """The session's folder lies where the user's temporary files lie, is private, and goes."""
    command = ["/bin/sh", "-c", "echo $REPRISE_SESSION; ls -ld $REPRISE_SESSION/. | cut -c1-10"]
    for variable in ("TMPDIR", "XDG_RUNTIME_DIR"):
        folder = bench.scratch / variable
        folder.mkdir(mode=0o700)
        bench.environment[variable] = str(folder)
        session, rights = bench.record(command, name=f"with-{variable}", expected=0).stdout.decode().split()
        expect_equal(os.path.dirname(session), str(folder), f"with {variable}")
        expect_equal(rights, "drwx------", "its rights")
        expect_equal(os.listdir(folder), [], "left behind")
        del bench.environment[variable]
    bench.environment["TMPDIR"] = str(bench.scratch / "nowhere")
    session = bench.record(command, name="other", expected=0).stdout.decode()
    expect(session.startswith("/tmp/"), f"without a folder it is {session}")
    if os.geteuid() == 0:
        os.chown(bench.scratch / "XDG_RUNTIME_DIR", NOBODY, NOBODY)
        bench.environment["XDG_RUNTIME_DIR"] = str(bench.scratch / "XDG_RUNTIME_DIR")
        session = bench.record(command, name="foreign", expected=0).stdout.decode()
        expect(session.startswith("/tmp/"), f"with another user's folder it is {session}")


def few_descriptors(bench):
    """However few descriptors there are, nothing of the session is left behind."""
    recorded(bench)
    bench.plan()
    folder = bench.scratch / "temporary"
    folder.mkdir(mode=0o700)
    bench.environment["TMPDIR"] = str(folder)
    ends = set()
    for most in range(3, 14):

        def limit(most=most):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

        for words in (["record", "-o", bench.scratch / "few"], ["replay", bench.scratch / "plan"]):
            outcome = bench.run(bench.reprise, *words, "--", "/bin/ls", "/", limits=limit)
            expect_equal(os.listdir(folder), [], f"left behind with {most} descriptors")
            ends.add(outcome.status)
    expect(125 in ends and 0 in ends, f"exit statuses {ends}")


def scribbled_session(bench):
    """A program that writes over what it shares with the launcher, or cuts it, harms only its own
    recording and statistics: the launcher ends with the program's status."""
    bench.record([programs(bench) / "scribbles_session", "fill"], name="plain", expected=7)
    for how in ("fill", "cut", "pipe"):
        command = [programs(bench) / "scribbles_session", how]
        folder = bench.scratch / how
        folder.mkdir(mode=0o700)
        bench.environment["TMPDIR"] = str(folder)
        outcome = bench.record(command, name=f"recording-{how}")
        expect_equal(outcome.status, 7, f"{how}: exit status of record ({outcome.ours()[:3]})")
        expect(len(outcome.stderr) < 100_000, f"{how}: {len(outcome.stderr)} bytes were said")
        expect_equal(os.listdir(folder), [], f"{how}: left behind")
    # A plan of the same program that did no harm.
    harmless = bench.scratch / "harmless"
    harmless.mkdir()
    shutil.copy(programs(bench) / "scribbles_session", harmless / "program")
    for how in ("fill", "cut", "pipe"):
        words = [harmless / "program", how]
        bench.environment["REPRISE_HARMLESS"] = "1"
        bench.record(words, name=f"calm-{how}", expected=7)
        del bench.environment["REPRISE_HARMLESS"]
        bench.plan(name=f"calm-{how}", plan=f"plan-{how}")
        outcome, stats = bench.replay(words, plan=f"plan-{how}", stats=f"{how}.json")
        expect_equal(outcome.status, 7, f"{how}: exit status of replay ({outcome.ours()[:3]})")
        expect(stats is not None, f"{how}: no statistics")
        size = (bench.scratch / f"{how}.json").stat().st_size
        expect(size < 100 << 20, f"{how}: {size} bytes of statistics")


def dropped_privileges(bench):
    """What tells other processes which files to use is read-only where it is mapped, for a child that
    has given up its privileges as well."""
    command = [programs(bench) / "session_rights"]
    outcome = bench.record(command, expected=0)
    expect_equal(outcome.stdout, b"parent: read-only\nchild: read-only\n", "recorded")
    bench.plan()
    outcome, _ = bench.replay(command, expected=0)
    expect_equal(outcome.stdout, b"parent: read-only\nchild: read-only\n", "replayed")


def exchanged_plan(bench):
    """A plan that is another file than the one that was verified, or was written to since, is not
    followed by a process that starts afterwards."""
    program = shutil.which("ls", path="/usr/bin:/bin")
    name = pathlib.Path(program).resolve().name
    target = bench.scratch / "plan" / f"00001-{name}.plan"
    hook = bench.work / "hook"
    command = ["/bin/sh", "-c", f"read line <{hook}; eval \"$line\"; {program} /; exit 0"]
    hook.write_text("\n")
    bench.record(command, expected=0)
    bench.plan()
    expect(target.exists(), f"no {target}: {os.listdir(target.parent)}")
    right = target.read_bytes()
    copy = bench.scratch / "copy"
    copy.write_bytes(right)
    for how, followed in (("", True), (f"cat {copy} >{copy}.2; mv {copy}.2 {target}", False),
                          (f"cat {copy} >{target}", False),
                          (f"rm {target}; mkfifo {target}", False)):
        target.unlink()
        target.write_bytes(right)
        hook.write_text(how.replace(" ", " ") + "\n")
        outcome, stats = bench.replay(command, expected=0)
        images = [image["executable"] for image in stats["images"]]
        expect_equal(any(image.endswith("/" + name) for image in images), followed,
                     f"'{how}': followed ({outcome.ours()})")
        said = any("after it was verified" in line for line in outcome.ours())
        expect_equal(said, not followed, f"'{how}': said {outcome.ours()}")


def forged_plan(bench):
    """A plan with a right checksum in which two live blocks share an address is refused, and one whose
    loop leaves other blocks live than it found."""
    for command, how in (([programs(bench) / "realloc_family"], []),
                         ([programs(bench) / "iterates", 9], ["loop"])):
        bench.record(command, expected=0)
        bench.plan()
        (plan,) = (bench.scratch / "plan").glob("*.plan")
        bench.replay(command, expected=0)
        bench.run(programs(bench) / "forge_plan", plan, *how, expected=0)
        outcome, stats = bench.replay(command)
        expect_equal(outcome.status, 125, "exit status")
        expect_equal(len(outcome.ours()), 1, "lines")
        expect("damaged: lane 0" in outcome.ours()[0], outcome.ours())
        expect(stats is None, "statistics of a run that was none")


def hostile_modules(bench):
    """A trace may name any file for its modules: no pipe, device, relative path or packed file is
    opened, and nothing below the cache by a name that is no build id."""
    source = bench.work / "program.c"
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n")
    program = bench.work / "program"
    bench.run("gcc", "-g", "-o", program, source, expected=0)
    bench.record([program], expected=0)
    names = bench.run(bench.reprise, "info", bench.scratch / "recording", expected=0).stdout
    expect(b"program.c" in names, "no names at first")
    shutil.rmtree(bench.scratch / ".cache", ignore_errors=True)
    for make in (lambda: os.mkfifo(program), lambda: os.symlink("/dev/zero", program),
                 lambda: program.write_bytes(b"\xfd7zXZ\0" + bytes(1000))):
        program.unlink()
        make()
        outcome = bench.run(bench.reprise, "info", bench.scratch / "recording", expected=0)
        expect(b"program.c" not in outcome.stdout, "names of a file that is none")


def debuginfod(bench):
    """No server is asked, unless --debuginfod is given."""
    asked = []
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                asked.append(connection.recv(1000))
                connection.sendall(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    recorded(bench)
    bench.environment["DEBUGINFOD_URLS"] = f"http://127.0.0.1:{server.getsockname()[1]}/"
    bench.environment["DEBUGINFOD_TIMEOUT"] = "5"
    words = [bench.reprise, "info", bench.scratch / "recording"]
    bench.run(*words, expected=0)
    expect_equal(asked, [], "asked")
    bench.run(*words, "--debuginfod", expected=0)
    libraries = subprocess.run(["ldconfig", "-p"], capture_output=True, env={"PATH": "/sbin:/usr/sbin"},
                               check=False).stdout
    expect(asked or b"libdebuginfod.so.1" not in libraries, "nobody was asked with the option")
    server.close()


def hardening(bench):
    """The command and the player: at a random address, with tables of functions that cannot be
    written to, without an executable stack, and with checks for overruns."""
    for name in ("reprise", "reprise-player"):
        path = bench.build / "bin" / name

        def read(*options, path=path):
            return bench.run("readelf", "-W", *options, path, expected=0).stdout.decode()

        header, segments, dynamic = read("-h"), read("-l"), read("-d")
        expect("DYN (" in header and re.search(r"FLAGS_1.*PIE", dynamic), f"{name}: no PIE")
        expect("GNU_RELRO" in segments, f"{name}: no RELRO")
        expect("BIND_NOW" in dynamic or re.search(r"FLAGS_1.*NOW", dynamic), f"{name}: lazy binding")
        stack = re.search(r"GNU_STACK.*", segments)[0]
        expect("RWE" not in stack, f"{name}: {stack}")
        if "REPRISE_HARDEN:BOOL=OFF" in (bench.build / "CMakeCache.txt").read_text():
            raise Skip("built with REPRISE_HARDEN=OFF")
        symbols = read("--dyn-syms")
        expect("__stack_chk_fail" in symbols, f"{name}: no stack protector")
        expect(re.search(r"__\w+_chk\b", symbols.replace("__stack_chk", "")), f"{name}: no FORTIFY")


def licences(bench):
    """Those of what is built into the command are installed with it."""
    prefix = bench.scratch / "prefix"
    bench.run("cmake", "--install", bench.build, "--prefix", prefix, expected=0)
    documents = prefix / "share" / "doc" / "reprise"
    expect_equal((documents / "LICENSE").read_text(), (SOURCE / "LICENSE").read_text(), "LICENSE")
    notice = (documents / "NOTICE").read_text()
    for part in ("uPlot", "Abseil", "spdlog", "{fmt}", "CLI11", "JSON for Modern C++", "xxHash",
                 "Zstandard", "mimalloc", "zlib", "libpng", "elfutils"):
        expect(part in notice, f"NOTICE does not name {part}")


CASES = (
    foreign_links,
    earlier_traces,
    earlier_plans,
    secrets,
    replaced_output,
    preload_link,
    session_folders,
    few_descriptors,
    scribbled_session,
    dropped_privileges,
    exchanged_plan,
    forged_plan,
    hostile_modules,
    debuginfod,
    hardening,
    licences,
)

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
