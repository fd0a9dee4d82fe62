#!/usr/bin/env python3
"""Drives a real browser without a screen (WPE WebKit through its WebDriver, https://www.w3.org/TR/webdriver2/).

Usage: browser.py FOLDER URL STEP...
FOLDER gets what the browser keeps. Each STEP is done in turn: "sh:LINE" a line of shell that must end well, or JavaScript whose
value must become true, over and over in the page as it then is, without loading it anew. Prints the last value of each. Status 0:
all did; 77: this browser opens no page here, not even one of a few words (in some roots it cannot start its processes).
"""
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

WAIT_S = 40
PROBE_S = 10
UNABLE = 77


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class FewWords(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>a few words</p>")

    def log_message(self, *_):
        pass


class Browser:
    def __init__(self, folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.port = free_port()
        self.session = None
        homes = {name: folder for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        self.log = open(os.path.join(folder, "log"), "w+")
        self.driver = subprocess.Popen(["WPEWebDriver", "--host=127.0.0.1", f"--port={self.port}"],
                                       env={**os.environ, **homes, "WEBKIT_DISABLE_SANDBOX": "1"}, stdout=self.log,
                                       stderr=self.log, stdin=subprocess.DEVNULL, start_new_session=True)

    def ask(self, method, path, body=None, wait_s=WAIT_S):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=wait_s) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode(errors="replace")) from error

    def begin(self, url):
        end = time.monotonic() + WAIT_S
        while True:
            try:
                self.ask("GET", "/status")
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        wanted = {"wpe:browserOptions": {"binary": "/usr/bin/cog", "args": ["--automation", "--platform=headless"]}}
        try:
            self.session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            self.probe()
        except (OSError, RuntimeError) as error:
            print(f"browser.py: the browser opens no page here: {error}")
            self.session = None  # it would not end either, but waste the time of others
            sys.exit(UNABLE)
        self.ask("POST", f"/session/{self.session}/url", {"url": url})

    def probe(self):
        """A page of a few words: whoever does not get it can say nothing of ours."""
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FewWords) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                self.ask("POST", f"/session/{self.session}/url", {"url": f"http://127.0.0.1:{server.server_port}/"}, PROBE_S)
            finally:
                server.shutdown()

    def evaluate(self, script):
        return self.ask("POST", f"/session/{self.session}/execute/sync", {"script": "return " + script, "args": []})

    def until(self, script):
        end = time.monotonic() + WAIT_S
        value = self.evaluate(script)
        while not value:
            if time.monotonic() > end:
                sys.exit(f"browser.py: never true: {script}\n{self.evaluate('document.body.innerText')}")
            time.sleep(0.02)
            value = self.evaluate(script)
        return value

    def end(self):
        if self.session is not None:
            try:
                self.ask("DELETE", f"/session/{self.session}", None, PROBE_S)
            except (OSError, RuntimeError):
                pass  # all of it is killed next
        os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait()
        self.log.close()


def main():
    folder, url, steps = sys.argv[1], sys.argv[2], sys.argv[3:]
    browser = Browser(folder)
    try:
        browser.begin(url)
        for step in steps:
            if step.startswith("sh:"):
                subprocess.run(["sh", "-c", step[3:]], check=True, timeout=WAIT_S, stdin=subprocess.DEVNULL)
            else:
                print(browser.until(step), flush=True)
    except RuntimeError as error:
        sys.exit(f"browser.py: {error}")
    finally:
        browser.end()


if __name__ == "__main__":
    main()
