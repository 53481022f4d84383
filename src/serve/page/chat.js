// The chat: messages, the composer, one answer at a time.
import { ApiError, getJson, streamChat } from './api.js';
import { addAnswer, addUser, dropAnswer, editUser, figuresOf, newConversation, requestOf } from './conversation.js';
import { byId, h, icon, setText } from './dom.js';
import { bytes, count, percent, rate, seconds } from './format.js';
import { MarkdownView, copyText } from './markdown_view.js';

const NEAR_PX = 60; // so near to the end counts as at the end
const PUBLISHED_MS = 350; // after an answer the server's figures are complete

export class Chat {
  conversation = newConversation();
  #log = byId('log');
  #scroll = byId('scroll');
  #input = byId('input');
  #send = byId('send');
  #running = null; // AbortController of the answer that comes
  #options;

  // options: { settings(), model(), changed(), busy(bool), unauthorized(), away() }
  constructor(options) {
    this.#options = options;
    byId('composer').addEventListener('submit', (e) => {
      e.preventDefault();
      if (this.#running) this.stop();
      else this.#submit();
    });
    this.#input.addEventListener('keydown', (e) => {
      if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      if (!this.#running) this.#submit();
    });
    this.#input.addEventListener('input', () => this.#grow());
    document.addEventListener('keydown', (e) => {
      if (e.key === 'Escape' && this.#running && !document.querySelector('dialog[open]')) this.stop();
    });
    this.#scroll.addEventListener('scroll', () => this.#arrow(), { passive: true });
    byId('to-end').addEventListener('click', () => {
      this.#toEnd();
      this.#input.focus({ preventScroll: true });
    });
    for (const button of byId('suggestions').querySelectorAll('button'))
      button.addEventListener('click', () => this.#ask(button.textContent));
    this.#grow();
  }

  get busy() {
    return this.#running !== null;
  }

  show(conversation) {
    this.stop();
    this.conversation = conversation;
    this.#render();
    this.#toEnd();
  }

  stop() {
    this.#running?.abort();
  }

  // ---- the composer ----

  #grow() {
    this.#input.style.height = 'auto';
    this.#input.style.height = `${Math.min(this.#input.scrollHeight, innerHeight * 0.4)}px`;
    this.#send.disabled = !this.#running && this.#input.value.trim() === '';
  }

  #submit() {
    const text = this.#input.value.trim();
    if (text === '') return;
    this.#input.value = '';
    this.#grow();
    this.#ask(text);
  }

  #ask(text) {
    if (this.#running) return;
    addUser(this.conversation, text);
    this.#render();
    this.#toEnd();
    this.#answer();
  }

