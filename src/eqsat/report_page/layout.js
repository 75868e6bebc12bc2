"use strict";
// Where the boxes of a graph stand: repeated layers are folded, dagre lays out what each frame holds.

const FOLD_ABOVE = 60; // nodes of the larger graph that are shown without folding
const PART = 120; // boxes of a part, where a long graph without repetition is cut
const LONG = 400; // nodes above which it is
const NUMBERED = /^(?:[^/]*\/)*?[^/]*?[A-Za-z][._]?\d+(?=\/)/; // a name up to its first numbered part: of layer 3, say
const GROUPS = 20; // repetitions shown one by one; more are taken together
const PERIOD = 600; // the longest layer that is looked for, in nodes
const NEAREST = 6; // users of one value that decide where it stands; it has edges to the others as well
const CHARACTER = 7.3, LINE = 16, MARGIN = 12, TITLE = 26;

/** Frames, folded groups and places of a graph's nodes; boxes are numbered nodes first. */
class Layout {
  constructor(graph) {
    this.graph = graph;
    this.boxes = Array.from({ length: graph.count }, (_, node) => {
      const lines = graph.text(node);
      const name = graph.say("name", node);
      const shown = name && name !== lines[0].replace(/^%/, "") ? name : "";
      const told = [...lines, ...(shown ? [shown.length > 34 ? "…" + shown.slice(-33) : shown] : [])];
      const width = Math.max(...told.map(line => line.length)) * CHARACTER + 2 * MARGIN;
      return { lines: told, named: Boolean(shown), parent: -1, node, size: [width, told.length * LINE + MARGIN] };
    });
    const first = this.boxes.length;
    for (const [parent, title] of graph.frames) {
      this.boxes.push({ title: graph.strings[title], parent: parent < 0 ? -1 : first + parent, frame: true, open: true });
    }
    graph.parent.forEach((parent, node) => { this.boxes[node].parent = parent < 0 ? -1 : first + parent; });
    this.cache = new Map();
    this.fold();
    this.place();
  }

  /** Boxes in each container, -1 for the whole. */
  children() {
    const found = new Map([[-1, []]]);
    this.boxes.forEach((box, index) => {
      if (!found.has(box.parent)) found.set(box.parent, []);
      found.get(box.parent).push(index);
    });
    return found;
  }

  fold() {
    const largest = Math.max(...given.map(graph => graph.count)); // both graphs are folded, or none
    const children = this.children();
    const nodesIn = index => {
      const found = [index];
      for (const one of found) found.push(...children.get(one) ?? []);
      return found.filter(one => this.boxes[one].node !== undefined).sort((a, b) => a - b);
    };
    for (const [container, inside] of children) {
      const all = new Map(inside.map(index => [index, nodesIn(index)]));
      const items = inside.filter(index => all.get(index).length).sort((a, b) => all.get(a)[0] - all.get(b)[0]);
      if (container >= 0 && items.length <= FOLD_ABOVE && children.get(-1).length > 1) continue; // a composite, say
      if (items.length < 2 || largest <= FOLD_ABOVE) continue;
      const numbers = new Map();
      const heads = items.map(index => {
        const box = this.boxes[index];
        const head = box.frame ? box.title : this.graph.say("kind", index) === "variable" ? "" : box.lines[0];
        if (!numbers.has(head)) numbers.set(head, numbers.size);
        return numbers.get(head);
      });
      if (this.foldByName(container, items, all)) continue;
      let from = 0;
      const loose = to => {
        if (items.length <= LONG) { from = to; return; }
        for (; to - from > PART; from += PART) this.group(container, all, items.slice(from, from + PART), `${PART} nodes`);
        if (to - from > FOLD_ABOVE / 2) this.group(container, all, items.slice(from, to), `${to - from} nodes`);
        from = to;
      };
      for (const run of repetitions(heads)) {
        loose(run.start);
        const each = Math.ceil(run.count / GROUPS);
        for (let at = 0; at < run.count; at += each) {
          const some = Math.min(each, run.count - at);
          const name = some > 1 ? `layers ${at + 1}–${at + some} of ${run.count}` : `layer ${at + 1} of ${run.count}`;
          this.group(container, all, items.slice(run.start + at * run.period, run.start + (at + some) * run.period), name);
        }
        from = run.start + run.count * run.period;
      }
      loose(items.length);
    }
  }

  /** Fold by names such as `/encoder/layer.3/…`, where most nodes have them; whether they have. */
  foldByName(container, items, all) {
    const layerOf = this.layersByName();
    const layers = new Map();
    for (const item of items) {
      const layer = layerOf[all.get(item).at(-1)];
      if (!layer) continue;
      if (!layers.has(layer)) layers.set(layer, []);
      layers.get(layer).push(item);
    }
    const sizes = [...layers.values()].map(members => members.length);
    if (layers.size < 2 || sizes.reduce((a, b) => a + b, 0) < items.length / 2 || Math.max(...sizes) > items.length * 0.8 || layers.size > 5 * GROUPS) return false;
    for (const [layer, members] of layers) {
      for (let at = 0; at < members.length; at += 3 * PART) this.group(container, all, members.slice(at, at + 3 * PART), layer.length > 34 ? "…" + layer.slice(-33) : layer);
    }
    return true;
  }

