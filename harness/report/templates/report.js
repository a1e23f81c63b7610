// Tables that can be sorted and filtered, items that open when a link leads to them. Nothing is loaded and nothing is sent.
"use strict";

const DASH = "–";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// What a row is told by: {cells: [{text, sort}], show: () => tr}. Rows of the page exist; those of the attempts are made when they are shown.
function rowsOfPage(table) {
  return [...table.tBodies[0].rows].map((tr) => ({
    cells: [...tr.cells].map((td) => {
      const text = td.textContent.trim();
      return { text, sort: "none" in td.dataset ? null : "sort" in td.dataset ? td.dataset.sort : text.toLowerCase() };
    }),
    id: tr.id,
    show: () => tr,
  }));
}

function rowsOfAttempts(columns) {
  const data = JSON.parse(document.getElementById("attempt-data").textContent);
  const place = (value) => (value === null ? "" : data.strings[value]);
  const formats = { cost: (v) => "$" + v.toFixed(2), tokens: (v) => v.toLocaleString("en"), seconds: (v) => v.toFixed(1), score: (v) => v.toFixed(2) };
  return data.rows.map((row) => {
    const cells = columns.map((column, at) => {
      const value = row[at];
      if (value === null) return { text: DASH, sort: null };
      if (!column.numeric) return { text: place(value), sort: place(value).toLowerCase() };
      return { text: (formats[column.title] || String)(value), sort: value };
    });
    const [item, issue, trajectory] = row.slice(columns.length).map(place);
    return { cells, show: () => attemptRow(cells, columns, { item, issue, trajectory }) };
  });
}

function attemptRow(cells, columns, links) {
  const tr = document.createElement("tr");
  cells.forEach((cell, at) => {
    const td = element("td", columns[at].numeric ? { class: "n" } : columns[at].title === "recalled" ? { class: "long" } : {});
    const title = columns[at].title;
    const to = title === "outcome" ? links.trajectory : title === "issue" ? "#" + links.issue : title === "recalled" && links.item ? "#" + links.item : "";
    td.append(to ? element("a", { href: to }, cell.text) : cell.text);
    tr.append(td);
  });
  return tr;
}

class LiveTable {
  constructor(box) {
    this.box = box;
    this.table = box.querySelector("table");
    this.heads = [...this.table.tHead.rows[0].cells];
    this.columns = this.heads.map((th) => ({ title: th.textContent.trim(), numeric: "numeric" in th.dataset, choices: "choices" in th.dataset }));
    this.rows = box.dataset.from ? rowsOfAttempts(this.columns) : rowsOfPage(this.table);
    this.size = Number(box.dataset.page || 0);
    this.order = null;
    this.text = "";
    this.chosen = new Map();
    this.at = 0;
    this.heads.forEach((th, number) => this.sortable(th, number));
    if ("tools" in box.dataset) this.toolbar();
    if (this.size && this.rows.length > this.size) this.pager();
    if (box.dataset.from || this.pages) this.draw();
  }

  sortable(th, number) {
    if (this.rows.length < 2) return;
    const button = element("button", { type: "button" }, ...th.childNodes);
    button.addEventListener("click", () => {
      const descends = this.order && this.order.number === number ? !this.order.descends : this.columns[number].numeric;
      this.order = { number, descends };
      this.heads.forEach((other, place) => (place === number ? other.setAttribute("aria-sort", descends ? "descending" : "ascending") : other.removeAttribute("aria-sort")));
      this.at = 0;
      this.draw();
    });
    th.append(button);
  }

