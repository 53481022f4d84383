#!/usr/bin/env python3
"""Runs Sluice, llama.cpp and, where it was built, ik_llama.cpp on the same file under the same memory limits, in turn, and prints what each reached.

  bench/peers.py --model BIG.gguf --sluice build/src/cli/sluice --llama DIR_WITH_llama-completion [--ik DIR_WITH_llama-cli]
                 [--limits 8G,4G,none] [--runs 5] [--warm 8G]

Needs root (memory cgroups, v1 or v2; dropping the page cache; a loop device). llama.cpp maps the file, so the kernel's read-ahead decides how it
fares: it reads through a loop device with the usual 128 KiB, whatever the disk is set to. Sluice reads the file directly. Before every run the page cache is dropped.
Decode follows sampled text (temperature 1, no cut-offs), which is what the routing of a model is made for; random tokens would misstate it.
The runs of the programs alternate; the table gives medians, and the ratio of each pair's rates as its median.
--warm touches so much memory before every run. A virtual machine that gives free memory back to its host (free page reporting) has to fetch it again at
the first touch, at a fraction of a GB/s here; on a machine of one's own it is simply there.
"""
import argparse, json, os, re, shutil, statistics, subprocess, sys, tempfile, time

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TEXT = ("The old harbour lay quiet under the morning fog while the fishermen mended their nets and spoke of the storm that had taken two boats "
        "in the night; a child ran along the wall counting gulls, and the keeper of the light came down to ask for bread and news. ")


def size(text):
    return None if text == "none" else int(float(text[:-1]) * UNITS[text[-1].upper()])


