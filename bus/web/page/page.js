// The page about a bus. It reads one stream of lines: the whole picture, then the
// changes of each round (see `bus/web/picture.py`). Names and payloads come from the
// programs on the bus: they become text nodes, and never HTML.

const $ = (id) => document.getElementById(id);
const ROW_MAX = 200; // lines of losses that are shown
const ROUNDS_MAX = 600;
const FOLD_FROM = 40; // a process with more tasks begins folded
const LIT_MS = 700;
const GAP = 52; // between two rows of boxes
const still = matchMedia("(prefers-reduced-motion: reduce)");

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(made.dataset, value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// --- The picture ---------------------------------------------------------------------

class Picture {
  constructor(columns) {
    this.views = new Map(); // key -> {facts, tasks: Map of rows, threads: Map of names}
    this.at = Object.fromEntries(columns.map((name, place) => [name, place]));
    this.sorted = null; // keys
  }

  // Makes changes; calls `handled(key, name)` for each task that handled a message.
  apply(changes, handled = null) {
    const { commands, notifications, thread } = this.at;
    for (const { key, facts, tasks } of changes) {
      let view = this.views.get(key);
      if (facts === null) {
        this.views.delete(key);
        this.sorted = null;
        continue;
      }
      if (!view) {
        view = { facts, tasks: new Map(), threads: null };
        this.views.set(key, view);
        this.sorted = null;
      }
      view.facts = facts;
      for (const [name, row] of Object.entries(tasks)) {
        const old = view.tasks.get(name);
        if (!old || row === null || old[thread] !== row[thread]) view.threads = null;
        if (row === null) {
          view.tasks.delete(name);
          continue;
        }
        view.tasks.set(name, row);
        if (old && handled && row[commands] + row[notifications] > old[commands] + old[notifications]) {
          handled(key, name);
        }
      }
      if (!view.threads || Object.keys(facts.threads).some((each) => !view.threads.has(each))) {
        view.threads = null;
      }
    }
  }

  keys() {
    this.sorted ??= [...this.views.keys()].sort(compare);
    return this.sorted;
  }

  // The names of the tasks of a process by thread, both in order.
  threads(view) {
    if (!view.threads) {
      const found = new Map(Object.keys(view.facts.threads).sort(compare).map((name) => [name, []]));
      for (const [name, row] of view.tasks) {
        const thread = row[this.at.thread];
        if (!found.has(thread)) found.set(thread, []);
        found.get(thread).push(name);
      }
      for (const names of found.values()) names.sort(compare);
      view.threads = found;
    }
    return view.threads;
  }

  lost(row) {
    return row[this.at.dropped] + row[this.at.expired] + row[this.at.refused];
  }
}

const collator = new Intl.Collator("en", { numeric: true });
const compare = collator.compare;

// --- State of the page -----------------------------------------------------------------

let first = null; // the first line of the stream
let connected = false;
let picture = null; // as the stream has it
let shown = null; // the picture that is shown: that one, or one of the past
let totals = []; // [number, at_ns, totals] of each round
let losses = [];
let past = null; // the number of the round that is shown; null for the newest
let selected = null; // {kind, key, name}
let token = decodeURIComponent(location.hash.slice(1));
const toggled = new Set();
const lit = new Map(); // key and name -> time
const flying = []; // messages that move along a line of the map

// --- Data ------------------------------------------------------------------------------

function ask(path, options = {}) {
  return fetch(path, { ...options, headers: { Authorization: `Bearer ${token}` } });
}

async function askJson(path, options) {
  const answer = await ask(path, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `status ${answer.status}`);
  return found;
}

async function follow() {
  for (;;) {
    try {
      const answer = await ask("data/stream");
      if (answer.status === 401) return complain("This page needs the token behind the # of its address. Open the whole address that bus web printed.");
      if (!answer.ok) throw new Error(await answer.text());
      let rest = "";
      let isFirst = true;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (isFirst) begin(JSON.parse(line));
          else take(JSON.parse(line));
          isFirst = false;
        }
      }
    } catch (error) {
      if (!(error instanceof TypeError)) console.warn(String(error));
    }
    connected = false;
    setStatus("gone", "bus web has ended; this page tries again");
    await new Promise((done) => setTimeout(done, 1000));
  }
}

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
  setStatus("gone", "not connected");
}

function begin(line) {
  first = line;
  connected = true;
  $("problem").hidden = true;
  $("title").textContent = line.title;
  document.title = `${line.title} - bus web`;
  picture = new Picture(line.columns);
  picture.apply(line.changes);
  totals = line.totals;
  losses = line.losses;
  $("command").hidden = !line.commands;
  shown = picture;
  past = null;
  if (!line.live) {
    $("live").textContent = "To the end";
    $("no-losses").textContent = "No message was lost.";
    // At the end all processes have left; before it there is something to see.
    const last = totals.findLastIndex((each) => each[2].handled_per_s > 0 || each[2].lost > 0);
    if (last >= 0 && last < totals.length - 1) {
      past = totals[last][0];
      goTo(past);
    }
  }
  $("delay-name").textContent = delayName();
  for (const kind of new Set(losses.map((each) => each.kind))) addKind(kind);
  showLosses();
  refresh();
}

function take(round) {
  const now = performance.now();
  // A report has many messages; their dots light up one after another.
  picture.apply(round.changes, (key, name) => light(key, name, now + 1000 * Math.random()));
  for (const [from, sender, to, , count, ago] of round.sends) {
    const at = now + 1000 - ago;
    light(from, sender, at);
    if (flying.length < 200 && !still.matches) flying.push({ from, to, at, count });
  }
  totals.push([round.number, round.at_ns, round.totals]);
  if (totals.length > ROUNDS_MAX) totals.shift();
  if (past !== null && past < totals[0][0]) {
    past = totals[0][0]; // the server has no older round either
    goTo(past);
  }
  for (const loss of round.losses) {
    if (loss.number <= (losses.at(-1)?.number ?? 0)) continue; // the first line had it
    losses.push(loss);
    addKind(loss.kind);
  }
  if (losses.length > 2000) losses.splice(0, losses.length - 2000);
  if (round.losses.length && past === null) showLosses();
  refresh();
}