  toolbar() {
    const bar = element("div", { class: "toolbar" });
    const search = element("input", { type: "search", placeholder: "any text" });
    search.addEventListener("input", () => {
      this.text = search.value.trim().toLowerCase();
      this.at = 0;
      this.draw();
    });
    bar.append(element("label", {}, "Find", search));
    this.columns.forEach((column, number) => {
      if (!column.choices) return;
      const values = [...new Set(this.rows.map((row) => row.cells[number].text))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
      if (values.length < 2 || values.length > 200) return;
      const select = element("select", {}, element("option", { value: "" }, "all"), ...values.map((value) => element("option", { value: "=" + value }, value)));
      select.addEventListener("change", () => {
        if (select.value) this.chosen.set(number, select.value.slice(1));
        else this.chosen.delete(number);
        this.at = 0;
        this.draw();
      });
      bar.append(element("label", {}, column.title, select));
    });
    this.count = element("span", { class: "shown", role: "status" });
    bar.append(this.count);
    this.box.querySelector(".scroll").before(bar);
    this.say(this.rows.length);
  }

  pager() {
    this.back = element("button", { type: "button" }, "← Before");
    this.next = element("button", { type: "button" }, "Next →");
    this.where = element("span", {});
    this.back.addEventListener("click", () => this.turn(-1));
    this.next.addEventListener("click", () => this.turn(1));
    this.pages = element("div", { class: "pager" }, this.back, this.where, this.next);
    this.box.querySelector(".scroll").after(this.pages);
  }

  turn(step) {
    this.at += step;
    this.draw();
  }

  say(number) {
    if (this.count) this.count.textContent = number === this.rows.length ? `${number} rows` : `${number} of ${this.rows.length} rows`;
  }

  found() {
    const words = this.text.split(/\s+/).filter(Boolean);
    const kept = this.rows.filter((row) => {
      for (const [number, value] of this.chosen) if (row.cells[number].text !== value) return false;
      if (!words.length) return true;
      const all = row.cells.map((cell) => cell.text.toLowerCase()).join("\n");
      return words.every((word) => all.includes(word));
    });
    if (!this.order) return kept;
    const { number, descends } = this.order;
    const numeric = this.columns[number].numeric;
    const before = (a, b) => (numeric ? Number(a) - Number(b) : String(a).localeCompare(String(b), "en", { numeric: true }));
    return kept.sort((one, other) => {
      const a = one.cells[number].sort, b = other.cells[number].sort;
      if (a === null || b === null) return (a === null) - (b === null); // what is not known is last either way
      return descends ? before(b, a) : before(a, b);
    });
  }

  draw() {
    const found = this.found();
    const size = this.pages ? this.size : found.length || 1;
    const pages = Math.max(1, Math.ceil(found.length / size));
    this.at = Math.min(Math.max(this.at, 0), pages - 1);
    const shown = found.slice(this.at * size, (this.at + 1) * size).map((row) => row.show());
    this.table.tBodies[0].replaceChildren(...(shown.length ? shown : [element("tr", {}, element("td", { colspan: String(this.columns.length) }, "No row fits."))]));
    this.say(found.length);
    if (this.pages) {
      this.pages.hidden = found.length <= size;
      this.where.textContent = `page ${this.at + 1} of ${pages}`;
      this.back.disabled = this.at === 0;
      this.next.disabled = this.at === pages - 1;
    }
  }

  // Show the row of that id, whatever is filtered and whatever page it is on. True where it has one.
  reveal(id) {
    if (!this.rows.some((row) => row.id === id)) return false;
    const place = this.found().findIndex((row) => row.id === id);
    if (place < 0) {
      this.text = "";
      this.chosen.clear();
      this.box.querySelectorAll(".toolbar input, .toolbar select").forEach((field) => (field.value = ""));
      return this.reveal(id);
    }
    this.at = this.pages ? Math.floor(place / this.size) : 0;
    this.draw();
    return true;
  }
}

const tables = [...document.querySelectorAll(".table")].map((box) => new LiveTable(box));

function follow() {
  let id = "";
  try {
    id = decodeURIComponent(location.hash.slice(1));
  } catch {
    return;
  }
  if (!id) return;
  tables.some((table) => table.reveal(id));
  const target = document.getElementById(id);
  if (!target) return;
  for (let box = target; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  target.scrollIntoView({ block: target.tagName === "TR" ? "center" : "start" });
}
window.addEventListener("hashchange", follow);
follow();

document.addEventListener("click", async (event) => {
  const link = event.target.closest && event.target.closest('a[href^="#"]');
  if (link && link.getAttribute("href") === location.hash) follow();
  const button = event.target.closest && event.target.closest("button");
  if (!button) return;
  for (const [key, open] of [["open", true], ["close", false]]) {
    if (button.dataset[key]) document.getElementById(button.dataset[key]).querySelectorAll("details").forEach((box) => (box.open = open));
  }
  if (button.dataset.copy) {
    const source = document.getElementById(button.dataset.copy);
    getSelection().selectAllChildren(source);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected: copy with the keyboard";
    }
  }
});

// The part that is being read stands out among the links above.
const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.getAttribute("href").slice(1), a]));
if ("IntersectionObserver" in window) {
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    entries.forEach((entry) => (entry.isIntersecting ? seen.add(entry.target.id) : seen.delete(entry.target.id)));
    const first = [...links.keys()].find((id) => seen.has(id));
    links.forEach((a, id) => a.classList.toggle("here", id === first));
  }, { rootMargin: "-15% 0px -70% 0px" });
  links.forEach((_, id) => document.getElementById(id) && watch.observe(document.getElementById(id)));
}
