#!/usr/bin/env python3
"""Answers that are known beforehand, over HTTP: the real server around a library whose model says what a test has written
(tests/cli/fake_sluice.c). Calls that a model makes by itself, in the way of each family; calls that are asked for and cut; signs of life."""
import json
import os
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True

from server_rig import Server, messages

CHAT, RESPONSES, MESSAGES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
FAKE = os.environ["SLUICE_FAKE"]
F = {"name": "f", "description": "It.", "parameters": {"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}
G = {"name": "g", "parameters": {"type": "object", "properties": {}}}

# What the family is known by in a template; what the model writes; what that is: reasoning, text, calls (name, the model's own id, arguments).
SN = {"s": "Ω \"<b>\"", "n": 42}
JSON_SN = json.dumps(SN, ensure_ascii=False)
FAMILIES = {
    "hermes": ("<tool_call>", "<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": %s}\n</tool_call>\n<tool_call>\n"
               "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>" % JSON_SN, ("hm", "I look.", [("f", None, SN), ("g", None, {})])),
    "qwen3_coder": ("<function= <parameter=", "I look.\n\n<tool_call>\n<function=f>\n<parameter=s>\nΩ \"<b>\"\n</parameter>\n<parameter=n>\n42\n</parameter>\n</function>\n"
                    "</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>", ("", "I look.", [("f", None, SN), ("g", None, {})])),
    "llama3": ("<|python_tag|>", "{\"name\": \"f\", \"parameters\": %s}; {\"name\": \"g\", \"parameters\": {}}" % JSON_SN, ("", "", [("f", None, SN), ("g", None, {})])),
    "mistral": ("[TOOL_CALLS]", "I look.[TOOL_CALLS]f[ARGS]%s[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}" % JSON_SN, ("", "I look.", [("f", None, SN), ("g", "123456789", {})])),
    "deepseek": ("<｜tool▁calls▁begin｜>", "I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>%s<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"
                 "<｜tool▁call▁end｜><｜tool▁calls▁end｜>" % JSON_SN, ("", "I look.", [("f", None, SN), ("g", None, {})])),
    "dsml": ("DSML", "hm</think>I look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"s\" string=\"true\">Ω \"<b>\"</｜DSML｜parameter>\n"
             "<｜DSML｜parameter name=\"n\" string=\"false\">42</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
             ("hm", "I look.", [("f", None, SN), ("g", None, {})])),
    "glm": ("<arg_key>", "hm</think>I look.<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>Ω \"<b>\"</arg_value>\n<arg_key>n</arg_key>\n<arg_value>42</arg_value>\n</tool_call>"
            "\n<tool_call>g</tool_call>", ("hm", "I look.", [("f", None, SN), ("g", None, {})])),
    "harmony": ("<|channel|> <|message|> functions", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
                "<|channel|>commentary to=functions.f <|constrain|>json<|message|>%s<|call|>" % JSON_SN, ("hm", "I look.", [("f", None, SN)])),
    "kimi": ("<|tool_calls_section_begin|>", "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>%s<|tool_call_end|>"
             "<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>" % JSON_SN,
             ("", "I look.", [("f", "functions.f:0", SN), ("g", "functions.g:1", {})])),
    "minimax": ("<minimax:tool_call>", "hm</think>I look.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">Ω \"<b>\"</parameter>\n<parameter name=\"n\">42</parameter>\n"
                "</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>", ("hm", "I look.", [("f", None, SN), ("g", None, {})])),
    "nemotron": ("<TOOLCALL>", "I look.<TOOLCALL>[{\"name\": \"f\", \"arguments\": %s}, {\"name\": \"g\", \"arguments\": {}}]</TOOLCALL>" % JSON_SN,
                 ("", "I look.", [("f", None, SN), ("g", None, {})])),
}


class Answer:
    """What an API said, in one form: reasoning, text, calls (name, id, arguments), why it ended; and in how many pieces the arguments came."""

    def __init__(self):
        self.reasoning = self.text = self.end = ""
        self.calls, self.pieces = [], {}

    def more(self, call, piece):
        self.calls[call][2] += piece
        self.pieces[call] = self.pieces.get(call, 0) + 1


def tools_of(path):
    if path == MESSAGES:
        return [{"name": t["name"], "input_schema": t["parameters"]} for t in (F, G)]
    return [{"type": "function", **({"function": t} if path == CHAT else t)} for t in (F, G)]


def body_of(path, text="Go", **more):
    if path == COMPLETIONS:
        return {"prompt": text, **more}
    body = {"input": text} if path == RESPONSES else {"messages": [{"role": "user", "content": text}]}
    return {**body, "tools": tools_of(path), **more}


def whole_chat(server, body):
    a, choice = Answer(), server.post(CHAT, body)["choices"][0]
    m = choice["message"]
    a.reasoning, a.text, a.end = m.get("reasoning_content", ""), m["content"] or "", choice["finish_reason"]
    a.calls = [[c["function"]["name"], c["id"], c["function"]["arguments"]] for c in m.get("tool_calls", [])]
    return a


def streamed_chat(server, body):
    a = Answer()
    for _, m in server.stream(CHAT, body):
        for choice in m["choices"] if m != "[DONE]" else ():
            delta = choice["delta"]
            a.reasoning += delta.get("reasoning_content") or ""
            a.text += delta.get("content") or ""
            a.end = choice["finish_reason"] or a.end
            for c in delta.get("tool_calls", ()):
                if "id" in c:
                    assert c["index"] == len(a.calls) and c["type"] == "function", c
                    a.calls.append([c["function"]["name"], c["id"], ""])
                if c["function"]["arguments"]:
                    a.more(c["index"], c["function"]["arguments"])
    return a


def whole_messages(server, body):
    a, m = Answer(), server.post(MESSAGES, body)
    a.end = m["stop_reason"]
    for b in m["content"]:
        if b["type"] == "tool_use":
            a.calls.append([b["name"], b["id"], json.dumps(b["input"], ensure_ascii=False)])
        a.reasoning += b.get("thinking", "")
        a.text += b.get("text", "")
    return a


def streamed_messages(server, body):
    a, open_block, n = Answer(), None, 0
    for event, m in server.stream(MESSAGES, body):
        assert event == m["type"], (event, m)
        if event == "content_block_start":
            assert open_block is None and m["index"] == n, m
            open_block = m["content_block"]["type"]
            if open_block == "tool_use":
                a.calls.append([m["content_block"]["name"], m["content_block"]["id"], ""])
        elif event == "content_block_delta":
            d = m["delta"]
            assert m["index"] == n and {"thinking": "thinking_delta", "text": "text_delta", "tool_use": "input_json_delta"}[open_block] == d["type"], m
            a.reasoning += d.get("thinking", "")
            a.text += d.get("text", "")
            if d.get("partial_json"):
                a.more(len(a.calls) - 1, d["partial_json"])
        elif event == "content_block_stop":
            assert m["index"] == n, m
            open_block, n = None, n + 1
        elif event == "message_delta":
            a.end = m["delta"]["stop_reason"]
    return a


def items_of(response):
    a = Answer()
    a.end = response["status"]
    for item in response["output"]:
        if item["type"] == "function_call":
            a.calls.append([item["name"], item["call_id"], item["arguments"]])
        elif item["type"] == "reasoning":
            a.reasoning += item["content"][0]["text"]
        else:
            a.text += item["content"][0]["text"]
    return a


def streamed_responses(server, body):
    a = Answer()
    for event, m in server.stream(RESPONSES, body):
        if event == "response.output_item.added" and m["item"]["type"] == "function_call":
            a.calls.append([m["item"]["name"], m["item"]["call_id"], ""])
        elif event == "response.function_call_arguments.delta":
            a.more(len(a.calls) - 1, m["delta"])
        elif event == "response.output_text.delta":
            a.text += m["delta"]
        elif event == "response.reasoning_text.delta":
            a.reasoning += m["delta"]
        elif event in ("response.completed", "response.incomplete"):
            last = items_of(m["response"])
            assert (last.reasoning, last.text, last.calls) == (a.reasoning, a.text, a.calls), (vars(last), vars(a))
            a.end = last.end
    return a


WAYS = {CHAT: (whole_chat, streamed_chat), MESSAGES: (whole_messages, streamed_messages),
        RESPONSES: (lambda server, body: items_of(server.post(RESPONSES, body)), streamed_responses)}
PREFIX = {CHAT: "call_", MESSAGES: "toolu_", RESPONSES: "call_"}


class Written(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def serve(self, settings, template, answer, *words):
        path = os.path.join(self.folder.name, "model")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"template {settings}\n{template}\n{answer}")
        s = Server(*words, model=path, program=FAKE)
        self.addCleanup(s.stop)
        return s


class Families(Written):
    def check(self, family):
        template, answer, (reasoning, text, calls) = FAMILIES[family]
        server = self.serve("opened" if answer.startswith("hm") else "", template, answer)
        for path, ways in WAYS.items():
            for way in ways:
                a = way(server, body_of(path))
                self.assertEqual((a.reasoning, a.text.strip()), (reasoning, text), (path, way))
                self.assertEqual([(name, json.loads(arguments)) for name, _, arguments in a.calls], [(name, arguments) for name, _, arguments in calls])
                for (_, got, _), (_, own, _) in zip(a.calls, calls):
                    self.assertTrue(got == own if own else got.startswith(PREFIX[path]) and len(got) > 20, (got, own))
                self.assertEqual(len({got for _, got, _ in a.calls}), len(calls))
                self.assertEqual(a.end, {CHAT: "tool_calls", MESSAGES: "tool_use", RESPONSES: "completed"}[path])
        # two answers: each with its own calls
        body = body_of(CHAT, n=2)
        messages = [c["message"] for c in server.post(CHAT, body)["choices"]]
        for m in messages:
            self.assertEqual(m.get("reasoning_content", ""), reasoning)
            self.assertEqual([json.loads(c["function"]["arguments"]) for c in m["tool_calls"]], [arguments for _, _, arguments in calls])
        for i in range(2):
            deltas = [c["delta"] for _, m in server.stream(CHAT, body) if m != "[DONE]" for c in m["choices"] if c["index"] == i]
            self.assertEqual([c["index"] for d in deltas for c in d.get("tool_calls", ()) if "id" in c], list(range(len(calls))))
            self.assertEqual("".join(d.get("reasoning_content") or "" for d in deltas), reasoning)
        # without tools the same text is no call
        a = streamed_chat(server, {k: v for k, v in body_of(CHAT).items() if k != "tools"})
        self.assertEqual((a.calls, a.end), ([], "stop"))


for name in FAMILIES:
    setattr(Families, "test_" + name, lambda self, name=name: self.check(name))


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "t": {"type": "string"}}, "required": ["name", "t"]}
FORMAT = {CHAT: {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
          RESPONSES: {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
          MESSAGES: {"output_format": {"type": "json_schema", "schema": SCHEMA}}}


class ToolsAndFormats(Written):
    """The model calls tools, or answers with a document: then the marks of calls in it are text."""

    def both(self, template, settings, answer, check):
        server = self.serve(settings, template, answer)
        for path, ways in WAYS.items():
            for way in ways:
                check(way(server, {**body_of(path), **FORMAT[path]}), path)

    def test_each_family(self):
        for family, (template, answer, (reasoning, _, calls)) in FAMILIES.items():
            answer = answer.replace("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant", "").replace("I look.", "")
            template += "</think>" if "<think>" in answer else ""
            settings = "opened" if answer.startswith("hm") else ""

            def calling(a, path):
                self.assertEqual((a.reasoning, a.text.strip()), (reasoning, ""), (family, path))
                self.assertEqual([(name, json.loads(arguments)) for name, _, arguments in a.calls], [(name, arguments) for name, _, arguments in calls])
                self.assertEqual(a.end, {CHAT: "tool_calls", MESSAGES: "tool_use", RESPONSES: "completed"}[path])

            self.both(template, settings, answer, calling)
            document = json.dumps({"name": "Zoe", "t": "%s %s" % (template, answer)}, ensure_ascii=False)
            head = answer[:answer.index("</think>") + 8] if "</think>" in answer else ""
            if family == "harmony":
                head = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"

            def answering(a, path):
                self.assertEqual((a.reasoning, a.text, a.calls), (reasoning, document, []), (family, path))
                self.assertEqual(a.end, {CHAT: "stop", MESSAGES: "end_turn", RESPONSES: "completed"}[path])

            self.both(template, settings, head + document, answering)

    def test_reasoning_that_the_model_opens(self):
        document = '{"name": "Zoe", "t": "<think>"}'
        server = self.serve("", "<tool_call></think>", "\n<think>hm</think>\n\n" + document)
        for path, ways in WAYS.items():
            for way in ways:
                a = way(server, {k: v for k, v in {**body_of(path), **FORMAT[path]}.items() if k != "tools"})
                self.assertEqual((a.reasoning, a.text, a.calls), ("hm", document, []))
                a = way(server, {**body_of(path, tools=tools_of(path)[:1]), "tool_choice": {"type": "any"} if path == MESSAGES else "required"})
                self.assertEqual((a.reasoning, a.text, json.loads(a.calls[0][2])), ("hm", "", json.loads(document)))

    def test_a_call_that_ends_the_reasoning(self):
        def calling(a, path):
            self.assertEqual((a.reasoning, a.text, [c[0] for c in a.calls]), ("hm", "", ["g"]), path)

        self.both("[TOOL_CALLS]", "opened", "hm[TOOL_CALLS]g[ARGS]{}", calling)

    def test_refusals(self):
        server = self.serve("", "a template of no family", "{}")
        for path in WAYS:
            body, choice = {**body_of(path), **FORMAT[path]}, {"type": "any"} if path == MESSAGES else "required"
            for stream in (False, True):
                self.assertIn("no such family", server.post(path, {**body, "stream": stream}, code=400)["error"]["message"])
                self.assertIn("both", server.post(path, {**body, "stream": stream, "tool_choice": choice}, code=400)["error"]["message"])
            server.post(path, {**body, "tool_choice": {"type": "none"} if path == MESSAGES else "none"})


class Streams(Written):
    def test_arguments_come_as_they_are_written(self):
        server = self.serve("pace=1", *FAMILIES["hermes"][:2])
        for path in WAYS:
            self.assertGreater(WAYS[path][1](server, body_of(path, tools=tools_of(path)[:1])).pieces[0], 1, path)

    def test_probabilities_are_of_the_text_alone(self):
        server = self.serve("", FAMILIES["hermes"][0], "<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"g\"}\n</tool_call>\nSo")
        body = body_of(RESPONSES, include=["message.output_text.logprobs"], top_logprobs=1)
        items = server.post(RESPONSES, body)["output"]
        self.assertEqual([i["type"] for i in items], ["reasoning", "message", "function_call", "message"])
        for item in items[1::2]:
            part = item["content"][0]
            self.assertEqual("".join(p["token"] for p in part["logprobs"])[-len(part["text"]):], part["text"])
        self.assertEqual(len(items[1]["content"][0]["logprobs"]), len("I look."))
        deltas = [m for e, m in server.stream(RESPONSES, body) if e == "response.output_text.delta" and m["output_index"] == 1]
        self.assertEqual([p["token"] for m in deltas for p in m["logprobs"]], list("I look."))

    def test_thinking_ends_when_its_budget_is_spent(self):
        server = self.serve("", FAMILIES["hermes"][0], "<think>one two three</think>I look.")
        for budget, reasoning, text in ((7, "one two", "three</think>I look."), (100, "one two three", "I look.")):
            for way in WAYS[MESSAGES]:
                a = way(server, body_of(MESSAGES, thinking={"type": "enabled", "budget_tokens": budget}))
                self.assertEqual((a.reasoning, a.text.strip(), a.end), (reasoning, text, "end_turn"))
        server.post(MESSAGES, body_of(MESSAGES, thinking={"type": "enabled", "budget_tokens": 0}), code=400)

    def test_a_call_that_is_asked_for_of_several_tools(self):
        """The name as soon as it is known, then the arguments as they come; the length leaves the call that was begun."""
        written = json.dumps({"name": "f", "arguments": SN}, ensure_ascii=False)
        server = self.serve("", "", written)
        choice = {CHAT: "required", RESPONSES: "required", MESSAGES: {"type": "any"}}
        limit = {CHAT: "max_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"}
        for path, ways in WAYS.items():
            for cut in (None, 5, len(written[:-8].encode())):  # the model's tokens are bytes
                for way in ways:
                    body = body_of(path, tool_choice=choice[path])
                    a = way(server, {**body, limit[path]: cut} if cut else body)
                    if cut == 5:
                        self.assertEqual((a.text, a.calls), (written[:5], []), path)
                    else:
                        self.assertEqual([a.text, a.calls[0][0], a.calls[0][1].split("_")[0] + "_"], ["", "f", PREFIX[path]])
                        begun = json.dumps(SN, ensure_ascii=False)[:-7 if cut else None]
                        self.assertEqual(a.calls[0][2], json.dumps({}) if cut and way is whole_messages else begun)
                    self.assertEqual(a.end, {CHAT: "length", MESSAGES: "max_tokens", RESPONSES: "incomplete"}[path] if cut else
                                     {CHAT: "tool_calls", MESSAGES: "tool_use", RESPONSES: "completed"}[path])
        a = streamed_chat(self.serve("pace=1", "", written), body_of(CHAT, tool_choice="required"))
        self.assertGreater(a.pieces[0], 1)

    def test_signs_of_life_and_progress(self):
        """Seven streams, of which four wait for the others: with progress, and silent ones, at work and in the queue."""
        server = self.serve("pace=4", "", "{}", "--sessions", "3", "--keep-alive", "1")
        silent = {path: {**body_of(path, "word " * 12, stream=True), "tools": []} for path in WAYS}
        told = {path: {**body, "return_progress": True} for path, body in silent.items()}
        told[COMPLETIONS] = body_of(COMPLETIONS, "word " * 24, stream=True, return_progress=True)
        schema = {**told[CHAT], "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}
        forced = body_of(RESPONSES, stream=True, return_progress=True, tools=[{"type": "function", "name": "f"}], tool_choice="required")
        asked = [(CHAT, told[CHAT]), (RESPONSES, silent[RESPONSES]), (MESSAGES, silent[MESSAGES]),
                 (MESSAGES, told[MESSAGES]), (RESPONSES, forced), (COMPLETIONS, told[COMPLETIONS]), (CHAT, schema)]
        got = [None] * len(asked)

        def ask(i):
            got[i] = server.request("POST", asked[i][0], asked[i][1])[2].decode()

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
        for i, t in enumerate(threads):
            t.start()
            server.wait_for("jobs_started_total" if i < 3 else "queue_length", i + 1 if i < 3 else i - 2)
        for t in threads:
            t.join()
        for i in (0, 3, 4, 5, 6):
            self.progress(messages(got[i]))
        before, after = got[1].split(": still at work", 1)
        self.assertIn("response.in_progress", before)
        self.assertIn("response.output_text.delta", after)
        pings = [m["type"] for _, m in messages(got[2])]
        self.assertGreater(pings[:pings.index("content_block_start")].count("ping"), 1)
        for text in got[3:]:
            self.assertTrue(text.startswith(": still at work\n\n"), text)
        for (path, _), text in zip(asked, got):
            self.assertIn({CHAT: "[DONE]", COMPLETIONS: "[DONE]", MESSAGES: '"message_stop"', RESPONSES: '"response.completed"'}[path], text)

    def progress(self, got):
        told = [m["prompt_progress"] for _, m in got if "prompt_progress" in m]
        self.assertEqual((told[0]["processed"], told[0]["time_left_ms"]), (0, None))
        self.assertEqual((told[-1]["processed"], told[-1]["time_left_ms"]), (told[-1]["total"], 0))
        self.assertGreater(len(told), 2)
        for p in told[1:]:  # as long for each token as for those before it
            left = p["time_ms"] / p["processed"] * (p["total"] - p["processed"])
            self.assertLessEqual(abs(p["time_left_ms"] - left), 1 + p["total"] / p["processed"])
        self.assertEqual(sorted(p["processed"] for p in told), [p["processed"] for p in told])


if __name__ == "__main__":
    unittest.main(verbosity=1)
