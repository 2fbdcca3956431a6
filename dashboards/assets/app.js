"use strict";
// Everything works without this file but the filter, sorting, hints and copying. It fetches nothing.

const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
const one = (selector) => document.querySelector(selector);

// The filter: q = text, s = status, t and e = tool and error code of a coverage cell. It lives in the hash, so a filtered view can be sent around.

function readHash() {
  const hash = location.hash.slice(1);
  return hash.includes("=") ? new URLSearchParams(hash) : null;
}

function setUpFilter() {
  const form = one(".filter");
  if (!form) return;
  const input = one("#q"), cell = one("[data-cell]"), shown = one("#shown"), none = one("#none");
  const chips = all("[data-status]", form), rows = all(".catalog tbody tr");
  const wanted = { q: "", s: "", t: "", e: "" };

  function fits(row) {
    const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
    return (!wanted.s || row.dataset.s === wanted.s)
      && (!wanted.t || row.dataset.t === wanted.t)
      && (!wanted.e || row.dataset.e === wanted.e)
      && words.every((word) => row.dataset.q.includes(word));
  }

  function apply() {
    let count = 0;
    for (const row of rows) {
      row.hidden = !fits(row);
      count += !row.hidden;
    }
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.status === wanted.s));
    cell.hidden = !wanted.t;
    cell.textContent = `${wanted.t} · ${wanted.e === "ok" ? "happy path" : wanted.e} ✕`;
    cell.setAttribute("aria-pressed", "true");
    shown.textContent = count === rows.length ? `${rows.length} shown` : `${count} of ${rows.length} shown`;
    none.hidden = count > 0;
    none.querySelector("span").textContent = wanted.t ? "No signature belongs to this cell." : "";
  }

  function store() {
    const params = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    history.replaceState(null, "", params.size ? `#${params}` : "#catalog");
    apply();
  }

  function restore(scroll) {
    const params = readHash();
    if (!params) return;
    for (const name of Object.keys(wanted)) wanted[name] = params.get(name) || "";
    input.value = wanted.q;
    apply();
    if (scroll) one("#catalog").scrollIntoView();
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  input.addEventListener("input", () => { wanted.q = input.value.trim(); store(); });
  for (const chip of chips) chip.addEventListener("click", () => { wanted.s = chip.dataset.status; store(); });
  cell.addEventListener("click", () => { wanted.t = wanted.e = ""; store(); });
  addEventListener("hashchange", () => restore(true));
  apply();
  restore(true);
}

// Sorting: a third click brings the order of attention back.

function setUpSorting() {
  for (const table of all("table.catalog")) {
    const body = table.tBodies[0], before = Array.from(body.rows);
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { undefined: "ascending", ascending: "descending" }[head.getAttribute("aria-sort") || "undefined"];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (next) head.setAttribute("aria-sort", next);
        body.append(...(next ? sorted(before, column, next === "ascending" ? 1 : -1) : before));
      });
    });
  }
}

function sorted(rows, column, sign) {
  const key = (row) => row.cells[column].dataset.sort || row.cells[column].textContent.trim();
  const compare = (a, b) => a.localeCompare(b, "en", { numeric: true });
  return rows.slice().sort((a, b) => sign * compare(key(a), key(b)));
}

// Hints: one element, moved to what the pointer or the keyboard is at.

function setUpHints() {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);

  function show(event) {
    const at = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !at;
    if (!at) return;
    tip.textContent = at.dataset.tip;
    const box = at.getBoundingClientRect();
    const left = Math.min(box.left + box.width / 2 - tip.offsetWidth / 2, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${Math.max(8, left) + scrollX}px`;
    tip.style.top = `${(above > 56 ? above : box.bottom + 8) + scrollY}px`;
  }

  for (const name of ["mouseover", "focusin"]) addEventListener(name, show);
  for (const name of ["focusout", "scroll"]) addEventListener(name, () => { tip.hidden = true; }, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
}

// A link to a step opens whatever folds it away.

function openTarget() {
  const id = location.hash.slice(1);
  const target = id && !id.includes("=") && document.getElementById(id);
  if (!target) return;
  for (const inner of all(":scope > details", target)) inner.open = true;
  for (let outer = target.parentElement; outer; outer = outer.parentElement) if (outer.tagName === "DETAILS") outer.open = true;
  target.scrollIntoView();
}

function setUpCopying() {
  for (const button of all("[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
        button.textContent = "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1600);
    });
  }
}

setUpFilter();
setUpSorting();
setUpHints();
setUpCopying();
openTarget();
addEventListener("hashchange", openTarget);
