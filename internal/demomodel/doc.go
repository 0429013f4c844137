// Package demomodel is the built-in offline model: an OpenAI-compatible server
// on loopback that the real runtime uses as its provider when there is no
// login. It is not a language model: its replies follow fixed rules and
// directives (see parseScript), and it connects to nothing. internal/app starts
// it for the demo. Tests start it too, and script it exactly.
package demomodel

// ModelID is the id of the one model that is listed.
const ModelID = "rehearsal-1"

// Notice is what every surface shows while this model answers.
const Notice = "NOT COPILOT: answers come from the built-in demo model, an offline stand-in that only echoes and acts on simple requests. " + remedy

const remedy = "To get Copilot, log in with `copilot-bridge login` or set COPILOT_GITHUB_TOKEN; " +
	"to use another provider, set COPILOT_BYOK_PROVIDER, COPILOT_BYOK_API_KEY, COPILOT_BYOK_BASE_URL and COPILOT_BYOK_MODEL."

// signature ends every reply that a person may take for Copilot's.
const signature = "(I am the demo model, not Copilot. To get Copilot, log in with `copilot-bridge login` or set COPILOT_GITHUB_TOKEN, " +
	"or configure a provider with COPILOT_BYOK_*.)"
