"use strict";
// What is shown, found and told. Whatever comes from the data is put on the page as text, never as HTML.

const dark = matchMedia("(prefers-color-scheme: dark)");
const state = { colouring: COLOURING, hits: null, hit: -1, chosen: null, linked: true, step: steps.length, marks: null, gone: null };

const legends = {
  cost: () => [["ramp", "", `0 to ${dearest.toPrecision(3)}, by its square root`]],
  kind: () => ["operator", "variable", "constant", "other"].map(kind => ["", colours[kind], kind]),
  rule: () => [
    ...ruleNames.slice(0, PALETTE).map(rule => ["", ruleColour(rule), rule, ruleMark(rule)]),
    ...rest(),
    ...SAME.filter(same => uses.has(same)).map(same => ["", colours.cool, same === "input" ? "as it was" : same]),
  ],
};

/** What is said of the colour that rules share. */
function rest() {
  const more = ruleNames.length > PALETTE ? [`${ruleNames.length - PALETTE} more rules`] : [];
  const told = [...more, ...(uses.has(UNKNOWN) ? ["rules not named"] : [])].join(", ");
  return told ? [["", colours.rest, told]] : [];
}

function swatch([kind, colour, told, mark = ""]) {
  const box = make("i", { className: kind, textContent: mark });
  if (colour) box.style.background = colour;
  return make("span", {}, box, told);
}

const views = [...document.querySelectorAll("figure.graph")].map((figure, index) => new View(figure, index));
const redraw = () => views.forEach(view => view.width && view.draw());

// ---- the chosen node

function title(view, node) {
  const graph = graphs[view];
  const name = graph.say("name", node);
  return graph.text(node)[0] + (name ? `  ${name}` : "");
}

/** The node of the other graph that is proved equal to one. */
function partnerOf(chosen) {
  const node = chosen ? graphs[chosen.view].partner?.[chosen.node] ?? -1 : -1;
  return node < 0 ? null : { view: 1 - chosen.view, node };
}

function choose(view, node) {
  state.chosen = node < 0 ? null : { view, node };
  tell();
  redraw();
}

function goTo(view, node) {
  choose(view, node);
  views[view].show(node);
  const partner = partnerOf(state.chosen);
  if (partner && state.linked) {
    views[partner.view].scale = views[view].scale;
    views[partner.view].show(partner.node);
  }
}

function link(view, node) {
  return make("button", { type: "button", textContent: title(view, node), onclick: () => goTo(view, node) });
}

/** What is told of the rule that made or removed a node. */
function ruleRow(view, node) {
  if (view || !graphs[0].gone) return [RULE, graphs[view].say("rule", node)];
  return given[0].gone[node] ? ["removed by", graphs[0].say("rule", node)] : ["", ""];
}

function tell() {
  const panel = byId("details");
  if (!state.chosen) {
    panel.replaceChildren(make("p", { textContent: "Choose a node to see its type, its cost and what it is connected to." }));
    return;
  }
  const { view, node } = state.chosen;
  const graph = graphs[view];
  const rows = [
    ["graph", NAMES[view]],
    ["type", graph.say("type", node)],
    ["attributes", graph.text(node).slice(1).join("\n")],
    ["constants", graph.say("constants", node)],
    ["cost", graph.cost[node] === null ? "" : graph.cost[node].toPrecision(5)],
    ruleRow(view, node),
    ["takes", graph.inputs[node].map(source => link(view, source))],
    ["goes to", graph.outputs[node].map(target => link(view, target))],
  ];
  const partner = partnerOf(state.chosen);
  const other = graphs[1 - view]?.named.get(graph.say("name", node));
  if (partner) rows.push([`${RULE === "made by" ? "same value" : "equal to"}, in ${NAMES[partner.view]}`, [link(partner.view, partner.node)]]);
  else if (other !== undefined) rows.push([`same name, in ${NAMES[1 - view]}`, [link(1 - view, other)]]);
  const list = make("dl");
  for (const [name, value] of rows) {
    if (value.length) list.append(make("dt", { textContent: name }), make("dd", {}, ...(Array.isArray(value) ? value : [value])));
  }
  panel.replaceChildren(make("h3", { textContent: title(view, node) }), list, ...choices(graph.class?.[node] ?? -1));
}

/** The e-nodes of a node's class: what else was found for its value, and what each would cost. */
function choices(index) {
  const found = graphs[0].classes?.[index];
  if (!found) return [];
  const show = cost => (cost === null ? "much" : Number(cost.toPrecision(4)).toLocaleString("en"));
  const cell = (textContent, className = "") => make("td", { textContent, className });
  const rows = found.map(([told, own, besides, chosen]) => {
    const row = make("tr", {}, cell(chosen ? "chosen" : ""), cell(show(own), "number"), cell(show(besides), "number"), cell(told, "told"));
    row.className = chosen ? "chosen" : "";
    return row;
  });
  const heads = ["", "own cost", "cost of what it needs besides", "equal ways to compute it"].map((textContent, at) => make("th", { textContent, scope: "col", className: at % 3 ? "number" : "" }));
  return [make("div", { className: "choices" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)))];
}

// ---- search

const SHOWN = 200;

