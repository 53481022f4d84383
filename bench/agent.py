#!/usr/bin/env python3
"""How long a coding agent waits: replays sessions of many short turns against OpenAI-compatible servers and prints first-token times.

  bench/agent.py --url http://127.0.0.1:8080 [--turns 20] ...                       one server that runs already
  bench/agent.py --model BIG.gguf --sluice build/src/cli/sluice [--llama DIR_OF_llama-server] [--limits 8G,4G,none] [--runs 5]
                                                                                    both, in turn, each in a memory cgroup (root)

A session is made of real text: a system prompt, then turns in which a tool's result comes in (its length drawn from a log-normal distribution
with a median of 249 tokens, as coding agents have) and a short answer is asked for. Answers are kept in the conversation as the server
returned them. The same seed gives the same session to every server; run i plays the session of seed + i. First-token time: from sending
the request to the first piece of text.

Results go as an agent sends them: a call in the assistant's message, a message of role tool, the tool's description in the request. Where
the first server's chat format knows no tools (a model without a template), or with --plain-results, they go as messages of the user, to
both servers alike. A turn that outgrows the context of one server, and those behind it, count for neither; a pair that fails otherwise is left out.
"""
import argparse, glob, http.client, json, math, os, random, signal, socket, statistics, subprocess, sys, time
from urllib.parse import urlsplit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import Cgroup, Loop, median, sectors, show, size

MEDIAN_TOKENS, SIGMA = 249, 0.9
SYSTEM = ("You are a careful programmer's assistant. You read files with a tool, one at a time; each message brings the result of one call. "
          "Say in one or two sentences what you learned from it and what you would read next.")


def real_text(path):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src")
    paths = [path] if path else sorted(glob.glob(os.path.join(source, "*", "*.c")))
    return "\n".join(open(p, encoding="utf-8").read() for p in paths)


def session_script(text, a, seed):
    """[(tool result)] of one session; words stand for tokens by the ratio given."""
    rng = random.Random(seed)
    words = text.split()
    at = rng.randrange(len(words))

    def take(n):
        nonlocal at
        part = [words[(at + i) % len(words)] for i in range(n)]
        at += n
        return " ".join(part)

    results = []
    for _ in range(a.turns):
        tokens = a.result_tokens or min(4000, max(16, MEDIAN_TOKENS * math.exp(rng.gauss(0, SIGMA))))
        results.append(take(max(1, round(tokens * a.words_a_token))))
    return {"system": SYSTEM + "\n\n" + take(a.system_words), "results": results}


TOOLS = [{"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": {
    "type": "object", "properties": {"path": {"type": "string", "description": "where it lies"}}, "required": ["path"]}}}]
TASK = "Find out what this program does. Read its files one after the other."


class OutgrowsContext(RuntimeError):
    pass


def post(url, path, body, key, timeout):
    """A response whose body is not read yet, and its connection."""
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    connection.request("POST", path, json.dumps(body), headers)
    return connection.getresponse(), connection


def complete(url, messages, tools, max_tokens, seed, key, timeout):
    """One streamed request; what it cost."""
    body = {"model": "any", "messages": messages, "max_tokens": max_tokens, "temperature": 1, "seed": seed, "stream": True,
            "stream_options": {"include_usage": True}, "cache_prompt": True}
    if tools:
        body["tools"] = TOOLS
    sent = time.monotonic()
    response, connection = post(url, "/v1/chat/completions", body, key, timeout)
    if response.status != 200:
        text = response.read(600)
        raise (OutgrowsContext if response.status == 400 and b"context" in text else RuntimeError)(f"HTTP {response.status}: {text!r}")
    out, calls, first, pieces, usage = "", {}, None, 0, {}
    for line in response:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        if "error" in event:
            raise RuntimeError(f"in the stream: {event['error']}")
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            if delta.get("content") or delta.get("reasoning_content") or delta.get("tool_calls"):
                first = first or time.monotonic()
                pieces += 1
                out += delta.get("content") or ""
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(part.get("index", 0), {"id": "", "name": "", "arguments": ""})
                call["id"] = part.get("id") or call["id"]
                for k in ("name", "arguments"):
                    call[k] += part.get("function", {}).get(k) or ""
    end = time.monotonic()
    connection.close()
    details = usage.get("prompt_tokens_details") or {}
    return {"first_s": (first or end) - sent, "total_s": end - sent, "decode_s": end - (first or end), "pieces": pieces, "text": out,
            "calls": list(calls.values()), "prompt_tokens": usage.get("prompt_tokens"), "cached_tokens": details.get("cached_tokens"),
            "answer_tokens": usage.get("completion_tokens") or pieces}


