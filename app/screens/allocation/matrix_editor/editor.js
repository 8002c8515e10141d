// Blocks by clients, one cell to a click or a key. A change shows at once; Python is told and its answer replaces it.
//
// What is sent is the list of operations that Python has not confirmed yet, each with a rising id, so that a click
// made while the page is still busy with the last one is neither lost nor counted twice.

const LEGEND = [
  ["cell on", "trains"], ["cell added", "added by you"], ["cell removed", "taken away by you"],
  ["capacity", "VRAM, free"], ["parameters", "model parameters"], ["excess", "does not fit"],
  ["limit", "limit at this point"],
];

export default function ({ data, parentElement, setStateValue }) {
  const root = (parentElement.zorba ??= { pending: [], here: [0, 0], shown: null });
  root.send = (operation) => {
    const last = root.pending.length ? root.pending[root.pending.length - 1].id : root.data.applied;
    root.pending.push({ id: Math.max(last, root.data.applied) + 1, ...operation });
    setStateValue("operations", [...root.pending]);
  };
  root.data = data;
  root.pending = root.pending.filter((operation) => operation.id > data.applied);
  if (root.shown !== data.shape) build(root, parentElement, data);
  root.rows = data.rows.map((row) => [...row].map((cell) => cell === "1"));
  root.popularity = [...data.popularity];
  for (const { kind, block, column } of root.pending) if (kind === "toggle") flip(root, block, column);
  for (const [name, value] of Object.entries(data.colors)) root.box.style.setProperty(`--${name}`, value);
  paint(root);
}

function build(root, parentElement, data) {
  root.shown = data.shape;
  root.under = null;
  const M = data.rows.length, N = data.clients.length;
  const box = element("div", "editor");
  root.box = box;
  root.cells = []; root.sides = []; root.bars = []; root.feet = [];
  const legend = element("div", "legend", { "aria-hidden": "true" });
  for (const [kind, words] of LEGEND) {
    const item = element("span");
    item.append(element("i", kind), words);
    legend.append(item);
  }
  const grid = element("div", "grid", {
    role: "grid", tabindex: "0", "aria-rowcount": M, "aria-colcount": N, "aria-label": data.label,
    "aria-multiselectable": "true",
  });
  grid.style.gridTemplateColumns = `max-content repeat(${N}, minmax(${N > 30 ? 13 : 18}px, ${N > 30 ? "1fr" : "34px"}))`;
  grid.style.setProperty("--cell", `${M > 30 ? 14 : M > 16 ? 17 : 20}px`);
  grid.append(side("head vram", "VRAM"));
  for (let n = 0; n < N; n++) {
    const bar = element("div", "bar");
    for (const part of ["capacity", "blocks", "excess", "parameters", "limit", "sign"]) bar.append(element("div", part));
    root.bars.push(bar);
    grid.append(bar);
  }
  for (let m = 0; m < M; m++) {
    const row = element("div", "row", { role: "row" });
    const label = element("div", "side", { role: "rowheader" });
    const track = element("div", "track");
    track.append(element("div", "fill"));
    label.append(element("span", "name"), element("span", "count"), track);
    label.firstChild.textContent = `block ${m}`;
    root.sides.push(label);
    row.append(label);
    root.cells.push([]);
    for (let n = 0; n < N; n++) {
      const cell = element("div", "cell", { role: "gridcell", id: `cell-${m}-${n}`, "data-at": `${m},${n}` });
      root.cells[m].push(cell);
      row.append(cell);
    }
    grid.append(row);
  }
  grid.append(side("head", "least popularity"));
  for (let n = 0; n < N; n++) {
    const foot = element("div", "foot");
    root.feet.push(foot);
    grid.append(foot);
  }
  root.grid = grid;
  root.here = [Math.min(root.here[0], M - 1), Math.min(root.here[1], N - 1)];
  const scroll = element("div", "scroll");
  scroll.append(grid);
  root.says = element("div", "says");
  root.live = element("div", "hidden", { "aria-live": "polite" });
  root.tip = element("div", "tip", { "aria-hidden": "true" });
  box.append(legend, scroll, root.says, root.live, root.tip);
  parentElement.querySelector("#matrix").replaceChildren(box);

  const place = (event) => event.target.dataset?.at?.split(",").map(Number);
  grid.addEventListener("click", (event) => {
    const at = place(event);
    if (!at) return;
    root.here = at;
    grid.classList.remove("keys");
    toggle(root);
  });
  grid.addEventListener("pointerover", (event) => { const at = place(event); if (at) describe(root, at); });
  grid.addEventListener("pointermove", (event) => beside(root, event, place(event)));
  grid.addEventListener("pointerleave", () => { root.under = null; tell(root); describe(root, null); });
  grid.addEventListener("focus", () => describe(root, root.here));
  grid.addEventListener("keydown", (event) => pressed(root, event));
}

