// The twins of zorba_core in the browser, each named as the Python function. A test compares both on random fleets.
//
// M blocks, N clients. budget: blocks that fit each client (0: the client is left out); held: blocks that it trains;
// blocks[n]: ids of the blocks of client n; popularity[m]: clients that train block m.

const GRID = 64, REFINED_GROUPS = 6, ROUNDING = 1 - 1e-12;
export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const evenRound = (x) => { const down = Math.floor(x); return x - down === 0.5 ? down + (down % 2) : Math.round(x); };
// vram.py: bytes of the parameters, and of one activated block.
export const psi_model_bytes = (spec, work) => spec.num_parameters * work.bytes;
export const psi_block_bytes = (spec, work) => evenRound(
  (spec.ffn_ratio + 3 * spec.num_heads + 1) * spec.hidden_size * work.batch * work.length * work.bytes);

export const affordable_blocks = (gib, needs) =>
  Math.max(0, Math.min(needs.num_blocks, Math.floor((gib - needs.model_gib) / needs.block_gib + 1e-9)));

// measures.py: Lambda = sum over clients of 1 / (popularity of the client's rarest block)^2.
export function measures(blocks, M) {
  const popularity = new Int32Array(M);
  for (const own of blocks) for (const m of own) popularity[m]++;
  const least = Int32Array.from(blocks, (own) => own.reduce((c, m) => Math.min(c, popularity[m]), own.length && Infinity));
  const inverse = sum(Array.from(popularity, (c) => 1 / c)) / M, total = sum(popularity);
  const single = blocks.reduce((count, own) => count + (own.length === 1), 0);
  return { popularity, least_popularity: least, total, single, lambda: bias_lambda(least), mean_inverse_popularity: inverse,
    min_popularity: Math.min(...popularity) };
}

export function bias_lambda(least) {
  const clients = new Map();
  for (const c of least) clients.set(c, (clients.get(c) ?? 0) + 1);
  return clients.has(0) ? Infinity : sum([...clients.keys()].sort((a, b) => a - b).map((c) => clients.get(c) / (c * c)));
}

// solvers/balanced.py
export function wrapped(M, held, first = 0) {
  let at = 0;
  return Array.from(held, (k) => {
    const own = Array.from({ length: k }, (_, i) => first + ((at + i) % M));
    at = (at + k) % M;
    return own.sort((a, b) => a - b);
  });
}

export function water_filled_budgets(budget, total) {
  if (total === sum(budget)) return Int32Array.from(budget);
  const count = new Int32Array(Math.max(0, ...budget) + 2);
  for (const b of budget) count[b]++;
  let [level, atLevel, roomy] = [0, 0, budget.length - count[0]];
  while (level + 1 < count.length && roomy > 0 && atLevel + roomy <= total) {
    atLevel += roomy;
    roomy -= count[++level];
  }
  const held = Int32Array.from(budget, (b) => Math.min(b, level)), larger = [];
  budget.forEach((b, n) => { if (b > level) larger.push(n); });
  const left = total - atLevel;
  for (let i = 0; i < left; i++) held[larger[Math.floor((i * larger.length) / left)]]++;
  return held;
}

export const balanced = (budget, M, total) => wrapped(M, water_filled_budgets(budget, Math.min(total, sum(budget))));
// Lambda of `balanced` without its matrix.
export function balanced_metrics(held, M) {
  const total = sum(held), low = Math.floor(total / M), numHigh = total % M;
  let [at, high] = [0, 0];
  for (const k of held) {
    if ((at % M) + k <= numHigh) high++;
    at += k;
  }
  const lambda = low ? (held.length - high) / (low * low) + high / ((low + 1) * (low + 1)) : Infinity;
  return { lambda, low, high };
}
// bounds.py: no allocation of at most `total` blocks has a smaller Lambda.
export function water_filled_bound(budget, M, total) {
  const N = budget.length, { held, count } = mostUneven(budget, Math.min(total, sum(budget))), low = 1 / N, high = 1;
  const covered = (mu) => sum(held.map((k, i) => Math.min(high, Math.max(low, mu * k)) * count[i] * k));
  const knots = [...new Set(held.flatMap((k) => [low / k, high / k]))].sort((a, b) => a - b);
  if (covered(knots[0]) >= M) return ROUNDING * N * low ** 2;
  const right = knots.findIndex((mu) => covered(mu) >= M);
  if (right < 0) return ROUNDING * N * high ** 2;
  const left = covered(knots[right - 1]), reach = covered(knots[right]);
  const mu = knots[right - 1] + ((knots[right] - knots[right - 1]) * (M - left)) / (reach - left);
  return ROUNDING * sum(held.map((k, i) => count[i] * Math.min(high, Math.max(low, mu * k)) ** 2));
}

// One block for each client; the rest of the total fills the largest budgets first.
function mostUneven(budget, total) {
  const count = new Int32Array(Math.max(...budget) + 1), clients = new Int32Array(count.length);
  for (const b of budget) count[b]++;
  clients[1] = count[1];
  let spare = total - budget.length;
  for (let b = count.length - 1; b > 1; b--) {
    const full = Math.min(count[b], Math.floor(spare / (b - 1)));
    clients[b] += full;
    spare -= full * (b - 1);
    if (full === count[b]) continue;
    clients[1 + spare]++; // one client takes the rest, and the others have one block
    clients[1] += count[b] - full - 1;
    spare = 0;
  }
  const held = [...clients.keys()].filter((k) => clients[k]);
  return { held, count: held.map((k) => clients[k]) };
}
// solvers/two_level.py: Lambda of (g, n2, v2) from prefix sums of the falling budgets; see there for the conditions.
class ClosedForm {
  constructor(budget, M) {
    this.M = M;
    this.N = budget.length;
    this.order = Array.from(budget.keys()).sort((a, b) => budget[b] - budget[a] || a - b);
    this.falling = this.order.map((n) => budget[n]);
    this.prefix = [0];
    this.falling.forEach((b) => this.prefix.push(this.prefix.at(-1) + b));
    this.larger = Array.from({ length: M + 1 }, (_, k) => this.falling.filter((b) => b > k).length);
  }

