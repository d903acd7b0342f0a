#!/usr/bin/python3
"""How well the heaps of many programs are planned and replayed.

    bench_programs.py BIN [--budget SECONDS] [--only NAME]...

BIN is the folder with reprise. Of the programs below those that are installed run plainly, recorded and replayed, with input
that is made here. Per program, for its image with most allocations: how many buffers there are, their max load, what the plan of
all of them as one instance (`--lanes none`) leaves above the lower bound, after how long at most; in replay, how much came
from the arena and how much of it lay where the plan said. `same` says whether all runs printed the same and ended alike; `-`
when two plain runs do not.
"""

import argparse
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import bench_record

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What the programs read, by name.
INPUTS = {
    "a.c": "".join(
        f"int f{i}(int *a, int n) {{ int s = 0; for (int j = 0; j < n; j++) s += a[j] > {i} ? a[j] * {i} : a[j] / {i + 1}; return s; }}\n"
        for i in range(300)),
    "a.cpp": "#include <iostream>\n#include <map>\n#include <regex>\nint main() { std::map<std::string, int> m; std::regex r(\"a(b|c)*d\");"
             " m[\"x\"] = std::regex_match(\"abcd\", r); std::cout << m.size(); }\n",
    "a.dot": "digraph {" + ";".join(f"n{i}->n{(i * 7 + 3) % 120}" for i in range(200)) + "}",
    "a.el": "(let ((h (make-hash-table :test 'equal))) (dotimes (i 50000) (puthash (number-to-string (% i 977)) i h))"
            " (princ (hash-table-count h)))",
    "a.gp": "set term svg\nset samples 2000\nplot sin(x) * exp(-x / 10), cos(x) with points\n",
    "a.hs": "import qualified Data.Map as M\nmain = print (M.size (M.fromList [(show i, i) | i <- [1 .. 1000 :: Int]]))\n",
    "A.java": "import java.util.*; public class A { public static void main(String[] a) { Map<String, Integer> m = new TreeMap<>();"
              " for (int i = 0; i < 100000; i++) m.merge(\"k\" + i % 977, i, Integer::sum); System.out.println(m.hashCode()); } }\n",
    "a.js": "const m = new Map(); for (let i = 0; i < 200000; i++) m.set('k' + i % 5000, (m.get('k' + i % 5000) || '') + i % 10);"
            " console.log(require('zlib').deflateSync(Buffer.from([...m.values()].join(''))).length)\n",
    "a.json": json.dumps([{"id": i, "name": f"x{i}", "values": [i] * 5} for i in range(20000)]),
    "a.lua": "local t = {} for i = 1, 200000 do local k = 'k' .. i % 3000 t[k] = (t[k] or '') .. string.char(65 + i % 26) end"
             " local n = 0 for _, v in pairs(t) do n = n + #v end print(n)\n",
    "a.m": "c = {}; for i = 1:300, c{mod(i * 7, 40) + 1} = ones(10 + mod(i * 37, 300), 10 + mod(i * 91, 200));"
           " if i > 40, x = c{mod(i, 40) + 1}; y = x * x'; end; end; disp(size(c))\n",
    "a.ml": "let () = let h = Hashtbl.create 10 in for i = 0 to 100000 do Hashtbl.replace h (string_of_int (i mod 977)) i done;"
            " print_int (Hashtbl.length h)\n",
    "a.php": "<?php $a = []; for ($i = 0; $i < 100000; $i++) { $k = 'k' . $i % 3000; $a[$k] = ($a[$k] ?? '') . chr(65 + $i % 26); }"
             " ksort($a); echo md5(serialize($a));\n",
    "a.pl": "my %h; $h{'k' . $_ % 3000} .= chr(65 + $_ % 26) for 0 .. 200000; my @a = map { [$_, $h{$_}] } keys %h; print scalar(@a);\n",
    "a.pro": ":- initialization(main).\nmain :- findall(X-Y, (between(1, 300, X), between(1, 100, Y)), P), length(P, N), print(N), halt.\n",
    "a.R": "l <- list(); for (i in 1:400) { l[[i %% 50 + 1]] <- matrix(i + seq_len(1000 + i * 7919 %% 60000 %/% 10 * 10), ncol = 10);"
           " if (i > 50) x <- crossprod(l[[i %% 37 + 1]]) }; d <- data.frame(a = 1:50000 %% 500, b = 1:50000);"
           " print(sum(aggregate(b ~ a, d, mean)$b))\n",
    "a.rb": "h = Hash.new(''); 100000.times { |i| h[\"k#{i % 3000}\"] += (i % 10).to_s }; puts h.values.join.size\n",
    "a.smt2": "(declare-const x Int)(declare-const y Int)(assert (and (> x 3) (< y 20) (= (+ (* 3 x) (* 2 y)) 47)))(check-sat)\n",
    "a.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="600">' + "".join(
        f'<circle cx="{i % 800}" cy="{i * 7 % 600}" r="{i % 20 + 1}"/><text x="{i % 800}" y="{i % 600}">t{i}</text>' for i in range(300))
             + "</svg>",
    "a.tcl": "for {set i 0} {$i < 100000} {incr i} {lappend h([expr {$i % 977}]) $i}; puts [array size h]\n",
    "a.tex": "\\documentclass{article}\\begin{document}" + "".join(f"\\section{{S{i}}} text $x^{{{i}}}$\n\n" for i in range(150))
             + "\\end{document}\n",
    "a.txt": "".join(f"line {i} {i * 2654435761 % 2**32:08x} {i * 40503 % 65536:04x}\n" for i in range(30000)),
    "a.xml": "<r>" + "".join(f'<i id="{k}"><n>name{k}</n><v>{k * 7}</v></i>' for k in range(5000)) + "</r>",
    "a.xsl": '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><o>'
             '<xsl:for-each select="r/i[v mod 2 = 0]"><xsl:sort select="n"/><x><xsl:value-of select="n"/></x></xsl:for-each></o>'
             "</xsl:template></xsl:stylesheet>",
    "matrices.py": "import numpy as np\nr = np.random.RandomState(1)\na = [r.rand(r.randint(50, 900), 300) for _ in range(60)]\nb = []\n"
                   "for i in range(400):\n    x = a[i % 60] @ a[(i * 7 + 3) % 60].T\n    b.append(x[: r.randint(1, x.shape[0])].copy())\n"
                   "    if len(b) > 40: b.pop(r.randint(40))\nprint(sum(x.size for x in b))\n",
    "frames.py": "import pandas as pd\nd = pd.DataFrame({'a': [i * 7919 % 1000 for i in range(200000)], 'b': range(200000)})\n"
                 "g = d.groupby('a').b.agg(['mean', 'sum'])\nprint(d.merge(g, left_on='a', right_index=True).sort_values('b').head(3))\n",
    "import_torch.py": "import torch\n",
    "network.py": "import torch\ntorch.manual_seed(1)\nn = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))\n"
                  "o = torch.optim.SGD(n.parameters(), lr=0.01)\nfor i in range(200):\n    x = torch.rand(32, 64)\n    l = n(x).square().mean()\n"
                  "    o.zero_grad()\n    l.backward()\n    o.step()\nprint(float(l))\n",
}