def with_result(messages, i, answer, result, tools):
    """The conversation with the answer that came (None: none yet) and the next tool's result behind it."""
    text = answer["text"] if answer else ""
    if not tools:
        said = [{"role": "assistant", "content": text or "(nothing)"}] if answer else []
        return messages + said + [{"role": "user", "content": f"Result of read_file:\n{result}"}]
    call = {"id": f"call{i:05d}", "name": "read_file", "arguments": json.dumps({"path": f"src/part{i}.c"})}
    if answer and len(answer["calls"]) == 1:  # the model's own, where it is whole
        try:
            if isinstance(json.loads(answer["calls"][0]["arguments"]), dict) and answer["calls"][0]["id"]:
                call = answer["calls"][0]
        except ValueError:
            pass
    asked = {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
    return messages + ([] if answer else [{"role": "user", "content": TASK}]) + [
        {"role": "assistant", "content": text, "tool_calls": [asked]}, {"role": "tool", "tool_call_id": call["id"], "content": result}]


def knows_tools(url, key, timeout):
    """Whether the server's chat format takes calls and their results; servers that cannot be asked are taken to."""
    messages = with_result([{"role": "system", "content": SYSTEM}], 0, None, "nothing", True)
    response, connection = post(url, "/apply-template", {"messages": messages, "tools": TOOLS}, key, timeout)
    text = response.read()
    connection.close()
    if response.status not in (200, 404, 405):
        print(f"# tool results go as messages of the user: {text[:300].decode('utf-8', 'replace')}", file=sys.stderr)
        return False
    return True


def play(url, script, a, key=None):
    """[what a turn cost], shorter than the script where the context ends."""
    if a.tools is None:  # the first server that is asked decides for all
        a.tools = not a.plain_results and knows_tools(url, key, a.timeout)
    messages, turns, answer = [{"role": "system", "content": script["system"]}], [], None
    before = sectors(a.disk) if not a.url else 0
    for i, result in enumerate(script["results"]):
        messages = with_result(messages, i, answer, result, a.tools)
        try:
            answer = complete(url, messages, a.tools, a.answer, a.seed * 1000 + i, key, a.timeout)
        except OutgrowsContext as e:
            print(f"# turn {i + 1} outgrows the context: {e}", file=sys.stderr)
            if not turns:
                raise
            break
        if not a.url:
            answer["read_bytes"] = (sectors(a.disk) - before) * 512  # since the first request
        turns.append(answer)
        if a.verbose:
            print(f"#   turn {i + 1}: prompt {answer['prompt_tokens']} ({answer['cached_tokens']} cached), first {answer['first_s']:.2f} s, "
                  f"{answer['answer_tokens']} tokens in {answer['decode_s']:.2f} s", file=sys.stderr)
    return turns


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(p / 100 * len(values)) - 1)] if values else None


def summary(turns):
    later = turns[1:] or turns  # the first reads the system prompt: its own line
    rates = [(t["answer_tokens"] - 1) / t["decode_s"] for t in turns if t["decode_s"] > 0 and t["answer_tokens"] > 1]
    return {"first_turn_s": turns[0]["first_s"], "p50_s": percentile([t["first_s"] for t in later], 50),
            "p95_s": percentile([t["first_s"] for t in later], 95), "decode": median(rates), "total_s": sum(t["total_s"] for t in turns), "turns": turns}