  capped(first, cap) {
    const cut = Math.min(first, this.larger[cap]);
    return cap * cut + this.prefix[first] - this.prefix[cut];
  }

  // For each total the best choice with g hub blocks.
  bestOfGroup(g, n2Grid, v2Grid, totals) {
    const { M, N } = this, hub = this.capped(N, g), best = totals.map(() => ({ lambda: Infinity }));
    for (const n2 of n2Grid) {
      const top = this.capped(n2, M - g), spare = this.prefix[n2] - this.capped(n2, g);
      for (const v2 of v2Grid) {
        const demand = (M - g) * v2;
        if (v2 > n2 || demand > top) break;
        const room = hub - Math.max(0, demand - spare);
        for (let i = totals.length - 1; i >= 0; i--) {
          const v1 = Math.min(N, Math.floor(Math.min(room, totals[i] - demand) / g));
          if (v1 < v2) break; // smaller totals have no more room
          if (g * v1 < N - n2 || g * v1 + demand < N) continue;
          const value = (N - n2) / (v1 * v1) + n2 / (v2 * v2);
          if (value < best[i].lambda) best[i] = { g, v1, n2, v2, lambda: value };
        }
      }
    }
    return best;
  }

  // The choice of least Lambda for each of the rising totals; `refined` is the core's search, one total at a time.
  best(totals, refined) {
    if (refined && totals.length > 1) return totals.map((total) => this.best([total], true)[0]);
    const [n2, v2] = [grid(1, this.N), grid(1, this.N)];
    let step = Math.max(1, ...n2.slice(1).map((x, i) => x - n2[i]));
    let windows = Array.from({ length: Math.max(0, this.M - 1) }, (_, i) => [i + 1, n2, v2]);
    let best = totals.map(() => ({ lambda: Infinity }));
    while (windows.length) {
      const found = windows.map((window) => this.bestOfGroup(...window, totals));
      for (const own of found) best = best.map((choice, i) => (own[i].lambda < choice.lambda ? own[i] : choice));
      if (step <= 1 || !refined) break;
      const half = 2 * step, next = Math.max(1, Math.floor((4 * step) / GRID));
      const choices = found.map((own) => own[0]).filter((c) => c.g).sort((a, b) => a.lambda - b.lambda);
      windows = choices.slice(0, REFINED_GROUPS).map((c) =>
        [c.g, around(c.n2, half, next, this.N), around(c.v2, half, next, this.N)]);
      step = next;
    }
    return best;
  }
}

function grid(first, last) {
  const count = Math.min(GRID, last - first + 1), step = (last - first) / Math.max(1, count - 1);
  return [...new Set(Array.from({ length: count }, (_, i) => evenRound(i && i === count - 1 ? last : first + i * step)))];
}

const around = (centre, half, step, last) => Array.from({ length: Math.floor((2 * half) / step) + 1 },
  (_, i) => centre - half + i * step).filter((x) => x >= 1 && x <= last);

export const best_two_level = (budget, M, totals, refined = true) => new ClosedForm(budget, M).best(totals, refined);

export function closest_two_level(budget, M, total) {
  const even = balanced(budget, M, total), form = new ClosedForm(budget, M), most = Math.min(total, sum(budget));
  const [choice] = form.best([most], true);
  if (!choice.g) return even;
  const carried = carryOut(form, choice);
  return measures(carried, M).lambda < measures(even, M).lambda ? carried : even;
}

function carryOut({ M, N, order, falling }, { g, v1, n2, v2 }) {
  const demand = (M - g) * v2, hubTotal = g * v1, topRoom = falling.map((b, i) => (i < n2 ? Math.min(b, M - g) : 0));
  const spare = falling.map((b, i) => Math.min(Math.max(b - g, 0), topRoom[i]));
  const fromSpare = water_filled_budgets(spare, Math.min(demand, sum(spare)));
  const rest = water_filled_budgets(topRoom.map((r, i) => r - fromSpare[i]), demand - sum(fromSpare));
  const top = fromSpare.map((k, i) => k + rest[i]);
  serveEveryClient(top, topRoom, hubTotal);
  const must = top.map((k) => Number(k === 0));
  const more = water_filled_budgets(falling.map((b, i) => Math.min(b - top[i], g) - must[i]), hubTotal - sum(must));
  const hubHeld = new Int32Array(N), topHeld = new Int32Array(N);
  order.forEach((n, i) => { hubHeld[n] = must[i] + more[i]; topHeld[n] = top[i]; });
  const hubBlocks = wrapped(g, hubHeld, M - g);
  return wrapped(M - g, topHeld).map((own, n) => own.concat(hubBlocks[n]));
}

function serveEveryClient(top, topRoom, hubTotal) {
  const missing = top.filter((k) => k === 0).length - hubTotal, served = [...top.keys()].filter((i) => !top[i] && topRoom[i] > 0);
  if (missing <= 0) return;
  for (const i of served.slice(0, missing)) top[i] = 1;
  water_filled_budgets(top.map((k) => Math.max(k - 1, 0)), missing).forEach((k, i) => { top[i] -= k; });
}
