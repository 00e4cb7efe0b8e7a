// The first tab: a drawing, what the model sees of it, and what it makes of that.
import { ask, latestOnly, sentence } from './api.js';
import { onNewColours, paintImage } from './colours.js';
import { SIDE } from './digit_image.js';
import { Drawing } from './drawing.js';
import { showLayers } from './layers.js';

const element = (id) => document.getElementById(id);
const percent = (p) => (p >= 0.9995 ? '100' : (100 * p).toFixed(p < 0.1 ? 1 : 0)) + ' %';

// Returns what to do whenever the tab is shown.
export function startDigits() {
  const bars = makeBars();
  let ready = false;
  let penDown = false;

  const drawing = new Drawing(element('paper'), (down) => {
    penDown = down;
    element('invitation').classList.toggle('gone', !drawing.empty);
    paintSeen();
    if (ready) predict();
  });
  const paintSeen = () => paintImage(element('seen'), drawing.pixels, SIDE);

  const predict = latestOnly(async () => {
    if (drawing.empty) return show(null);
    const start = performance.now();
    const answer = await ask('/api/predict', { pixels: Array.from(drawing.pixels, (v) => Math.round(v * 1e4) / 1e4) });
    if (!answer || drawing.empty) return show(null);
    element('latency').textContent = `answered in ${(performance.now() - start).toFixed(1)} ms (model ${answer.milliseconds.toFixed(1)} ms)`;
    show(answer);
  });

  function show(answer) {
    const best = answer ? answer.probabilities[answer.digit] : 0;
    element('digit').textContent = answer ? answer.digit : '–';
    element('certainty').textContent = answer ? percent(best) : '';
    if (!penDown) element('spoken').textContent = answer ? `It looks like ${answer.digit}, ${percent(best)}.` : '';
    if (!answer) element('latency').textContent = '';
    bars.forEach((bar, digit) => bar(answer ? answer.probabilities[digit] : 0, answer?.digit === digit));
    showLayers(answer ? answer.layers.slice(0, -1) : []);
  }

  async function waitForModel() {
    const status = await ask('/api/status');
    ready = status?.ready ?? false;
    element('model').textContent = ready ? status.model : sentence(status?.waiting ?? '');
    if (!ready) return setTimeout(waitForModel, 700);
    showExamples(drawing);
    predict();
  }

  element('clear').addEventListener('click', () => drawing.clear());
  element('undo').addEventListener('click', () => drawing.undo());
  document.addEventListener('keydown', (event) => {
    if (element('digits').hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'c') drawing.clear();
    if (event.key === 'z') drawing.undo();
  });
  onNewColours(paintSeen);
  waitForModel();
  return paintSeen;
}

// One function for each digit, which sets its bar.
function makeBars() {
  return Array.from({ length: 10 }, (_, digit) => {
    const row = document.createElement('li');
    const part = (name, text = '') => {
      const out = document.createElement('span');
      out.className = name;
      out.textContent = text;
      row.append(out);
      return out;
    };
    part('digit', digit);
    const track = part('track');
    const fill = document.createElement('span');
    fill.className = 'fill';
    track.append(fill);
    const number = part('number');
    element('bars').append(row);
    return (probability, best) => {
      row.classList.toggle('best', best);
      row.dataset.probability = probability;
      fill.style.transform = `translateX(${100 * (probability - 1)}%)`;
      number.textContent = percent(probability);
    };
  });
}

async function showExamples(drawing) {
  const answer = await ask('/api/examples');
  const buttons = (answer?.examples ?? []).map(({ label, pixels }) => {
    const button = document.createElement('button');
    const canvas = document.createElement('canvas');
    button.setAttribute('aria-label', `Example of a ${label}`);
    button.append(canvas);
    button.addEventListener('click', () => drawing.put(Float32Array.from(pixels)));
    const paint = () => paintImage(canvas, pixels, SIDE);
    onNewColours(paint);
    paint();
    return button;
  });
  element('examples').replaceChildren(...buttons);
}
