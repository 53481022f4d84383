// Makes the pictures in docs/, with the real program and the bundled model:
// SLUICE_BIN=build/src/cli/sluice SLUICE_SOURCE=. node tests/page/pictures.mjs
import { join } from 'node:path';
import { launch, serve } from './rig.mjs';

const docs = (name) => join(process.env.SLUICE_SOURCE, 'docs', name);
const browser = await launch();
const server = await serve('--experts', '50%', '--ctx', '1024', '--prefix-memory', '8M', '--max-body', '1', '--cold', '--sessions', '3');
const settings = { max_tokens: '130', temperature: '0.7', seed: '5' };

async function open(view, options) {
  const context = await browser.newContext({ ...options });
  await context.addInitScript((s) => localStorage.setItem('sluice.settings', JSON.stringify(s)), settings);
  const page = await context.newPage();
  await page.goto(`${server.url}/#/${view}`);
  await page.waitForSelector('[data-server=ready]');
  return page;
}

async function say(page, text) {
  await page.fill('#input', text);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#composer[data-running=false]', { timeout: 120000 });
  await page.waitForTimeout(800);
}

const light = await open('both', { viewport: { width: 1240, height: 800 } });
await say(light, 'It is a truth universally acknowledged, that');
await say(light, 'En un lugar de la Mancha,');
await light.waitForTimeout(1500);
await light.screenshot({ path: docs('page-light.png') });

const dark = await open('experts', { viewport: { width: 1100, height: 1060 }, colorScheme: 'dark' });
for (const text of ['And God said unto Moses,', 'Quel ramo del lago di Como, che', 'Call me Ishmael.']) {
  await light.click('#new');
  await say(light, text);
}
await dark.focus('#map');
for (let i = 0; i < 5; i++) await dark.keyboard.press('ArrowDown');
for (let i = 0; i < 9; i++) await dark.keyboard.press('ArrowRight');
await light.click('#new');
await light.fill('#input', 'En un lugar de la Mancha,');
await light.keyboard.press('Enter');
await dark.evaluate(() => { document.getElementById('experts').scrollTop = 0; });
await dark.waitForTimeout(1200);
await dark.screenshot({ path: docs('page-dark.png') });

const phone = await open('chat', { viewport: { width: 360, height: 720 }, deviceScaleFactor: 2 });
await say(phone, 'It was a dark night, and the Count');
await phone.screenshot({ path: docs('page-phone.png') });

await browser.close();
await server.stop();
