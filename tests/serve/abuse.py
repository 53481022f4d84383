#!/usr/bin/env python3
"""What clients do to servers: no key, other hosts, too much of everything, half a request, no reading, going away, signals."""
import http.client
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True

from server_rig import COMPACT, DEMO, PATIENCE, Server, Shared, messages

CHAT = "/v1/chat/completions"
IDLE, STREAMS = (100, 16) if COMPACT else (1000, 64)


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "seed": 7, **more}


def raw_post(body):
    data = json.dumps(body).encode()
    return b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data


# An answer that cannot end before the context does, or nearly so.
LONG = chat("Count", max_tokens=900, stream=True, logprobs=True, top_logprobs=20, return_progress=True,
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array", "items": {"enum": [1]}, "minItems": 450}}})


def begin(server, body, until=b'"delta"'):
    """Sends it and reads until this is in the answer: the request is at work. The socket, and what was read."""
    s = server.raw(raw_post(body))
    got = b""
    while until not in got:
        more = s.recv(4096)
        assert more, got
        got += more
    return s, got


def received(s):
    """What comes until the server closes."""
    got = b""
    try:
        while more := s.recv(65536):
            got += more
    except ConnectionResetError:
        pass
    s.close()
    return got


def rest_of(s, got):
    try:
        while more := s.recv(65536):
            got += more
    except OSError:
        pass
    s.close()
    return got


class Doors(unittest.TestCase):
    def test_keys(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# ours\nfirst-key\n\nsecond-key\n")
            file.flush()
            s = Server("--api-key-file", file.name, "--cors", "https://good.example")
            self.assertEqual(s.get("/health")[0], 200)
            for path in ("/v1/models", "/metrics", "/slots"):
                self.assertEqual(s.get(path)[0], 401)
            for headers, code in (({}, 401), ({"Authorization": "Bearer nonsense"}, 401), ({"Authorization": "first-key"}, 401), ({"Authorization": "Bearer first-ke"}, 401),
                                  ({"Authorization": "Bearer first-key"}, 200), ({"x-api-key": "second-key"}, 200), ({"x-api-key": ""}, 401),
                                  ({"x-api-key": "x" * 3000}, 401), ({"x-api-key": "# ours"}, 401)):
                self.assertEqual(s.post(CHAT, chat("x", max_tokens=1), code=code, headers=headers) is not None, True)
            error = json.loads(s.request("POST", "/v1/messages", {}, {})[2])
            self.assertEqual(error["error"]["type"], "authentication_error")
            # pages of other places
            good = {"Origin": "https://good.example", "x-api-key": "first-key"}
            self.assertEqual(s.get("/v1/models", headers=good)[1]["Access-Control-Allow-Origin"], "https://good.example")
            self.assertEqual(s.get("/v1/models", headers={**good, "Origin": "https://bad.example"})[0], 403)
            status, headers, _ = s.request("OPTIONS", CHAT, headers={"Origin": "https://good.example", "Access-Control-Request-Headers": "x-api-key"})
            self.assertEqual((status, headers["Access-Control-Allow-Headers"]), (204, "x-api-key"))
            self.assertIn("POST", headers["Access-Control-Allow-Methods"])
            s.stop()

    def test_names_of_this_machine_alone(self):
        s = Server()
        for host, code in (("localhost", 200), ("127.0.0.1:%d" % s.port, 200), ("evil.example", 403), ("localhost.evil.example", 403), ("[::1]:80", 200), ("127.0.0.2:1", 200),
                           ("127.0.0.1.evil.example", 403), ("127.evil.example:80", 403)):
            self.assertEqual(s.get("/v1/models", headers={"Host": host})[0], code, host)
        self.assertEqual(s.get("/v1/models", headers={"Origin": "null"})[0], 403)
        self.assertEqual(s.get("/v1/models", headers={"Origin": "http://127.0.0.1:%d" % s.port})[0], 200)
        s.stop()


    def test_a_model_with_an_odd_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.gguf")
            os.symlink(os.path.abspath(DEMO), path)
            s = Server(model=path)
            self.assertIn(folder, json.loads(s.get("/props")[2])["model_path"])
            self.assertEqual(s.get("/v1/models")[0], 200)
            s.stop()


class Limits(Shared):
    BUDGET = (1024 if COMPACT else 90) << 20  # sanitizers take more
    WORDS = ("--memory", str(BUDGET), "--max-body", "1", "--max-header", "16", "--timeout-receive", "2", "--sessions", "2", "--queue", "100", "--timeout-stall", "2", "--keep-alive", "1")

    @classmethod
    def tearDownClass(cls):
        most = cls.server.most_resident()
        super().tearDownClass()
        assert COMPACT or not most or most <= cls.BUDGET, (most, cls.BUDGET)

    def alive(self):
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_too_large(self):
        self.assertEqual(self.server.request("POST", CHAT, b"x" * ((1 << 20) + 1))[0], 413)

        def pieces():
            for _ in range(40):
                yield b"x" * 65536

        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30 * PATIENCE)
        c.request("POST", CHAT, pieces(), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(c.getresponse().status, 413)
        c.close()
        self.assertIn("context_length_exceeded", json.dumps(self.server.post(CHAT, chat("word " * 150000), code=400)))
        many = {"messages": chat("x")["messages"] * 20000}
        self.assertIn("context_length_exceeded", json.dumps(self.server.post(CHAT, many, code=400)))
        with self.server.raw(b"GET /health HTTP/1.1\r\n" + b"X-Flood: " + b"y" * 60000 + b"\r\n\r\n") as s:
            self.assertIn(b" 431 ", s.recv(1000)[:20])
        with self.server.raw(b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(9000)) + b"\r\n") as s:
            self.assertNotIn(b" 200 ", s.recv(1000)[:20])
        for query in (b"a&" * 3000, b"a=b&" * 3000, b"&=?" * 3000, b""):  # of no meaning here, however many
            with self.server.raw(b"GET /health?" + query + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") as s:
                self.assertIn(b" 200 ", s.recv(1000)[:20])
        with self.server.raw(b"GET /health?" + b"a&" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") as s:
            self.assertIn(b" 414 ", s.recv(1000)[:20])
        self.alive()

    def test_heads_that_are_no_http(self):
        """What a proxy in front might read otherwise (RFC 9112, 3.2 and 5.1) is refused."""
        for head in (b"Host : localhost\r\n", b"Host: localhost\r\nX : y\r\n", b"Host: localhost\r\nHost: evil.example\r\n",
                     b"Host: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
                     b"Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"):
            with self.server.raw(b"POST /tokenize HTTP/1.1\r\n" + head + b"\r\n") as s:
                self.assertIn(b" 400 ", s.recv(1000)[:20], head)
        self.alive()

    def test_names_are_cut_between_characters(self):
        for name in ("\u20ac" * 60, "x" + "\u20ac" * 60, "xx" + "\u20ac" * 60):
            self.assertIn("unknown parameter", self.server.post(CHAT, {**chat("x"), name: 1}, code=400)["error"]["message"])
            self.assertEqual(self.server.post(CHAT, chat("x", max_tokens=1, model=name))["usage"]["completion_tokens"], 1)

    def test_bodies_that_nobody_reads_are_not_kept(self):
        head = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (1 << 20)
        waiting = [self.server.raw(what + head + b"x" * ((1 << 20) - 1)) for what in (b"OPTIONS " + CHAT.encode(), b"GET /health")]
        self.assertIn("context_length_exceeded", json.dumps(self.server.post(CHAT, chat("word " * 150000), code=400)))
        for s in waiting:
            s.close()

    def test_half_a_request_and_nonsense(self):
        waiting = [self.server.raw(data) for data in (b"", b"POST ", b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{\"mess")]
        for data in (b"\x00\x01\x02\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200), b"GET\r\n\r\n", os.urandom(2000)):
            self.server.raw(data).close()
        self.assertEqual(self.server.post(CHAT, chat("x", max_tokens=1))["usage"]["completion_tokens"], 1)
        for s in waiting[1:]:  # given up after --timeout-receive; the first has not begun
            self.assertEqual(received(s), b"")
        waiting[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertIn(b" 200 ", received(waiting[0]))
        self.alive()

    def test_a_request_that_drips(self):
        """However little is sent however often: the time for a request ends."""
        before = self.server.metric("connections_timed_out_total")
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        drips = [self.server.raw(data) for data in (b"P", b"GET /health HTTP/1.1\r\nX: ", head)]
        left = set(drips)
        for _ in range(600):
            for s in sorted(left, key=drips.index):
                try:
                    s.sendall(b"a")
                    s.setblocking(False)
                    if s.recv(100) == b"":
                        left.remove(s)
                except BlockingIOError:
                    pass
                except OSError:
                    left.remove(s)
            if not left:
                break
            time.sleep(0.05)
        self.assertEqual(left, set())
        self.server.wait_for("connections_timed_out_total", before + 3)
        for s in drips:
            s.close()

    def test_a_slow_reader_of_a_plain_answer(self):
        """It has --timeout-stall, not the time for requests."""
        ids = [1] * 180000
        s = Server("--timeout-receive", "1", "--timeout-idle", "1")
        data = json.dumps({"tokens": ids}).encode()
        r = socket.socket()
        r.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        r.settimeout(30)
        r.connect(("127.0.0.1", s.port))
        r.sendall(b"POST /detokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        got = r.recv(1000)
        time.sleep(3.5)  # longer than the others' times
        got += received(r)
        head, body = got.split(b"\r\n\r\n", 1)
        self.assertIn(b" 200 ", head[:20])
        self.assertIn(b"\r\nContent-Length: %d\r\n" % len(body), head + b"\r\n")
        self.assertGreater(len(body), 400000)
        s.stop()

    def test_readers_that_drip(self):
        """A byte now and then does not hold an answer, nor does what they send meanwhile."""
        data = json.dumps({"tokens": [407] * 180000}).encode()  # six bytes each
        readers = []
        for i in range(2):
            r = socket.socket()
            r.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            r.settimeout(30 * PATIENCE)
            r.connect(("127.0.0.1", self.server.port))
            r.sendall(b"POST /detokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            readers.append(r)
        got = [len(r.recv(1)) for r in readers]
        end = time.monotonic() + 30 * PATIENCE
        while self.server.metric("connections") > 1:
            self.assertLess(time.monotonic(), end)
            got[0] += len(readers[0].recv(1))
            try:
                readers[1].sendall(b"x")
            except OSError:
                pass
            time.sleep(0.05)
        got = [n + len(rest_of(r, b"")) for n, r in zip(got, readers)]
        self.assertLess(max(got), 900000)

    def test_a_thousand_idle_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 1200:
            self.skipTest("too few descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
        idle = [self.server.raw() for _ in range(IDLE)]
        self.server.wait_for("connections", IDLE + 1)
        self.assertEqual(self.server.post(CHAT, chat("x", max_tokens=2))["usage"]["completion_tokens"], 2)
        for s in idle:
            s.close()

    @unittest.skipIf(COMPACT, "an answer that is larger than what the system stores takes long")
    def test_who_does_not_read_is_given_up(self):
        before = self.server.metric("jobs_cancelled_total")
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.connect(("127.0.0.1", self.server.port))
        s.sendall(raw_post(LONG))
        other = self.server.post(CHAT, chat("It was"))  # not held up
        self.assertEqual(other["usage"]["completion_tokens"], 8)
        self.server.wait_for("jobs_cancelled_total", before + 1, 60)
        s.close()

    def test_what_was_read_makes_room(self):
        large = {"metadata": {"x": "y" * 900000}}
        before = self.server.metric("jobs_cancelled_total")
        busy = [begin(self.server, {**LONG, **large})[0] for _ in range(2)]
        self.assertGreater(self.server.post("/v1/messages/count_tokens", {"messages": chat("x")["messages"], **large})["input_tokens"], 0)
        for s in busy:
            s.close()
        self.server.wait_for("jobs_cancelled_total", before + 2)

    def go_away(self, body, until):
        before = self.server.metric("jobs_cancelled_total")
        begin(self.server, body, until)[0].close()
        self.server.wait_for("jobs_cancelled_total", before + 1)

    def test_who_goes_away_stops_the_work(self):
        self.go_away({**LONG, "max_tokens": 800}, b"top_logprobs")
        self.go_away({**LONG, "messages": [{"role": "user", "content": "word " * 500}]}, b"prompt_progress")
        end = time.monotonic() + 30 * PATIENCE
        while any(slot["is_processing"] for slot in json.loads(self.server.get("/slots")[2])):
            self.assertLess(time.monotonic(), end)

    def test_many_streams_at_once(self):
        bodies = [chat(f"Number {i % 16}", seed=i % 16, max_tokens=3, stream=True) for i in range(STREAMS)]
        alone = [self.server.request("POST", CHAT, b)[2] for b in bodies[:16]]
        got = [None] * STREAMS

        def ask(i):
            got[i] = self.server.request("POST", CHAT, bodies[i])[2]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(STREAMS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

        def said(text):
            return [c["delta"].get("content") for _, m in messages(text.decode()) if m != "[DONE]" for c in m["choices"]]

        self.assertEqual(["".join(filter(None, said(t))) for t in got], ["".join(filter(None, said(t))) for t in alone] * (STREAMS // 16))


class Connections(unittest.TestCase):
    def test_one_without_a_request_ends(self):
        s = Server("--timeout-idle", "1")
        silent, again = s.raw(), s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(received(silent), b"")
        self.assertIn(b" 200 ", received(again))  # it stays open for a next request, and no longer
        s.stop()

    def test_half_a_request_and_gone(self):
        """Its end comes together with its last bytes: the connection does not stay until a time is over."""
        s = Server("--timeout-idle", "3600", "--timeout-receive", "3600")
        whole = raw_post(chat("x"))
        halves = [s.raw(data) for data in (b"GET /hea", whole[:100], whole[:-9]) for _ in range(3)]
        for c in halves[:4]:
            c.shutdown(socket.SHUT_WR)
        asks = s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        asks.shutdown(socket.SHUT_WR)
        self.assertIn(b" 200 ", received(asks))  # and then it is closed
        for c in halves:
            c.close()
        end = time.monotonic() + 30 * PATIENCE
        while s.metric("connections") > 1:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual(s.metric("connections_timed_out_total"), 0)
        s.stop()

    def test_more_than_may_be(self):
        """The oldest without a request makes room; if all have one, the next is told so, and health is answered."""
        s = Server("--max-connections", "6", "--sessions", "1")
        idle = [s.raw() for _ in range(6)]
        s.wait_for("connections_displaced_total", 1)  # by this question itself
        self.assertEqual(received(idle[0]), b"")
        for i in range(60):
            self.assertEqual(s.get("/health")[0], 200)
        for c in idle:
            c.close()
        busy = [begin(s, LONG)[0]] + [s.raw(raw_post(chat("x", max_tokens=1))) for _ in range(5)]
        s.wait_for("queue_length", 5)
        status, headers, body = s.request("POST", CHAT, chat("x"))
        self.assertEqual((status, headers["Retry-After"]), (503, "1"), body)
        self.assertIn("--max-connections", body.decode())
        for _ in range(3):
            self.assertEqual(s.get("/health")[0], 200)
            self.assertIn(b"sluice_queue_length 5", s.get("/metrics")[2])
        more = [s.raw() for _ in range(100)]  # these displace one another
        self.assertEqual(s.get("/health")[0], 200)
        drips = [s.raw(b"GET /") for _ in range(100)]
        self.assertEqual(s.get("/health")[0], 200)
        busy[0].close()
        for c in busy[1:]:  # nobody at work was ended
            self.assertIn(b" 200 ", c.recv(1000)[:20])
        for c in busy + more + drips:
            c.close()
        s.stop()


class Ends(unittest.TestCase):
    def test_the_queue_is_full(self):
        s = Server("--sessions", "1", "--queue", "2", "--keep-alive", "1")
        running, _ = begin(s, LONG)
        queued, wrong = (s.raw(raw_post(chat("x", stream=True, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})))
                         for schema in ({"enum": [7]}, {"type": "object", "patternProperties": {}}))
        s.wait_for("queue_length", 2)
        status, headers, body = s.request("POST", CHAT, chat("x"))
        self.assertEqual((status, "Retry-After" in headers, json.loads(body)["error"]["type"]), (429, True, "rate_limit_exceeded"))
        self.assertEqual(json.loads(s.request("POST", "/v1/messages", chat("x"))[2])["error"]["type"], "rate_limit_error")
        waits = [r.recv(4096) for r in (queued, wrong)]  # a sign of life each, though their schemas were not looked at
        running.close()
        for r, got, last in zip((queued, wrong), waits, (b"[DONE]", b"patternProperties")):
            while last not in got:
                got += r.recv(4096) or self.fail(got)
            r.close()
            self.assertIn(b" 200 ", got[:20])
            self.assertLess(got.index(b": still at work"), got.index(b"data: "))
            self.assertIn(last, got[got.index(b"data: "):])
        s.stop()

    def test_loading_and_stopping(self):
        """503, with when to come again, from the first moment on and until the last answer is finished."""
        s = Server(wait=False)
        seen = []
        while (status := s.get("/health")[0]) != 200:
            self.assertEqual(status, 503)
            seen.append(s.request("POST", CHAT, chat("x", max_tokens=1)))
        for status, headers, _ in seen[:-1]:  # it may have become ready before the last one
            self.assertEqual((status, headers["Retry-After"]), (503, "5"))
        busy, got = begin(s, {**LONG, "max_tokens": 400, "logprobs": False, "top_logprobs": 0})
        open_yet = [http.client.HTTPConnection("127.0.0.1", s.port, timeout=30 * PATIENCE) for _ in range(2)]
        for c in open_yet:  # no new connection is accepted once it stops
            c.request("GET", "/health")
            self.assertEqual(c.getresponse().read(), b'{"status":"ok"}')
        s.process.send_signal(signal.SIGTERM)
        for c, (method, path) in zip(open_yet, (("GET", "/health"), ("POST", CHAT))):
            while True:
                c.request(method, path, json.dumps(chat("x", max_tokens=1)) if method == "POST" else None)
                r = c.getresponse()
                text = r.read()
                if r.status == 503:
                    break
                self.assertEqual(r.status, 200)  # the signal is not seen yet
            self.assertIn(b"stopping", text)
            self.assertTrue(r.getheader("Retry-After"))
            c.close()
        self.assertIn(b"[DONE]", rest_of(busy, got))
        s.stop(signals=0)

    def test_what_was_accepted_is_finished(self):
        s = Server()
        busy, got = begin(s, {**LONG, "max_tokens": 60, "logprobs": False, "top_logprobs": 0})
        self.assertIn("stopping", s.stop())
        self.assertIn(b"[DONE]", rest_of(busy, got))

    def test_a_terminal_that_goes(self):
        """SIGHUP, which may come twice, is a first SIGTERM; under nohup it is none."""
        for ignored in (False, True):
            before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
            s = Server()
            signal.signal(signal.SIGHUP, before)
            busy, got = begin(s, {**LONG, "max_tokens": 60, "logprobs": False, "top_logprobs": 0})
            for _ in range(2):
                s.process.send_signal(signal.SIGHUP)
                time.sleep(0.15)
            while b"[DONE]" not in got:
                more = busy.recv(65536)
                assert more, got
                got += more
            busy.close()
            if ignored:
                self.assertEqual(s.get("/health")[0], 200)
            s.stop(signals=1 if ignored else 0)

    def test_a_signal_while_it_loads(self):
        for wait in (0, 0.002, 0.006, 0.015, 0.03):  # nothing was accepted: all of it is finished
            s = Server(wait=False)
            time.sleep(wait)
            s.stop()

    def test_a_second_signal_stops_at_once(self):
        s = Server()
        busy, got = begin(s, LONG)
        s.stop(code=130, signals=2)
        self.assertNotIn(b"[DONE]", rest_of(busy, got))


if __name__ == "__main__":
    unittest.main(verbosity=1)
