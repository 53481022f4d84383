// Puts the page together: views, theme, the state of the server, conversations.
import { ApiError, getJson, health } from './api.js';
import { Chat } from './chat.js';
import { KEY, loadAll, merge, newConversation, readAll, saveAll } from './conversation.js';
import { byId, h, icon, setText } from './dom.js';
import { count, percent } from './format.js';
import { Panel } from './panel.js';
import { Settings } from './settings.js';

const state = { model: '', ctx: 0, conversations: [], dropped: new Set(), store: null };
try {
  state.store = localStorage;
} catch {
  // forbidden: nothing is kept
}
if (state.store) state.conversations = loadAll(state.store);

const settings = new Settings(() => connect());
const panel = new Panel({ unauthorized: () => settings.open(true), away });
const chat = new Chat({
  settings: () => settings.values,
  model: () => state.model,
  changed: keep,
  busy: () => panel.wake(),
  unauthorized: () => settings.open(true),
  away,
});

// ---- views: #/chat, #/experts, or both beside each other where there is room ----

const wide = matchMedia('(min-width: 1100px)');

function view() {
  const name = location.hash.slice(2);
  const known = ['chat', 'experts', 'both'].includes(name) ? name : wide.matches ? 'both' : 'chat';
  return known === 'both' && !wide.matches ? 'chat' : known;
}

function showView() {
  const name = view();
  document.body.dataset.view = name;
  for (const link of document.querySelectorAll('#views a'))
    if (link.hash === `#/${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  panel.wake();
}
addEventListener('hashchange', showView);
wide.addEventListener('change', showView);
document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  if (document.body.dataset.view === 'experts') byId('map').focus();
  else byId('input').focus();
});

// ---- theme ----

const dark = matchMedia('(prefers-color-scheme: dark)');

function isDark() {
  return (document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light')) === 'dark';
}

function themeShown() {
  const button = byId('theme');
  button.setAttribute('aria-label', isDark() ? 'Light theme' : 'Dark theme');
  button.title = button.getAttribute('aria-label');
  button.querySelector('use').setAttribute('href', isDark() ? '#i-sun' : '#i-moon');
  panel.recolour();
}
byId('theme').addEventListener('click', () => {
  const theme = isDark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  try {
    // What the system says anyway need not be kept.
    if ((theme === 'dark') === dark.matches) localStorage.removeItem('sluice.theme');
    else localStorage.setItem('sluice.theme', theme);
  } catch {
    // as long as the page, then
  }
  themeShown();
});
dark.addEventListener('change', themeShown);

// ---- conversations ----

let keepTimer = 0;
function keep() {
  byId('new').disabled = chat.conversation.messages.length === 0;
  if (!state.store) return;
  if (!state.conversations.includes(chat.conversation)) state.conversations.push(chat.conversation);
  clearTimeout(keepTimer);
  keepTimer = setTimeout(keepNow, 150);
}
function keepNow() {
  clearTimeout(keepTimer);
  if (!state.store) return;
  state.conversations = merge(state.conversations, loadAll(state.store), chat.conversation, state.dropped);
  saveAll(state.store, state.conversations);
}
addEventListener('pagehide', keepNow);
// Another tab has deleted conversations: they shall not come back from here.
addEventListener('storage', (e) => {
  if (e.key !== KEY) return;
  const left = new Set(readAll(e.newValue).map((c) => c.id));
  const gone = new Set(readAll(e.oldValue).map((c) => c.id).filter((id) => !left.has(id)));
  state.conversations = state.conversations.filter((c) => c === chat.conversation || !gone.has(c.id));
});

function listConversations() {
  keepNow();
  const list = state.conversations.filter((c) => c.messages.length).sort((a, b) => b.changed - a.changed);
  byId('no-conversations').hidden = list.length > 0;
  byId('conversation-list').replaceChildren(...list.map((c) => {
    const row = h('li', { class: c === chat.conversation ? 'current' : null },
      h('button', { type: 'button', class: 'open', 'aria-current': c === chat.conversation ? 'true' : null, onclick: () => {
        byId('conversations').close();
        chat.show(c);
        byId('input').focus();
      } }, h('span', {}, c.title || 'Without words'), h('small', {}, new Date(c.changed).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' }))),
      h('button', { type: 'button', class: 'quiet', 'aria-label': `Delete "${c.title}"`, title: 'Delete', onclick: () => {
        state.dropped.add(c.id);
        state.conversations = state.conversations.filter((other) => other !== c);
        if (c === chat.conversation) chat.show(newConversation());
        keepNow();
        listConversations();
        (byId('conversation-list').querySelector('button') ?? byId('conversations-close')).focus();
      } }, icon('bin')));
    return row;
  }));
}
byId('open-conversations').addEventListener('click', () => {
  listConversations();
  byId('conversations').showModal();
});
byId('conversations-close').addEventListener('click', () => byId('conversations').close());
byId('new').addEventListener('click', () => {
  chat.show(newConversation());
  location.hash = document.body.dataset.view === 'experts' ? '#/chat' : location.hash;
  byId('input').focus();
});
byId('open-settings').addEventListener('click', () => settings.open());
for (const dialog of document.querySelectorAll('dialog'))
  dialog.addEventListener('click', (e) => {
    if (e.target === dialog) dialog.close(); // outside
  });

// ---- the server ----

function serverSays(name, text) {
  document.body.dataset.server = name;
  setText(byId('server-state'), text);
}

// Somebody found that the server does not answer, or not yet: look until it does.
function away() {
  if (document.body.dataset.server === 'ready') connect();
}

let connecting = 0;
async function connect() {
  const turn = ++connecting;
  for (;;) {
    const h = await health();
    if (turn !== connecting) return;
    if (h.status === 'ok') break;
    if (h.status === 'loading model') serverSays('loading', `Loading the model${h.progress > 0 ? `: ${percent(h.progress)}` : ''}`);
    else serverSays('away', h.status === 'unreachable' ? 'The server does not answer' : h.status === 'error' ? h.error.message : 'The server is stopping');
    await new Promise((resolve) => setTimeout(resolve, h.status === 'loading model' ? 500 : 2000));
  }
  try {
    const [props, models] = await Promise.all([getJson('/props'), getJson('/v1/models')]);
    const model = models.data?.[0];
    state.model = model?.id ?? props.model_alias ?? '';
    state.ctx = props.default_generation_settings?.n_ctx ?? 0;
    settings.defaults(props.default_generation_settings?.params);
    serverSays('ready', `${state.model}${state.ctx ? `, ${count(state.ctx)} tokens of context` : ''}`);
    document.title = state.model ? `${state.model} – Sluice` : 'Sluice';
    panel.ready();
  } catch (e) {
    serverSays('away', e.message);
    if (e instanceof ApiError && e.status === 401) settings.open(true);
    else setTimeout(connect, 3000);
  }
}

showView();
themeShown();
const latest = [...state.conversations].sort((a, b) => b.changed - a.changed)[0];
chat.show(latest ?? newConversation());
connect();
document.documentElement.dataset.ready = 'yes';
