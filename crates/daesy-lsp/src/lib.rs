//! `daesy lsp`: a language server for models and studies, over standard input and output.
//!
//! It tells findings as you type, describes names, finds declarations, completes names and keys, and lists what is in a
//! file. A text that cannot be read keeps the answers of the last one that could. Formatting indents models anew and
//! touches nothing else.
#![forbid(unsafe_code)]

mod modelica;
mod study;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use daesy_graph::finding::Level;
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use serde_json::{Value, json};

use daesy_analysis::describe::{self, Entry};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;
use text::{Lines, path_of, uri_of};

/// A file that is open in the editor.
struct Document {
    path: PathBuf,
    text: String,
    /// The models of the last text that could be read.
    models: Vec<Loaded>,
}

impl Document {
    fn is_study(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// What the models say of a name.
    fn entry(&self, name: &str) -> Option<(Entry, &'static str)> {
        self.models.iter().find_map(|loaded| {
            let described = describe::describe(loaded);
            let groups = [
                (described.parameters, "parameter"),
                (described.inputs, "input"),
                (described.outputs, "output"),
                (described.variables, "variable"),
            ];
            groups.into_iter().find_map(|(entries, word)| {
                entries.into_iter().find(|entry| entry.name == name).map(|entry| (entry, word))
            })
        })
    }
}

/// What was found about a text.
struct Analysis {
    diagnostics: Vec<Diagnostic>,
    /// `None` if the text could not be read: the models before it stay.
    models: Option<Vec<Loaded>>,
}

/// Serves one client until it says goodbye.
///
/// # Errors
/// When the client breaks the protocol or standard input or output fail.
pub fn serve() -> Result<(), String> {
    let (connection, threads) = Connection::stdio();
    let served = run(&connection);
    drop(connection);
    threads.join().map_err(|error| error.to_string())?;
    served
}

/// Serves over any connection.
///
/// # Errors
/// When the client breaks the protocol.
pub fn run(connection: &Connection) -> Result<(), String> {
    let capabilities = json!({
        "textDocumentSync": 1,
        "hoverProvider": true,
        "definitionProvider": true,
        "completionProvider": { "triggerCharacters": [".", "[", "\""] },
        "documentSymbolProvider": true,
        "documentFormattingProvider": true,
    });
    let (id, _) = connection.initialize_start().map_err(|error| error.to_string())?;
    let hello = json!({
        "capabilities": capabilities,
        "serverInfo": { "name": "daesy", "version": env!("CARGO_PKG_VERSION") },
    });
    connection.initialize_finish(id, hello).map_err(|error| error.to_string())?;
    let mut server = Server { connection, documents: HashMap::new(), stale: Vec::new() };
    while let Ok(message) = connection.receiver.recv() {
        match message {
            Message::Request(request) => {
                if connection.handle_shutdown(&request).map_err(|error| error.to_string())? {
                    return Ok(());
                }
                server.refresh()?;
                server.answer(request)?;
            }
            Message::Notification(notification) => server.note(notification)?,
            Message::Response(_) => {}
        }
        // While more is on its way, an old text is not worth a look.
        if connection.receiver.is_empty() {
            server.refresh()?;
        }
    }
    Ok(())
}

struct Server<'c> {
    connection: &'c Connection,
    documents: HashMap<String, Document>,
    /// Documents whose text has changed since they were looked at.
    stale: Vec<String>,
}

