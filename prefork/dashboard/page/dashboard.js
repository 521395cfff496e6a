"use strict";

// The server sends an event "past" with the points of the last minutes, and twice a second an
// event "now" with the newest point and the status. Field names of the status are those of
// prefork.Status in JSON, whose durations are in nanoseconds.

const most = 600; // points that are kept and drawn
const points = [];
let before = null; // the status before

const $ = id => document.getElementById(id);

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// count is a number for people: at most four digits.
function count(n) {
  if (n < 10 && n % 1) return n.toFixed(1);
  for (const unit of ["", "k", "M", "G", "T"]) {
    if (n < 1000 || unit === "T") return (unit && n < 10 ? n.toFixed(1) : Math.round(n)) + unit;
    n /= 1000;
  }
}

function bytes(n) {
  let i = 0;
  for (; n >= 1024 && i < 4; i++) n /= 1024;
  return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][i];
}

// time is a duration of nanoseconds.
function time(ns) {
  if (!ns) return "0";
  if (ns < 1e6) return (ns / 1e3).toPrecision(3) + " µs";
  if (ns < 1e9) return (ns / 1e6).toPrecision(3) + " ms";
  const s = ns / 1e9;
  if (s < 60) return s.toPrecision(3) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 48 * 3600) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

const percent = share => Math.round(100 * share) + " %";
const since = when => time((Date.now() - Date.parse(when)) * 1e6);
const clock = when => new Date(when).toLocaleTimeString();

// stateOf returns what to say of the service, and how bad it is.
function stateOf(s) {
  if (s.stopping) return ["stopping", "warn"];
  if (s.paused) return ["paused", "warn"];
  if (s.degraded) return ["degraded", "bad"];
  if (s.soaking) return ["soaking", "warn"];
  if (s.rolling) return ["restarting", "warn"];
  if (!s.ready) return ["not ready", "bad"];
  return ["ready", "good"];
}

function tiles(s, p) {
  const ready = s.workers.filter(w => w.phase === "ready").length;
  const list = [
    ["requests/s", count(p.ok + p.redirect + p.client + p.server)],
    ["server errors/s", count(p.server), p.server > 0 && "bad"],
    ["median", time(p.p50)],
    ["99 of 100 within", time(p.p99)],
    ["in progress", count(s.total.in_flight)],
    ["oldest request", time(s.total.oldest_request_ns)],
    ["open connections", count(s.total.active)],
    ["of them idle", count(s.total.idle)],
    ["HTTP/2", count(s.total.http2.connections)],
    ["HTTP/3", count(s.total.http3.connections)],
    ["refused", count(s.refused), s.refused > 0 && "warn"],
    ["timed out", count(s.timed_out), s.timed_out > 0 && "warn"],
    ["processors in use", p.cpu.toFixed(2)],
    ["memory", bytes(p.memory)],
  ];
  if (s.master.pid) {
    list.push(["workers ready", ready + " of " + s.wanted, ready < s.wanted && "bad"]);
    list.push(["version", s.version || 1]);
    list.push(["restarts", s.restarts]);
    list.push(["crashes", s.crashes, s.crashes > 0 && "warn"]);
  }
  $("tiles").replaceChildren(...list.map(([label, value, how]) => {
    const tile = element("div", undefined, "tile");
    tile.append(element("b", value, how || ""), element("span", label));
    return tile;
  }));
}

// A plot has lines of the points' fields.
const plots = [
  {title: "Requests a second", unit: count, lines: [["2xx", "ok", "a"], ["3xx", "redirect", "b"], ["4xx", "client", "d"], ["5xx", "server", "c"]]},
  {title: "Latency", unit: time, lines: [["half", "p50", "a"], ["90 %", "p90", "b"], ["99 %", "p99", "d"], ["99.9 %", "p999", "c"]]},
  {title: "Connections", unit: count, lines: [["open", "open", "a"], ["idle", "idle", "b"], ["HTTP/2", "http2", "d"], ["HTTP/3", "http3", "e"], ["in progress", "flight", "c"]]},
  {title: "Processors and memory", unit: n => n.toFixed(2), second: bytes, lines: [["processors", "cpu", "a"], ["memory", "memory", "b", true]]},
];

function makePlots() {
  for (const plot of plots) {
    const figure = element("figure");
    plot.canvas = element("canvas");
    plot.canvas.setAttribute("role", "img");
    plot.caption = element("figcaption");
    figure.append(plot.caption, plot.canvas);
    $("plots").append(figure);
  }
}

