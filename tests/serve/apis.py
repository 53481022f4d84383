#!/usr/bin/env python3
"""The other endpoints, plain and streamed: completions, messages, responses, and the ones for text."""
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from server_rig import Server, Shared, with_template


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
        got = [c for _, m in self.server.stream("/v1/completions", {**body, "logprobs": 2}) if m != "[DONE]" for c in m["choices"]]
        self.assertEqual({k: [x for c in got for x in (c["logprobs"] or {k: []})[k]] for k in probs}, probs)
        for c in got[:-1]:
            self.assertEqual("".join(c["logprobs"]["tokens"]), c["text"])

    def test_several_answers(self):
        for more in ({}, {"echo": True}, {"logprobs": 1}, {"echo": True, "logprobs": 1}, {"echo": True, "logprobs": 1, "max_tokens": 0},
                     {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1, 2, "three"]}}}}):
            body = {"prompt": "It was the best", "max_tokens": 4, "seed": 3, "temperature": 1.5, **more}
            alone = [self.server.post("/v1/completions", {**body, "seed": 3 + i})["choices"][0] for i in range(2)]
            plain = self.server.post("/v1/completions", {**body, "n": 2})["choices"]
            self.assertEqual(plain, [{**a, "index": i} for i, a in enumerate(alone)], more)
            got = [c for _, m in self.server.stream("/v1/completions", {**body, "n": 2}) if m != "[DONE]" for c in m["choices"]]
            self.assertEqual(["".join(c["text"] for c in got if c["index"] == i) for i in range(2)], [c["text"] for c in plain])
            self.assertEqual([c["index"] for c in got], sorted(c["index"] for c in got))

    def test_probabilities_of_the_prompt(self):
        ids = self.server.post("/tokenize", {"content": "It was thé best", "add_special": True})["tokens"]
        body = {"prompt": ids, "max_tokens": 5, "temperature": 0, "logprobs": 2}
        said = self.server.post("/v1/completions", body)["choices"][0]["logprobs"]
        told = self.server.post("/v1/completions", {**body, "echo": True})["choices"][0]
        self.assertEqual("".join(told["logprobs"]["tokens"]), told["text"])
        self.assertEqual(told["logprobs"]["token_logprobs"][-5:], said["token_logprobs"])
        self.assertEqual([told["logprobs"][k][0] for k in ("token_logprobs", "top_logprobs", "text_offset")], [None, None, 0])
        for token, at in zip(told["logprobs"]["tokens"], told["logprobs"]["text_offset"]):
            self.assertEqual(told["text"][at:at + len(token)], token)
        # what was said, read as a prompt, has the probabilities that it had
        alone = self.server.post("/v1/completions", {"prompt": told["text"], "max_tokens": 0, "logprobs": 2, "echo": True})["choices"][0]
        self.assertEqual((alone["text"], alone["finish_reason"]), (told["text"], "length"))
        if len(alone["logprobs"]["tokens"]) == len(told["logprobs"]["tokens"]):
            self.assertEqual(alone["logprobs"], told["logprobs"])
        got = [c for _, m in self.server.stream("/v1/completions", {**body, "echo": True}) if m != "[DONE]" for c in m["choices"]]
        self.assertEqual((got[0]["text"], len(got[0]["logprobs"]["tokens"])), (told["text"][:len(got[0]["text"])], len(ids)))
        self.assertEqual({k: [x for c in got for x in (c["logprobs"] or {k: []})[k]] for k in said}, told["logprobs"])
        self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 0}, code=400)

    def test_refusals(self):
        for body in ({}, {"prompt": []}, {"prompt": ["a", "b"]}, {"prompt": [1, "x"]}, {"prompt": [99999]}, {"prompt": ""}, {"prompt": "x", "suffix": "y"},
                     {"prompt": "x", "best_of": 3}, {"prompt": "x", "n": 9}):
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
        begun = got[0][1]["message"]["usage"]
        self.assertEqual({k: begun[k] for k in begun if k != "output_tokens"}, {k: used[k] for k in used if k != "output_tokens"})
        timings = [m for e, m in got if e == "message_delta"][0]["timings"]
        self.assertEqual((timings["cache_n"], timings["prompt_n"], timings["predicted_n"]), (used["cache_read_input_tokens"], used["input_tokens"], 6))

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
        asked = {**body, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"]}
        self.assertEqual([p["logprob"] for p in self.server.post(self.PATH, asked)["output"][0]["content"][0]["logprobs"]], [p["logprob"] for p in probs])
        got = self.server.stream(self.PATH, {**asked, "top_logprobs": 2})
        self.assertEqual([p for e, m in got if e == "response.output_text.delta" for p in m["logprobs"]], probs)
        self.assertEqual([m["logprobs"] for e, m in got if e == "response.output_text.done"], [probs])
        for include in ("x", [1]):
            self.server.post(self.PATH, {**body, "include": include}, code=400)

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


class Progress(Shared):
    WORDS = ("--threads", "1", "--chunk", "2")

    def test_of_all_four(self):
        """What is still to do is told from what is done: the time of what was computed, for each token that is left."""
        words = "It was the best of times, it was the worst of times. " * 6
        said = [{"role": "user", "content": words}]
        for path, body in (("/v1/chat/completions", {"messages": said}), ("/v1/completions", {"prompt": "So: " + words}), ("/v1/messages", {"messages": said}),
                           ("/v1/responses", {"input": words})):
            limit = {"max_output_tokens" if path == "/v1/responses" else "max_tokens": 1}
            got = self.server.stream(path, {**body, **limit, "return_progress": True})
            told = [m["prompt_progress"] for _, m in got if "prompt_progress" in m]
            self.assertEqual(set(told[0]), {"total", "cache", "processed", "time_ms", "time_left_ms"}, path)
            self.assertEqual((told[-1]["processed"], told[-1]["time_left_ms"]), (told[-1]["total"], 0), path)
            for p in told:
                done = p["processed"] - p["cache"]
                if done <= 0:
                    self.assertIsNone(p["time_left_ms"])
                else:
                    left = (p["total"] - p["processed"]) / done
                    self.assertLessEqual(abs(p["time_left_ms"] - p["time_ms"] * left), 1 + left, path)
            self.assertEqual(sorted(p["processed"] for p in told), [p["processed"] for p in told])
            self.server.post(path, {**body, "return_progress": 1}, code=400)


TEMPLATE = """{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}\
{% for c in m.tool_calls or [] %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}
{% endfor %}{% for t in tools or [] %}{{ t.function.name }}: {{ t.function.parameters | tojson }}{% endfor %}\
{% if enable_thinking %}<thinks>{% endif %}<assistant>"""
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}}, "required": ["city"], "additionalProperties": False}
TOOL = {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}
OTHER = {"name": "nothing", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}


