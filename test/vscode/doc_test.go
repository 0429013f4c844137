// Package vscode runs the packaged extension in a real VS Code (code-server,
// which is VS Code with its own extension host on this machine) that a headless
// browser drives, with the built binary behind it. Only the words of the model
// are made up: a second extension plays the vendor “copilot” and says what the
// test tells it to.
//
// It takes minutes to set up once and a good minute to start, so it runs only
// where COPILOT_BRIDGE_TEST_VSCODE=1 is set, as `make test-vscode` does.
package vscode
