// The plane as the model divides it: a field of probabilities, the line where they are even, and the points.
import { between, colour, paintPixels } from './colours.js';

const field = document.createElement('canvas'); // one pixel a cell, stretched smoothly onto the visible one

export function paintPlane(canvas, { square, field: { side: cells, values: probabilities }, points }) {
  const values = probabilities.map((p) => p ?? 0.5); // not a number any more
  const side = Math.round(canvas.clientWidth * devicePixelRatio);
  if (side === 0) return; // the tab is hidden
  canvas.width = canvas.height = side;
  const pen = canvas.getContext('2d');

  const [one, two] = [between('surface', 'one'), between('surface', 'two')];
  paintPixels(field, cells, cells, (i) => {
    const tilt = 2 * values[i] - 1;
    return tilt > 0 ? one(0.5 * tilt) : two(-0.5 * tilt);
  });
  pen.imageSmoothingQuality = 'high';
  pen.drawImage(field, 0, 0, side, side);

  pen.beginPath();
  for (const [x1, y1, x2, y2] of evenLine(values, cells)) {
    const at = (cell) => ((cell + 0.5) / cells) * side;
    pen.moveTo(at(x1), at(y1));
    pen.lineTo(at(x2), at(y2));
  }
  pen.strokeStyle = colour('ink');
  pen.globalAlpha = 0.75;
  pen.lineWidth = 1.6 * devicePixelRatio;
  pen.lineCap = 'round';
  pen.stroke();
  pen.globalAlpha = 1;

  pen.lineWidth = 1.2 * devicePixelRatio;
  pen.strokeStyle = colour('surface');
  const colours = { 1: colour('one'), [-1]: colour('two') };
  for (const [x, y, label] of points) {
    pen.beginPath();
    pen.arc(((x - square.left) / square.size) * side, ((square.top - y) / square.size) * side, side / 120, 0, 2 * Math.PI);
    pen.fillStyle = colours[label];
    pen.fill();
    pen.stroke();
  }
}

// Marching squares: pieces [x1, y1, x2, y2], in cells, of the line where the probability is a half.
function evenLine(values, cells) {
  const EVEN = 0.5;
  const out = [];
  for (let y = 0; y + 1 < cells; ++y)
    for (let x = 0; x + 1 < cells; ++x) {
      const corners = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1]];
      const crossings = [];
      corners.forEach(([ax, ay], i) => {
        const [bx, by] = corners[(i + 1) % 4];
        const [a, b] = [values[ay * cells + ax] - EVEN, values[by * cells + bx] - EVEN];
        if (a < 0 === b < 0) return;
        const t = a / (a - b);
        crossings.push([ax + t * (bx - ax), ay + t * (by - ay)]);
      });
      for (let i = 0; i + 1 < crossings.length; i += 2) out.push([...crossings[i], ...crossings[i + 1]]);
    }
  return out;
}
