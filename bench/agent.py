#!/usr/bin/env python3
"""How long a coding agent waits: replays sessions of many short turns against OpenAI-compatible servers and prints first-token times.

  bench/agent.py --url http://127.0.0.1:8080 [--turns 20] ...                       one server that runs already
  bench/agent.py --model BIG.gguf --sluice build/src/cli/sluice [--llama DIR_OF_llama-server] [--limits 8G,4G,none] [--runs 5]
                                                                                    both, in turn, each in a memory cgroup (root)

A session is made of real text: a system prompt, then turns in which a tool's result comes in (its length drawn from a log-normal distribution
with a median of 249 tokens, as coding agents have) and a short answer is asked for. Answers are kept in the conversation as the server
returned them. The same seed gives the same session to every server. First-token time: from sending the request to the first piece of text.
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


def complete(url, messages, max_tokens, seed, key, timeout):
    """One streamed request; what it cost."""
    parts = urlsplit(url)
    body = json.dumps({"model": "any", "messages": messages, "max_tokens": max_tokens, "temperature": 1, "seed": seed, "stream": True,
                       "stream_options": {"include_usage": True}, "cache_prompt": True})
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = "Bearer " + key
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    sent = time.monotonic()
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"HTTP {response.status}: {response.read(400)!r}")
    out, first, pieces, usage = "", None, 0, {}
    for line in response:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            break
        event = json.loads(data)
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            piece = (delta.get("content") or "") + (delta.get("reasoning_content") or "")
            if piece:
                first = first or time.monotonic()
                pieces += 1
                out += delta.get("content") or ""
    end = time.monotonic()
    connection.close()
    details = usage.get("prompt_tokens_details") or {}
    return {"first_s": (first or end) - sent, "total_s": end - sent, "decode_s": end - (first or end), "pieces": pieces, "text": out,
            "prompt_tokens": usage.get("prompt_tokens"), "cached_tokens": details.get("cached_tokens"),
            "answer_tokens": usage.get("completion_tokens") or pieces}


def play(url, script, a, key=None):
    messages, turns = [{"role": "system", "content": script["system"]}], []
    for i, result in enumerate(script["results"]):
        messages.append({"role": "user", "content": f"Result of read_file:\n{result}"})
        turn = complete(url, messages, a.answer, a.seed * 1000 + i, key, a.timeout)
        messages.append({"role": "assistant", "content": turn["text"] or "(nothing)"})
        turns.append(turn)
        if a.verbose:
            print(f"#   turn {i + 1}: prompt {turn['prompt_tokens']} ({turn['cached_tokens']} cached), first {turn['first_s']:.2f} s, "
                  f"{turn['answer_tokens']} tokens in {turn['decode_s']:.2f} s", file=sys.stderr)
    return turns


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, math.ceil(p / 100 * len(values)) - 1)] if values else None


def summary(turns):
    later = turns[1:] or turns  # the first reads the system prompt: its own line
    rates = [(t["answer_tokens"] - 1) / t["decode_s"] for t in turns if t["decode_s"] > 0 and t["answer_tokens"] > 1]
    return {"first_turn_s": turns[0]["first_s"], "p50_s": percentile([t["first_s"] for t in later], 50),
            "p95_s": percentile([t["first_s"] for t in later], 95), "decode": median(rates), "total_s": sum(t["total_s"] for t in turns)}


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


def table(rows):
    print("| limit | server | first turn s | first token p50 s | p95 s | decode tok/s | session s | GB read | p50, other / sluice | session, likewise |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for limit, results in rows:
        for name, runs in results.items():
            good = [r for r in runs if r]
            pairs = [(r, s) for r, s in zip(runs, results["sluice"]) if r and s] if name != "sluice" else []
            cells = [show(median([r[k] for r in good])) for k in ("first_turn_s", "p50_s", "p95_s", "decode", "total_s")]
            cells.append(show(median([r["read_bytes"] / 1e9 for r in good])))
            cells += [show(median([r[k] / s[k] for r, s in pairs])) for k in ("p50_s", "total_s")]
            print(f"| {limit} | {name} | " + " | ".join(cells) + " |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", help="a server that runs already")
    ap.add_argument("--api-key")
    ap.add_argument("--model")
    ap.add_argument("--sluice")
    ap.add_argument("--llama", help="folder of llama-server")
    ap.add_argument("--limits", default="8G,4G")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--turns", type=int, default=20)
    ap.add_argument("--result-tokens", type=int, help=f"every tool result about this long; default: drawn, with a median of {MEDIAN_TOKENS}")
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
    if a.url:
        s = summary(play(a.url, session_script(text, a, a.seed), a, a.api_key))
        print(f"first turn {s['first_turn_s']:.2f} s; then first token p50 {s['p50_s']:.2f} s, p95 {s['p95_s']:.2f} s; decode {show(s['decode'])} tokens/s; session {s['total_s']:.1f} s")
        return
    if not a.model or not a.sluice:
        ap.error("give --url, or --model and --sluice")
    rows = []
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
            rows.append((limit, results))
    table(rows)
    if a.json:
        with open(a.json, "w") as f:
            json.dump([{"limit": limit, "results": results} for limit, results in rows], f, indent=1)


if __name__ == "__main__":
    main()
