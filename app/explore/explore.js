// The first page: what the user does with the fleet, the point and the cells. `fields` are those of
// app.scenario.Scenario; they go out on release, with a revision, and answers to an older revision are ignored.

import { address_of } from "./address.js";
import { balanced, closest_two_level, measures } from "./allocation.js";
import { CURVE, columns, curveAxes, drawBars, drawCurve, drawDoubt, drawMatrix, drawSquares, drawSum, hueOf, legendOf, lookOf, num } from "./draw.js";
import { span_of, usual_rows, usual_sizes } from "./fleet.js";
import { TWINS, clamp, curvesOf, needsOf, pairsOf, placed, scaleOf, viewOf } from "./view.js";

const OF_MODEL = { span: null, low: null, mid: null, high: null, rows: [], bars: [], total: null, spend: null, flips: "" };
const LOST = "The connection to the server is lost. The page goes on; what only the core can answer comes when the server is back.";
const once = new Intl.NumberFormat("en").format;
const nth = (n) => `${n}${["th", "st", "nd", "rd"][Math.floor(n / 10) % 10 === 1 ? 0 : n % 10] ?? "th"}`;

class Explore {
  // `send` gives the core a value; `place` is the page around (see the end of this file), and a notebook has none.
  constructor(root, send, place) {
    Object.assign(this, { root, send, place, revision: 0, past: [], hot: null, client: 0, cell: null, asked: 0, lost: false });
    this.$ = (selector) => root.querySelector(selector);
    this.watch = new ResizeObserver(() => { this.scale = null; this.soon(); });
    this.watch.observe(root);
    this.heart = setInterval(() => this.beat(), 1000);
    this.unheard = place?.onBack((address) => this.tell({ address }));
    this.listen();
  }

  close() {
    this.watch.disconnect();
    clearInterval(this.heart);
    this.unheard?.();
    for (const timer of [this.poll, this.typing, this.refine, this.table]) clearTimeout(timer);
    cancelAnimationFrame(this.frame);
  }

  // New data of the core. Its fields replace ours on a first visit, for a link or a file, and on Back. A new session of
  // the same page (the server was lost) gets ours: it knows no more than an address.
  update(data) {
    const { data: former, origin } = this, renewed = former && data.session !== former.session;
    if (!former) this.fill(data);
    this.data = data;
    if (data.origin !== origin) {
      if (!renewed) Object.assign(this, { fields: structuredClone(data.fields), was: structuredClone(data.fields), cell: null, curves: null, client: 0 });
      Object.assign(this, { origin: data.origin, revision: data.revision });
      if (renewed) this.commit();
    }
    if (!former) this.write("replaceState"); // of a damaged or an older link, or of none: no step that Back could return to
    else if (data.origin !== origin || String(data.compared) !== String(former.compared)) this.write("pushState");
    if (data.revision === this.revision) this.sentAt = 0;
    clearTimeout(this.poll);
    if (data.waiting) this.poll = setTimeout(() => this.ask(), 250);
    this.soon();
  }

  fill({ choices, measured }) {
    for (const [name, options] of Object.entries({ shape: choices.shapes, mix: choices.mixes, model: choices.models }))
      this.$(`[data-field=${name}]`).replaceChildren(...Object.entries(options).map(([value, text]) => new Option(text.title ?? text, value)));
    const blank = this.$(".methods tr.blank");
    for (const [name, title] of [...Object.entries(choices.methods), ["hand", "changed by hand"]]) {
      const row = blank.cloneNode(true);
      row.className = name;
      row.querySelector("span").textContent = title;
      if (name === "hand") row.querySelector("input").remove();
      else row.querySelector("input").onchange = () => this.turnTo({ follow: name, flips: "" });
      blank.before(row);
    }
    blank.remove();
    this.$(".verdict").textContent = measured.title;
    this.$(".source").textContent = measured.source;
    this.$(".doubt").hidden = !measured.points.length;
  }

  // --- moves: `move` while the hand is down, `commit` on release --------------------------------------------------------
  soon() { this.frame ??= requestAnimationFrame(() => this.now()); }

  now() { // a key that comes before the frame of the one before must not start from the picture before both
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.draw();
  }

  move(changes) {
    Object.assign(this.fields, changes);
    this.dirty = true;
    this.soon();
  }

  commit() {
    clearTimeout(this.typing);
    if (JSON.stringify(this.fields) !== JSON.stringify(this.was)) this.past.push(this.was);
    this.was = structuredClone(this.fields);
    this.dirty = false;
    this.write("pushState");
    this.tell({ fields: this.was });
    this.soon();
  }