function light(key, name, at) {
  lit.set(`${key}\n${name}`, at);
}

// --- What is shown ----------------------------------------------------------------------

let dirty = false;
function refresh() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => {
    dirty = false;
    if (!first) return;
    showStatus();
    showSums();
    showHistory();
    showTree();
    showDetails();
    drawMap();
  });
}

function setStatus(state, text) {
  if ($("status").textContent === text) return;
  $("status").dataset.state = state;
  $("status").textContent = text;
}

// The processes that have not left, and were not lost.
function present() {
  return [...shown.views.values()].filter((view) => view.facts.state !== "left" && view.facts.state !== "lost");
}

function showStatus() {
  if (!connected) return;
  if (!first.live) setStatus("past", "a recording");
  else if (past !== null) setStatus("past", "as it was");
  else if (!present().length) setStatus("gone", "no process answers");
  else setStatus("live", "live");
}

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const count = (value) => number.format(value);
const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

function showSums() {
  const round = roundShown();
  const sums = round ? round[2] : {};
  const lostNow = totals.filter((each) => !round || each[0] <= round[0]).reduce((sum, each) => sum + each[2].lost, 0);
  const gone = [...shown.views.values()].filter((view) => view.facts.state === "stopped" || view.facts.state === "lost").length;
  const lines = [
    ["processes", present().length, ""],
    ["stopped or lost", gone, "bad"],
    ["tasks", sums.tasks ?? 0, ""],
    ["callbacks per s", sums.handled_per_s ?? 0, ""],
    ["unread", sums.unread ?? 0, ""],
    ["queued", sums.queued ?? 0, ""],
    ["blocked senders", sums.blocked ?? 0, "warn"],
    ["messages lost", lostNow, "bad"],
  ];
  const list = $("sums");
  if (list.children.length !== lines.length) {
    list.replaceChildren(...lines.map(() => element("div", {}, element("dt"), element("dd"))));
  }
  lines.forEach(([name, value, tone], place) => {
    const [dt, dd] = list.children[place].children;
    dt.textContent = name;
    dd.textContent = count(value);
    dd.dataset.sum = name;
    list.children[place].className = value ? tone : "";
  });
}

function roundShown() {
  if (past === null) return totals.at(-1);
  return totals.find((each) => each[0] === past);
}

// --- History -----------------------------------------------------------------------------

function clock(ns) {
  return new Date(ns / 1e6).toTimeString().slice(0, 8);
}

function milliseconds(us) {
  return us < 1000 ? `${Math.round(us)} us` : us < 1e6 ? `${count(us / 1000)} ms` : `${count(us / 1e6)} s`;
}

// The latest delay that was measured in the ten rounds before.
function delayAt(place) {
  for (let at = place; at >= Math.max(0, place - 9); at--) {
    if (totals[at][2].delay_us) return totals[at][2].delay_us;
  }
  return null;
}

function delayName() {
  return first.live ? "Delay on links" : "Delay until the callback";
}

function showHistory() {
  const bar = $("bar");
  bar.max = Math.max(0, totals.length - 1);
  const round = roundShown();
  if (!round) return;
  if (past === null) bar.value = bar.max;
  else bar.value = Math.max(0, totals.indexOf(round));
  const text = clock(round[1]);
  $("bar-time").textContent = text;
  bar.setAttribute("aria-valuetext", past === null && first.live ? `now, ${text}` : text);
  $("live").disabled = past === null;
  const sums = round[2];
  const delay = delayAt(totals.indexOf(round));
  $("rate-now").textContent = count(sums.handled_per_s);
  $("delay-now").textContent = delay ? `median ${milliseconds(delay[0])}, p99 ${milliseconds(delay[1])}` : "no message seen";
  $("depth-now").textContent = count(sums.unread + sums.queued);
  const place = past === null ? null : totals.indexOf(round);
  chart($("rate"), "Callbacks per second", [["--accent", (each) => each.handled_per_s]], place, count);
  chart($("delay"), delayName(), [["--warn", (each) => each.delay_us?.[1]], ["--accent", (each) => each.delay_us?.[0]]], place, milliseconds);
  chart($("depth"), "Unread and queued", [["--accent", (each) => each.unread + each.queued]], place, count);
}

function sized(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const paper = canvas.getContext("2d");
  paper.setTransform(scale, 0, 0, scale, 0, 0);
  paper.clearRect(0, 0, width, height);
  return paper;
}

