// Package vscode runs the packaged extension and the built binary in a real VS
// Code: code-server, which is VS Code with a local extension host. A headless
// browser drives it. Only the model's answers are fake: a second extension acts
// as the model vendor "copilot" and answers what the test says. The tests run
// only with COPILOT_BRIDGE_TEST_VSCODE=1, as in `make test-vscode`.
package vscode