  // The fields, or the address that Back and Forward went to: Streamlit tells the core of these too, but not always.
  tell(what) {
    Object.assign(this, { sentAt: performance.now(), revision: this.revision + 1 });
    this.send("state", { origin: this.origin, revision: this.revision, ...what });
  }

  write(how) { this.place?.write(how, (before) => address_of(this.was, this.data.defaults, this.data.compared, before)); }

  change(changes) { this.move(changes); this.commit(); }

  later(changes) { // keys: the release is when they rest
    this.move(changes);
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.commit(), 180);
  }

  settle() { if (this.dirty) this.commit(); } // what the keys did is a move of its own, not a part of the next one

  setFleet(changes, how = "change") { this[how]({ ...changes, flips: "" }); }

  setTotal(total, how = "move") {
    const { least, most, problem } = this.view;
    if (!problem) this[how]({ total: clamp(total, least, most), spend: null, flips: "" });
  }

  setBars(changes, how) {
    const bars = new Map(this.fields.bars), { needs } = this.view;
    for (const [n, gib] of changes) bars.set(n, +clamp(gib, 0.001, Math.max(needs.all_gib * 1.02, this.view.topGib)).toFixed(3));
    this.setFleet({ bars: [...bars] }, how);
  }

  flip(m, n) {
    const key = `${m}.${n}`, cells = this.fields.flips.split("_").filter(Boolean);
    const flips = cells.includes(key) ? cells.filter((cell) => cell !== key) : [...cells, key];
    this.change({ flips: flips.join("_"), total: this.view.limit, spend: null });
  }

  setEnd(end, gib, how) { // 0: the most, 1: the least
    const { fields, view } = this, other = span_of(fields, view.needs), value = +clamp(gib, 0.001, 2 * view.topGib).toFixed(3);
    if (["two", "three"].includes(fields.shape)) return this.setFleet({ [end ? "low" : "high"]: value }, how);
    this.setFleet({ span: end ? [Math.min(value, other[1]), other[1]] : [other[0], Math.max(value, other[0])] }, how);
  }

  // --- the loss of the server -------------------------------------------------------------------------------------------
  ask() { // again and again until data come: a question that interrupts a run of the page can be lost
    this.send("ask", ++this.asked);
    this.poll = setTimeout(() => this.ask(), 3000);
  }

  async beat() {
    const waited = this.sentAt ? performance.now() - this.sentAt : 0;
    if (this.beating || !this.place || !(this.lost || waited > 3000)) return;
    this.beating = true;
    const alive = await this.place.alive().catch(() => false);
    this.beating = false;
    if (this.lost !== !alive) this.soon();
    this.lost = !alive;
    if (alive && waited > 6000) { // a server that has just started does not know this page
      this.sentAt = performance.now();
      this.place.visit();
    }
  }

  // --- drawing ----------------------------------------------------------------------------------------------------------
  box(selector) { return { w: this.$(selector).clientWidth, h: this.$(selector).clientHeight }; }

  draw() {
    if (!this.data || !this.root.clientWidth) return;
    const { data, fields, root } = this, look = lookOf(root), fresh = !this.dirty && data.revision === this.revision;
    const view = this.view = viewOf(fields, data, fresh ? data.answers : {});
    Object.assign(view, { client: view.order.includes(this.client) ? this.client : view.order[0], cell: this.cell, hint: fields.total === null && !view.problem,
      focus: this.focused(".bars"), lines: [], bound: [], kept: [], outlines: [], unit: 1 });
    if (this.cell?.[1] >= view.N) this.cell = view.cell = null;
    const hot = this.hot?.n >= view.N || view.problem ? null : this.hot;
    view.isHot = (n) => !hot || (hot.n != null ? hot.n === n : n >= 0 && view.blocks[n].includes(hot.m) && view.least_popularity[n] === view.popularity[hot.m]);
    const ends = { two: ["high", "low"], three: ["high", "low"] }[fields.shape];
    if (ends) view.handles = ends.map((name) => fields[name] ?? usual_sizes(view.needs)[name]);
    if (["uniform", "bell", "small"].includes(fields.shape)) view.handles = span_of(fields, view.needs).slice().reverse();
    this.barScale = drawBars(this.$(".bars canvas"), view, look, hot);
    drawMatrix(this.$(".matrix canvas"), view, look, hot);
    if (!view.problem) this.drawPoint(view, look, hot);
    for (const name of ["curve", "squares", "sum", "methods"]) this.$(`.${name}`).classList.toggle("off", Boolean(view.problem));
    drawDoubt(this.$(".measured canvas"), data.measured, view.lambda, look);
    this.say(view, hot);
    this.controls(view);
    this.numbers(view, look);
    root.dataset.frame++;
    root.dataset.answered = fresh ? data.revision : "";
  }

  drawPoint(view, look, hot) {
    const key = `${view.needs.num_blocks}:${view.budget.join()}`, box = this.box(".slots"), sum = this.box(".area");
    if (this.curves?.key !== key) this.curves = { key, ...curvesOf(view, false) };
    if (!this.scale || this.scale.N !== view.N || (!this.dirty && this.scale.key !== key))
      this.scale = { key, N: view.N, ...scaleOf(this.curves, view.N, box, Math.min(sum.w, sum.h)) };
    clearTimeout(this.refine);
    if (!this.dirty && view.N > 64 && !this.curves.fine) {
      this.refine = setTimeout(() => { this.curves = { key, fine: true, ...curvesOf(view, true) }; this.soon(); }, 400);
    }
    const at = placed(view, this.scale, box), N = view.N, { follow } = this.fields, { paper_curve } = this.data;
    if (at.unit < this.scale.unit) this.scale = { ...this.scale, unit: at.unit };
    Object.assign(view, at, { bound: this.curves.bound, gibEnds: [view.gibOf(view.least), view.gibOf(N * view.needs.num_blocks)],
      lambdaEnds: [0.7 / N, (1.4 * N) / Math.max(1, Math.floor(N / view.needs.num_blocks)) ** 2] });
    const paper = follow === "paper" && this.data.revision === this.revision && this.data.paper_curve;
    view.lines = [{ points: paper || this.curves.even, name: paper ? "the paper's method" : "evenly", strong: follow === "balanced" || paper, above: true },
      { points: this.curves.two, name: "two-level", strong: follow === "two-level", above: false }];
    view.kept = this.data.kept.map((each) => ({ name: each.slot, points: keptCurve(each) }));
    view.answers = Object.entries(view.methods).filter(([name, each]) => !TWINS.includes(name) && each?.lambda).map(([name, each]) => ({ name, ...each }));
    const other = follow === "balanced" ? ["two-level", view.two] : ["evenly", view.even];
    view.outlines = [[other[1].lambda, `${other[0]} ${num(other[1].lambda)}`, "two"]];
    if (this.glance) view.outlines.push([this.glance, num(this.glance), "kept"]);
    const progress = this.turn ? (performance.now() - this.turn.since) / 320 : 1;
    if (progress < 1 && this.turn.sides.length === view.sides.length) {
      const eased = progress < 0.5 ? 2 * progress ** 2 : 1 - 2 * (1 - progress) ** 2;
      view.sides = view.sides.map((side, i) => this.turn.sides[i] + (side - this.turn.sides[i]) * eased);
      this.soon();
    } else this.turn = null;
    drawSquares(this.$(".slots canvas"), view, look, hot);
    this.cells = drawSum(this.$(".area canvas"), view, look, hot);
    drawCurve(this.$(".point canvas"), view, look);
  }

  turnTo(changes) { // another method: its squares grow and shrink from those of before
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.turn = { sides: this.view.sides ?? [], since: performance.now() };
    this.change(changes);
  }

  // The sentence under the lead, and the warnings.
  say(view, hot) {
    const { N, total, lambda, even } = view, { follow } = this.fields, said = [];
    if (hot?.n != null) {
      const c = view.least_popularity[hot.n], share = 100 / (c * c * lambda);
      said.push(`Client ${hot.n} (${nth(view.order.indexOf(view.part[hot.n]) + 1)} by memory): ${view.gib[view.part[hot.n]].toFixed(2)} GiB, trains ${view.blocks[hot.n].length} of ${view.needs.num_blocks} blocks; its rarest has ${c} clients, so its area is (1/${c})² = ${num(1 / (c * c))}, ${num(share)} % of Λ.`);
    } else if (hot) {
      const rarest = view.least_popularity.reduce((count, c, n) => count + (c === view.popularity[hot.m] && view.blocks[n].includes(hot.m)), 0);
      said.push(`Block ${hot.m}: trained by ${view.popularity[hot.m]} of ${N} clients; the rarest block of ${rarest} of them.`);
    } else if (!view.problem) {
      said.push("With ", ["b", `${view.gibOf(total).toFixed(1)} GiB`], ` (${once(total)} blocks) together Λ is `, ["b", num(lambda)], ".");
      if (view.preview) said.push(" The core is solving; until then, the nearest of the two in the browser.");
      else if (follow !== "balanced" || view.flips.length)
        said.push(` Evenly: ${num(even.lambda)}. Its price: clients on the rarest block of all ${even.min_popularity}\u00a0→\u00a0${view.min_popularity}, clients with one block ${even.single}\u00a0→\u00a0${view.single}.`);
      if (follow !== "exact") said.push(` No allocation of at most ${once(view.limit)} blocks is below ${num(view.limitBound)}.`);
    }
    this.$(".say").replaceChildren(...said.map((part) => (Array.isArray(part) ? Object.assign(document.createElement(part[0]), { textContent: part[1] }) : part)));
    this.warn(view);
  }

  warn(view) {
    const held = view.blocks.map((own) => own.length), over = held.findIndex((k, n) => k > view.budget[n]), warnings = [];
    if (this.lost) warnings.push(LOST);
    if (this.wrong) warnings.push(this.wrong);
    if (this.data.message) warnings.push(this.data.message);
    if (this.data.problem && view.problem) warnings.push(this.data.problem);
    const small = view.gib.length - view.N, idle = held.findIndex((k) => k === 0), unused = view.popularity.indexOf(0);
    if (small && view.N) warnings.push(`${small} ${small === 1 ? "client is" : "clients are"} too small for one block and left out.`);
    if (!view.problem && Math.min(...view.budget) === view.needs.num_blocks) warnings.push("Every client can train every block: there is nothing to trade.");
    if (!view.problem && over >= 0) warnings.push(`Client ${over} has ${held[over]} blocks and room for ${view.budget[over]}.`);
    if (!view.problem && idle >= 0) warnings.push(`Client ${idle} has no block: Λ is infinite.`);
    if (!view.problem && unused >= 0) warnings.push(`Nobody trains block ${unused}.`);
    this.$(".warn p").textContent = warnings.join(" ");
    this.$(".warn").hidden = !warnings.length;
    const rescue = small && Object.keys(this.data.rescue).length && !this.dirty;
    this.$("[data-act=rescue]").hidden = !rescue;
    if (rescue) this.$("[data-act=rescue]").textContent = `Include them: ${Object.entries(this.data.rescue).map((pair) => pair.join(" ")).join(", ")}`;
  }

  // The values of the controls, save one that is being typed in.
  controls(view) {
    const { fields } = this, usual = { ...usual_sizes(view.needs), span: span_of(fields, view.needs).map((gib) => +gib.toFixed(2)) };
    for (const input of this.root.querySelectorAll("[data-field]")) {
      const [name, part] = input.dataset.field.split("."), value = fields[name] ?? usual[name];
      if (!this.focused(input) || input.tagName === "SELECT" || input.type === "range") input.value = part ? value[part] : value;
    }
    for (const each of this.root.querySelectorAll("[data-shapes]")) each.hidden = !each.dataset.shapes.split(" ").includes(fields.shape);
    this.$("summary span").textContent = `Batch ${fields.batch}, length ${fields.length}`;
    this.$(".needs").textContent = `A client needs ${view.needs.model_gib.toFixed(2)} GiB for the model and ${view.needs.block_gib.toFixed(2)} GiB for each of the ${view.needs.num_blocks} blocks that it trains.`;
    const rows = fields.rows.length ? fields.rows : usual_rows(view.needs);
    if (!this.focused(".rows")) this.$(".rows").value = rows.map(([gib, clients]) => (clients === 1 ? `${+gib.toFixed(3)}` : `${+gib.toFixed(3)} x ${clients}`)).join(", ");
    this.$("[data-act=undo]").disabled = !this.past.length;
    this.$("[data-act=keep]").disabled = this.data.kept.length >= 4 || Boolean(view.problem);
    for (const input of this.root.querySelectorAll(".methods input")) input.checked = input.closest("tr").className === fields.follow;
  }

  // Tables, legends, and what a screen reader gets.
  numbers(view, look) {
    const { N, total, lambda } = view, where = this.$(".point"), gib = view.problem ? 0 : view.gibOf(total);
    for (const [name, most] of [["valuemin", view.least], ["valuemax", view.most], ["valuenow", view.limit ?? 0]]) where.setAttribute(`aria-${name}`, most);
    where.setAttribute("aria-valuetext", view.problem ? "no allocation" : `${gib.toFixed(1)} gibibytes, Lambda ${num(lambda)}, rarest block ${view.min_popularity} of ${N} clients`);
    const client = view.client, n = view.index[client];
    for (const [name, value] of [["valuemin", 0], ["valuemax", view.topGib], ["valuenow", view.gib[client]]]) this.$(".bars").setAttribute(`aria-${name}`, (value ?? 0).toFixed(2));
    this.$(".bars").setAttribute("aria-valuetext", `client ${n}: ${view.gib[client]?.toFixed(2)} gibibytes, room for ${view.budget[n] ?? 0} blocks, trains ${view.blocks[n]?.length ?? 0}`);
    if (view.problem) return;
    const rows = { ...view.methods, hand: view.flips.length ? view : null };
    for (const row of this.root.querySelectorAll(".methods tbody tr")) {
      const each = rows[row.className], cells = [...row.querySelectorAll("td")], none = each === null ? "none" : "…";
      row.hidden = row.className === "hand" && !each;
      row.dataset.chosen = row.className === (view.flips.length ? "hand" : this.fields.follow);
      if (row.className === "exact") row.querySelector("span").textContent = !each ? "exact" : each.bound < each.lambda * (1 - 1e-9) ? `exact: not below ${num(each.bound)}` : "exact: proven";
      const values = each?.lambda ? [num(each.lambda), once(each.min_popularity), once(each.single), num(each.mean_inverse_popularity), view.gibOf(each.total).toFixed(1)] : [none, "", "", "", ""];
      cells.forEach((cell, i) => { if (cell.textContent !== values[i]) cell.textContent = values[i]; });
    }
    this.$(".ruler").textContent = `side 1/${N > 300 ? 100 : 10} = ${num(view.unit / (N > 300 ? 100 : 10))} px`;
    const kinds = new Map();
    for (const c of view.least_popularity) kinds.set(c, (kinds.get(c) ?? 0) + 1);
    const terms = [...kinds].sort((a, b) => a[0] - b[0]).map(([c, clients]) => `${once(clients)} × (1/${c})²`);
    this.$(".terms").textContent = `${terms.length > 3 ? "" : terms.join(" + ")} = ${num(lambda)}`;
    const key = `${look.ink}${N}`;
    if (this.$(".legend").dataset.key !== key) {
      this.$(".legend").dataset.key = key;
      this.$(".legend").replaceChildren("clients on the block: ", ...legendOf(look, N).map(([hue, words]) => {
        const item = Object.assign(document.createElement("span"), { textContent: words });
        item.style.setProperty("--hue", hue);
        return item;
      }));
    }
    this.keptTable(view, gib);
    clearTimeout(this.table);
    this.table = setTimeout(() => this.readers(view, gib), 600);
  }

  keptTable(view, gib) {
    const { kept } = this.data, key = JSON.stringify([kept.map((each) => each.item), gib, view.lambda]);
    if (this.keptKey === key) return;
    this.keptKey = key;
    this.$(".kept").hidden = !kept.length;
    const all = kept.map((each) => ({ ...each, ...keptAt(each, gib) }));
    all.push({ name: "this fleet", clients: view.N, gib, even: view.even.lambda, two: view.two.lambda });
    this.$(".kept tbody").replaceChildren(...all.map((each) => {
      const row = document.createElement("tr"), cell = (text) => row.append(Object.assign(document.createElement("td"), { textContent: text }));
      cell(each.slot ? `${each.slot} · ${each.name}` : each.name);
      cell(once(each.clients));
      for (const value of [each.even, each.two]) cell(value ? num(value) : "not possible");
      cell("");
      if (each.item) row.lastChild.append(Object.assign(document.createElement("button"), { textContent: `Forget ${each.slot}`, onclick: () => this.send("forget", each.item) }));
      return row;
    }));
  }

  // 600 ms after the last change: the polite sentence, and the table if it is open.
  readers(view, gib) {
    const words = `${gib.toFixed(1)} gibibytes, Lambda ${num(view.lambda)}`;
    if (this.$(".live").textContent !== words) this.$(".live").textContent = words;
    if (!this.$(".all").open) return;
    this.$(".all tbody").replaceChildren(...view.clients.slice(0, 2000).map((n) => {
      const row = document.createElement("tr"), c = view.least_popularity[n];
      for (const text of [n, view.gib[view.part[n]].toFixed(2), view.blocks[n].join(" "), c, num(1 / (c * c))]) row.append(Object.assign(document.createElement("td"), { textContent: text }));
      return row;
    }));
  }

  // --- hand and keys ----------------------------------------------------------------------------------------------------
  focused(what) {
    const { activeElement } = this.root.getRootNode();
    return typeof what === "string" ? activeElement?.matches(what) : activeElement === what;
  }

  point(target) { // the hot client or block
    if (JSON.stringify(target) === JSON.stringify(this.hot) || this.pinned) return;
    this.hot = target;
    this.soon();
  }

  drag(selector, start, step) {
    const place = this.$(selector), at = (event) => { const box = place.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let held = null;
    place.addEventListener("pointerdown", (event) => {
      if (event.button || !this.view) return;
      this.turn = this.hot = null;
      place.setPointerCapture(event.pointerId);
      this.settle();
      held = start(...at(event), event);
      if (held !== null) step(held, ...at(event));
    });
    place.addEventListener("pointermove", (event) => { if (held !== null) step(held, ...at(event)); });
    const end = () => { if (held !== null) this.commit(); held = null; };
    place.addEventListener("pointerup", end);
    place.addEventListener("pointercancel", end);
  }

  hover(selector, find) {
    const place = this.$(selector);
    place.addEventListener("pointermove", (event) => {
      const box = place.getBoundingClientRect();
      if (!event.buttons && this.view && !this.view.problem) this.point(find(event.clientX - box.left, event.clientY - box.top));
    });
    place.addEventListener("pointerleave", () => this.point(null));
  }

  listen() {
    const { root, $ } = this, wide = () => columns(this.box(".bars").w, this.view.order.length);
    this.drag(".point", () => 0, (_, x) => {
      const { w, h } = this.box(".point"), { gibAt } = curveAxes(w, h, this.view), { N, needs } = this.view;
      this.setTotal(Math.round((gibAt(x) - N * needs.model_gib) / needs.block_gib));
    });
    $(".point").addEventListener("pointermove", (event) => {
      if (event.buttons || !this.view || this.view.problem) return;
      const { w, h } = this.box(".point"), gib = curveAxes(w, h, this.view).gibAt(event.clientX - $(".point").getBoundingClientRect().left);
      this.glance = this.view.lines.find((each) => each.strong)?.points.findLast(([total]) => this.view.gibOf(total) <= gib)?.[1];
      this.soon();
    });
    $(".point").addEventListener("pointerleave", () => { this.glance = null; this.soon(); });
    this.drag(".bars", (x, y) => {
      const end = this.view.handles?.findIndex((gib, i) => Math.hypot(x - (i ? this.box(".bars").w - 48 : 30), y - this.barScale.y(gib)) < 16) ?? -1;
      return end >= 0 ? { end } : { last: wide().at(x), height: y };
    }, (held, x, y) => {
      if (held.end !== undefined) return this.setEnd(held.end, this.barScale.gibAt(y), "move");
      const to = wide().at(x), steps = Math.max(1, Math.abs(to - held.last)), changes = [];
      for (let i = 0; i <= steps; i++) { // the columns that a fast hand skipped
        const column = held.last + Math.round(((to - held.last) * i) / steps), client = this.view.order[column];
        if (client !== undefined) changes.push([client, this.barScale.gibAt(held.height + ((y - held.height) * i) / steps)]);
      }
      Object.assign(held, { last: to, height: y });
      if (changes.length) { this.client = changes.at(-1)[0]; this.setBars(changes, "move"); }
    });
    const client = (x) => { const n = this.view.index[this.view.order[wide().at(x)]]; return n >= 0 ? { n } : null; };
    const block = (y) => clamp(Math.floor((y * this.view.needs.num_blocks) / this.box(".matrix").h), 0, this.view.needs.num_blocks - 1);
    this.hover(".bars", client);
    this.hover(".matrix", (_, y) => ({ m: block(y) }));
    this.hover(".slots", (x, y) => { const i = this.view.spots.findIndex(([left, top], j) => x >= left && y >= top && x <= left + Math.max(8, this.view.sides[j]) && y <= top + Math.max(8, this.view.sides[j])); return i < 0 ? null : { n: this.view.clients[i] }; });
    this.hover(".area", (x, y) => { const cell = this.cells?.find(([left, top, w, h]) => x >= left && x < left + w && y >= top && y < top + h); return cell ? { n: cell[4] } : null; });
    $(".matrix").addEventListener("click", (event) => {
      const box = $(".matrix").getBoundingClientRect(), at = this.view?.problem ? null : client(event.clientX - box.left);
      if (at) this.flip(block(event.clientY - box.top), at.n);
    });
    for (const place of [".slots", ".area"]) $(place).addEventListener("click", () => { this.pinned = Boolean(this.hot) && !this.pinned; });
    this.keys();
    for (const input of root.querySelectorAll("[data-field]")) {
      input.addEventListener(input.type === "range" ? "input" : "change", () => this.typed(input));
      if (input.type === "range") input.addEventListener("change", () => this.commit());
    }
    $(".rows").addEventListener("change", () => this.send("file", { name: "numbers.txt", text: $(".rows").value, at: ++this.asked }));
    $(".file").addEventListener("change", async () => {
      const [file] = $(".file").files;
      if (!file) return;
      const bytes = new Uint8Array(await file.arrayBuffer());
      let binary = "";
      for (let i = 0; i < bytes.length; i += 8192) binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
      this.send("file", { name: file.name, base64: btoa(binary), at: ++this.asked });
    });
    $(".note a")?.addEventListener("click", (event) => { if (this.place) { event.preventDefault(); this.place.visit(event.target.href); } });
    const acts = { draw: () => this.setFleet({ seed: this.fields.seed + 1, bars: [] }), undo: () => this.back(), rescue: () => this.setFleet(this.data.rescue),
      paper: () => this.setFleet({ ...this.data.defaults, model: this.fields.model, follow: this.fields.follow }), keep: () => this.send("keep", ++this.asked),
      less: () => this.step(-1), more: () => this.step(1) };
    for (const button of root.querySelectorAll("[data-act]")) button.addEventListener("click", () => acts[button.dataset.act]());
    root.addEventListener("transitionend", (event) => { if (event.target === root) this.soon(); }); // another theme
    $(".all").addEventListener("toggle", () => this.soon());
  }

  back() {
    this.settle();
    if (!this.past.length) return;
    this.fields = this.past.pop();
    this.was = structuredClone(this.fields);
    this.commit();
  }

  step(blocks) {
    if (this.frame) this.now();
    this.setBars([[this.client, (this.view.gib[this.client] ?? 0) + blocks * this.view.needs.block_gib]], "later");
  }

  // A control was changed: a number out of range is named and not used.
  typed(input) {
    const [name, part] = input.dataset.field.split("."), { fields, view } = this, label = input.closest("label").querySelector("span").textContent;
    let value = input.tagName === "SELECT" ? input.value : Number(input.value);
    this.wrong = "";
    if (!input.checkValidity() || input.value === "") this.wrong = `${label} is ${input.value || "no number"}; it must be from ${input.min} to ${input.max}. The former value is used.`;
    const pair = part && { span: span_of(fields, view.needs), cuts: fields.cuts }[name].slice();
    if (pair) value = Object.assign(pair, { [part]: value });
    if (pair && value[0] > value[1]) this.wrong = `${label}: the first is above the second. The former value is used.`;
    if (this.wrong) { input.value = ""; input.blur(); return this.soon(); }
    const model = name === "model" ? OF_MODEL : {}, drawn = ["shape", "clients", "mix"].includes(name) ? { bars: [] } : {};
    this.setFleet({ ...model, ...drawn, [name]: value }, input.type === "range" ? "move" : "change");
  }

  keys() {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }, on = (selector, act) =>
      this.$(selector).addEventListener("keydown", (event) => {
        if (!this.view || event.ctrlKey || event.metaKey || event.altKey) return;
        if (this.frame) this.now();
        if (act(event) !== false) event.preventDefault();
      });
    on(".point", ({ key }) => {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity }[key];
      return by === undefined ? false : this.setTotal(this.view.limit + by, "later");
    });
    on(".bars", ({ key, shiftKey }) => {
      if (key === "Enter") { this.pinned = !this.pinned; return this.soon(); }
      if (!arrows[key]) return false;
      const [across, up] = arrows[key], { order, needs, gib } = this.view, { block_gib } = needs;
      if (across) this.client = order[clamp(order.indexOf(this.view.client) + across, 0, order.length - 1)];
      else if (shiftKey) this.setBars(order.map((n) => [n, gib[n] + up * block_gib]), "later");
      else this.step(up);
      if (!this.pinned) this.hot = this.view.index[this.client] >= 0 ? { n: this.view.index[this.client] } : null;
      this.soon();
    });
    on(".matrix", ({ key }) => {
      const { clients, needs, place, problem } = this.view, [m, n] = this.cell ?? [0, clients[0]];
      if (problem || !(key in arrows || key === " " || key === "Enter")) return false;
      if (key === " " || key === "Enter") return this.cell && this.flip(m, n);
      const [across, up] = this.cell ? arrows[key] : [0, 0], at = clients.indexOf(n);
      this.cell = [clamp(m - up, 0, needs.num_blocks - 1), clients[clamp(at + across, 0, clients.length - 1)]];
      this.$(".live").textContent = `block ${this.cell[0]}, client ${this.cell[1]}: ${this.view.blocks[this.cell[1]].includes(this.cell[0]) ? "trained" : "not trained"}`;
      this.soon();
    });
    this.$(".matrix").addEventListener("blur", () => { this.cell = null; this.soon(); });
    this.$(".bars").addEventListener("focus", () => this.soon());
    this.$(".bars").addEventListener("blur", () => { if (!this.pinned) this.hot = null; this.soon(); });
    this.root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { Object.assign(this, { pinned: false, hot: null }); this.soon(); }
      if (event.key === "z" && (event.ctrlKey || event.metaKey) && !event.target.matches("input, textarea")) { event.preventDefault(); this.back(); }
    });
  }
}