let colours = {};
function colour(name) {
  if (!(name in colours)) {
    // A custom property keeps light-dark() as text; an element resolves it.
    const probe = element("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    colours[name] = getComputedStyle(probe).color;
    probe.remove();
  }
  return colours[name];
}

function chart(canvas, name, lines, place, text) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return;
  const paper = sized(canvas, width, height);
  const values = lines.map(([, of]) => totals.map((each) => of(each[2])));
  const top = Math.max(1e-9, ...values.flat().filter((each) => each !== undefined && each !== null));
  const slots = first.live ? Math.max(totals.length, 60) : totals.length;
  const x = (at) => ((at + slots - totals.length) / Math.max(1, slots - 1)) * (width - 2) + 1;
  const y = (value) => height - 3 - (value / top) * (height - 18);
  paper.strokeStyle = colour("--line");
  paper.lineWidth = 1;
  paper.strokeRect(0.5, 0.5, width - 1, height - 1);
  lines.forEach(([tone], which) => {
    paper.strokeStyle = colour(tone);
    paper.lineWidth = 1.5;
    paper.beginPath();
    let drawing = false;
    values[which].forEach((value, at) => {
      if (value === undefined || value === null) return; // the samples are some rounds apart
      if (drawing) paper.lineTo(x(at), y(value));
      else paper.moveTo(x(at), y(value));
      if (!drawing) paper.lineTo(x(at) + 1, y(value));
      drawing = true;
    });
    paper.stroke();
  });
  paper.fillStyle = colour("--soft");
  paper.font = "11px system-ui, sans-serif";
  paper.fillText(top > 1e-9 ? text(top) : "0", 5, 13);
  if (place !== null && place >= 0) {
    paper.strokeStyle = colour("--bad");
    paper.beginPath();
    paper.moveTo(x(place), 0);
    paper.lineTo(x(place), height);
    paper.stroke();
  }
  const now = roundShown();
  const last = lines.at(-1)[1](now[2]);
  canvas.setAttribute("aria-label", `${name}: ${last === undefined || last === null ? "none" : text(last)} at ${clock(now[1])}, at most ${top > 1e-9 ? text(top) : "0"} in this time`);
}

let wanted = null; // the round that the bar asks for
let asking = false;
async function goTo(round) {
  wanted = round;
  if (asking) return;
  asking = true;
  try {
    while (wanted !== null) {
      const next = wanted;
      wanted = null;
      const found = await askJson(`data/at?round=${next}`);
      const was = new Picture(first.columns);
      was.apply(found.changes);
      if (wanted === null && past === next) {
        shown = was;
        showLosses();
        refresh();
      }
    }
  } catch (error) {
    complain(`cannot show the past: ${error.message}`);
  } finally {
    asking = false;
  }
}

$("bar").addEventListener("input", () => {
  const place = Number($("bar").value);
  if (place >= totals.length - 1) return toNow();
  past = totals[place][0];
  refresh();
  goTo(past);
});

function toNow() {
  past = null;
  shown = picture;
  showLosses();
  refresh();
}
$("live").addEventListener("click", toNow);

// --- The tree ----------------------------------------------------------------------------

let rows = []; // that can be scrolled to
let active = 0; // the row of the keyboard
const pool = new Map(); // place -> element

function isOpen(id, size) {
  return toggled.has(id) !== size <= FOLD_FROM;
}

function flatten() {
  const found = [];
  const words = $("search").value.trim().toLowerCase();
  const filter = $("filter").value;
  const at = shown.at;
  const narrow = words !== "" || filter !== "";
  const passes = (name, row) =>
    (words === "" || name.toLowerCase().includes(words)) &&
    (filter === "" ||
      (filter === "active" && row[at.per_s] > 0) ||
      (filter === "losing" && shown.lost(row) > 0) ||
      (filter === "troubled" && row[at.state] !== ""));
  let tasks = 0;
  let machine = null;
  const states = new Map(shown.keys().flatMap((key) => shown.views.get(key).facts.machines).map((each) => [each.name, each]));
  for (const key of shown.keys()) {
    const view = shown.views.get(key);
    const { facts } = view;
    const inner = [];
    let open = narrow || isOpen(`p${key}`, view.tasks.size);
    const ownName = words !== "" && filter === "" && key.toLowerCase().includes(words);
    for (const [thread, names] of shown.threads(view)) {
      const state = facts.threads[thread]?.state ?? "";
      const whole = ownName || (filter === "troubled" && state !== "") || (words !== "" && filter === "" && thread.toLowerCase().includes(words));
      const kept = narrow && !whole ? names.filter((name) => passes(name, view.tasks.get(name))) : names;
      tasks += kept.length;
      if (narrow && !kept.length && !whole) continue;
      const id = `t${key}\n${thread}`;
      const threadOpen = narrow || isOpen(id, names.length);
      inner.push({ kind: "thread", id, level: 3, key, name: thread, size: names.length, open: threadOpen, set: names.length });
      if (threadOpen) kept.forEach((name, place) => inner.push({ kind: "task", id: `k${key}\n${name}`, level: 4, key, name, set: kept.length, place }));
    }
    if (narrow && !inner.length && !(filter === "troubled" && facts.state) && !ownName) continue;
    if (facts.machine !== machine) {
      machine = facts.machine;
      found.push({ kind: "machine", id: `m${machine}`, level: 1, key, name: machine, state: states.get(machine), size: 0, open: true });
    }
    found.push({ kind: "process", id: `p${key}`, level: 2, key, name: facts.process, size: view.tasks.size, open });
    if (!open) continue;
    if (!narrow) {
      for (const link of facts.links) found.push({ kind: "link", id: `l${key}\n${link.to}`, level: 3, key, name: link.to, link });
      for (const queue of facts.queues) found.push({ kind: "queue", id: `q${key}\n${queue[0]}\n${queue[1]}`, level: 3, key, name: queue[0], queue });
    }
    found.push(...inner);
  }
  for (const [name, state] of states) {
    if (name && ![...shown.views.values()].some((view) => view.facts.machine === name) && !narrow) {
      found.push({ kind: "machine", id: `m${name}`, level: 1, key: "", name, state, size: 0, open: false });
    }
  }
  $("shown").textContent = narrow ? `${count(tasks)} of ${count([...shown.views.values()].reduce((sum, view) => sum + view.tasks.size, 0))} tasks` : "";
  return found;
}

function rowHeight() {
  return matchMedia("(max-width: 40rem)").matches ? 34 : 26;
}