class Shapes(unittest.TestCase):
    """Answers under a schema, and calls of tools that were asked for; with a model that has a template."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(model=with_template(TEMPLATE, os.path.join(cls.folder.name, "demo.gguf")))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def good(self, text):
        value = json.loads(text)
        self.assertIn(value["city"], ("Paris", "Rome"))
        self.assertLessEqual(set(value), {"city", "days"})
        return value

    def chat(self, **more):
        return {"messages": [{"role": "user", "content": "Where to?"}], "max_tokens": 400, "seed": 1, **more}

    def test_schemas(self):
        body = self.chat(response_format={"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": SCHEMA}})
        answer = self.server.post("/v1/chat/completions", body)["choices"][0]
        self.assertEqual(answer["finish_reason"], "stop")
        self.good(answer["message"]["content"])
        got = self.server.stream("/v1/chat/completions", body)
        self.assertEqual("".join(c["delta"].get("content") or "" for _, m in got if m != "[DONE]" for c in m["choices"]), answer["message"]["content"])
        self.good(self.server.post("/v1/responses", {"input": "Where to?", "seed": 1, "text": {"format": {"type": "json_schema", "name": "trip", "schema": SCHEMA}}})
                  ["output"][0]["content"][0]["text"])
        self.good(self.server.post("/v1/messages", self.chat(output_format={"type": "json_schema", "schema": SCHEMA}))["content"][0]["text"])
        anything = self.chat(response_format={"type": "json_schema", "json_schema": {"schema": True}}, max_tokens=4)
        self.assertEqual(self.server.post("/v1/chat/completions", anything)["usage"]["completion_tokens"], 4)
        for bad in ({"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": False}}, {"type": "json_schema", "json_schema": {"schema": {"type": "object", "patternProperties": {}}}}):
            for stream in (False, True):
                error = self.server.post("/v1/chat/completions", self.chat(response_format=bad, stream=stream), code=400)
        self.assertIn("patternProperties", error["error"]["message"])

    def test_a_call_that_is_asked_for(self):
        tools = [{"type": "function", "function": f} for f in (TOOL, OTHER)]
        body = self.chat(tools=tools, tool_choice={"type": "function", "function": {"name": "weather"}})
        choice = self.server.post("/v1/chat/completions", body)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
        call = choice["message"]["tool_calls"][0]
        self.assertEqual((call["type"], call["function"]["name"], call["id"][:5]), ("function", "weather", "call_"))
        self.good(call["function"]["arguments"])
        got = [c for _, m in self.server.stream("/v1/chat/completions", body) if m != "[DONE]" for c in m["choices"]]
        pieces = [t for c in got for t in c["delta"].get("tool_calls", [])]
        self.assertEqual((pieces[0]["function"]["name"], pieces[0]["index"]), ("weather", 0))
        self.assertEqual("".join(p["function"]["arguments"] for p in pieces), call["function"]["arguments"])
        self.assertEqual(got[-1]["finish_reason"], "tool_calls")
        any_call = self.server.post("/v1/chat/completions", {**body, "tool_choice": "required", "max_tokens": 500})["choices"][0]
        self.assertIn(any_call["message"]["tool_calls"][0]["function"]["name"], ("weather", "nothing"))
        # What only looks like a reference: a property of that name, a value.
        odd = {"type": "object", "properties": {"$ref": {"$ref": "#/$defs/v"}}, "required": ["$ref"], "$defs": {"v": {"const": {"$ref": "#/v"}}}}
        tools = [{"type": "function", "function": {"name": name, "parameters": odd}} for name in ("a", "b")]
        choice = self.server.post("/v1/chat/completions", self.chat(tools=tools, tool_choice="required"))["choices"][0]
        self.assertEqual(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]), {"$ref": {"$ref": "#/v"}})
        star = {"tools": [{"type": "function", "function": {"name": "*", "parameters": odd}}], "tool_choice": {"type": "function", "function": {"name": "*"}}}
        call = self.server.post("/v1/chat/completions", self.chat(**star))["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertEqual((call["name"], json.loads(call["arguments"])), ("*", {"$ref": {"$ref": "#/v"}}))
        for choice in ("sometimes", {"type": "function", "function": {"name": "absent"}}):
            self.server.post("/v1/chat/completions", {**body, "tool_choice": choice}, code=400)
        self.server.post("/v1/chat/completions", self.chat(tool_choice="required"), code=400)
        self.assertNotIn("weather", self.server.post("/apply-template", {**body, "tool_choice": "none"})["prompt"])
        self.assertIn("weather", self.server.post("/apply-template", body)["prompt"])

    def test_a_schema_and_tools(self):
        """The real mask: the model answers with a document, or begins a call where the bias leads it there."""
        tools = [{"type": "function", "function": f} for f in (TOOL, OTHER)]
        body = self.chat(tools=tools, max_tokens=400, response_format={"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA}})
        choice = self.server.post("/v1/chat/completions", body)["choices"][0]
        self.assertEqual((choice["finish_reason"], "tool_calls" in choice["message"]), ("stop", False))
        self.good(choice["message"]["content"])
        less = self.server.post("/tokenize", {"content": "<"})["tokens"][-1]
        lead = {**body, "max_tokens": 40, "logit_bias": {str(less): 100}}
        text = self.server.post("/v1/chat/completions", lead)["choices"][0]["message"]["content"]
        self.assertTrue(text.startswith("<tool_call><<<<"), text)  # the mark, and behind it what it likes: no call in the end
        self.assertNotIn("<", self.server.post("/v1/chat/completions", {**lead, "tool_choice": "none"})["choices"][0]["message"]["content"])
        anything = {**body, "max_tokens": 8, "response_format": {"type": "json_object"}}
        self.assertEqual(self.server.post("/v1/chat/completions", anything)["choices"][0]["message"]["content"].strip()[0], "{")

    def test_calls_of_the_other_apis(self):
        body = self.chat(tools=[{"name": "weather", "input_schema": SCHEMA}], tool_choice={"type": "tool", "name": "weather"})
        answer = self.server.post("/v1/messages", body)
        self.assertEqual((answer["stop_reason"], answer["content"][0]["type"], answer["content"][0]["name"]), ("tool_use", "tool_use", "weather"))
        self.good(json.dumps(answer["content"][0]["input"]))
        got = self.server.stream("/v1/messages", body)
        self.assertEqual([m["content_block"]["type"] for e, m in got if e == "content_block_start"], ["tool_use"])
        self.assertEqual(json.loads("".join(m["delta"]["partial_json"] for e, m in got if e == "content_block_delta")), answer["content"][0]["input"])
        body = {"input": "Where to?", "seed": 1, "max_output_tokens": 400, "tools": [{"type": "function", **TOOL}], "tool_choice": "required"}
        item = self.server.post("/v1/responses", body)["output"][0]
        self.assertEqual((item["type"], item["name"], item["call_id"][:5]), ("function_call", "weather", "call_"))
        self.good(item["arguments"])
        got = self.server.stream("/v1/responses", body)
        self.assertEqual("".join(m["delta"] for e, m in got if e == "response.function_call_arguments.delta"), item["arguments"])
        self.assertEqual(got[-1][1]["response"]["output"][0]["arguments"], item["arguments"])

    def test_calls_and_results_come_back(self):
        arguments = '{"city": "Rome"}'
        call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}
        want = self.server.post("/apply-template", {"messages": [{"role": "user", "content": "Go"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                                                                  {"role": "tool", "tool_call_id": "c1", "content": "hot"}]})["prompt"]
        self.assertIn('<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>', want)
        self.assertIn("<tool>hot", want)
        count = len(self.server.post("/tokenize", {"content": want})["tokens"])
        blocks = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": json.loads(arguments)}]},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "hot"}]}]}]
        self.assertEqual(self.server.post("/v1/messages/count_tokens", {"messages": blocks})["input_tokens"], count)
        blocks[2]["content"][0]["is_error"] = True  # the model reads that it failed
        error = len(self.server.post("/tokenize", {"content": want.replace("<tool>hot", "<tool>Error: hot")})["tokens"])
        self.assertEqual(self.server.post("/v1/messages/count_tokens", {"messages": blocks})["input_tokens"], error)
        items = [{"role": "user", "content": "Go"}, {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": arguments},
                 {"type": "function_call_output", "call_id": "c1", "output": "hot"}]
        self.assertEqual(self.server.post("/v1/responses", {"input": items, "max_output_tokens": 1})["usage"]["input_tokens"], count)


if __name__ == "__main__":
    unittest.main(verbosity=1)
