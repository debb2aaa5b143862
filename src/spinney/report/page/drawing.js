"use strict";
/* Draws one tree of a forest; the page holds only the open nodes. */

const BOX = { width: 196, height: 46, gapX: 84, gapY: 14, margin: 8 };

class Drawing {
  constructor(forest, canvas, says) {
    this.forest = forest;
    this.canvas = canvas;
    this.says = says;
    this.zoom = 1;
    this.row = null;
    this.sought = "";
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    this.show(0);
  }

  show(tree) {
    this.tree = tree;
    this.known = this.forest.summary(tree);
    this.root = this.forest.start[tree];
    this.open = new Set();
    this.parent = new Map();
    this.at = this.root;
    this.openTo(2);
    this.follow(this.row);
  }

  openTo(depth) {
    let level = [this.root];
    for (let d = 0; d <= depth; d++) {
      level.forEach((node) => this.openNode(node));
      level = level.flatMap((node) => this.children(node));
    }
  }

  openNode(node) {
    if (this.forest.isLeaf(node)) return;
    this.open.add(node);
    for (const child of this.children(node)) this.parent.set(child, node);
  }

  children(node) {
    const left = this.forest.left[node];
    return left ? [left, left + 1] : [];
  }

  openOneLevel() {
    const closed = this.visible().filter((node) => !this.open.has(node) && !this.forest.isLeaf(node));
    closed.slice(0, 1000).forEach((node) => this.openNode(node));
    this.render();
    this.says(closed.length ? `Opened ${Math.min(closed.length, 1000)} nodes.` : "All nodes are open.");
  }

  closeAll() {
    this.open.clear();
    this.at = this.root;
    this.render();
  }

  visible() {
    const found = [];
    const stack = [this.root];
    while (stack.length) {
      const node = stack.pop();
      found.push(node);
      if (this.open.has(node)) stack.push(this.forest.left[node] + 1, this.forest.left[node]);
    }
    return found;
  }

  /* Mark a row's path through the tree, and open it; null marks nothing. */
  follow(row) {
    this.row = row;
    this.path = new Set(row ? this.forest.path(this.tree, row) : []);
    for (const node of this.path) this.openNode(node);
    this.render();
  }

  seek(text) {
    this.sought = text.trim().toLowerCase();
    this.render();
    return this.matches().length;
  }

  isSought(node) {
    if (!this.sought || this.forest.isLeaf(node)) return false;
    return this.forest.columns[this.forest.feature[node]].name.toLowerCase().includes(this.sought);
  }

  matches() {
    const found = [];
    for (let node = this.root; node < this.forest.start[this.tree + 1]; node++) {
      if (this.isSought(node)) found.push(node);
    }
    return found;
  }

  nextMatch() {
    const found = this.matches();
    if (!found.length) return;
    this.reveal(found.find((node) => node > this.at) ?? found[0]);
  }

  reveal(node) {
    const up = [];
    let k = node - this.root;
    // The parent of a tree's nodes 2k + 1 and 2k + 2 is its k-th split.
    while (k > 0) {
      k = this.splitAt(Math.floor((k - 1) / 2));
      up.push(this.root + k);
    }
    up.reverse().forEach((above) => this.openNode(above));
    this.at = node;
    this.render();
    this.focus();
  }

  splitAt(number) {
    if (this.splitsOf !== this.tree) {
      this.splits = [];
      for (let node = this.root; node < this.forest.start[this.tree + 1]; node++) {
        if (!this.forest.isLeaf(node)) this.splits.push(node - this.root);
      }
      this.splitsOf = this.tree;
    }
    return this.splits[number];
  }

