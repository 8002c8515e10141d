// The drawings, each on a canvas of its own: `view` is what to show, `hot` the client or block under the pointer.

const FONT = '12px "Source Sans", system-ui, sans-serif', DASH = { two: [6, 4], kept: [1.5, 4], none: [] };
const HUES = { light: ["#6B1F00", "#A84300", "#D9761A", "#5B97CC", "#1F5F9E"],
  dark: ["#FFE0B0", "#FFB454", "#DE7E22", "#5E9BD6", "#A9D2FF"] };
const SHARES = [0.04, 0.1, 0.25, 0.5, 1], LEFT = 32, RIGHT = 58;
export const CURVE = { left: 44, right: 14, top: 12, bottom: 40 };

export const num = (x) => (!Number.isFinite(x) ? "∞" : x >= 10 ? x.toFixed(1) : x.toPrecision(3));
export const hueOf = (look, clients, N) => look.hues[SHARES.findIndex((share) => clients <= share * N + 1e-9)] ?? look.hues[4];

export function lookOf(root) {
  const style = getComputedStyle(root), rgb = style.backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [255, 255, 255];
  const dark = rgb.slice(0, 3).reduce((a, b) => a + b, 0) < 380, color = (name) => style.getPropertyValue(name).trim();
  root.classList.toggle("dark", dark);
  return { hues: HUES[dark ? "dark" : "light"], ink: color("--ink"), soft: color("--soft"), cap: color("--cap"),
    grid: color("--grid"), ground: style.backgroundColor };
}

// The classes of the colours that some number of clients has, as [colour, "6 to 12"].
export function legendOf(look, N) {
  const ends = SHARES.map((share) => Math.floor(share * N + 1e-9));
  const classes = ends.map((end, i) => [look.hues[i], (ends[i - 1] ?? 0) + 1, end]).filter(([, low, high]) => high >= low);
  return classes.map(([hue, low, high]) => [hue, low === high ? `${low}` : `${low} to ${high}`]);
}

