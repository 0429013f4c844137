// Package language asks language servers about files: their symbols, their
// formatted text, their text with organised imports. It keeps one server per
// language warm for a directory, shared by concurrent callers, restarts it
// when it dies and stops it when nobody asked for a while.
//
// It never writes: callers get new content and store it themselves. It knows
// no policy; Options.Permit is asked about every server and formatter before it
// starts.
//
// The client is written by hand. Of the libraries, those with the protocol's
// types are no longer kept and larger than this whole program, and the
// general JSON-RPC ones would still leave to us what takes the care here:
// framing that survives noise, writes that a stuck server must not block,
// bounds, and cancellation. What they would save is a map of pending calls.
package language
