// "Where every expert is": asks the server while somebody looks, and only then.
import { ApiError, getJson } from './api.js';
import { Charts } from './charts.js';
import { byId, setText } from './dom.js';
import { bytes, count, percent, rate, seconds } from './format.js';
import { Ledger } from './ledger.js';
import { ExpertMap } from './map.js';
import { Window } from './rates.js';
import { Sessions } from './sessions.js';

const BUSY_MS = 500;
const IDLE_MS = 1200;
const FAILED_MS = 3000;
const WINDOW_SECONDS = 90;

export class Panel {
  #root = byId('experts');
  #map = new ExpertMap();
  #charts = new Charts();
  #ledger = new Ledger();
  #sessions = new Sessions();
  #window = new Window(WINDOW_SECONDS);
  #timer = 0;
  #asking = false;
  #ready = false;
  #options;

  // options: { unauthorized(), away() }
  constructor(options) {
    this.#options = options;
    document.addEventListener('visibilitychange', () => this.wake());
  }

  recolour() {
    this.#map.recolour();
  }

  // The model is loaded: there is something to ask for.
  ready() {
    this.#ready = true;
    this.wake();
  }

  #seen() {
    return this.#ready && !document.hidden && this.#root.offsetParent !== null;
  }

  // Something has changed that may be worth looking at: a view was opened, a request begins.
  wake() {
    clearTimeout(this.#timer);
    if (this.#seen()) this.#ask();
    else this.#window.pause();
  }

  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    let next = IDLE_MS;
    try {
      const [stats, experts] = await Promise.all([getJson('/api/stats'), getJson('/api/experts')]);
      const busy = stats.slots?.some((s) => s.is_processing) ?? false;
      this.#show(stats, busy);
      this.#map.update(experts);
      if (experts.n_layers > 0 && !experts.layers.length) setText(byId('map-summary'), 'This model has no experts: all of it is in memory.');
      if (busy || experts.n_layers === undefined) next = BUSY_MS;
      this.#say('');
    } catch (e) {
      next = FAILED_MS;
      if (e instanceof ApiError && e.status === 401) this.#options.unauthorized();
      if (e instanceof ApiError && (e.status === 0 || e.status === 503)) this.#options.away();
      this.#say(e.message);
    }
    this.#asking = false;
    clearTimeout(this.#timer);
    if (this.#seen()) this.#timer = setTimeout(() => this.#ask(), next);
    else this.#window.pause();
  }

  #say(text) {
    const note = byId('panel-note');
    note.hidden = text === '';
    setText(note, text);
  }

  #show(stats, busy) {
    const x = stats.engine;
    this.#window.add(stats, busy);
    this.#charts.update(this.#window);
    this.#ledger.update(stats.ledger, x);
    this.#sessions.update(stats);
    const wanted = x.hits + x.misses;
    setText(byId('total-hits'), wanted ? percent(x.hits / wanted, 1) : '–');
    setText(byId('total-hits-of'), wanted ? `of ${count(wanted)} wanted` : 'none wanted yet');
    setText(byId('total-read'), bytes(x.read_bytes));
    const tokens = x.tokens_prefill + x.tokens_decode;
    setText(byId('total-read-of'), tokens ? `${bytes(x.read_bytes / tokens)} a token` : 'no tokens yet');
    const spent = x.prefill_ns + x.decode_ns;
    setText(byId('total-wait'), seconds(x.wait_ns / 1e6));
    setText(byId('total-wait-of'), spent ? `${percent(x.wait_ns / spent)} of the work` : 'no work yet');
    setText(byId('total-tokens'), count(tokens));
    setText(byId('total-tokens-of'), x.decode_ns ? `${rate((x.tokens_decode * 1e9) / x.decode_ns)}/s in answers` : 'prompts and answers');
  }
}
