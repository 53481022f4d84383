#!/usr/bin/env python3
"""What was computed is computed once: over turns, edits, restarts of the server, and kills of it at any moment.

SLUICE_KILLS says how often it is killed (3)."""
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True

from server_rig import Server

CHAT = "/v1/chat/completions"
MEMORY = 16 << 20  # --prefix-memory
TALK = [
    "Call me Ishmael. Some years ago, never mind how long precisely,",
    "having little or no money in my purse,",
    "and nothing particular to interest me on shore,",
    "I thought I would sail about a little",
    "and see the watery part of the world.",
]


class Prefixes(unittest.TestCase):
    def setUp(self):
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="sluice-prefixes-", dir=shm)
        self.words = ("--ctx", "512", "--memory", "400M", "--prefix-memory", str(MEMORY), "--kv-dir", self.folder)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def ask(self, server, messages):
        got = server.post(CHAT, {"messages": messages, "max_tokens": 6, "seed": 3})
        usage = got["usage"]
        return (got["choices"][0]["message"]["content"], usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"],
                usage["completion_tokens"])

    def room(self, server):
        """What is known can be counted only where no prefix had to leave because others need the machine's memory."""
        if server.metric("prefix_memory_limit_bytes") < MEMORY:
            server.stop()
            self.skipTest("memory is short on this machine: prefixes gave some back")

    def talk(self, server, turns):
        """Asks turn by turn; (answer, tokens of the prompt, of them known, tokens of the answer) of each."""
        messages, out = [], []
        for text in turns:
            messages.append({"role": "user", "content": text})
            out.append(self.ask(server, messages))
            messages.append({"role": "assistant", "content": out[-1][0]})
        return out

    def test_turns_edits_and_restarts(self):
        server = Server(*self.words)
        first = self.talk(server, TALK)
        self.room(server)
        for before, now in zip(first, first[1:]):
            self.assertEqual(now[2], before[1] + before[3] - 1)  # nobody has asked for what follows an answer's last token
            self.assertLess(now[2], now[1])
        edited = self.talk(server, TALK[:2] + ["Something else."])  # an edit of the third turn
        self.room(server)
        self.assertEqual([e[0] for e in edited[:2]], [f[0] for f in first[:2]])
        self.assertGreaterEqual(edited[2][2], first[1][1])
        self.assertGreater(server.metric("prefix_nodes"), 0)
        server.stop()
        server = Server(*self.words)
        again = self.talk(server, TALK)
        self.room(server)
        self.assertEqual([a[0] for a in again], [f[0] for f in first])
        for prompt in again:
            self.assertEqual(prompt[2], prompt[1] - 1)  # all but the last, whose logits are needed
        self.assertGreater(server.metric("prefix_read_bytes_total"), 0)
        self.assertEqual(server.metric("prefix_refused_total"), 0)
        self.assertNotIn("damaged", server.stop())

    def computed(self, server):
        """Tokens computed so far; what /metrics says lags behind a little."""
        was, now = -1, 0
        while was != now:
            was = now
            time.sleep(0.3)
            now = server.metric("prefill_tokens_total") + server.metric("decode_tokens_total")
        self.room(server)
        return now

    def test_forty_turns_compute_each_token_once(self):
        words, messages, computed = ("--ctx", "1024", *self.words[2:]), [], 0
        server = Server(*words)
        for turn in range(40):
            messages.append({"role": "user", "content": f"and {turn}?"})
            got = server.post(CHAT, {"messages": messages, "max_tokens": 3, "seed": 3})
            messages.append({"role": "assistant", "content": got["choices"][0]["message"]["content"]})
            if turn in (20, 39):
                computed += self.computed(server)
                server.stop()
                server = Server(*words) if turn < 39 else None
        usage = got["usage"]
        self.assertEqual(computed, usage["prompt_tokens"] + usage["completion_tokens"] - 1)

    def test_an_edit_computes_only_what_is_behind_it(self):
        server = Server("--ctx", "1024", *self.words[2:])
        messages, ends = [], []
        for turn in range(6):
            messages.append({"role": "user", "content": f"and {turn}?"})
            got = server.post(CHAT, {"messages": messages, "max_tokens": 3, "seed": 3})
            messages.append({"role": "assistant", "content": got["choices"][0]["message"]["content"]})
            ends.append(got["usage"]["prompt_tokens"] + got["usage"]["completion_tokens"] - 1)
        for turn in (5, 3, 1):  # the last answer's last token was never computed
            before = self.computed(server)
            edited = messages[:2 * turn] + [{"role": "user", "content": f"what of {turn} ships?"}]
            usage = server.post(CHAT, {"messages": edited, "max_tokens": 3, "seed": 3})["usage"]
            behind = usage["prompt_tokens"] + usage["completion_tokens"] - 1 - ends[turn - 1]
            self.assertLessEqual(self.computed(server) - before, behind)
            self.assertGreaterEqual(usage["prompt_tokens_details"]["cached_tokens"], ends[turn - 1])
        server.stop()

    def test_killed(self):
        kills = int(os.environ.get("SLUICE_KILLS", "3"))
        plain = Server("--ctx", "512", "--memory", "400M", "--prefix-memory", "off")
        want = [a[0] for a in self.talk(plain, TALK)]
        plain.stop()
        seed = random.Random(11)
        for kill in range(kills):
            server = Server(*self.words)
            got = []

            def work():
                try:
                    got.extend(a[0] for a in self.talk(server, TALK))
                except Exception:  # the connection ends with the server
                    pass

            thread = threading.Thread(target=work)
            thread.start()
            time.sleep(seed.random() * 0.4)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            server.process.stdout.close()
            thread.join()
            self.assertEqual(got, want[:len(got)], kill)
            self.assertNotIn("damaged", server.errors())
            self.assertNotIn("not used", server.errors())
            server.err.close()
        server = Server(*self.words)
        self.assertEqual([a[0] for a in self.talk(server, TALK)], want)
        self.assertEqual(server.metric("prefix_refused_total"), 0)
        server.stop()


if __name__ == "__main__":
    unittest.main()
