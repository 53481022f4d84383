// The settings and their dialog. Kept in localStorage; fields that are empty leave the choice to the server.
import { apiKey, setApiKey } from './api.js';
import { SAMPLING, fieldError } from './conversation.js';
import { byId, setText } from './dom.js';

const KEY = 'sluice.settings';
const PLAIN = ['system', 'thinking'];

function load() {
  try {
    const value = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return value && typeof value === 'object' ? value : {};
  } catch {
    return {};
  }
}

export class Settings {
  #dialog = byId('settings');
  #form = byId('settings-form');
  #onChange;
  values = load();

  constructor(onChange) {
    this.#onChange = onChange;
    this.#form.addEventListener('input', (e) => this.#check(e.target));
    this.#form.addEventListener('submit', (e) => {
      e.preventDefault();
      this.#save();
    });
    byId('settings-reset').addEventListener('click', () => {
      for (const name of Object.keys(SAMPLING)) this.#form.elements[name].value = '';
      this.#form.elements.thinking.value = '';
      for (const name of Object.keys(SAMPLING)) this.#check(this.#form.elements[name]);
    });
    byId('settings-cancel').addEventListener('click', () => this.#dialog.close());
  }

  // askKey: the server wants a key, so that is what the dialog is opened for.
  open(askKey = false) {
    const fields = this.#form.elements;
    if (!this.#dialog.open) {
      for (const name of [...PLAIN, ...Object.keys(SAMPLING)]) fields[name].value = this.values[name] ?? '';
      fields.key.value = apiKey();
      this.#dialog.showModal();
    }
    setText(byId('key-note'), askKey ? (apiKey() ? 'The server does not accept this key.' : 'This server needs an API key.') : '');
    byId('key-note').hidden = !askKey;
    if (askKey) fields.key.focus();
  }

  // What the server takes where a field is empty.
  defaults(params) {
    for (const name of Object.keys(SAMPLING)) {
      const value = params?.[name];
      if (typeof value === 'number') this.#form.elements[name].placeholder = String(Math.round(value * 1000) / 1000);
    }
  }

  #check(field) {
    if (!Object.hasOwn(SAMPLING, field.name)) return true;
    const wrong = fieldError(field.name, field.value);
    field.setCustomValidity(wrong);
    field.setAttribute('aria-invalid', String(wrong !== ''));
    setText(byId(`error-${field.name}`), wrong);
    return wrong === '';
  }

  #save() {
    const fields = this.#form.elements;
    for (const name of Object.keys(SAMPLING)) if (!this.#check(fields[name])) return fields[name].focus();
    this.values = {};
    for (const name of [...PLAIN, ...Object.keys(SAMPLING)]) if (fields[name].value.trim() !== '') this.values[name] = fields[name].value.trim();
    setApiKey(fields.key.value);
    try {
      localStorage.setItem(KEY, JSON.stringify(this.values));
    } catch {
      // as long as the page, then
    }
    this.#dialog.close();
    this.#onChange();
  }
}
