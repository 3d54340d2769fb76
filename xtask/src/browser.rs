//! Opens the finished pages in a real browser at the width of a phone.
//!
//! A page passes when it renders without a script error and nothing sticks out at the side, so that
//! nobody has to scroll sideways to read, when no label is clipped, and when its charts answer the pointer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::book;
use crate::process;
use crate::suite::Outcome;
use crate::workspace::Workspace;

const BROWSERS: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// Width in CSS pixels; browsers refuse windows narrower than 500, so the page is put into a frame.
const PHONE_WIDTH: u32 = 390;

/// Verbs whose pages are looked at, with a study each and what else they are told.
const REPORTS: [(&str, &str, &[&str]); 8] = [
    ("linearize", "problems/servo/study.toml", &[]),
    ("check", "problems/servo/study.toml", &[]),
    ("simulate", "problems/servo/study.toml", &[]),
    ("identify", "problems/servo/identify.toml", &["--posterior", "20", "--chains", "2"]),
    ("design", "problems/servo/identify.toml", &[]),
    ("estimate", "problems/servo/identify.toml", &[]),
    ("cost", "problems/servo/identify.toml", &["--grid", "spring.c=15:25:4", "--grid", "motor.d=1e-4:2e-4:3"]),
    ("uq", "problems/random_decay/study.toml", &[]),
];

/// Has the program write a page for every verb that has one.
fn write_reports(workspace: &Workspace, folder: &Path) -> Result<(), String> {
    let program = book::build_program(workspace)?;
    fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    for (verb, study, more) in REPORTS {
        let mut command = Command::new(&program);
        command
            .args([verb, study, "--quiet", "--json", "--report"])
            .arg(folder.join(format!("{verb}.html")))
            .args(more);
        command.current_dir(&workspace.root).stdout(std::process::Stdio::null());
        process::run(&mut command).map_err(|message| format!("daesy {verb} {study}: {message}"))?;
    }
    Ok(())
}

/// Checks every page of the book, every page the demo wrote, and the report of every verb.
pub fn check(workspace: &Workspace) -> Outcome {
    let Some(browser) = BROWSERS.iter().find_map(|name| process::find_program(name)) else {
        return Outcome::Skipped("no browser: install chromium (on Debian: apt-get install chromium)".to_owned());
    };
    let mut pages = Vec::new();
    let reports = workspace.scratch("reports");
    if let Err(message) = write_reports(workspace, &reports) {
        return Outcome::Failed(message);
    }
    for folder in [workspace.root.join(book::OUTPUT), workspace.scratch("demo").join("daesy-demo"), reports] {
        collect_pages(&folder, &mut pages);
    }
    if pages.is_empty() {
        return Outcome::Failed("there are no pages; the steps demo and book write them".to_owned());
    }
    let scratch = workspace.scratch("browser");
    let mut failures = Vec::new();
    for page in &pages {
        match verdict_of(&browser, page, &scratch) {
            Ok(()) => println!("{}: fits", page.display()),
            Err(message) => failures.push(format!("{}: {message}", page.display())),
        }
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    if failures.is_empty() {
        Outcome::Passed(format!("{} pages", pages.len()))
    } else {
        Outcome::Failed(format!("{} of {} pages", failures.len(), pages.len()))
    }
}

fn collect_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "html"))
        .collect();
    found.sort();
    pages.append(&mut found);
}

fn verdict_of(browser: &Path, page: &Path, scratch: &Path) -> Result<(), String> {
    let text = fs::read_to_string(page).map_err(|e| format!("cannot read: {e}"))?;
    fs::create_dir_all(scratch).map_err(|e| format!("cannot make {}: {e}", scratch.display()))?;
    let frame = scratch.join("frame.html");
    fs::write(&frame, framed(&text)).map_err(|e| format!("cannot write {}: {e}", frame.display()))?;
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", scratch.join("profile").display()))
        .arg(format!("file://{}", frame.display()));
    let finished = process::run_captured(&mut command, &scratch.join("log"), Duration::from_secs(120))?;
    read_verdict(&finished.stdout)
}

