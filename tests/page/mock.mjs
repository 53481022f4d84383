// A stand-in for `sluice serve`: the page's files and scripted answers, for what the bundled model cannot show (Markdown,
// thoughts, keys, large models, errors). Run by hand for work on the page: node mock.mjs [PORT]
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const PAGE = new URL('../../src/serve/page/', import.meta.url);
const TYPES = { html: 'text/html', css: 'text/css', js: 'text/javascript', svg: 'image/svg+xml' };
// As page.c sends it.
export const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const ANSWER = `## Three rivers

| River | Length | Mouth |
|:------|-------:|:------|
| Danube | 2,850 km | Black Sea |
| Rhine | 1,233 km | North Sea |
| Po | 652 km | Adriatic |

The **Danube** is the longest of the three; see [its page](https://en.wikipedia.org/wiki/Danube) for more. Not a link: [this](javascript:alert(1)), and not markup: <img src=x onerror=alert(1)>.

1. Lengths are those of the *main stem*.
2. Ask for \`km\` or \`mi\`:
   - kilometres are the default
   - miles are rounded

\`\`\`python
def miles(km: float) -> int:
    """Whole miles."""
    return round(km * 0.6214)  # close enough

print(miles(2850))
\`\`\`

> The figures are from memory.
`;
const THOUGHTS = 'The user wants a table. Three rivers of Europe will do: the *Danube*, the *Rhine*, the *Po*. I should say that the figures are from memory.';

function random(seed) {
  let s = seed >>> 0;
  return () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
    return s / 2 ** 32;
  };
}

// options: { layers, experts, used, key, loading (a share), delayMs, answer, thoughts, failWith }
export class Mock {
  constructor(options = {}) {
    this.options = { layers: 48, experts: 128, used: 8, delayMs: 8, answer: ANSWER, thoughts: THOUGHTS, ...options };
    this.requests = [];
    this.began = Date.now();
    const { layers, experts, used } = this.options;
    const next = random(7);
    this.places = Array.from({ length: layers }, () => {
      const heat = Array.from({ length: experts }, () => next() ** 3);
      const sum = heat.reduce((a, b) => a + b);
      return heat.map((h) => ({ heat: (h / sum) * used, tier: '.' }));
    });
    this.engine = { tokens_prefill: 0, tokens_decode: 0, prefill_ns: 0, decode_ns: 0, hits: 0, misses: 0, evictions: 0, read_bytes: 0, wait_ns: 0, disk_busy_ns: 0 };
    this.server = { connections: 1, requests: 0, queued: 0, jobs_started: 0, jobs_finished: 0, jobs_cancelled: 0, prompt_tokens: 0, prompt_tokens_reused: 0, generated_tokens: 0 };
    this.slots = [0, 1, 2, 3].map((id) => ({ id, n_ctx: 8192, is_processing: false, state: 'idle', id_task: 0, n_tokens: 0, n_prompt_tokens: 0, n_prompt_tokens_processed: 0, n_prompt_tokens_cache: 0, n_decoded: 0 }));
    this.warm(options.warm ?? 0.35);
  }

  warm(share) {
    const next = random(11);
    for (const layer of this.places) {
      const order = layer.map((p) => p).sort((a, b) => b.heat - a.heat);
      order.forEach((p, i) => {
        if (i < order.length * 0.04) p.tier = 'p';
        else if (i < order.length * share + (next() - 0.5) * 14) p.tier = 'c';
      });
    }
  }

  // A token is computed: some experts come, some go.
  token(prefill) {
    const e = this.engine, { used, layers } = this.options;
    for (const layer of this.places) {
      for (const p of layer) if (p.tier === 'l') p.tier = 'c';
      const i = Math.floor(Math.random() * layer.length);
      if (layer[i].tier === '.') {
        layer[i].tier = 'l';
        const out = layer.find((p) => p.tier === 'c' && p.heat < layer[i].heat);
        if (out) out.tier = '.';
      }
    }
    const misses = Math.round(layers * used * (0.05 + 0.05 * Math.random()));
    const ns = prefill ? 3e6 : 60e6;
    e.hits += layers * used - misses;
    e.misses += misses;
    e.read_bytes += misses * 1.3e6;
    e[prefill ? 'tokens_prefill' : 'tokens_decode']++;
    e[prefill ? 'prefill_ns' : 'decode_ns'] += ns;
    e.wait_ns += ns * (0.2 + 0.1 * Math.random());
    e.disk_busy_ns += ns * (0.5 + 0.2 * Math.random());
  }

  stats() {
    const row = (name, gb) => ({ name, bytes: Math.round(gb * 1e9) });
    return {
      time_ns: Math.round((Date.now() - this.began) * 1e6),
      engine: { ...this.engine, resident_bytes: 7.1e9, resident_peak_bytes: 7.4e9, experts_resident: 2100, prefix_nodes: 42, prefix_memory_bytes: 212e6, prefix_memory_limit: 512e6, prefix_disk_bytes: 1.9e9, prefix_disk_limit: 8.59e9 },
      ledger: { budget_bytes: 8.59e9, machine_limit_bytes: 16e9, slots_bytes: 5.86e9, slots_all_bytes: 15.9e9, slots_floor_bytes: 0.2e9, rows: [row('process', 0.06), row('dense weights', 1.02), row('KV cache', 0.805), row('scratch', 0.21), row('expert slots', 5.86), row('prompt cache', 0.51)] },
      slots: this.slots,
      server: this.server,
    };
  }

