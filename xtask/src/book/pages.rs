//! Chapters to self-contained pages: contents at the side, light and dark, readable on a phone.

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream, html};

use super::Chapter;
use crate::tidy::{Bibliography, citations_in};

const STYLE: &str = include_str!("style.css");
const REFERENCES: &str = "references.html";

/// A finished page.
pub struct Page {
    /// File name in the output folder.
    pub file: String,
    /// The whole document.
    pub html: String,
}

struct Heading {
    level: HeadingLevel,
    title: String,
    anchor: String,
}

/// Renders all chapters and the list of references. The first chapter is also `index.html`.
pub fn render(chapters: &[Chapter], bibliography: &Bibliography) -> Vec<Page> {
    let mut pages = Vec::new();
    for (position, chapter) in chapters.iter().enumerate() {
        let body = render_body(&chapter.shown, bibliography);
        let turn = turn_links(chapters, position);
        let html = document(&chapter.title, &contents(chapters, Some(position), &body.headings), &(body.html + &turn));
        if position == 0 {
            pages.push(Page { file: "index.html".to_owned(), html: html.clone() });
        }
        pages.push(Page { file: page_name(&chapter.file), html });
    }
    let list = reference_list(bibliography);
    let html = document("References", &contents(chapters, None, &[]), &list);
    pages.push(Page { file: REFERENCES.to_owned(), html });
    pages
}

struct Body {
    html: String,
    headings: Vec<Heading>,
}

fn render_body(text: &str, bibliography: &Bibliography) -> Body {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut headings: Vec<Heading> = Vec::new();
    let mut is_code = false;
    let mut heading_start = None;
    for event in TextMergeStream::new(Parser::new_ext(text, options)) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading_start = Some(events.len()),
            Event::End(TagEnd::Heading(level)) => {
                if let Some(start) = heading_start.take() {
                    let title: String = events[start..].iter().filter_map(plain_text).collect();
                    let anchor = unique_anchor(&title, &headings);
                    events.insert(start, Event::Html(format!("<{level} id=\"{anchor}\">").into()));
                    events.push(Event::Html(format!("</{level}>\n").into()));
                    headings.push(Heading { level, title, anchor });
                }
            }
            Event::Start(Tag::Table(alignments)) => {
                events.push(Event::Html("<div class=\"wide\">".into()));
                events.push(Event::Start(Tag::Table(alignments)));
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                events.push(Event::Html("</div>\n".into()));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                is_code = true;
                events.push(Event::Start(Tag::CodeBlock(kind)));
            }
            Event::End(TagEnd::CodeBlock) => {
                is_code = false;
                events.push(Event::End(TagEnd::CodeBlock));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = page_link(&dest_url).map_or(dest_url, CowStr::from);
                events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Text(text) if !is_code => push_with_citations(&mut events, &text, bibliography),
            other => events.push(other),
        }
    }
    let mut html = String::with_capacity(text.len() * 2);
    html::push_html(&mut html, events.into_iter());
    Body { html, headings }
}