impl Server<'_> {
    fn send(&self, message: Message) -> Result<(), String> {
        self.connection.sender.send(message).map_err(|error| error.to_string())
    }

    /// A text was opened, changed, saved or closed.
    fn note(&mut self, notification: Notification) -> Result<(), String> {
        let params = &notification.params;
        let Some(uri) = params["textDocument"]["uri"].as_str().map(str::to_owned) else { return Ok(()) };
        let text = match notification.method.as_str() {
            "textDocument/didOpen" => params["textDocument"]["text"].as_str(),
            "textDocument/didChange" => {
                params["contentChanges"].as_array().and_then(|changes| changes.last()?["text"].as_str())
            }
            "textDocument/didSave" => {
                // Studies may name the file that was saved.
                self.stale.extend(self.documents.keys().cloned());
                return Ok(());
            }
            "textDocument/didClose" => {
                self.documents.remove(&uri);
                return self.publish(&uri, &[]);
            }
            _ => return Ok(()),
        };
        let (Some(text), Some(path)) = (text, path_of(&uri)) else { return Ok(()) };
        let models = self.documents.remove(&uri).map(|document| document.models).unwrap_or_default();
        self.documents.insert(uri.clone(), Document { path, text: text.to_owned(), models });
        self.stale.push(uri);
        Ok(())
    }

    /// Looks at all texts that have changed, and tells what was found.
    fn refresh(&mut self) -> Result<(), String> {
        let mut stale = std::mem::take(&mut self.stale);
        stale.sort();
        stale.dedup();
        for uri in stale {
            let open: BTreeMap<PathBuf, String> =
                self.documents.values().map(|document| (document.path.clone(), document.text.clone())).collect();
            let Some(document) = self.documents.get_mut(&uri) else { continue };
            // A defect of the analysis must not end the server.
            let analyzed = catch_unwind(AssertUnwindSafe(|| {
                if document.is_study() { study::analyze(document, &open) } else { modelica::analyze(document) }
            }));
            let Ok(analysis) = analyzed else { continue };
            if let Some(models) = analysis.models {
                document.models = models;
            }
            let list = shown(document, &analysis.diagnostics);
            self.publish(&uri, &list)?;
        }
        Ok(())
    }

    fn publish(&self, uri: &str, diagnostics: &[Value]) -> Result<(), String> {
        let params = json!({ "uri": uri, "diagnostics": diagnostics });
        self.send(Message::Notification(Notification { method: "textDocument/publishDiagnostics".to_owned(), params }))
    }

    fn answer(&self, request: Request) -> Result<(), String> {
        let params = &request.params;
        let document = params["textDocument"]["uri"].as_str().and_then(|uri| self.documents.get(uri));
        let position = &params["position"];
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let document = document?;
            let offset = || Lines::new(&document.text).offset(position);
            Some(match request.method.as_str() {
                "textDocument/hover" => hover(document, offset()?),
                "textDocument/definition" => definition(document, offset()?),
                "textDocument/completion" => Value::Array(completions(document, offset()?)),
                "textDocument/documentSymbol" => Value::Array(if document.is_study() {
                    study::symbols(document)
                } else {
                    modelica::symbols(document)
                }),
                "textDocument/formatting" if !document.is_study() => formatted(&document.text),
                _ => return None,
            })
        }));
        let response = match answered {
            Ok(Some(result)) => Response::new_ok(request.id, result),
            Ok(None) if KNOWN.contains(&request.method.as_str()) => Response::new_ok(request.id, Value::Null),
            Ok(None) => {
                let message = format!("`{}` is not offered", request.method);
                Response::new_err(request.id, ErrorCode::MethodNotFound as i32, message)
            }
            Err(_) => {
                let message = "this is a defect of daesy".to_owned();
                Response::new_err(request.id, ErrorCode::InternalError as i32, message)
            }
        };
        self.send(Message::Response(response))
    }
}

/// Requests that are answered.
const KNOWN: [&str; 5] = [
    "textDocument/hover",
    "textDocument/definition",
    "textDocument/completion",
    "textDocument/documentSymbol",
    "textDocument/formatting",
];

/// The edits that indent a model anew: none where it is so already.
fn formatted(text: &str) -> Value {
    let indented = daesy_model::indent::indent(text);
    if indented == text {
        return json!([]);
    }
    json!([{ "range": Lines::new(text).range(0, text.len()), "newText": indented }])
}

/// Findings as the protocol wants them. Those about other files stand at the top, with their place.
fn shown(document: &Document, diagnostics: &[Diagnostic]) -> Vec<Value> {
    let lines = Lines::new(&document.text);
    let name = document.name();
    let one = |diagnostic: &Diagnostic| {
        let own = diagnostic.place.as_ref().filter(|place| place.file == name);
        let width = diagnostic.excerpts.first().map_or(1, |excerpt| excerpt.width);
        let range = match own {
            Some(place) => lines.range_at(place.line, place.column, width),
            None => lines.range_at(1, 1, 1),
        };
        let place = match (&diagnostic.place, own) {
            (Some(place), None) => format!("{place}: "),
            _ => String::new(),
        };
        let help = diagnostic.help.as_ref().map_or_else(String::new, |help| format!("\n{help}"));
        json!({
            "range": range,
            "severity": match diagnostic.level { Level::Error => 1, Level::Warning => 2, Level::Note => 3 },
            "code": diagnostic.code,
            "source": "daesy",
            "message": format!("{place}{}{help}", diagnostic.message),
        })
    };
    diagnostics.iter().map(one).collect()
}

