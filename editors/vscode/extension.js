// Starts `daesy lsp` and connects the editor to it.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const command = workspace.getConfiguration("daesy").get("program", "daesy");
  const server = { command, args: ["lsp", "--stdio"] };
  const documentSelector = [
    { scheme: "file", language: "modelica" },
    { scheme: "file", language: "toml" },
  ];
  client = new LanguageClient("daesy", "daesy", server, { documentSelector });
  return client.start();
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate };
