// The curves of the picture: an eye each. What is hidden shows at once here; Python is told and redraws the picture.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = {
  solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3",
};
const SHAPES = {
  circle: "M11 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", square: "M11.5 2.5h7v7h-7z", diamond: "M15 1l5 5-5 5-5-5z",
  "triangle-up": "M15 1.5l4.5 8h-9z", cross: "M13.5 2h3v2.5H19v3h-2.5V10h-3V7.5H11v-3h2.5z",
  x: "M11.5 4l2-2 1.5 1.5L16.5 2l2 2-1.5 2 1.5 2-2 2-1.5-1.5L13.5 10l-2-2 1.5-2z",
  star: "M15 .5l1.5 3.7 4 .3-3 2.6 1 3.9-3.5-2.1-3.5 2.1 1-3.9-3-2.6 4-.3z",
};
const EYE = "M1 9s3-5.5 8-5.5S17 9 17 9s-3 5.5-8 5.5S1 9 1 9z";

export default function ({ data, parentElement, setStateValue }) {
  const root = (parentElement.zorba ??= { hidden: new Set() });
  root.hidden = new Set(data.entries.filter((entry) => entry.hidden).map((entry) => entry.id));
  const tell = () => {
    paint();
    setStateValue("asked", { turn: Date.now(), hidden: [...root.hidden] });
  };
  const box = element("div", "list");
  for (const [name, value] of Object.entries(data.colors)) box.style.setProperty(`--${name}`, value);
  const head = element("div", "head"), title = element("b"), all = element("button"), none = element("button");
  all.textContent = "Show all";
  none.textContent = "Hide all";
  all.addEventListener("click", () => { root.hidden = new Set(); tell(); });
  none.addEventListener("click", () => { root.hidden = new Set(data.entries.map((entry) => entry.id)); tell(); });
  head.append(title, all, none);
  const list = element("ul");
  list.style.maxHeight = `${Math.max(140, data.height - 40)}px`;
  const rows = data.entries.map((entry) => {
    const row = element("li"), button = element("button");
    const name = element("span", "name"), value = element("span", "value");
    name.textContent = entry.name;
    value.textContent = entry.value;
    const eye = drawn(18, 18, [["path", { d: EYE, fill: "none", stroke: "currentColor", "stroke-width": 1.4 }],
      ["circle", { cx: 9, cy: 9, r: 2.4, fill: "currentColor" }]]);
    const line = drawn(30, 12, [
      ["path", { d: "M0 6h30", stroke: entry.color, "stroke-width": 2.2, "stroke-dasharray": DASHES[entry.dash] ?? "" }],
      ["path", { d: SHAPES[entry.symbol] ?? SHAPES.circle, fill: entry.color }],
    ]);
    line.setAttribute("class", "line");
    button.append(eye, line, name, value);
    button.addEventListener("click", () => {
      root.hidden.has(entry.id) ? root.hidden.delete(entry.id) : root.hidden.add(entry.id);
      tell();
    });
    row.append(button);
    list.append(row);
    return [entry, row, button, eye];
  });
  function paint() {
    title.textContent = root.hidden.size
      ? `${data.entries.length - root.hidden.size} of ${data.entries.length} curves`
      : `${data.entries.length} curve${data.entries.length === 1 ? "" : "s"}`;
    for (const [entry, row, button, eye] of rows) {
      const hidden = root.hidden.has(entry.id);
      row.className = hidden ? "off" : "";
      button.setAttribute("aria-pressed", String(!hidden));
      button.setAttribute("aria-label", `${entry.name}: ${hidden ? "hidden, show it" : "shown, hide it"}`);
      button.title = hidden ? "Show this curve" : "Hide this curve";
      eye.querySelector("circle").setAttribute("visibility", hidden ? "hidden" : "visible");
      eye.style.opacity = hidden ? ".55" : "1";
    }
  }
  paint();
  box.append(head, list);
  const place = parentElement.querySelector("#curves");
  const at = place.querySelector("ul")?.scrollTop ?? 0;
  const active = [...place.querySelectorAll("button")].indexOf(place.getRootNode().activeElement);
  place.replaceChildren(box);
  list.scrollTop = at;
  if (active >= 0) place.querySelectorAll("button")[active]?.focus();
}

function drawn(width, height, parts) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("width", width);
  picture.setAttribute("height", height);
  picture.setAttribute("aria-hidden", "true");
  for (const [tag, attributes] of parts) {
    const part = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    picture.append(part);
  }
  return picture;
}

function element(tag, kind = "") {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  return made;
}
