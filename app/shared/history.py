"""The script of the pages: a history in which a page is one entry, and a first Tab that leads to the main control."""

from __future__ import annotations

# Streamlit makes a new entry of the browser's history of every change of the address. Here a page is one entry: Back
# leads to the page before. The address of the next page may arrive before its path does; it is then not written over
# that of the page that is left (Streamlit adds it to the path): a link says at the click that a page is left.
# A field reports what was typed when it loses the focus, which may be the click on a link: the report would be lost, or
# the click. Such a click is held until the page has answered the report; so is one on a button, whose run a busy
# browser may ask for before it reports the field.
HISTORY = """
<script>
window.zorbaMain = MAIN_KEY;
if (!window.zorbaHistory) {
  window.zorbaHistory = true;
  let leaving = 0;
  const push = window.history.pushState.bind(window.history);
  const path = (url) => new URL(url, window.location.href).pathname;
  window.history.pushState = (state, unused, url) => {
    if (url && path(url) === window.location.pathname) {
      if (Date.now() > leaving) window.history.replaceState(state, unused, url);
    } else {
      leaving = 0;
      push(state, unused, url);
    }
  };
  const nameOf = (button) => {
    const place = button.closest("[class*='st-key-']");
    return [...(place?.classList || [])].filter((name) => name.startsWith("st-key-")).concat(button.textContent).join();
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("[data-testid=stButton] button");
    if (button && event.isTrusted && Date.now() - edited < 500) {
      event.preventDefault();
      event.stopImmediatePropagation();
      edited = 0;
      const told = nameOf(button);
      clickOnceReported(button, () => {
        const buttons = [...document.querySelectorAll("[data-testid=stButton] button")];
        const alike = buttons.filter((each) => nameOf(each) === told);
        return alike.length === 1 ? alike[0] : null;  // several may say the same
      });
      return;
    }
    const link = event.target.closest && event.target.closest("a[href]");
    const plain = !(event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
    if (!link || !plain || link.target === "_blank" || link.origin !== window.location.origin || link.download) return;
    const stays = path(link.href) === window.location.pathname;
    if (!stays && Date.now() - edited < 500) {
      event.preventDefault();
      event.stopImmediatePropagation();
      edited = 0;
      clickOnceReported(link, () => [...document.links].find((each) => each.href === link.href));
    } else leaving = stays ? 0 : Date.now() + 10000;
  }, true);
  const isField = (element) => ["INPUT", "TEXTAREA"].includes(element.tagName);
  let reported = "", edited = 0;
  document.addEventListener("focusin", (event) => { if (isField(event.target)) reported = event.target.value; });
  document.addEventListener("keydown", (event) => {
    const reports = event.key === "Enter" && (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey);
    if (reports && isField(event.target)) reported = event.target.value;
  }, true);
  document.addEventListener("focusout", (event) => {
    if (isField(event.target) && event.target.value !== reported) edited = Date.now();
  });
  const clickOnceReported = (clicked, drawnAgain) => {
    const before = window.location.search, since = Date.now();
    let ran = false;
    const timer = setInterval(() => {
      const state = document.querySelector("[data-testid=stApp]")?.dataset.testScriptState;
      ran = ran || state === "running";
      const answered = window.location.search !== before || (ran && state === "notRunning");
      if (!answered && Date.now() - since < 1500) return;
      clearInterval(timer);
      (clicked.isConnected ? clicked : drawnAgain())?.click();
    }, 25);
  };
  window.addEventListener("popstate", () => { leaving = 0; });
  // The menu and the sidebar come before the page: whoever uses the keyboard may pass over them.
  const skip = document.createElement("button");
  skip.id = "zorba-skip";
  skip.type = "button";
  skip.textContent = "Skip to the main control";
  const able = ":is(a[href], button, input, textarea, summary, [role=slider], [role=grid], [tabindex='0'])" +
    ":not([disabled]):not([aria-label^='Help for']):not([tabindex='-1'])";
  const mainControl = () => {
    const place = window.zorbaMain && document.querySelector(`[class*="st-key-${window.zorbaMain}"]`);
    const within = place && [...place.querySelectorAll("*")].find((each) => each.shadowRoot)?.shadowRoot;
    return within?.querySelector(able) || place?.querySelector(able);
  };
  skip.addEventListener("click", () => {
    const page = document.querySelector("[data-testid=stMainBlockContainer]");
    const go = (target) => { target.focus(); target.scrollIntoView({ block: "center" }); };
    const there = mainControl();
    if (there) return go(there);
    page.tabIndex = -1;
    go(page);
    if (!window.zorbaMain) return;
    // The control is not drawn yet: it has the focus once it is, if the reader has not gone elsewhere by then.
    const waits = document.activeElement, since = Date.now();
    const timer = setInterval(() => {
      const now = document.activeElement, left = now !== waits && now !== document.body;
      const drawn = !left && mainControl();
      if (drawn) go(drawn);
      if (left || drawn || Date.now() - since > 10000) clearInterval(timer);
    }, 50);
  });
  document.body.prepend(skip);
  // A formula that is wider than its place scrolls: the keyboard must reach it too.
  let asked = false;
  new MutationObserver(() => {
    if (asked) return;
    asked = true;
    setTimeout(() => {
      asked = false;
      for (const formula of document.querySelectorAll(".katex-display"))
        if (formula.scrollWidth > formula.clientWidth || formula.scrollHeight > formula.clientHeight)
          formula.tabIndex = 0;
    }, 300);
  }).observe(document.body, { childList: true, subtree: true });
}
</script>
"""