// A kept fleet's curve as [GiB, Lambda], and its Lambda with some GiB.
const curves = new Map();
function keptCurve({ item, budget, needs, clients }) {
  const view = { budget, needs, N: clients, least: Math.max(clients, needs.num_blocks), most: budget.reduce((a, b) => a + b, 0) };
  if (!curves.has(item)) curves.set(item, curvesOf(view, false).even.map(([total, lambda]) => [clients * needs.model_gib + total * needs.block_gib, lambda]));
  return curves.get(item);
}

function keptAt({ budget, needs, clients }, gib) {
  const most = budget.reduce((a, b) => a + b, 0), asked = Math.floor((gib - clients * needs.model_gib) / needs.block_gib + 1e-6);
  if (asked < Math.max(clients, needs.num_blocks)) return {};
  const total = Math.min(asked, most), lambda = (blocks) => measures(blocks, needs.num_blocks).lambda;
  return { even: lambda(balanced(budget, needs.num_blocks, total)), two: lambda(closest_two_level(budget, needs.num_blocks, total)) };
}

const pages = new WeakMap();

const shown = new Map(); // in a notebook, by session: a second view would draw its fleet with the answers for the first one's

// A notebook's widget (anywidget): `model` has `html` and `data`, and gets events. In a shadow root, so that the notebook's
// style and this one stay apart; the notebook gets no keys from it, where "0 0" would restart the kernel.
function render({ model, el }) {
  const host = el.appendChild(document.createElement("div")), shadow = host.attachShadow({ mode: "open" });
  host.style.padding = "4px"; // the ring of the focus, which a cell's edge would cut
  host.dataset.lmSuppressShortcuts = "true";
  host.addEventListener("keydown", (event) => event.stopPropagation());
  shadow.innerHTML = model.get("html");
  shadow.querySelector(".note a").replaceWith("notebook 03");
  const page = new Explore(shadow.querySelector(".explore"), (event, value) => model.send({ event, value })), { session } = model.get("data");
  const answered = () => page.update(model.get("data")), leave = () => { model.off("change:data", answered); page.close(); };
  shown.get(session)?.();
  shown.set(session, () => { leave(); host.replaceWith("This is now shown in another view."); });
  model.on("change:data", answered);
  answered();
  return leave;
}