  /** The layer that the name of each node tells; a node without a name is in the layer of what uses it, or of what it takes. */
  layersByName() {
    const { graph } = this;
    const order = Array.from({ length: graph.count }, (_, node) => node);
    const layerOf = order.map(node => graph.say("name", node).match(NUMBERED)?.[0]);
    const inherit = (node, others) => {
      if (!graph.say("name", node) && graph.say("kind", node) === "operator") layerOf[node] ??= others.map(other => layerOf[other]).find(Boolean);
    };
    for (const node of order.toReversed()) inherit(node, graph.outputs[node]);
    for (const node of order) inherit(node, graph.inputs[node]);
    return layerOf;
  }

  group(parent, all, inside, title) {
    const index = this.boxes.length;
    this.boxes.push({ title, parent, open: false, members: inside.flatMap(one => all.get(one)) });
    for (const member of inside) this.boxes[member].parent = index;
  }

  get groups() { return this.boxes.filter(box => box.members); }

  /** The box that shows one: itself, or the closed group around it. */
  shown(index) {
    let seen = index;
    for (let at = this.boxes[index].parent; at >= 0; at = this.boxes[at].parent) if (!this.boxes[at].open) seen = at;
    return seen;
  }

  /** Open whatever hides a box; what was opened. */
  reveal(index) {
    const opened = [];
    for (let at = this.boxes[index].parent; at >= 0; at = this.boxes[at].parent) if (!this.boxes[at].open) opened.push(this.boxes[at]);
    for (const box of opened) box.open = true;
    if (opened.length) this.place();
    return opened;
  }

  /** Have the groups open that are so in another layout. */
  openAs(other) {
    const open = new Set(other.groups.filter(box => box.open).map(box => box.title));
    const same = this.groups.filter(box => open.has(box.title));
    for (const box of same) box.open = true;
    if (same.length) this.place();
  }

  setAll(open) {
    for (const box of this.groups) box.open = open;
    this.place();
  }

  /** Give every visible box its place. */
  place() {
    const { boxes, graph } = this;
    const inside = this.children();
    const order = [-1]; // containers, outer ones first
    for (const container of order) {
      for (const index of inside.get(container) ?? []) {
        boxes[index].depth = (container < 0 ? 0 : boxes[container].depth) + 1;
        if (boxes[index].open) order.push(index);
      }
    }
    const flows = new Map(order.map(container => [container, new Map()])); // edges inside each, some to or from its ports
    const drawn = new Map();
    for (let edge = 0; edge < graph.edges.length; edge += 2) {
      const [source, target] = [this.shown(graph.edges[edge]), this.shown(graph.edges[edge + 1])];
      if (source === target) continue;
      const label = graph.strings[graph.labels[edge / 2]];
      drawn.set(`${source} ${target} ${label}`, { source, target, label, way: this.way(source, target) });
    }
    for (const { way } of drawn.values()) for (const [container, from, to] of way) flows.get(container).set(`${from} ${to}`, [from, to]);
    const routes = new Map();
    for (const container of order.toReversed()) this.fill(container, inside.get(container) ?? [], [...flows.get(container).values()], routes);
    const shift = (index, dx, dy) => { boxes[index].x += dx; boxes[index].y += dy; };
    for (const container of order.slice(1)) for (const index of inside.get(container) ?? []) shift(index, boxes[container].x, boxes[container].y);
    this.visible = order.flatMap(container => inside.get(container) ?? []); // frames before what they hold
    this.edges = [...drawn.values()].map(edge => this.route(edge, routes));
    [this.width, this.height] = this.whole;
  }

  /** The frames that an edge passes and from where to where in each; it leaves and enters frames by ports named for its source. */
  way(source, target) {
    const { boxes } = this;
    const [up, down] = [[], []];
    let [a, b] = [source, target];
    const leave = () => { up.push([boxes[a].parent, a, `out ${source}`]); a = boxes[a].parent; };
    const enter = () => { down.unshift([boxes[b].parent, `in ${source}`, b]); b = boxes[b].parent; };
    while (boxes[a].depth > boxes[b].depth) leave();
    while (boxes[b].depth > boxes[a].depth) enter();
    while (boxes[a].parent !== boxes[b].parent) { leave(); enter(); }
    return [...up, [boxes[a].parent, a, b], ...down];
  }

  route({ source, target, label, way }, routes) {
    const { boxes } = this;
    const [s, t] = [boxes[source], boxes[target]];
    const between = way.flatMap(([container, from, to]) => {
      const [dx, dy] = container < 0 ? [0, 0] : [boxes[container].x, boxes[container].y];
      return (routes.get(`${container} ${from} ${to}`) ?? []).map(([x, y]) => [x + dx, y + dy]);
    });
    const known = ([container, from, to]) => routes.has(`${container} ${from} ${to}`);
    const points = [...(known(way[0]) ? [] : [[s.x + s.size[0] / 2, s.y + s.size[1]]]), ...between,
      ...(known(way.at(-1)) ? [] : [[t.x + t.size[0] / 2, t.y]])];
    const [xs, ys] = [points.map(point => point[0]), points.map(point => point[1])];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    return { source, target, label, points, area: [left, top, Math.max(...xs) - left, Math.max(...ys) - top] };
  }

