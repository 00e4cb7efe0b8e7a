// The second tab: a small model that the server trains while the page asks for more steps.
import { ask, latestOnly } from './api.js';
import { onNewColours } from './colours.js';
import { LossCurve } from './loss_curve.js';
import { paintPlane } from './plane.js';

const element = (id) => document.getElementById(id);
const decimal = (value) => Number(value.toPrecision(2)).toString();

// What a slider stands for, and how that is written.
const sliders = {
  rate: { value: (v) => 10 ** v, text: decimal },
  width: { value: (v) => v, text: (v) => `${v} unit${v === 1 ? '' : 's'}` },
  depth: { value: (v) => v, text: (v) => `${v} hidden` },
  noise: { value: (v) => v, text: (v) => v.toFixed(2) },
  speed: { value: (v) => Math.round(10 ** v), text: (v) => `${v}` },
};
const sliderValue = (name) => sliders[name].value(Number(element(name).value));

export function startPlayground() {
  const session = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
  const curve = new LossCurve(element('curve'));
  let seed = 1;
  let running = false;
  let view = null;
  let pace = []; // [time, steps] of the last second

  function settings() {
    const chosen = new FormData(element('controls'));
    const out = { session, seed, data: chosen.get('data'), activation: chosen.get('activation') };
    for (const name of ['rate', 'width', 'depth', 'noise']) out[name] = sliderValue(name);
    return out;
  }

  // Asks in the order of the clicks; what the controls say when it is sent is what counts.
  let asking = Promise.resolve();
  const advance = (steps, reset = false) => (asking = asking.then(async () => {
    const answer = await ask('/api/playground', { ...settings(), steps, reset });
    if (!answer) return setRunning(false);
    view = answer;
    curve.add(view.steps, view.loss);
    measurePace();
    show();
  }));
  const look = latestOnly(() => advance(0));

  function show() {
    if (!view || element('playground').hidden) return;
    const diverged = view.loss === null;
    element('loss').textContent = diverged ? '∞' : view.loss.toPrecision(3);
    element('accuracy').textContent = (100 * view.accuracy).toFixed(1) + ' %';
    element('steps').textContent = view.steps.toLocaleString('en');
    element('pace').textContent = running && pace.length > 1 ? stepsPerSecond().toLocaleString('en') : '–';
    element('remark').textContent = diverged ? 'The loss is no longer a number. Lower the rate, then reset.' : '';
    paintPlane(element('plane'), view);
    curve.paint();
  }

  function measurePace() {
    const now = performance.now();
    if (pace.length && view.steps < pace.at(-1)[1]) pace = [];
    pace.push([now, view.steps]);
    while (pace[0][0] < now - 1000) pace.shift();
  }
  function stepsPerSecond() {
    const [[from, first], [to, last]] = [pace[0], pace.at(-1)];
    return Math.round((last - first) / Math.max(0.001, (to - from) / 1000));
  }

  async function train() {
    while (running) {
      await advance(sliderValue('speed'));
      await new Promise(requestAnimationFrame); // none come while the page is hidden, so nothing is trained then
    }
    show();
  }
  function setRunning(now) {
    if (now === running) return;
    running = now;
    pace = [];
    element('train').textContent = running ? 'Pause' : 'Train';
    element('train').setAttribute('aria-pressed', running);
    if (running) train();
  }

  function writeSliders() {
    for (const name of Object.keys(sliders)) {
      const text = sliders[name].text(sliderValue(name));
      element(name + '-value').textContent = text;
      element(name).setAttribute('aria-valuetext', text);
    }
  }

  element('controls').addEventListener('submit', (event) => event.preventDefault());
  element('controls').addEventListener('input', (event) => {
    writeSliders();
    if (event.target.id !== 'speed') look();
  });
  element('train').addEventListener('click', () => setRunning(!running));
  element('step').addEventListener('click', () => {
    setRunning(false);
    advance(1);
  });
  element('reset').addEventListener('click', () => advance(0, true));
  element('seed').addEventListener('click', () => {
    ++seed;
    look();
  });
  writeSliders();
  onNewColours(show);
  new ResizeObserver(show).observe(element('plane'));
  return () => (view ? show() : look());
}
