"""The report in a real browser: it loads without an error, paints, and answers mouse and keyboard.

Skipped where there is no chromium or no selenium (scripts/setup.sh installs both).
"""

import atexit
import base64
import json
import os
import pathlib
import re
import time
from xml.etree import ElementTree

from harness import SOURCE, Skip, expect, expect_equal, main

GOLDEN = SOURCE / "tests" / "end_to_end" / "golden"
PATIENCE = 30  # seconds until the page must have painted: a loaded machine is slow
OWN_BYTES = 2 << 20  # what the page may have besides its data

# Twelve buffers that lie on two levels, some of them thinner than a pixel.
INSTANCE = "id,lower,upper,size,offset\n" + "".join(
    f"b{i},{10 * i},{10 * i + 10 + 10 * (i % 3)},{256 << (i % 4)},{2048 * (i % 4)}\n"
    for i in range(0, 12)
)


class Browser:
    """A headless chromium that shows one page. It is kept for the next one."""

    drivers = {}  # arguments → what drives the chromium that was started with them

    def __init__(self, path, arguments=(), ready="document.documentElement.dataset.ready"):
        arguments = tuple(arguments)
        if arguments not in self.drivers:
            self.drivers[arguments] = self.start(arguments)
            atexit.register(self.drivers[arguments].quit)
        self.driver = self.drivers[arguments]
        self.driver.get(path.as_uri())
        self.wait(ready)

    @staticmethod
    def start(arguments):
        try:
            from selenium import webdriver
            from selenium.webdriver.chrome.options import Options
            from selenium.webdriver.chrome.service import Service
        except ImportError as missing:
            raise Skip(f"no selenium: {missing}") from missing
        driver = pathlib.Path("/usr/bin/chromedriver")
        if not driver.exists():
            raise Skip("no chromium-driver")
        options = Options()
        for word in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1200,1600",
            "--force-device-scale-factor=1",
            *arguments,
        ):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        return webdriver.Chrome(service=Service(str(driver)), options=options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Leaves nothing of this page to the next one: no theme, no pointer, no message."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).reset_actions()
        self.run("localStorage.clear(); sessionStorage.clear();")
        self.driver.get("about:blank")
        self.complaints()

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition):
        end = time.monotonic() + PATIENCE
        while not self.run(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"{condition}: not within {PATIENCE} s; {self.complaints()}")
            time.sleep(0.02)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def settle(self):
        """Until every map shows what is in view."""
        self.wait("repriseReport.maps.every((map) => !map.busy && !map.stale && !map.frame)")


def record(bench):
    """A trace, its plan, a run from it, and a report of all that: the page's path."""
    program = ["/usr/bin/sqlite3", ":memory:", "select 1;"]
    bench.record(program, expected=0)
    bench.plan()
    bench.replay(program, expected=0)
    page = bench.work / "out.html"
    recording, plan = bench.scratch / "recording", bench.scratch / "plan"
    compared = bench.run(
        *(bench.reprise, "compare", recording, "--plan", plan, "--json"), expected=0
    )
    (bench.work / "compared.json").write_bytes(compared.stdout)
    bench.run(
        *(bench.reprise, "report", recording, "--plan", plan, "-o", page),
        *("--compare", bench.work / "compared.json", "--replay", bench.scratch / "stats.json"),
        expected=0,
    )
    recorded_page[:] = [page.read_bytes()]
    return page


recorded_page = []  # its text, once there is one


def page_of_a_recording(bench):
    """The path of a page as record() makes it, without what it was made of."""
    if not recorded_page:
        return record(bench)
    path = bench.work / "out.html"
    path.write_bytes(recorded_page[0])
    return path