/// Looks for words that stick out of their picture, points at the first chart, zooms, goes back and hides a curve, and says what did not happen.
const DRIVE: &str = r#"
function clipped(d) {
  var all = d.querySelectorAll('svg.chart text');
  for (var at = 0; at < all.length; at += 1) {
    var box = all[at].getBoundingClientRect(), frame = all[at].closest('svg.chart').getBoundingClientRect();
    var out = box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    if (box.width > 0 && out) { return 'a label sticks out of its picture: ' + all[at].textContent; }
  }
  return '';
}
function drive(d) {
  var outside = clipped(d);
  if (outside) { return outside; }
  var svg = d.querySelector('svg.chart[data-frame]');
  if (!svg) { return ''; }
  svg.scrollIntoView();
  var box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal, frame = svg.dataset.frame.split(' ').map(Number);
  function act(kind, across, down) {
    var x = frame[0] + across * (frame[2] - frame[0]), y = frame[1] + down * (frame[3] - frame[1]);
    var at = { bubbles: true, button: 0, pointerType: 'mouse', clientX: box.left + x / view.width * box.width,
               clientY: box.top + y / view.height * box.height };
    svg.dispatchEvent(kind === 'dblclick' ? new MouseEvent(kind, at) : new PointerEvent(kind, at));
  }
  act('pointermove', 0.5, 0.5);
  var tip = svg.parentNode.querySelector('.tip');
  if (tip.hidden || !/\d/.test(tip.textContent)) { return 'pointing at a chart shows no value'; }
  act('pointerdown', 0.25, 0.2);
  act('pointermove', 0.75, 0.8);
  act('pointerup', 0.75, 0.8);
  var moved = svg.querySelector('.zoom').getAttribute('transform') || '';
  if (Math.abs(Number(moved.slice(7).split(' ')[0]) - 2) > 0.05) { return 'dragging does not zoom: ' + moved; }
  var linked = d.querySelectorAll('svg.chart[data-link]');
  for (var at = 0; svg.dataset.link && at < linked.length; at += 1) {
    if (!linked[at].querySelector('.zoom').getAttribute('transform')) { return 'charts over time do not move together'; }
  }
  act('dblclick', 0.5, 0.5);
  if (!/^matrix\(1 0 0 1 /.test(svg.querySelector('.zoom').getAttribute('transform'))) { return 'a double-click does not go back'; }
  var entry = svg.querySelector('.legend');
  if (entry) {
    entry.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    if (svg.querySelector('.series[data-of="' + entry.dataset.of + '"]').style.display !== 'none') { return 'a name does not hide its curve'; }
  }
  return '';
}
"#;

/// A page that shows `text` in a frame of a phone's width and writes what it saw into its own body.
fn framed(text: &str) -> String {
    let watched = text.replacen(
        "<head>",
        "<head><script>window.onerror = console.error = function (m) { parent.document.body.dataset.error = m; };</script>",
        1,
    );
    let quoted = watched.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><html><body><iframe style=\"width:{PHONE_WIDTH}px;height:800px;border:0\" srcdoc=\"{quoted}\"></iframe>\
         <script>{DRIVE} window.onload = function () {{\
         var d = document.querySelector('iframe').contentDocument.documentElement;\
         document.body.dataset.width = d.scrollWidth;\
         var wrong = drive(document.querySelector('iframe').contentDocument);\
         if (wrong) {{ document.body.dataset.error = wrong; }}\
         document.querySelector('iframe').remove(); }};</script></body></html>"
    )
}

fn read_verdict(dom: &str) -> Result<(), String> {
    let body = dom.find("<body").map(|at| &dom[at..]).unwrap_or_default();
    let tag = body.split('>').next().unwrap_or_default();
    let data = |name: &str| {
        let start = tag.find(&format!("data-{name}=\""))? + name.len() + 7;
        tag[start..].split('"').next()
    };
    if let Some(error) = data("error") {
        return Err(format!("script error: {error}"));
    }
    let width: u32 = data("width").and_then(|width| width.parse().ok()).ok_or("the browser did not render the page")?;
    if width > PHONE_WIDTH { Err(format!("{width} pixels wide where a phone has {PHONE_WIDTH}")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browsers_answer_is_read() {
        assert_eq!(read_verdict("<html><body data-width=\"390\"></body></html>"), Ok(()));
        assert!(read_verdict("<html><body data-width=\"512\"></body></html>").is_err());
        assert!(read_verdict("<html><body data-error=\"boom\" data-width=\"390\"></body></html>").is_err());
        assert!(read_verdict("").is_err());
    }

    #[test]
    fn pages_survive_quoting() {
        let framed = framed("<html><head></head><body class=\"a\">&amp;</body></html>");
        assert!(framed.contains("class=&quot;a&quot;"));
        assert!(framed.contains("&amp;amp;"));
    }
}