function drawPlot(plot, style) {
  const {canvas} = plot, scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width) return;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const g = canvas.getContext("2d");
  g.scale(scale, scale);
  const last = points[points.length - 1];
  const span = Math.max(60, (last.t - points[0].t) / 1000);
  const top = 6, bottom = height - 18;
  const x = p => width - (last.t - p.t) / 1000 / span * width;
  const largest = fields => Math.max(1e-9, ...points.map(p => Math.max(...fields.map(f => p[f]))));
  const highest = [false, true].map(second => largest(plot.lines.filter(l => !!l[3] === second).map(l => l[1]).concat([])) * 1.08);
  g.strokeStyle = style.getPropertyValue("--line");
  g.fillStyle = style.getPropertyValue("--faint");
  g.font = "12px system-ui, sans-serif";
  for (const part of [0, .5, 1]) {
    const y = bottom - part * (bottom - top);
    g.beginPath();
    g.moveTo(0, y);
    g.lineTo(width, y);
    g.stroke();
  }
  g.fillText(plot.unit(highest[0] / 1.08), 2, top + 12);
  g.fillText(Math.round(span) + " s ago", 2, height - 4);
  if (plot.second) {
    const text = plot.second(highest[1] / 1.08);
    g.fillText(text, width - g.measureText(text).width - 2, top + 12);
  }
  g.lineWidth = 1.5;
  plot.caption.replaceChildren(element("strong", plot.title));
  for (const [label, field, color, isSecond] of plot.lines) {
    g.strokeStyle = style.getPropertyValue("--" + color);
    g.beginPath();
    for (const p of points) g.lineTo(x(p), bottom - p[field] / highest[isSecond ? 1 : 0] * (bottom - top));
    g.stroke();
    plot.caption.append(element("span", label + " " + (isSecond ? plot.second : plot.unit)(last[field]), color));
  }
  canvas.setAttribute("aria-label", plot.caption.textContent);
}

function draw() {
  if (!points.length) return;
  const style = getComputedStyle(document.documentElement);
  for (const plot of plots) drawPlot(plot, style);
}

// fill writes a table. A column is [title, value of a row, class].
function fill(table, rows, columns, none) {
  const head = element("tr");
  for (const [title, , className] of columns) head.append(element("th", title, className));
  const body = rows.map(row => {
    const line = element("tr");
    for (const [, value, className] of columns) {
      const v = value(row);
      const cell = element("td", v instanceof Node ? undefined : v, className);
      if (v instanceof Node) cell.append(v);
      line.append(cell);
    }
    return line;
  });
  const parts = [element("thead"), element("tbody")];
  parts[0].append(head);
  parts[1].append(...body);
  if (!rows.length) parts.splice(0, 2, element("caption", none));
  table.replaceChildren(...parts);
}

// rate is what a counter of a worker has gained a second.
function rate(w, get, seconds) {
  const old = before && before.status.workers.find(o => o.pid === w.pid);
  return old && seconds > 0 ? Math.max(0, get(w) - get(old)) / seconds : 0;
}

