"use strict";
(() => {
  const root = document.documentElement;
  const find = (query, within = document) => [...within.querySelectorAll(query)];
  const byId = (id) => document.getElementById(id);
  const say = (text) => { byId("said").textContent = text; };

  // Storage is refused to some pages from file:// and in private windows.
  const remember = (key, value) => {
    try { localStorage.setItem(key, value); } catch { /* then not */ }
  };
  const recall = (key) => {
    try { return localStorage.getItem(key); } catch { return null; }
  };

  // Theme ------------------------------------------------------------------------------------

  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const stored = recall("dataeff-theme");
  // At once, before anything is painted.
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;

  function showTheme() {
    const button = byId("theme");
    button.hidden = false;
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  }

  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember("dataeff-theme", root.dataset.theme);
    showTheme();
  }

  // Paper shows all there is, and what was folded is folded again.
  const opened = [];
  addEventListener("beforeprint", () => {
    opened.push(...find("details:not([open])"));
    opened.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => {
    opened.splice(0).forEach((fold) => { fold.open = false; });
  });

  // Places -----------------------------------------------------------------------------------

  /** Open whatever folds away the place that the address names, and go there. */
  function reveal() {
    let place = null;
    try { place = byId(decodeURIComponent(location.hash.slice(1))); } catch { /* no place */ }
    for (let fold = place; fold; fold = fold.parentElement?.closest("details")) {
      if (fold.localName === "details") fold.open = true;
    }
    place?.scrollIntoView();
  }

  // Charts -----------------------------------------------------------------------------------

  /** Leave out of the charts of a table what its buttons say. */
  function toggle(button) {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
    leaveOut(button.closest("details"));
  }

  function leaveOut(within) {
    for (const button of find("[data-toggle]", within)) {
      const out = button.getAttribute("aria-pressed") === "false";
      find(`[data-key="${button.dataset.toggle}"]`, within)
        .forEach((part) => part.classList.toggle("out", out));
    }
  }

  /** Mark the method that is looked at, in the chart and in the table beside it. */
  function look(event) {
    const at = event.target.closest?.("[data-look]");
    const key = event.type === "pointerout" || event.type === "focusout" ? null : at?.dataset.look;
    if (!at) return;
    const within = at.closest(".two");
    find(".looked", within).forEach((part) => part.classList.remove("looked"));
    if (key) find(`[data-look="${key}"]`, within).forEach((part) => part.classList.add("looked"));
  }

  const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity",
    "fill-opacity", "opacity", "font-size", "font-family", "font-weight", "text-anchor",
    "stroke-linejoin", "visibility"];

  /** Return the drawing of a figure that is shown, as a file of its own. */
  function drawing(figure) {
    const shown = find("svg.chart", figure).find((one) => one.getBoundingClientRect().width);
    const copy = shown.cloneNode(true);
    const parts = [shown, ...find("*", shown)];
    [copy, ...find("*", copy)].forEach((part, place) => {
      const style = getComputedStyle(parts[place]);
      if (style.display === "none") part.setAttribute("display", "none");
      for (const name of KEPT) part.setAttribute(name, style.getPropertyValue(name));
      part.removeAttribute("class");
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(copy);
  }

  // Downloads --------------------------------------------------------------------------------

  function save(name, text, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = `${document.body.dataset.name}-${name}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const quoted = (value) => {
    const text = value === null ? "" : value === true ? "True" : value === false ? "False"
      : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };

  function download(form) {
    const { answers, columns, lines } = JSON.parse(byId("data").textContent);
    if (form === "csv") {
      const text = [columns, ...lines].map((line) => line.map(quoted).join(",")).join("\n");
      save("leaderboard.csv", `${text}\n`, "text/csv");
      return;
    }
    const named = lines.map((line) =>
      Object.fromEntries(columns.map((column, place) => [column, line[place]])));
    save("leaderboard.json", JSON.stringify({ answers, lines: named }, null, 1), "application/json");
  }

  async function copy(button) {
    const command = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(command.textContent);
      say("Copied.");
    } catch {
      getSelection().selectAllChildren(command);
      say(document.execCommand("copy") ? "Copied." : "Selected: press Ctrl+C or Cmd+C to copy it.");
    }
  }

  // Tables -----------------------------------------------------------------------------------

  const sorting = new Map();

  /** Return what a cell sorts by: its number, else its text; undefined where there is neither. */
  function worth(cell) {
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim();
    return text && text !== "–" ? text.toLowerCase() : undefined;
  }

  function compare(a, b) {
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  }

  function sort(table, head, direction) {
    const place = head.cellIndex;
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [worth(row.cells[place]), row]);
    rows.sort(([a], [b]) => {
      // What is missing comes last, whichever way.
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * compare(a, b);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
    find("th[aria-sort]", table.tHead).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction);
    sorting.set(table.id, [head.dataset.name, direction]);
  }

  function sortBy(head) {
    const turned = { ascending: "descending", descending: "ascending" };
    const direction = turned[head.getAttribute("aria-sort")] ?? head.dataset.first;
    sort(head.closest("table"), head, direction);
  }

  function filter(table) {
    const field = document.querySelector(`[data-filter="${table.id}"]`);
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isOn = (name) =>
      Boolean(document.querySelector(`[data-table="${table.id}"][data-switch="${name}"]`)?.checked);
    table.classList.toggle("all", isOn("more"));
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const [strategy, verdict] = row.cells;
      const text = `${strategy.textContent} ${verdict.textContent}`.toLowerCase();
      const isIn = words.every((word) => text.includes(word));
      row.hidden = !isIn || (isOn("controls") && row.classList.contains("control"));
      shown += !row.hidden;
    }
    const all = table.tBodies[0].rows.length;
    byId(`${table.id}-count`).textContent = shown < all ? `${shown} of ${all}` : "";
  }

  // Live -------------------------------------------------------------------------------------

  // What the reader has set, and the page that comes knows nothing of.
  const SET = new Set(["open", "aria-pressed", "aria-sort"]);
  const same = (one, other) =>
    one.nodeType === other.nodeType && one.nodeName === other.nodeName
    && (one.id ?? "") === (other.id ?? "");

  /** Make a part of the page what it is to be, and leave alone what is so already. */
  function patch(old, now) {
    if (old.isEqualNode(now)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = now.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && !SET.has(name)) old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
      if (!SET.has(name) || !old.hasAttribute(name)) old.setAttribute(name, value);
    }
    const coming = [...now.childNodes];
    let at = old.firstChild;
    for (const child of coming) {
      let found = at;
      // What has a name is found by it, wherever it has moved to.
      if (child.id) found = [...old.children].find((one) => one.id === child.id) ?? null;
      else if (at && !same(at, child)) found = null;
      if (!found) {
        old.insertBefore(document.importNode(child, true), at);
        continue;
      }
      if (found !== at) old.insertBefore(found, at);
      at = found.nextSibling;
      patch(found, child);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function refresh(text) {
    const now = new DOMParser().parseFromString(text, "text/html");
    const before = scrollY;
    patch(byId("main"), now.getElementById("main"));
    byId("data").textContent = now.getElementById("data").textContent;
    document.title = now.title;
    root.dataset.live = now.documentElement.dataset.live;
    for (const [id, [name, direction]] of sorting) {
      const head = document.querySelector(`#${CSS.escape(id)} th[data-name="${name}"]`);
      if (head) sort(byId(id), head, direction);
    }
    start();
    scrollTo(0, before);
  }

  function startLive() {
    if (location.protocol !== "http:" || !root.dataset.live) return;
    const badge = byId("live");
    badge.hidden = false;
    badge.textContent = "live";
    setInterval(async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch("/version", { cache: "no-store" });
        // Too many tabs ask: this one asks again.
        if (answer.status === 503) return;
        const version = await answer.text();
        badge.textContent = "live";
        badge.classList.remove("gone");
        if (version === root.dataset.live) return;
        const page = await fetch("/", { cache: "no-store" });
        if (page.ok) refresh(await page.text());
      } catch {
        badge.textContent = "no longer live";
        badge.classList.add("gone");
      }
    }, 2000);
  }

  // ------------------------------------------------------------------------------------------

  /** Set up what has no listener of its own: after the page is read, and after each change. */
  function start() {
    find("[data-save], [data-download]").forEach((button) => { button.hidden = false; });
    find("table.results").forEach(filter);
    find("details").forEach(leaveOut);
  }

  const CLICKS = {
    "#theme": switchTheme,
    "[data-toggle]": toggle,
    "[data-copy]": copy,
    "[data-download]": (button) => download(button.dataset.download),
    "[data-save]": (button) =>
      save(`${button.dataset.save}.svg`, drawing(byId(button.dataset.save)), "image/svg+xml"),
    "table.results th button": (button) => sortBy(button.closest("th")),
  };

  document.addEventListener("click", (event) => {
    for (const [query, act] of Object.entries(CLICKS)) {
      const button = event.target.closest(query);
      if (button) act(button);
    }
  });
  document.addEventListener("input", (event) => {
    const table = event.target.dataset.filter ?? event.target.dataset.table;
    if (table) filter(byId(table));
  });
  for (const kind of ["pointerover", "pointerout", "focusin", "focusout"]) {
    document.addEventListener(kind, look);
  }
  addEventListener("hashchange", reveal);
  document.addEventListener("DOMContentLoaded", () => {
    showTheme();
    system.addEventListener("change", showTheme);
    start();
    startLive();
    reveal();
  });
})();