// What the page does with Streamlit's: the address, whether the server is there, and going to an address. Streamlit listens
// to Back alone (popstate); on that it executes the page of the address anew, also in a session that it has just begun.
const PLACE = {
  write(how, query) {
    const before = location.search.slice(1), after = query(before);
    if (after !== before) history[how]({}, "", location.pathname + (after && `?${after}`));
  },
  onBack(act) {
    const { pathname } = location;
    const listen = (event) => { if (event.isTrusted && location.pathname === pathname) act(location.search.slice(1)); };
    addEventListener("popstate", listen);
    return () => removeEventListener("popstate", listen);
  },
  alive: async () => (await fetch(new URL("_stcore/health", document.baseURI), { cache: "no-store", signal: AbortSignal.timeout(2000) })).ok,
  visit(url) {
    if (url) history.pushState({}, "", url);
    dispatchEvent(new PopStateEvent("popstate"));
  },
};

export default function explore(component) {
  if (!component) return { render };
  const { parentElement, data, setStateValue, setTriggerValue } = component;
  const send = (name, value) => (name === "state" ? setStateValue : setTriggerValue)(name, value);
  if (!pages.has(parentElement)) pages.set(parentElement, new Explore(parentElement.querySelector(".explore"), send, PLACE));
  pages.get(parentElement).update(data);
  return () => { pages.get(parentElement)?.close(); pages.delete(parentElement); };
}
