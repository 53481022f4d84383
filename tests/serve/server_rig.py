"""Starts the real program with the bundled model and talks to it over HTTP (standard library only).

SLUICE_BIN names the program, SLUICE_SOURCE the repository."""
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["SLUICE_BIN"]
SOURCE = os.environ["SLUICE_SOURCE"]
DEMO = os.path.join(SOURCE, "models", "demo.gguf")
ENV = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
ENV["SLUICE_NO_USAGE"] = "1"
COMPACT = bool(os.environ.get("SLUICE_TEST_COMPACT"))  # each step costs about ten times as much
PATIENCE = 10 if COMPACT else 1  # what limits of time are multiplied by


def with_template(template, path):
    """A copy of the bundled model with a chat template. The entry's length keeps what follows aligned."""
    with open(DEMO, "rb") as source:
        data = source.read()
    key = b"tokenizer.chat_template"
    fixed = 8 + len(key) + 4 + 8
    text = template.encode() + b"{#"
    text += b" " * (-(fixed + len(text) + 2) % 32) + b"#}"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(text)) + text
    with open(path, "wb") as out:
        out.write(data[:16] + struct.pack("<Q", struct.unpack("<Q", data[16:24])[0] + 1) + entry + data[24:])
    return path


class Server:
    """One server; stop() asserts that it ends well and gives what it wrote to standard error."""

    def __init__(self, *words, model=DEMO, wait=True, program=PROGRAM):
        self.err = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program, "serve", "-m", model, "--port", "0", *words], stdout=subprocess.PIPE, stderr=self.err,
                                        env=ENV, preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
        self.url = self.process.stdout.readline().decode().strip()
        self.port = int(self.url.rsplit(":", 1)[1]) if self.url else 0
        if wait and self.port:
            end = time.monotonic() + 60 * PATIENCE
            while self.get("/health")[0] != 200:
                assert time.monotonic() < end and self.process.poll() is None, self.errors()
                time.sleep(0.01)

    def errors(self):
        self.err.seek(0)
        return self.err.read().decode(errors="replace")

    def stop(self, code=0, signals=1):
        for _ in range(signals):
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            time.sleep(0.05 if signals > 1 else 0)
        got = self.process.wait(timeout=60 * PATIENCE)
        self.process.stdout.close()
        text = self.errors()
        self.err.close()
        assert got == code, (got, text)
        return text

    def request(self, method, path, body=None, headers=None, timeout=60 * PATIENCE):
        """Status, headers, body as bytes."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, dict(r.getheaders()), r.read()
        finally:
            c.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, code=200, **more):
        """The answer as JSON; the status must be as expected."""
        status, _, text = self.request("POST", path, body, **more)
        assert status == code, (status, text)
        return json.loads(text)

    def stream(self, path, body, **more):
        """The messages of a stream: (event or None, data) each; data is JSON or "[DONE]"."""
        status, headers, text = self.request("POST", path, {**body, "stream": True}, **more)
        assert status == 200 and headers["Content-Type"].startswith("text/event-stream"), (status, text)
        return messages(text.decode())

    def metric(self, name):
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.startswith(f"sluice_{name} "):
                return float(line.split()[1])
        raise KeyError(name)

    def wait_for(self, name, value, seconds=20):
        end = time.monotonic() + seconds * PATIENCE
        while self.metric(name) < value:
            assert time.monotonic() < end, (name, self.metric(name), value)
            time.sleep(0.01)

    def most_resident(self):
        """The most memory that the process has had, in bytes; 0 where the system does not say."""
        try:
            with open(f"/proc/{self.process.pid}/status") as status:
                return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:")), 0)
        except OSError:
            return 0

    def raw(self, data=b""):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=30 * PATIENCE)
        s.sendall(data)
        return s


def messages(text):
    out = []
    for block in text.split("\n\n"):
        event, data = None, None
        for line in block.split("\n"):
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data = line[6:] if line[6:] == "[DONE]" else json.loads(line[6:])
        if data is not None:
            out.append((event, data))
    return out


class Shared(unittest.TestCase):
    """Tests that share one server; WORDS are its options."""
    WORDS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.WORDS)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
