// What lies between two answers of /api/stats, and a window of such differences. Pure.

// null: they cannot be compared (the server was restarted, or no time has passed).
export function difference(a, b) {
  const seconds = (b.time_ns - a.time_ns) / 1e9;
  const x = a.engine, y = b.engine;
  if (!(seconds > 0) || y.hits < x.hits || y.read_bytes < x.read_bytes) return null;
  const share = (name) => clamp((y[name] - x[name]) / 1e9 / seconds);
  const hits = y.hits - x.hits, misses = y.misses - x.misses;
  const wait = share('wait_ns');
  return {
    at: b.time_ns / 1e9,
    seconds,
    // Of the time: computing, standing still for the disk. What is left is rest.
    compute: Math.max(0, clamp((y.prefill_ns + y.decode_ns - x.prefill_ns - x.decode_ns) / 1e9 / seconds) - wait),
    wait,
    disk: share('disk_busy_ns'),
    hits: hits + misses > 0 ? hits / (hits + misses) : null,
    wanted: hits + misses,
    readPerSecond: (y.read_bytes - x.read_bytes) / seconds,
    promptPerSecond: (y.tokens_prefill - x.tokens_prefill) / seconds,
    answerPerSecond: (y.tokens_decode - x.tokens_decode) / seconds,
  };
}

const clamp = (x) => Math.min(1, Math.max(0, x));

export class Window {
  #samples = [];
  #last = null;

  constructor(seconds) {
    this.seconds = seconds;
  }

  // A new answer of /api/stats. The engine publishes its figures at times of its own, so an answer that says nothing
  // new while something is being computed waits for the next one instead of showing a gap.
  add(stats, busy) {
    if (!this.#last) {
      this.#last = stats;
      return;
    }
    const d = difference(this.#last, stats);
    if (!d) {
      this.#samples = [];
      this.#last = stats;
      return;
    }
    const silent = d.wanted === 0 && d.compute + d.wait + d.disk === 0;
    if (silent && busy && d.seconds < 3) return;
    this.#samples.push(d);
    this.#last = stats;
    while (this.#samples.length && this.#samples[0].at < d.at - this.seconds) this.#samples.shift();
  }

  // Nobody looked for a while: the gap is not drawn as if it had been measured.
  pause() {
    this.#last = null;
  }

  get samples() {
    return this.#samples;
  }

  get end() {
    return this.#samples.at(-1)?.at ?? 0;
  }
}
