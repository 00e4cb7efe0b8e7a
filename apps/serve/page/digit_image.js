// From strokes to the 28 x 28 pixels that a model of MNIST's digits expects: the ink fills a box of 20 x 20, and its
// centre of mass is the centre of the image. Strokes are lists of points [x, y] in a unit square, y downwards. Lines
// are drawn anew at the small size, so their thickness does not depend on how large one writes.

export const SIDE = 28;
const BOX = 20;
const RADIUS = 1.45; // of the pen, in pixels: half of what MNIST's lines are thick, taken over many
const CENTRE = 14; // of mass, as the position of a pixel: MNIST's images have it at 14, not at 13.5
const SMALLEST = 0.1; // of the unit square; what is smaller stays small, so that a dot is a dot

export function digitImage(strokes) {
  const points = strokes.flat();
  if (points.length === 0) return new Float32Array(SIDE * SIDE);
  const [left, right] = bounds(points, 0);
  const [top, bottom] = bounds(points, 1);
  const scale = (BOX - 2 * RADIUS) / Math.max(right - left, bottom - top, SMALLEST);
  const low = RADIUS - 0.5; // the first pixel's edge is at -0.5
  const high = SIDE - 0.5 - RADIUS;

  // The middle of the box first, then moved by what the centre of mass is off, as far as the ink stays inside.
  const place = (x, y) => rasterized(strokes, scale, x, y);
  const x = CENTRE - ((left + right) / 2) * scale;
  const y = CENTRE - ((top + bottom) / 2) * scale;
  const [massX, massY] = centreOfMass(place(x, y));
  const inside = (move, from, to) => Math.min(Math.max(move, low - from), high - to);
  return place(
    inside(x + CENTRE - massX, left * scale, right * scale),
    inside(y + CENTRE - massY, top * scale, bottom * scale),
  );
}

export function centreOfMass(image) {
  let mass = 0, x = 0, y = 0;
  image.forEach((ink, i) => {
    mass += ink;
    x += ink * (i % SIDE);
    y += ink * Math.floor(i / SIDE);
  });
  return [x / mass, y / mass];
}

function bounds(points, axis) {
  const values = points.map((p) => p[axis]);
  return [Math.min(...values), Math.max(...values)];
}

// How much of each pixel the pen covers, by its distance to the nearest piece of line.
function rasterized(strokes, scale, dx, dy) {
  const image = new Float32Array(SIDE * SIDE);
  for (const stroke of strokes) {
    const at = stroke.map(([x, y]) => [x * scale + dx, y * scale + dy]);
    at.forEach((point, i) => inkLine(image, at[Math.max(i - 1, 0)], point));
  }
  return image;
}

function inkLine(image, [ax, ay], [bx, by]) {
  const reach = RADIUS + 0.5;
  const first = (a, b) => Math.max(0, Math.ceil(Math.min(a, b) - reach));
  const last = (a, b) => Math.min(SIDE - 1, Math.floor(Math.max(a, b) + reach));
  const [vx, vy] = [bx - ax, by - ay];
  const squared = vx * vx + vy * vy;
  for (let y = first(ay, by); y <= last(ay, by); ++y)
    for (let x = first(ax, bx); x <= last(ax, bx); ++x) {
      const t = squared > 0 ? Math.min(1, Math.max(0, ((x - ax) * vx + (y - ay) * vy) / squared)) : 0;
      const distance = Math.hypot(x - ax - t * vx, y - ay - t * vy);
      const ink = Math.min(1, Math.max(0, reach - distance));
      image[y * SIDE + x] = Math.max(image[y * SIDE + x], ink);
    }
}