function showTree() {
  const before = rows[active]?.id;
  rows = flatten();
  const same = rows.findIndex((row) => row.id === before);
  active = same >= 0 ? same : Math.min(active, Math.max(0, rows.length - 1));
  paintTree();
}

function paintTree() {
  const tree = $("tree");
  const height = rowHeight();
  $("space").style.height = `${rows.length * height}px`;
  tree.style.height = `clamp(8rem, ${rows.length * height + 2}px, 32rem)`;
  const from = Math.max(0, Math.floor(tree.scrollTop / height) - 5);
  const to = Math.min(rows.length, Math.ceil((tree.scrollTop + tree.clientHeight) / height) + 5);
  for (const [place, made] of pool) {
    if ((place < from || place >= to) && place !== active) {
      made.remove();
      pool.delete(place);
    }
  }
  const wantedPlaces = [];
  for (let place = from; place < to; place++) wantedPlaces.push(place);
  if (rows.length && (active < from || active >= to)) wantedPlaces.push(active);
  for (const place of wantedPlaces) {
    let made = pool.get(place);
    if (!made) {
      made = element("div", { className: "row", role: "treeitem", id: `row-${place}` },
        element("span", { className: "name" }, element("span", { className: "fold", ariaHidden: "true" }), element("span", { className: "label" })),
        element("span"), element("span"), element("span"), element("span"));
      $("space").append(made);
      pool.set(place, made);
    }
    paintRow(made, rows[place], place, height);
  }
  if (rows.length) tree.setAttribute("aria-activedescendant", `row-${active}`);
  else tree.removeAttribute("aria-activedescendant");
}

function paintRow(made, row, place, height) {
  made.style.top = `${place * height}px`;
  made.dataset.kind = row.kind;
  made.dataset.place = place;
  made.dataset.name = row.name;
  made.className = `row l${row.level}${place === active ? " at" : ""}`;
  made.setAttribute("aria-level", row.level);
  made.setAttribute("aria-selected", String(selected !== null && selected.id === row.id));
  if (row.set && row.place !== undefined) {
    made.setAttribute("aria-setsize", row.set);
    made.setAttribute("aria-posinset", row.place + 1);
  } else {
    made.removeAttribute("aria-setsize");
    made.removeAttribute("aria-posinset");
  }
  const folds = row.kind === "process" || row.kind === "thread";
  if (folds) made.setAttribute("aria-expanded", String(row.open));
  else made.removeAttribute("aria-expanded");
  const [name, state, rate, unread, lost] = made.children;
  const [fold, label] = name.children;
  put(fold, folds ? (row.open ? "\u25be" : "\u25b8") : "");
  const cells = cellsOf(row);
  put(label, cells.label);
  label.title = cells.label;
  put(state, cells.state);
  state.className = cells.state ? `badge ${cells.tone}` : "";
  put(rate, cells.rate);
  put(unread, cells.unread);
  put(lost, cells.lost);
  lost.className = cells.lost ? "bad" : "";
  made.setAttribute("aria-label", [cells.label, cells.state, cells.rate && `${cells.rate} per second`, cells.unread && `${cells.unread} unread`, cells.lost && `${cells.lost} lost`].filter(Boolean).join(", "));
}

function put(made, text) {
  if (made.textContent !== text) made.textContent = text;
}

const some = (value) => (value ? count(value) : "");
const TONES = { full: "warn", blocked: "warn", "not ready": "warn", dialling: "warn", waiting: "warn", left: "soft", linked: "soft" };

function cellsOf(row) {
  const view = shown.views.get(row.key);
  const at = shown.at;
  let cells = { label: row.name, state: "", rate: "", unread: "", lost: "" };
  if (row.kind === "machine") {
    cells.label = `machine ${row.name}`;
    cells.state = row.state?.state ?? "";
  } else if (row.kind === "process") {
    const { facts } = view;
    const sums = facts.totals;
    cells = {
      label: `${row.name}${facts.role ? `, ${facts.role}` : ""}, ${counted(sums.tasks, "task")}`,
      state: facts.state,
      rate: some(sums.per_s),
      unread: some(sums.unread),
      lost: some(sums.dropped + sums.expired + sums.refused),
    };
    if (!cells.state && Object.values(facts.threads).some((each) => each.state === "blocked")) cells.state = "blocked";
    if (!cells.state && Object.values(facts.threads).some((each) => each.state === "stopped")) cells.state = "stopped";
  } else if (row.kind === "thread") {
    const facts = view.facts.threads[row.name] ?? { state: "", busy_s: null };
    const busy = facts.busy_s === null || facts.busy_s < 1 ? "" : `, in a callback for ${count(facts.busy_s)} s`;
    cells.label = `thread ${row.name}, ${counted(row.size, "task")}${busy}`;
    cells.rate = some(facts.per_s);
    cells.state = facts.state;
  } else if (row.kind === "link") {
    cells.label = `${row.link.kind} link to ${row.link.to}`;
    cells.state = row.link.state;
    cells.rate = some(row.link.per_s);
    cells.lost = some(row.link.in_doubt);
  } else if (row.kind === "queue") {
    cells.label = `to ${row.queue[0]} of ${row.queue[1]}: ${count(row.queue[2])} queued, ${count(row.queue[3])} not acknowledged`;
    cells.unread = some(row.queue[2] + row.queue[3]);
  } else {
    const task = view.tasks.get(row.name);
    cells = {
      label: row.name + (task[at.visibility] === "private" ? " (private)" : ""),
      state: task[at.state],
      rate: some(task[at.per_s]),
      unread: some(task[at.unread]),
      lost: some(shown.lost(task)),
    };
  }
  cells.tone = TONES[cells.state] ?? "bad";
  return cells;
}

