// Small charts over time, as SVG: no axis that is not needed, the present value in words beside the title.
import { byId, setText, svg } from './dom.js';
import { bytes, percent, rate } from './format.js';

const WIDTH = 320;
const HEIGHT = 72;

// kind 'stack': shares of the time on top of each other; 'line': one value, gaps where it is null.
const CHARTS = [
  {
    id: 'time', kind: 'stack', top: () => 1, series: [{ name: 'compute', of: (s) => s.compute }, { name: 'wait', of: (s) => s.wait }],
    line: { name: 'disk', of: (s) => s.disk },
    says: (s) => s.compute + s.wait + s.disk === 0 ? 'at rest' : `computing ${percent(s.compute)}, waiting ${percent(s.wait)}, disk busy ${percent(s.disk)}`,
  },
  { id: 'hits', kind: 'line', top: () => 1, line: { name: 'hits', of: (s) => s.hits }, says: (s) => (s.hits === null ? 'at rest' : percent(s.hits, 1)) },
  { id: 'read', kind: 'line', top: niceBytes, line: { name: 'read', of: (s) => s.readPerSecond }, says: (s) => (s.readPerSecond > 0 ? `${bytes(s.readPerSecond)}/s` : 'nothing'), scale: (v) => `${bytes(v)}/s` },
  {
    id: 'speed', kind: 'line', top: (max) => nice(max, 1), line: { name: 'answer', of: (s) => s.answerPerSecond }, second: { name: 'prompt', of: (s) => s.promptPerSecond },
    says: (s) => s.answerPerSecond + s.promptPerSecond === 0 ? 'at rest' : `answers ${rate(s.answerPerSecond)}, prompts ${rate(s.promptPerSecond)} a second`, scale: (v) => `${rate(v)}/s`,
  },
];

// The next of 1, 2, 5 times a power of ten: the scale does not move with each sample.
export function nice(max, least) {
  const v = Math.max(max, least);
  const power = 10 ** Math.floor(Math.log10(v));
  for (const m of [1, 2, 5, 10]) if (v <= m * power * 1.0001) return m * power;
  return 10 * power;
}

// Likewise for bytes, in the unit that they are shown in.
export function niceBytes(max) {
  const unit = max > 999 * 2 ** 20 ? 2 ** 30 : 2 ** 20;
  return nice(max / unit, 1) * unit;
}

// Points of a step line, newest at the right edge. Pure.
export function points(samples, of, end, seconds, top) {
  const runs = [];
  let run = null;
  for (const s of samples) {
    const v = of(s);
    if (v === null || !Number.isFinite(v)) {
      run = null;
      continue;
    }
    const x0 = WIDTH * (1 - (end - s.at + s.seconds) / seconds);
    const x1 = WIDTH * (1 - (end - s.at) / seconds);
    const y = HEIGHT * (1 - Math.min(1, v / top));
    if (!run || x0 - run.to > WIDTH / 60) {
      run = { points: [], to: 0 };
      runs.push(run);
    }
    run.points.push([x0, y], [x1, y]);
    run.to = x1;
  }
  return runs.map((r) => r.points);
}

const path = (runs) => runs.map((r) => `M${r.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L')}`).join('');
const area = (runs) => runs.map((r) => `M${r[0][0].toFixed(1)} ${HEIGHT}L${r.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L')}L${r.at(-1)[0].toFixed(1)} ${HEIGHT}Z`).join('');

export class Charts {
  #paths = new Map();

  constructor() {
    for (const chart of CHARTS) {
      const root = byId(`chart-${chart.id}`);
      const add = (name, kind) => {
        const p = svg('path', { class: `${kind} of-${name}`, 'vector-effect': 'non-scaling-stroke' });
        root.append(p);
        this.#paths.set(`${chart.id}:${kind}:${name}`, p);
      };
      for (const part of [0.5]) root.append(svg('line', { class: 'rule', x1: 0, x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part, 'vector-effect': 'non-scaling-stroke' }));
      [...(chart.series ?? [])].reverse().forEach((s) => add(s.name, 'area'));
      if (chart.kind === 'line') add(chart.line.name, 'area');
      if (chart.second) add(chart.second.name, 'line');
      add(chart.line.name, 'line');
    }
  }

  update(window) {
    const { samples, end, seconds } = window;
    for (const chart of CHARTS) {
      const of = [chart.line, chart.second].filter(Boolean).map((s) => s.of);
      const top = chart.top(Math.max(0, ...samples.flatMap((s) => of.map((f) => f(s) ?? 0))));
      let sum = [];
      for (const s of chart.series ?? []) {
        const before = sum;
        sum = [...before, s.of];
        const total = sum;
        this.#set(chart.id, 'area', s.name, area(points(samples, (x) => total.reduce((a, f) => a + f(x), 0), end, seconds, top)));
      }
      if (chart.kind === 'line') this.#set(chart.id, 'area', chart.line.name, area(points(samples, chart.line.of, end, seconds, top)));
      this.#set(chart.id, 'line', chart.line.name, path(points(samples, chart.line.of, end, seconds, top)));
      if (chart.second) this.#set(chart.id, 'line', chart.second.name, path(points(samples, chart.second.of, end, seconds, top)));
      const last = samples.at(-1);
      setText(byId(`now-${chart.id}`), last ? chart.says(last) : '–');
      if (chart.scale) setText(byId(`top-${chart.id}`), chart.scale(top));
    }
  }

  #set(id, kind, name, d) {
    this.#paths.get(`${id}:${kind}:${name}`).setAttribute('d', d);
  }
}