class Cgroup:
    """A fresh memory cgroup; the child enters it before it execs."""

    def __init__(self, limit):
        self.limit = limit
        v1 = "/sys/fs/cgroup/memory"
        self.v2 = not os.path.exists(f"{v1}/memory.limit_in_bytes")
        self.path = ("/sys/fs/cgroup" if self.v2 else v1) + f"/sluice-peers-{os.getpid()}"

    def __enter__(self):
        if self.limit is None:
            return self
        os.makedirs(self.path, exist_ok=True)
        name = "memory.max" if self.v2 else "memory.limit_in_bytes"
        with open(f"{self.path}/{name}", "w") as f:
            f.write(str(self.limit))
        if self.v2:
            with open(f"{self.path}/memory.swap.max", "w") as f:
                f.write("0")
        return self

    def enter(self):
        if self.limit is not None:
            with open(f"{self.path}/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))

    def peak(self):
        if self.limit is None:
            return None
        name = "memory.peak" if self.v2 else "memory.max_usage_in_bytes"
        with open(f"{self.path}/{name}") as f:
            return int(f.read())

    def __exit__(self, *_):
        if self.limit is not None:
            for _ in range(50):
                try:
                    os.rmdir(self.path)
                    return
                except OSError:
                    time.sleep(0.1)


class Loop:
    """The model behind a read-only loop device whose read-ahead is 128 KiB."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.device = subprocess.check_output(["losetup", "-r", "--direct-io=on", "-f", "--show", self.path], text=True).strip()
        subprocess.check_call(["blockdev", "--setra", "256", self.device])
        return self.device

    def __exit__(self, *_):
        subprocess.call(["losetup", "-d", self.device])


def warm(n_bytes):
    """Touches memory in a process per CPU and lets go of it."""
    touch = ("import mmap, sys; n = int(sys.argv[1]); m = mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(14)\n"
             "for at in range(0, n, 4096): m[at] = 1")
    n = os.cpu_count()
    for p in [subprocess.Popen([sys.executable, "-c", touch, str(n_bytes // n)]) for _ in range(n)]:
        p.wait()


def sectors(disk):
    with open(f"/sys/block/{disk}/stat") as f:
        return int(f.read().split()[2])


def run(command, limit, disk, timeout, warm_bytes):
    subprocess.check_call(["sync"])
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")
    if warm_bytes:
        warm(warm_bytes)
    with Cgroup(limit) as group:
        before = sectors(disk)
        try:
            with tempfile.TemporaryDirectory() as place:  # peers leave logs where they run
                done = subprocess.run(command, preexec_fn=group.enter, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, cwd=place)
        except subprocess.TimeoutExpired:
            return None
        result = {"rc": done.returncode, "read_bytes": (sectors(disk) - before) * 512, "peak_bytes": group.peak()}
    result["text"] = (done.stdout + done.stderr).decode("utf-8", "replace")
    return result


def rates_llama(text):
    prompt = re.search(r"prompt eval time =.*?/\s*(\d+) tokens.*?([\d.]+) tokens per second", text)
    decode = re.search(r"\n(?:(?!prompt).)*\beval time =\s*[\d.]+ ms /\s*(\d+) (?:runs|tokens).*?([\d.]+) tokens per second", text)
    return (float(prompt[2]) if prompt else None, float(decode[2]) if decode else None, int(prompt[1]) if prompt else None)


def rates_sluice(text):
    prompt = re.search(r"prefill\s+(\d+) tokens\s+([\d.]+) tokens/s", text)
    decode = re.search(r"decode\s+(\d+) tokens\s+([\d.]+) tokens/s", text)
    return (float(prompt[2]) if prompt else None, float(decode[2]) if decode else None, int(prompt[1]) if prompt else None)


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def show(v, digits=2):
    return "-" if v is None else f"{v:.{digits}f}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", required=True)
    ap.add_argument("--sluice", required=True)
    ap.add_argument("--llama", required=True, help="folder of llama-completion")
    ap.add_argument("--ik", help="folder of ik_llama.cpp's llama-cli")
    ap.add_argument("--warm", help="memory to touch before every run")
    ap.add_argument("--limits", default="8G,4G")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--words", type=int, default=48, help="length of the prompt in words")
    ap.add_argument("-n", type=int, default=32, help="tokens to decode")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--disk", default="vda", help="block device whose reads are counted")
    ap.add_argument("--timeout", type=int, default=600)
    ap.add_argument("--repack", action="store_true", help="let llama.cpp repack weights (only where everything fits)")
    ap.add_argument("--json")
    a = ap.parse_args()
    for name in ("model", "sluice", "llama", "ik"):
        if getattr(a, name):
            setattr(a, name, os.path.abspath(shutil.which(getattr(a, name)) or getattr(a, name)))
    if os.path.getsize(a.model) % 512:
        sys.exit(f"peers: a loop device would cut the end of {a.model} off; pad it first: truncate -s %4096 {a.model}")
    words = (TEXT * (a.words // len(TEXT.split()) + 1)).split()[: a.words]
    prompt = "/tmp/sluice-peers-prompt.txt"
    with open(prompt, "w") as f:
        f.write(" ".join(words))
    rows = []
    with Loop(a.model) as device:
        for limit in a.limits.split(","):
            results = {"sluice": [], "llama.cpp": []}
            if a.ik:
                results["ik_llama.cpp"] = []
            for i in range(a.runs):
                sampled = ["-f", prompt, "-n", str(a.n), "--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0"]
                peer = [*sampled, "-m", device, "-s", str(i + 1), "-c", "1024", "-t", str(a.threads), "--no-warmup", "--ignore-eos"]
                commands = {
                    "sluice": [a.sluice, "run", "-m", a.model, *sampled, "--seed", str(i + 1), "--ctx", "1024", "--threads", str(a.threads)],
                    "llama.cpp": [f"{a.llama}/llama-completion", *peer, "-no-cnv", *([] if a.repack else ["--no-repack"])],
                }
                if a.ik:
                    commands["ik_llama.cpp"] = [f"{a.ik}/llama-cli", *peer, *(["-rtr"] if a.repack else [])]
                for name, command in commands.items():
                    r = run(command, size(limit), a.disk, a.timeout, size(a.warm) if a.warm else 0)
                    if r is None:
                        print(f"# {name} at {limit}: no answer within {a.timeout} s", file=sys.stderr)
                        continue
                    prefill, decode, n_prompt = (rates_sluice if name == "sluice" else rates_llama)(r.pop("text"))
                    r.update(prefill=prefill, decode=decode, n_prompt=n_prompt)
                    results[name].append(r)
                    print(f"# {limit} run {i + 1} {name}: rc {r['rc']}, prompt of {n_prompt}, prefill {show(prefill)}, decode {show(decode)} tokens/s, "
                          f"{r['read_bytes'] / 1e9:.2f} GB read", file=sys.stderr)
            rows.append((limit, results))
    print("| limit | program | prefill tok/s | decode tok/s | GB read | Sluice's decode over it | Sluice's prefill over it |")
    print("|---|---|---|---|---|---|---|")
    for limit, results in rows:
        for name, rs in results.items():
            pairs = list(zip(results["sluice"], rs))
            ratio = {}
            if name != "sluice":
                ratio = {k: median([x[k] / y[k] for x, y in pairs if x[k] and y[k]]) for k in ("decode", "prefill")}
            print(f"| {limit} | {name} | {show(median([r['prefill'] for r in rs]))} | {show(median([r['decode'] for r in rs]))} | "
                  f"{show(median([r['read_bytes'] / 1e9 for r in rs]))} | {show(ratio.get('decode'))} | {show(ratio.get('prefill'))} |")
    if a.json:
        with open(a.json, "w") as f:
            json.dump([{"limit": limit, "results": results} for limit, results in rows], f, indent=1)


if __name__ == "__main__":
    main()