# What the scripts among them import.
MODULES = {"matrices.py": "numpy", "frames.py": "pandas", "import_torch.py": "torch", "network.py": "torch"}

PROGRAMS = {
    "7z": "sh -c '7z a -so -txz x a.txt 2>/dev/null | md5sum'",
    "bash": "bash -c 'for i in $(seq 3000); do a[$i]=$i$i; done; echo ${#a[@]}'",
    "clang": "clang -O2 -S -o - a.c",
    "clang++": "clang++ -O2 -S -o - a.cpp",
    "cppcheck": "cppcheck -q a.cpp",
    "convert": "convert a.svg -blur 0x2 -resize 53% -colors 16 txt:-",
    "dot": "dot -Tsvg a.dot",
    "doxygen": "doxygen -s -g -",
    "emacs": "emacs --batch -l a.el",
    "ffmpeg": "ffmpeg -v error -f lavfi -i testsrc=d=1:s=160x120 -c:v mpeg4 -threads 1 -f framemd5 -",
    "g++": "g++ -O2 -S -o - a.cpp",
    "gcc": "gcc -O2 -S -o - a.c",
    "gdb": "gdb -batch -ex 'info functions main' /usr/bin/jq",
    "ghc": "ghc -O1 -fforce-recomp -v0 a.hs -o a.hs.out",
    "git blame": f"git -C {ROOT} blame README.md",
    "git log": f"git -C {ROOT} log --stat -100",
    "git repack": f"sh -c 'rm -rf r; git clone -q {ROOT} r; git -C r repack -adfq --threads=2'",
    "gnuplot": "gnuplot a.gp",
    "java": "java A.java",
    "javac": "javac -d out A.java",
    "jq": "jq -c 'map(select(.id % 3 == 0) | .values | add) | add' a.json",
    "lua": "lua5.4 a.lua",
    "neato": "neato -Tplain a.dot",
    "node": "node a.js",
    "numpy": "/usr/bin/python3 matrices.py",
    "ocamlopt": "ocamlopt a.ml -o a.ml.out",
    "octave": "octave-cli -q a.m",
    "pandas": "/usr/bin/python3 frames.py",
    "pandas, PYTHONMALLOC": "env PYTHONMALLOC=malloc /usr/bin/python3 frames.py",
    "pdflatex": "pdflatex -interaction=batchmode a.tex",
    "perl": "perl a.pl",
    "php": "php a.php",
    "R": "Rscript a.R",
    "readelf": "readelf -aW /bin/bash",
    "rg": "rg -j2 0ff a.txt",
    "rsvg-convert": "rsvg-convert a.svg",
    "ruby": "ruby a.rb",
    "sort": "sort -k3 a.txt",
    "sqlite3": f"sh -c 'sqlite3 :memory: < {ROOT}/workloads/sqlite.sql'",
    "swipl": "swipl a.pro",
    "tclsh": "tclsh8.6 a.tcl",
    "torch, start-up": "/usr/bin/python3 import_torch.py",
    "torch, training": "/usr/bin/python3 network.py",
    "vim": "vim -es -u NONE -c '%s/line/LINE/g' -c '%print' -c 'q!' a.txt",
    "xmllint": "xmllint --format a.xml",
    "xsltproc": "xsltproc a.xsl a.xml",
    "xz": "sh -c 'xz -c -T2 a.txt | md5sum'",
    "z3": "z3 a.smt2",
}


