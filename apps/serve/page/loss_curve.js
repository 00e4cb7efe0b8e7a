// The loss over the steps, on a logarithmic scale, as SVG.

const BOX = { left: 44, right: 332, top: 8, bottom: 168 };
const MOST = 600; // points; beyond that every other one goes

export class LossCurve {
  constructor(svg) {
    this.svg = svg;
    this.points = [];
    this.every = 1; // of the points that come, one in so many is kept
    this.come = 0;
  }

  add(step, loss) {
    if (this.points.length && step < this.points.at(-1)[0]) this.points = [], (this.every = 1), (this.come = 0);
    if (loss === null || loss <= 0) return;
    if (this.points.length && step === this.points.at(-1)[0]) this.points.pop();
    if (this.come++ % this.every === 0) this.points.push([step, loss]);
    if (this.points.length > MOST) {
      this.points = this.points.filter((_, i) => i % 2 === 0);
      this.every *= 2;
    }
  }

  paint() {
    const losses = this.points.map(([, loss]) => Math.log10(loss));
    const low = Math.floor(Math.min(-1, ...losses));
    const high = Math.ceil(Math.max(0, ...losses));
    const last = Math.max(10, this.points.at(-1)?.[0] ?? 0);
    const x = (step) => BOX.left + ((BOX.right - BOX.left) * step) / last;
    const y = (exponent) => BOX.bottom - ((BOX.bottom - BOX.top) * (exponent - low)) / (high - low);

    const parts = [];
    const every = Math.ceil((high - low) / 5);
    for (let e = low; e <= high; e += every) {
      parts.push(made('line', { class: 'grid', x1: BOX.left, x2: BOX.right, y1: y(e), y2: y(e) }));
      parts.push(made('text', { x: BOX.left - 6, y: y(e) + 4, 'text-anchor': 'end' }, e < -3 ? `1e${e}` : String(10 ** e)));
    }
    parts.push(made('text', { x: BOX.left, y: 185 }, '0'));
    parts.push(made('text', { x: BOX.right, y: 185, 'text-anchor': 'end' }, last.toLocaleString('en')));
    const line = this.points.map(([step], i) => `${x(step).toFixed(1)},${y(losses[i]).toFixed(1)}`).join(' ');
    parts.push(made('polyline', { class: 'loss', points: line }));
    this.svg.replaceChildren(...parts);
  }
}

function made(name, attributes, text = '') {
  const out = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  out.textContent = text;
  return out;
}
