"use strict";
(() => {
  const root = document.documentElement;
  const find = (query, within = document) => [...within.querySelectorAll(query)];
  const byId = (id) => document.getElementById(id);

  // Storage is refused to some pages from file:// and in private windows.
  const remember = (storage, key, value) => {
    try { window[storage].setItem(key, value); } catch { /* then not */ }
  };
  const recall = (storage, key) => {
    try { return window[storage].getItem(key); } catch { return null; }
  };

  // Theme ------------------------------------------------------------------------------------

  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const stored = recall("localStorage", "dataeff-theme");
  // At once, before anything is painted.
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;

  function startTheme() {
    const button = byId("theme");
    const show = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
      redraw();
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember("localStorage", "dataeff-theme", root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  }

  // Charts -----------------------------------------------------------------------------------

  const NAMES = ["page", "card", "ink", "soft", "line", "good", "c1", "c2", "c3", "c4", "c5", "c6"];
  const CONFIG = { displayModeBar: false, responsive: true, typesetMath: false, showTips: false };
  const drawn = new Set();
  let figures = {};

  /** Return the colours of the theme by the names that figures call them by. */
  function colours() {
    const probe = document.createElement("i");
    document.body.append(probe);
    const found = new Map(NAMES.map((name) => {
      probe.style.color = `var(--${name})`;
      return [`<${name}>`, getComputedStyle(probe).color];
    }));
    probe.remove();
    return found;
  }

  const painted = (value, paint) =>
    typeof value === "string" ? paint.get(value) ?? value
      : Array.isArray(value) ? value.map((item) => painted(item, paint))
        : value && typeof value === "object"
          ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, painted(item, paint)]))
          : value;

  function hiddenKeys(plot) {
    const pressed = find('[data-key][aria-pressed="false"]', plot.closest("[data-charts]"));
    return new Set(pressed.map((button) => Number(button.dataset.key)));
  }

  function draw(plot, paint = colours()) {
    const { data, layout } = painted(figures[plot.id], paint);
    const hidden = hiddenKeys(plot);
    for (const trace of data) trace.visible = !hidden.has(trace.meta);
    // A finger that scrolls the page must not zoom a chart.
    layout.dragmode = matchMedia("(pointer: fine)").matches ? "zoom" : false;
    // Charts are drawn before the page is laid out for paper.
    if (root.classList.contains("printing")) layout.width = plot.clientWidth;
    drawn.add(plot);
    window.Plotly.react(plot, data, layout, CONFIG);
  }

  function redraw(plots = drawn) {
    const paint = colours();
    for (const plot of plots) draw(plot, paint);
  }

  function startCharts() {
    figures = JSON.parse(byId("figures").textContent);
    const near = new IntersectionObserver((entries) => {
      const due = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
      due.forEach((plot) => near.unobserve(plot));
      if (due.length) redraw(due);
    }, { rootMargin: "600px" });
    find(".plot").forEach((plot) => near.observe(plot));
    for (const button of find("[data-key]")) {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
        const within = button.closest("[data-charts]");
        redraw([...drawn].filter((plot) => within.contains(plot)));
      });
    }
    let before;
    window.addEventListener("beforeprint", () => {
      before = root.dataset.theme;
      root.dataset.theme = "light";
      root.classList.add("printing");
      redraw(find(".plot"));
    });
    window.addEventListener("afterprint", () => {
      if (before) root.dataset.theme = before; else delete root.dataset.theme;
      root.classList.remove("printing");
      redraw();
      drawn.forEach((plot) => window.Plotly.Plots.resize(plot));
    });
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

  function startTables() {
    for (const table of find("table.results")) {
      for (const head of table.tHead.rows[0].cells) {
        head.querySelector("button").addEventListener("click", () => {
          const turned = { ascending: "descending", descending: "ascending" };
          sort(table, head, turned[head.getAttribute("aria-sort")] ?? head.dataset.first);
        });
      }
      document.querySelector(`[data-filter="${table.id}"]`)
        .addEventListener("input", () => filter(table));
      find(`[data-table="${table.id}"]`)
        .forEach((box) => box.addEventListener("change", () => filter(table)));
    }
  }

  // The command ------------------------------------------------------------------------------

  function startCopy() {
    const say = (text) => { byId("copied").textContent = text; };
    byId("copy").addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(byId("command").textContent);
        say("Copied.");
      } catch {
        getSelection().selectAllChildren(byId("command"));
        say(document.execCommand("copy") ? "Copied." : "Selected: press Ctrl+C or Cmd+C to copy it.");
      }
    });
  }

  // Live -------------------------------------------------------------------------------------

  const KEPT = `dataeff-view-${location.pathname}`;

  function keepView() {
    const view = {
      scroll: scrollY,
      filters: find("[data-filter]").map((field) => [field.dataset.filter, field.value]),
      switches: find("[data-switch]:checked").map((box) => [box.dataset.table, box.dataset.switch]),
      hidden: find('[data-key][aria-pressed="false"]').map((button) =>
        [button.closest("section").id, button.dataset.key]),
      sorting: [...sorting],
    };
    remember("sessionStorage", KEPT, JSON.stringify(view));
  }

  function restoreView() {
    const text = recall("sessionStorage", KEPT);
    if (!text) return;
    remember("sessionStorage", KEPT, "");
    const view = JSON.parse(text);
    const set = (query, change) => find(query).forEach(change);
    for (const [id, value] of view.filters) {
      set(`[data-filter="${id}"]`, (field) => { field.value = value; });
    }
    for (const [id, name] of view.switches) {
      set(`[data-table="${id}"][data-switch="${name}"]`, (box) => { box.checked = true; });
    }
    for (const [id, key] of view.hidden) {
      set(`#${id} [data-key="${key}"]`, (button) => button.setAttribute("aria-pressed", "false"));
    }
    for (const [id, [name, direction]] of view.sorting) {
      set(`#${id} th[data-name="${name}"]`, (head) => sort(byId(id), head, direction));
    }
    find("table.results").forEach(filter);
    scrollTo(0, view.scroll);
  }

  function startLive() {
    if (location.protocol !== "http:" || !root.dataset.live) return;
    const badge = byId("live");
    badge.hidden = false;
    badge.textContent = "live";
    restoreView();
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
        keepView();
        location.reload();
      } catch {
        badge.textContent = "no longer live";
        badge.classList.add("gone");
      }
    }, 2000);
  }

  document.addEventListener("DOMContentLoaded", () => {
    startCharts();
    startTheme();
    startTables();
    startCopy();
    startLive();
  });
})();
