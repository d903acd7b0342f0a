"""What the preload library exports, imports and runs when it is loaded."""

import re

from harness import expect, expect_equal, main

# operator new and delete in every form: the mangled names of C++20.
NEW_AND_DELETE = [
    *(f"_Zn{array}m{form}" for array in "wa" for form in ("", "RKSt9nothrow_t")),
    *(f"_Zn{array}mSt11align_val_t{form}" for array in "wa" for form in ("", "RKSt9nothrow_t")),
    *(
        f"_Zd{array}Pv{form}"
        for array in "la"
        for form in (
            "",
            "m",
            "RKSt9nothrow_t",
            "St11align_val_t",
            "mSt11align_val_t",
            "St11align_val_tRKSt9nothrow_t",
        )
    ),
]


def library(bench):
    return bench.build / "lib" / "libreprise.so"


def symbols(bench, path, *options):
    listed = bench.run("nm", "--dynamic", *options, path, expected=0).stdout.decode()
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


# What else gives memory out or takes it back.
FUNCTIONS = [
    "aligned_alloc", "calloc", "cfree", "free", "malloc", "malloc_usable_size", "memalign",
    "posix_memalign", "pvalloc", "realloc", "reallocarray", "valloc",
]


def exports(bench):
    """All that allocates is ours, and nothing else is to be seen but what reprise/marks.h calls."""
    ours = symbols(bench, library(bench), "--defined-only")
    expect_equal(sorted(set(FUNCTIONS) - ours), [], "functions not exported")
    expect_equal(sorted(set(NEW_AND_DELETE) - ours), [], "forms of new and delete not exported")
    ours_alone = {name for name in ours if name.startswith(("_ZN", "_ZZ", "_ZTV", "reprise"))}
    expect_equal(sorted(ours_alone), ["reprise_iteration_begins"],
                 "names of our own that are exported")


def imports(bench):
    """No C++ runtime, no thread-local storage that calls into the loader."""
    headers = bench.run("readelf", "--dynamic", library(bench), expected=0).stdout.decode()
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", headers)
    for name in needed:
        expect(name.startswith(("libc.so", "ld-linux")), f"needs {needed}")
    undefined = symbols(bench, library(bench), "--undefined-only")
    forbidden = {"__tls_get_addr", "abort", "__assert_fail", "__cxa_atexit", "__gxx_personality_v0"}
    expect_equal(sorted(undefined & forbidden), [], "forbidden imports")
    cxx = [name for name in undefined if name.startswith("_Z")]
    expect_equal(cxx, [], "imports from a C++ runtime")


def constructors(bench):
    """The first hook may be called before any constructor has run, so none may be needed."""
    names = bench.run("nm", "-C", library(bench), expected=0).stdout.decode()
    expect("_GLOBAL__sub_I" not in names, "there are static constructors")
    expect("guard variable" not in names, "there are function-local statics with guards")
    sections = bench.run("readelf", "--sections", "--wide", library(bench), expected=0)
    found = re.search(rb"\.init_array\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)", sections.stdout)
    expect_equal(int(found[1], 16) // 8, 2, "constructors: the compiler's own, and OnLoad")


if __name__ == "__main__":
    main({case.__name__: case for case in (exports, imports, constructors)})