  #setRunning(controller) {
    this.#running = controller;
    const on = controller !== null;
    byId('composer').dataset.running = String(on);
    this.#send.setAttribute('aria-label', on ? 'Stop' : 'Send');
    this.#send.title = on ? 'Stop (Esc)' : 'Send (Enter)';
    this.#send.querySelector('use').setAttribute('href', on ? '#i-stop' : '#i-send');
    this.#log.dataset.running = String(on);
    this.#grow();
    this.#options.busy(on);
  }

  // ---- one answer ----

  async #answer() {
    const conversation = this.conversation;
    const controller = new AbortController();
    const view = this.#answerView({ role: 'assistant', content: '', reasoning: '' }, conversation.messages.length);
    for (const button of this.#log.querySelectorAll('.again')) button.hidden = true;
    this.#log.append(view.root);
    view.root.dataset.state = 'waiting';
    view.status('Waiting for the server');
    this.#setRunning(controller);
    this.#announce('Answering');
    const live = new LiveAnswer(view, () => this.#follow(), performance.now());
    let end = null, ending = 'error', problem = null;
    const before = await statsOrNull();
    try {
      const body = requestOf(conversation, this.#options.settings(), this.#options.model());
      live.begin = performance.now();
      end = await streamChat(body, live.handlers, controller.signal);
      ending = end.finish ?? 'stop';
    } catch (e) {
      if (e.name === 'AbortError') ending = 'stopped';
      else problem = e;
    }
    live.finish();
    this.#setRunning(null);
    if (problem) this.#failed(view, problem);
    if (!problem || live.text || live.reasoning)
      addAnswer(conversation, { content: live.text, reasoning: live.reasoning, ending, figures: figuresOf(end, live, null, null), thoughtMs: live.thoughtMs });
    this.#options.changed();
    if (this.conversation !== conversation) return;
    const message = conversation.messages.at(-1);
    if (!problem) this.#seal(view, message);
    this.#announce(problem ? `No answer: ${problem.message}` : `Answer: ${live.text.slice(0, 300)}`);
    if (!problem && end) this.#figuresLater(view, message, end, live, before);
  }

  async #figuresLater(view, message, end, live, before) {
    if (!before) return;
    await new Promise((resolve) => setTimeout(resolve, PUBLISHED_MS));
    const after = await statsOrNull();
    if (!after) return;
    message.figures = figuresOf(end, live, before, after);
    view.figures(message);
    this.#options.changed();
  }

  #failed(view, problem) {
    if (problem instanceof ApiError && problem.status === 401) this.#options.unauthorized();
    if (problem instanceof ApiError && (problem.status === 0 || problem.status === 503)) this.#options.away();
    view.root.dataset.state = 'failed';
    view.problem(problem.message, problem.retrySeconds);
  }

  #seal(view, message) {
    view.root.dataset.state = 'done';
    if (message.content === '' && message.ending !== 'stopped') view.status('The model said nothing.');
    view.figures(message);
    this.#follow();
  }

  // ---- the messages ----

  #render() {
    const list = this.conversation.messages;
    byId('welcome').hidden = list.length > 0;
    this.#log.replaceChildren(...list.map((m, i) => {
      if (m.role === 'user') return this.#userView(m, i);
      const view = this.#answerView(m, i);
      view.root.dataset.state = 'done';
      view.show(m);
      view.figures(m);
      return view.root;
    }));
    if (list.at(-1)?.role === 'user' && !this.#running) this.#log.lastChild.querySelector('.again').hidden = false;
    this.#options.changed();
  }

  #button(name, label, action, className = '') {
    return h('button', { type: 'button', class: `quiet small ${className}`, onclick: action }, icon(name), h('span', {}, label));
  }

  #userView(message, index) {
    const text = h('div', { class: 'said' }, message.content);
    const again = this.#button('retry', 'Answer', () => this.#retry(index), 'again');
    again.hidden = true;
    const root = h('li', { class: 'message user' }, h('h2', { class: 'hidden' }, 'You'), text,
      h('div', { class: 'actions' }, again, this.#button('edit', 'Edit', () => this.#edit(root, index))));
    return root;
  }

  #edit(root, index) {
    if (this.#running) return;
    const message = this.conversation.messages[index];
    const dropped = this.conversation.messages.length - index - 1;
    const field = h('textarea', { class: 'edit', 'aria-label': 'Edit your message', rows: '3' });
    field.value = message.content;
    const close = () => {
      root.replaceWith(this.#userView(message, index));
      this.#log.children[index]?.querySelector('.actions button:last-child').focus();
    };
    const save = () => {
      const text = field.value.trim();
      if (text === '' || this.#running) return;
      editUser(this.conversation, index, text);
      this.#render();
      this.#toEnd();
      this.#answer();
      this.#input.focus({ preventScroll: true });
    };
    field.addEventListener('keydown', (e) => {
      if (e.key === 'Escape') {
        e.stopPropagation();
        close();
      } else if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        save();
      }
    });
    root.replaceChildren(field, h('div', { class: 'actions shown' },
      dropped > 0 ? h('span', { class: 'note' }, dropped === 1 ? 'The answer below will be replaced.' : `The ${dropped} messages below will be replaced.`) : null,
      h('button', { type: 'button', class: 'quiet', onclick: close }, 'Cancel'),
      h('button', { type: 'button', class: 'primary', onclick: save }, 'Send')));
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
    field.style.height = `${Math.min(field.scrollHeight + 2, innerHeight * 0.5)}px`;
  }

  #retry(index) {
    if (this.#running || !dropAnswer(this.conversation, index)) return;
    this.#render();
    this.#toEnd();
    this.#answer();
    this.#input.focus({ preventScroll: true });
  }

  #answerView(message, index) {
    const model = this.#options.model() || 'Answer';
    const thoughts = h('details', { class: 'thoughts', hidden: true }, h('summary', {}, h('span', {}, 'Thoughts')), h('div', { class: 'markdown' }));
    const body = h('div', { class: 'markdown' });
    const status = h('p', { class: 'status' });
    const figures = h('ul', { class: 'figures', 'aria-label': 'Figures of this answer' });
    const copy = this.#button('copy', 'Copy', async () => {
      const done = await copyText(this.conversation.messages[index]?.content ?? '');
      copy.querySelector('span').textContent = done ? 'Copied' : 'Not copied';
      setTimeout(() => { copy.querySelector('span').textContent = 'Copy'; }, 1500);
    });
    const root = h('li', { class: 'message answer' }, h('h2', {}, model), thoughts, body, status,
      h('div', { class: 'foot' }, figures, h('div', { class: 'actions' }, copy, this.#button('retry', 'Retry', () => this.#retry(index)))));
    return new AnswerView({ root, thoughts, body, status, figures });
  }

  // ---- where the reader is ----

  #atEnd() {
    const s = this.#scroll;
    return s.scrollHeight - s.scrollTop - s.clientHeight < NEAR_PX;
  }

  #toEnd() {
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
    this.#wasAtEnd = true;
    this.#arrow();
  }

  #wasAtEnd = true;

  // The text has grown: whoever was at the end stays there.
  #follow() {
    if (this.#wasAtEnd) this.#scroll.scrollTop = this.#scroll.scrollHeight;
    byId('to-end').hidden = this.#atEnd();
  }

  #arrow() {
    this.#wasAtEnd = this.#atEnd();
    byId('to-end').hidden = this.#wasAtEnd;
  }

  #announce(text) {
    setText(byId('announce'), text);
  }
}