  toggle(node) {
    if (this.forest.isLeaf(node)) return;
    if (this.open.has(node)) this.open.delete(node);
    else this.openNode(node);
    this.at = node;
    this.render();
    this.focus();
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const seen = this.visible();
    const place = seen.indexOf(this.at);
    const go = (node) => node !== undefined && ((this.at = node), this.render(), this.focus());
    const keys = {
      ArrowDown: () => go(seen[place + 1]),
      ArrowUp: () => go(seen[place - 1]),
      Home: () => go(this.root),
      End: () => go(seen[seen.length - 1]),
      ArrowRight: () => (this.open.has(this.at) ? go(this.forest.left[this.at]) : this.toggle(this.at)),
      ArrowLeft: () => (this.open.has(this.at) ? this.toggle(this.at) : go(this.parent.get(this.at))),
      Enter: () => this.toggle(this.at),
      " ": () => this.toggle(this.at),
      "+": () => this.zoomBy(1.25),
      "-": () => this.zoomBy(0.8),
    };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  zoomBy(factor) {
    this.zoom = Math.min(3, Math.max(0.15, this.zoom * factor));
    this.size();
    this.says(`Zoom ${Math.round(this.zoom * 100)} %.`);
  }

  fit() {
    this.zoom = Math.min(1, this.canvas.clientWidth / this.extent.width);
    this.size();
  }

  focus() {
    const box = this.canvas.querySelector('[tabindex="0"]');
    box?.focus({ preventScroll: true });
    box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /* The position of every open node: the drawing's leaves below one another, parents midway. */
  layout() {
    const places = new Map();
    let y = 0;
    const place = (node, depth) => {
      const x = depth * (BOX.width + BOX.gapX);
      let middle = y;
      if (this.open.has(node)) {
        const [a, b] = this.children(node).map((child) => place(child, depth + 1));
        middle = (a + b) / 2;
      } else {
        y += BOX.height + BOX.gapY;
      }
      places.set(node, { x, y: middle, depth });
      return middle;
    };
    place(this.root, 0);
    const deepest = Math.max(...[...places.values()].map((found) => found.depth));
    this.extent = { width: (deepest + 1) * (BOX.width + BOX.gapX), height: y };
    return places;
  }

  render() {
    const places = this.layout();
    const lines = [];
    const boxes = [];
    for (const node of this.visible()) {
      const here = places.get(node);
      boxes.push(this.box(node, here));
      if (!this.open.has(node)) continue;
      this.children(node).forEach((child, side) => lines.push(...this.line(node, here, places.get(child), child, side)));
    }
    this.drawn = svg("svg", { role: "tree", "aria-label": `Tree ${this.tree + 1}`, class: "tree" });
    this.drawn.append(patterns(this.forest.nOutputs), ...lines, ...boxes);
    this.canvas.replaceChildren(this.drawn);
    this.size();
  }

  size() {
    const { width, height } = this.extent;
    this.drawn.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawn.setAttribute("width", width * this.zoom);
    this.drawn.setAttribute("height", height * this.zoom);
  }

  line(node, from, to, child, side) {
    const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
    const [x2, y2] = [to.x, to.y + BOX.height / 2];
    const middle = (x1 + x2) / 2;
    const onPath = this.path.has(node) && this.path.has(child);
    const way = svg("path", {
      d: `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
      class: onPath ? "edge path" : "edge",
    });
    const missing = this.forest.missingLeft(node) === (side === 0);
    const word = svg("text", { x: x2 - 6, y: side === 0 ? y2 - 6 : y2 + 14, class: "side" }); // clear of the line
    word.textContent = (side === 0 ? "yes" : "no") + (missing ? ", missing" : "");
    return [way, word];
  }

  box(node, { x, y, depth }) {
    const leaf = this.forest.isLeaf(node);
    const names = ["node", leaf ? "leaf" : "split"];
    if (this.path.has(node)) names.push("path");
    if (this.isSought(node)) names.push("sought");
    const group = svg("g", {
      role: "treeitem",
      "aria-level": depth + 1,
      "aria-label": this.sentence(node),
      "aria-selected": node === this.at,
      tabindex: node === this.at ? 0 : -1,
      class: names.join(" "),
      transform: `translate(${x} ${y})`,
      "data-node": node - this.root,
    });
    if (!leaf) group.setAttribute("aria-expanded", this.open.has(node));
    const title = svg("title", {});
    title.textContent = this.sentence(node);
    const first = svg("text", { x: BOX.margin, y: 17, class: "first" });
    const room = BOX.width - 2 * BOX.margin;
    first.textContent = leaf ? clipped(this.outcome(node), room) : clippedQuestion(this.forest.questionParts(node), room);
    const second = svg("text", { x: BOX.margin, y: 31, class: "second" });
    const more = leaf || this.open.has(node) ? "" : "  …";
    second.textContent = clipped(this.share(node) + this.extra(node), (room * 12) / 10 - 12) + more;
    group.append(title, svg("rect", { width: BOX.width, height: BOX.height, rx: 5 }), first, second, ...this.bar(node));
    group.addEventListener("click", () => this.toggle(node));
    return group;
  }

  share(node) {
    const { cover, begin } = this.known;
    const part = (100 * cover[node - begin]) / cover[0];
    return `${part < 0.1 ? "under 0.1" : part.toFixed(1)} % of rows`;
  }

  /* Facts that only some models have: the noise on a node's counts, the party that owns a split. */
  extra(node) {
    const { deviation, columns, feature } = this.forest;
    const noise = deviation ? `, ${this.forest.head.base === null ? "counts" : "value"} ± ${shortNumber(Number(deviation[node].toPrecision(2)))}` : "";
    const holder = this.forest.isLeaf(node) ? null : columns[feature[node]].holder;
    return noise + (holder ? `, asked by ${holder}` : "");
  }

  means(node) {
    const k = this.forest.nOutputs;
    const i = (node - this.known.begin) * k;
    return Array.from(this.known.value.subarray(i, i + k));
  }

  outcome(node) {
    return outcomeOf(this.forest, this.means(node));
  }

  sentence(node) {
    const what = this.forest.isLeaf(node) ? "Leaf" : `${this.forest.question(node)}?`;
    return `${what} ${this.outcome(node)}. ${this.share(node)}${this.extra(node)}.`;
  }

  bar(node) {
    if (!this.forest.head.classes) return [];
    let x = BOX.margin;
    return this.means(node).map((share, output) => {
      const width = Math.max(0, share * (BOX.width - 2 * BOX.margin));
      const part = svg("rect", { x, y: 36, width, height: 5, class: "share" });
      part.style.fill = fill(output);
      x += width;
      return part;
    });
  }

  text() {
    const lines = [];
    const stack = [[this.root, 0, ""]];
    while (stack.length) {
      const [node, depth, side] = stack.pop();
      const indent = "  ".repeat(depth) + side;
      if (this.forest.isLeaf(node)) {
        lines.push(`${indent}${this.outcome(node)} (${this.share(node)}${this.extra(node)})`);
        continue;
      }
      const missing = this.forest.missingLeft(node) ? "yes" : "no";
      lines.push(`${indent}${this.forest.question(node)}?  (missing: ${missing}${this.extra(node)})`);
      const left = this.forest.left[node];
      stack.push([left + 1, depth + 1, "no: "], [left, depth + 1, "yes: "]);
    }
    return lines.join("\n");
  }
}
