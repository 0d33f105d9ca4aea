/* Opens the page of contrib/dashboards/panels in headless Chromium, waits until
 * all panels are drawn, and takes pictures of some rows.
 *
 *   node panels.mjs CONFIG
 *
 * CONFIG is JSON: modules, url, width, pictures {path: [row, ...]}, and reloads: the
 * number of times to load the page again. Prints {faults, panels, loads}. For each
 * load, loads contains {drawn, waited}: drawn is the time from the navigation until the
 * last panel was drawn. The page waited for answers from the store for `waited` of that
 * time. Both are in milliseconds.
 */
import { createRequire } from 'node:module';

const config = JSON.parse(process.argv[2]);
const { chromium } = createRequire(config.modules + '/')('playwright-core');
const PATIENCE_MS = 30000;

/* Runs in the page, before its scripts. Sets allDrawn to a promise of {drawn, waited}.
 * A panel is drawn in the frame after it has received its series. If some panels
 * receive no series, stops waiting for them after patienceMs. */
function watchPanels(patienceMs) {
  performance.setResourceTimingBufferSize(10000);
  const frame = () => new Promise(requestAnimationFrame);
  const isComplete = () => {
    const panels = [...document.querySelectorAll('.percore-panel')];
    return panels.length > 0 && panels.every((panel) => +panel.dataset.series > 0);
  };
  const waits = () => {
    const found = performance.getEntriesByType('resource').filter(({ name }) => name.includes('/store/'));
    let [sum, end] = [0, 0];
    for (const { startTime, responseEnd } of found.sort((a, b) => a.startTime - b.startTime)) {
      sum += Math.max(0, responseEnd - Math.max(startTime, end));
      end = Math.max(end, responseEnd);
    }
    return sum;
  };
  globalThis.allDrawn = (async () => {
    while (!isComplete() && performance.now() < patienceMs) await frame();
    await frame();
    await frame();
    return { drawn: performance.now(), waited: waits() };
  })();
}

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-sync',
    '--disable-component-update', '--no-first-run'],
});
const faults = [];
try {
  const page = await browser.newPage({ viewport: { width: config.width, height: 900 } });
  page.on('pageerror', (error) => faults.push(`page: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      faults.push(`console: ${message.text().slice(0, 300)}`);
  });
  page.on('response', (response) => {
    // Ignore missing fonts: only Grafana's own server has them, and other fonts will
    // do.
    if (response.status() >= 400 && !response.url().includes('/public/fonts/')) faults.push(`${response.status()} ${response.url()}`);
  });
  await page.addInitScript(watchPanels, PATIENCE_MS);
  const loads = [];
  for (let load = 0; load <= (config.reloads ?? 0); load++) {
    await page.goto(config.url);
    loads.push(await page.evaluate(() => globalThis.allDrawn));
  }
  await page.waitForTimeout(1500);
  const panels = await page.$$eval('.percore-panel', (found) => found.map((panel) => ({
    title: panel.querySelector('h2, [title]')?.textContent ?? '',
    series: +panel.dataset.series,
  })));

  const size = await page.evaluate(() => ({
    height: document.documentElement.scrollHeight,
    rows: [...document.querySelectorAll('.percore-row')].map((row) => ({ title: row.textContent, top: row.offsetTop })),
  }));
  await page.setViewportSize({ width: config.width, height: size.height });
  await page.waitForTimeout(500);
  for (const [path, wanted] of Object.entries(config.pictures)) {
    const tops = size.rows.filter((row) => wanted.includes(row.title)).map((row) => row.top);
    if (tops.length !== wanted.length) {
      faults.push(`${path}: the page has ${tops.length} of ${wanted.length} rows`);
      continue;
    }
    const top = Math.min(...tops);
    const last = Math.max(...tops);
    const next = size.rows.map((row) => row.top).filter((t) => t > last);
    const bottom = next.length > 0 ? Math.min(...next) : size.height;
    await page.screenshot({ path, clip: { x: 0, y: top, width: config.width, height: bottom - top } });
  }
  console.log(JSON.stringify({ faults, panels, loads }));
} finally {
  await browser.close();
}
