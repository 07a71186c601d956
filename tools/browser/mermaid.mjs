// mermaid.mjs BROWSER FILE draws the diagrams of FILE, a JSON array of texts, with the real mermaid in headless Chromium, as
// GitHub's pages do. It prints what came of each as one line of JSON, and judges nothing itself.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [, , executablePath, file] = process.argv;
const mermaid = readFileSync(createRequire(import.meta.url).resolve('@mermaid-js/tiny/dist/mermaid.tiny.js'), 'utf8');

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-dev-shm-usage'] });
try {
  const page = await browser.newPage();
  await page.route('**', (route) => route.abort());
  await page.addScriptTag({ content: mermaid });
  const drawn = [];
  for (const text of JSON.parse(readFileSync(file, 'utf8'))) drawn.push(await page.evaluate(draw, text));
  console.log(JSON.stringify(drawn));
} finally {
  await browser.close();
}

async function draw(text) {
  globalThis.mermaid.initialize({ startOnLoad: false, securityLevel: 'strict' });
  try {
    const { svg } = await globalThis.mermaid.render('chart', text);
    document.body.innerHTML = svg;
    const all = (what) => [...document.querySelectorAll(what)];
    return { texts: all('text').map((t) => t.textContent), bars: all('.bar-plot-0 rect').length, lines: all('[class^=line-plot] path').length };
  } catch (err) {
    return { error: String(err.message || err) };
  }
}
