// Tables sort by a click on a heading and can be filtered; marks of figures say what they are. No library, no network:
// itables embeds about 900 kB in a page to work offline (its own manual), this file has 8 for the whole book, and without
// scripts, in print or read aloud the tables are plain HTML.
"use strict";

const RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

// 3·10⁻⁴ as 3e-4, and 10⁻³ as 1e-3.
const plainPowers = (text) =>
  text.replace(/(?:([\d.]+)·)?\b10(\u207b?)([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+)/, (_, factor, minus, digits) => {
    const power = [...digits].map((digit) => RAISED.indexOf(digit)).join("");
    return `${factor || 1}e${minus && "-"}${power}`;
  });

const number = (text) => {
  const plain = plainPowers(text.replaceAll("\u2212", "-").replaceAll(",", ""));
  const found = plain.match(/^[^\d-]{0,2}(-?\d+(\.\d+)?(e[+-]?\d+)?)/);
  return found ? Number(found[1]) : null;
};

// Numbers before texts, and a missing value, a dash, last in either order.
const compare = (a, b, descending) => {
  const [one, other] = [number(a), number(b)], sign = descending ? -1 : 1;
  if (one !== null && other !== null) return sign * (one - other);
  if (one !== null || other !== null) return one === null ? 1 : -1;
  if ((a === "\u2013") !== (b === "\u2013")) return a === "\u2013" ? 1 : -1;
  return sign * a.localeCompare(b);
};

// The text of a cell without what stands below its name on a phone.
const shown = (cell) => cell.dataset.name ?? cell.textContent.trim();

const makeSortable = (table) => {
  const body = table.tBodies[0], heads = table.tHead && table.tHead.rows;
  if (!heads || !heads.length || body.rows.length < 3) return;
  const wide = body.querySelector("[rowspan], [colspan]");
  const last = heads[heads.length - 1];
  if (wide || last.cells.length !== body.rows[0].cells.length) return;
  [...last.cells].forEach((head, column) => {
    head.classList.add("dml-sorts");
    head.tabIndex = 0;
    const sort = () => {
      const first = head.getAttribute("aria-sort");
      const text = (row) => shown(row.cells[column]);
      const isNumeric = [...body.rows].some((row) => number(text(row)) !== null);
      const descending = first ? first === "ascending" : isNumeric;
      last.querySelectorAll("[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...[...body.rows].sort((a, b) => compare(text(a), text(b), descending)));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
};

// A table of the class dml-filter: a line to type in, and a list to choose from for each column of few texts, of which
// what stands behind a colon, a reason, is left out.
const kind = (cell) => shown(cell).split(":")[0];

const makeFilter = (table) => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const line = document.createElement("div");
  line.className = "dml-filters";
  line.innerHTML = '<input type="search" placeholder="Filter rows" aria-label="Filter rows"><output></output>';
  const input = line.firstChild, count = line.lastChild;
  const lists = heads.flatMap((head, column) => {
    const values = [...new Set([...body.rows].map((row) => kind(row.cells[column])))];
    const texts = values.filter((value) => number(value) === null);
    if (values.length < 2 || values.length > 30 || texts.length < values.length) return [];
    const list = document.createElement("select");
    list.ariaLabel = head.textContent.trim();
    list.append(new Option(`${head.textContent.trim()}: all`, ""), ...values.sort().map((value) => new Option(value)));
    line.insertBefore(list, count);
    return [{ list, column }];
  });
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !(
        words.every((word) => text.includes(word)) &&
        lists.every(({ list, column }) => !list.value || kind(row.cells[column]) === list.value)
      );
      shown += !row.hidden;
    }
    count.textContent = `${shown.toLocaleString("en")} of ${body.rows.length.toLocaleString("en")} rows`;
  };
  line.addEventListener("input", apply);
  table.closest(".dml-scroll").before(line);
  apply();
  nameRows(body, heads);
};

// What stands below a row's name on a phone, where the columns that tell rows of one name apart are out of sight.
const standBelow = (row, columns) => {
  const where = document.createElement("small");
  where.className = "dml-where";
  where.textContent = columns.map((column) => row.cells[column].textContent.trim()).join(", ");
  row.cells[0].dataset.name = row.cells[0].textContent.trim();
  row.cells[0].append(where);
};

const nameRows = (body, heads) => {
  const columns = ["study", "experiment", "setting"].map((name) => heads.findIndex((head) => head.textContent.trim() === name));
  if (!columns.includes(-1)) [...body.rows].forEach((row) => standBelow(row, columns));
};

// On a phone a row of texts is a card, whose cells stand after their headings, without what is missing. Numbers break
// before their intervals alone, and where names repeat, the second column stands below them.
const makeNarrow = (table) => {
  const [body] = table.tBodies, head = table.tHead.rows[table.tHead.rows.length - 1];
  const wraps = table.classList.contains("dml-wrap");
  table.classList.toggle("dml-cards", wraps && head.cells.length > 2);
  for (const cell of body.querySelectorAll("td:not(:first-child)")) {
    cell.dataset.head = head.cells[cell.cellIndex].textContent.trim();
    cell.classList.toggle("dml-none", cell.textContent.trim() === "\u2013");
    const texts = wraps || document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (!wraps && texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(/(?<![,;]) (?![([]|to \S+[)\]])/g, "\u00a0");
  }
  const rows = [...body.rows], tops = [...table.tHead.rows], names = new Set(rows.map((row) => row.cells[0].textContent));
  const isName = rows.every((row) => number(row.cells[1].textContent) === null) && tops.every((row) => row.cells[1].colSpan < 2);
  if (wraps || !isName || names.size === rows.length) return;
  for (const row of [...tops, ...rows]) {
    standBelow(row, [1]);
    row.cells[1].classList.add("dml-second");
  }
};

const showTips = () => {
  const box = document.createElement("div");
  box.id = "dml-tip";
  box.setAttribute("role", "tooltip");
  box.hidden = true;
  document.body.append(box);
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest && event.target.closest(".dml-tip");
    box.hidden = !mark;
    if (!mark) return;
    const title = mark.querySelector("title");
    if (title) {
      mark.dataset.tip = title.textContent; // the browser's own tip would stand over this one
      title.remove();
    }
    box.textContent = mark.dataset.tip;
    const place = mark.getBoundingClientRect();
    const left = Math.min(place.left, document.documentElement.clientWidth - box.offsetWidth - 8);
    box.style.left = `${Math.max(left, 8) + window.scrollX}px`;
    box.style.top = `${place.top - box.offsetHeight - 6 + window.scrollY}px`;
  });
};

// What a link leads to may stand in a fold, or be one: it and all around it are opened.
const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
  target.scrollIntoView();
};

window.addEventListener("hashchange", openTarget);
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table.dml").forEach(makeSortable);
  document.querySelectorAll("table.dml-filter").forEach(makeFilter);
  document.querySelectorAll("table.dml:not(.dml-filter), table.dml-wrap").forEach(makeNarrow);
  showTips();
  openTarget();
});
