// The style sheet's colours in pictures, which are painted again when the reader's scheme changes.

const dark = matchMedia('(prefers-color-scheme: dark)');
const scales = new Map(); // that were made for the present scheme
dark.addEventListener('change', () => scales.clear());
export const onNewColours = (paint) => dark.addEventListener('change', paint);

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

const parts = (name) => [1, 3, 5].map((at) => parseInt(colour(name).slice(at, at + 2), 16));

const SHADES = 256;

// A function from 0..1 to a pixel between two colours. (Red is the lowest byte of a pixel.)
export function between(from, to) {
  const key = from + ' ' + to;
  if (!scales.has(key)) {
    const [a, b] = [parts(from), parts(to)];
    const shade = (t) => a.reduce((pixel, start, i) => pixel | (Math.round(start + (b[i] - start) * t) << (8 * i)), 0xff << 24);
    scales.set(key, Uint32Array.from({ length: SHADES }, (_, i) => shade(i / (SHADES - 1))));
  }
  const shades = scales.get(key);
  return (t) => shades[Math.round(t * (SHADES - 1))];
}

// Each value in 0..1 a pixel of the canvas, from the sunken ground to the ink.
export function paintImage(canvas, values, columns) {
  const shade = between('sunken', 'ink');
  paintPixels(canvas, columns, values.length / columns, (i) => shade(values[i]));
}

// `pixel(i)` is the i-th pixel, row by row; 0 is clear.
export function paintPixels(canvas, columns, rows, pixel) {
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext('2d');
  const image = pen.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; ++i) pixels[i] = pixel(i);
  pen.putImageData(image, 0, 0);
}
