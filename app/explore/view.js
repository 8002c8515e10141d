// What the page shows of some fields: the fleet, the allocation at the point, the curves and their scales.

import { affordable_blocks, balanced, balanced_metrics, best_two_level, closest_two_level, measures, psi_block_bytes,
  psi_model_bytes, sum, water_filled_bound, water_filled_budgets } from "./allocation.js";
import { slots } from "./draw.js";
import { gib_of } from "./fleet.js";

const GIB = 2 ** 30, DRAWN = ["shape", "clients", "seed", "mix"]; // fields that need the core's random numbers
const OF_FLEET = [...DRAWN, "model", "batch", "length", "precision", "span", "low", "mid", "high", "large", "cuts", "card", "rows", "bars"];
export const TWINS = ["balanced", "two-level"];
export const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
export const pairsOf = (flips) => flips.split("_").filter(Boolean).map((pair) => pair.split(".").map(Number));

export function needsOf(fields, models) {
  const spec = models[fields.model], work = { ...fields, bytes: fields.precision === "float32" ? 4 : 2 };
  const model_gib = psi_model_bytes(spec, work) / GIB, block_gib = psi_block_bytes(spec, work) / GIB, M = spec.num_blocks;
  return { num_blocks: M, model_gib, block_gib, one_gib: model_gib + block_gib, all_gib: model_gib + M * block_gib };
}

// The clients. Until the core has drawn a new fleet, the former one is shown. `index` is a client's place among those
// with room for a block, or -1; `place` the column of such a client.
let known = null; // the last fleet: a move of the point leaves it as it is
export function fleetOf(fields, data) {
  if (known?.data === data && OF_FLEET.every((name) => known.fields[name] === fields[name])) return { ...known.fleet };
  known = { data, fields: { ...fields }, fleet: newFleet(fields, data) };
  return { ...known.fleet };
}

function newFleet(fields, data) {
  const needs = needsOf(fields, data.choices.models), drawn = DRAWN.every((name) => fields[name] === data.drawn[name]);
  const base = gib_of(drawn ? fields : { ...fields, ...data.drawn }, needs, data.draw), gib = base.slice();
  for (const [n, value] of fields.bars) if (n < gib.length) gib[n] = value;
  const order = [...base.keys()].sort((a, b) => base[b] - base[a] || a - b);
  const room = gib.map((value) => affordable_blocks(value, needs)), part = [...gib.keys()].filter((n) => room[n] >= 1);
  const index = Array(gib.length).fill(-1), place = Array(part.length);
  part.forEach((n, i) => { index[n] = i; });
  order.forEach((n, i) => { if (index[n] >= 0) place[index[n]] = i; });
  return { needs, base, gib, order, part, index, place, N: part.length, budget: part.map((n) => room[n]),
    clients: order.map((n) => index[n]).filter((n) => n >= 0) };
}

// The limit on the total of blocks, as app.parts.fleets.Study.total.
export function limitOf(fields, { needs, N, budget, least, most }) {
  let asked = 2 * least;
  if (fields.total !== null) asked = fields.total;
  else if (fields.spend !== null) asked = Math.floor((fields.spend + 0.005 - N * needs.model_gib) / needs.block_gib + 1e-9);
  else if (Math.min(...budget) === needs.num_blocks) asked = most;
  return clamp(asked, least, most);
}

const blocksOf = (rows, N) => Array.from({ length: N }, (_, n) => rows.flatMap((row, m) => (row[n] === "1" ? [m] : [])));

function flipped(blocks, flips, M) {
  const changed = blocks.slice();
  for (const [m, n] of flips) {
    if (n >= blocks.length || m >= M) continue;
    changed[n] = changed[n].includes(m) ? changed[n].filter((own) => own !== m) : [...changed[n], m].sort((a, b) => a - b);
  }
  return changed;
}