/// The name at an offset with everything that is known about it.
fn hover(document: &Document, offset: usize) -> Value {
    let word = text::word_at(&document.text, offset);
    let told = document.entry(word.text).map(|(entry, kind)| described(&entry, kind));
    let told = told.or_else(|| if document.is_study() { None } else { modelica::hover(document, &word) });
    match told {
        Some(text) => json!({ "contents": { "kind": "markdown", "value": text } }),
        None => Value::Null,
    }
}

/// What a model says of a name, in Markdown.
fn described(entry: &Entry, kind: &str) -> String {
    let mut told = vec![format!("**{}** ({kind})", entry.name)];
    told.extend(entry.description.clone());
    let mut facts = Vec::new();
    if !entry.value.is_null() {
        facts.push(format!("value {}", entry.value));
    }
    facts.extend(entry.unit.as_ref().map(|unit| format!("unit {unit}")));
    facts.extend(
        entry.start.map(|start| format!("start {start}{}", if entry.fixed == Some(true) { ", fixed" } else { "" })),
    );
    facts.extend(entry.min.map(|min| format!("min {min}")));
    facts.extend(entry.max.map(|max| format!("max {max}")));
    if !facts.is_empty() {
        told.push(facts.join("; "));
    }
    told.extend(entry.place.as_ref().map(|place| format!("declared at {place}")));
    told.join("\n\n")
}

/// Where the name at an offset is declared.
fn definition(document: &Document, offset: usize) -> Value {
    let word = text::word_at(&document.text, offset);
    let place = document.models.iter().find_map(|loaded| {
        let var = loaded.flat.find(word.text)?;
        loaded.flat.sources.place(loaded.flat.variables[var.index()].span)
    });
    if let Some(place) = place {
        let path = PathBuf::from(&place.file);
        let text =
            if path == document.path { Some(document.text.clone()) } else { std::fs::read_to_string(&path).ok() };
        // Classes of the built-in library have no file.
        return text.map_or(
            Value::Null,
            |text| json!({ "uri": uri_of(&path), "range": Lines::new(&text).range_at(place.line, place.column, 1) }),
        );
    }
    if document.is_study() { Value::Null } else { modelica::definition(document, &word) }
}

fn completions(document: &Document, offset: usize) -> Vec<Value> {
    if document.is_study() { study::completions(document, offset) } else { modelica::completions(document, offset) }
}

/// Names of the models that begin with a prefix, up to their next dot.
fn names_after(document: &Document, prefix: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Value> {
    const MOST: usize = 500;
    let mut items: BTreeMap<String, Value> = BTreeMap::new();
    for loaded in &document.models {
        let described = describe::describe(loaded);
        let groups =
            [("parameter", described.parameters), ("input", described.inputs), ("variable", described.variables)];
        for (kind, entries) in groups.into_iter().filter(|(kind, _)| is_wanted(kind)) {
            for entry in entries {
                let Some(rest) = entry.name.strip_prefix(prefix) else { continue };
                if rest.is_empty() || items.len() >= MOST {
                    continue;
                }
                let (label, is_whole) = rest.split_once('.').map_or((rest, true), |(first, _)| (first, false));
                let item = if is_whole {
                    let unit = entry.unit.as_ref().map_or_else(String::new, |unit| format!(" in {unit}"));
                    json!({
                        "label": label,
                        "kind": if kind == "parameter" { 21 } else { 6 },
                        "detail": format!("{kind}{unit}"),
                        "documentation": entry.description,
                    })
                } else {
                    json!({ "label": label, "kind": 9, "detail": "component" })
                };
                items.entry(label.to_owned()).or_insert(item);
            }
        }
    }
    items.into_values().collect()
}
