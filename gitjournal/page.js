"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // The theme that was chosen here before; a page from a disk may have no memory.
  const memory = (value) => {
    try {
      if (value) localStorage.setItem("gj-theme", value);
      return localStorage.getItem("gj-theme");
    } catch {
      return null;
    }
  };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const kept = memory();
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;

  addEventListener("DOMContentLoaded", () => {
    const get = (id) => document.getElementById(id);
    const query = get("query"), found = get("found"), theme = get("theme"), unfold = get("unfold"), main = get("transcript");
    const MOST_MARKED = 5000, MOST_OPENED = 60;

    // --- theme, folds, hashes --------------------------------------------------------------------

    const nameTheme = () => (theme.textContent = dark() ? "Light" : "Dark");
    nameTheme();
    theme.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      memory(root.dataset.theme);
      nameTheme();
    });

    const folds = () => main.querySelectorAll("details");
    unfold.addEventListener("click", () => {
      const open = unfold.getAttribute("aria-pressed") !== "true";
      unfold.setAttribute("aria-pressed", open);
      unfold.textContent = open ? "Fold all" : "Unfold all";
      for (const one of folds()) one.open = open;
    });

    let printed = [];
    addEventListener("beforeprint", () => {
      printed = [...folds()].filter((one) => !one.open);
      for (const one of printed) one.open = true;
    });
    addEventListener("afterprint", () => {
      for (const one of printed) one.open = false;
    });

    document.addEventListener("click", async (event) => {
      const button = event.target.closest?.(".hash");
      if (!button) return;
      try {
        await navigator.clipboard.writeText(button.title);
      } catch {
        const area = document.createElement("textarea");
        area.value = button.title;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
        button.focus();
      }
      const before = button.textContent;
      if (before === "copied") return;
      button.textContent = "copied";
      setTimeout(() => (button.textContent = before), 900);
    });

    // --- deep links ------------------------------------------------------------------------------

    const unfoldTo = (node) => {
      for (let at = node.parentElement; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    };
    const goTo = () => {
      const target = /^#[et][0-9]+$/.test(location.hash) && get(location.hash.slice(1));
      if (!target) return;
      if (target.closest(".away")) search("");
      unfoldTo(target);
      const inside = target.matches(".minor") && target.querySelector("details");
      if (inside) inside.open = true;
      target.scrollIntoView();
    };
    addEventListener("hashchange", goTo);

    // --- where one is ----------------------------------------------------------------------------

    const links = new Map([...document.querySelectorAll("#toc a")].map((link) => [link.hash.slice(1), link]));
    let now = null;
    const watch = new IntersectionObserver((entries) => {
      const seen = entries.filter((entry) => entry.isIntersecting).map((entry) => links.get(entry.target.id)).find(Boolean);
      if (!seen || seen === now) return;
      now?.classList.remove("now");
      now?.removeAttribute("aria-current");
      now = seen;
      now.classList.add("now");
      now.setAttribute("aria-current", "true");
      const side = get("side"), box = now.getBoundingClientRect();
      if (box.top < 0 || box.bottom > side.clientHeight) side.scrollTop += box.top - side.clientHeight / 2;
    }, { rootMargin: "0px 0px -80% 0px" });
    for (const turn of document.querySelectorAll(".turn")) watch.observe(turn);
    if (matchMedia("(max-width: 60rem)").matches && get("toc")) get("toc").open = false;

    // --- search ----------------------------------------------------------------------------------

    const canMark = typeof Highlight === "function" && CSS.highlights;
    let texts = null, marks = [], at = -1, opened = [];

    /** Each event with its text and the whole hashes in it, in small letters; made when it is first needed. */
    const events = () => (texts ??= [...main.querySelectorAll(".ev")].map((node) => ({
      node,
      text: node.textContent.toLowerCase(),
      hashes: [...node.querySelectorAll(".hash")].map((button) => button.title).join(" "),
    })));

    const countOf = (text, wanted) => {
      let number = 0;
      for (let from = text.indexOf(wanted); from >= 0; from = text.indexOf(wanted, from + wanted.length)) number++;
      return number;
    };

    /** The places of a text within a node, as ranges that may go over several texts. */
    const rangesIn = (node, wanted, most) => {
      const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), parts = [];
      let whole = "";
      while (walker.nextNode()) {
        // Letters whose small form is longer would move the places.
        const data = walker.currentNode.data, small = data.toLowerCase();
        parts.push([whole.length, walker.currentNode]);
        whole += small.length === data.length ? small : data;
      }
      const place = (offset, from) => {
        let index = from;
        while (index + 1 < parts.length && parts[index + 1][0] <= offset) index++;
        return index;
      };
      const ranges = [];
      let part = 0;
      for (let from = whole.indexOf(wanted); from >= 0 && ranges.length < most; from = whole.indexOf(wanted, from + wanted.length)) {
        const range = document.createRange();
        part = place(from, part);
        range.setStart(parts[part][1], from - parts[part][0]);
        const end = place(from + wanted.length - 1, part);
        range.setEnd(parts[end][1], from + wanted.length - parts[end][0]);
        ranges.push(range);
      }
      return ranges;
    };

    const search = (words) => {
      const wanted = words.trim().toLowerCase();
      if (query.value.trim().toLowerCase() !== wanted) query.value = words;
      for (const one of opened) one.open = false;
      [opened, marks, at] = [[], [], -1];
      root.classList.toggle("searched", wanted !== "");
      let number = 0;
      const matches = [];
      for (const { node, text, hashes } of wanted || texts ? events() : []) {
        const own = wanted && countOf(text, wanted);
        const match = own || (wanted.length > 6 && hashes.includes(wanted));
        node.classList.toggle("away", wanted !== "" && !match);
        if (match) matches.push(node);
        number += own;
      }
      for (const node of matches) if (marks.length < MOST_MARKED) marks.push(...rangesIn(node, wanted, MOST_MARKED - marks.length));
      for (const range of marks.slice(0, MOST_OPENED)) {
        for (let up = range.startContainer.parentElement; up && up !== main; up = up.parentElement) {
          if (up.localName === "details" && !up.open && !up.querySelector(":scope > summary").contains(range.startContainer)) {
            up.open = true;
            opened.push(up);
          }
        }
      }
      if (canMark) {
        CSS.highlights.set("found", new Highlight(...marks));
        CSS.highlights.delete("at");
      }
      const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : noun === "match" ? "es" : "s"}`;
      found.textContent = !wanted ? "" : matches.length ? `${plural(number, "match")} in ${plural(matches.length, "event")}` : "nothing found";
      if (wanted) scrollTo(0, matches.length ? main.offsetTop - 16 : 0);
    };

    const step = (by) => {
      if (!marks.length) return;
      at = (at + by + marks.length) % marks.length;
      const range = marks[at], parent = range.startContainer.parentElement;
      if (!parent.closest("summary")) unfoldTo(range.startContainer);
      if (canMark) CSS.highlights.set("at", new Highlight(range));
      parent.scrollIntoView({ block: "center" });
      const box = range.getBoundingClientRect();
      if (box.top < 0 || box.bottom > innerHeight) scrollBy(0, box.top - innerHeight / 2);
      found.textContent = found.textContent.replace(/^(match [0-9,]+ of )?/, `match ${at + 1} of `).replace(/ matche?s?/, "");
    };

    let waiting = 0;
    query.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => search(query.value), 120);
    });
    get("find").addEventListener("submit", (event) => event.preventDefault());
    query.addEventListener("keydown", (event) => {
      if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") search("");
      else return;
      event.preventDefault();
    });
    get("next").addEventListener("click", () => step(1));
    get("before").addEventListener("click", () => step(-1));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea")) return;
      event.preventDefault();
      query.focus();
      query.select();
    });

    goTo();
  });
})();
