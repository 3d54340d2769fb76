//! The language server, driven by a client over standard input and output.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::session::Session;

struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    n_requests: u64,
    /// Notifications that came while an answer was waited for.
    told: Vec<Value>,
}

impl Client {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_daesy"))
            .args(["lsp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, input, output, n_requests: 0, told: Vec::new() };
        let hello = client.ask("initialize", json!({ "capabilities": {}, "processId": null, "rootUri": null }));
        assert_eq!(hello["capabilities"]["hoverProvider"], true, "{hello}");
        client.tell("initialized", json!({}));
        client
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.input.flush().unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has gone");
            match line.trim().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn reply(&mut self, method: &str, params: Value) -> Value {
        self.n_requests += 1;
        let id = self.n_requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.told.push(message);
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let message = self.reply(method, params);
        assert!(message.get("error").is_none(), "{message}");
        message["result"].clone()
    }

    /// The next findings that are told about a file.
    fn findings(&mut self, uri: &str) -> Vec<Value> {
        loop {
            let is_meant = |message: &Value| {
                message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri
            };
            if let Some(at) = self.told.iter().position(is_meant) {
                return self.told.remove(at)["params"]["diagnostics"].as_array().unwrap().clone();
            }
            let message = self.receive();
            self.told.push(message);
        }
    }

    fn open(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({ "uri": uri, "languageId": "x", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.findings(uri)
    }

    fn change(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({ "uri": uri, "version": 2 });
        self.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [{ "text": text }] }));
        self.findings(uri)
    }

    /// Asks about the place right after some words of a text.
    fn ask_after(&mut self, method: &str, uri: &str, text: &str, words: &str) -> Value {
        let before = &text[..text.find(words).unwrap_or_else(|| panic!("no `{words}`")) + words.len()];
        let line = before.matches('\n').count();
        let character = before.rsplit('\n').next().unwrap().encode_utf16().count();
        let params = json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character } });
        self.ask(&format!("textDocument/{method}"), params)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn labels(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect()
}

