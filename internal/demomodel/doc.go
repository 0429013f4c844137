// Package demomodel is the built-in offline model: an OpenAI-compatible server
// on loopback that the real runtime uses as its provider when there is no
// login. It is not a language model: its replies follow fixed rules and
// directives (see parseScript), and it connects to nothing. internal/app starts
// it for the demo. Tests start it too, and script it exactly.
package demomodel

// ModelID is the id of the one model that is listed.
const ModelID = "rehearsal-1"

// Notice is what every surface shows while this model answers. It is short, as
// it is said each time.
const Notice = "NOT COPILOT: the demo model answers; see `copilot-bridge validate`"

// signature ends every reply that a person may take for Copilot's.
const signature = "(I am the demo model, not Copilot: `copilot-bridge validate` says how to get it.)"