function toggle(row, open = !row.open) {
  if (open === row.open) return;
  if (!toggled.delete(row.id)) toggled.add(row.id);
  showTree();
}

function goToRow(place) {
  active = Math.max(0, Math.min(rows.length - 1, place));
  const tree = $("tree");
  const height = rowHeight();
  const top = active * height;
  if (top < tree.scrollTop) tree.scrollTop = top;
  else if (top + height > tree.scrollTop + tree.clientHeight) tree.scrollTop = top + height - tree.clientHeight;
  paintTree();
}

$("tree").addEventListener("scroll", () => requestAnimationFrame(paintTree), { passive: true });
$("tree").addEventListener("click", (event) => {
  const made = event.target.closest(".row");
  if (!made) return;
  active = Number(made.dataset.place);
  const row = rows[active];
  if (event.target.closest(".fold") && row.open !== undefined) toggle(row);
  select(row);
});
$("tree").addEventListener("dblclick", (event) => {
  const made = event.target.closest(".row");
  const row = made && rows[Number(made.dataset.place)];
  if (row && row.open !== undefined && row.kind !== "machine" && !event.target.closest(".fold")) toggle(row);
});
$("tree").addEventListener("keydown", (event) => {
  const row = rows[active];
  const page = Math.max(1, Math.floor($("tree").clientHeight / rowHeight()) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
  if (event.key in steps) goToRow(active + steps[event.key]);
  else if (!row) return;
  else if (event.key === "ArrowRight") {
    if (row.open === false && row.kind !== "machine") toggle(row);
    else if (row.open) goToRow(active + 1);
  } else if (event.key === "ArrowLeft") {
    if (row.open && row.kind !== "machine") toggle(row);
    else goToRow(rows.findLastIndex((each, place) => place < active && each.level < row.level));
  } else if (event.key === "Enter" || event.key === " ") select(row);
  else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    $("search").focus();
  }
});
for (const id of ["search", "filter"]) $(id).addEventListener("input", () => {
  $("tree").scrollTop = 0;
  active = 0;
  showTree();
  drawMap();
});

// --- Details -----------------------------------------------------------------------------

function select(row) {
  selected = { id: row.id, kind: row.kind, key: row.key, name: row.name };
  relatives = null;
  const task = row.kind === "task" && shown.views.get(row.key)?.tasks.get(row.name);
  if (task && first.commands && task[shown.at.visibility] !== "private") $("command-to").value = row.key.startsWith(`${ownMachine()}/`) ? row.name : `ism://${row.key.split("/")[0]}/${row.name}`;
  if (row.kind === "task") askRelatives();
  refresh();
}

// The machine of the bus that was opened: the part of the title behind " on ".
function ownMachine() {
  return first.title.slice(first.title.lastIndexOf(" on ") + 4);
}

function selectTask(key, name) {
  const view = shown.views.get(key);
  const row = view?.tasks.get(name);
  if (!row) return;
  $("search").value = "";
  $("filter").value = "";
  const thread = row[shown.at.thread];
  const open = (id, size) => {
    if (!isOpen(id, size)) toggled.has(id) ? toggled.delete(id) : toggled.add(id);
  };
  open(`p${key}`, view.tasks.size);
  open(`t${key}\n${thread}`, shown.threads(view).get(thread).length);
  showTree();
  const place = rows.findIndex((each) => each.kind === "task" && each.key === key && each.name === name);
  if (place < 0) return;
  goToRow(place);
  select(rows[place]);
}

let relatives = null;
async function askRelatives() {
  const { id, key, name } = selected;
  const round = past === null ? "" : past;
  try {
    const found = await askJson(`data/relatives?round=${round}&process=${encodeURIComponent(key)}&task=${encodeURIComponent(name)}`);
    if (selected?.id !== id) return;
    relatives = found;
  } catch {
    relatives = null; // the task has left meanwhile
  }
  refresh();
}

function showDetails() {
  const place = $("details");
  if (!selected) return;
  const view = shown.views.get(selected.key);
  if (!view || (selected.kind === "task" && !view.tasks.has(selected.name))) {
    fill(place, "gone", () => [element("h3", { textContent: selected.name }), element("p", { className: "hint", textContent: "It is not on the bus at this time." })]);
    return;
  }
  const { facts } = view;
  const list = [];
  if (selected.kind === "task") {
    const row = view.tasks.get(selected.name);
    for (const [name, at] of Object.entries(shown.at)) {
      if (name !== "subscriptions") list.push([name, row[at]]);
    }
    list.push(["process", selected.key]);
  } else if (selected.kind === "thread") {
    const thread = facts.threads[selected.name] ?? {};
    list.push(["process", selected.key], ["blocked senders", thread.blocked ?? 0], ["callbacks", thread.callbacks ?? 0], ["per s", thread.per_s ?? 0], ["in a callback for", thread.busy_s ? `${count(thread.busy_s)} s` : "no callback runs"], ["state", thread.state || "serves"]);
  } else if (selected.kind === "process" || selected.kind === "machine") {
    list.push(["machine", facts.machine], ["process id", facts.pid ?? ""], ["role", facts.role], ["state", facts.state || "answers"]);
    if (facts.why) list.push(["why", facts.why]);
    for (const [name, value] of Object.entries(facts.totals)) list.push([name, value]);
    for (const [name, value] of Object.entries(facts.parked)) list.push([`waiting for the name ${name}`, value]);
    for (const each of facts.machines) list.push([`machine ${each.name}`, `${each.state}${each.why ? `: ${each.why}` : ""}`]);
  } else if (selected.kind === "link") {
    const link = facts.links.find((each) => each.to === selected.name);
    for (const [name, value] of Object.entries(link ?? {})) list.push([name, value === "" ? "open" : value]);
  }
  fill(place, selected.id + JSON.stringify(relatives), () => [element("h3", { textContent: `${selected.kind} ${selected.name}` }), element("dl"), ...(selected.kind === "task" ? relativesOf(view) : [])]);
  const terms = place.querySelector("dl");
  if (terms.children.length !== list.length * 2) {
    terms.replaceChildren(...list.flatMap(() => [element("dt"), element("dd")]));
  }
  list.forEach(([name, value], index) => {
    put(terms.children[index * 2], String(name).replaceAll("_", " "));
    const dd = terms.children[index * 2 + 1];
    put(dd, typeof value === "number" ? count(value) : String(value) || "none");
    dd.dataset.field = name;
  });
}