  experts() {
    return {
      tiers: { '.': 'disk', l: 'loading', c: 'cache', p: 'pinned' }, n_layers: this.options.layers, n_expert: this.options.experts, n_expert_used: this.options.used,
      layers: this.places.map((layer, i) => ({ layer: i, tier: layer.map((p) => p.tier).join(''), heat: layer.map((p) => Number(p.heat.toPrecision(4))) })),
    };
  }

  listen(port = 0) {
    this.http = createServer((q, r) => this.#serve(q, r).catch((e) => {
      r.statusCode = 500;
      r.end(String(e));
    }));
    return new Promise((resolve) => {
      this.http.listen(port, '127.0.0.1', () => resolve(`http://127.0.0.1:${this.http.address().port}`));
    });
  }

  close() {
    this.http.closeAllConnections();
    return new Promise((resolve) => { this.http.close(resolve); });
  }

  async #serve(q, r) {
    const path = q.url.split('?')[0];
    const json = (value, status = 200) => {
      r.writeHead(status, { 'Content-Type': 'application/json' });
      r.end(JSON.stringify(value));
    };
    if (path === '/' || path.startsWith('/page/')) return this.#file(path === '/' ? 'index.html' : path.slice(6), r);
    if (path === '/health') {
      const { loading } = this.options;
      return loading ? json({ status: 'loading model', progress: loading }, 503) : json({ status: 'ok' });
    }
    if (this.options.key && q.headers.authorization !== `Bearer ${this.options.key}`)
      return json({ error: { message: 'a valid API key is needed, in the header Authorization: Bearer KEY or x-api-key: KEY', type: 'authentication_error' } }, 401);
    if (path === '/props') return json({ default_generation_settings: { n_ctx: 8192, params: { temperature: 0.8, top_p: 0.95, min_p: 0.05, top_k: 40, repeat_penalty: 1 } }, total_slots: 4, model_alias: 'Qwen3-30B-A3B-Q4_K_M' });
    if (path === '/v1/models') return json({ object: 'list', data: [{ id: 'Qwen3-30B-A3B-Q4_K_M', object: 'model' }] });
    if (path === '/api/stats') return json(this.stats());
    if (path === '/api/experts') return json(this.experts());
    if (path === '/v1/chat/completions') return this.#chat(q, r, json);
    return json({ error: { message: `there is nothing at ${path}` } }, 404);
  }

  async #file(name, r) {
    try {
      const bytes = await readFile(new URL(name.replaceAll('/', ''), PAGE));
      r.writeHead(200, { 'Content-Type': `${TYPES[name.split('.').at(-1)] ?? 'text/plain'}; charset=utf-8`, 'Content-Security-Policy': POLICY });
      r.end(bytes);
    } catch {
      r.writeHead(404);
      r.end();
    }
  }

  async #chat(q, r, json) {
    let body = '';
    for await (const piece of q) body += piece;
    const request = JSON.parse(body);
    this.requests.push(request);
    if (this.options.failWith) return json({ error: { message: this.options.failWith[1] } }, this.options.failWith[0]);
    const slot = this.slots[0];
    let open = true;
    r.on('close', () => { open = false; });
    r.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
    const send = (value) => r.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', ...value })}\n\n`);
    const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
    const prompt = 1260, known = slot.n_tokens ? 1204 : 0;
    Object.assign(slot, { is_processing: true, state: 'prompt', n_prompt_tokens: prompt, n_prompt_tokens_cache: known, n_decoded: 0 });
    this.server.jobs_started++;
    for (let done = known; open && done < prompt; done += 256) {
      slot.n_prompt_tokens_processed = done;
      slot.n_tokens = done;
      send({ choices: [], prompt_progress: { total: prompt, cache: known, processed: done, time_ms: 100, time_left_ms: 2000 } });
      for (let i = 0; i < 20; i++) this.token(true);
      await sleep(this.options.delayMs * 5);
    }
    send({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] });
    slot.state = 'answer';
    slot.n_prompt_tokens_processed = prompt;
    let n = 0;
    for (const [kind, text] of [['reasoning_content', this.options.thoughts], ['content', this.options.answer]])
      for (const piece of text.match(this.options.delayMs > 5 ? /\s*\S{1,6}|\s+$/g : /[^]{1,60}/g) ?? []) {
        if (!open) break;
        send({ choices: [{ index: 0, delta: { [kind]: piece }, finish_reason: null }] });
        n++;
        this.token(false);
        slot.n_decoded = n;
        slot.n_tokens = prompt + n;
        await sleep(this.options.delayMs);
      }
    Object.assign(slot, { is_processing: false, state: 'idle' });
    this.server[open ? 'jobs_finished' : 'jobs_cancelled']++;
    this.server.prompt_tokens += prompt;
    this.server.prompt_tokens_reused += known;
    send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], timings: { cache_n: known, prompt_n: prompt - known, predicted_n: n, predicted_per_second: 16.4 } });
    send({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: n, total_tokens: prompt + n, prompt_tokens_details: { cached_tokens: known } } });
    r.end('data: [DONE]\n\n');
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(await new Mock({ delayMs: 30 }).listen(Number(process.argv[2] ?? 8099)));
}