def by_turn(runs):
    """Of each turn over all sessions: how many had it, first-token p50 and p95, the median of the prompt tokens computed for it."""
    out = []
    for i in range(max((len(r["turns"]) for r in runs), default=0)):
        turns = [r["turns"][i] for r in runs if len(r["turns"]) > i]
        times = [t["first_s"] for t in turns]
        new = [t["prompt_tokens"] - (t["cached_tokens"] or 0) for t in turns if t["prompt_tokens"] is not None]
        out.append({"turn": i + 1, "sessions": len(turns), "p50_s": percentile(times, 50), "p95_s": percentile(times, 95), "computed_tokens": median(new)})
    return out


def fair(results):
    """The runs that all servers played, with the turns that all of them played; in place of the others, None for all."""
    names = list(results)
    for i, runs in enumerate(zip(*results.values())):
        n = min(len(r["turns"]) if r else 0 for r in runs)
        if not n and len(names) > 1:
            print(f"# run {i + 1} is left out for all: failed for {', '.join(x for x, r in zip(names, runs) if not r)}", file=sys.stderr)
        elif any(r and len(r["turns"]) > n for r in runs):
            print(f"# run {i + 1} counts with {n} turns for all", file=sys.stderr)
        for name, r in zip(names, runs):
            if not n or not r:
                results[name][i] = None
            elif len(r["turns"]) > n:
                start = r["read_bytes"] - r["turns"][-1]["read_bytes"]
                cut = r["turns"][:n]
                results[name][i] = {**r, **summary(cut), "read_bytes": start + cut[-1]["read_bytes"]}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_ready(url, process, timeout):
    parts, end = urlsplit(url), time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        try:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=2)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return True
        except OSError:
            pass
        time.sleep(0.2)
    return False


