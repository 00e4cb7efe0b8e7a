// What comes out of each layer, as heat maps: channels of images side by side, units in rows.
import { between, onNewColours, paintPixels } from './colours.js';

const list = document.getElementById('layers');
const note = document.getElementById('layers-note');
const INVITATION = note.textContent;
const KEY = 'Each layer by itself: blue is above zero, orange below, paler is nearer to it.';
let shown = [];

onNewColours(() => showLayers(shown));

export function showLayers(layers) {
  shown = layers;
  note.textContent = layers.length ? KEY : INVITATION;
  while (list.children.length > layers.length) list.lastChild.remove();
  layers.forEach((layer, i) => {
    const figure = list.children[i] ?? list.appendChild(emptyFigure());
    const canvas = figure.firstChild;
    const text = `${layer.name} · ${layer.sizes.join(' × ')}`;
    if (figure.lastChild.textContent !== text) {
      figure.lastChild.textContent = text;
      canvas.setAttribute('aria-label', 'Heat map of ' + text);
    }
    paintLayer(canvas, layer);
  });
}

function emptyFigure() {
  const figure = document.createElement('figure');
  const canvas = document.createElement('canvas');
  canvas.setAttribute('role', 'img');
  figure.append(canvas, document.createElement('figcaption'));
  return figure;
}

// Tiles of `rows` x `columns` values, a gap of one pixel between tiles.
function arrangement({ sizes, values }) {
  const [rows, columns, tiles] = sizes.length === 3 ? sizes : sizes.length === 2 ? [...sizes, 1] : [1, 1, values.length];
  const gap = rows * columns > 1 && tiles > 1 ? 1 : 0;
  const across = rows * columns > 1 ? Math.ceil(Math.sqrt(tiles * 2)) : Math.ceil(tiles / Math.ceil(tiles / 32));
  return { rows, columns, tiles, gap, across: Math.min(across, tiles) };
}

function paintLayer(canvas, layer) {
  const { rows, columns, tiles, gap, across } = arrangement(layer);
  const width = across * (columns + gap) - gap;
  const height = Math.ceil(tiles / across) * (rows + gap) - gap;
  const most = layer.values.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
  const [positive, negative] = [between('sunken', 'accent'), between('sunken', 'warm')];
  paintPixels(canvas, width, height, (i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    const [row, column] = [y % (rows + gap), x % (columns + gap)];
    const tile = Math.floor(y / (rows + gap)) * across + Math.floor(x / (columns + gap));
    if (row >= rows || column >= columns || tile >= tiles) return 0;
    const value = layer.values[(row * columns + column) * tiles + tile] / most;
    return value < 0 ? negative(-value) : positive(value);
  });
  const scale = rows * columns > 1 ? Math.max(2, Math.floor(340 / width)) : 13;
  canvas.style.width = Math.min(width * scale, 560) + 'px';
}
