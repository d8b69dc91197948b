#!/usr/bin/env python3
"""Opens every kind of page that iotoll writes in headless Chromium, and looks for what annoys a reader.

    tests/pages.py [--program iotoll] [--keep FOLDER] [--page FILE.html]...

Each page is opened at three widths, dark and light. It must make no request, write nothing to the console, keep everything within the
window (what is wider scrolls in a box of its own), and let no text overlap other text. At the narrowest width every fold must be
reached and opened by keyboard, and the page must print. Screenshots and prints stay in FOLDER (target/pages).

Needs Debian's chromium and chromium-driver.
"""

import argparse
import base64
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTHS_PX = (360, 1280, 2560)
HEIGHT_PX = 900
# A screenshot of a longer page ends here.
SCREENSHOT_HEIGHT_MAX_PX = 16000

# Text beyond the window's right edge that no box lets the reader scroll to, and elements that cut their text off without a mark.
CUT_OFF = """
const found = [], seen = new Set();
// Of an element and those within it, the outermost says enough.
const say = (element, words) => {
  for (let at = element; at; at = at.parentElement) if (seen.has(at)) return;
  seen.add(element);
  found.push(words);
};
const scrolls = element => {
  for (let at = element; at && at !== document.documentElement; at = at.parentElement) {
    const overflow = getComputedStyle(at).overflowX;
    if (overflow === 'auto' || overflow === 'scroll') return true;
  }
  return false;
};
const root = document.documentElement;
if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} px wide in a window of ${innerWidth} px`);
for (const element of document.querySelectorAll('body *')) {
  const box = element.getBoundingClientRect();
  if (!box.width || !box.height || element.closest('svg') && element.tagName !== 'svg' && element.tagName !== 'text') continue;
  const text = (element.textContent || '').trim().slice(0, 40);
  if (text && box.right > innerWidth + 1 && !scrolls(element)) say(element, `<${element.tagName}> "${text}" ends at ${Math.round(box.right)} px`);
  const style = getComputedStyle(element);
  const hides = style.overflowX === 'hidden' || style.overflowX === 'clip';
  if (text && hides && style.textOverflow !== 'ellipsis' && element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 1)
    say(element, `<${element.tagName}> "${text}" is cut off`);
}
return found.slice(0, 10);
"""

# Lines of text whose boxes overlap by more than a hair. A line's box is taller than its letters, so that its edges are left out.
OVERLAPS = """
const lines = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  if (!node.data.trim() || !node.parentElement.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    const edge = box.height * 0.25;
    if (box.width > 2) lines.push({text: node.data.trim().slice(0, 30), left: box.left + 1, right: box.right - 1, top: box.top + edge, bottom: box.bottom - edge});
  }
}
lines.sort((a, b) => a.top - b.top);
const found = [];
for (let at = 0; at < lines.length; at++)
  for (let next = at + 1; next < lines.length && lines[next].top < lines[at].bottom; next++)
    if (lines[next].left < lines[at].right && lines[at].left < lines[next].right)
      found.push(`"${lines[at].text}" overlaps "${lines[next].text}" at ${Math.round(lines[at].left)}, ${Math.round(lines[at].top + scrollY)}`);
return found.slice(0, 10);
"""

# Folds that are shown while the folds around them are open, in the order of the page.
FOLDS = "return [...document.querySelectorAll('details > summary')].length"
FOCUSED_FOLD = """
const all = [...document.querySelectorAll('details > summary')];
return all.indexOf(document.activeElement);
"""