  /** Place what a container holds relative to it, and size it. */
  fill(container, inside, edges, routes) {
    const { boxes } = this;
    for (const index of inside) {
      const box = boxes[index];
      if (box.node === undefined && !box.open) box.size = [Math.max(18, box.title.length) * CHARACTER + 60, 44];
    }
    const ports = [...new Set(edges.flat().filter(end => typeof end === "string"))];
    const at = new Map([...inside, ...ports].map((end, place) => [end, place]));
    const placed = edges.map(([from, to]) => [at.get(from), at.get(to)]);
    const sizes = [...inside.map(index => boxes[index].size), ...ports.map(() => [1, 1])];
    const isOut = ports.map(port => port.startsWith("out"));
    const key = JSON.stringify([sizes, placed, isOut]);
    const laid = this.cache.get(key) ?? arrange(sizes, placed, isOut);
    this.cache.set(key, laid);
    const top = container < 0 ? 0 : TITLE;
    inside.forEach((index, place) => Object.assign(boxes[index], { x: laid.places[place][0] + MARGIN, y: laid.places[place][1] + top + MARGIN }));
    edges.forEach(([from, to], place) => {
      const points = laid.points[place];
      if (points) routes.set(`${container} ${from} ${to}`, points.map(([x, y]) => [x + MARGIN, y + top + MARGIN]));
    });
    const size = [laid.width + 2 * MARGIN, laid.height + top + 2 * MARGIN];
    if (container < 0) this.whole = size;
    else boxes[container].size = [Math.max(size[0], boxes[container].title.length * CHARACTER + 60), size[1]];
  }
}

/**
 * Places of boxes and points of edges, by dagre; null for edges that do not decide where boxes stand.
 * The last boxes are ports, by which edges come from above all others or, where `isOut`, leave below them.
 */
function arrange(sizes, edges, isOut) {
  const laid = new dagre.graphlib.Graph();
  laid.setGraph({ ranksep: 30, nodesep: 18, ranker: sizes.length > 80 ? "longest-path" : "network-simplex" });
  sizes.forEach(([width, height], place) => laid.setNode(String(place), { width, height }));
  const used = new Map();
  const given = edges.map(([from, to]) => {
    used.set(from, (used.get(from) ?? 0) + 1);
    if (used.get(from) > NEAREST && sizes.length > 20) return false;
    laid.setEdge(String(from), String(to), {});
    return true;
  });
  const inner = sizes.length - isOut.length;
  const [hasInput, hasOutput] = [new Set(), new Set()];
  for (const [from, to] of edges) if (from < inner && to < inner) { hasInput.add(to); hasOutput.add(from); }
  isOut.forEach((out, place) => {
    const port = String(inner + place);
    for (let box = 0; box < inner; box++) {
      if (out && !hasOutput.has(box) && !laid.hasEdge(String(box), port)) laid.setEdge(String(box), port, { weight: 0 });
      if (!out && !hasInput.has(box) && !laid.hasEdge(port, String(box))) laid.setEdge(port, String(box), { weight: 0 });
    }
  });
  dagre.layout(laid);
  const corners = sizes.map(([width, height], place) => {
    const { x, y } = laid.node(String(place));
    return [x - width / 2, y - height / 2];
  });
  const points = edges.map(([from, to], place) => given[place] ? laid.edge(String(from), String(to)).points.map(({ x, y }) => [x, y]) : null);
  const covered = [...corners, ...corners.map(([x, y], place) => [x + sizes[place][0], y + sizes[place][1]]), ...points.flatMap(each => each ?? [])];
  const [low, high] = [Math.min, Math.max].map(pick => [0, 1].map(axis => covered.reduce((seen, point) => pick(seen, point[axis]), covered[0]?.[axis] ?? 0)));
  const moved = ([x, y]) => [x - low[0], y - low[1]];
  return { places: corners.map(moved), points: points.map(each => each && each.map(moved)), width: high[0] - low[0], height: high[1] - low[1] };
}

/** Stretches of numbers that repeat, longest first chosen, in their order: start, period and count. */
function repetitions(numbers) {
  const found = [];
  const stretches = [[0, numbers.length]];
  while (stretches.length) {
    const [from, to] = stretches.pop();
    let best = null;
    for (let period = 2; period <= Math.min(PERIOD, (to - from) / 2); period++) {
      let run = 0;
      for (let at = from; at + period <= to; at++) {
        run = at + period < to && numbers[at] === numbers[at + period] ? run + 1 : 0;
        const count = Math.floor(run / period) + 1;
        if (count > 1 && (count - 1) * period > 1.02 * (best ? (best.count - 1) * best.period : 7)) best = { start: at + 1 - run, period, count };
      }
    }
    if (!best) continue;
    found.push(best);
    stretches.push([from, best.start], [best.start + best.count * best.period, to]);
    if (found.length > 40) break;
  }
  return found.sort((a, b) => a.start - b.start);
}
