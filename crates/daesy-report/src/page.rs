//! The HTML report: one self-contained page, readable on a phone, light and dark.

use std::fmt::Write as _;

use crate::chart::{Chart, HeatMap};
use crate::glossary::Glossary;
use crate::provenance::Provenance;

use daesy_graph::finding::Level;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;

/// A page that is filled section by section.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
    n_figures: usize,
    provenance: Option<Provenance>,
    glossary: Glossary,
    /// What was odd about model, data or run.
    warnings: Vec<String>,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: String::new(),
            n_figures: 0,
            provenance: None,
            glossary: Glossary::default(),
            warnings: Vec::new(),
        }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(text));
    }

    /// A part that is closed until a reader opens it.
    pub fn fold(&mut self, title: &str, fill: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.body, "<details><summary>{}</summary>", escape(title));
        fill(self);
        self.body.push_str("</details>\n");
    }

    /// Says what the names of the page are.
    #[must_use]
    pub fn about(mut self, loaded: &Loaded) -> Self {
        self.glossary = Glossary::of(loaded);
        self
    }

    /// Says what a run warns of, each once: after the first sentences, before the first picture or part.
    #[must_use]
    pub fn warning(mut self, told: &[Diagnostic]) -> Self {
        let warnings = told.iter().filter(|told| told.level == Level::Warning);
        self.warnings = warnings.map(|told| told.message.clone()).collect();
        self
    }

    fn with_warnings(&self) -> String {
        let place = ["<figure", "<h2", "<details"].iter().filter_map(|part| self.body.find(part)).min();
        let (head, rest) = self.body.split_at(place.unwrap_or(self.body.len()));
        let mut page = Self::new("");
        for warning in self.warnings.iter().filter(|warning| !head.contains(&inline(warning))) {
            page.remark(Level::Warning.word(), warning);
        }
        format!("{head}{}{rest}", page.body)
    }

    /// What is known about names.
    #[must_use]
    pub fn glossary(&self) -> &Glossary {
        &self.glossary
    }

    /// Says where the page comes from.
    #[must_use]
    pub fn from_run(mut self, provenance: Provenance) -> Self {
        self.provenance = Some(provenance);
        self
    }

    /// Where it comes from, as a part of the page.
    fn origin(&self) -> String {
        let Some(Provenance { command, files, date }) = &self.provenance else { return String::new() };
        let mut page = Self::new("");
        page.fold("Where this page comes from", |page| {
            page.preformatted(command);
            page.paragraph(&format!("daesy {}, {date}", env!("CARGO_PKG_VERSION")));
            let rows: Vec<Vec<&str>> = files.iter().map(|file| vec![file.path.as_str(), file.hash.as_str()]).collect();
            if !rows.is_empty() {
                page.table(&["file", "SHA-256"], &rows);
            }
        });
        page.body
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", inline(text));
    }

    /// A remark with a level: `error`, `warning`, `note` or `good`.
    pub fn remark(&mut self, level: &str, text: &str) {
        let _ = writeln!(self.body, "<p class=\"remark {level}\">{}</p>", inline(text));
    }

    /// Text as it is, in fixed width.
    pub fn preformatted(&mut self, text: &str) {
        let _ = writeln!(self.body, "<pre>{}</pre>", escape(text));
    }

    /// A bulleted list.
    pub fn list<S: AsRef<str>>(&mut self, items: &[S]) {
        self.body.push_str("<ul>\n");
        for item in items {
            let _ = writeln!(self.body, "<li>{}</li>", inline(item.as_ref()));
        }
        self.body.push_str("</ul>\n");
    }

    /// A table; columns whose cells all read as numbers are set to the right.
    pub fn table<S: AsRef<str>>(&mut self, head: &[&str], rows: &[Vec<S>]) {
        let class = |column: usize| {
            let is_number = |row: &Vec<S>| row.get(column).is_none_or(|cell| cell.as_ref().parse::<f64>().is_ok());
            if rows.iter().all(is_number) { " class=\"number\"" } else { "" }
        };
        self.body.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
        for (column, cell) in head.iter().enumerate() {
            let _ = write!(self.body, "<th{}>{}</th>", class(column), escape(cell));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.body.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(self.body, "<td{}>{}</td>", class(column), escape(cell.as_ref()));
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// A picture with a caption.
    pub fn figure(&mut self, chart: &Chart, caption: &str) {
        self.picture(&chart.to_svg(), caption);
    }

    /// A picture of numbers over two lists, with a caption.
    pub fn map(&mut self, map: &HeatMap, caption: &str) {
        self.picture(&map.to_svg(), caption);
    }

    fn picture(&mut self, svg: &str, caption: &str) {
        self.n_figures += 1;
        let _ = writeln!(
            self.body,
            "<figure>{svg}<figcaption>Figure {}. {}</figcaption></figure>",
            self.n_figures,
            escape(caption)
        );
    }

    /// The whole page.
    #[must_use]
    pub fn to_html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{style}{chart_style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}{origin}\
             <footer>Made by daesy {version}.</footer>\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n",
            title = escape(&self.title),
            style = STYLE,
            chart_style = crate::chart::STYLE,
            body = self.with_warnings(),
            origin = self.origin(),
            script = self.scripts(),
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

impl Page {
    fn scripts(&self) -> String {
        let tables = if self.body.contains("<table>") { SCRIPT } else { "" };
        let charts = if self.body.contains("<svg") { crate::chart::SCRIPT } else { "" };
        format!("{tables}{charts}")
    }
}

const STYLE: &str = "\
:root { --ink: #1c2330; --paper: #ffffff; --faint: #6b7686; --rule: #dde2e9; --wash: #f4f6f9; --good: #1b7f4d; --warn: #a15c00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e9f0; --paper: #12161d; --faint: #96a1b3; --rule: #2c3441; --wash: #1a2029; --good: #58c48d; --warn: #e0a44a; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif; }
main { max-width: 54rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--rule); padding-bottom: .3rem; }
p { margin: .6rem 0; }
pre { background: var(--wash); border: 1px solid var(--rule); border-radius: 6px; padding: .8rem; overflow-x: auto; font-size: .85rem; line-height: 1.4; }
.remark { border-left: 4px solid var(--faint); background: var(--wash); padding: .5rem .8rem; border-radius: 0 6px 6px 0; }
.remark.good { border-color: var(--good); } .remark.warning { border-color: var(--warn); } .remark.error { border-color: var(--bad); }
.scroll { overflow-x: auto; clear: both; }
button.copy { float: right; font: inherit; font-size: .8rem; color: var(--faint); background: none; border: 1px solid var(--rule); border-radius: 6px; padding: .1rem .6rem; cursor: pointer; }
button.copy:hover { color: var(--ink); border-color: var(--faint); }
@media print { button.copy { display: none; } }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--faint); font-weight: 600; }
td.number, th.number { text-align: right; } td:last-child:not(.number) { white-space: normal; min-width: 12rem; }
code { font: .92em ui-monospace, 'DejaVu Sans Mono', monospace; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; } figcaption { color: var(--faint); font-size: .9rem; margin-top: .3rem; }
figure { position: relative; } figure > svg { width: 100%; height: auto; display: block; }
figure .tip { position: absolute; pointer-events: none; background: var(--paper); color: var(--ink); border: 1px solid var(--rule); border-radius: 6px; padding: .2rem .5rem; font-size: .8rem; line-height: 1.35; font-variant-numeric: tabular-nums; max-width: 90%; box-shadow: 0 2px 8px rgba(0, 0, 0, .15); }
.chart .chosen { fill: var(--axis); opacity: .2; } .chart .series path { vector-effect: non-scaling-stroke; }
.hint { color: var(--faint); font-size: .85rem; }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; } summary:hover { color: var(--faint); }
@media print { .hint, .tip { display: none; } figure { break-inside: avoid; } }
footer { margin-top: 3rem; color: var(--faint); font-size: .85rem; }
";

/// Puts a button over every table that copies it, cells separated by tabs, as spreadsheets like it. Without scripts the
/// tables are as before.
const SCRIPT: &str = "\
document.querySelectorAll('.scroll').forEach(function (box) {
  var button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy table';
  button.onclick = function () {
    var table = box.querySelector('table');
    var text = Array.from(table.rows, function (row) {
      return Array.from(row.cells, function (cell) { return cell.textContent; }).join('\\t');
    }).join('\\n');
    var tell = function () {
      button.textContent = 'Copied';
      setTimeout(function () { button.textContent = 'Copy table'; }, 1500);
    };
    var select = function () {
      window.getSelection().selectAllChildren(table);
      document.execCommand('copy');
      tell();
    };
    if (navigator.clipboard) { navigator.clipboard.writeText(text).then(tell, select); } else { select(); }
  };
  box.parentNode.insertBefore(button, box);
});
";

/// Running text for HTML: what stands between backticks is set as code.
fn inline(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escape(part);
        html.push_str(&if at % 2 == 1 { format!("<code>{part}</code>") } else { part });
    }
    html
}

/// Text for HTML and SVG.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
