#!/usr/bin/env python3
"""The other endpoints, plain and streamed: completions, messages, responses, and the ones for text."""
import json
import sys
import unittest

sys.dont_write_bytecode = True

from server_rig import Shared


class Completions(Shared):
    def test_plain_streamed_and_ids(self):
        body = {"prompt": "It was the best", "max_tokens": 6, "seed": 3}
        plain = self.server.post("/v1/completions", body)
        self.assertEqual((plain["object"], plain["choices"][0]["finish_reason"]), ("text_completion", "length"))
        text = plain["choices"][0]["text"]
        got = self.server.stream("/v1/completions", {**body, "stream_options": {"include_usage": True}})
        self.assertEqual("".join(c["text"] for _, m in got if m != "[DONE]" for c in m["choices"]), text)
        self.assertEqual(got[-2][1]["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])
        ids = self.server.post("/tokenize", {"content": body["prompt"]})["tokens"]
        self.assertEqual(self.server.post("/v1/completions", {**body, "prompt": ids})["choices"][0]["text"], text)
        self.assertEqual(self.server.post("/v1/completions", {**body, "prompt": [body["prompt"]]})["choices"][0]["text"], text)
        self.assertEqual(self.server.post("/v1/completions", {**body, "echo": True})["choices"][0]["text"], body["prompt"] + text)
        probs = self.server.post("/v1/completions", {**body, "logprobs": 2})["choices"][0]["logprobs"]
        self.assertEqual("".join(probs["tokens"]), text)
        self.assertEqual([len(probs[k]) for k in ("token_logprobs", "top_logprobs", "text_offset")], [6] * 3)

    def test_refusals(self):
        for body in ({}, {"prompt": []}, {"prompt": ["a", "b"]}, {"prompt": [1, "x"]}, {"prompt": [99999]}, {"prompt": ""}, {"prompt": "x", "suffix": "y"},
                     {"prompt": "x", "best_of": 3}):
            self.server.post("/v1/completions", body, code=400)


class Text(Shared):
    def test_there_and_back(self):
        for text in ("It was the best of times.", "é ü 漢字 🙂", ""):
            ids = self.server.post("/tokenize", {"content": text})["tokens"]
            self.assertEqual(self.server.post("/detokenize", {"tokens": ids})["content"], text)
        pieces = self.server.post("/tokenize", {"content": "It ü", "with_pieces": True})["tokens"]
        self.assertEqual(b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces).decode(), "It ü")
        self.server.post("/detokenize", {"tokens": [-1]}, code=400)
        self.server.post("/tokenize", {"content": 7}, code=400)

    def test_the_template(self):
        body = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]}
        text = self.server.post("/apply-template", body)["prompt"]
        self.assertIn("Be brief.", text)
        self.assertIn("Hello", text)
        self.server.post("/apply-template", {**body, "tools": [{"type": "function", "function": {"name": "f"}}]}, code=400)


