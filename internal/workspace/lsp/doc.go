// Package lsp asks language servers about files: their symbols, their formatted
// text, their text with organised imports. It never writes: callers get new
// content and store it themselves. It knows no policy: Options.Permit is asked
// before a server or formatter starts. Package workspace makes the Manager and
// calls it.
package lsp