async function statsOrNull() {
  try {
    return await getJson('/api/stats', AbortSignal.timeout(1500));
  } catch {
    return null;
  }
}

// The elements of one answer.
class AnswerView {
  #markdown;
  #thoughtsMarkdown;

  constructor(parts) {
    Object.assign(this, { root: parts.root, parts });
    this.#markdown = new MarkdownView(parts.body);
    this.#thoughtsMarkdown = new MarkdownView(parts.thoughts.lastChild);
  }

  status(text) {
    this.parts.status.hidden = text === '';
    setText(this.parts.status, text);
  }

  show(message) {
    this.#markdown.update(message.content);
    this.thoughts(message.reasoning, message.thoughtMs ? `Thought for ${seconds(message.thoughtMs)}` : 'Thoughts');
    this.status(message.content === '' && message.ending !== 'stopped' ? 'The model said nothing.' : '');
  }

  text(text) {
    this.#markdown.update(text);
  }

  thoughts(text, label) {
    this.parts.thoughts.hidden = !text;
    if (!text) return;
    this.#thoughtsMarkdown.update(text);
    setText(this.parts.thoughts.querySelector('summary span'), label);
  }

  problem(text, retrySeconds) {
    this.parts.status.setAttribute('role', 'alert');
    this.status(retrySeconds ? `${text} (again in ${retrySeconds} s)` : text);
  }

  figures(message) {
    const f = message.figures ?? {};
    const items = [];
    const add = (text, title) => items.push(h('li', { title }, text));
    if (message.ending === 'stopped') add('stopped', 'You stopped this answer');
    if (message.ending === 'length') add('cut at the limit', 'The limit of tokens, or of the context, was reached');
    if (f.firstMs) add(`first token ${seconds(f.firstMs)}`, 'From sending to the first text');
    if (f.perSecond) add(`${rate(f.perSecond)} tokens/s`, 'While the answer was written');
    if (f.tokens) add(f.tokens === 1 ? '1 token' : `${count(f.tokens)} tokens`, 'Of the answer, thoughts included');
    if (f.prompt) add(`${count(f.cached ?? 0)} of ${count(f.prompt)} prompt tokens cached`, 'Known before, so not computed again');
    if (f.hits !== null && f.hits !== undefined) add(`${percent(f.hits)} hits`, 'Experts that were in memory when they were wanted');
    if (f.readBytes) add(`${bytes(f.readBytes)} read`, 'Experts read from the disk meanwhile');
    this.parts.figures.replaceChildren(...items);
    this.parts.root.dataset.state = 'done';
  }
}

// What has come so far. The view is updated once a frame, however many pieces there are.
class LiveAnswer {
  text = '';
  reasoning = '';
  firstMs = null;
  thoughtMs = null;
  #view;
  #grown;
  #frame = 0;

  constructor(view, grown, begin) {
    this.#view = view;
    this.#grown = grown;
    this.begin = begin;
    this.handlers = {
      text: (t) => this.#take('text', t),
      reasoning: (t) => this.#take('reasoning', t),
      progress: (p) => this.#progress(p),
    };
  }

  #take(what, piece) {
    this.firstMs ??= performance.now() - this.begin;
    if (what === 'text' && this.reasoning && this.thoughtMs === null) this.thoughtMs = performance.now() - this.begin - this.firstMs;
    this[what] += piece;
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#update());
  }

  #progress(p) {
    if (this.firstMs !== null) return;
    const known = p.cache ? `, ${count(p.cache)} known before` : '';
    const left = p.time_left_ms > 1500 ? `, about ${seconds(Math.round(p.time_left_ms / 1000) * 1000)} left` : '';
    this.#view.status(`Reading the prompt: ${count(p.processed)} of ${count(p.total)} tokens${known}${left}`);
  }

  #update() {
    this.#frame = 0;
    this.#view.root.dataset.state = this.text ? 'writing' : 'thinking';
    this.#view.status('');
    this.#view.text(this.text);
    this.#view.thoughts(this.reasoning, this.text ? `Thought for ${seconds(this.thoughtMs ?? 0)}` : 'Thinking…');
    this.#grown();
  }

  finish() {
    cancelAnimationFrame(this.#frame);
    if (this.reasoning && this.thoughtMs === null) this.thoughtMs = performance.now() - this.begin - (this.firstMs ?? 0);
    this.#view.show({ content: this.text, reasoning: this.reasoning, thoughtMs: this.thoughtMs, ending: 'stopped' });
    this.#grown();
  }
}