export function pen(canvas) {
  const { clientWidth: w, clientHeight: h } = canvas.parentElement, ratio = globalThis.devicePixelRatio || 1;
  const [wide, high] = [Math.round(w * ratio), Math.round(h * ratio)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  g.font = FONT;
  const snap = (x) => Math.round(x * ratio) / ratio;
  const rect = (x, y, width, height, fill) => {
    g.fillStyle = fill;
    g.fillRect(snap(x), snap(y), Math.max(1 / ratio, snap(x + width) - snap(x)), Math.max(1 / ratio, snap(y + height) - snap(y)));
  };
  const text = (words, x, y, fill, align = "left", bold = false) => {
    Object.assign(g, { fillStyle: fill, textAlign: align, font: bold ? `600 ${FONT}` : FONT });
    g.fillText(words, x, y);
  };
  const line = (points, stroke, width = 1, dash = []) => {
    g.beginPath();
    points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
    Object.assign(g, { strokeStyle: stroke, lineWidth: width, lineCap: dash[0] === 1.5 ? "round" : "butt" });
    g.setLineDash(dash);
    g.stroke();
    g.setLineDash([]);
  };
  const frame = (x, y, width, height, stroke, thick = 2, dash = []) => {
    Object.assign(g, { strokeStyle: stroke, lineWidth: thick });
    g.setLineDash(dash);
    g.strokeRect(x, y, width, height);
    g.setLineDash([]);
  };
  return { g, w, h, rect, text, line, frame };
}

// Where a client's column is: `at` from a position to the column's number.
export function columns(w, N) {
  const wide = (w - LEFT - RIGHT) / N;
  return { wide, gap: wide > 4 ? 1 : 0, x: (i) => LEFT + i * wide, at: (x) => Math.floor((x - LEFT) / wide) };
}

const faded = (hot, yes) => (hot && !yes ? 0.3 : 1);

export function drawBars(canvas, view, look, hot) {
  const { g, w, h, rect, text, line, frame } = pen(canvas), { x, wide, gap } = columns(w, view.order.length);
  const base = h - 4, y = (gib) => base - ((base - 8) * gib) / view.topGib, { model_gib, block_gib } = view.needs;
  for (const tick of ticks(0, view.topGib, 4)) {
    line([[LEFT, y(tick)], [w - RIGHT, y(tick)]], look.grid);
    text(`${tick}`, LEFT - 6, Math.min(base, y(tick) + 4), look.ink, "right");
  }
  view.order.forEach((client, i) => {
    const n = view.index[client], gib = view.gib[client];
    g.globalAlpha = faded(hot, view.isHot(n));
    rect(x(i), y(gib), wide - gap, base - y(gib), look.cap);
    if (n < 0) return;
    const used = model_gib + view.blocks[n].length * block_gib;
    rect(x(i), y(used), wide - gap, base - y(used), used > gib + 1e-9 ? look.hues[0] : look.soft);
  });
  g.globalAlpha = 1;
  hatch(g, LEFT, y(model_gib), x(view.order.findLastIndex((client) => view.index[client] >= 0) + 1), base, look.ground);
  const i = view.order.indexOf(view.client);
  if (view.focus) frame(x(i) - 1, y(Math.max(view.gib[view.client], model_gib)) - 1, wide + 1, base - y(Math.max(view.gib[view.client], model_gib)) + 2, look.ink);
  view.handles?.forEach((gib, end) => { // the largest client's end on the left
    const at = [end ? w - RIGHT + 10 : LEFT - 2, y(gib)];
    g.beginPath();
    g.arc(...at, 6, 0, 7);
    Object.assign(g, { fillStyle: look.ground, strokeStyle: look.ink, lineWidth: 2 });
    g.fill();
    g.stroke();
    if (end) text(`${num(gib)}`, at[0] + 10, at[1] + 4, look.ink);
  });
  return { y, gibAt: (py) => ((base - py) * view.topGib) / (base - 8) };
}

function hatch(g, left, top, right, bottom, stroke) {
  g.save();
  g.beginPath();
  g.rect(left, top, Math.max(0, right - left), bottom - top);
  g.clip();
  g.beginPath();
  for (let at = left - (bottom - top); at < right; at += 6) {
    g.moveTo(at, bottom);
    g.lineTo(at + bottom - top, top);
  }
  Object.assign(g, { strokeStyle: stroke, lineWidth: 1, globalAlpha: 0.75 });
  g.stroke();
  g.restore();
}

export function drawMatrix(canvas, view, look, hot) {
  const { g, w, h, rect, text, frame } = pen(canvas), { x, wide, gap } = columns(w, view.order.length);
  const M = view.needs.num_blocks, tall = h / M, every = Math.ceil(11.9 / tall);
  const hues = Array.from(view.popularity, (clients) => hueOf(look, clients, view.N)), rowGap = tall > 4 ? 1 : 0;
  const lit = (n, m) => view.isHot(n) && (hot?.m == null || hot.m === m || view.popularity[m] === view.least_popularity[n]);
  const runs = Array.from({ length: M }, () => [0, 0, 1]); // of each block: columns that are drawn at once
  const flush = (m, first, alpha) => {
    const [start, end, was] = runs[m];
    g.globalAlpha = was;
    if (end > start) rect(x(start), m * tall, x(end) - x(start) - gap, tall - rowGap, hues[m]);
    runs[m] = [first, first + 1, alpha];
  };
  view.order.forEach((client, i) => {
    const n = view.index[client];
    for (const m of view.blocks[n] ?? []) {
      const alpha = faded(hot, lit(n, m));
      if (!gap && runs[m][1] === i && runs[m][2] === alpha) runs[m][1]++;
      else flush(m, i, alpha);
    }
  });
  for (let m = 0; m < M; m++) flush(m, 0, 1);
  g.globalAlpha = 1;
  for (let m = 0; m < M; m++) {
    if (m % every === 0 || m === M - 1 && (M - 1) % every > every / 2) {
      text(`${m}`, LEFT - 6, m * tall + tall / 2 + 4, hot?.m === m ? look.ink : look.soft, "right", hot?.m === m);
      text(`${view.popularity[m]}`, w - RIGHT + 12 + (30 * view.popularity[m]) / view.N, m * tall + tall / 2 + 4, look.ink);
    }
    rect(w - RIGHT + 8, m * tall, (30 * view.popularity[m]) / view.N, tall - rowGap, hues[m]);
  }
  const outline = (n, m) => frame(x(view.place[n]) - 0.5, m * tall - 0.5, Math.max(2, wide), tall, look.ink);
  if (hot?.n != null && view.least_popularity[hot.n] > 0)
    for (const m of view.blocks[hot.n]) if (view.popularity[m] === view.least_popularity[hot.n]) outline(hot.n, m);
  if (hot?.m != null) frame(LEFT - 1, hot.m * tall - 0.5, w - LEFT - RIGHT + 2, tall, look.ink, 1.5);
  for (const [m, n] of view.flips) if (n < view.N && m < M) frame(x(view.place[n]) + 0.5, m * tall + 0.5, Math.max(2, wide - gap - 1), tall - rowGap - 1, look.ink, 1.5, [2, 2]);
  if (view.cell) frame(x(view.place[view.cell[1]]) - 1, view.cell[0] * tall - 1, Math.max(3, wide + 1), tall + 1, look.ink, 2.5);
}

// Squares in client order; one longer than a slot takes k x k slots. Null if they do not fit.
export function slots(sides, slot, w, h) {
  const across = Math.max(1, Math.floor((w + 2) / slot)), down = Math.floor((h + 2) / slot), taken = new Uint8Array(across * down);
  const free = (at, k) => {
    for (let r = 0; r < k; r++) for (let c = 0; c < k; c++) if (taken[at + r * across + c]) return false;
    return true;
  };
  const first = new Map(), spots = [];
  for (const side of sides) {
    const k = Math.max(1, Math.ceil((side + 2) / slot - 1e-6));
    let at = first.get(k) ?? 0;
    while (at < taken.length && ((at % across) + k > across || Math.floor(at / across) + k > down || !free(at, k))) at++;
    if (at >= taken.length) return null;
    first.set(k, at);
    for (let r = 0; r < k; r++) for (let c = 0; c < k; c++) taken[at + r * across + c] = 1;
    spots.push([(at % across) * slot, Math.floor(at / across) * slot]);
  }
  return spots;
}

export function drawSquares(canvas, view, look, hot) {
  const { g, rect, frame } = pen(canvas);
  view.spots?.forEach(([x, y], i) => {
    const n = view.clients[i], side = view.sides[i];
    g.globalAlpha = faded(hot, view.isHot(n));
    rect(x + 1, y + 1, side, side, hueOf(look, view.least_popularity[n], view.N));
    if (hot?.n === n) frame(x + 1, y + 1, Math.max(3, side), Math.max(3, side), look.ink);
  });
  g.globalAlpha = 1;
}

// One square of the same areas: columns of equal squares' areas, so that each cell keeps its area.
export function drawSum(canvas, view, look, hot) {
  const { g, w, h, rect, text, frame } = pen(canvas), cells = [];
  if (!Number.isFinite(view.lambda)) return cells;
  const side = Math.sqrt(view.lambda) * view.unit, byArea = new Map();
  for (const n of view.clients) {
    const c = view.least_popularity[n];
    byArea.has(c) ? byArea.get(c).push(n) : byArea.set(c, [n]);
  }
  let x = 0;
  for (const [least, group] of [...byArea].sort((a, b) => a[0] - b[0])) {
    const area = (view.unit / least) ** 2, lanes = Math.max(1, Math.round((group.length * Math.sqrt(area)) / side));
    for (let lane = 0; lane < lanes; lane++) {
      const own = group.slice(Math.floor((lane * group.length) / lanes), Math.floor(((lane + 1) * group.length) / lanes));
      const wide = (own.length * area) / side, tall = side / own.length, edge = Math.min(wide, tall) > 3 ? 1 : 0;
      own.forEach((n, i) => {
        g.globalAlpha = faded(hot, view.isHot(n));
        rect(x, i * tall, wide - edge, tall - edge, hueOf(look, least, view.N));
        cells.push([x, i * tall, wide, tall, n]);
      });
      x += wide;
    }
  }
  g.globalAlpha = 1;
  for (const [lambda, name, dash] of view.outlines) {
    const other = Math.sqrt(lambda) * view.unit;
    if (other > w || other > h - 16) continue;
    frame(0.5, 0.5, other, other, look.ink, 1.5, DASH[dash]);
    const beside = Math.max(side, other) + 6;
    if (beside + 90 < w) text(name, beside, Math.max(12, other - 5), look.ink);
    else if (other > side + 18) text(name, 4, other - 5, look.ink);
  }
  return cells;
}

export function ticks(low, high, count) {
  const raw = (high - low) / count, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((k) => k * ten >= raw) * ten;
  const marks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + 1e-9; at += step) marks.push(+at.toPrecision(6));
  return marks;
}

