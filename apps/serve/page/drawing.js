// The paper: strokes of mouse, pen or finger, or an example that lies on it until one draws.
import { SIDE, digitImage } from './digit_image.js';
import { colour, onNewColours, paintImage } from './colours.js';

const PEN = 0.07; // of the paper's side

export class Drawing {
  // `changed` is told of every change with whether the pen is down.
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.strokes = [];
    this.example = null;
    this.pointer = null; // the one that draws; others are not heard
    canvas.addEventListener('pointerdown', (event) => this.#down(event));
    canvas.addEventListener('pointermove', (event) => this.#move(event));
    for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, (event) => this.#up(event));
    // A stroke is no gesture of the browser's: after a quick one, the next tap would only end its fling.
    canvas.addEventListener('touchstart', (event) => event.preventDefault(), { passive: false });
    new ResizeObserver(() => this.#paint()).observe(canvas);
    onNewColours(() => this.#paint());
  }

  get empty() {
    return !this.example && this.strokes.length === 0;
  }
  get pixels() {
    return this.example ?? digitImage(this.strokes);
  }

  clear() {
    this.#become([], null);
  }
  undo() {
    this.#become(this.strokes.slice(0, -1), null);
  }
  put(example) {
    this.#become([], example);
  }

  #become(strokes, example) {
    this.strokes = strokes;
    this.example = example;
    this.pointer = null;
    this.#paint();
    this.changed(false);
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }
  #down(event) {
    if (this.pointer !== null || event.button !== 0) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.pointer = event.pointerId;
    this.example = null;
    this.strokes.push([this.#at(event)]);
    this.#paint();
    this.changed(true);
  }
  #move(event) {
    if (event.pointerId !== this.pointer) return;
    const parts = event.getCoalescedEvents?.() ?? [];
    for (const part of parts.length ? parts : [event]) this.strokes.at(-1).push(this.#at(part));
    this.#paint();
    this.changed(true);
  }
  #up(event) {
    if (event.pointerId !== this.pointer) return;
    this.pointer = null;
    this.changed(false);
  }

  #paint() {
    const side = Math.round(this.canvas.clientWidth * devicePixelRatio);
    if (side === 0) return; // the tab is hidden
    if (this.example) return paintImage(this.canvas, this.example, SIDE);
    this.canvas.width = this.canvas.height = side;
    const pen = this.canvas.getContext('2d');
    pen.lineWidth = PEN * side;
    pen.lineCap = pen.lineJoin = 'round';
    pen.strokeStyle = colour('ink');
    for (const stroke of this.strokes) {
      // Through the middles of the pieces, bent towards the points between them.
      const at = stroke.map(([x, y]) => [x * side, y * side]);
      pen.beginPath();
      pen.moveTo(...at[0]);
      for (let i = 1; i < at.length; ++i)
        pen.quadraticCurveTo(...at[i - 1], (at[i - 1][0] + at[i][0]) / 2, (at[i - 1][1] + at[i][1]) / 2);
      pen.lineTo(...at.at(-1));
      pen.stroke();
    }
  }
}
