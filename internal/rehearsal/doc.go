// Package rehearsal is the built-in offline model: an OpenAI-compatible
// chat-completions server on loopback, inside this process, that the real
// Copilot runtime calls as its provider when there is no login, and that tests
// script exactly. It is not Copilot, it is not a language model, and it
// reaches nothing but the connection it answers on. The composition root
// starts it and hands its URL and key to an agent; tests start it themselves.
//
// The reply to a request is the first of these that applies:
//
//  1. a function given to [Server.Handle] that accepts the request;
//  2. the next reply queued with [Server.Push];
//  3. directives in the last user message (below);
//  4. the reading of the last user message as a simple request, such as
//     "create hello.txt saying hi" or "run the tests", turned into calls of
//     tools that the request offers, and a sentence about what came of them.
//     Asked by the orchestrator for a plan, it divides such a message into its
//     requests;
//  5. an echo.
//
// The same request always gets the same reply, except where directives count
// attempts.
//
// # Directives
//
// A line of the last user message that begins with "rehearsal:" is a
// directive; other lines beside directives are ignored. One directive is one
// step of the reply, in order:
//
//	rehearsal: text WORDS              text, streamed word by word
//	rehearsal: chunks A|B|C            text, streamed in these chunks
//	rehearsal: reason WORDS            reasoning text
//	rehearsal: delay 50ms              a pause, at most 10m
//	rehearsal: tool NAME {JSON}        a tool call; several are parallel calls
//	rehearsal: usage IN OUT [CACHED [REASONING]]
//	rehearsal: finish REASON           finish_reason, such as length
//	rehearsal: status CODE [MESSAGE]   an HTTP error, 400 to 599
//	rehearsal: ratelimit 2s            HTTP 429 with Retry-After
//	rehearsal: cut                     the connection is cut here
//	rehearsal: silence                 nothing more is sent, ever
//	rehearsal: malformed RAW           RAW goes into the body as it is
//	rehearsal: next                    what follows answers the next request
//	rehearsal: once                    what follows answers the next attempt
//
// In text, chunks, reason and malformed, \n, \r, \t and \\ are escapes, and \|
// is a bar inside a chunk. A line that cannot be read yields a reply that
// names it.
//
// "next" divides a turn: the part before it answers the user's message, the
// part after it the request that brings the tool results, and so on. Which
// part applies is the number of assistant messages after the last user
// message. Past the last part the reply says that the script has ended and
// what the tools answered.
//
// "once" divides a part by attempts: what is before it answers the first time
// that a request comes, what is after it answers when the very same bytes
// come again. The last division answers all further attempts.
package rehearsal

// ModelID is the id of the one model that is listed.
const ModelID = "rehearsal-1"

// Notice is what every surface shows while this model answers.
const Notice = "NOT COPILOT: answers come from the built-in rehearsal model, an offline stand-in that only echoes and acts on simple requests. " + remedy

const remedy = "To get Copilot, log in with `copilot login` or set COPILOT_GITHUB_TOKEN; " +
	"to use another provider, set COPILOT_BYOK_PROVIDER, COPILOT_BYOK_API_KEY, COPILOT_BYOK_BASE_URL and COPILOT_BYOK_MODEL."

// signature ends every reply that a person may take for Copilot's.
const signature = "(I am the rehearsal model, not Copilot. To get Copilot, log in with `copilot login` or set COPILOT_GITHUB_TOKEN, " +
	"or configure a provider with COPILOT_BYOK_*.)"
