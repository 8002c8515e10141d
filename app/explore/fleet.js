// The clients' memory while a control moves. The core draws the numbers (`draw`), and its own fleet follows on release;
// the truncated normals here agree with it to 1e-6.

import { evenRound } from "./allocation.js";

export function usual_sizes(needs) {
  const digits = needs.all_gib < 10 ? 2 : 1, round = (x) => evenRound(x * 10 ** digits) / 10 ** digits;
  const low = needs.one_gib + needs.block_gib, high = needs.all_gib + 0.5 * 10 ** -digits;
  return { low: round(low), mid: round((low + high) / 2), high: round(high) };
}

export const usual_rows = (needs) => Object.values(usual_sizes(needs)).map((gib, i) => [gib, [20, 20, 10][i]]);

export const span_of = (fields, needs) => fields.span ?? [needs.one_gib, needs.all_gib];

// GiB of each client, without the bars that were painted.
export function gib_of(fields, needs, draw) {
  const usual = usual_sizes(needs), size = (name) => fields[name] ?? usual[name];
  if (fields.shape === "list")
    return (fields.rows.length ? fields.rows : usual_rows(needs)).flatMap(([gib, clients]) => Array(clients).fill(gib));
  if (fields.shape === "gpus") return draw.map((gib) => (gib * fields.card) / 100);
  const N = draw.length, [low, high] = span_of(fields, needs).map((end) => Math.max(end, 1e-3));
  if (fields.shape === "two" || fields.shape === "three") {
    const few = fields.shape === "two" ? N : evenRound((N * fields.cuts[0]) / 100), gib = Array(N);
    const share = fields.shape === "two" ? fields.large : 100 - fields.cuts[1];
    const large = Math.min(fields.shape === "two" ? N : N - few, evenRound((N * share) / 100));
    const kind = (i) => (i < large ? "high" : i < (fields.shape === "two" ? large : N - few) ? "mid" : "low");
    draw.forEach((n, i) => { gib[n] = size(kind(i)); });
    return gib;
  }
  if (fields.shape === "uniform") return draw.map((u) => low + (high - low) * u);
  if (fields.shape === "bell")
    return draw.map((u) => (low + high) / 2 + ((high - low) / 5) * normal(u, -2.5, 2.5));
  const centre = Math.log(low + 0.25 * (high - low)), ends = [low, high].map((end) => (Math.log(end) - centre) / 0.6);
  return draw.map((u) => (low === high ? high : Math.exp(centre + 0.6 * normal(u, ...ends))));
}

// A standard normal number between two ends, from a uniform one.
const normal = (u, low, high) => ndtri(ndtr(low) + u * (ndtr(high) - ndtr(low)));

function ndtr(x) { // Press et al., Numerical Recipes, erfcc: 1.2e-7
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + z / 2);
  const c = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
    -0.82215223, 0.17087277];
  const tail = (t / 2) * Math.exp(-z * z + c.reduceRight((sum, value) => sum * t + value, 0));
  return x < 0 ? tail : 1 - tail;
}

function ndtri(p) { // Acklam's rational approximation: 1.2e-9
  const poly = (x, c) => c.reduce((sum, value) => sum * x + value, 0);
  const a = [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716, 2.506628277459239];
  const b = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1];
  const c = [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783];
  const d = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1];
  if (p > 0.02425 && p < 1 - 0.02425) return ((p - 0.5) * poly((p - 0.5) ** 2, a)) / poly((p - 0.5) ** 2, b);
  const tail = Math.sqrt(-2 * Math.log(Math.min(p, 1 - p))), value = poly(tail, c) / poly(tail, d);
  return p < 0.5 ? value : -value;
}