class Messages(Shared):
    PATH = "/v1/messages"

    def body(self, **more):
        return {"model": "claude", "max_tokens": 6, "seed": 3, "messages": [{"role": "user", "content": "It was the best"}], **more}

    def test_plain_and_streamed(self):
        plain = self.server.post(self.PATH, self.body())
        self.assertEqual((plain["type"], plain["role"], plain["model"], plain["stop_reason"]), ("message", "assistant", "claude", "max_tokens"))
        text = plain["content"][0]["text"]
        self.assertEqual(plain["usage"]["output_tokens"], 6)
        got = self.server.stream(self.PATH, self.body())
        self.assertEqual([e for e, _ in got], [m["type"] for _, m in got])
        kinds = [e for e, _ in got if e not in ("ping", "content_block_delta")]
        self.assertEqual(kinds, ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
        self.assertEqual("".join(m["delta"]["text"] for e, m in got if e == "content_block_delta"), text)
        used = [m for e, m in got if e == "message_delta"][0]["usage"]
        self.assertEqual(used["input_tokens"] + used["cache_read_input_tokens"], plain["usage"]["input_tokens"] + plain["usage"]["cache_read_input_tokens"])
        self.assertGreater(used["cache_read_input_tokens"], 0)

    def test_count_system_stop_and_a_begun_answer(self):
        count = self.server.post("/v1/messages/count_tokens", self.body())["input_tokens"]
        used = self.server.post(self.PATH, self.body())["usage"]
        self.assertEqual(count, used["input_tokens"] + used["cache_read_input_tokens"])
        self.assertGreater(self.server.post("/v1/messages/count_tokens", self.body(system=[{"type": "text", "text": "Be brief."}]))["input_tokens"], count)
        text = self.server.post(self.PATH, self.body(max_tokens=20))["content"][0]["text"]
        stop = text[len(text) // 2:][:4]
        cut = self.server.post(self.PATH, self.body(max_tokens=20, stop_sequences=[stop]))
        self.assertEqual((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", stop))
        self.assertEqual("".join(b["text"] for b in cut["content"]), text[:text.index(stop)])
        begun = self.body(messages=[{"role": "user", "content": "It was the best"}, {"role": "assistant", "content": "of"}])
        self.assertEqual(self.server.post("/v1/messages/count_tokens", begun)["input_tokens"], count + 1)

    def test_refusals(self):
        for more in ({"messages": []}, {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, {"max_tokens": "many"},
                     {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, {"tools": [{"name": "f", "input_schema": {}}]}, {"wizardry": 1}):
            error = self.server.post(self.PATH, self.body(**more), code=400)
            self.assertEqual((error["type"], error["error"]["type"]), ("error", "invalid_request_error"))


class Responses(Shared):
    PATH = "/v1/responses"

    def test_plain_and_streamed(self):
        body = {"input": "It was the best", "max_output_tokens": 6, "seed": 3, "metadata": {"a": "b"}}
        plain = self.server.post(self.PATH, body)
        self.assertEqual((plain["object"], plain["status"], plain["incomplete_details"]), ("response", "incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual(plain["metadata"], {"a": "b"})
        text = plain["output"][0]["content"][0]["text"]
        items = {**body, "input": [{"role": "user", "content": [{"type": "input_text", "text": "It was the best"}]}]}
        got = self.server.stream(self.PATH, items)
        self.assertEqual([e for e, _ in got], [m["type"] for _, m in got])
        self.assertEqual([m["sequence_number"] for _, m in got], list(range(len(got))))
        self.assertEqual("".join(m["delta"] for e, m in got if e == "response.output_text.delta"), text)
        self.assertEqual(got[-1][0], "response.incomplete")
        self.assertEqual(got[-1][1]["response"]["output"][0]["content"][0]["text"], text)
        self.assertEqual(got[-1][1]["response"]["usage"]["output_tokens"], 6)
        probs = self.server.post(self.PATH, {**body, "top_logprobs": 2})["output"][0]["content"][0]["logprobs"]
        self.assertEqual("".join(p["token"] for p in probs), text)

    def test_a_conversation_as_items(self):
        items = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "It was"},
                 {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
                 {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "the best"}]}, {"role": "user", "content": "And then?"}]
        self.server.post(self.PATH, {"input": items, "max_output_tokens": 2})
        for body in ({"input": []}, {"input": [{"type": "item_reference", "id": "x"}]}, {"input": "x", "previous_response_id": "resp_1"},
                     {"input": "x", "truncation": "auto"}, {"input": "x", "tools": [{"type": "web_search"}]}, {"input": "x", "background": True}):
            self.server.post(self.PATH, body, code=400)
        # calls and their results, which this model's format does not know
        calls = items[:2] + [{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c1", "output": "7"}]
        self.assertIn("tools", json.dumps(self.server.post(self.PATH, {"input": calls}, code=400)))


if __name__ == "__main__":
    unittest.main(verbosity=1)