function fill(place, mark, made) {
  if (place.dataset.mark === mark) return;
  place.dataset.mark = mark;
  place.replaceChildren(...made());
}

function relativesOf(view) {
  const parts = [];
  const subscriptions = view.tasks.get(selected.name)[shown.at.subscriptions];
  const links = (title, items) => {
    if (!items.length) return;
    items.sort((one, other) => compare(one[1], other[1]) || compare(one[0], other[0]));
    parts.push(element("h4", { textContent: title }), element("ul", {}, ...items.map(([key, name, pattern]) => element("li", {}, element("button", { type: "button", className: "link", textContent: `${name} of ${key}`, onclick: () => selectTask(key, name) }), pattern ? ` by ${pattern}` : ""))));
  };
  if (subscriptions.length) {
    parts.push(element("h4", { textContent: "Subscribes to" }), element("ul", {}, ...subscriptions.map(([pattern, unread, lost]) => element("li", { textContent: `${pattern}${unread ? `, ${count(unread)} unread` : ""}${lost ? `, ${count(lost)} lost` : ""}` }))));
  }
  if (relatives) {
    links("Which are now", relatives.notifiers);
    links("Subscribed by", relatives.subscribers);
    if (relatives.more) parts.push(element("p", { className: "hint", textContent: `and ${count(relatives.more)} more` }));
  }
  return parts;
}

$("command").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = $("command-answer");
  let payload;
  try {
    payload = JSON.parse($("command-payload").value);
  } catch (error) {
    answer.textContent = `The payload is no JSON: ${error.message}`;
    return;
  }
  answer.textContent = "waiting";
  try {
    const found = await askJson("data/command", { method: "POST", body: JSON.stringify({ to: $("command-to").value, payload }) });
    answer.textContent = found.error ? `Error: ${found.error}` : found.answer;
  } catch (error) {
    answer.textContent = `Error: ${error.message}`;
  }
});

// --- Losses ------------------------------------------------------------------------------

const kinds = new Set();
function addKind(kind) {
  if (kinds.has(kind)) return;
  kinds.add(kind);
  $("kind").append(element("option", { value: kind, textContent: kind }));
}
$("kind").addEventListener("change", () => showLosses());

// A live bus reports counts: rows that differ only in time and count become one.
function grouped(found) {
  const groups = new Map();
  for (const loss of found) {
    const id = loss.message || [loss.kind, loss.what, loss.process, loss.task, loss.why].join("\n");
    const group = groups.get(id);
    groups.delete(id); // the latest ones come last
    groups.set(id, { id, first: group?.first ?? loss.at_ns, count: (group?.count ?? 0) + loss.count, last: loss });
  }
  return [...groups.values()];
}

function showLosses() {
  const until = past === null ? Infinity : (roundShown()?.[1] ?? Infinity);
  const kind = $("kind").value;
  const found = grouped(losses.filter((each) => each.at_ns <= until && (kind === "" || each.kind === kind)));
  const last = found.slice(-ROW_MAX).reverse();
  $("losses-count").textContent = found.length > ROW_MAX ? `the last ${ROW_MAX} of ${count(found.length)} rows` : found.length ? counted(found.length, "row") : "";
  $("no-losses").hidden = found.length > 0;
  const known = new Map([...$("losses").children].map((each) => [each.dataset.mark, each]));
  const made = last.map((group) => known.get(markOf(group)) ?? lossRow(group));
  const stays = new Set(made);
  for (const row of [...$("losses").children]) if (!stays.has(row)) row.remove();
  made.forEach((row, place) => {
    if ($("losses").children[place] !== row) $("losses").insertBefore(row, $("losses").children[place] ?? null);
  });
}

function markOf({ first: since, last, count: sum }) {
  return `${last.number} ${since} ${sum}`;
}

function lossRow(group) {
  const { last: loss, count: sum } = group;
  const where = loss.task
    ? element("button", { type: "button", className: "link", textContent: `${loss.task} in ${loss.process}`, onclick: () => selectTask(loss.process, loss.task) })
    : loss.process;
  const what = loss.message && first.ways
    ? element("button", { type: "button", className: "link", textContent: loss.what, onclick: () => showWay(loss) })
    : sum === 1 ? loss.what.replace(/^(command|notification|message|answer|callback)s/, "$1") : loss.what;
  const row = element("tr", { data: { mark: markOf(group), kind: loss.kind, count: sum } });
  const [since, until] = [clock(group.first), clock(loss.at_ns)];
  const cells = [
    ["time", since === until ? until : `${since} to ${until}`],
    ["kind", element("span", { className: loss.kind === "late" || loss.kind === "unheard" ? "warn" : "bad", textContent: loss.kind })],
    ["messages", element("span", {}, loss.message || loss.what === "process" ? "" : `${count(sum)} `, what)],
    ["where", where],
    ["rule", `${loss.why}${loss.rule ? ` (${loss.rule})` : ""}`],
    ["do", loss.do],
  ];
  row.append(...cells.map(([head, content]) => element("td", { data: { head } }, content)));
  return row;
}