class Browser:
    """Chromium, driven by ChromeDriver through the WebDriver protocol (W3C, 2018)."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"
        options = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1"],
            "prefs": {},
        }
        always = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": always}})
        self.url += f"/session/{session['sessionId']}"

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            sys.exit(f"tests/pages.py: {method} {path}: {error.read().decode()[:500]}")

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.call("POST", "/se/log", {"type": kind})

    def open(self, page, width, scheme):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT_PX, deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("POST", "/url", {"url": page.as_uri()})

    def requests(self):
        """Addresses that were asked for since the last call."""
        messages = (json.loads(entry["message"])["message"] for entry in self.log("performance"))
        return [message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"]

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.devtools("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)


def layout(browser, page, width, scheme, keep):
    """What is wrong with a page at one width and in one colour scheme."""
    browser.requests()
    browser.open(page, width, scheme)
    problems = [f"asks for {url}" for url in browser.requests() if url != page.as_uri() and not url.startswith("data:")]
    problems += [f"console: {entry['message']}" for entry in browser.log("browser")]
    problems += browser.run(CUT_OFF)
    browser.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    problems += [f"opened: {problem}" for problem in browser.run(CUT_OFF)] + browser.run(OVERLAPS)
    height = min(browser.run("return document.documentElement.scrollHeight"), SCREENSHOT_HEIGHT_MAX_PX)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = browser.devtools("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
    (keep / f"{page.stem}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot["data"]))
    return problems


def keyboard(browser, page):
    """Every fold is reached with the tabulator key and opened with Enter. Boxes that scroll are stops too, so that the walk ends where it began."""
    browser.open(page, WIDTHS_PX[0], "light")
    folds = browser.run(FOLDS)
    reached = set()
    for _ in range(browser.run("return document.querySelectorAll('*').length")):
        browser.press("Tab", 9)
        if browser.run("return document.activeElement === document.body"):
            break
        fold = browser.run(FOCUSED_FOLD)
        if fold < 0 or fold in reached:
            continue
        reached.add(fold)
        if not browser.run(f"return document.querySelectorAll('details > summary')[{fold}].parentElement.open"):
            browser.press("Enter", 13)
        if not browser.run(f"return document.querySelectorAll('details > summary')[{fold}].parentElement.open"):
            return [f"fold {fold + 1} of {folds} does not open by Enter"]
    return [] if len(reached) == folds else [f"only {len(reached)} of {folds} folds are reached by keyboard"]


def printed(browser, page, keep):
    browser.open(page, WIDTHS_PX[1], "light")
    document = base64.b64decode(browser.devtools("Page.printToPDF", printBackground=True)["data"])
    (keep / f"{page.stem}.pdf").write_bytes(document)
    return [] if document.startswith(b"%PDF") and len(document) > 5000 else ["does not print"]


def pages(program, folder):
    """One page of every kind, written by the program."""
    captures = sorted((ROOT / "crates/host/tests/captures").glob("*.tar.gz"))
    log = folder / "kernel.log"
    log.write_text("[    0.000000] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)\n"
                   "[    0.000000] Command line: intel_iommu=on\n[    0.511111] DMAR: IOMMU enabled\n"
                   "[    1.000000] iommu: Default domain type: Translated\n[    1.100000] iommu: DMA domain TLB invalidation policy: strict mode\n"
                   "[    2.000000] pci 0000:3b:00.0: Adding to iommu group 12\n")
    sheets = [str(ROOT / f"data/tolls/{name}.json") for name in ("x86-no-iommu", "x86-vtd-strict", "ppc-tce-window")]
    commands = {f"inspect-{capture.name.split('.')[0]}": ["inspect", "--from", str(capture)] for capture in captures}
    commands["inspect-log"] = ["inspect", "--from", str(log)]
    commands["tolls"] = ["lab", "show", *sheets]
    commands["bench"] = ["bench", "iova", "--scenario", "pairs,held", "--rounds", "2", "--pairs", "2000", "--threads", "1,2"]
    commands["map-threads"] = ["bench", "map", "--threads", "1,2,4", "--rounds", "2", "--round-ms", "1"]
    commands["reproduce"] = ["reproduce"]
    documents = ROOT / "crates/compare/tests/documents"
    commands["compare"] = ["compare", str(documents / "guest-strict.json"), str(documents / "guest-lazy.json")]
    commands["watch"] = ["watch", "--seconds", "1", "--interval", "0.2"]
    fleet, sweep, plan = str(folder / "fleet-tables"), str(folder / "sweep-results"), folder / "plan.toml"
    # Three values of each axis, so that it takes a moment.
    all_values = (ROOT / "experiments/sweep.toml").read_text()
    plan.write_text(re.sub(r'(?m)^("[^"]+" = \[\d+, \d+, \d+), .*', r"\1]", all_values))
    for before in (["fleet", *map(str, captures), "--out", fleet], ["sweep", str(plan), "--out", sweep]):
        subprocess.run([program, *before], check=True, capture_output=True)
    commands["fleet"] = ["fleet", "report", fleet]
    commands["sweep"] = ["sweep", "report", sweep]
    for name, command in commands.items():
        page = folder / f"{name}.html"
        done = subprocess.run([program, *command, "--html", str(page)], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"tests/pages.py: iotoll {' '.join(command)}: {done.stderr}")
        yield page


@contextlib.contextmanager
def driver():
    """ChromeDriver on a port of its own choice."""
    program = shutil.which("chromedriver") or sys.exit("tests/pages.py: no chromedriver; expected Debian's package chromium-driver")
    with subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if "on port " in line and "started" in line:
                    yield int(line.rstrip(".\n").rsplit(" ", 1)[1])
                    break
        finally:
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/debug/iotoll"))
    parser.add_argument("--keep", type=Path, default=ROOT / "target/pages")
    parser.add_argument("--page", type=Path, action="append", help="look at this page instead of those that the program writes")
    arguments = parser.parse_args()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    count, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder, driver() as port:
        browser = Browser(port)
        given = [page.resolve() for page in arguments.page or []]
        for page in given or pages(arguments.program, Path(folder)):
            began = time.monotonic()
            problems = [
                f"{width} px, {scheme}: {problem}"
                for width in WIDTHS_PX
                for scheme in ("light", "dark")
                for problem in layout(browser, page, width, scheme, arguments.keep)
            ]
            problems += keyboard(browser, page) + printed(browser, page, arguments.keep)
            count, failed = count + 1, failed + bool(problems)
            print(f"{page.name}: {len(problems) or 'no'} problems, {time.monotonic() - began:.1f} s", flush=True)
            for problem in problems:
                print(f"    {problem}")
        browser.call("DELETE", "")
    print(f"{count - failed} of {count} pages without problems; screenshots and prints in {arguments.keep}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