const MODEL: &str = "model Tank \"Übung\"
  parameter Real area(unit = \"m2\") = 2 \"Area of the tank\";
  Modelica.Electrical.Analog.Basic.Resistor r(R = 3);
  Modelica.Electrical.Analog.Basic.Ground g;
  Real h(start = 1, fixed = true);
equation
  area*der(h) = -h;
  connect(r.p, g.p);
  connect(r.n, g.p);
end Tank;
";

#[test]
fn findings_follow_the_text_as_it_is_typed() {
    let session = Session::new();
    let uri = format!("file://{}", session.path("tank.mo").display());
    let mut client = Client::start();
    assert_eq!(client.open(&uri, MODEL), Vec::<Value>::new());
    let found = client.change(&uri, &MODEL.replace("= -h;", "= -hh;"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["code"], "unknown-name");
    assert_eq!(found[0]["severity"], 1);
    let range = &found[0]["range"];
    assert_eq!(range["start"], json!({ "line": 6, "character": 17 }), "{found:?}");
    assert_eq!(range["end"], json!({ "line": 6, "character": 19 }), "{found:?}");
    assert!(found[0]["message"].as_str().unwrap().contains("did you mean `h`"), "{found:?}");
    let broken = client.change(&uri, &MODEL.replace("= -h;", "= -h"));
    assert!(broken.iter().any(|one| one["severity"] == 1), "{broken:?}");
    assert_eq!(client.change(&uri, MODEL), Vec::<Value>::new());
}

#[test]
fn names_are_described_found_and_completed() {
    let session = Session::new();
    let uri = format!("file://{}", session.path("tank.mo").display());
    let mut client = Client::start();
    client.open(&uri, MODEL);
    let hover = client.ask_after("hover", &uri, MODEL, "  area*d").clone();
    assert!(hover.is_null() || hover["contents"]["value"].is_string());
    let hover = client.ask_after("hover", &uri, MODEL, "equation\n  are");
    let told = hover["contents"]["value"].as_str().unwrap();
    for words in ["**area** (parameter)", "Area of the tank", "value 2", "unit m2"] {
        assert!(told.contains(words), "{told}");
    }
    let class = client.ask_after("hover", &uri, MODEL, "Modelica.Electrical.Analog.Basic.Resis");
    assert!(class["contents"]["value"].as_str().unwrap().contains("(model)"), "{class}");
    let place = client.ask_after("definition", &uri, MODEL, "equation\n  are");
    assert_eq!(place["uri"], uri);
    assert_eq!(place["range"]["start"], json!({ "line": 1, "character": 17 }), "{place}");
    let component = client.ask_after("definition", &uri, MODEL, "connect(r");
    assert_eq!(component["range"]["start"]["line"], 2, "{component}");
    // A text that is being typed is completed from the last one that could be read.
    let typed = MODEL.replace("= -h;", "= -h + r.");
    client.change(&uri, &typed);
    let items = client.ask_after("completion", &uri, &typed, "= -h + r.");
    assert!(labels(&items).contains(&"R") && labels(&items).contains(&"p"), "{items}");
    let typed = MODEL.replace("  Real h", "  Modelica.Electrical.Analog.Basic.\n  Real h");
    client.change(&uri, &typed);
    let items = client.ask_after("completion", &uri, &typed, "  Modelica.Electrical.Analog.Basic.\n".trim_end());
    assert!(labels(&items).contains(&"Capacitor"), "{items}");
    let items = client.ask_after("completion", &uri, &typed, "equation\n");
    assert!(labels(&items).contains(&"area") && labels(&items).contains(&"equation"), "{items}");
    client.change(&uri, MODEL);
    let symbols = client.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(symbols[0]["name"], "Tank");
    let parts: Vec<&str> =
        symbols[0]["children"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(parts, ["area", "r", "g", "h"]);
}

#[test]
fn studies_are_checked_with_the_model_that_is_open() {
    let session = Session::new();
    let model = format!("file://{}", session.path("tank.mo").display());
    let uri = format!("file://{}", session.path("tank.toml").display());
    let study = "[model]\nfile = \"tank.mo\"\n[unknown]\n\"area\" = { start = 1, min = 0.1 }\n[simulate]\nstop = 2\n";
    let mut client = Client::start();
    client.open(&model, MODEL);
    assert_eq!(client.open(&uri, study), Vec::<Value>::new());
    let found = client.change(&uri, &study.replace("stop", "stopp"));
    assert_eq!(
        (&found[0]["code"], &found[0]["range"]["start"]["line"]),
        (&json!("unknown-key"), &json!(5)),
        "{found:?}"
    );
    client.change(&uri, study);
    let hover = client.ask_after("hover", &uri, study, "\"are");
    assert!(hover["contents"]["value"].as_str().unwrap().contains("Area of the tank"), "{hover}");
    let typed = study.replace("[simulate]", "\n[simulate]\nrt\n");
    let keys = client.ask_after("completion", &uri, study, "[simulate]\ns");
    assert!(labels(&keys).contains(&"rtol") && labels(&keys).contains(&"max_step"), "{keys}");
    client.change(&uri, &typed);
    let names = client.ask_after("completion", &uri, &typed, "min = 0.1 }\n");
    assert!(labels(&names).contains(&"area") && labels(&names).contains(&"r"), "{names}");
    let entry = client.ask_after("completion", &uri, &typed, "\"area\" = { ");
    assert!(labels(&entry).contains(&"prior"), "{entry}");
    let typed = format!("{study}[mea");
    client.change(&uri, &typed);
    let sections = client.ask_after("completion", &uri, &typed, "[mea");
    assert_eq!(labels(&sections), ["measurements"]);
    let symbols = client.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    assert_eq!(symbols[1]["name"], "unknown", "{symbols}");
}

#[test]
fn formatting_indents_and_keeps_comments() {
    let session = Session::new();
    let uri = format!("file://{}", session.path("tank.mo").display());
    let mut client = Client::start();
    let text = "model Tank // a remark\nReal h(start = 1, fixed = true);\n      equation\nder(h) = -h; /* kept */\nend Tank;\n";
    client.open(&uri, text);
    let options = json!({ "tabSize": 2, "insertSpaces": true });
    let edits = client.ask("textDocument/formatting", json!({ "textDocument": { "uri": uri }, "options": options }));
    let right =
        "model Tank // a remark\n  Real h(start = 1, fixed = true);\nequation\n  der(h) = -h; /* kept */\nend Tank;\n";
    assert_eq!(edits[0]["newText"], right, "{edits}");
    assert_eq!(edits[0]["range"]["end"], json!({ "line": 5, "character": 0 }), "{edits}");
    client.change(&uri, right);
    let edits = client.ask("textDocument/formatting", json!({ "textDocument": { "uri": uri }, "options": options }));
    assert_eq!(edits, json!([]));
    // Settings of other programs are none of its business.
    let other = format!("file://{}", session.path("Cargo.toml").display());
    assert_eq!(client.open(&other, "[package]\nname = \"x\"\n"), Vec::<Value>::new());
}

#[test]
fn a_client_that_asks_for_more_is_told_and_one_that_leaves_is_let_go() {
    let mut client = Client::start();
    let refused = client.reply("textDocument/rename", json!({ "textDocument": { "uri": "file:///x.mo" } }));
    assert!(refused["error"]["message"].as_str().unwrap().contains("not offered"), "{refused}");
    client.ask("shutdown", Value::Null);
    client.tell("exit", Value::Null);
    assert!(client.child.wait().unwrap().success());
}