def one_run(name, command, url, limit, script, a):
    """Starts a server in a fresh cgroup with a cold page cache, plays the session, stops it."""
    subprocess.check_call(["sync"])
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    with Cgroup(limit) as group:
        before = sectors(a.disk)
        with open(f"/tmp/sluice-agent-{name}.log", "w") as log:
            process = subprocess.Popen(command, preexec_fn=group.enter, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            if not wait_ready(url, process, a.timeout):
                raise RuntimeError(f"did not become ready, see {log.name}")
            result = summary(play(url, script, a))
        except (RuntimeError, OSError, ValueError) as e:
            print(f"# {name}: {e}", file=sys.stderr)
            result = None
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if result:
            result.update(read_bytes=(sectors(a.disk) - before) * 512, peak_bytes=group.peak())
        return result


def ratios(results, name, key):
    """The median of the pairs' ratios, and the pairs."""
    pairs = [r[key] / s[key] for r, s in zip(results[name], results["sluice"]) if r and s and s[key]]
    return f"{median(pairs):.2f} ({', '.join(f'{p:.1f}' for p in pairs)})" if pairs else "-"


def table(rows):
    print("| limit | server | first turn s | first token p50 s | p95 s | decode tok/s | session s | GB read | p50, other / sluice | session, likewise |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for limit, results in rows:
        for name, runs in results.items():
            good = [r for r in runs if r]
            cells = [show(median([r[k] for r in good])) for k in ("first_turn_s", "p50_s", "p95_s", "decode", "total_s")]
            cells.append(show(median([r["read_bytes"] / 1e9 for r in good])))
            cells += [ratios(results, name, k) if name != "sluice" else "" for k in ("p50_s", "total_s")]
            print(f"| {limit} | {name} | " + " | ".join(cells) + " |")
    print()
    turn_table([(f"{limit} | {name}", [r for r in runs if r]) for limit, results in rows for name, runs in results.items()], "limit | server")


def turn_table(series, what):
    print(f"| {what} | turn | sessions | first token p50 s | p95 s | prompt tokens computed |")
    print("|---" * (what.count("|") + 6) + "|")
    for name, runs in series:
        for t in by_turn(runs):
            print(f"| {name} | {t['turn']} | {t['sessions']} | {show(t['p50_s'])} | {show(t['p95_s'])} | {show(t['computed_tokens'], 0)} |")


def play_url(text, a):
    runs = [summary(play(a.url, session_script(text, a, a.seed + i), a, a.api_key)) for i in range(a.runs or 1)]
    for s in runs:
        print(f"first turn {s['first_turn_s']:.2f} s; then first token p50 {s['p50_s']:.2f} s, p95 {s['p95_s']:.2f} s; decode {show(s['decode'])} tokens/s; session {s['total_s']:.1f} s")
    turn_table([(a.url, runs)], "server")
    return [{"server": a.url, "tools": a.tools, "runs": runs, "by_turn": by_turn(runs)}]


def write_json(path, data):
    if path:
        with open(path, "w") as f:
            json.dump(data, f, indent=1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", help="a server that runs already")
    ap.add_argument("--api-key")
    ap.add_argument("--model")
    ap.add_argument("--sluice")
    ap.add_argument("--llama", help="folder of llama-server")
    ap.add_argument("--limits", default="8G,4G")
    ap.add_argument("--runs", type=int, help="sessions played to each server (default 5; with --url, 1)")
    ap.add_argument("--turns", type=int, default=20)
    ap.add_argument("--result-tokens", type=int, help=f"every tool result about this long; default: drawn, with a median of {MEDIAN_TOKENS}")
    ap.add_argument("--plain-results", action="store_true", help="send tool results as messages of the user, whatever the model's template can do")
    ap.add_argument("--answer", type=int, default=24, help="tokens of an answer, at most")
    ap.add_argument("--system-words", type=int, default=300)
    ap.add_argument("--words-a-token", type=float, default=0.4, help="of the model's tokenizer on this text, roughly")
    ap.add_argument("--ctx", type=int, default=16384)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--text", help="file of real text to make tool results of; default: this repository's sources")
    ap.add_argument("--disk", default="vda")
    ap.add_argument("--timeout", type=int, default=1800)
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--json")
    a = ap.parse_args()
    text = real_text(a.text)
    a.tools = None
    if a.url:
        write_json(a.json, play_url(text, a))
        return
    if not a.model or not a.sluice:
        ap.error("give --url, or --model and --sluice")
    rows, a.runs = [], a.runs or 5
    with Loop(a.model) as device:
        for limit in a.limits.split(","):
            results = {"sluice": []}
            if a.llama:
                results["llama-server"] = []
            for i in range(a.runs):
                script = session_script(text, a, a.seed + i)
                for name in results:
                    port = str(free_port())
                    command = ([a.sluice, "serve", "-m", a.model, "--port", port, "--ctx", str(a.ctx), "--sessions", "1", "--no-usage", "--cold"] if name == "sluice" else
                               [f"{a.llama}/llama-server", "-m", device, "--port", port, "-c", str(a.ctx), "-np", "1", "--no-repack", "--no-warmup",
                                "-t", str(os.cpu_count())])
                    results[name].append(one_run(name, command, f"http://127.0.0.1:{port}", size(limit), script, a))
                    r = results[name][-1]
                    if r:
                        print(f"# {limit} run {i + 1} {name}: first turn {r['first_turn_s']:.1f} s, p50 {r['p50_s']:.2f}, p95 {r['p95_s']:.2f}, session {r['total_s']:.0f} s, "
                              f"{r['read_bytes'] / 1e9:.1f} GB read", file=sys.stderr)
            fair(results)
            rows.append((limit, results))
    table(rows)
    write_json(a.json, [{"limit": limit, "tools": a.tools, "results": results, "by_turn": {name: by_turn([r for r in runs if r]) for name, runs in results.items()}}
                        for limit, results in rows])


if __name__ == "__main__":
    main()
