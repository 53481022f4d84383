#!/usr/bin/env python3
"""The server over HTTP, with the real engine and the bundled model: every endpoint, plain and streamed; sessions; refusals."""
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True

from server_rig import DEMO, PATIENCE, Server, Shared

CHAT = "/v1/chat/completions"


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "seed": 7, **more}


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


def streamed_text(messages):
    return "".join(c["delta"].get("content") or "" for _, m in messages if m != "[DONE]" for c in m["choices"])


class Chat(Shared):
    WORDS = ("--sessions", "4")

    def test_plain_and_streamed_are_the_same(self):
        plain = self.server.post(CHAT, chat("It was the best of times", stop=["zzzz"]))
        self.assertEqual(plain["object"], "chat.completion")
        self.assertEqual(plain["choices"][0]["finish_reason"], "length")
        self.assertEqual(plain["usage"]["completion_tokens"], 8)
        self.assertEqual(plain["usage"]["total_tokens"], plain["usage"]["prompt_tokens"] + 8)
        self.assertGreater(plain["timings"]["predicted_per_second"], 0)
        got = self.server.stream(CHAT, chat("It was the best of times", stream_options={"include_usage": True}, return_progress=True))
        self.assertEqual(streamed_text(got), text_of(plain))
        self.assertEqual(got[-1][1], "[DONE]")
        self.assertEqual(got[-2][1]["choices"], [])
        self.assertEqual(got[-2][1]["usage"]["completion_tokens"], 8)
        self.assertEqual(got[0][1]["choices"][0]["delta"]["role"], "assistant")
        self.assertIn("prompt_progress", json.dumps([m for _, m in got]))
        self.assertEqual({m["object"] for _, m in got if m != "[DONE]"}, {"chat.completion.chunk"})

    def test_what_was_computed_is_reused(self):
        words = "Call me Ishmael. Some years ago, never mind how long precisely, " * 3
        first = self.server.post(CHAT, chat(words))
        again = self.server.post(CHAT, chat(words))
        self.assertEqual(text_of(first), text_of(again))
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], first["usage"]["prompt_tokens"] - 1)
        self.assertEqual(again["timings"]["prompt_n"], 1)

    def test_a_conversation_computes_each_token_once(self):
        messages, known = [], 0
        for turn in range(14):
            messages.append({"role": "user", "content": f"And what of chapter {turn}?"})
            got = self.server.post(CHAT, {"messages": messages, "max_tokens": 9, "seed": turn, "temperature": 1})
            usage, answer = got["usage"], got["choices"][0]
            self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], known)
            self.assertEqual(got["timings"]["prompt_n"], usage["prompt_tokens"] - known)
            # the last token was chosen, but nothing was computed from it yet
            known = usage["prompt_tokens"] + usage["completion_tokens"] - (answer["finish_reason"] == "length")
            messages.append({"role": "assistant", "content": answer["message"]["content"]})
        # an earlier turn is edited: what stands before it is known still
        messages = messages[:11]
        messages[10] = {"role": "user", "content": "Something else."}
        got = self.server.post(CHAT, {"messages": messages, "max_tokens": 4})
        self.assertGreater(got["usage"]["prompt_tokens_details"]["cached_tokens"], got["usage"]["prompt_tokens"] - 40)

    def test_several_answers(self):
        """Each is what its seed gives alone; the prompt is computed and counted once."""
        body = chat("It was the best of times", max_tokens=6, temperature=1.5, stop=["e"], logprobs=True, top_logprobs=1)
        alone = [self.server.post(CHAT, {**body, "seed": 7 + i}) for i in range(3)]
        before = self.server.metric("prompt_tokens_total")
        plain = self.server.post(CHAT, {**body, "n": 3})
        self.assertEqual(plain["choices"], [{**a["choices"][0], "index": i} for i, a in enumerate(alone)])
        self.assertGreater(len({c["message"]["content"] for c in plain["choices"]}), 1)
        said = sum(a["usage"]["completion_tokens"] for a in alone)
        asked = alone[0]["usage"]["prompt_tokens"]
        self.assertEqual([plain["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")], [asked, said, asked + said])
        self.assertEqual(plain["timings"]["predicted_n"], said)
        self.assertEqual(self.server.metric("prompt_tokens_total") - before, asked)
        got = [m for _, m in self.server.stream(CHAT, {**body, "n": 3, "stream_options": {"include_usage": True}}) if m != "[DONE]"]
        self.assertEqual(got[-1]["usage"]["completion_tokens"], said)
        pieces = [c for m in got for c in m["choices"]]
        for i, whole in enumerate(plain["choices"]):
            mine = [c for c in pieces if c["index"] == i]
            self.assertEqual(mine[0]["delta"]["role"], "assistant")
            self.assertEqual("".join(c["delta"].get("content") or "" for c in mine), whole["message"]["content"])
            self.assertEqual([c["finish_reason"] for c in mine], [None] * (len(mine) - 1) + [whole["finish_reason"]])
            self.assertEqual([p for c in mine if c["logprobs"] for p in c["logprobs"]["content"]], whole["logprobs"]["content"])

    def test_stop_texts(self):
        whole = text_of(self.server.post(CHAT, chat("The sea was", max_tokens=30)))
        middle = whole[len(whole) // 2:len(whole) // 2 + 5]  # across the borders of tokens
        cut = self.server.post(CHAT, chat("The sea was", max_tokens=30, stop=middle))
        self.assertEqual(text_of(cut), whole[:whole.index(middle)])
        self.assertEqual(cut["choices"][0]["finish_reason"], "stop")
        self.assertEqual(streamed_text(self.server.stream(CHAT, chat("The sea was", max_tokens=30, stop=["nowhere", middle]))), text_of(cut))

    def test_probabilities(self):
        body = chat("It was", logprobs=True, top_logprobs=3, temperature=0)
        got = self.server.post(CHAT, body)["choices"][0]
        self.assertEqual(len(got["logprobs"]["content"]), 8)
        self.assertEqual(b"".join(bytes(t["bytes"]) for t in got["logprobs"]["content"]).decode(), got["message"]["content"])
        for t in got["logprobs"]["content"]:
            self.assertLess(t["logprob"], 0)
            self.assertEqual(t["top_logprobs"][0]["token"], t["token"])  # greedy
            self.assertEqual(len(t["top_logprobs"]), 3)
            self.assertLessEqual(t["top_logprobs"][2]["logprob"], t["top_logprobs"][1]["logprob"])
        streamed = self.server.stream(CHAT, body)
        self.assertEqual([t for _, m in streamed if m != "[DONE]" for c in m["choices"] if c["logprobs"] for t in c["logprobs"]["content"]],
                         got["logprobs"]["content"])

    def test_an_answer_does_not_depend_on_who_else_is_served(self):
        bodies = [chat(f"Chapter {i}. " + "A long way down the road. " * (i % 3), seed=i, max_tokens=6) for i in range(24)]
        alone = [text_of(self.server.post(CHAT, b)) for b in bodies]
        got = [None] * len(bodies)

        def ask(i):
            got[i] = streamed_text(self.server.stream(CHAT, bodies[i])) if i % 2 else text_of(self.server.post(CHAT, bodies[i]))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, alone)
        self.assertGreater(self.server.metric("decode_step_sessions_total"), self.server.metric("decode_steps_total"))

    def test_answers_go_on_between_the_chunks_of_a_prompt(self):
        counts = lambda: [self.server.metric(name) for name in ("prompt_chunks_total", "decode_steps_total")]
        steps = []

        def listen():  # while it is answered, another's prompt is read
            steps.append(self.server.stream(CHAT, chat("One", max_tokens=700, temperature=1, response_format={
                "type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array", "items": {"enum": [1]}, "minItems": 340}}})))

        before = counts()
        t = threading.Thread(target=listen)
        t.start()
        self.server.wait_for("decode_steps_total", before[1] + 2)
        begin = counts()
        alone = chat("Another thing. " * 180, max_tokens=1)
        got = self.server.post(CHAT, alone)
        end = counts()
        t.join()
        self.assertGreater(got["timings"]["prompt_n"], 500)
        chunks = end[0] - begin[0]
        self.assertGreaterEqual(chunks, got["timings"]["prompt_n"] / 256)
        self.assertGreaterEqual(end[1] - begin[1], chunks - 1)  # a step, at least, between two of them

    def test_metrics(self):
        """In Prometheus' text format: each name once, with help and type; histograms that add up."""
        self.server.post(CHAT, chat("x", max_tokens=2))
        status, headers, body = self.server.get("/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4"))
        self.assertTrue(body.endswith(b"\n"))
        types, helps, values = {}, set(), {}
        for line in body.decode().splitlines():
            if line.startswith("# HELP "):
                name = line.split()[2]
                self.assertNotIn(name, helps)
                helps.add(name)
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types)
                types[name] = kind
            else:
                match = re.fullmatch(r'(sluice_[a-z_]+)(?:\{le="([^"]+)"\})? ([0-9.e+-]+)', line)
                self.assertTrue(match, line)
                name, le, value = match.groups()
                family = re.sub("_(bucket|sum|count)$", "", name) if name not in types else name
                self.assertIn(family, types)
                self.assertEqual(le is not None, name.endswith("_bucket"))
                values.setdefault(name, []).append((le, float(value)))
        self.assertEqual(helps, set(types))
        self.assertEqual(set(types.values()), {"counter", "gauge", "histogram"})
        for name, kind in types.items():
            self.assertEqual(kind == "counter", name.endswith("_total"), name)
            if kind != "histogram":
                self.assertEqual(len(values[name]), 1)
                continue
            buckets = values[name + "_bucket"]
            self.assertEqual(buckets[-1][0], "+Inf")
            bounds = [float(le) for le, _ in buckets]
            self.assertEqual(bounds, sorted(set(bounds)))
            counts = [n for _, n in buckets]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(counts[-1], values[name + "_count"][0][1])
            self.assertGreaterEqual(values[name + "_sum"][0][1], 0)
        self.assertEqual({n for n, k in types.items() if k == "histogram"}, {"sluice_first_token_seconds", "sluice_queue_seconds", "sluice_request_seconds"})
        for name in ("expert_hits_total", "expert_misses_total", "read_bytes_total", "disk_wait_seconds_total", "disk_busy_seconds_total", "compute_seconds_total", "experts_resident",
                     "expert_cache_bytes", "resident_bytes", "budget_bytes", "queue_length", "sessions_busy", "connections"):
            self.assertIn("sluice_" + name, types)
        self.assertGreater(values["sluice_compute_seconds_total"][0][1], 0)

    def refused(self, body, code, *words):
        error = self.server.post(CHAT, body, code=code)["error"]
        for word in words:
            self.assertIn(word, json.dumps(error))
        return error

    def test_refusals(self):
        for body, words in (({}, ["messages"]), ({"messages": []}, ["messages"]), (chat("x", n=9), ["'n'", "1 to 8"]), (chat("x", n=0), ["'n'"]), (chat("x", n=7, logprobs=True, top_logprobs=3), ["7 answers", "4 prob", "stream"]), (chat("x", n="2"), ["'n'"]), (chat("x", wizardry=1), ["wizardry"]),
                            (chat("x", temperature="hot"), ["temperature", "number"]), (chat("x", top_p=2), ["top_p", "0 to 1"]),
                            (chat("x", max_tokens=0), ["max_tokens"]), (chat("x", top_logprobs=3), ["logprobs"]),
                            (chat("x", logit_bias={"x": 2}), ["logit_bias", "no token id"]), (chat("x", stop=[1]), ["stop"]), (chat("x", stop="x" * 300), ["stop", "256"]),
                            ({"messages": [{"role": "wizard", "content": "x"}]}, ["wizard"]), ({"messages": [{"role": "user"}]}, ["no content"]),
                            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, ["image_url"]),
                            (chat("word " * 2000), ["context_length_exceeded"])):
            self.refused(body, 400, *words)
        self.assertEqual(self.refused(chat("x", seed=1.5), 400)["param"], "seed")
        for neutral in ({"n": 1}, {"frequency_penalty": 0}, {"logit_bias": None}, {"user": "me"}, {"stop": None}, {"tools": []}, {"seed": None}):
            self.server.post(CHAT, chat("x", max_tokens=1, **neutral))
        # llama.cpp's: off, they pass; on, they are named, with the way out where there is one
        off = {"dry_multiplier": 0, "dry_base": 1.75, "xtc_probability": 0.0, "xtc_threshold": 0.1, "mirostat": 0, "mirostat_tau": 5, "typical_p": 1, "top_n_sigma": -1,
               "dynatemp_range": 0, "grammar": "", "json_schema": None, "n_probs": 0, "ignore_eos": False, "id_slot": -1, "n_keep": 0, "samplers": None, "lora": []}
        self.server.post(CHAT, chat("x", max_tokens=1, **off))
        for name, value, *words in (("dry_multiplier", 0.8, "repeat_penalty"), ("xtc_probability", 0.5, "min_p"), ("mirostat", 2, "top_k"), ("typical_p", 0, "top_p"), ("typical_p", 0.9),
                                    ("top_n_sigma", 1.5), ("grammar", "root ::= x", "JSON Schema"), ("json_schema", {}, "response_format"), ("n_probs", 3, "logprobs"), ("samplers", [], "order")):
            self.refused(chat("x", **{name: value}), 400, f"'{name}' is not supported", *words)
        for path, body in (("/v1/responses", {"input": "x"}), ("/v1/messages", {**chat("x"), "seed": None})):
            for name, value in (("presence_penalty", 1), ("frequency_penalty", 1), ("logit_bias", {"1": 1})):
                error = self.server.post(path, {**body, name: value}, code=400)["error"]["message"]
                self.assertIn(f"'{name}' is not supported: this API has none", error)
        self.assertIn("one prompt a request", self.server.post("/v1/completions", {"prompt": ["a", "b"]}, code=400)["error"]["message"])

    def test_numbers_are_as_short_as_they_can_be(self):
        self.assertIn(b'"temperature":0.8,"top_p":0.95,"min_p":0.05,', self.server.get("/props")[2])
        for value in ("0.1", "1.2345678901234567"):
            format = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [float(value)]}}}
            self.assertEqual(self.server.post(CHAT, chat("x", response_format=format, max_tokens=64))["choices"][0]["message"]["content"].strip(), value)

        for bias in ({"1": 101}, {"1": "2"}, {"-1": 0}, {"99999999999": 1}, [[1]], [["word", 1]], [[1.5, 1]], [1], "1", {str(i): 0 for i in range(1025)}):
            self.refused(chat("x", logit_bias=bias), 400, "logit_bias")
        for name in ("presence_penalty", "frequency_penalty"):
            for value in (2.1, -2.1, "1"):
                self.refused(chat("x", **{name: value}), 400, name)

    def test_penalties_and_biases(self):
        def say(**fields):
            body = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0, "logprobs": 0, **fields}
            return self.server.post("/v1/completions", body)["choices"][0]["text"]
        free = say()
        ids = self.server.post("/tokenize", {"content": "the"})["tokens"]
        self.assertEqual(say(presence_penalty=0, frequency_penalty=0, logit_bias={}), free)
        self.assertEqual(say(logit_bias={str(ids[-1]): 100}), say(logit_bias=[[ids[-1], 100]]))
        self.assertNotEqual(say(logit_bias={str(ids[-1]): 100}), free)
        forced = {str(ids[-1]): 30}  # it wins until it has been said often enough
        self.assertNotEqual(say(logit_bias=forced, frequency_penalty=2), say(logit_bias=forced))
        self.assertNotEqual(say(presence_penalty=2), free)
        again = {"temperature": 1, "seed": 5, "presence_penalty": 1, "frequency_penalty": 0.5}
        self.assertEqual(say(**again), say(**again))

    def test_what_is_no_json(self):
        for body, words in ((b"", ["no body"]), (b"{", ["line 1"]), (b"[]", ["object"]), (b"\xff\xfe", ["JSON"]), (b'{"a":"\xff"}', ["decode byte"]),
                            (b"[" * 100000, ["nests"]), (b'{"messages":[' + b"[]," * 300000, ["values"]), (b'{"a":1,"a":2}', ["duplicate"]),
                            (b'{"seed":1' + b"0" * 400 + b"}", ["JSON"]), (b'{"temperature":1e999}', ["JSON"]), (b'{"x":"' + b"y" * 1000000, ["JSON"])):
            self.refused(body, 400, *words)

    def test_the_page(self):
        status, headers, body = self.server.get("/")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'; script-src 'self'", headers["Content-Security-Policy"])
        for name in set(re.findall(r'(?:src|href)="(/page/[^"]+)"', body.decode())):
            status, headers, body = self.server.get(name)
            self.assertEqual((status, len(body)), (200, int(headers["Content-Length"])), name)
            self.assertEqual(self.server.get(name, headers={"If-None-Match": headers["ETag"]})[::2], (304, b""))
            self.assertEqual(self.server.get(name, headers={"If-None-Match": '"another"'})[::2], (200, body))
        for method, path, code in (("HEAD", "/", 200), ("POST", "/", 405), ("OPTIONS", "/", 204), ("GET", "/page/", 404), ("GET", "/page/../page/main.js", 404)):
            self.assertEqual(self.server.request(method, path)[0], code, (method, path))

    def test_places_and_methods(self):
        for method, path, code in (("GET", "/nowhere", 404), ("GET", CHAT, 405), ("POST", "/health", 405), ("GET", "/health", 200), ("HEAD", "/health", 200),
                                   ("GET", "/v1/models", 200), ("GET", "/props", 200), ("GET", "/slots", 200), ("GET", "/api/experts", 200), ("OPTIONS", CHAT, 204)):
            self.assertEqual(self.server.request(method, path)[0], code, (method, path))
        self.assertEqual(json.loads(self.server.get("/v1/models")[2])["data"][0]["id"], "demo")
        self.assertEqual(self.server.get(CHAT)[1]["Allow"], "OPTIONS, POST")
        self.assertEqual(self.server.request("POST", "/health")[1]["Allow"], "OPTIONS, GET")
        for path, hint in (("/completion", "/v1/completions"), ("/api/chat", "/v1/chat/completions"), ("/v1/embeddings", "no embeddings")):
            status, _, body = self.server.request("POST", path)
            self.assertEqual(status, 404)
            self.assertIn(hint, json.loads(body)["error"]["message"])
        self.assertEqual(len(json.loads(self.server.get("/slots")[2])), 4)

    def test_another_template(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "chat.jinja")
            with open(path, "w", encoding="utf-8") as out:
                out.write("{% for m in messages %}[{{ m.role }}]\n{{ m.content }}\n{% endfor %}[reply]")
            server = Server("--ctx", "256", "--chat-template-file", path)
            self.assertEqual(server.post("/apply-template", {"messages": [{"role": "user", "content": "Hello"}]})["prompt"], "[user]\nHello\n[reply]")
            server.post(CHAT, {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2})
            server.stop()

    def test_a_seed_for_all(self):
        body = {"prompt": "It was the", "max_tokens": 12, "temperature": 1.5}
        server = Server("--ctx", "256", "--seed", "7")
        texts = [server.post("/v1/completions", {**body, **more})["choices"][0]["text"] for more in ({}, {}, {"seed": 7}, {"seed": 8})]
        server.stop()
        self.assertEqual(texts[:2], [texts[2]] * 2)
        self.assertNotEqual(texts[2], texts[3])

    def test_the_log(self):
        for words, watched in ((["--log", "all"], True), ([], False)):
            server = Server("--ctx", "256", "--alias", "demo", *words)
            server.post("/v1/completions", {"prompt": "Most secret words", "max_tokens": 3, "temperature": 0})
            server.post("/v1/completions", {"prompt": []}, code=400)
            server.get("/nowhere")
            server.get("/metrics")
            said = server.stop()
            self.assertRegex(said, r"note: POST /v1/completions 200 in \d+\.\d\d s: prompt \d+ tokens \(0 known before\), answer 3, first after \d+ ms, \d+\.\d\d tokens/s\n")
            self.assertRegex(said, r"note: POST /v1/completions 400 in \d+\.\d\d s\n")
            self.assertRegex(said, r"note: GET /nowhere 404 in ")
            self.assertEqual("GET /metrics 200" in said, watched)
            self.assertNotIn("secret", said)
        server = Server("--ctx", "256", "--log", "off")
        server.get("/nowhere")
        self.assertNotIn("/nowhere", server.stop())

    def test_where_the_experts_are(self):
        while not (seen := json.loads(self.server.get("/api/experts")[2]))["layers"]:
            pass
        self.assertEqual([len(seen["layers"]), len(seen["layers"][0]["tier"]), len(seen["layers"][0]["heat"])], [8, 32, 32])
        self.assertLessEqual(set("".join(layer["tier"] for layer in seen["layers"])), set(".lcp"))
        stats = json.loads(self.server.get("/api/stats")[2])
        self.assertGreater(sum(r["bytes"] for r in stats["ledger"]["rows"]), stats["engine"]["resident_bytes"] / 2)


