// node page_test.mjs CARAVAN MODULES SCREENSHOTS: drives the page of `caravan serve` in a headless Chromium, as a hand
// would. Exit status 77: something that it needs is missing, and the last line says what.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';

const [caravan, modules, screenshots] = process.argv.slice(2);

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(77);
}
const browsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = browsers.find(existsSync) ?? skip('there is no Chromium; ./dev test installs it');
if (!existsSync(`${modules}/playwright-core`)) skip('playwright-core is not installed; ./dev test installs it');
const { chromium } = createRequire(`${modules}/`)('playwright-core');

const problems = []; // what the browser or the server says that it should not
let browser, address;

// --- the hand ---

const digits = {
  0: [[[0.5, 0.15], [0.35, 0.22], [0.28, 0.4], [0.28, 0.6], [0.36, 0.8], [0.5, 0.86], [0.64, 0.8], [0.72, 0.6], [0.72, 0.4], [0.64, 0.22], [0.5, 0.15]]],
  1: [[[0.5, 0.15], [0.5, 0.85]]],
  3: [[[0.3, 0.25], [0.42, 0.15], [0.58, 0.17], [0.66, 0.3], [0.56, 0.44], [0.44, 0.48], [0.58, 0.52], [0.68, 0.66], [0.58, 0.82], [0.42, 0.84], [0.3, 0.75]]],
  7: [[[0.25, 0.2], [0.72, 0.2], [0.58, 0.45], [0.45, 0.85]]],
};

async function draw(page, strokes, whileDrawing = async () => {}) {
  const box = await page.locator('#paper').boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  for (const stroke of strokes) {
    await page.mouse.move(...at(stroke[0]));
    await page.mouse.down();
    for (const point of stroke.slice(1)) {
      await page.mouse.move(...at(point), { steps: 4 });
      await whileDrawing();
    }
    await page.mouse.up();
  }
}

const bars = (page) => page.$$eval('#bars li', (rows) => rows.map((row) => Number(row.dataset.probability ?? 0)));
const widths = (page) => page.$$eval('#bars .fill', (fills) => fills.map((fill) => {
  const [box, track] = [fill.getBoundingClientRect(), fill.parentElement.getBoundingClientRect()];
  return (box.right - track.left) / track.width;
}));
const text = async (page, id) => (await page.textContent('#' + id)).trim();
const number = async (page, id) => Number((await text(page, id)).replace(/[, %]/g, ''));
const until = (page, condition, argument) => page.waitForFunction(condition, argument, { timeout: 30000 });
// Everything is answered, and the bars have come to rest.
async function quiet(page) {
  for (let calm = 0; calm < 3; calm = (await page.evaluate(() => document.body.dataset.asking)) === '0' ? calm + 1 : 0)
    await page.waitForTimeout(80);
}

// How much ink each of the 28 x 28 pixels has that the model is shown.
const seen = (page) => page.$eval('#seen', (canvas) => {
  const copy = new OffscreenCanvas(28, 28).getContext('2d');
  copy.drawImage(canvas, 0, 0);
  const data = copy.getImageData(0, 0, 28, 28).data;
  const red = Array.from({ length: 784 }, (_, i) => data[4 * i]);
  const paper = red[0];
  const most = Math.max(...red.map((r) => Math.abs(r - paper))) || 1;
  return red.map((r) => Math.abs(r - paper) / most);
});
const fingerprint = (page, selector) => page.$eval(selector, (canvas) => canvas.toDataURL());

async function newPage({ phone = false, dark = false } = {}) {
  const context = await browser.newContext({
    viewport: phone ? { width: 390, height: 844 } : { width: 1280, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    hasTouch: phone,
    isMobile: phone,
    deviceScaleFactor: phone ? 2 : 1,
  });
  const page = await context.newPage();
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && problems.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => problems.push(`page: ${error.message}`));
  page.on('request', (request) => request.url().startsWith(address + '/') || problems.push(`asked elsewhere: ${request.url()}`));
  await page.goto(address);
  await until(page, () => document.querySelectorAll('#examples button').length > 0);
  return page;
}
const picture = (page, name) => page.screenshot({ path: `${screenshots}/${name}.png`, fullPage: true });