class Failed(Exception):
    """A program or reprise did not do what was asked."""


def installed(command):
    words = command.replace("'", " ").split()
    needs = [words[0]]
    if words[0] == "sh":
        needs.append(words[2])
    for word in words:
        if word in MODULES and subprocess.run(["/usr/bin/python3", "-c", f"import {MODULES[word]}"], capture_output=True).returncode != 0:
            return False
    return all(shutil.which(need) for need in needs)


def run(words, folder):
    """Its exit status and what it printed."""
    done = subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    return done.returncode, done.stdout, done.stderr


def reprise(binary, words, folder):
    status, out, err = run([binary, *words], folder)
    if status != 0:
        raise Failed(err.decode(errors="replace").strip().splitlines()[-1:])
    return out


def measure(binary, command, folder, budget):
    words = shlex.split(command)
    for name in ("rec", "plan", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "out").mkdir()
    plain, again = run(words, folder)[:2], run(words, folder)[:2]
    outcomes = [run([binary, "record", "-o", "rec", "--", *words], folder)[:2]]
    traces = list((folder / "rec").glob("*.trace"))
    if not traces:
        raise Failed("nothing was recorded")

    def buffers(trace):
        return json.loads(reprise(binary, ["info", trace, "--json"], folder))["buffers"]

    largest = max(traces, key=buffers)
    plan = json.loads(reprise(binary, ["plan", largest, "-o", "x.plan", "--lanes", "none", "--budget", str(budget), "--json"], folder))
    reprise(binary, ["plan", "rec", "-o", "plan", "--budget", "2"], folder)
    for _ in range(2):
        outcomes.append(run([binary, "replay", "plan", "--stats", "stats.json", "--", *words], folder)[:2])
    stats = json.loads((folder / "stats.json").read_text())
    same = "-" if plain != again else "yes" if all(outcome == plain for outcome in outcomes) else "NO"
    above = plan["makespan"] - plan["lower_bound"]
    planned = stats["served"] - stats["improvised"]
    return [f"{plan['buffers']:,}", f"{plan['max_load'] / 2**20:.1f}",
            f"{100 * above / plan['lower_bound']:.3f} %" if above else "0", f"{plan['seconds']:.2f}",
            f"{stats['served_percent']:.2f} %", f"{100 * planned / max(stats['allocations'], 1):.1f} %", same]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--budget", type=float, default=5, help="seconds for each plan")
    parser.add_argument("--only", action="append", default=[], help="a program by its name")
    options = parser.parse_args()
    binary = pathlib.Path(options.bin).resolve() / "reprise"
    print(f"{time.strftime('%Y-%m-%d')}, {bench_record.machine()}; plans of {options.budget:g} s\n")
    print("| program | allocations | max load, MiB | left above | seconds | served | where the plan said | same |")
    print("|---" * 8 + "|", flush=True)
    absent = []
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as scratch:
        folder = pathlib.Path(scratch)
        for name, content in INPUTS.items():
            (folder / name).write_text(content)
        for name, command in PROGRAMS.items():
            if options.only and name not in options.only:
                continue
            if not installed(command):
                absent.append(name)
                continue
            try:
                cells = measure(binary, command, folder, options.budget)
            except (Failed, subprocess.TimeoutExpired) as error:
                cells = [f"failed: {error}"]
            print("| " + " | ".join([name, *cells]) + " |", flush=True)
    if absent:
        print("\nnot installed: " + ", ".join(absent))


if __name__ == "__main__":
    sys.exit(main())