class Ends(unittest.TestCase):
    def test_sessions_that_fit(self):
        for words, n in ((), 4), (("--experts", "40%", "--cold"), 1), (("--experts", "40%", "--cold", "--sessions", "3"), 3):
            s = Server(*words)
            self.assertEqual(s.metric("sessions"), n, words)
            self.assertIn(f"ready; {n} request", s.stop())

    def test_a_model_that_cannot_be_loaded(self):
        s = Server(model="/nowhere.gguf", wait=False)
        self.assertEqual(s.url, "")
        self.assertIn("/nowhere.gguf", s.stop(code=5))

    def test_a_model_that_does_not_fit_has_no_address(self):
        s = Server("--memory", "28M", wait=False)
        self.assertEqual(s.url, "")
        self.assertIn("is needed", s.stop(code=4))

    def test_a_model_that_is_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            path = shutil.copy(DEMO, folder)
            server = Server("--ctx", "256", model=path)
            server.post(CHAT, chat("x", max_tokens=1))
            time.sleep(0.02)  # the file system's clock ticks
            with open(path, "r+b") as f:
                f.seek(20000000)
                f.write(bytes(4096))
            error = server.post(CHAT, chat("y", max_tokens=1), code=500)["error"]["message"]
            self.assertIn("was changed", error)
            end = time.monotonic() + 10 * PATIENCE
            while (health := server.get("/health"))[0] == 200:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.assertEqual((health[0], json.loads(health[2])["status"]), (503, "error"))
            server.stop()

    def test_others_need_a_key(self):
        s = Server("--host", "0.0.0.0", wait=False)
        self.assertIn("--api-key-file", s.stop(code=2))


if __name__ == "__main__":
    unittest.main(verbosity=1)