def page(bench):
    """A recorded program: maps, curves and tables are there, and nothing comes from outside."""
    path = record(bench)
    text = path.read_text()
    data = sum(len(it) for it in re.findall(r'id="(?:facts|column-[^"]*)">([^<]*)', text))
    expect(len(text) - data <= OWN_BYTES, f"{len(text) - data} bytes besides the data")
    outside = re.findall(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//[^"'> ]+""", text)
    expect_equal(outside, [], "references to other places")
    with Browser(path) as browser:
        expect_equal(browser.complaints(), [], "messages of the browser")
        facts = browser.run("return repriseReport.facts")
        expect_equal([it["kind"] for it in facts["maps"]], ["allocator", "plan"], "maps")
        info = bench.info()
        for name in ("buffers", "events", "max_load"):
            expect_equal(facts[name], info[name], name)
        for column, name in (("allocations", "buffers"), ("bytes", "sum_bytes"),
                             ("peak_bytes", "max_load"), ("end_bytes", "never_freed_bytes")):
            expect_equal(sum(it[column] for it in facts["sites"]), info[name], f"{name} over sites")
        for name in ("firstPaint", "allPainted", "exact"):
            expect(browser.run(f"return repriseReport.measured.{name}") > 0, f"no {name}")
        colours = browser.run(PIXELS_OF_FIRST_MAP)
        expect(colours["covered"] > 1000, f"the map is empty: {colours}")
        expect(browser.run("return document.querySelectorAll('#sites tbody tr').length") > 0, "sites")
        rows = browser.run("return document.querySelectorAll('#contenders tbody tr').length")
        expect(rows >= 2, f"{rows} contenders")
        browser.run("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
        shown = browser.run("return document.body.innerText")
        for words in ("least possible", "followed its plan to the end", "Who holds the memory", "What if", "the only thread"):
            expect(words in shown, f"no word of {words!r}")
        expect(browser.run("return Boolean(document.querySelector('#curves canvas, #curves svg'))"),
               "no curves")


PIXELS_OF_FIRST_MAP = """
  const image = repriseReport.maps[0].image;
  const data = image.getContext('2d').getImageData(0, 0, image.width, image.height).data;
  let covered = 0;
  for (let i = 3; i < data.length; i += 4) covered += data[i] > 0;
  return {covered, width: image.width, height: image.height};
"""


def interaction(bench):
    """Hover, zoom, drag, keyboard, colours and themes do what they say."""
    path = page_of_a_recording(bench)
    with Browser(path) as browser:
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        canvas = browser.driver.find_element("css selector", "canvas.plot")
        browser.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
        browser.settle()
        # The block that lives longest of the larger ones, to have something to point at.
        spot = browser.run("""
          const map = repriseReport.maps[0], area = map.area(), image = map.image;
          const data = image.getContext('2d').getImageData(0, 0, image.width, image.height).data;
          for (let y = image.height - 1; y >= 0; --y) {
            const x = image.width >> 1;
            if (data[4 * (y * image.width + x) + 3] === 255) {
              return [area.left + x - map.canvas.clientWidth / 2,
                      area.top + y - map.canvas.clientHeight / 2];
            }
          }
          return null;
        """)
        expect(spot is not None, "no block in the middle of the map")
        x, y = (int(it) for it in spot)
        ActionChains(browser.driver).move_to_element_with_offset(canvas, x, y).perform()
        browser.wait("!document.querySelector('.tooltip').hidden")
        shown = browser.run("return document.querySelector('.tooltip').innerText")
        for word in ("size", "site", "lifetime", "thread"):
            expect(word in shown, f"the tooltip lacks {word}: {shown!r}")

        whole = browser.run("return repriseReport.view")
        browser.driver.find_element("id", "zoom-in").click()
        closer = browser.run("return repriseReport.view")
        expect(closer["end"] - closer["begin"] < whole["end"] - whole["begin"], "no zoom")
        ActionChains(browser.driver).drag_and_drop_by_offset(canvas, -60, 0).perform()
        moved = browser.run("return repriseReport.view")
        expect(moved["begin"] > closer["begin"], f"no drag: {closer} {moved}")

        canvas.send_keys("0")
        expect_equal(browser.run("return repriseReport.view"), whole, "the view after 0")
        canvas.send_keys("+")
        expect(browser.run("return repriseReport.view")["begin"] > whole["begin"], "no key zoom")
        canvas.send_keys(Keys.ENTER)
        browser.wait("document.querySelector('#selection dl')")
        first = browser.run("return repriseReport.maps[0].selected.block")
        canvas.send_keys("]")
        browser.wait(f"repriseReport.maps[0].selected.block > {first}")

        for colouring in ("site", "age", "size"):
            browser.driver.find_element("css selector", f"[data-colouring={colouring}]").click()
            browser.settle()
        browser.driver.find_element("css selector", "#sites button.link").click()
        browser.settle()
        expect(browser.run("return !document.getElementById('focus').hidden"), "no focus on a site")
        before = browser.run("return getComputedStyle(document.body).backgroundColor")
        browser.driver.find_element("id", "theme").click()
        after = browser.run("return getComputedStyle(document.body).backgroundColor")
        expect(before != after, "the theme does not change")
        browser.settle()
        expect_equal(browser.complaints(), [], "messages of the browser")


def many_blocks(bench, name="many", rows=3000):
    """An instance that fills its map, with a plan; and the page about it."""
    instance = bench.work / f"{name}.csv"
    lines = ["id,lower,upper,size,offset"]
    for i in range(rows):
        lines.append(f"{i},{i},{i + 1 + (i * i) % 700},{1 + 37 * i % 500},{512 * (i % 701)}")
    instance.write_text("\n".join(lines) + "\n")
    path = bench.work / f"{name}.html"
    bench.run(bench.reprise, "report", instance, "--plan", instance, "-o", path, expected=0)
    return path


def panning(bench):
    """What is painted bit by bit while one moves about is what one sees when one comes at once."""
    with Browser(many_blocks(bench)) as browser:
        browser.settle()
        whole = browser.run("return repriseReport.view")
        wide, tall = whole["end"], whole["top"]
        before = browser.run("return repriseReport.measured.paints")
        steps = [(0, 0), (0.013, 0), (0.2, 0.05), (0.19, 0.3), (0.5, 0.31), (0.49, 0.3), (0.8, 0)]
        for right, up in steps:
            browser.run(
                "repriseReport.setView({begin: arguments[0], end: arguments[1], bottom: arguments[2],"
                " top: arguments[3]})",
                *(right * wide, (right + 0.17) * wide, up * tall, (up + 0.4) * tall),
            )
            browser.settle()
            moved = browser.run("return repriseReport.maps[0].image.toDataURL()")
            browser.run("applyColours('size', null)")  # paints all of it anew
            browser.settle()
            at_once = browser.run("return repriseReport.maps[0].image.toDataURL()")
            expect(moved == at_once, f"the map differs at {right}, {up}")
        paints = browser.run("return repriseReport.measured.paints") - before
        expect(paints >= 2 * len(steps), f"{paints} pictures for {len(steps)} steps")
        expect_equal(browser.complaints(), [], "messages of the browser")


def touch(bench):
    """Fingers: one moves along the time, two zoom, a tap tells of a block, and the page scrolls."""
    with Browser(many_blocks(bench)) as browser:
        from selenium.webdriver.common.actions import interaction as kinds
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        canvas = browser.driver.find_element("css selector", "canvas.plot")
        browser.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
        browser.settle()
        box = browser.run(
            "const box = arguments[0].getBoundingClientRect();"
            "return [box.left + box.width / 2, box.top + box.height / 2]", canvas)
        x, y = (int(it) for it in box)

        def fingers(*paths):
            """Each path: the places that one finger goes through, relative to the map's middle."""
            actions = ActionBuilder(browser.driver, duration=30)
            actions.devices = []
            for number, path in enumerate(paths):
                finger = actions.add_pointer_input(kinds.POINTER_TOUCH, f"finger {number}")
                for step, (right, down) in enumerate(path):
                    finger.create_pointer_move(duration=30, x=x + right, y=y + down)
                    if step == 0:
                        finger.create_pointer_down(button=0)
                finger.create_pointer_up(button=0)
            actions.perform()
            browser.settle()
            return browser.run("return repriseReport.view")

        whole = browser.run("return repriseReport.view")
        closer = fingers([(-40, -10), (-80, -20), (-160, -40)], [(40, 10), (80, 20), (160, 40)])
        zoom = (whole["end"] - whole["begin"]) / (closer["end"] - closer["begin"])
        expect(2 < zoom < 8, f"two fingers zoom {zoom:.2f} times: {closer}")
        moved = fingers([(0, 0), (-60, 0), (-120, 0)])
        expect(moved["begin"] > closer["begin"], f"a finger does not move the map: {moved}")
        expect(abs((moved["end"] - moved["begin"]) / (closer["end"] - closer["begin"]) - 1) < 1e-6,
               "one finger zooms")
        farther = fingers([(-160, 0), (-80, 0), (-40, 0)], [(160, 0), (80, 0), (40, 0)])
        expect(farther["end"] - farther["begin"] > moved["end"] - moved["begin"], "no pinch out")
        fingers([(0, 0)])
        browser.wait("document.querySelector('#selection dl')")
        scrolled = browser.run("return scrollY")
        view = browser.run("return repriseReport.view")
        fingers([(0, 60), (0, 20), (0, -40), (0, -100)])
        expect(browser.run("return scrollY") > scrolled, "a map keeps the page from scrolling")
        still = fingers([(0, 0)])
        expect_equal(still["bottom"], view["bottom"], "the view after scrolling")
        expect_equal(browser.complaints(), [], "messages of the browser")


def golden(bench):
    """The map of an instance looks as it did when somebody looked at it."""
    instance = bench.work / "golden.csv"
    instance.write_text(INSTANCE)
    path = bench.work / "golden.html"
    bench.run(bench.reprise, "report", instance, "--plan", instance, "-o", path, expected=0)
    with Browser(path) as browser:
        browser.settle()
        found = browser.run("return repriseReport.maps[0].image.toDataURL('image/png')")
        stored = GOLDEN / "report_map.png"
        if os.environ.get("REPRISE_UPDATE_GOLDEN"):
            stored.write_bytes(base64.b64decode(found.split(",")[1]))
        expected = "data:image/png;base64," + base64.b64encode(stored.read_bytes()).decode()
        different = browser.run(DIFFERENT_PIXELS, expected)
        expect("size" not in different, f"expected {different}")
        share = different["pixels"] / different["all"]
        expect(share < 0.01, f"{100 * share:.1f} % of the pixels differ from {stored}")
        expect_equal(browser.complaints(), [], "messages of the browser")


DIFFERENT_PIXELS = """
  const golden = new Image();
  golden.src = arguments[0];
  return golden.decode().then(() => {
    const image = repriseReport.maps[0].image, {width, height} = image;
    if (golden.width !== width || golden.height !== height) {
      return {size: [golden.width, golden.height], found: [width, height]};
    }
    const canvas = document.createElement('canvas');
    Object.assign(canvas, {width, height});
    canvas.getContext('2d').drawImage(golden, 0, 0);
    const pixels = (it) => it.getContext('2d').getImageData(0, 0, width, height).data;
    const expected = pixels(canvas), found = pixels(image);
    let different = 0;
    for (let i = 0; i < expected.length; i += 4) {
      const apart = [0, 1, 2, 3].some((part) => Math.abs(expected[i + part] - found[i + part]) > 24);
      different += apart;
    }
    return {pixels: different, all: width * height};
  });
"""


TENSORS = """id,lower,upper,size,offset
conv1/weights,1000,1100,4096,0
conv1/out,1010,1030,1024,
relu1/out,1020,1045,1024,
conv2/workspace,1040,1050,3072,
"""


def named_buffers(bench):
    """Buffers of a CSV keep their names, times and offsets; they are found by name."""
    instance, plan, path = (bench.work / name for name in ("t.csv", "p.csv", "t.html"))
    instance.write_text(TENSORS)
    bench.run(bench.reprise, "plan", instance, "-o", plan, expected=0)
    bench.run(bench.reprise, "report", instance, "--plan", plan, "-o", path, expected=0)
    with Browser(path) as browser:
        browser.settle()
        facts = browser.run("return repriseReport.facts")
        expect_equal((facts["first"], facts["end"], facts["peak"]), (1000, 100, 40), "times")
        expect_equal(facts["size_bounds"], [1024, 3072, 4096], "a class for each size")
        expect(facts["headline"].startswith("The plan needs no more"), facts["headline"])
        rows = browser.run("return [...document.querySelectorAll('#sites tbody tr')]"
                           ".map((row) => [...row.cells].map((cell) => cell.innerText))")
        weights = next(row for row in rows if row[0] == "conv1/weights")
        expect_equal(weights[4:], ["1\u202f000", "1\u202f100", "0 (fixed)"], "times and offset")
        browser.driver.find_element("id", "search").send_keys("CONV2")
        browser.wait("document.querySelectorAll('#found button').length === 1")
        expect_equal(browser.run("return document.querySelectorAll('#sites tbody tr').length"), 1,
                     "rows that fit the search")
        browser.driver.find_element("css selector", "#found button").click()
        browser.wait("document.querySelector('#selection dl')")
        shown = browser.run("return document.getElementById('selection').innerText")
        expect("conv2/workspace" in shown and "1\u202f040" in shown, shown)
        expect_equal(browser.complaints(), [], "messages of the browser")
    given = bench.run(bench.reprise, "report", plan, "--svg", "-o", "given.svg", expected=0)
    expect_equal(given.stderr, b"", "a plan that is its own instance")


def graphs(bench):
    """A graph makes a page, with its order of execution as the time, and its plan's where given."""
    graph = {"nodes": [{"id": name} for name in ("load", "conv", "relu", "store")],
             "tensors": [{"id": "x", "producer": "load", "consumers": ["conv"], "bytes": 512},
                         {"id": "y", "producer": "conv", "consumers": ["relu"], "bytes": 256},
                         {"id": "z", "producer": "relu", "consumers": ["store"], "bytes": 256,
                          "alias_of": "y"}]}
    (bench.work / "g.json").write_text(json.dumps(graph))
    bench.run(bench.reprise, "plan", "g.json", "-o", "p.json", expected=0)
    bench.run(bench.reprise, "report", "g.json", "--plan", "p.json", "-o", "g.html", expected=0)
    with Browser(bench.work / "g.html") as browser:
        facts = browser.run("return repriseReport.facts")
        expect_equal(facts["operators"], ["load", "conv", "relu", "store"], "operators")
        expect_equal([it["label"] for it in facts["sites"]], ["x", "y = z"], "buffers")
        shown = browser.run("return document.getElementById('sites').innerText")
        expect("2 (conv)" in shown, shown)
        expect_equal(browser.complaints(), [], "messages of the browser")
    info = json.loads(bench.run(bench.reprise, "info", "g.json", "--json", expected=0).stdout)
    expect_equal((info["buffers"], info["storages"], info["max_load"]), (3, 2, 768), "info")
    bench.run(bench.reprise, "convert", "g.json", "g.csv", expected=0)
    expect_equal((bench.work / "g.csv").read_text(),
                 "id,lower,upper,size\nx,1,3,512\ny = z,2,5,256\n", "the graph as CSV")
    bad = json.loads((bench.work / "p.json").read_text())
    for tensor in bad["tensors"]:
        tensor["offset"] = 0
    (bench.work / "p.json").write_text(json.dumps(bad))
    refused(bench, "g.json", "p.json")


def refused(bench, subject, plan):
    """The plan is not valid: one line, exit 1, and no page."""
    outcome = bench.run(bench.reprise, "report", subject, "--plan", plan, "-o", "refused.html")
    expect_equal((outcome.status, outcome.stderr.count(b"\n")), (1, 1), outcome.stderr)
    expect(b"not a valid plan" in outcome.stderr, outcome.stderr)
    expect(not (bench.work / "refused.html").exists(), "a page of an invalid plan")


def invalid_plans(bench):
    """Buffers that overlap, and one that is not where the instance wants it."""
    instance, plan = bench.work / "i.csv", bench.work / "p.csv"
    instance.write_text("id,lower,upper,size,offset\na,0,4,8,0\nb,2,6,8,\n")
    for offsets in ((8, 16), (0, 4)):  # moved, overlapping
        plan.write_text("id,lower,upper,size,offset\na,0,4,8,%d\nb,2,6,8,%d\n" % offsets)
        refused(bench, instance, plan)
    outcome = bench.run(bench.reprise, "report", plan, "-o", "refused.html")
    expect_equal(outcome.status, 1, "a plan that is its own instance, and not valid")


def narrow(bench):
    """On a telephone nothing is wider than the screen, and names are not broken at every letter."""
    path = page_of_a_recording(bench)
    with Browser(path, ["--window-size=420,900"]) as browser:
        wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
        expect(wide[0] <= wide[1] + 1, f"the page is {wide[0]} pixels wide on {wide[1]}")
        name = browser.run("return document.querySelector('#sites tbody td').clientWidth")
        expect(name >= 100, f"names of call sites have {name} pixels")
        browser.run("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
        outside = browser.run("return [...document.querySelectorAll('td')].filter((cell) =>"
                              " cell.getBoundingClientRect().right > innerWidth + 1).length")
        expect_equal(outside, 0, "cells beyond the edge of the screen")
        expect_equal(browser.complaints(), [], "messages of the browser")


def without_maps(bench):
    """An instance without a plan still makes a page, which says what is missing."""
    instance = bench.work / "alone.csv"
    instance.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,4\n")
    path = bench.work / "alone.html"
    bench.run(bench.reprise, "report", instance, "-o", path, expected=0)
    with Browser(path) as browser:
        expect("--plan" in browser.run("return document.body.innerText"), "no word about --plan")
        if browser.run("return typeof uPlot !== 'undefined'"):
            shown = browser.run("return [chart.axes[0]._splits, ticks(0, 1, 5, true)]")
            expect_equal(shown, [[0, 1, 2, 3], [0, 1]], "ticks of three instants, and of a byte")
        expect_equal(browser.complaints(), [], "messages of the browser")


def repeats(bench):
    """The loop of the plan, or else the one that is found, and the program's marks, in a sentence and
    along the curves."""
    program = bench.build / "bin" / "programs" / "iterates"
    bench.record([program, 12], expected=0)
    bench.plan()
    (loop,) = bench.info()["images"][0]["loops"]
    words = [bench.reprise, "report", bench.scratch / "recording", "--allocators", "none", "-o"]
    bench.run(*words, bench.work / "found.html", expected=0)
    bench.run(*words, bench.work / "planned.html", "--plan", bench.scratch / "plan", expected=0)
    said = f"{loop['iterations']} iterations of {loop['iteration_allocations']} allocations from event "
    for name in ("found", "planned"):
        text = (bench.work / f"{name}.html").read_text()
        facts = json.loads(re.search(r'id="facts">([^<]*)', text)[1])
        ((begin, end),) = facts["loops"]
        expect(loop["first_event"] <= begin < loop["first_event"] + 10, f"{name}: begins at {begin}")
        # A plan tells allocations only; the last iteration ends with frees.
        expect(loop["end_event"] - 48 < end <= loop["end_event"], f"{name}: ends at {end}")
        expect_equal(len(facts["marks"]), 12, "marks")
        expect(facts["repeats"].startswith(said), facts["repeats"])
        expect(" 12 marks, 96 events (" in facts["repeats"], facts["repeats"])
    with Browser(bench.work / "planned.html") as browser:
        expect(said in browser.run("return document.body.innerText"), "the sentence is not shown")
        expect_equal(browser.complaints(), [], "messages of the browser")


def hostile_names(bench):
    """Names out of files are text, never markup."""
    instance = bench.work / "<img src=x onerror=alert(1)>.csv"
    instance.write_text("id,lower,upper,size,offset\n</script><b>,0,2,4,0\n")
    path = bench.work / "hostile.html"
    bench.run(bench.reprise, "report", instance, "--plan", instance, "-o", path, expected=0)
    with Browser(path) as browser:
        expect_equal(browser.run("return document.images.length"), 0, "images")
        expect("<img" in browser.run("return document.getElementById('name').textContent"), "name")
        expect_equal(browser.complaints(), [], "messages of the browser")


def several_images(bench):
    """Of several processes the page is about the largest, and says what the others are."""
    bench.record(["/bin/sh", "-c", "/usr/bin/sqlite3 :memory: 'select randomblob(500000);'; /bin/ls"], expected=0)
    path = bench.work / "several.html"
    words = ["report", "--allocators", "none", "-o", path]
    outcome = bench.run(bench.reprise, *words, bench.scratch / "recording", expected=0)
    said = " ".join(outcome.ours())
    for word in ("sqlite3.trace", "ls.trace", "3 process images"):
        expect(word in said, f"no word of {word}: {said}")
    with Browser(path) as browser:
        facts = browser.run("return repriseReport.facts")
        expect_equal(facts["name"], "sqlite3", "the process")
        loads = [it["max_load"] for it in facts["images"]]
        expect_equal(loads, sorted(loads, reverse=True), "processes by max load")
        expect("ls.trace" in browser.run("return document.body.innerText"), "no word of ls")
        expect_equal(browser.complaints(), [], "messages of the browser")
    one = next((bench.scratch / "recording").glob("*-ls.trace"))
    outcome = bench.run(bench.reprise, *words, one, expected=0)
    expect_equal(outcome.ours(), [], "words about a choice where there is none")


def density(bench):
    """Above a number of blocks the maps are densities: as full as before, and still explorable."""
    bench.record(["/usr/bin/sqlite3", ":memory:", "select 1;"], expected=0)
    bench.plan()
    path = bench.work / "dense.html"
    words = ["report", bench.scratch / "recording", "--plan", bench.scratch / "plan", "-o", path]
    covered = []
    for more in ([], ["--density-above", "20"]):
        bench.run(bench.reprise, *words, *more, expected=0)
        with Browser(path) as browser:
            browser.settle()
            facts = browser.run("return repriseReport.facts")
            expect_equal(facts.get("sampled"), 20 if more else None, "blocks beside the densities")
            covered.append(browser.run(PIXELS_OF_FIRST_MAP)["covered"])
            browser.driver.find_element("id", "zoom-in").click()
            browser.settle()
            expect_equal(browser.complaints(), [], "messages of the browser")
    share = covered[1] / covered[0]
    expect(0.9 < share < 1.2, f"the densities cover {share:.2f} of what the blocks cover")


def preview(bench):
    """Of many blocks the page first shows what C++ painted: the picture that the blocks make."""
    instance, path = bench.work / "previewed.csv", bench.work / "previewed.html"
    lines = ["id,lower,upper,size,offset"]
    level = 0
    for i in range(60_000):  # ever more levels: a triangle, so that no side looks like another
        levels = 10 + i // 100
        level = (level + 1) % levels
        lines.append(f"{i},{i},{i + 1 + levels * 3 // 4},{1 + 37 * i % 500},{512 * level}")
    instance.write_text("\n".join(lines) + "\n")
    bench.run(bench.reprise, "report", instance, "--plan", instance, "-o", path, expected=0)
    text = path.read_text()
    stuck = bench.work / "stuck.html"  # a page whose worker never gets to paint
    last = "<script>takeColumn('offset-0')</script>"
    expect(last in text, "no column of offsets")
    stuck.write_text(text.replace(last, ""))
    shades = []
    for page, ready in ((stuck, "allPainted"), (path, "complete")):
        with Browser(page, ready=f"window.repriseReport && repriseReport.measured.{ready}") as browser:
            measured = browser.run("return repriseReport.measured")
            expect_equal(measured["exact"] is None, page == stuck, "painted from the blocks")
            shades.append(browser.run(SHADES_OF_TILES))
            expect_equal(browser.complaints(), [], "messages of the browser")
    expect(measured["firstPaint"] <= measured["allPainted"] < measured["exact"], measured)
    apart = [abs(a - b) / 255 for a, b in zip(*shades)]
    expect(min(shades[1]) < 10 and max(shades[1]) > 80, f"no triangle: {shades[1]}")
    expect(max(apart) < 0.1, f"the preview is up to {max(apart):.2f} darker or lighter")
    expect(sum(apart) / len(apart) < 0.02, f"the preview differs by {sum(apart) / len(apart):.3f}")


# How opaque the first map is on average, in 16 by 8 parts of it.
SHADES_OF_TILES = """
  const image = repriseReport.maps[0].image, {width, height} = image;
  const data = image.getContext('2d').getImageData(0, 0, width, height).data;
  const sums = new Array(128).fill(0), pixels = new Array(128).fill(0);
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      const tile = Math.floor(8 * y / height) * 16 + Math.floor(16 * x / width);
      sums[tile] += data[4 * (y * width + x) + 3];
      ++pixels[tile];
    }
  }
  return sums.map((sum, tile) => sum / pixels[tile]);
"""


def pictures(bench):
    """`--svg` and `--png`: files that stand alone, the same whenever they are made."""
    instance = bench.work / "golden.csv"
    instance.write_text(INSTANCE)
    for kind, begins in (("svg", b"<svg "), ("png", b"\x89PNG")):
        made = []
        for name in ("a", "b"):
            path = bench.work / f"{name}.{kind}"
            words = ["report", instance, "--plan", instance, f"--{kind}", "-o", path]
            bench.run(bench.reprise, *words, expected=0)
            made.append(path.read_bytes())
        expect(made[0].startswith(begins), made[0][:20])
        expect_equal(made[0], made[1], f"the second {kind}")
    # Only the words tell these two apart.
    other = bench.work / "renamed.csv"
    other.write_text(INSTANCE)
    words = ["report", other, "--plan", instance, "--png", "-o", "renamed.png"]
    bench.run(bench.reprise, *words, expected=0)
    expect((bench.work / "renamed.png").read_bytes() != (bench.work / "a.png").read_bytes(),
           "a PNG without words")
    drawing = ElementTree.fromstring((bench.work / "a.svg").read_text())
    texts = "".join(drawing.itertext())
    expect("max load" in texts and "golden.csv" in texts, texts)
    instance.write_text("id,lower,upper,size\na,0,2,4\n")
    outcome = bench.run(bench.reprise, "report", instance, "--svg", "-o", "none.svg")
    expect_equal(outcome.status, 2, "a picture without maps")


def bad_input(bench):
    """Each wrong input gives one line and exit 3, and leaves no page behind."""
    instance = bench.work / "one.csv"
    instance.write_text("id,lower,upper,size\na,0,2,4\n")
    wrong = {
        "not-json": ("{", "expected a string, found end of input"),
        "other-json": ('{"results": [1]}', "expected what `reprise compare --json` prints"),
    }
    result = '{"results": [{"allocator": "a", "footprint": 1, %s}]}'
    wrong["version"] = (result % '"version": 7', "results[0].version: expected text, found 7")
    wrong["series"] = (
        result % '"series": {"events": 1, "rss": "x"}',
        "results[0].series.events: expected a list of numbers, found 1",
    )
    wrong["values"] = (result % '"series": {"events": [1], "rss": []}', "found 0 and 1")
    wrong["number"] = (result % '"seconds": 1e999', "numbers below 1.8e308, found '1e999'")
    wrong["null"] = (result % '"peak_rss": null', "results[0].peak_rss: expected a number")
    wrong["name"] = (result % '"peakrss": 1', "found 'peakrss' (did you mean 'peak_rss'?)")
    wrong["depth"] = ("[" * 80_000, "at most 64 levels of brackets")
    for name, (text, message) in wrong.items():
        (bench.work / name).write_text(text)
        outcome = bench.run(bench.reprise, "report", instance, "--compare", name, "-o", "x.html")
        expect_equal(outcome.status, 3, name)
        expect(message in outcome.stderr.decode(), outcome.stderr)
        expect_equal(outcome.stderr.count(b"\n"), 1, f"lines of {outcome.stderr}")
    words = ["report", instance, "--compare", "name", "--ignore-unknown", "-o", "known.html"]
    outcome = bench.run(bench.reprise, *words, expected=0)
    expect(b"name: not known and left aside: 'peakrss'" in outcome.stderr, outcome.stderr)
    outcome = bench.run(bench.reprise, "report", instance, "--plan", instance, "-o", "x.html")
    expect_equal(outcome.status, 3, "plan without offsets")
    outcome = bench.run(bench.reprise, "report", "absent", "-o", "x.html")
    expect_equal(outcome.status, 4, "absent input")
    outcome = bench.run(bench.reprise, "report", instance, "-o", "/nowhere/x.html")
    expect_equal(outcome.status, 4, "absent folder")
    expect(not (bench.work / "x.html").exists(), "a page was left behind")


if __name__ == "__main__":
    main(
        {
            "pages": {
                "page": page,
                "interaction": interaction,
                "narrow": narrow,
                "graphs": graphs,
                "repeats": repeats,
                "hostile_names": hostile_names,
                "several_images": several_images,
            },
            "maps": {
                "panning": panning,
                "touch": touch,
                "golden": golden,
                "named_buffers": named_buffers,
                "density": density,
                "preview": preview,
            },
            "without_maps": without_maps,
            "invalid_plans": invalid_plans,
            "pictures": pictures,
            "bad_input": bad_input,
        }
    )
