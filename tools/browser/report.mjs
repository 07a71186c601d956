// report.mjs BROWSER FILE [PICTURES] opens a report.html in headless Chromium as a reader would: it filters, sorts, opens a cell with
// the keyboard, goes back, in light and dark. It prints what it found as one line of JSON, and judges nothing itself. With
// PICTURES, the beginning of a path, it draws the page too.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [, , executablePath, file, pictures] = process.argv;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const address = 'file://' + file;
const found = { console: [], requests: [], dialogs: 0, violations: [], themes: {} };

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-dev-shm-usage'] });
try {
  for (const theme of ['light', 'dark']) found.themes[theme] = await visit(theme);
  found.plain = await withoutScript();
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));

async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  page.on('console', (m) => found.console.push(`${m.type()}: ${m.text()}`));
  page.on('pageerror', (e) => found.console.push(`error: ${e.message}`));
  page.on('dialog', (d) => { found.dialogs++; d.dismiss(); });
  page.on('request', (r) => { if (r.url().split('#')[0] !== address) found.requests.push(r.url()); });
  return page;
}

async function visit(theme) {
  const page = await open({ colorScheme: theme });
  const began = Date.now();
  await page.goto(address);
  await page.waitForSelector('.grid .trial');
  const seen = { ready: Date.now() - began };
  seen.paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
  seen.headings = await page.evaluate(() => [...document.querySelectorAll('h1,h2,h3,h4')].filter((h) => h.offsetParent).map((h) => Number(h.tagName[1])));
  seen.sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  seen.wide = await page.evaluate(() => [...document.querySelectorAll('.narrow')].filter((s) => s.scrollWidth > s.clientWidth).length);
  await check(page, theme + ' page');
  if (pictures) await draw(page, theme);

  const rows = () => page.$$eval('.grid tbody tr', (list) => list.length);
  const count = () => page.textContent('#grid-count');
  seen.rows = await rows();
  seen.all = await count();
  await page.selectOption('[data-filter=status]', 'failed');
  seen.failed = await count();
  await page.selectOption('[data-filter=change]', 'worse');
  seen.worse = await count();
  await page.selectOption('[data-filter=change]', '');
  await page.selectOption('[data-filter=status]', '');
  const name = await page.textContent('.grid tbody tr:last-child th');
  await page.fill('[data-filter=case]', name);
  seen.named = await rows();
  await page.fill('[data-filter=case]', '');
  const first = () => page.textContent('.grid tbody tr th');
  seen.up = await first();
  await page.click('.grid [data-sort=case]');
  seen.down = await first();
  seen.sorted = await page.getAttribute('.grid th[aria-sort]', 'aria-sort');
  await page.click('.grid [data-sort=case]');

  // With the keyboard alone: to the grid, along it, into a cell and back.
  await page.focus('.grid .trial[tabindex="0"]');
  await page.keyboard.press('ArrowRight');
  const from = await page.evaluate(() => document.activeElement.dataset.cell);
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog[open]');
  seen.cell = await page.textContent('#cell-name');
  seen.parts = await page.$$eval('dialog h3', (list) => list.map((h) => h.textContent));
  seen.said = await page.$$eval('dialog .said', (list) => list.length);
  await page.$$eval('dialog details', (list) => list.forEach((d) => { d.open = true; }));
  seen.dialog = await page.textContent('dialog');
  await check(page, theme + ' cell');
  if (pictures) await page.screenshot({ path: `${pictures}-cell-${theme}.png` });
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog:not([open])', { state: 'attached' });
  seen.back = (await page.evaluate(() => document.activeElement.dataset.cell)) === from;
  await page.goForward();
  await page.waitForSelector('dialog[open]');
  await page.goBack();
  await page.waitForSelector('dialog:not([open])', { state: 'attached' });
  seen.pwned = await page.evaluate(() => 'pwned' in window);
  await page.context().close();
  return seen;
}

// draw makes the pictures of the documentation: the top of the page, and its grid.
async function draw(page, theme) {
  await page.screenshot({ path: `${pictures}-${theme}.png` });
  await page.$eval('#grid', (g) => g.previousElementSibling.previousElementSibling.scrollIntoView());
  await page.screenshot({ path: `${pictures}-grid-${theme}.png` });
}

// check runs the rules of WCAG and the best practices of axe-core over what is on the screen.
async function check(page, where) {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const out = await axe.run(document.querySelector('dialog[open]') || document, { resultTypes: ['violations'] });
    return out.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + ' ' + (n.any[0]?.message || n.all[0]?.message || '')).join(' | ')}`);
  });
  found.violations.push(...violations.map((v) => `${where}: ${v}`));
}

async function withoutScript() {
  const page = await open({ javaScriptEnabled: false });
  await page.goto(address);
  const seen = { cases: await page.locator('noscript summary.row').count() };
  await page.context().close();
  return seen;
}