fn plain_text(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Text(text) | Event::Code(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Pushes text, each citation turned into a link to the list of references.
fn push_with_citations(events: &mut Vec<Event<'_>>, text: &str, bibliography: &Bibliography) {
    let mut from = 0;
    for citation in citations_in(text) {
        let known: Vec<&str> =
            citation.keys.iter().map(String::as_str).filter(|key| bibliography.entry(key).is_some()).collect();
        let [key, ..] = known.as_slice() else { continue };
        events.push(Event::Text(text[from..citation.start].to_owned().into()));
        let shown = escape(&text[citation.start..citation.end].replace('@', ""));
        events.push(Event::Html(format!("<a class=\"cite\" href=\"{REFERENCES}#{key}\">{shown}</a>").into()));
        from = citation.end;
    }
    events.push(Event::Text(text[from..].to_owned().into()));
}

/// `chapter.md#part` as a link between pages; `None` for links that leave the book.
fn page_link(target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (file, part) = target.split_once('#').map_or((target, None), |(file, part)| (file, Some(part)));
    let page = file.strip_suffix(".md").map(|stem| format!("{stem}.html"))?;
    Some(part.map_or(page.clone(), |part| format!("{page}#{part}")))
}

fn page_name(file: &str) -> String {
    format!("{}.html", file.trim_end_matches(".md"))
}

fn unique_anchor(title: &str, earlier: &[Heading]) -> String {
    let mut anchor = String::new();
    for character in title.chars().flat_map(char::to_lowercase) {
        if character.is_alphanumeric() {
            anchor.push(character);
        } else if !anchor.is_empty() && !anchor.ends_with('-') {
            anchor.push('-');
        }
    }
    let anchor = anchor.trim_end_matches('-').to_owned();
    let n_same = earlier.iter().filter(|heading| heading.title == title).count();
    if n_same == 0 { anchor } else { format!("{anchor}-{n_same}") }
}

fn contents(chapters: &[Chapter], current: Option<usize>, headings: &[Heading]) -> String {
    let mut html = "<ol>\n".to_owned();
    for (position, chapter) in chapters.iter().enumerate() {
        let is_current = current == Some(position);
        let mark = if is_current { " aria-current=\"page\"" } else { "" };
        html += &format!("<li><a href=\"{}\"{mark}>{}</a>", page_name(&chapter.file), escape(&chapter.title));
        let mut parts = headings.iter().filter(|heading| heading.level == HeadingLevel::H2).peekable();
        if is_current && parts.peek().is_some() {
            html += "<ul>";
            for heading in parts {
                html += &format!("<li><a href=\"#{}\">{}</a></li>", heading.anchor, escape(&heading.title));
            }
            html += "</ul>";
        }
        html += "</li>\n";
    }
    let mark = if current.is_none() { " aria-current=\"page\"" } else { "" };
    html + &format!("<li><a href=\"{REFERENCES}\"{mark}>References</a></li>\n</ol>")
}

fn turn_links(chapters: &[Chapter], position: usize) -> String {
    let link = |chapter: Option<&Chapter>, rel: &str| {
        chapter.map_or(String::from("<span></span>"), |chapter| {
            format!("<a rel=\"{rel}\" href=\"{}\">{}</a>", page_name(&chapter.file), escape(&chapter.title))
        })
    };
    let before = position.checked_sub(1).and_then(|before| chapters.get(before));
    format!("<nav class=\"turn\">{}{}</nav>", link(before, "prev"), link(chapters.get(position + 1), "next"))
}

fn reference_list(bibliography: &Bibliography) -> String {
    let mut entries: Vec<_> = bibliography.entries.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    let mut html = "<h1>References</h1>\n<dl>\n".to_owned();
    for entry in entries {
        let field = |name: &str| entry.field(name).map(escape);
        let mut text = field("author").unwrap_or_default().replace(" and ", "; ");
        text += &format!(". <em>{}</em>", field("title").unwrap_or_default());
        for name in ["journal", "booktitle", "institution", "publisher"] {
            text += &field(name).map(|value| format!(". {value}")).unwrap_or_default();
        }
        text += &field("volume").map(|value| format!(" {value}")).unwrap_or_default();
        text += &field("number").map(|value| format!(" ({value})")).unwrap_or_default();
        text += &field("pages").map(|value| format!(", {}", value.replace("--", "–"))).unwrap_or_default();
        text += &field("year").map(|value| format!(", {value}")).unwrap_or_default();
        html += &format!("<dt id=\"{0}\">{0}</dt><dd>{text}.</dd>\n", entry.key);
    }
    html + "</dl>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn document(title: &str, contents: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} - daesy</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<nav class=\"side\"><input type=\"checkbox\" id=\"contents\"><label for=\"contents\">daesy</label>\n{contents}\n</nav>\n\
         <main>\n{body}\n</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapter(title: &str, file: &str, text: &str) -> Chapter {
        Chapter { title: title.to_owned(), file: file.to_owned(), text: String::new(), shown: text.to_owned() }
    }

    fn bibliography() -> Bibliography {
        Bibliography::parse("@article{pryce2001, author = {Pryce, J. D.}, title = {A & B}, year = 2001}")
    }

    #[test]
    fn pages_link_to_each_other_and_to_the_references() {
        let cite = format!("see [@{}, eq. (3)]", "pryce2001");
        let first = format!("# First\n\n## Part one\n\n[next](two.md#part) {cite}\n\n```text\n{cite}\n```\n");
        let chapters = [chapter("First", "one.md", &first), chapter("Second <b>", "two.md", "# Second\n")];
        let pages = render(&chapters, &bibliography());
        let names: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(names, ["index.html", "one.html", "two.html", "references.html"]);
        let one = &pages[1].html;
        assert!(one.contains("href=\"two.html#part\""));
        assert!(one.contains("<h2 id=\"part-one\">Part one</h2>"), "{one}");
        assert!(one.contains("<a class=\"cite\" href=\"references.html#pryce2001\">[pryce2001, eq. (3)]</a>"));
        assert_eq!(one.matches("class=\"cite\"").count(), 1, "code blocks stay as they are");
        assert!(one.contains("Second &lt;b&gt;"));
        assert!(pages[3].html.contains("<dt id=\"pryce2001\">"));
        assert!(pages[3].html.contains("A &amp; B"));
    }

    #[test]
    fn pages_need_no_network() {
        let chapters = [chapter("First", "one.md", "# First\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")];
        for page in render(&chapters, &bibliography()) {
            assert!(!page.html.contains("http"), "{}", page.file);
            assert!(!page.html.contains("<script"), "{}", page.file);
        }
    }
}