async function showWay(loss) {
  const place = $("way");
  place.hidden = false;
  try {
    const { steps } = await askJson(`data/way?message=${encodeURIComponent(loss.message)}`);
    const begun = steps[0]?.at_ns ?? 0;
    place.replaceChildren(
      element("h3", { textContent: `The way of ${loss.what}` }),
      element("ol", {}, ...steps.map((step) => element("li", { textContent: `+${milliseconds((step.at_ns - begun) / 1000)} ${step.process}: ${step.what}` }))),
      element("button", { type: "button", textContent: "Close", onclick: () => (place.hidden = true) }),
    );
    place.scrollIntoView({ block: "nearest" });
  } catch (error) {
    place.replaceChildren(element("p", { textContent: `Error: ${error.message}` }));
  }
}

// --- The map -----------------------------------------------------------------------------

const base = document.createElement("canvas"); // everything but lights and messages
let boxes = new Map(); // key -> {x, y, w, h}
let dots = new Map(); // key and name -> {x, y}
let dot = 6;
let layoutMark = "";

function layOut(width) {
  const keys = shown.keys();
  const mark = `${width}|${keys.map((key) => `${key}:${[...shown.threads(shown.views.get(key)).values()].map((each) => each.length)}`).join("|")}`;
  if (mark === layoutMark) return;
  layoutMark = mark;
  boxes = new Map();
  dots = new Map();
  const all = keys.reduce((sum, key) => sum + shown.views.get(key).tasks.size, 0);
  dot = all > 3000 ? 3 : all > 600 ? 4 : width > 1400 ? 10 : 7;
  const step = dot + (dot > 3 ? 3 : 1);
  let [x, y, rowHeightNow, machine] = [10, 8, 0, null];
  let [row, place] = [0, 0];
  boxes.bottom = [];
  const nextRow = () => {
    [x, y] = [10, y + rowHeightNow + GAP];
    [row, place, rowHeightNow] = [row + 1, 0, 0];
  };
  for (const key of keys) {
    const view = shown.views.get(key);
    const threads = [...shown.threads(view)];
    const size = Math.max(1, view.tasks.size);
    const across = Math.max(Math.ceil(96 / step), Math.min(Math.ceil(Math.sqrt(size * 2.2)), Math.floor((width - 40) / step)));
    const w = Math.min(width - 20, Math.max(118, across * step + 16));
    if (view.facts.machine !== machine) {
      if (machine !== null) nextRow();
      machine = view.facts.machine;
      boxes.set(`m${machine}`, { x, y, label: `machine ${machine}` });
      y += 20;
    }
    if (x + w > width - 8 && place) nextRow();
    let inner = 26;
    for (const [, names] of threads) {
      names.forEach((name, place) => {
        dots.set(`${key}\n${name}`, { x: x + 8 + (place % across) * step, y: y + inner + Math.floor(place / across) * step, key, name });
      });
      inner += Math.ceil(names.length / across) * step + (names.length ? 4 : 0);
    }
    const h = Math.max(40, inner + 6);
    boxes.set(key, { x, y, w, h, row, place });
    place += 1;
    x += w + 64;
    rowHeightNow = Math.max(rowHeightNow, h);
    boxes.bottom[row] = y + rowHeightNow;
  }
  boxes.height = y + rowHeightNow + (place > 2 ? GAP : 14);
}

