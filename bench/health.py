#!/usr/bin/env python3
"""How soon a server says how it is while a long prompt is computed: /health on a fresh connection every 20 ms.

  bench/health.py --url http://127.0.0.1:8080                       a server that runs already
  bench/health.py --model MODEL --sluice build/src/cli/sluice [--options "--memory 8G"]

Prints p50, p95 and maximum from connecting to the whole answer, with how far the prompt was and how long it took; exits with 1 if
more than one in a hundred took longer than --bound (50 ms). Polls stop at --seconds: the prompt is given up then.
"""
import argparse, http.client, json, os, shlex, signal, subprocess, sys, threading, time
from urllib.parse import urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent import free_port, percentile, real_text, wait_ready


class Prompt(threading.Thread):
    """Sends one long prompt and follows how far it is."""

    def __init__(self, a, url, text):
        super().__init__(daemon=True)
        self.parts, self.key, self.timeout = urlsplit(url), a.api_key, a.timeout
        self.body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1, "stream": True, "return_progress": True}
        self.total = self.done = 0
        self.began, self.ended, self.error = time.monotonic(), None, None

    def run(self):
        headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + self.key} if self.key else {})}
        try:
            connection = http.client.HTTPConnection(self.parts.hostname, self.parts.port, timeout=self.timeout)
            connection.request("POST", "/v1/chat/completions", json.dumps(self.body), headers)
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"HTTP {response.status}: {response.read(400)!r}")
            for line in response:
                if not line.startswith(b"data: {"):
                    continue
                progress = json.loads(line[6:]).get("prompt_progress")
                if progress:
                    self.total, self.done = progress["total"], progress["processed"]
                elif self.total:
                    break  # the answer begins
        except (OSError, RuntimeError, ValueError) as e:
            self.error = e
        self.ended = time.monotonic()


def ask(parts):
    """Milliseconds until the answer is here."""
    sent = time.monotonic()
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request("GET", "/health")
    response = connection.getresponse()
    response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"/health: HTTP {response.status}")
    return (time.monotonic() - sent) * 1000


def first_in_line():
    """What this program waits for a processor is not the server's time; not everybody may do so."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except OSError:
        pass


def measure(a, url):
    parts, words = urlsplit(url), real_text(a.text).split()
    prompt = Prompt(a, url, " ".join(words[i % len(words)] for i in range(a.words)))
    first_in_line()
    idle = [ask(parts) for _ in range(20)]
    prompt.start()
    took, at = [], []
    while not prompt.ended and time.monotonic() - prompt.began < a.seconds:
        began = time.monotonic()
        took.append(ask(parts))
        at.append(began - prompt.began)
        time.sleep(max(0.0, a.every / 1000 - (time.monotonic() - began)))
    if prompt.error:
        raise RuntimeError(prompt.error)
    seconds = (prompt.ended or time.monotonic()) - prompt.began
    slow = sum(t > a.bound for t in took)
    worst = at[took.index(max(took))]
    print(f"prompt: {prompt.done} of {prompt.total} tokens in {seconds:.1f} s" + ("" if prompt.ended else ", then left"))
    print(f"/health: {len(took)} answers; p50 {percentile(took, 50):.1f} ms, p95 {percentile(took, 95):.1f}, p99 {percentile(took, 99):.1f}, max {max(took):.1f} (at {worst:.1f} s); "
          f"{slow} over {a.bound:g} ms; idle before: p50 {percentile(idle, 50):.1f} ms")
    return percentile(took, 99) <= a.bound


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url")
    ap.add_argument("--api-key")
    ap.add_argument("--model")
    ap.add_argument("--sluice")
    ap.add_argument("--options", default="", help="further options of sluice serve")
    ap.add_argument("--text", help="file of real text; default: this repository's sources")
    ap.add_argument("--words", type=int, default=3000)
    ap.add_argument("--seconds", type=float, default=45)
    ap.add_argument("--every", type=float, default=20, help="milliseconds between the beginnings of two requests")
    ap.add_argument("--bound", type=float, default=50)
    ap.add_argument("--timeout", type=int, default=600)
    a = ap.parse_args()
    if a.url:
        sys.exit(0 if measure(a, a.url) else 1)
    if not a.model or not a.sluice:
        ap.error("give --url, or --model and --sluice")
    port = str(free_port())
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([a.sluice, "serve", "-m", a.model, "--port", port, "--no-usage", *shlex.split(a.options)], stdout=subprocess.DEVNULL)
    try:
        if not wait_ready(url, server, a.timeout):
            sys.exit("the server did not become ready")
        good = measure(a, url)
    finally:
        server.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        server.send_signal(signal.SIGTERM)
        server.wait()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
