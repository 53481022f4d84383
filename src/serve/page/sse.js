// Server-sent events out of pieces of text that may be cut anywhere. Pure.

const LINE_MAX = 8 << 20;

export class SseReader {
  #rest = '';
  #data = [];
  #name = '';

  // The events that this piece completes: [{ name, data }].
  push(piece) {
    const events = [];
    this.#rest += piece;
    let from = 0;
    for (;;) {
      const end = this.#lineEnd(from);
      if (end < 0) break;
      this.#line(this.#rest.slice(from, end), events);
      from = this.#rest.startsWith('\r\n', end) ? end + 2 : end + 1;
    }
    this.#rest = this.#rest.slice(from);
    if (this.#rest.length > LINE_MAX) throw new Error('a line of the stream is too long');
    return events;
  }

  // A CR that is the last character so far may be half of a CR LF: wait.
  #lineEnd(from) {
    for (let i = from; i < this.#rest.length; i++) {
      const c = this.#rest.charCodeAt(i);
      if (c === 10) return i;
      if (c === 13) return i + 1 < this.#rest.length ? i : -1;
    }
    return -1;
  }

  #line(line, events) {
    if (line === '') {
      if (this.#data.length) events.push({ name: this.#name || 'message', data: this.#data.join('\n') });
      this.#data = [];
      this.#name = '';
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment: a sign of life
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.#data.push(value);
    if (field === 'event') this.#name = value;
  }
}
