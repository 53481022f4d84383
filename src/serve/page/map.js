// The map of layers x experts on a canvas, with a cursor for keys and pointer.
import { byId, setText } from './dom.js';
import { count, percent } from './format.js';
import { TIERS, cellAt, cellPlace, describe, heatScale, layOut, moveCursor, readExperts, strength, tally } from './layout.js';

const FLASH_MS = 900;
const FLASH_EVERY_MS = 90; // the processor has better things to do
const still = matchMedia('(prefers-reduced-motion: reduce)');

export class ExpertMap {
  #canvas = byId('map');
  #says = byId('map-says');
  #tip = byId('map-tip');
  #picture = null;
  #layout = null;
  #cursor = null; // moved by keys
  #pointed = null; // under the pointer
  #arrived = new Map(); // 'row:expert' -> when it came into memory
  #colours = null;
  #frame = 0;
  #base = document.createElement('canvas'); // the cells alone: drawn again only when they have changed
  #stale = true;

  constructor() {
    const c = this.#canvas;
    new ResizeObserver(() => this.#resize()).observe(c.parentElement);
    c.addEventListener('keydown', (e) => this.#key(e));
    c.addEventListener('focus', () => {
      this.#cursor ??= { row: 0, expert: 0 };
      this.#say();
      this.#draw();
    });
    c.addEventListener('blur', () => this.#draw());
    c.addEventListener('pointermove', (e) => this.#point(e));
    c.addEventListener('pointerdown', (e) => this.#point(e, true));
    c.addEventListener('pointerleave', () => this.#point(null));
    this.recolour();
  }

  // The theme has changed: colours are the legend's.
  recolour() {
    const of = (tier, end) => getComputedStyle(byId(`colour-${tier}-${end}`)).backgroundColor;
    this.#colours = TIERS.map((tier) => shades(of(tier, 'cold'), of(tier, 'hot')));
    this.#colours.ink = getComputedStyle(this.#canvas).color;
    this.#colours.faint = getComputedStyle(this.#canvas.parentElement).color;
    this.#stale = true;
    this.#draw();
  }

  update(json) {
    const picture = readExperts(json);
    if (!picture.layers.length) return;
    this.#note(picture);
    const sizes = picture.layers.map((l) => l.tiers.length);
    const same = this.#picture?.layers.length === sizes.length && sizes.every((n, i) => n === this.#picture.layers[i].tiers.length);
    picture.scale = heatScale(picture);
    this.#picture = picture;
    this.#stale = true;
    if (same) this.#draw();
    else this.#resize();
    this.#count();
    if (document.activeElement === this.#canvas) this.#say();
    if (this.#pointed) setText(this.#tip, describe(picture, this.#pointed));
  }

  // What has come into memory since the last picture lights up for a moment.
  #note(picture) {
    const before = this.#picture;
    if (!before || before.layers.length !== picture.layers.length || still.matches) return;
    const now = performance.now();
    picture.layers.forEach((l, row) => l.tiers.forEach((tier, expert) => {
      if (tier >= 2 && before.layers[row].tiers[expert] < 2) this.#arrived.set(`${row}:${expert}`, now);
    }));
  }

  #count() {
    const counts = tally(this.#picture);
    const all = counts.reduce((a, b) => a + b, 0);
    TIERS.forEach((tier, i) => setText(byId(`count-${tier}`), count(counts[i])));
    const layers = this.#picture.layers.length;
    setText(byId('map-summary'), `${count(counts[2] + counts[3])} of ${count(all)} experts are in memory (${percent((counts[2] + counts[3]) / all)}), ${layers} layers`);
    this.#canvas.dataset.cells = all;
    this.#canvas.dataset.resident = counts[2] + counts[3];
    this.#canvas.setAttribute('aria-label', `Map of ${layers} layers with ${count(all)} experts`);
  }

  #resize() {
    const width = this.#canvas.parentElement.clientWidth;
    if (!this.#picture || width < 20) return;
    const sizes = this.#picture.layers.map((l) => l.tiers.length);
    this.#layout = layOut(sizes, width, 30);
    const ratio = devicePixelRatio || 1;
    const { width: w, height: h } = this.#layout;
    this.#base.width = this.#canvas.width = Math.round(w * ratio);
    this.#base.height = this.#canvas.height = Math.round(h * ratio);
    this.#stale = true;
    this.#canvas.style.width = `${w}px`;
    this.#canvas.style.height = `${h}px`;
    this.#draw();
  }

  #draw() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paint() {
    const layout = this.#layout, picture = this.#picture;
    if (!layout || !picture) return;
    const side = layout.cell - (layout.cell >= 4 ? layout.gap : 0);
    const round = side >= 8 ? 2 : 0;
    if (this.#stale) this.#cells(layout, picture, side, round);
    this.#stale = false;
    const g = this.#canvas.getContext('2d');
    const ratio = devicePixelRatio || 1;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    g.drawImage(this.#base, 0, 0);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#flashes(g, layout, side, round);
    if (this.#pointed) ring(g, cellPlace(layout, this.#pointed), side, this.#colours.faint, 1.5);
    if (this.#cursor && document.activeElement === this.#canvas) ring(g, cellPlace(layout, this.#cursor), side, this.#colours.ink, 2.5);
  }

  #cells(layout, picture, side, round) {
    const g = this.#base.getContext('2d');
    const ratio = devicePixelRatio || 1;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, layout.width, layout.height);
    this.#labels(g, layout, picture);
    picture.layers.forEach((l, row) => {
      for (let expert = 0; expert < l.tiers.length; expert++) {
        const { x, y } = cellPlace(layout, { row, expert });
        const tier = l.tiers[expert];
        g.fillStyle = this.#colours[tier][Math.round(strength(l.heat[expert], picture.scale) * 15)];
        box(g, x, y, side, round);
        // Not by colour alone: what stays has a notch, what is on its way a hole.
        if (side >= 8 && tier === 3) notch(g, x, y, side, this.#colours[0][0]);
        if (side >= 8 && tier === 1) hole(g, x, y, side, this.#colours[0][0]);
      }
    });
  }

  #labels(g, layout, picture) {
    g.fillStyle = this.#colours.faint;
    g.font = '10px system-ui, sans-serif';
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    let free = -Infinity;
    picture.layers.forEach((l, row) => {
      const y = Math.max(6, layout.tops[row] + layout.cell / 2);
      if (y < free) return;
      g.fillText(String(l.layer), layout.label - 8, y);
      free = y + 14;
    });
  }

  #flashes(g, layout, side, round) {
    const now = performance.now();
    g.fillStyle = this.#colours.ink;
    for (const [key, since] of this.#arrived) {
      const left = 1 - (now - since) / FLASH_MS;
      if (left <= 0) {
        this.#arrived.delete(key);
        continue;
      }
      const [row, expert] = key.split(':').map(Number);
      const { x, y } = cellPlace(layout, { row, expert });
      g.globalAlpha = 0.7 * left * left;
      box(g, x, y, side, round);
    }
    g.globalAlpha = 1;
    if (this.#arrived.size) setTimeout(() => this.#draw(), FLASH_EVERY_MS);
  }

  #key(e) {
    if (!this.#layout || e.altKey || e.metaKey) return;
    const to = moveCursor(this.#layout, this.#cursor ?? { row: 0, expert: 0 }, e.key, e.ctrlKey);
    if (!to) return;
    e.preventDefault();
    this.#cursor = to;
    this.#say();
    this.#draw();
  }

  #say() {
    if (!this.#picture || !this.#cursor) return;
    const l = this.#picture.layers[this.#cursor.row];
    if (!l) this.#cursor = { row: 0, expert: 0 };
    setText(this.#says, describe(this.#picture, this.#cursor));
  }

  #point(e, choose = false) {
    this.#pointed = e && this.#layout ? cellAt(this.#layout, e.offsetX, e.offsetY) : null;
    this.#tip.hidden = !this.#pointed;
    if (this.#pointed) {
      setText(this.#tip, describe(this.#picture, this.#pointed));
      const frame = this.#canvas.parentElement;
      const place = cellPlace(this.#layout, this.#pointed);
      const width = this.#tip.offsetWidth;
      this.#tip.style.left = `${Math.max(0, Math.min(frame.clientWidth - width, place.x - width / 2))}px`;
      this.#tip.style.top = `${place.y + this.#layout.cell + 6}px`;
      if (choose) {
        this.#cursor = this.#pointed;
        this.#say();
      }
    }
    this.#draw();
  }
}

function box(g, x, y, side, round) {
  if (!round) {
    g.fillRect(x, y, side, side);
    return;
  }
  g.beginPath();
  g.roundRect(x, y, side, side, round);
  g.fill();
}

function notch(g, x, y, side, colour) {
  g.fillStyle = colour;
  g.beginPath();
  g.moveTo(x + side, y);
  g.lineTo(x + side, y + side * 0.45);
  g.lineTo(x + side * 0.55, y);
  g.fill();
}

function hole(g, x, y, side, colour) {
  g.fillStyle = colour;
  g.fillRect(x + side * 0.35, y + side * 0.35, side * 0.3, side * 0.3);
}

function ring(g, { x, y }, side, colour, width) {
  g.strokeStyle = colour;
  g.lineWidth = width;
  g.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
}

// Sixteen steps between two colours as CSS gives them: rgb(…) or color(srgb …).
function shades(cold, hot) {
  const numbers = (text) => {
    const n = text.match(/-?[\d.]+/g)?.map(Number) ?? [128, 128, 128];
    return text.startsWith('color(') ? n.slice(0, 3).map((v) => v * 255) : n.slice(0, 3);
  };
  const a = numbers(cold), b = numbers(hot);
  return Array.from({ length: 16 }, (_, i) => `rgb(${a.map((v, k) => Math.round(v + ((b[k] - v) * i) / 15)).join(' ')})`);
}
