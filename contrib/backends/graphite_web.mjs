/* Opens a dashboard of graphite-web in headless Chromium and checks its graphs.
 *
 *   node graphite_web.mjs CONFIG
 *
 * CONFIG is JSON: modules, url, graphs (the expected number), picture (the path
 * of a screenshot, or null), width, height. Prints {faults, drawn}.
 */
import { createRequire } from 'node:module';

const config = JSON.parse(process.argv[2]);
const { chromium } = createRequire(config.modules + '/')('playwright-core');
const PATIENCE_MS = 120000;
const deadline = Date.now() + PATIENCE_MS;

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  timeout: PATIENCE_MS,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-sync',
    '--disable-component-update', '--no-first-run'],
});
const faults = [];
try {
  const page = await browser.newPage({ viewport: { width: config.width, height: config.height } });
  page.on('pageerror', (error) => faults.push(`page: ${error.message}`));
  page.on('dialog', (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('response', (response) => {
    if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
  });
  await page.goto(config.url, { timeout: Math.max(1, deadline - Date.now()) });

  const pictures = () => page.$$eval('img[src*="/render"]', (images) => images.map((image) => {
    if (!image.complete || image.naturalWidth === 0) return { source: image.src, coloured: -1 };
    const canvas = Object.assign(document.createElement('canvas'),
      { width: image.naturalWidth, height: image.naturalHeight });
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    // Count coloured pixels: curves and their names are coloured; other text, the grid
    // and the background are grey. Skip the middle, where "No Data" may be written in
    // red.
    let coloured = 0;
    for (let i = 0; i < data.length; i += 4) {
      const x = (i / 4) % canvas.width;
      const y = Math.floor(i / 4 / canvas.width);
      if (Math.abs(x - canvas.width / 2) < 60 && Math.abs(y - canvas.height / 2) < 20) continue;
      const [r, g, b] = [data[i], data[i + 1], data[i + 2]];
      if (Math.max(r, g, b) - Math.min(r, g, b) >= 60) coloured++;
    }
    return { source: image.src, coloured };
  }));
  let drawn = [];
  while (Date.now() < deadline && faults.length === 0) {
    drawn = await pictures();
    if (drawn.length >= config.graphs && drawn.every((p) => p.coloured !== -1)) break;
    await page.waitForTimeout(200);
  }
  if (drawn.length !== config.graphs) faults.push(`${drawn.length} graphs instead of ${config.graphs}`);
  for (const { source, coloured } of drawn)
    if (coloured < 100) faults.push(`no curve (${coloured} coloured pixels) in ${source}`);
  if (config.picture) {
    // Wait until the frame around each image is gone. The frame remains for a while
    // after the image has loaded.
    for (let i = 0; i < 25 && await page.$('.graph-img-loading'); i++) await page.waitForTimeout(200);
    await page.screenshot({ path: config.picture });
  }
  console.log(JSON.stringify({ faults, drawn: drawn.map((p) => p.coloured) }));
} finally {
  await browser.close();
}
