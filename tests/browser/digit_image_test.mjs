// node digit_image_test.mjs PAGE_FOLDER: from strokes to 28 x 28 pixels, without a browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const source = readFileSync(`${process.argv[2]}/digit_image.js`, 'utf8');
const { SIDE, centreOfMass, digitImage } = await import('data:text/javascript,' + encodeURIComponent(source));

const circle = Array.from({ length: 41 }, (_, i) => [0.5 + 0.3 * Math.cos((i * Math.PI) / 20), 0.5 + 0.4 * Math.sin((i * Math.PI) / 20)]);
const one = [[0.5, 0.1], [0.5, 0.9]];
const seven = [[0.2, 0.2], [0.8, 0.2], [0.4, 0.9]];
const across = [[0.1, 0.5], [0.9, 0.5]];
const moved = (stroke, scale, dx, dy) => stroke.map(([x, y]) => [x * scale + dx, y * scale + dy]);

// The rows and columns that have ink.
function extent(image) {
  const inked = [...image.keys()].filter((i) => image[i] > 0.02);
  const span = (at) => Math.max(...inked.map(at)) - Math.min(...inked.map(at)) + 1;
  return { columns: span((i) => i % SIDE), rows: span((i) => Math.floor(i / SIDE)) };
}
const total = (image) => image.reduce((sum, ink) => sum + ink, 0);

const tests = {
  'no strokes, no ink'() {
    assert.equal(total(digitImage([])), 0);
    assert.equal(digitImage([]).length, 784);
  },
  'the ink fills a box of 20 x 20'() {
    for (const [name, stroke] of Object.entries({ circle, one, seven, across })) {
      const { columns, rows } = extent(digitImage([stroke]));
      const longest = Math.max(columns, rows);
      assert.ok(longest >= 19 && longest <= 22, `${name} is ${columns} x ${rows}`);
    }
    assert.ok(extent(digitImage([one])).columns <= 5, 'a line stays a line');
  },
  'its centre of mass is the centre'() {
    for (const strokes of [[circle], [one], [seven], [across], [one, across]]) {
      const [x, y] = centreOfMass(digitImage(strokes));
      assert.ok(Math.hypot(x - 14, y - 14) < 0.15, `at ${x}, ${y}`);
    }
  },
  'where and how large one writes does not matter'() {
    const image = digitImage([seven]);
    for (const other of [moved(seven, 0.3, 0.02, 0.05), moved(seven, 0.5, 0.5, 0.4), moved(seven, 1.2, -0.1, -0.1)]) {
      const again = digitImage([other]);
      image.forEach((ink, i) => assert.ok(Math.abs(ink - again[i]) < 1e-3));
    }
  },
  'a dot stays a dot'() {
    const { columns, rows } = extent(digitImage([[[0.3, 0.7]]]));
    assert.ok(columns >= 2 && columns <= 5 && rows >= 2 && rows <= 5, `${columns} x ${rows}`);
  },
  'nothing is cut off where the mass is far from the middle'() {
    const scribble = Array.from({ length: 60 }, (_, i) => [0.1 + 0.05 * (i % 2), 0.1 + 0.003 * i]);
    const image = digitImage([scribble, [[0.1, 0.1], [0.9, 0.9]]]);
    const { columns, rows } = extent(image);
    assert.ok(columns >= 19 && rows >= 19, `${columns} x ${rows}`);
  },
  "ink is between none and full, and lines are as thick as MNIST's: three pixels in the middle of its ones"() {
    const image = digitImage([one]);
    assert.ok(image.every((ink) => ink >= 0 && ink <= 1));
    assert.ok(Math.max(...image) === 1);
    const thickness = total(image) / 20;
    assert.ok(thickness > 2.5 && thickness < 3.5, `${thickness}`);
  },
};
for (const [name, test] of Object.entries(tests)) {
  try {
    test();
  } catch (error) {
    console.error(`FAILED: ${name}\n${error.stack}`);
    process.exitCode = 1;
  }
}
