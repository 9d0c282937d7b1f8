// Starts `bertc lsp` in the folder that is open, and joins it to documents of the language.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const python = workspace.getConfiguration("bertc").get("python");
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient(
    "bertc",
    { command: python, args: ["-m", "bertc.cli", "lsp"], options: { cwd: folder } },
    {
      documentSelector: [{ language: "bertc" }],
      synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.bertc") },
    },
  );
  return client.start();
};

exports.deactivate = () => client?.stop();