// --- the tests ---

const tests = {
  async 'the bars move while one draws, and what is drawn is read'() {
    const page = await newPage();
    assert.deepEqual(await bars(page), Array(10).fill(0));
    assert.equal(await text(page, 'digit'), '–');
    const states = new Set();
    await draw(page, digits[3], async () => {
      await page.waitForTimeout(60);
      states.add(JSON.stringify(await bars(page)));
    });
    assert.ok(states.size >= 4, `the bars had ${states.size} states while drawing`);
    await quiet(page);
    const now = await bars(page);
    assert.ok(Math.abs(now.reduce((a, b) => a + b) - 1) < 1e-4, `they add up to ${now}`);
    const shown = await widths(page);
    now.forEach((p, i) => assert.ok(Math.abs(p - shown[i]) < 0.01, `bar ${i} shows ${shown[i]}, not ${p}`));
    assert.equal(await number(page, 'digit'), now.indexOf(Math.max(...now)));
    assert.match(await text(page, 'spoken'), /^It looks like \d, \d+(\.\d)? %\.$/);
    assert.match(await text(page, 'latency'), /^answered in \d+\.\d ms/);
    assert.ok((await page.$$('#layers canvas')).length >= 1);
    await picture(page, 'digits-light');
    for (const [digit, strokes] of Object.entries(digits)) {
      await page.keyboard.press('c');
      await draw(page, strokes);
      await quiet(page);
      assert.equal(await text(page, 'digit'), digit);
    }
  },

  async 'what the model sees is centred, wherever one draws'() {
    const page = await newPage();
    const small = digits[7].map((stroke) => stroke.map(([x, y]) => [0.02 + 0.3 * x, 0.65 + 0.3 * y]));
    await draw(page, small);
    await quiet(page);
    const image = await seen(page);
    const mass = image.reduce((a, b) => a + b);
    const at = (position) => image.reduce((sum, ink, i) => sum + ink * position(i), 0) / mass;
    assert.ok(mass > 30, `${mass} of ink`);
    assert.ok(Math.abs(at((i) => i % 28) - 14) < 0.5 && Math.abs(at((i) => Math.floor(i / 28)) - 14) < 0.5);
    const rows = [...new Set(image.flatMap((ink, i) => (ink > 0.02 ? [Math.floor(i / 28)] : [])))];
    assert.ok(rows.length >= 19 && rows.length <= 22, `${rows.length} rows`);
  },

  async 'undo, clear and c'() {
    const page = await newPage();
    const blank = await fingerprint(page, '#seen');
    await draw(page, digits[1]);
    await quiet(page);
    const once = await fingerprint(page, '#seen');
    await draw(page, [[[0.2, 0.5], [0.8, 0.5]]]);
    await quiet(page);
    assert.notEqual(await fingerprint(page, '#seen'), once);
    await page.click('#undo');
    await quiet(page);
    assert.equal(await fingerprint(page, '#seen'), once);
    for (const clear of [() => page.click('#clear'), () => page.keyboard.press('c')]) {
      await draw(page, digits[1]);
      await quiet(page);
      await clear();
      await quiet(page);
      assert.equal(await fingerprint(page, '#seen'), blank);
      assert.deepEqual(await bars(page), Array(10).fill(0));
      assert.equal(await text(page, 'digit'), '–');
      assert.equal((await page.$$('#layers canvas')).length, 0);
    }
  },

  async 'examples are put in, and most are read'() {
    const page = await newPage();
    const examples = await page.$$('#examples button');
    let right = 0;
    for (const example of examples) {
      await example.click();
      await quiet(page);
      const label = (await example.getAttribute('aria-label')).at(-1);
      right += (await text(page, 'digit')) === label;
      assert.equal(await fingerprint(page, '#seen'), await fingerprint(page, '#paper'));
    }
    assert.ok(right >= 0.7 * examples.length, `${right} of ${examples.length}`);
    await draw(page, digits[1]); // drawing takes the example away
    await quiet(page);
    assert.equal(await text(page, 'digit'), '1');
  },

  async 'a model is trained: train, pause, step, reset, new seed'() {
    const page = await newPage();
    await page.click('#tab-playground');
    assert.ok(await page.isHidden('#digits'));
    await until(page, () => Number(document.getElementById('loss').textContent) > 0);
    assert.equal(await number(page, 'steps'), 0);
    const before = { loss: await number(page, 'loss'), plane: await fingerprint(page, '#plane') };
    await page.click('#train');
    assert.equal(await text(page, 'train'), 'Pause');
    await until(page, () => Number(document.getElementById('steps').textContent.replaceAll(',', '')) > 200);
    assert.ok((await number(page, 'pace')) > 0);
    await page.click('#train');
    assert.equal(await text(page, 'train'), 'Train');
    await quiet(page);
    const paused = await number(page, 'steps');
    const loss = await number(page, 'loss');
    assert.ok(loss < before.loss / 2, `from ${before.loss} to ${loss}`);
    assert.ok((await number(page, 'accuracy')) > 90);
    assert.notEqual(await fingerprint(page, '#plane'), before.plane);
    assert.ok((await page.getAttribute('#curve .loss', 'points')).split(' ').length > 5);
    await picture(page, 'playground-light');
    await quiet(page);
    assert.equal(await number(page, 'steps'), paused, 'pause stops');
    await page.click('#step');
    await quiet(page);
    assert.equal(await number(page, 'steps'), paused + 1, 'step is one step');
    await page.click('#reset');
    await quiet(page);
    assert.equal(await number(page, 'steps'), 0);
    assert.equal(await number(page, 'loss'), before.loss);
    assert.equal(await fingerprint(page, '#plane'), before.plane);
    await page.click('#seed');
    await quiet(page);
    assert.notEqual(await fingerprint(page, '#plane'), before.plane);
  },

  async 'sliders and choices change what they name'() {
    const page = await newPage();
    await page.click('#tab-playground');
    await until(page, () => Number(document.getElementById('loss').textContent) > 0);
    const set = async (id, value) => {
      await page.$eval('#' + id, (input, value) => {
        input.value = value;
        input.dispatchEvent(new Event('input', { bubbles: true }));
      }, value);
      await quiet(page);
    };
    await page.click('#step');
    await quiet(page);
    const look = () => fingerprint(page, '#plane');
    let last = await look();
    const changed = async (what, steps) => {
      const now = await look();
      assert.notEqual(now, last, what);
      assert.equal(await number(page, 'steps'), steps, what);
      last = now;
    };
    await set('noise', 0.4);
    await changed('other points, the same weights', 1);
    await page.check('input[value=circles]', { force: true });
    await quiet(page);
    await changed('another data set', 1);
    await set('rate', -1);
    assert.equal(await look(), last);
    assert.equal(await text(page, 'rate-value'), '0.1');
    await set('width', 20);
    assert.equal(await text(page, 'width-value'), '20 units');
    await changed('another width starts anew', 0);
    await set('depth', 1);
    await changed('so does another depth', 0);
    await page.check('input[value=relu]', { force: true });
    await quiet(page);
    await changed('and another activation', 0);
    await set('rate', 0);
    assert.equal(await page.getAttribute('#rate', 'aria-valuetext'), '1');
  },

  async 'two pages train two models'() {
    const [one, two] = [await newPage(), await newPage()];
    for (const page of [one, two]) {
      await page.click('#tab-playground');
      await until(page, () => Number(document.getElementById('loss').textContent) > 0);
    }
    await one.click('#step');
    await quiet(one);
    assert.equal(await number(one, 'steps'), 1);
    await two.click('#reset');
    await quiet(two);
    assert.equal(await number(two, 'steps'), 0);
    await one.click('#step');
    await quiet(one);
    assert.equal(await number(one, 'steps'), 2);
  },

  async 'a phone: fingers draw and do not scroll, nothing is wider than the screen'() {
    for (const dark of [false, true]) {
      const page = await newPage({ phone: true, dark });
      const touch = await page.context().newCDPSession(page);
      const box = await page.locator('#paper').boundingBox();
      const finger = (type, point) => touch.send('Input.dispatchTouchEvent', {
        type,
        touchPoints: point ? [{ x: box.x + point[0] * box.width, y: box.y + point[1] * box.height }] : [],
      });
      const swipe = async () => {
        for (const stroke of digits[7]) {
          await finger('touchStart', stroke[0]);
          for (let i = 1; i < stroke.length; ++i)
            for (const t of [0.25, 0.5, 0.75, 1])
              await finger('touchMove', [0, 1].map((k) => stroke[i - 1][k] + t * (stroke[i][k] - stroke[i - 1][k])));
          await finger('touchEnd');
        }
      };
      await swipe();
      await page.tap('#undo'); // a tap right after a quick stroke is heard
      await quiet(page);
      assert.deepEqual(await bars(page), Array(10).fill(0));
      await swipe();
      await quiet(page);
      assert.equal(await page.evaluate(() => scrollY), 0, 'drawing does not scroll');
      assert.equal(await text(page, 'digit'), '7');
      const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      assert.ok(await fits(), 'the first tab is as wide as the screen');
      await picture(page, `digits-phone-${dark ? 'dark' : 'light'}`);
      await page.tap('#tab-playground');
      await until(page, () => Number(document.getElementById('loss').textContent) > 0);
      await page.tap('#train');
      await until(page, () => Number(document.getElementById('steps').textContent.replaceAll(',', '')) > 100);
      await page.tap('#train');
      await quiet(page);
      assert.ok(await fits(), 'the second tab is as wide as the screen');
      await picture(page, `playground-phone-${dark ? 'dark' : 'light'}`);
    }
  },

  async 'dark, and by keyboard alone'() {
    const page = await newPage({ dark: true });
    await page.locator('#examples button').nth(2).focus();
    await page.keyboard.press('Enter');
    await quiet(page);
    assert.match(await text(page, 'digit'), /\d/);
    await picture(page, 'digits-dark');
    await page.focus('#tab-digits');
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'tab-playground');
    await until(page, () => Number(document.getElementById('loss').textContent) > 0);
    await page.focus('#width');
    const width = await number(page, 'width-value').catch(() => NaN);
    await page.keyboard.press('ArrowRight');
    assert.notEqual(await text(page, 'width-value'), `${width} units`);
    await page.focus('#train');
    await page.keyboard.press('Enter');
    await until(page, () => Number(document.getElementById('steps').textContent.replaceAll(',', '')) > 300);
    await page.keyboard.press('Enter');
    await quiet(page);
    await picture(page, 'playground-dark');
    // Everything that can be operated has a name.
    const unnamed = await page.$$eval('button, input', (all) => all.filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.id));
    assert.deepEqual(unnamed, []);
  },
};

// --- runs them against a server of their own ---

const server = spawn(caravan, ['serve', '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
try {
  address = await new Promise((resolve, reject) => {
    let output = '';
    server.stdout.on('data', (some) => {
      output += some;
      const found = output.match(/http:\/\/[^\s]+/);
      if (found) resolve(found[0]);
    });
    server.on('exit', (code, signal) => {
      problems.push(`caravan serve ended with ${signal ?? code}`);
      reject(new Error(problems.at(-1)));
    });
  });
  for (let waiting = 0; !(await (await fetch(address + '/api/status')).json()).ready; ++waiting) { // the first run trains the model
    assert.ok(waiting < 600, 'there is no model after ten minutes');
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  mkdirSync(screenshots, { recursive: true });
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  for (const [name, test] of Object.entries(tests)) {
    const start = Date.now();
    try {
      await test();
      assert.deepEqual(problems, []);
      console.log(`ok      ${name} (${Date.now() - start} ms)`);
    } catch (error) {
      process.exitCode = 1;
      console.log([`FAILED  ${name}`, error.stack, ...problems].join('\n'));
      problems.length = 0;
      for (const page of browser.contexts().flatMap((context) => context.pages())) await picture(page, 'failed');
    }
    for (const context of browser.contexts()) await context.close();
  }
  await browser.close();
} finally {
  server.kill('SIGINT');
}