// What the line below the matrix says, in short and beside the pointer: with many blocks that line is out of sight.
function beside(root, event, at) {
  root.under = event.pointerType !== "touch" ? at : null;
  tell(root);
  const frame = root.box.getBoundingClientRect(), wide = root.tip.offsetWidth;
  const x = event.clientX - frame.left, y = event.clientY - frame.top;
  root.tip.style.left = `${Math.max(0, Math.min(x + 14, frame.width - wide))}px`;
  root.tip.style.top = `${y + 18}px`;
}

function tell(root) {
  const client = root.under && root.data.clients[root.under[1]];
  root.tip.style.display = client ? "block" : "none";
  if (!client) return;
  const [m, n] = root.under, held = root.rows.reduce((sum, row) => sum + row[n], 0);
  root.tip.textContent =
    `${client.name} · block ${m}: ${root.rows[m][n] ? "trains it" : "does not"} · ${root.popularity[m]} of ` +
    `${root.data.total} clients do · holds ${held} of ${client.most}`;
}

function pressed(root, event) {
  const M = root.cells.length, N = root.cells[0].length, [m, n] = root.here;
  const moves = {
    ArrowUp: [m - 1, n], ArrowDown: [m + 1, n], ArrowLeft: [m, n - 1], ArrowRight: [m, n + 1],
    Home: [m, 0], End: [m, N - 1], PageUp: [0, n], PageDown: [M - 1, n],
  };
  if (event.key in moves) {
    const [down, along] = moves[event.key];
    root.here = [Math.min(Math.max(down, 0), M - 1), Math.min(Math.max(along, 0), N - 1)];
    root.grid.classList.add("keys");
    mark(root);
    describe(root, root.here);
    root.cells[root.here[0]][root.here[1]].scrollIntoView({ block: "nearest", inline: "nearest" });
  } else if (event.key === " " || event.key === "Enter") {
    toggle(root);
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    root.send({ kind: event.shiftKey ? "redo" : "undo" });
  } else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "y") {
    root.send({ kind: "redo" });
  } else {
    return;
  }
  event.preventDefault();
}

function toggle(root) {
  const [m, n] = root.here;
  flip(root, m, n);
  paint(root);
  describe(root, root.here);
  const { name } = root.data.clients[n];
  root.live.textContent =
    `${name} ${root.rows[m][n] ? "now trains" : "no longer trains"} block ${m}, popularity ${root.popularity[m]}`;
  root.send({ kind: "toggle", block: m, column: n, client: root.data.clients[n].index });
}

function flip(root, m, n) {
  if (!(m in root.rows) || !(n in root.rows[m])) return;
  root.rows[m][n] = !root.rows[m][n];
  root.popularity[m] += root.rows[m][n] ? 1 : -1;
}

function paint(root) {
  const { data, rows, popularity } = root;
  const least = Math.min(...popularity), most = Math.max(1, ...popularity);
  // Where half of the blocks are the scarcest, pointing at them says nothing.
  const uneven = popularity.filter((count) => count === least).length <= popularity.length / 2;
  popularity.forEach((count, m) => {
    const label = root.sides[m];
    label.className = `side${count === 0 ? " empty" : uneven && count === least ? " least" : ""}`;
    label.children[1].textContent = count;
    label.children[2].firstChild.style.width = `${(100 * count) / most}%`;
    rows[m].forEach((on, n) => {
      const was = data.base[m][n] === "1", cell = root.cells[m][n];
      const kind = `cell${on ? " on" : ""}${on && !was ? " added" : ""}${!on && was ? " removed" : ""}`;
      const label = `block ${m}, ${data.clients[n].name}, ${on ? "trains" : "does not train"}`;
      if (cell.className !== kind) cell.className = kind;
      if (cell.ariaLabel === label) return; // most cells stay as they are, and there may be thousands
      cell.setAttribute("aria-selected", on);
      cell.setAttribute("aria-label", label);
    });
  });
  const largest = Math.max(...data.clients.map((client) => client.capacity)), tallest = largest * 1.12;
  root.box.querySelector(".vram").textContent = `VRAM, up to ${largest.toFixed(2)} GiB`;
  data.clients.forEach((client, n) => {
    const held = rows.reduce((sum, row) => sum + row[n], 0), used = data.parameters + held * data.block;
    const high = (gib) => `${(100 * Math.min(gib, tallest)) / tallest}%`;
    const [capacity, blocks, excess, parameters, limit, sign] = root.bars[n].children;
    const fits = held <= client.most;
    capacity.style.height = high(client.capacity);
    blocks.style.height = high(Math.min(used, client.capacity));
    parameters.style.height = high(data.parameters);
    excess.style.bottom = high(client.capacity);
    excess.style.height = fits ? "0" : `calc(${high(used)} - ${high(client.capacity)})`;
    limit.style.bottom = high(data.parameters + client.budget * data.block);
    limit.style.display = client.budget < client.most ? "block" : "none";
    sign.textContent = fits ? "" : "!";
    const scarce = Math.min(Infinity, ...rows.flatMap((row, m) => (row[n] ? [popularity[m]] : [])));
    root.feet[n].textContent = Number.isFinite(scarce) ? scarce : "✕";
    root.feet[n].className = `foot${!Number.isFinite(scarce) ? " none" : scarce === least && uneven ? " least" : ""}`;
  });
  mark(root);
  describe(root, root.last ?? null);
  tell(root);
}

function mark(root) {
  root.grid.querySelector(".here")?.classList.remove("here");
  const cell = root.cells[root.here[0]][root.here[1]];
  cell.classList.add("here");
  root.grid.setAttribute("aria-activedescendant", cell.id);
}

function describe(root, at) {
  root.last = at;
  if (!at || !root.data.clients[at[1]]) {
    const hint = element("span", "quiet");
    hint.textContent = root.data.hint;
    root.says.replaceChildren(hint);
    return;
  }
  const [m, n] = at, client = root.data.clients[n], held = root.rows.reduce((sum, row) => sum + row[n], 0);
  const used = root.data.parameters + held * root.data.block;
  const room = client.most - held;
  const verdict = room < 0 ? `${-room} more than fit` : room === 0 ? "full" : `room for ${room} more`;
  const bold = element("b");
  bold.textContent = `${client.name} · block ${m}: ${root.rows[m][n] ? "trains it" : "does not train it"}.`;
  root.says.replaceChildren(
    bold,
    ` ${root.popularity[m]} of ${root.data.total} clients train block ${m}. ${client.name} holds ${held} ` +
      `block${held === 1 ? "" : "s"}, ${used.toFixed(2)} of ${client.capacity.toFixed(2)} GiB: ${verdict}.`,
  );
}

function side(kind, words) {
  const label = element("div", `side ${kind}`);
  label.textContent = words;
  return label;
}

function element(tag, kind = "", attributes = {}) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
