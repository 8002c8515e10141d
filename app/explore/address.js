// The part of an address after "?": the twin of app.scenario.Scenario.query. The page writes it at the moment of a move;
// the server hears of the move later, so what it wrote could be the state before.

const LONGEST = 1500; // characters of one parameter

const wordOf = (value) => {
  if (typeof value === "number") return String(+value.toPrecision(10));
  return Array.isArray(value) ? value.map((item) => (Array.isArray(item) ? item.map(wordOf).join("x") : wordOf(item))).join(",") : value;
};

// `before`: an address whose other parameters stay. Fields that have their default are left out.
export function address_of(fields, defaults, compared, before = "") {
  const query = new URLSearchParams(before);
  for (const name of [...Object.keys(defaults), "compared", "unit", "methods"]) query.delete(name); // two were in older links
  for (const [name, usual] of Object.entries(defaults)) {
    const value = fields[name], word = value === null ? "" : wordOf(value), older = name === "spend" && fields.total !== null;
    if (!older && word !== (usual === null ? "" : wordOf(usual)) && word.length <= LONGEST) query.append(name, word);
  }
  for (const item of compared) query.append("compared", item);
  return query.toString();
}
