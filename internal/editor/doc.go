// Package editor talks to the extension in a running VS Code that has started
// this program: JSON-RPC 2.0, one object a line, on its standard streams.
// Requests go both ways, with ids of their own in each direction. The editor's
// models, its open documents, its providers and its dialogs are methods here;
// what to do with them is for the agent, the workspace and the composition
// root to say. docs/vscode.md has the protocol.
//
// Whatever is asked of the editor is bounded twice: the extension is told how
// long it may take (timeoutMs) and answers in time even if VS Code itself does
// not, and should the extension hang as well, this side gives up a little
// later. A line that is no message ends the connection: it is our own
// extension on the other side, so that can only be a mistake or a broken pipe.
package editor