function tables(s, seconds) {
  const isFleet = s.master.pid !== 0;
  const phase = w => element("span", w.phase, w.phase === "ready" ? "good" : w.phase === "hung" || w.phase === "killed" ? "bad" : "warn");
  const columns = [
    ["slot", w => w.slot + "." + w.generation], ["pid", w => w.pid], ["phase", phase, "text"], ["up", w => since(w.started)],
    ["version", w => w.version || ""],
    ["open", w => count(w.active)], ["idle", w => count(w.idle)], ["HTTP/2", w => count(w.http2.connections)], ["HTTP/3", w => count(w.http3.connections)],
    ["in progress", w => w.in_flight], ["oldest", w => time(w.oldest_request_ns)],
    ["requests/s", w => count(rate(w, o => o.requests, seconds))], ["5xx", w => count(w.responses[4])],
    ["processors", w => rate(w, o => o.cpu_ns / 1e9, seconds).toFixed(2)], ["memory", w => bytes(w.resident_bytes)],
    ["goroutines", w => count(w.goroutines)], ["late", w => time(w.lag_ns)],
  ];
  if (s.profiles) columns.push(["", w => {
    const a = element("a", "pprof");
    a.href = "workers/" + w.slot + "." + w.generation + "/pprof/";
    return a;
  }]);
  fill($("workers"), s.workers, isFleet ? columns : columns.filter(c => c[0] !== "version"), "there is none");
  $("fleet").hidden = !isFleet;
  fill($("slots"), s.slots, [
    ["slot", o => o.slot], ["generation", o => o.generation], ["queue", o => o.queue], ["restarts", o => o.restarts],
    ["crashes", o => o.crashes], ["hangs", o => o.hangs],
    ["version", o => o.version || ""], ["since", o => o.version ? since(o.version_since) : ""], ["because of", o => o.version_cause || "", "text"],
    ["last crash", o => o.crash_reason ? since(o.crashed) + " ago: " + o.crash_reason : "", "text long"],
    ["served by", o => o.retired ? "retired" : o.adopter < 0 ? "itself" : "slot " + o.adopter, "text"],
  ], "there is none");
  fill($("slow"), s.slow_requests || [], [
    ["at", r => clock(r.began)], ["took", r => time(r.took_ns)], ["status", r => r.status], ["pid", r => r.pid],
    ["method", r => r.method, "text"], ["path", r => r.path, "text long"],
  ], "none");
}

// own shows the program's own tables.
function own(tables) {
  $("own").replaceChildren(...tables.map(t => {
    const section = element("section"), scroll = element("div", undefined, "scroll"), table = element("table");
    fill(table, t.rows, t.columns.map((title, i) => [title, row => row[i], i ? "" : "text"]), "there is none");
    scroll.append(table);
    section.append(element("h2", t.title), scroll);
    return section;
  }));
}

// tell adds a line to the log.
function tell(text, how) {
  const line = element("li");
  line.append(element("time", new Date().toLocaleTimeString()), element("span", text, how || ""));
  $("log").prepend(line);
  while ($("log").children.length > 100) $("log").lastChild.remove();
}

// compare tells what has changed since the status before.
function compare(s) {
  if (!before) return;
  const old = before.status, name = w => "worker " + w.slot + "." + w.generation + " (" + w.pid + ")";
  const [now, how] = stateOf(s), [then] = stateOf(old);
  if (now !== then) tell("the service is " + now, how);
  for (const w of s.workers) {
    const was = old.workers.find(o => o.pid === w.pid);
    if (!was) tell(name(w) + " was started" + (w.version ? ", version " + w.version : ""));
    if ((!was || was.phase !== w.phase) && w.phase !== "spawned") tell(name(w) + " is " + w.phase, w.phase === "hung" ? "bad" : "");
  }
  for (const w of old.workers) if (!s.workers.some(o => o.pid === w.pid)) tell(name(w) + " has ended");
  for (const o of s.slots) {
    const was = old.slots.find(b => b.slot === o.slot);
    if (was && o.crashes > was.crashes) tell("slot " + o.slot + ": a worker has crashed" + (o.crash_reason ? ": " + o.crash_reason : ""), "bad");
  }
  if (s.restarts_failed > old.restarts_failed) tell("a restart has failed: " + s.restart_error, "bad");
  if (s.restarts > old.restarts) tell("a restart is complete", "good");
  if (s.version > old.version) tell("version " + s.version + " is wanted");
}

function show(m) {
  const seconds = before ? (m.point.t - before.point.t) / 1000 : 0;
  points.push(m.point);
  if (points.length > most) points.shift();
  compare(m.status);
  const [state, how] = stateOf(m.status);
  $("state").textContent = state;
  $("state").className = "badge " + how;
  document.title = state + " · Sluice";
  $("notice").hidden = !m.status.restart_error;
  $("notice").textContent = "The last restart failed: " + m.status.restart_error;
  $("more").hidden = !m.more;
  $("more").textContent = "and " + m.more + " more";
  tiles(m.status, m.point);
  tables(m.status, seconds);
  own(m.tables);
  draw();
  before = m;
}

makePlots();
const source = new EventSource("dashboard.events");
source.onopen = () => { $("link").textContent = "live"; $("link").className = ""; };
source.onerror = () => { $("link").textContent = "connection lost, trying again"; $("link").className = "lost"; };
source.addEventListener("past", e => { points.splice(0, points.length, ...JSON.parse(e.data)); draw(); });
source.addEventListener("now", e => show(JSON.parse(e.data)));
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