function search(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  state.hits = wanted.length ? [] : null;
  state.hit = -1;
  if (wanted.length) {
    graphs.forEach((graph, view) => {
      for (let node = 0; node < graph.count; node++) {
        const told = graph.haystack(node);
        if (wanted.every(word => told.includes(word))) state.hits.push({ view, node });
      }
    });
  }
  listHits();
  redraw();
}

function listHits() {
  const hits = state.hits ?? [];
  document.querySelector(".found").hidden = !state.hits;
  const more = hits.length > SHOWN ? `, the first ${SHOWN} are listed` : "";
  const count = view => hits.filter(hit => hit.view === view).length;
  const counts = NAMES.map((name, view) => (view ? `${count(view)} ${name}` : `${count(view)} found${NAMES.length > 1 ? ` ${name}` : ""}`));
  byId("found").textContent = counts.join(", ") + more;
  byId("hits").replaceChildren(...hits.slice(0, SHOWN).map((hit, index) => {
    const button = make("button", { type: "button", textContent: `${NAMES[hit.view]}: ${title(hit.view, hit.node)}  ${graphs[hit.view].say("type", hit.node)}` });
    button.onclick = () => goToHit(index);
    return make("li", {}, button);
  }));
}

function goToHit(index) {
  const count = state.hits?.length ?? 0;
  if (!count) return;
  byId("hits").querySelector("[aria-current]")?.removeAttribute("aria-current");
  state.hit = (index + count) % count;
  const button = byId("hits").children[state.hit]?.firstChild;
  button?.setAttribute("aria-current", "true");
  button?.scrollIntoView({ block: "nearest" });
  goTo(state.hits[state.hit].view, state.hits[state.hit].node);
}

byId("search").addEventListener("input", event => search(event.target.value));
byId("search").addEventListener("keydown", event => {
  if (event.key === "Enter") goToHit(state.hit + (event.shiftKey ? -1 : 1));
  if (event.key === "Escape") { event.target.value = ""; search(""); }
});

// ---- colouring

function colourBy(name) {
  state.colouring = name;
  byId("legend").replaceChildren(...legends[name]().map(swatch), ...(graphs[0].gone?.some(Boolean) ? [swatch(["gone", "", "removed"])] : []),
    ...(state.marks ? [swatch(["minus", "", "removed by this step"]), swatch(["plus", "", "added by this step"])] : []));
  redraw();
}

byId("colouring").value = state.colouring;
byId("colouring").addEventListener("change", event => colourBy(event.target.value));
const recolour = () => { readColours(); colourBy(state.colouring); drawCharts(); };
dark.addEventListener("change", recolour);
recolour();

// ---- folding, moving together, steps

function foldAll(open) {
  for (const view of views) {
    view.layout.setAll(open);
    view.start();
  }
}

byId("both").hidden = !views[1];
for (const [name, has] of [["cost", dearest > 0], ["rule", uses.size > 0]]) byId("colouring").querySelector(`[value=${name}]`).hidden = !has;
byId("fold").hidden = byId("unfold").hidden = !views.some(view => view.layout.groups.length);
byId("fold").addEventListener("click", () => foldAll(false));
byId("unfold").addEventListener("click", () => foldAll(true));
byId("linked").addEventListener("change", event => { state.linked = event.target.checked; });

/** Show the graph after some of the steps, and what the last of these did; without `marks`, the graph alone. */
function showStep(done, marks = true) {
  const step = marks && done > 0 ? steps[done - 1] : null;
  state.step = done;
  choose(0, -1);
  views[1].become(graphAfter(done));
  const numbers = new Map(graphs[1].numbers.map((number, node) => [number, node]));
  state.marks = step && [new Set(step.minus.filter(node => node < given[0].count)), new Set(step.plus.map(number => numbers.get(number)))];
  state.gone = done === steps.length ? null : new Set(Array.from({ length: given[0].count }, (_, node) => node).filter(node => !numbers.has(node)));
  for (const view of views) view.close();
  if (step) {
    const touched = [[...state.marks[0]], [...state.marks[1], ...step.inputs.map(([number]) => numbers.get(number))]];
    views.forEach((view, index) => { if (view.width && touched[index].length) view.visit(touched[index].at(-1)); });
  }
  const of = `${done} of ${steps.length}`;
  byId("step-told").textContent = step ? `${of}: ${[step.told, step.place && `at ${step.place}`, step.rules.length && `by ${step.rules.join(", ")}`].filter(Boolean).join("; ")}`
    : done ? `${of}: the result` : `${of}: the given graph`;
  byId("step").value = done;
  byId("step").setAttribute("aria-valuetext", byId("step-told").textContent);
  if (state.hits) search(byId("search").value);
  colourBy(state.colouring);
}

const stepBy = count => showStep(Math.min(steps.length, Math.max(0, state.step + count)));

byId("steps-shown").hidden = !steps.length;
byId("step").max = steps.length;
byId("step").addEventListener("input", event => showStep(Number(event.target.value)));
byId("step-back").addEventListener("click", () => stepBy(-1));
byId("step-on").addEventListener("click", () => stepBy(1));
byId("step-end").addEventListener("click", () => showStep(steps.length, false));
if (steps.length) showStep(steps.length, false);