export function curveAxes(w, h, view) {
  const { left, right, top, bottom } = CURVE, [g0, g1] = view.gibEnds, [l0, l1] = view.lambdaEnds.map(Math.log10);
  return { x: (gib) => left + ((w - left - right) * (gib - g0)) / (g1 - g0), y: (v) => top + ((h - top - bottom) * (l1 - Math.log10(v))) / (l1 - l0),
    gibAt: (px) => g0 + ((px - left) * (g1 - g0)) / (w - left - right) };
}

export function drawCurve(canvas, view, look) {
  const { g, w, h, text, line } = pen(canvas), { x, y } = curveAxes(w, h, view), [l0, l1] = view.lambdaEnds, bottom = h - CURVE.bottom;
  for (let decade = -5; decade < 4; decade++) for (const step of [1, 2, 5]) {
    const at = step * 10 ** decade;
    if (at < l0 || at > l1) continue;
    line([[CURVE.left, y(at)], [w - CURVE.right, y(at)]], look.grid);
    text(`${+at.toPrecision(1)}`, CURVE.left - 6, y(at) + 4, look.ink, "right");
  }
  text("Λ", 4, 12, look.ink, "left", true);
  for (const tick of ticks(...view.gibEnds, 8)) text(`${tick}`, x(tick), bottom + 16, look.ink, "center");
  text("GiB that all clients use together", (CURVE.left + w - CURVE.right) / 2, h - 6, look.soft, "center");
  g.save();
  g.beginPath();
  g.rect(CURVE.left, 0, w - CURVE.left, bottom);
  g.clip();
  if (view.bound.length > 1) { // no allocation is in the shaded part
    g.beginPath();
    view.bound.forEach(([t, v], i) => (i ? g.lineTo(x(view.gibOf(t)), y(v)) : g.moveTo(x(view.gibOf(t)), y(v))));
    g.lineTo(x(view.gibOf(view.bound.at(-1)[0])), bottom);
    g.lineTo(x(view.gibOf(view.bound[0][0])), bottom);
    g.fillStyle = look.grid;
    g.fill();
    text("no allocation", x(view.gibOf(view.bound.at(-1)[0])) - 6, bottom - 6, look.soft, "right");
  }
  const drawn = (points) => points.map(([t, v]) => [x(view.gibOf(t)), y(v)]);
  for (const kept of view.kept) line(kept.points.map(([gib, v]) => [x(gib), y(v)]), look.ink, 2, DASH.kept);
  for (const { points, strong } of view.lines) line(drawn(points), look.ink, strong ? 2.5 : 1.5, strong ? [] : DASH.two);
  g.restore();
  for (const { points, name, strong, above } of view.lines) {
    const [px, py] = drawn(points)[Math.floor((points.length - 1) * (above ? 0.62 : 0.9))] ?? [0, 0];
    text(name, px + (above ? 8 : -6), py + (above ? -7 : 18), look.ink, above ? "left" : "right", strong);
  }
  for (const { name, points } of view.kept) if (points.length) text(name, x(points.at(-1)[0]) + 5, y(points.at(-1)[1]) + 4, look.ink);
  const all = [x(view.gibEnds[1]), y(1 / view.N)];
  dot(g, ...all, 4, look.soft, look.soft);
  text("every client trains every block", Math.min(w - 4, all[0] + 6), all[1] - 9, look.soft, "right");
  marks(g, view, look, x, y);
  const at = [x(view.gibOf(view.total)), y(Math.min(l1, view.lambda))];
  line([[at[0], at[1]], [at[0], bottom]], look.soft, 1, [2, 3]);
  dot(g, ...at, 9, look.ground, look.ink, 2.5);
  if (view.hint) text("drag", at[0] + 14, at[1] - 8, look.ink, "left", true);
}