// The curve of a link: its ends on the borders of two boxes, and a point that bends it.
// Boxes of a row are joined below the row, unless they are neighbours.
function curve(from, to) {
  const [one, other] = [boxes.get(from), boxes.get(to)];
  const places = Math.abs(one.place - other.place);
  if (one.row === other.row && places > 1) {
    const [begin, end] = [[one.x + one.w / 2, one.y + one.h], [other.x + other.w / 2, other.y + other.h]];
    return [begin, [(begin[0] + end[0]) / 2, Math.max(begin[1], end[1], boxes.bottom[one.row]) + 16 + 8 * places], end];
  }
  const [begin, end] = [edge(one, other), edge(other, one)];
  return [begin, [(begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2], end];
}

function pointOf([begin, bend, end], way) {
  const rest = 1 - way;
  return [0, 1].map((axis) => rest * rest * begin[axis] + 2 * rest * way * bend[axis] + way * way * end[axis]);
}

// Where the line from the middle of one box to that of another leaves the first.
function edge(box, other) {
  const [cx, cy] = [box.x + box.w / 2, box.y + Math.min(box.h, 60) / 2];
  const [dx, dy] = [other.x + other.w / 2 - cx, other.y + Math.min(other.h, 60) / 2 - cy];
  const down = dy > 0 ? box.y + box.h - cy : cy - box.y;
  const scale = Math.min(box.w / 2 / Math.max(1e-6, Math.abs(dx)), down / Math.max(1e-6, Math.abs(dy)));
  return [cx + dx * scale, cy + dy * scale];
}

function drawMap() {
  const frame = $("map-frame");
  const width = frame.clientWidth;
  if (!width) return;
  layOut(width);
  const height = Math.max(60, boxes.height || 60);
  const canvas = $("map");
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const paper = sized(base, width, height);
  paper.font = "12px system-ui, sans-serif";
  const words = $("search").value.trim().toLowerCase();
  const lines = new Map();
  for (const [key, view] of shown.views) {
    for (const link of view.facts.links) {
      if (!boxes.has(link.to)) continue;
      const pair = [key, link.to].sort().join("\n");
      const known = lines.get(pair) ?? { ends: [key, link.to], per_s: 0, state: "" };
      known.per_s += link.per_s;
      known.state ||= link.state;
      lines.set(pair, known);
    }
  }
  for (const { ends, per_s, state } of lines.values()) {
    const [from, bend, to] = curve(...ends);
    paper.strokeStyle = colour(state && state !== "left" ? "--bad" : per_s ? "--accent" : "--line");
    paper.globalAlpha = per_s ? 0.55 : 0.8;
    paper.lineWidth = per_s ? 1 + Math.log10(1 + per_s) : 1;
    paper.beginPath();
    paper.moveTo(...from);
    paper.quadraticCurveTo(...bend, ...to);
    paper.stroke();
  }
  paper.globalAlpha = 1;
  for (const [key, box] of boxes) {
    if (box.label) {
      paper.fillStyle = colour("--soft");
      paper.fillText(box.label, box.x, box.y + 12);
      continue;
    }
    const { facts } = shown.views.get(key);
    const threads = Object.values(facts.threads).map((each) => each.state);
    const state = facts.state || threads.find((each) => each) || "";
    paper.fillStyle = colour("--back");
    const trouble = state && state !== "left";
    paper.strokeStyle = colour(trouble ? (state === "blocked" ? "--warn" : "--bad") : "--line");
    paper.lineWidth = trouble ? 2 : 1;
    paper.beginPath();
    paper.roundRect(box.x + 0.5, box.y + 0.5, box.w, box.h, 5);
    paper.fill();
    paper.stroke();
    paper.fillStyle = colour(facts.state ? "--soft" : "--text");
    const title = state ? `${facts.process}: ${state}` : facts.process;
    paper.fillText(cut(paper, title, box.w - 16), box.x + 8, box.y + 16);
  }
  const tones = { plain: colour("--dot"), busy: colour("--good"), full: colour("--warn"), lost: colour("--bad") };
  const at = shown.at;
  for (const { x, y, key, name } of dots.values()) {
    const row = shown.views.get(key)?.tasks.get(name);
    if (!row) continue;
    paper.fillStyle = row[at.state] ? tones.full : row[at.per_s] ? tones.busy : tones.plain;
    paper.globalAlpha = words && !name.toLowerCase().includes(words) ? 0.25 : 1;
    paper.fillRect(x, y, dot, dot);
  }
  paper.globalAlpha = 1;
  for (const { ends, per_s } of lines.values()) {
    if (!per_s) continue;
    const text = `${count(per_s)}/s`;
    const wide = paper.measureText(text).width;
    const middle = pointOf(curve(...ends), 0.38); // labels of lines that cross stay apart
    const [x, y] = [middle[0] - wide / 2, middle[1] - 10];
    paper.fillStyle = colour("--card");
    paper.globalAlpha = 0.85;
    paper.fillRect(x - 3, y - 9, wide + 6, 15);
    paper.globalAlpha = 1;
    paper.fillStyle = colour("--text");
    paper.fillText(text, x, y + 3);
  }
  animate();
}

function cut(paper, text, width) {
  if (paper.measureText(text).width <= width) return text;
  let length = text.length;
  while (length && paper.measureText(`${text.slice(0, length)}\u2026`).width > width) length--;
  return `${text.slice(0, length)}\u2026`;
}

let animating = false;
function animate() {
  if (animating) return;
  animating = true;
  requestAnimationFrame(frame);
}

function frame(now) {
  const canvas = $("map");
  if (canvas.width !== base.width || canvas.height !== base.height) {
    canvas.width = base.width;
    canvas.height = base.height;
  }
  const paper = canvas.getContext("2d");
  const scale = devicePixelRatio || 1;
  paper.setTransform(1, 0, 0, 1, 0, 0);
  paper.clearRect(0, 0, canvas.width, canvas.height);
  paper.drawImage(base, 0, 0);
  paper.setTransform(scale, 0, 0, scale, 0, 0);
  paper.fillStyle = colour("--lit");
  for (const [id, at] of lit) {
    const age = now - at;
    if (age > LIT_MS) {
      lit.delete(id);
      continue;
    }
    const place = past === null && age >= 0 && dots.get(id);
    if (!place) continue;
    paper.globalAlpha = 1 - age / LIT_MS;
    paper.fillRect(place.x - 1.5, place.y - 1.5, dot + 3, dot + 3);
  }
  for (let place = flying.length - 1; place >= 0; place--) {
    const { from, to, at } = flying[place];
    const way = (now - at) / 450;
    if (way > 1) {
      flying.splice(place, 1);
      continue;
    }
    if (way < 0 || past !== null || !boxes.has(from) || !boxes.has(to)) continue;
    paper.globalAlpha = 1;
    paper.beginPath();
    paper.arc(...pointOf(curve(from, to), way), 2.5, 0, 7);
    paper.fill();
  }
  paper.globalAlpha = 1;
  animating = lit.size > 0 || flying.length > 0;
  if (animating) requestAnimationFrame(frame);
}

function dotAt(event) {
  const { left, top } = $("map").getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top];
  for (const place of dots.values()) {
    if (x >= place.x - 1 && x <= place.x + dot + 1 && y >= place.y - 1 && y <= place.y + dot + 1) return place;
  }
  return null;
}
$("map").addEventListener("mousemove", (event) => {
  $("map").title = dotAt(event)?.name ?? "";
});
$("map").addEventListener("click", (event) => {
  const found = dotAt(event);
  if (found) selectTask(found.key, found.name);
});

// --- Light and dark, sizes -----------------------------------------------------------------

function repaint() {
  colours = {};
  layoutMark = "";
  if (first) refresh();
}
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  repaint();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
new ResizeObserver(repaint).observe($("map-frame"));
addEventListener("hashchange", () => location.reload());

if (token) follow();
else complain("This page needs the token behind the # of its address. Open the whole address that bus web printed.");
