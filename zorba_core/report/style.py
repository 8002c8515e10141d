"""The report page's style: light and dark by the reader's setting, one column on a phone, no outside request."""

STYLE = """
:root { --paper:#fff; --text:#1b2430; --muted:#5b6776; --line:#dfe4ea; --soft:#f4f6f9;
  --good:#00664a; --shape:#005a8c; --bad:#a33c00; --none:#5b6776; --weak:#6b5500; --own:#8a2f75; }
@media (prefers-color-scheme: dark) { :root { --paper:#10151c; --text:#e6ebf1; --muted:#9aa7b6; --line:#28313c;
  --soft:#171e27; --good:#2bc49a; --shape:#56b4e9; --bad:#ff9a3d; --none:#9aa7b6; --weak:#e0c24a; --own:#e09ac4; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--paper); color:var(--text);
  font:16px/1.5 "Source Sans 3","Source Sans Pro",system-ui,-apple-system,"Segoe UI",sans-serif; }
main { max-width:1080px; margin:0 auto; padding:24px 16px 64px; }
h1 { font-size:1.9rem; line-height:1.2; margin:0 0 8px; } h2 { font-size:1.35rem; margin:44px 0 8px; }
h3 { font-size:1.05rem; margin:24px 0 6px; }
p { max-width:72ch; margin:8px 0; } .muted { color:var(--muted); }
nav a { margin-right:16px; } a { color:var(--shape); }
.tiles { display:grid; grid-template-columns:repeat(4,1fr); gap:12px; margin:20px 0; }
.tile { border:1px solid var(--line); border-left:5px solid currentColor; border-radius:6px; padding:10px 14px; }
.tile b { display:block; font-size:1.8rem; line-height:1.2; } .tile span { color:var(--text); }
.good { color:var(--good); } .shape { color:var(--shape); } .weak { color:var(--weak); } .bad { color:var(--bad); }
.none { color:var(--none); } .own { color:var(--own); }
.badge { font-size:.8rem; font-weight:600; white-space:nowrap; }
.badge::before { content:attr(data-mark) " "; }
.cards { display:grid; grid-template-columns:repeat(2,1fr); gap:12px; }
.card { border:1px solid var(--line); border-radius:6px; padding:12px 16px; background:var(--soft); }
.card p { margin:4px 0; } .card .claim { font-weight:600; }
.figures { display:grid; grid-template-columns:repeat(2,1fr); gap:20px; }
figure { margin:0; } figure img { width:100%; height:auto; border:1px solid var(--line); border-radius:6px; }
figcaption { font-size:.92rem; color:var(--muted); margin-top:4px; }
.scroll { overflow-x:auto; } table { border-collapse:collapse; width:100%; font-size:.93rem; }
th,td { text-align:left; padding:5px 10px 5px 0; border-bottom:1px solid var(--line); vertical-align:top; }
th { color:var(--muted); font-weight:600; } td.n { font-variant-numeric:tabular-nums; white-space:nowrap; }
details { border-bottom:1px solid var(--line); padding:8px 0; } summary { cursor:pointer; }
summary .where { color:var(--muted); font-size:.88rem; } details dl { margin:8px 0 4px 18px; display:grid;
  grid-template-columns:max-content 1fr; gap:3px 14px; font-size:.93rem; }
dt { color:var(--muted); } dd { margin:0; overflow-wrap:anywhere; } code { font-size:.88em; }
@media (max-width:760px) { .tiles { grid-template-columns:repeat(2,1fr); }
  .cards,.figures { grid-template-columns:1fr; }
  details dl { grid-template-columns:1fr; margin-left:0; } dt { margin-top:4px; } h1 { font-size:1.5rem; } }
@media print { details { break-inside:avoid; } }
"""