// The core's answers: a diamond for exact, with a whisker to its bound if it is not proven; a square for the paper's.
function marks(g, view, look, x, y) {
  for (const { total, lambda, bound, name } of view.answers) {
    const [px, py] = [x(view.gibOf(total)), y(lambda)];
    g.save();
    Object.assign(g, { strokeStyle: look.ink, fillStyle: look.ground, lineWidth: 1.5 });
    if (bound < lambda * (1 - 1e-9)) g.strokeRect(px, py, 0, y(bound) - py);
    g.translate(px, py);
    if (name === "exact") g.rotate(Math.PI / 4);
    g.fillRect(-4, -4, 8, 8);
    g.strokeRect(-4, -4, 8, 8);
    g.restore();
  }
}

function dot(g, x, y, radius, fill, stroke, width = 0) {
  g.beginPath();
  g.arc(x, y, radius, 0, 7);
  Object.assign(g, { fillStyle: fill, strokeStyle: stroke, lineWidth: width });
  g.fill();
  if (width) g.stroke();
}

// Late loss of stored runs against the Lambda of their allocation.
export function drawDoubt(canvas, measured, lambda, look) {
  const { g, w, h, text, line } = pen(canvas), { points } = measured;
  if (!points.length) return;
  const ends = [Math.min(...points.map((p) => p.low)), Math.max(...points.map((p) => p.high))], pad = 0.05 * (ends[1] - ends[0]);
  const all = points.map((p) => p.lambda), l0 = Math.log10(Math.min(0.06, ...all)), l1 = Math.log10(Math.max(8, ...all));
  const x = (v) => 32 + ((w - 40) * (Math.log10(v) - l0)) / (l1 - l0), y = (v) => 22 + ((h - 62) * (ends[1] + pad - v)) / (ends[1] - ends[0] + 2 * pad);
  for (const tick of ticks(ends[0] - pad, ends[1] + pad, 4)) {
    line([[32, y(tick)], [w - 8, y(tick)]], look.grid);
    text(`${tick}`, 28, y(tick) + 4, look.ink, "right");
  }
  for (const tick of [0.1, 0.5, 2]) text(`${tick}`, x(tick), h - 22, look.ink, "center");
  text("Λ of the allocation", (w + 24) / 2, h - 5, look.soft, "center");
  for (const p of points) {
    line([[x(p.lambda), y(p.low)], [x(p.lambda), y(p.high)]], look.soft);
    dot(g, x(p.lambda), y(p.loss), 3, look.ink, look.ink);
  }
  const now = x(Math.min(10 ** l1, Math.max(10 ** l0, lambda))), right = now > w * 0.7;
  line([[now, 14], [now, h - 40]], look.ink, 1, [2, 2]);
  text("your Λ", now + (right ? -4 : 4), 12, look.ink, right ? "right" : "left");
  text("loss", 4, 12, look.soft);
}