// The fleet with the allocation at its point: that of the core (`answers`) where it is there, else that of its twin.
export function viewOf(fields, data, answers) {
  const view = fleetOf(fields, data), { needs, budget, N } = view, M = needs.num_blocks;
  Object.assign(view, { least: Math.max(M, N), most: sum(budget), flips: pairsOf(fields.flips), answers: [],
    topGib: 1.02 * Math.max(needs.all_gib, ...view.base), gibOf: (total) => N * needs.model_gib + total * needs.block_gib });
  if (!N || view.most < M) {
    return Object.assign(view, { problem: true, blocks: Array(N).fill([]), popularity: new Int32Array(M), total: 0, lambda: Infinity,
      least_popularity: new Int32Array(N) });
  }
  view.limit = limitOf(fields, view);
  const measured = (blocks) => ({ blocks, ...measures(blocks, M) });
  view.even = measured(balanced(budget, M, view.limit));
  view.two = measured(closest_two_level(budget, M, view.limit));
  const core = answers[fields.follow], twin = ["two-level", "exact"].includes(fields.follow) ? view.two : view.even;
  const base = core?.rows ? measured(blocksOf(core.rows, N)) : twin;
  view.preview = !TWINS.includes(fields.follow) && !core?.rows;
  view.limitBound = Math.max(water_filled_bound(budget, M, view.limit), answers.exact?.bound ?? 0);
  view.methods = { ...answers, balanced: view.even, "two-level": view.two };
  view.bare = base;
  return Object.assign(view, view.flips.length ? measured(flipped(base.blocks, view.flips, M)) : base);
}

// Points [total, Lambda] of the curves, from the least total to the most. `fine`: the core's search for every point.
export function curvesOf({ budget, needs, least, most, N }, fine) {
  const M = needs.num_blocks, count = N > 300 && !fine ? 16 : N > 100 ? 31 : 61;
  const totals = [...new Set(Array.from({ length: count }, (_, i) => Math.round(least + ((most - least) * i) / Math.max(1, count - 1))))];
  const even = totals.map((total) => [total, balanced_metrics(water_filled_budgets(budget, total), M)]);
  const choice = best_two_level(budget, M, totals, fine);
  return { even: even.map(([total, { lambda }]) => [total, lambda]), bound: totals.map((total) => [total, water_filled_bound(budget, M, total)]),
    two: totals.map((total, i) => [total, Math.min(even[i][1].lambda, choice[i].lambda)]),
    squares: totals.flatMap((total, i) => [ // how many squares of which side: [clients, least popularity]
      { even: true, kinds: [[N - even[i][1].high, even[i][1].low], [even[i][1].high, even[i][1].low + 1]] },
      ...(choice[i].g ? [{ kinds: [[choice[i].n2, choice[i].v2], [N - choice[i].n2, choice[i].v1]] }] : [])]) };
}

// The pitch of the slots, and the pixels of a side of 1: the largest with which every point of the even curve fits, and
// most of the two-level one.
export function scaleOf(curves, N, box, room) {
  const spotsOf = (slot) => Math.floor((box.w + 2) / slot) * Math.floor((box.h + 2) / slot);
  let slot = clamp(Math.floor(0.92 * Math.sqrt((box.w * box.h) / N)), 4, 50);
  while (slot > 2 && spotsOf(slot) < N) slot--;
  const spots = spotsOf(slot);
  const fits = (unit) => ({ kinds }) => {
    const sizes = kinds.filter(([clients]) => clients > 0).map(([clients, least]) => [clients, Math.ceil((unit / least + 2) / slot)]);
    const lambda = sum(kinds.map(([clients, least]) => (clients ? clients / least ** 2 : 0)));
    return Math.sqrt(lambda) * unit <= room && sum(sizes.map(([clients, k]) => clients * k * k * (k > 1 ? 1.1 : 1))) <= spots;
  };
  const even = curves.squares.filter((each) => each.even), two = curves.squares.filter((each) => !each.even);
  const unit = [64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1.5, 1].map((times) => (slot - 2) * times).find((each) =>
    even.every(fits(each)) && two.filter(fits(each)).length >= 0.8 * two.length);
  return { slot, unit: unit ?? slot / 2 };
}

// Sides and places of the squares, in columns' order; on overflow the scale is halved.
export function placed(view, scale, box) {
  for (let { slot, unit } = scale; ; unit /= 2) {
    const sides = view.clients.map((n) => (view.least_popularity[n] ? unit / view.least_popularity[n] : 0)), spots = slots(sides, slot, box.w, box.h);
    if (spots || unit < 1) return { slot, unit, sides, spots: spots ?? [] };
  }
}
